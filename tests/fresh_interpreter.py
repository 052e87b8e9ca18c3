"""Run code in an interpreter of its own, for facts about what an import brings along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROJECT = Path(__file__).parent.parent


def run_fresh(
    code: str,
    *,
    paths: Iterable[Path | str] = (),
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> str:
    """Run the code, with these folders first on the path, and give what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METRICSBRIDGE", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, paths)), **(environ or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
