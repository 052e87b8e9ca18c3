"""The built wheel, for all that look into it or install it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheels import build_wheel, copy_sources

if TYPE_CHECKING:
    from pathlib import Path

collect_ignore = ["sample_plugin"]  # it is installed and tested by itself


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, so that nothing is left in them."""
    folder = tmp_path_factory.mktemp("build")
    return build_wheel(copy_sources(folder / "source"), folder / "wheel")
