"""The built wheel, for all that look into it or install it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from fresh_interpreter import PROJECT
from wheels import PYPROJECT, build_wheel

if TYPE_CHECKING:
    from pathlib import Path

collect_ignore = ["sample_plugin"]  # it is installed and tested by itself


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, so that nothing is left in them."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for name in ("metricsbridge", "providers", "tests", "benchmarks"):
        shutil.copytree(PROJECT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", PYPROJECT["project"]["readme"], *PYPROJECT["project"]["license-files"]):
        shutil.copy(PROJECT / name, source)
    return build_wheel(source, folder / "wheel")
