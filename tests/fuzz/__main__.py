"""Fuzzes the compiled kernel, guided by coverage, under AddressSanitizer and UndefinedBehaviorSanitizer.

Everything is built and kept in a folder that is deleted afterwards, but for what was found.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from fuzz.instrumented import NoClangError, build, environment, find_clang
from fuzz.seeds import seeds, words
from fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOUND: Final = "found-"
_LARGEST: Final = 4500
"""Bytes: inputs do not get longer than this."""

_STATUS: Final = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)
_EDGES: Final = re.compile(r"\((\d+) inline 8-bit counters\)")


_WRONG: Final = re.compile(r"^(Traceback|=+\n==\d+==ERROR|.*runtime error|==\d+== ?ERROR)", re.MULTILINE)


@attrs.frozen
class Bench:
    """What runs targets.

    Attributes:
        module: The instrumented kernel.
        environ: The variables to run it with.
        folder: For dictionaries, and for what is found.
        inputs: For the inputs of each target, which may be there already.
        ended: Set when all is to end.
        children: The processes that were started.
    """

    module: Path
    environ: Mapping[str, str]
    folder: Path
    inputs: Path
    ended: threading.Event = attrs.field(factory=threading.Event)
    children: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def command(self, target: str, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "fuzz.one_target", str(self.module), target, *arguments]

    def prepare(self, target: str) -> Path:
        """Write the seeds and the dictionary of a target, and give the folder of its inputs."""
        inputs = self.inputs / target
        inputs.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds(target)):
            (inputs / f"seed-{number:04}").write_bytes(seed)
        quoted = ['"' + "".join([f"\\x{byte:02x}" for byte in word]) + '"' for word in words(target)]
        lines = ["# what is likely to be a part of an input", *quoted]
        (self.folder / f"{target}.dict").write_text("\n".join(lines), "ascii")
        return inputs

    def fuzz(self, target: str, seconds: int) -> str:
        """Fuzz a target for some time; gives a line about it.

        Raises:
            FoundError: Something was found.
        """
        inputs = self.prepare(target)
        found = self.folder / f"{_FOUND}{target}-"
        command = self.command(
            target, f"-max_total_time={seconds}", f"-artifact_prefix={found}", f"-dict={self.folder / target}.dict",
            f"-max_len={_LARGEST}", "-timeout=20", "-rss_limit_mb=4096", "-detect_leaks=0", "-use_value_profile=1",
            str(inputs),
        )  # fmt: skip
        with subprocess.Popen(
            command, env=self.environ, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as child:
            self.children.append(child)
            if self.ended.is_set():
                child.kill()
            said = child.communicate()[0].decode(errors="replace")
        (self.folder / f"{target}.log").write_text(said, "utf-8")
        if child.returncode:
            raise FoundError(target, said, sorted(self.folder.glob(f"{found.name}*")))
        executions, edges, features, kept = _STATUS.findall(said)[-1]
        return (
            f"{target}: {executions} executions, {edges} of the kernel's {_EDGES.findall(said)[0]} edges, "
            f"{features} features, {kept} inputs kept"
        )

    def fuzz_all(self, targets: Sequence[str], seconds: int, jobs: int) -> list[FoundError]:
        """Fuzz targets, so many at once; gives what went wrong. Whatever ends it ends the processes, too."""
        failed = []
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for result in [pool.submit(self.fuzz, target, seconds) for target in targets]:
                    try:
                        print(result.result(), flush=True)
                    except FoundError as error:
                        failed.append(error)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.ended.set()
                for child in self.children:
                    child.kill()
                raise
        return failed


class FoundError(Exception):
    """A target went wrong, or did not run.

    Attributes:
        target: Its name.
        said: What it printed.
        inputs: Those that did it.
    """

    def __init__(self, target: str, said: str, inputs: Sequence[Path]) -> None:
        super().__init__(target)
        self.target, self.said, self.inputs = target, said, inputs


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz what is asked for; gives 0 where nothing was found, 1 where something was, 2 where it can't be done."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        clang = find_clang()
    except NoClangError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        folder = Path(temporary)
        bench = Bench(build(clang, folder), environment(clang), folder, (asked.keep or folder).resolve() / "inputs")
        if asked.reproduce:
            (target,) = asked.targets
            return subprocess.run(bench.command(target, str(asked.reproduce.resolve())), env=bench.environ).returncode
        targets = asked.targets or list(TARGETS)
        share = max(1, asked.seconds * min(asked.jobs, len(targets)) // len(targets))
        print(f"{len(targets)} targets, {share} s each, {asked.jobs} at once", flush=True)
        failed = bench.fuzz_all(targets, share, asked.jobs)
        for error in failed:
            _report(error, asked.keep or Path(tempfile.mkdtemp(prefix="found-")))
    return 1 if failed else 0


def _report(error: FoundError, folder: Path) -> None:
    """Print what a target found, and put the input where it is kept."""
    start = _WRONG.search(error.said)
    said = error.said[start.start() :].splitlines() if start else error.said.splitlines()[-20:]
    print(f"\n{error.target} went wrong:", *said[:16], *[line for line in said[16:] if "SUMMARY" in line], sep="\n")
    for path in error.inputs:
        kept = folder / path.name
        kept.write_bytes(path.read_bytes())
        print(f"the input: {path.read_bytes()!r}\nkept in {kept}; again:")
        print(f"tests/fuzz/run --reproduce {kept} {error.target}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests/fuzz/run", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"by default all: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together (600)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once (one a processor)")
    parser.add_argument("--keep", type=Path, help="a folder for what is found, and for the inputs to go on from")
    parser.add_argument("--reproduce", type=Path, metavar="FILE", help="run one target on one input")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
