"""The files of the project, for tests of what they may say."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from fresh_interpreter import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS: Final = ("metricsbridge", "providers", "tests", "benchmarks")
FILES: Final = ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", ".ci/run")

BUILT: Final = (".so", ".pyd", ".c")
"""What building the kernel leaves beside its source, which has none of these."""


def tracked() -> list[str] | None:
    """Give the paths that are under version control, or None where the sources are not a checkout."""
    if not (PROJECT / ".git").exists():
        return None
    done = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def files_in(folder: str) -> list[Path]:
    """Give every file below a folder of the project, but for what Python, its tools and the compiler leave there."""
    return [
        path
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.is_file()
        and path.suffix not in BUILT
        and not any(part == "__pycache__" or part.startswith(".") for part in path.parts[1:])
    ]


def project_files() -> list[Path]:
    """Give every file that people write."""
    single = [PROJECT / name for name in FILES if (PROJECT / name).is_file()]
    return single + [path for folder in FOLDERS for path in files_in(folder)]


def name_of(path: Path) -> str:
    """Give a path as the project's readers know it."""
    return path.relative_to(PROJECT).as_posix()
