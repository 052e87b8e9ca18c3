"""What an author overrides, and how the checks open and read a provider.

The checks are ordinary functions that run an event loop of their own, so they need no plugin for asynchronous tests and
work with any.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio
import attrs
import numpy as np
import pytest

from metricsbridge.collector import Collector
from metricsbridge.model import Job, Query, Window
from metricsbridge.registry import load_provider, open_spec
from metricsbridge.testing._clock import FakeClock
from metricsbridge.testing._contract_wire import Wire
from metricsbridge.testing._transport import FakeTransport
from metricsbridge.testing.fleet import MINUTE_MS, Fleet, FleetJob

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from metricsbridge.collection import Collection
    from metricsbridge.errors import ProviderError
    from metricsbridge.model import Call, Level
    from metricsbridge.protocols import ProviderSpec, TrainingJobMetrics
    from metricsbridge.series.columns import Float64, Int64, SeriesKey
    from metricsbridge.testing._contract_wire import Simulator

_HANG_S: Final = 60.0
"""So long a check may take; everything is in memory and waits are free, so it hangs when it takes longer."""

_MARGIN_MINUTES: Final = 3
"""A query of a job's whole life asks for so much more on either side."""


@attrs.frozen(eq=False)
class Bench:
    """A provider that is open over a simulated service.

    Attributes:
        wire: The service, and what was sent to it.
        clock: Stands where the fleet stands; waits are free.
    """

    provider: TrainingJobMetrics
    wire: Wire
    clock: FakeClock
    fleet: Fleet


