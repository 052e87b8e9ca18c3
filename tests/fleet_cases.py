"""Random jobs of one emulated cloud, what is asked of them, and the truth that the answer is held against.

Nothing may be invented, no gap may be a number, and each unit that was asked for is accounted for once.
"""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

import metricsbridge as mb
from emulated_clouds import CARDS, RATES, UTILIZATIONS, Cloud, minute_of
from fake_provider import account
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import MINUTE_MS, Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from metricsbridge.model import Level
    from metricsbridge.series.columns import Float64
    from metricsbridge.testing import FakeClock
    from metricsbridge.testing.fleet import FleetJob

    Key = tuple[str, str, str]

KINDS: Final = ("throttle", "unavailable", "error", "reset", "slow", "truncated", "html")
OF_CLOUDS: Final = {"pai-dlc": ("empty", "shuffled", "nonce-used"), "modelarts": ("not-ready",)}
"""Faults that only some emulators have."""

SILENT: Final = ("empty", "not-ready")
"""After these an answer that says nothing is all there is: what it would have held is absent."""

REROUTING: Final = (*SILENT, "unreadable")
"""After these the probe of a route may say that another one serves a job, with digits of its own."""

SERVICES_FAIL: Final = (mb.DecodeError, mb.ServiceUnavailableError, mb.ThrottledError, mb.TransportError)
"""What the faults of an emulator alone can make of an opening."""


