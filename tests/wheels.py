"""Builds wheels with the backend that is installed here, and makes environments to install them into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import attrs
import pytest

from fresh_interpreter import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PYPROJECT: Final = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
_BUILD: Final = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"

NO_COMPILER: Final = {"CC": "no-such-compiler", "CXX": "no-such-compiler"}
"""Variables with which setuptools finds no compiler, whatever is on the path."""


def _backend_is_new_enough() -> bool:
    wanted = next(entry for entry in PYPROJECT["build-system"]["requires"] if entry.startswith("setuptools"))
    try:
        return int(version("setuptools").partition(".")[0]) >= int(wanted.partition(">=")[2])
    except ModuleNotFoundError:
        return False


def copy_sources(target: Path) -> Path:
    """Copy the project without what was built of it, and give the copy's path."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*", "*.c", "*.so", "*.pyd")
    for name in ("metricsbridge", "providers", "tests", "benchmarks"):
        shutil.copytree(PROJECT / name, target / name, ignore=ignored)
    for name in ("pyproject.toml", PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"]):
        shutil.copy(PROJECT / name, target)
    return target


def need_compiler() -> None:
    """Skip where there is no C compiler, and fail where one must be."""
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if not shutil.which(command):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no C compiler: {command}")


def build_wheel(source: Path, target: Path, environ: Mapping[str, str] | None = None) -> Path:
    """Build a wheel with the backend that is installed here, and give its path."""
    return _built("build_wheel", source, target, "*.whl", environ or {})


def build_sdist(source: Path, target: Path) -> Path:
    """Build an archive of the sources, and give its path."""
    return _built("build_sdist", source, target, "*.tar.gz", {})


def _built(hook: str, source: Path, target: Path, pattern: str, environ: Mapping[str, str]) -> Path:
    if not _backend_is_new_enough():
        pytest.skip("no setuptools as new as the build needs")
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, hook, str(target)],
        cwd=source, env={**os.environ, **environ}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = target.glob(pattern)
    return built


@attrs.frozen
class Environment:
    """An environment of its own, with some packages in it, and everything else from here."""

    python: Path
    folder: Path

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.python, "-P", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def make_environment(folder: Path, *packages: Path, environ: Mapping[str, str] | None = None) -> Environment:
    """Make an environment, install wheels or sources into it, and let it use the libraries that are installed here."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(command, check=True, timeout=120)
    python = folder / "venv" / "bin" / "python"
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout.strip()  # fmt: skip
    # Its own packages come first on the path; links to sources, which are files of their own kind, are not followed.
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (folder / where / "libraries.pth").write_text("\n".join(libraries), "utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q"]
    done = subprocess.run(
        [*install, "--no-build-isolation", "--no-cache-dir", *map(str, packages)],
        env={**os.environ, **(environ or {})}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    if "No module named pip" in done.stderr:
        pytest.skip("no pip to install packages with")
    assert done.returncode == 0, done.stderr
    work = folder / "work"
    work.mkdir()
    return Environment(python, work)
