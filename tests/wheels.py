"""Builds wheels with the backend that is installed here."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import pytest

from fresh_interpreter import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT: Final = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
_BUILD: Final = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def _backend_is_new_enough() -> bool:
    wanted = next(entry for entry in PYPROJECT["build-system"]["requires"] if entry.startswith("setuptools"))
    try:
        return int(version("setuptools").partition(".")[0]) >= int(wanted.partition(">=")[2])
    except ModuleNotFoundError:
        return False


def build_wheel(source: Path, target: Path) -> Path:
    """Build a wheel with the backend that is installed here, and give its path."""
    if not _backend_is_new_enough():
        pytest.skip("no setuptools as new as the build needs")
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(target)], cwd=source, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = target.glob("*.whl")
    return built
