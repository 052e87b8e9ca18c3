import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from metricsbridge import cli

COMMAND = [sys.executable, "-m", "metricsbridge.cli"]


@attrs.frozen
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        [line] = self.out.splitlines()
        return json.loads(line)


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("METRICSBRIDGE", "HUAWEICLOUD", "COLUMNS", "FORCE_COLOR", "TTY_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command line in this process."""

    def call(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["metricsbridge", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            cli.main()
        captured = capsys.readouterr()
        code = exit_info.value.code
        assert isinstance(code, int)
        return Ran(code, captured.out, captured.err)

    return call


@attrs.frozen
class Emulated:
    line: dict[str, Any]

    def config(self, folder: Path, /, **changes: str) -> str:
        """Write a configuration with the source ``emu``."""
        settings = {**self.line["settings"], **changes}
        limits = settings.pop("limits")
        lines = ["[sources.emu]", f'provider = "{self.line["provider"]}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        lines += ["[sources.emu.limits]", *[f'"{key}" = "{value}"' for key, value in limits.items()]]
        path = folder / "sources.toml"
        path.write_text("\n".join(lines))
        return str(path)


@pytest.fixture(scope="session")
def emulated() -> Iterator[Emulated]:
    """Serve the emulator in a process of its own, by the command that users have."""
    with subprocess.Popen(
        [*COMMAND, "emulate", "modelarts", "--json", "--seed", "3"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Emulated(json.loads(process.stdout.readline()))
        finally:
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=20)
        assert (rest, process.returncode) == ("", 0)
