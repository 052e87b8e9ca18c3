"""The simulated fleet: training jobs and their metrics as a pure, seeded function of time.

What a simulated service sends and what a reader must arrive at come from the same numbers, so any difference is a
fault of what lies between. The truth is the number *on the wire*: utilisations in percent with three decimals, rates in
whole bytes per second. ``Fleet.truth`` says what a canonical reading of it is.
"""

from __future__ import annotations

import hashlib
import random
import uuid
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from metricsbridge.metrics import METRICS
from metricsbridge.model import JobStatus
from metricsbridge.testing._waves import mix, seed_of, uniform, wave

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from metricsbridge.series.columns import Float64, Int64

MINUTE_MS: Final = 60_000
START_MS: Final = 1_760_000_012_345
"""When a fleet stands by default: an instant that is on no minute's boundary."""

_GIB = 2**30


@attrs.frozen(kw_only=True)
class FleetJob:
    """One simulated job.

    Attributes:
        start_time_ms: None where the job never started.
        end_time_ms: None where it has not ended.
        device_kind: ``"gpu"``, ``"npu"``, or ``""`` for a job on CPUs alone.
        devices: Devices of each task.
        tasks: Their ids; a job that never started has them planned.
    """

    id: str
    name: str
    status: JobStatus
    create_time_ms: int
    start_time_ms: int | None
    end_time_ms: int | None
    device_kind: str
    devices: int
    cpus: int
    memory_bytes: int
    device_memory_bytes: int
    tasks: tuple[str, ...]

    @property
    def first_minute_ms(self) -> int | None:
        """The start of the calendar minute in which the job started."""
        return None if self.start_time_ms is None else self.start_time_ms // MINUTE_MS * MINUTE_MS

    def minute_count(self, now_ms: int, /) -> int:
        """Give how many calendar minutes have been measured.

        An ended job has those from the one it started in to the one it ended in, both included; a running job those
        that are complete at ``now_ms``.
        """
        if self.first_minute_ms is None:
            return 0
        last = now_ms if self.end_time_ms is None else self.end_time_ms + MINUTE_MS
        return max(0, (last - self.first_minute_ms) // MINUTE_MS)

    def minutes(self, now_ms: int, /) -> Int64:
        """Give int64[N], the starts of the minutes that ``minute_count`` counts, ms since the epoch."""
        first = self.first_minute_ms or 0
        return first + np.arange(self.minute_count(now_ms), dtype=np.int64) * MINUTE_MS


@attrs.frozen
class _Plan:
    """One kind of job; the fleet goes round them. Times are seconds back from when the fleet stands."""

    status: JobStatus
    kind: str
    devices: int
    workers: int
    started_s: int | None
    ran_s: int | None = None


_R, _S, _F, _X, _P = JobStatus.RUNNING, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED, JobStatus.PENDING
_PLANS: Final = (
    _Plan(_R, "npu", 8, 16, 21_700),
    _Plan(_S, "gpu", 4, 4, 90_000, 5_400),
    _Plan(_P, "npu", 8, 2, None),
    _Plan(_F, "gpu", 1, 1, None),
    _Plan(_R, "gpu", 8, 1, 0),
    _Plan(_F, "gpu", 8, 8, 40_000, 2_260),
    _Plan(_X, "npu", 4, 2, 130_000, 39_700),
    _Plan(_R, "gpu", 8, 8, 294_000),
    _Plan(_S, "", 0, 1, 7_300, 163),
    _Plan(_R, "", 0, 5, 2_860),
    _Plan(_S, "npu", 8, 16, 51_000, 7_100),
    _Plan(_R, "gpu", 1, 3, 95),
)
_WORDS: Final = (
    "amber",
    "basalt",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "garnet",
    "harbor",
    "indigo",
    "juniper",
    "krill",
)

_PERCENT: Final = {name for name, metric in METRICS.items() if metric.unit == "1"}
_USES: Final[Mapping[str, tuple[str, str]]] = {
    "container.cpu.usage": ("container.cpu.utilization", "cpus"),
    "container.memory.working_set": ("container.memory.utilization", "memory_bytes"),
    "hw.gpu.memory.usage": ("hw.gpu.memory.utilization", "device_memory_bytes"),
}
"""What is a share of something the job has: the share's metric, and the attribute that says how much that is."""

_SCALE: Final[Mapping[str, float]] = {
    "container.disk.read.rate": 4.0e8,
    "container.disk.write.rate": 1.5e8,
    "container.network.receive.rate": 2.5e9,
    "container.network.transmit.rate": 2.5e9,
    "hw.power": 450.0,
}
"""What is about this large when busiest."""


@attrs.frozen(eq=False)
class Fleet:
    """Simulated jobs; equal arguments give equal jobs and numbers, on every machine.

    The fleet has no clock: a running job has a number for every minute from its start on, for ever, and who serves it
    decides up to when (``FleetJob.minute_count``).

    Args:
        seed: Everything depends on it.
        now_ms: Where the jobs stand in time: running ones have started before it, ended ones ended.
        size: How many jobs. Each dozen has pending jobs, ones that failed before they started, ones just started, ones
            that run for days, and about 65 tasks of jobs that started.
        longest_minutes: No job started longer before ``now_ms`` or ran longer than this, give or take a minute.
    """

    seed: int = attrs.field(default=0, kw_only=True)
    now_ms: int = attrs.field(default=START_MS, kw_only=True)
    size: int = attrs.field(default=12, kw_only=True)
    longest_minutes: int = attrs.field(default=10_000, kw_only=True)
    jobs: tuple[FleetJob, ...] = attrs.field(init=False, repr=False)
    _by_id: Mapping[str, FleetJob] = attrs.field(init=False, repr=False)

    @jobs.default
    def _make_jobs(self) -> tuple[FleetJob, ...]:
        return tuple([self._make_job(index) for index in range(self.size)])

    @_by_id.default
    def _index_jobs(self) -> Mapping[str, FleetJob]:
        return {job.id: job for job in self.jobs}

    def job(self, job_id: str, /) -> FleetJob:
        """Give a job.

        Raises:
            KeyError: There is none of that id.
        """
        return self._by_id[job_id]

    def metrics(self, job: FleetJob, /) -> tuple[str, ...]:
        """Give the canonical metrics that exist for a job's tasks."""
        return tuple([name for name in METRICS if _exists(job, name)])

    def wire_values(
        self, job: FleetJob, task: str, metric: str, minutes: Iterable[int] | Int64, *, device: int | None = None
    ) -> Float64:
        """Give float64[N], the numbers that a service sends for those minutes; NaN where it has none.

        There is none before the task's container is up (one or two minutes), outside the job's life, in rare lone
        gaps, and for a metric that does not exist for that job or device.

        Args:
            job: One of this fleet's.
            task: One of the job's.
            metric: A canonical metric.
            minutes: Starts of calendar minutes, ms since the epoch, in any order.
            device: Counted from 0; None is the task as a whole. Device series have numbers of their own: their mean is
                not the task's.

        Raises:
            ValueError: There is no such metric or task, or a time is not the start of a minute.
        """
        times = np.asarray(minutes if isinstance(minutes, np.ndarray) else list(minutes), np.int64)
        if metric not in METRICS or task not in job.tasks or np.any(times % MINUTE_MS):
            raise ValueError(f"no metric {metric!r} of task {task!r} of job {job.id}, or no starts of minutes")
        present = self._present(job, task, metric, times, device)
        return np.where(present, self._numbers(job, task, metric, times // MINUTE_MS, device), np.nan)

    def wire(self, job: FleetJob, task: str, metric: str, minute_ms: int, *, device: int | None = None) -> float | None:
        """Give one of ``wire_values``, or None where there is none."""
        value = float(self.wire_values(job, task, metric, [minute_ms], device=device)[0])
        return None if value != value else value

    def truth_values(
        self, job: FleetJob, task: str, metric: str, minutes: Iterable[int] | Int64, *, device: int | None = None
    ) -> Float64:
        """Give float64[N], what must be read: ``wire_values`` in the metric's unit, percent truly divided by 100."""
        values = self.wire_values(job, task, metric, minutes, device=device)
        return values / 100 if metric in _PERCENT else values

    def truth(self, job: FleetJob, task: str, metric: str, minute_ms: int, *, device: int | None = None) -> float:
        """Give one of ``truth_values``; NaN where there is none."""
        return float(self.truth_values(job, task, metric, [minute_ms], device=device)[0])

    def _make_job(self, index: int) -> FleetJob:
        plan = _PLANS[index % len(_PLANS)]
        dice = random.Random(f"{self.seed}/{index}")
        stretch = 1.0 if index < len(_PLANS) else dice.uniform(0.6, 1.4)
        workers = plan.workers if index < len(_PLANS) else min(16, max(1, round(plan.workers * dice.uniform(0.5, 1.6))))
        odd_ms = dice.randrange(1, MINUTE_MS)
        start = end = None
        if plan.started_s is not None:
            ago_ms = min(int(plan.started_s * stretch), self.longest_minutes * 60) * 1000 + odd_ms
            just_now = self.now_ms - 1 - odd_ms % max(1, self.now_ms % MINUTE_MS)
            start = _off_minute(self.now_ms - ago_ms if plan.started_s else just_now)
        if start is not None and plan.ran_s is not None:
            ran_ms = min(int(plan.ran_s * stretch), self.longest_minutes * 60) * 1000 + odd_ms // 7
            end = _off_minute(min(start + ran_ms, self.now_ms - 1))
        queued_ms = dice.randrange(4_001, 900_000)
        name = hashlib.sha256(f"{self.seed}/{index}".encode()).digest()
        return FleetJob(
            id=str(uuid.UUID(bytes=name[:16], version=4)),
            name=f"{dice.choice(_WORDS)}-{plan.kind or 'cpu'}-{index}",
            status=plan.status,
            create_time_ms=(self.now_ms - odd_ms * 13 if start is None else start) - queued_ms,
            start_time_ms=start,
            end_time_ms=end,
            device_kind=plan.kind,
            devices=plan.devices,
            cpus=8 * max(1, plan.devices),
            memory_bytes=32 * _GIB * max(1, plan.devices),
            device_memory_bytes=(64 if plan.kind == "npu" else 32) * _GIB if plan.devices else 0,
            tasks=tuple([f"worker-{number}" for number in range(workers)]),
        )

    def _present(self, job: FleetJob, task: str, metric: str, times: Int64, device: int | None) -> NDArray[np.bool_]:
        first = job.first_minute_ms
        if first is None or not _exists(job, metric, device):
            return np.zeros(len(times), np.bool_)
        startup = 1 + seed_of(self.seed, job.id, task, "startup") % 2
        present = times >= first + startup * MINUTE_MS
        if job.end_time_ms is not None:
            present &= times <= job.end_time_ms
        seed = seed_of(self.seed, job.id, task, _USES.get(metric, (metric,))[0], device, "gap")
        minutes = times // MINUTE_MS
        rare = np.uint64(2**64 // 300)
        gap = (mix(seed, minutes) < rare) & (mix(seed, minutes - 1) >= rare)
        result: NDArray[np.bool_] = present & ~gap
        return result

    def _numbers(self, job: FleetJob, task: str, metric: str, minutes: Int64, device: int | None) -> Float64:
        if metric in _USES:
            share, capacity = _USES[metric]
            used = self._numbers(job, task, share, minutes, device) / 100 * float(getattr(job, capacity))
            return np.rint(used * 1000) / 1000 if capacity == "cpus" else np.rint(used)
        seed = seed_of(self.seed, job.id, task, metric, device)
        busy = _busy(seed, minutes)
        if metric in _PERCENT:
            return _percent(seed, busy, minutes, bursts=metric == "container.cpu.utilization")
        if metric == "hw.power":
            return np.rint((0.15 + 0.85 * busy) * _SCALE[metric] * 1000) / 1000
        return np.rint(busy * busy * _SCALE[metric])


def _busy(seed: int, minutes: Int64) -> Float64:
    """Give how busy something is, in [0, 1): two waves and noise about a level, all its own."""
    level = 0.2 + 0.6 * (seed % 1009 / 1009)
    slow = wave(minutes, 61 + seed % 97, seed % 8191)
    fast = wave(minutes, 7 + seed % 11, seed % 127)
    noise = uniform(seed, minutes) - 0.5
    return np.clip(level + 0.15 * slow + 0.05 * fast + 0.08 * noise, 0.0, 0.999999)


def _percent(seed: int, busy: Float64, minutes: Int64, *, bursts: bool) -> Float64:
    """Give percent with three decimals: some whole, some 0, and some above 100 where there are bursts."""
    chance = uniform(seed ^ 0x5DEECE66D, minutes)
    exact = np.rint(busy * 100_000) / 1000
    exact = np.where(chance < 0.06, np.rint(exact), exact)
    exact = np.where(chance < 0.02, 0.0, exact)
    return np.where(chance > 0.985, np.rint(100_000 + busy * 80_000) / 1000, exact) if bursts else exact


def _exists(job: FleetJob, metric: str, device: int | None = None) -> bool:
    family = metric.split(".")[1] if metric.startswith("hw.") else ""
    if device is not None and not (family and 0 <= device < job.devices):
        return False
    return not family or family == job.device_kind or (family == "power" and job.devices > 0)


def _off_minute(time_ms: int) -> int:
    """Give the time, or the next millisecond where it is the very start of a minute."""
    return time_ms if time_ms % MINUTE_MS else time_ms + 1
