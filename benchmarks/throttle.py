"""What it costs that nothing is known of a service's limit: against the same service with its limit lifted."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

import attrs

from benchmarks.clients import CONCURRENCY
from benchmarks.measure import SPREAD, Gate, Table, ratios
from benchmarks.server import find_nginx, serve
from metricsbridge.collector import Collector
from metricsbridge.protocols import Rate
from metricsbridge.registry import load_provider, open_spec
from metricsbridge.runtime._limits import Quota

if TYPE_CHECKING:
    from metricsbridge.protocols import TrainingJobMetrics

KEPT = 0.95
"""Gate, for many calls: calls per second with nothing known, over those with the limit lifted."""

LIFTED, UNKNOWN = "the limit is lifted", "no limit is known"
_LIMITS = {LIFTED: {"*": Rate(float("inf"))}, UNKNOWN: {}}
_TASKS = 50


@attrs.frozen
class Case:
    """So many jobs of so many tasks, read by a collector that has learned nothing yet."""

    title: str
    jobs: int
    tasks: int
    rounds: int
    gated: bool = False


_FULL = (Case("a short collection", 1, _TASKS, 60), Case("a fan-out", 80, _TASKS, 11, gated=True))
_SHORT = (Case("a short collection", 1, _TASKS, 1),)


def run(*, short: bool, without_nginx: bool = False) -> list[Table]:
    """Measure each case, after checking that all tasks were read.

    Raises:
        SystemExit: There is no nginx, and its stand-in was not asked for.
    """
    nginx = None if without_nginx else find_nginx()
    if nginx is None and not without_nginx:
        raise SystemExit("throttle: there is no nginx here; install it, or pass --without-nginx, which gates nothing")
    with serve(60, _TASKS, nginx=nginx) as url:
        cases = _SHORT if short else _FULL
        return [asyncio.run(_measure(case, url, gated=case.gated and nginx is not None)) for case in cases]


async def _measure(case: Case, url: str, *, gated: bool) -> Table:
    spec = load_provider("modelarts")
    seconds: dict[str, list[float]] = defaultdict(list)
    own = {"endpoint": url, "project_id": "0" * 32, "access_key": "EXAMPLE", "secret_key": "example-of-no-account"}
    lifted, unknown = (attrs.evolve(spec, limits=limits) for limits in _LIMITS.values())
    async with open_spec("lifted", lifted, **own) as free, open_spec("unknown", unknown, **own) as careful:
        providers = {LIFTED: free, UNKNOWN: careful}
        for provider in providers.values():
            await _read(provider, case)
        gc.collect()
        gc.freeze()
        try:
            for _ in range(case.rounds):
                for name, provider in providers.items():
                    gc.collect()
                    begun = time.perf_counter()
                    await _read(provider, case)
                    seconds[name].append((time.perf_counter() - begun) / (case.jobs * case.tasks))
        finally:
            gc.unfreeze()
    kept = 1 / ratios(seconds[UNKNOWN], seconds[LIFTED])[0]
    gate = Gate("calls per second with no limit known, over those with the limit lifted", kept, KEPT)
    return Table(
        title=f"throttle: {case.title} of {case.jobs * case.tasks} calls, {CONCURRENCY} at once, nothing learned yet",
        columns=("", "time, lifted = 1", *SPREAD, "calls/s"),
        rows=tuple([(name, *ratios(found, seconds[LIFTED]), 1 / median(found)) for name, found in seconds.items()]),
        gates=(gate,) if gated else (),
    )


async def _read(provider: TrainingJobMetrics, case: Case) -> None:
    """Read all tasks with a quota that knows nothing."""
    collector = Collector({"hw": provider}, quota=Quota(), concurrency=CONCURRENCY)
    result = await collector.collect([f"hw/job-{number}" for number in range(case.jobs)])
    result.raise_failures()
    assert len({(key.job, key.task) for key in result.series.keys}) == case.jobs * case.tasks
