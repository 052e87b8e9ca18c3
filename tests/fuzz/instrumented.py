"""Builds the kernel with clang so that each wrong access, each undefined operation and each new edge is noticed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from fresh_interpreter import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNEL: Final = PROJECT / "metricsbridge" / "series" / "kernel"
DRIVER: Final = Path(__file__).parent / "driver.pyx"

# Variables that nothing was written to hold a pattern: what depends on them differs from the slow twin.
_CHECKED: Final = (
    "-g", "-O1", "-fPIC", "-fno-omit-frame-pointer", "-fno-strict-aliasing", "-ftrivial-auto-var-init=pattern",
    "-fsanitize=address,undefined,fuzzer-no-link", "-fno-sanitize-recover=undefined", "-Wno-everything",
)  # fmt: skip
_GUIDING: Final = "src:*\nfun:__pyx_f_8_kernels_*\nfun:__pyx_pf_8_kernels_*\n"
"""Whose edges guide the fuzzer and are counted: the kernel's own functions, not what Cython brings along."""

_PLAIN: Final = ("-g", "-O1", "-fPIC", "-Wno-everything")


class NoClangError(Exception):
    """There is no clang here with the libraries that fuzzing needs."""


@attrs.frozen
class Clang:
    """A compiler, and its libraries.

    Attributes:
        command: Its path.
        sanitizer: AddressSanitizer as a shared library, to be loaded before all others.
        fuzzer: libFuzzer without a main function, an archive.
    """

    command: str
    sanitizer: Path
    fuzzer: Path


def find_clang() -> Clang:
    """Give the first clang on the path that has the libraries.

    Raises:
        NoClangError: There is none; says what to install.
    """
    names = ["clang", *(f"clang-{number}" for number in range(30, 13, -1))]
    commands = [command for name in names if (command := shutil.which(name))]
    for command in commands:
        sanitizer, fuzzer = _library(command, "asan", "so"), _library(command, "fuzzer_no_main", "a")
        if sanitizer and fuzzer:
            return Clang(command, sanitizer, fuzzer)
    version = re.search(r"version (\d+)", _output([commands[0], "--version"])) if commands else None
    raise NoClangError(
        "fuzzing needs clang with its sanitizers and libFuzzer; on Debian or Ubuntu: "
        f"apt-get install clang libclang-rt-{version[1] if version else 'N'}-dev (N is the version of clang)"
    )


def _library(command: str, name: str, kind: str) -> Path | None:
    machine = platform.machine()
    for file in (f"libclang_rt.{name}-{machine}.{kind}", f"libclang_rt.{name}.{kind}"):
        path = Path(_output([command, f"-print-file-name={file}"]).strip())
        if path.is_file():
            return path
    return None


def build(clang: Clang, folder: Path) -> Path:
    """Build kernel and driver as one extension module in a folder, and give its path.

    They are one file, for libFuzzer must be who the kernel reports its edges to, and not AddressSanitizer's stubs.
    """
    sources = folder / "source"
    shutil.copytree(KERNEL, sources, ignore=shutil.ignore_patterns("*.c", "__pycache__"))
    shutil.copy(DRIVER, sources)
    objects = []
    (sources / "guiding.txt").write_text(_GUIDING, "ascii")
    guided = (*_CHECKED, "-fsanitize-coverage-allowlist=guiding.txt")
    for name, flags in (("_kernels", guided), ("driver", _PLAIN)):
        _output([sys.executable, "-m", "cython", "-3", f"{name}.pyx"], sources)
        include = f"-I{sysconfig.get_path('include')}"
        _output([clang.command, *flags, include, "-c", f"{name}.c", "-o", f"{name}.o"], sources)
        objects.append(f"{name}.o")
    built = folder / "instrumented.so"
    _output(
        [clang.command, "-shared", "-shared-libasan", "-fsanitize=address,undefined", "-Wl,-Bsymbolic", *objects,
         str(clang.fuzzer), "-lstdc++", "-lm", "-lpthread", "-o", str(built)],
        sources,
    )  # fmt: skip
    return built


def environment(clang: Clang) -> dict[str, str]:
    """Give the variables with which an interpreter can load what was built.

    Each object of Python has a block of memory of its own, so that one byte too far is seen.
    """
    options = [
        "detect_leaks=0",  # of the interpreter there are many; the target itself counts what stays allocated
        "allocator_may_return_null=1",
        "max_malloc_fill_size=1000000",  # memory that nothing was written to holds a pattern too
        "handle_abort=1",
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METRICSBRIDGE", "PYTHON"))}
    return {
        **kept,
        "LD_PRELOAD": str(clang.sanitizer),
        "ASAN_OPTIONS": ":".join(options),
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "providers"), str(PROJECT / "tests")]),
    }


def _output(command: Sequence[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
