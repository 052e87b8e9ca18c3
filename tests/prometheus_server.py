"""A real Prometheus on a loopback port for the tests, and samples written into its storage beforehand."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LONGEST_START_S: Final = 60.0
READY: Final = "Server is ready to receive web requests"


def require_binaries() -> None:
    """Skip the test where Prometheus is not installed, saying so; under CI that is a failure."""
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    if missing:
        text = f"{' and '.join(missing)} not found: install the package prometheus of the distribution"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class _Log:
    """What a process writes, read as it comes so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self.settled = threading.Event()
        self.ready = False
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)
            if READY in line:
                self.ready = True
                self.settled.set()
        self.settled.set()

    def join(self) -> None:
        self._thread.join(timeout=LONGEST_START_S)


@contextmanager
def running(folder: Path, scrape: str = "", *, web: str = "") -> Iterator[str]:
    """Run a server whose storage is ``folder/data``; gives its URL once it is ready, and ends it by its process.

    Args:
        folder: Holds its storage and its configuration.
        scrape: Rest of its configuration.
        web: Configuration of its web server, where it is to be secured.
    """
    require_binaries()
    configuration = folder / "prometheus.yml"
    configuration.write_text(f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n{scrape}", "utf-8")
    (folder / "data").mkdir(exist_ok=True)
    for attempt in range(5):  # another process may take the port before the server does
        port = free_port()
        command = [
            "prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y", "--log.level=info",
        ]  # fmt: skip
        if web:
            (folder / "web.yml").write_text(web, "utf-8")
            command.append(f"--web.config.file={folder / 'web.yml'}")
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            log = _Log(process)
            try:
                assert log.settled.wait(LONGEST_START_S), "".join(log.lines)
                if not log.ready:
                    if attempt < 4 and any("address already in use" in line for line in log.lines):
                        continue
                    raise AssertionError(f"the server ended: {''.join(log.lines[-5:])}")
                if web:
                    yield f"https://127.0.0.1:{port}"
                    return
                url = f"http://127.0.0.1:{port}"
                with urllib.request.urlopen(f"{url}/-/ready", timeout=LONGEST_START_S) as answer:
                    assert answer.status == 200
                yield url
            finally:
                process.terminate()
                try:
                    process.wait(timeout=LONGEST_START_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                log.join()
            return


def backfill(folder: Path, families: Iterable[tuple[str, str, Iterable[str]]]) -> None:
    """Write samples into the storage of a server that does not run yet.

    Args:
        folder: As of ``running``.
        families: Of each metric its name, its type, and its lines in OpenMetrics' text format.
    """
    require_binaries()
    written = folder / "samples.txt"
    with written.open("w", encoding="utf-8") as file:
        for name, kind, lines in families:
            family = name.removesuffix("_total") if kind == "counter" else name
            file.write(f"# TYPE {family} {kind}\n")
            file.writelines(lines)
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(written), str(folder / "data")]
    (folder / "data").mkdir(exist_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    written.unlink()
