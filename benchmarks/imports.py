"""What it costs to import the library, in fresh interpreters, and what comes along."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
from statistics import median

import attrs

from benchmarks.measure import SPREAD, Table, named, ratios

HEAVY = ("aiohttp", "numpy", "anyio", "cattrs", "msgspec", "typer", "rich", "pandas", "polars", "pyarrow")
_OURS = "metricsbridge"
_CHILD = """
import json, sys, time

def resident():
    try:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1])
    except OSError:
        return 0

before, known = resident(), len(sys.modules)
begun = time.perf_counter()
import {module}
seconds = time.perf_counter() - begun
grown, added = resident() - before, len(sys.modules) - known
print(json.dumps([seconds, grown, sorted({{name.partition(".")[0] for name in sys.modules}}), added]))
"""
_PEERS = {"aiohttp": "aiohttp", "huaweicloudsdkmodelarts": "huaweicloudsdkmodelarts.v1", "numpy": "numpy"}


@attrs.frozen
class Import:
    """One import in one interpreter."""

    seconds: float
    grown_pages: int
    packages: list[str]
    modules: int


def import_fresh(module: str) -> Import:
    """Import a module in an interpreter of its own."""
    child = [sys.executable, "-c", _CHILD.format(module=module)]
    answer = subprocess.run(child, check=True, capture_output=True, text=True, timeout=120)
    return Import(*json.loads(answer.stdout))


def check(found: Import) -> None:
    """See that importing the library imports neither an HTTP library nor a provider."""
    unwanted = [name for name in found.packages if name == "aiohttp" or name.startswith("metricsbridge_")]
    assert not unwanted, f"importing metricsbridge imports {', '.join(unwanted)}"


def run(*, short: bool) -> list[Table]:
    """Measure ours and the peers, after a first import of each that writes the compiled files."""
    modules = {_OURS: _OURS, **_PEERS}
    check({name: import_fresh(module) for name, module in modules.items()}[_OURS])
    found: dict[str, list[Import]] = {name: [] for name in modules}
    for _ in range(1 if short else 9):
        for name, module in modules.items():
            found[name].append(import_fresh(module))
    seconds = {name: [one.seconds for one in imports] for name, imports in found.items()}
    rows = [
        (
            f"import {modules[name]} ({named(name)})",
            *ratios(seconds[name], seconds[_OURS]),
            median(seconds[name]) * 1e3,
            imports[0].modules,
            median([one.grown_pages for one in imports]) * mmap.PAGESIZE / 2**20,
        )
        for name, imports in found.items()
    ]
    heavy = [name for name in HEAVY if name in found[_OURS][0].packages]
    return [
        Table(
            title="imports: in fresh interpreters",
            columns=("", "time, ours = 1", *SPREAD, "ms", "modules", "resident MiB"),
            rows=tuple(rows),
            notes=(f"import metricsbridge brings along: {', '.join(heavy)}; no aiohttp, no provider.",),
        )
    ]
