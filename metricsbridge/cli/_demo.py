"""The demonstration: every installed emulator on this machine, faults on, read as a real service would be."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.cli._arguments import Options
from metricsbridge.cli._collect import gather
from metricsbridge.cli._emulate import emulator_names, make_app
from metricsbridge.cli._table import jobs_by_key, make_row, task_count, totals
from metricsbridge.cli._text import count
from metricsbridge.collector import Collector
from metricsbridge.errors import ProviderLoadError, ProviderNotFoundError
from metricsbridge.export import json_document
from metricsbridge.registry import open_provider
from metricsbridge.runtime._clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from metricsbridge.cli._collect import CollectionProgress
    from metricsbridge.collection import Collection

FAULTS: Final[Mapping[str, float]] = {
    "throttle": 0.01,
    "unavailable": 0.03,
    "reset": 0.03,
    "truncated": 0.03,
    "slow": 0.05,
}
"""Kind to the share of requests that meet it."""

_JOBS: Final = 8
"""So many jobs at each service."""

_HARMLESS: Final = "slow"
"""The kind that delays an answer and does not break it."""


@attrs.frozen(kw_only=True)
class Demo:
    """What the demonstration came to.

    Attributes:
        requests: HTTP requests that the emulators received.
        faults: Kind to how many of them met it.
        broken: Emulators that can't be used, each with why.
    """

    sources: tuple[str, ...]
    collection: Collection
    seconds: float
    requests: int
    faults: Mapping[str, int]
    broken: Mapping[str, str]

    def summary(self) -> str:
        """Say what was read, how fast, and what stood in the way."""
        kinds = ", ".join([f"{number} {kind}" for kind, number in sorted(self.faults.items())])
        faults = (
            f"{count(sum(self.faults.values()), 'fault')} injected ({kinds})" if self.faults else "no fault injected"
        )
        retried = sum(self.faults.values()) - self.faults.get(_HARMLESS, 0)
        lost = count(len(self.collection.failures), "call") + " lost" if self.collection.failures else "nothing lost"
        return (
            f"{totals(self.collection)}, in {self.seconds:.1f} s with {count(self.requests, 'HTTP request')}; "
            f"{faults}, {count(retried, 'request')} tried again, {lost}."
        )

    def document(self) -> dict[str, Any]:
        """Give plain values for JSON: series summed up, without their samples."""
        collection = self.collection
        whole = json_document(attrs.evolve(collection, series=collection.series.select([])))
        jobs = jobs_by_key(collection)
        rows = [
            make_row(
                collection.series, index, jobs.get((collection.series.source_of(index), key.job)),
                collection.window, collection.as_of_ms,
            ).document()
            for index, key in enumerate(collection.series.keys)
        ]  # fmt: skip
        return {
            **whole,
            "sources": list(self.sources),
            "tasks": task_count(collection),
            "samples": len(collection.series.times),
            "series": rows,
            "seconds": round(self.seconds, 3),
            "requests": self.requests,
            "faults": dict(self.faults),
            "broken": dict(self.broken),
        }


async def run_demo(seed: int, progress: CollectionProgress) -> Demo:
    """Start the emulators, read everything from them, and stop them.

    Raises:
        ProviderNotFoundError: None is installed.
    """
    from metricsbridge.testing.emulator import EMULATOR, serve

    clock = SystemClock()
    received: Counter[str] = Counter()
    broken: dict[str, str] = {}
    emulators = []
    sources = {}
    async with AsyncExitStack() as stack:
        for number, name in enumerate(emulator_names()):
            try:
                app = make_app(name, seed=seed + number, jobs=_JOBS, faults=FAULTS, fault_seed=seed)
            except ProviderLoadError as error:
                broken[name] = str(error)
                continue
            app.on_response_prepare.append(_counter(received))
            url = await stack.enter_async_context(serve(app))
            emulators.append(app[EMULATOR])
            sources[name] = open_provider(name, **app[EMULATOR].settings(url))
        if not sources:
            raise ProviderNotFoundError("no installed package brings an emulator that works: reinstall metricsbridge")
        collector = await stack.enter_async_context(Collector(sources))
        started = clock.monotonic()
        collection = await gather(collector, collector.sources, Options(), progress)
        return Demo(
            sources=collector.sources,
            collection=collection,
            seconds=clock.monotonic() - started,
            requests=received.total(),
            faults=dict(sum([emulator.faults.injected for emulator in emulators], Counter())),
            broken=broken,
        )


def _counter(received: Counter[str]) -> Callable[[Any, object], Awaitable[None]]:
    async def note(request: Any, response: object) -> None:
        received[request.path] += 1

    return note