@attrs.frozen(kw_only=True)
class Case:
    """Some jobs of one fleet at one cloud, and what is asked of them."""

    cloud: Cloud
    fleet: Fleet
    jobs: tuple[FleetJob, ...]
    faults: Faults
    per: Level
    metrics: tuple[str, ...]
    window: mb.Window | None

    @classmethod
    def draw(cls, cloud: Cloud, seed: int) -> Case:
        dice = random.Random(f"{cloud.provider}/{seed}")
        fleet = Fleet(seed=seed, longest_minutes=dice.choice([20, 90, 200]), size=12)
        kinds = [*dice.sample(KINDS, 3), *dice.sample(known := OF_CLOUDS.get(cloud.provider, ()), min(1, len(known)))]
        every = [*UTILIZATIONS, *RATES]
        start_ms = fleet.now_ms - dice.randrange(30, 300) * MINUTE_MS + dice.randrange(MINUTE_MS)
        return cls(
            cloud=cloud,
            fleet=fleet,
            jobs=fleet.jobs,
            faults=Faults(rates={kind: dice.uniform(0, 0.12) for kind in kinds}, seed=seed, retry_after_s=0),
            per=dice.choice(["task", "task", "device", "job"]),
            metrics=tuple(dice.sample(every, dice.randrange(1, len(every) + 1))),
            window=dice.choice([None, mb.Window(start_ms, start_ms + dice.randrange(1, 200 * MINUTE_MS))]),
        )

    @property
    def references(self) -> list[str]:
        """The jobs as a collector of the source ``x`` takes them."""
        ids = self.cloud.job_ids(self.fleet)
        return [f"x/{ids[job.id]}" for job in self.jobs]

    async def check(self, collector: mb.Collector) -> int:
        """Collect, and hold everything against the truth; gives how many values were compared."""
        result = await collector.collect(self.references, metrics=self.metrics, per=self.per, window=self.window)
        return self.check_result(result, self.fleet.now_ms)

    def check_result(self, result: mb.Collection, before_ms: int) -> int:
        """Hold everything against what there was before the collection; gives how many values were compared."""
        ids = self.cloud.job_ids(self.fleet)
        self.check_account(result)
        delivered = {(key.job, key.task, key.device, key.metric): index for index, key in enumerate(result.series.keys)}
        assert len(delivered) == len(result.series)
        absent = {(*target, metric) for each in result.absences for target in each.targets for metric in each.metrics}
        compared = 0
        for job in self.jobs:
            for index in [place for key, place in delivered.items() if key[0] == ids[job.id]]:
                compared += self.check_series(result, index, job, before_ms)
            self.check_absent(job, ids[job.id], absent, before_ms)
        return compared

    def check_account(self, result: mb.Collection) -> None:
        """Each unit that was asked for is delivered, absent or failed, and only one of these."""
        found, absent, failed = account(result)
        assert not found & absent
        assert not found & failed
        assert not absent & failed
        described = {job.id: job for job in result.jobs}
        asked = set()
        for vendor_id in [reference.partition("/")[2] for reference in self.references]:
            job = described.get(vendor_id)
            tasks = [""] if job is None or self.per == "job" or not job.tasks else [task.id for task in job.tasks]
            asked |= {("x", vendor_id, task, metric) for task in tasks for metric in self.metrics}
        assert found | absent | failed == asked

    def expected(self, job: FleetJob, task: str, device: str, metric: str, minutes: Any) -> Float64 | None:
        """Give the truth; None where the fleet has no number for what is read (a mean over cards)."""
        level: Level = "device" if device else "task" if task else "job"
        if metric not in self.cloud.served(self.fleet, job, level):
            return None
        if not task:
            return self.cloud.truth_of_job(self.fleet, job, metric, minutes)
        number = int(device) if device else None
        return self.cloud.truth(self.fleet, job, self.task_of(job, task), metric, minutes, device=number)

    def task_of(self, job: FleetJob, task: str) -> str:
        """Give the fleet's id of a cloud's task."""
        return job.tasks[list(self.cloud.task_ids(self.fleet, job)).index(task)]

    def check_series(self, result: mb.Collection, index: int, job: FleetJob, before_ms: int) -> int:
        """Nothing is invented, no gap is a number, and nothing that was there is left out."""
        key = result.series.keys[index]
        times, values = result.series.samples(index)
        assert self.window is None or all(time in self.window for time in times.tolist())
        assert np.all(np.diff(times) > 0)
        minutes = minute_of(times)
        truth = self.expected(job, key.task, key.device, key.metric, minutes)
        if truth is None:
            return 0
        # A mean over tasks is often just between two of the service's digits.
        digit = 0.0 if key.task else 1.01e-4 if key.metric in UTILIZATIONS else 10.1
        try:
            np.testing.assert_allclose(values, truth, rtol=1e-12, atol=digit, err_msg=str(key))
        except AssertionError:
            if self.cloud.other_digits is None or not key.task or not set(self.faults.injected) & set(REROUTING):
                raise
            wire = self.fleet.wire_values(job, self.task_of(job, key.task), key.metric, minutes)
            np.testing.assert_allclose(values, self.cloud.other_digits.write(key.metric, wire), rtol=1e-12, atol=0)
        lost = [
            failure for failure in result.failures
            if (key.job, key.task) in failure.targets and key.metric in failure.metrics
        ]  # fmt: skip
        if not lost and not set(self.faults.injected) & set(SILENT):
            complete = self.cloud.measured_minutes(job, before_ms)
            there = complete[~np.isnan(self.expected(job, key.task, key.device, key.metric, complete))]
            if self.window is not None:  # a sample may stand anywhere in its minute
                inside = (there >= self.window.start_ms) & (there + MINUTE_MS <= self.window.end_ms)
                there = there[inside]
            assert set(there.tolist()) <= set(minutes[~np.isnan(values)].tolist()), str(key)
        return len(values)

    def check_absent(self, job: FleetJob, vendor_id: str, absent: set[Key], before_ms: int) -> None:
        """What is called absent is not there, unless the service said nothing at all."""
        if set(self.faults.injected) & set(SILENT):
            return
        minutes = self.cloud.measured_minutes(job, before_ms)
        if self.window is not None:
            minutes = minutes[(minutes >= self.window.start_ms) & (minutes + MINUTE_MS <= self.window.end_ms)]
        for found_id, task, metric in absent:
            if found_id != vendor_id or metric not in self.cloud.served(self.fleet, job, self.per):
                continue
            devices = [str(n) for n in range(job.devices)] if self.per == "device" and metric in CARDS else [""]
            for device in devices if task or self.per == "job" else ():
                truth = self.expected(job, task, device, metric, minutes)
                assert truth is None or np.isnan(truth).all(), (found_id, task, device, metric)


@asynccontextmanager
async def opened(
    provider: Any, clock: FakeClock, *, unopened: tuple[type[mb.ProviderError], ...] = SERVICES_FAIL
) -> AsyncIterator[mb.Collector | None]:
    """Open the collector; None where a fault that no repetition mends met the opening itself."""
    collector = mb.Collector({"x": provider}, clock=clock)
    try:
        await collector.__aenter__()
    except unopened:
        yield None
        return
    try:
        yield collector
    finally:
        await collector.__aexit__(None, None, None)