class ContractHooks:
    """What an author overrides: ``spec``, ``settings`` and ``simulate``; the rest where the defaults do not fit.

    Attributes:
        spec: The ``ProviderSpec``, or the name of an installed provider's entry point.
        settings: What ``open_provider`` is to be given, made-up credentials included; texts that are secret must have
            eight characters or more.
        wrong_settings: Changes to ``settings`` each of which must be refused, besides those that the kit tries.
        fleet: The jobs that the simulated service has. They run for at most 100 minutes; where one answer of the
            service holds more than that, take a fleet that runs longer, else windows are never split.
        search_fleet: The jobs of the checks of listings; the service must need several pages for them.
        resolution: Canonical metric to the smallest difference that the service writes, in the metric's unit, such as
            ``{"hw.gpu.utilization": 0.0001}`` for percent with two digits; a metric that is left out is exact.
        interval_ms: What one sample of the service summarises, where nothing coarser is asked for.
        time_resolution_ms: How exactly the service tells a job's times.
        samples_in_any_order: Whether the service may send the samples of a series unsorted and repeated: then the kit
            turns and doubles the lists of an answer in JSON.
        refusals: HTTP status to the class of error that a bare answer of that status must be, where it is not the one
            of the library's table.
    """

    spec: ClassVar[ProviderSpec | str]
    settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    wrong_settings: ClassVar[Sequence[Mapping[str, Any]]] = ()
    fleet: ClassVar[Fleet] = Fleet(seed=5, size=24, longest_minutes=100)
    search_fleet: ClassVar[Fleet] = Fleet(seed=6, size=124, longest_minutes=100)
    resolution: ClassVar[Mapping[str, float]] = MappingProxyType({})
    interval_ms: ClassVar[int] = MINUTE_MS
    time_resolution_ms: ClassVar[int] = 1000
    samples_in_any_order: ClassVar[bool] = False
    refusals: ClassVar[Mapping[int, type[ProviderError]]] = MappingProxyType({})

    def simulate(self, fleet: Fleet, clock: FakeClock) -> Simulator:
        """Give the simulated service: a function from a Request to a Response, which may be a coroutine function.

        It answers from the request, as the vendor would, with what ``fleet.wire_values`` says is measured up to
        ``clock.now_ms()``; what is NaN there it writes as the vendor writes "no value".
        """
        raise NotImplementedError("override simulate(fleet, clock): give a function from a Request to a Response")

    def job_id(self, fleet: Fleet, job: FleetJob) -> str:
        """Give the id by which the service knows a job, as a reference writes it behind its source."""
        return job.id

    def job_name(self, fleet: Fleet, job: FleetJob) -> str | None:
        """Give the name that people gave a job, as the service shows it; None is not compared."""
        return job.name

    def task_ids(self, fleet: Fleet, job: FleetJob) -> Sequence[str]:
        """Give the ids by which the service knows a job's tasks, in the fleet's order."""
        return job.tasks

    def device_ids(self, fleet: Fleet, job: FleetJob) -> Sequence[str]:
        """Give the names that series have for the devices of a task, in the fleet's order."""
        return tuple([str(number) for number in range(job.devices)])

    def minutes(self, fleet: Fleet, job: FleetJob) -> Int64:
        """Give int64[N], the starts of the minutes of a job that the service has measured when the fleet stands."""
        return job.minutes(fleet.now_ms)

    def truth(self, fleet: Fleet, job: FleetJob, key: SeriesKey, minutes: Int64) -> Float64 | None:
        """Give float64[N], what a series must hold at those minutes, NaN where nothing; None is not compared.

        By default the fleet's number of a task, of one of its devices, or the mean over a job's tasks.
        """
        device = list(self.device_ids(fleet, job)).index(key.device) if key.device else None
        if key.task:
            task = job.tasks[list(self.task_ids(fleet, job)).index(key.task)]
            return fleet.truth_values(job, task, key.metric, minutes, device=device)
        rows = np.array([fleet.truth_values(job, task, key.metric, minutes, device=device) for task in job.tasks])
        count = np.count_nonzero(~np.isnan(rows), axis=0)
        means: Float64 = np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)
        return means

    # What the checks are written with.

    wire: Wire | None = None

    def the_spec(self) -> ProviderSpec:
        """Give the spec, loaded where it is an entry point's name."""
        spec = getattr(self, "spec", None)
        assert spec is not None, "set spec: a ProviderSpec, or the name of an installed provider"
        return load_provider(spec) if isinstance(spec, str) else spec

    def provider_name(self) -> str:
        """Give the name by which the provider is opened."""
        return self.spec if isinstance(self.spec, str) else "provider"

    def run(self, check: Callable[[], Awaitable[None]]) -> None:
        """Run a check in an event loop of its own."""

        async def in_time() -> None:
            with anyio.move_on_after(_HANG_S) as scope:
                await check()
            assert not scope.cancelled_caught, (
                "it hangs: a provider holds no lock and waits for nothing but its transport"
            )

        anyio.run(in_time)

    @asynccontextmanager
    async def open(self, fleet: Fleet | None = None, **changes: Any) -> AsyncIterator[Bench]:
        """Open the provider over the simulated service."""
        chosen = self.fleet if fleet is None else fleet
        clock = FakeClock(chosen.now_ms)
        self.wire = wire = Wire(self.simulate(chosen, clock))
        transport = FakeTransport(wire, clock=clock)
        settings = {"limits": {"*": "unlimited"}, **self.settings, **changes}
        async with open_spec(self.provider_name(), self.the_spec(), transport=transport, **settings) as provider:
            yield Bench(provider, wire, clock, chosen)

    def subjects(self) -> tuple[FleetJob, ...]:
        """Give started jobs with few tasks: a running and an ended one of each kind of device."""
        found: dict[tuple[str, bool], FleetJob] = {}
        for job in sorted(self.fleet.jobs, key=lambda job: (len(job.tasks) < 2, len(job.tasks))):
            if len(self.minutes(self.fleet, job)) > 3:
                found.setdefault((job.device_kind, job.end_time_ms is None), job)
        return tuple(found.values())

    def levels(self) -> tuple[Level, ...]:
        """Give the levels that the provider serves."""
        return tuple(self.the_spec().serves)

    def life(self, job: FleetJob) -> Window:
        """Give a window of whole minutes with all of a job's life in it."""
        minutes = self.minutes(self.fleet, job)
        margin_ms = _MARGIN_MINUTES * MINUTE_MS
        return Window(int(minutes[0]) - margin_ms, int(minutes[-1]) + MINUTE_MS + margin_ms)

    async def describe(self, bench: Bench, job: FleetJob) -> Job:
        """Give a job as the provider describes it."""
        return await bench.provider.get_job(self.job_id(bench.fleet, job))

    def plan(self, bench: Bench, job: Job, query: Query) -> list[Call]:
        """Plan; an exception is the provider's fault."""
        try:
            return [*bench.provider.plan(job, query)]
        except Exception as error:
            pytest.fail(
                f"plan breaks with {type(error).__name__}: {error}; what is not served or not known is left out"
            )

    async def calls_of(self, bench: Bench, job: FleetJob, level: Level) -> list[Call]:
        """Give the calls that read a job's life on a level."""
        return self.plan(bench, await self.describe(bench, job), Query(window=self.life(job), per=level))

    async def some_calls(self, bench: Bench) -> list[Call]:
        """Give calls of two jobs at least, where there are: the first ones on each level."""
        found = [await self.calls_of(bench, job, level) for job in self.subjects() for level in self.levels()]
        calls = [call for calls in found for call in (calls[:1] + calls[-1:] if len(calls) > 1 else calls)]
        if not calls:
            pytest.skip("the provider serves no metric of any job of the fleet")
        return calls

    async def collect(self, bench: Bench, jobs: Sequence[FleetJob], **ask: Any) -> Collection:
        """Collect from jobs as a program does."""
        async with Collector({"x": bench.provider}, clock=bench.clock) as collector:
            return await collector.collect([f"x/{self.job_id(bench.fleet, job)}" for job in jobs], **ask)

    def difference(self, metric: str, truth: Float64) -> Float64:
        """Give float64[N], how far a value may be from the truth."""
        most: Float64 = self.resolution.get(metric, 0.0) / 2 * (1 + 1e-9) + 1e-12 * np.abs(truth)
        return most
