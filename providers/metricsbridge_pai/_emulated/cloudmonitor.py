"""The emulated CloudMonitor: the metrics of the namespace ``acs_pai_dlc``, and their points as rows.

The names ``JOB_*`` and ``CARD_*`` are the vendor's; which others there are, it does not document: ``POD_*`` stands for
them here. Those that no simulated fleet has follow others by a factor.
Source: CloudMonitor API reference, DescribeMetricList, DescribeMetricMetaList; PAI-DLC API reference, GetMetrics.
"""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import numpy as np

from metricsbridge_pai._emulated.gateway import USER_ID
from metricsbridge_pai._emulated.jobs import WORKSPACE_ID
from metricsbridge_pai._emulated.numbers import grid, life_ms, mean, measured, minutes_of, rounded
from metricsbridge_pai._emulated.roster import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from metricsbridge.testing.fleet import Fleet
    from metricsbridge_pai._emulated.roster import Placed

    Int64 = NDArray[np.int64]
    Float64 = NDArray[np.float64]
    _Series = tuple[Mapping[str, str], Callable[[Int64], Float64], tuple[int, int]]
    """The dimensions of a series that a job may have, how to read minutes of it, and the [start, end) of its points."""

NAMESPACE: Final = "acs_pai_dlc"
PERIODS: Final = (15, 60, 900, 3_600)

_DAY_MS: Final = 86_400_000
_KEPT: Final = 64
_DIMENSIONS: Final = {"job": "userId,jobId", "pod": "userId,jobId,pod", "card": "userId,jobId,pod,gpu"}


@attrs.frozen
class CloudMetric:
    """One metric: how its numbers come out of the fleet's.

    Attributes:
        level: What one series of it is about.
        unit: As the list of metrics tells it.
        metric: The fleet's.
        factor: What the fleet's numbers are multiplied by.
        free: Whether it is what is left of the memory, of all pods together.
    """

    level: Literal["job", "pod", "card"]
    unit: str
    metric: str
    factor: float = 1.0
    free: bool = False

    @property
    def dimensions(self) -> str:
        """The names of what a point is of."""
        return _DIMENSIONS[self.level]


_DUTY: Final = "hw.gpu.utilization"
METRICS: Final[Mapping[str, CloudMetric]] = MappingProxyType({
    "JOB_GPU_ACCELERATOR_DUTTY_UTIL": CloudMetric("job", "%", _DUTY),
    "JOB_MEMORY_FREE": CloudMetric("job", "B", "container.memory.working_set", free=True),
    "CARD_GPU_DUTY_CYCLE": CloudMetric("card", "%", _DUTY),
    "CARD_GPU_SM_UTIL": CloudMetric("card", "%", _DUTY, 0.75),
    "CARD_GPU_DRAM_ACTIVE_UTIL": CloudMetric("card", "%", "hw.gpu.memory.utilization", 0.5),
    "CARD_GPU_PIP_TENSOR_ACTIVE": CloudMetric("card", "%", _DUTY, 0.25),
    "CARD_GPU_TENSORTFLOPS_USED": CloudMetric("card", "TFLOPS", _DUTY, 3.125),
    "CARD_GPU_PCIE_RECEIVE": CloudMetric("card", "MiB/s", _DUTY, 80.0),
    "CARD_GPU_PCIE_TRANSMIT": CloudMetric("card", "MiB/s", _DUTY, 64.0),
    "CARD_GPU_NVLINK_RECEIVE": CloudMetric("card", "MiB/s", _DUTY, 512.0),
    "CARD_GPU_NVLINK_TRANSMIT": CloudMetric("card", "MiB/s", _DUTY, 500.0),
    "POD_CPU_UTIL": CloudMetric("pod", "%", "container.cpu.utilization"),
    "POD_MEMORY_UTIL": CloudMetric("pod", "%", "container.memory.utilization"),
    "POD_GPU_MEMORY_UTIL": CloudMetric("pod", "%", "hw.gpu.memory.utilization"),
    "POD_DISK_READ_RATE": CloudMetric("pod", "B/s", "container.disk.read.rate"),
    "POD_DISK_WRITE_RATE": CloudMetric("pod", "B/s", "container.disk.write.rate"),
    "POD_NETWORK_RECEIVE_RATE": CloudMetric("pod", "B/s", "container.network.receive.rate"),
    "POD_NETWORK_TRANSMIT_RATE": CloudMetric("pod", "B/s", "container.network.transmit.rate"),
})  # fmt: skip

CANONICAL: Final[Mapping[str, str]] = {name: row.metric for name, row in METRICS.items() if row.level == "pod"}
"""The names that the vendor does not document, and what they are in canonical terms."""


@attrs.frozen(kw_only=True)
class Ask:
    """What points are asked for: those later than the start, up to the end.

    Attributes:
        dimensions: A point is of at least one of these, in all that it names; None is all points.
    """

    name: str
    start_ms: int
    end_ms: int
    period_s: int
    dimensions: tuple[Mapping[str, str], ...] | None
    job_id: str | None = None

    @property
    def period_ms(self) -> int:
        """The period in milliseconds."""
        return self.period_s * 1000


@attrs.frozen(eq=False)
class Points:
    """Points in the order of their times; for equal times in that of jobs, pods and cards.

    Attributes:
        owners: The dimensions of each series.
        series: Which of them each point is of.
        lows: The least of what a point's value is the mean of.
        highs: The largest.
    """

    owners: Sequence[Mapping[str, str]]
    series: Int64
    times: Int64
    values: Float64
    lows: Float64
    highs: Float64

    def __len__(self) -> int:
        return len(self.times)

    def newest(self) -> Points:
        """Give the newest point of each series."""
        _, backwards = np.unique(self.series[::-1], return_index=True)
        return self.select(np.sort(len(self) - 1 - backwards))

    def select(self, index: Any, /) -> Points:
        """Give some of the points."""
        columns = (self.series, self.times, self.values, self.lows, self.highs)
        return Points(self.owners, *[column[index] for column in columns])

    def rows(self, value_key: str, /) -> list[dict[str, Any]]:
        """Give the points as the service writes them."""
        columns = (self.times, self.series, self.values, self.lows, self.highs)
        lists = [column.tolist() for column in columns]
        if value_key == "Value":
            return [
                {"timestamp": time, **self.owners[series], "Value": value}
                for time, series, value in zip(*lists[:3], strict=True)
            ]
        return [
            {"timestamp": time, **self.owners[series], "Average": value, "Minimum": low, "Maximum": high}
            for time, series, value, low, high in zip(*lists, strict=True)
        ]


@attrs.define(eq=False)
class CloudMonitor:
    """The points of all jobs; the last asked for are kept, as they are asked for page by page.

    Args:
        fleet: Whose numbers.
        time_at: Which end of its period a point's time names.
        renamed: Whether a restarted pod had another id before.
    """

    fleet: Fleet
    time_at: Literal["start", "end"] = "start"
    renamed: bool = False
    _kept: OrderedDict[str, Points] = attrs.field(init=False, factory=OrderedDict)

    def points(self, ask: Ask, now_ms: int, /) -> Points:
        """Give the points that are asked for and measured by now, no older than what is kept of such a period."""
        key = f"{ask} {now_ms // 60_000}"
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            if len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = self._find(ask, now_ms)
        return self._kept[key]

    def _find(self, ask: Ask, now_ms: int) -> Points:
        metric = METRICS[ask.name]
        owners: list[Mapping[str, str]] = []
        series: list[Int64] = []
        times: list[Int64] = []
        columns: tuple[list[Float64], list[Float64], list[Float64]] = ([], [], [])
        shift_ms = ask.period_ms if self.time_at == "end" else 0
        for job in self._jobs(ask):
            starts = _starts(job, ask, now_ms, shift_ms)
            if not len(starts):
                continue
            minutes = minutes_of(starts, ask.period_ms)
            for owner, read, (first_ms, end_ms) in self._series(job, metric, now_ms):
                if ask.dimensions is not None and not any(_is_of(owner, names) for names in ask.dimensions):
                    continue
                values = read(minutes)
                there = ~np.isnan(values).all(axis=1) & (starts >= first_ms) & (starts < end_ms)
                times.append(starts[there] + shift_ms)
                series.append(np.full(len(times[-1]), len(owners), np.int64))
                for column, made in zip(columns, _columns(values[there]), strict=True):
                    column.append(made)
                owners.append(owner)
        if not owners:
            none = np.empty(0, np.int64)
            return Points((), none, none, *[np.empty(0)] * 3)
        points = Points(
            owners, np.concatenate(series), np.concatenate(times), *[np.concatenate(column) for column in columns]
        )
        return points.select(np.lexsort((points.series, points.times)))

    def _series(self, job: Placed, metric: CloudMetric, now_ms: int) -> Iterator[_Series]:
        whole, fleet = {"userId": USER_ID, "jobId": job.id}, self.fleet
        if metric.level == "job":
            yield whole, lambda minutes: _of_job(fleet, job, metric, minutes, now_ms), (0, 2**62)
            return
        for pod, task in zip(job.pods, job.job.tasks, strict=True):
            for card in range(job.gpus) if metric.level == "card" else [None]:
                read = _reader(fleet, job, task, metric, card, now_ms)
                of_card = {} if card is None else {"gpu": str(card)}
                for name, *span in job.incarnations(pod, renamed=self.renamed):
                    yield {**whole, "pod": name, **of_card}, read, (span[0], span[1])

    def _jobs(self, ask: Ask) -> Iterable[Placed]:
        every = placed(self.fleet)
        named = [ask.job_id] if ask.job_id is not None else None
        if named is None and ask.dimensions is not None and all("jobId" in names for names in ask.dimensions):
            named = list(dict.fromkeys([names["jobId"] for names in ask.dimensions]))
        return every.values() if named is None else [every[name] for name in named if name in every]


def _starts(job: Placed, ask: Ask, now_ms: int, shift_ms: int) -> Int64:
    """Give the starts of the periods asked for; the times of points are so much later."""
    step_ms = ask.period_ms
    kept_ms = (7 if ask.period_s < 60 else 31 if ask.period_s < 300 else 91) * _DAY_MS
    first, end = life_ms(job.job, step_ms, now_ms)
    start_ms, end_ms = max(ask.start_ms + 1, now_ms - kept_ms) - shift_ms, ask.end_ms + 1 - shift_ms
    return grid(max(start_ms, first), min(end_ms, end), step_ms)


def _reader(
    fleet: Fleet, job: Placed, task: str, metric: CloudMetric, device: int | None, now_ms: int
) -> Callable[[Int64], Float64]:
    def read(minutes: Int64) -> Float64:
        values = measured(fleet, job.job, task, metric.metric, minutes, now_ms=now_ms, device=device)
        return values if metric.factor == 1.0 else values * metric.factor

    return read


def _of_job(fleet: Fleet, job: Placed, metric: CloudMetric, minutes: Int64, now_ms: int) -> Float64:
    """Give what all pods of a job have together: the mean of a share, the sum of what is free."""
    tasks = job.job.tasks
    values = np.stack([measured(fleet, job.job, task, metric.metric, minutes, now_ms=now_ms) for task in tasks])
    if metric.free:
        free = mean(job.job.memory_bytes - values, axis=0) * (~np.isnan(values)).sum(axis=0)
        return np.asarray(np.rint(free))
    return mean(values, axis=0)


def _columns(values: Float64) -> tuple[Float64, Float64, Float64]:
    """Give the mean, the least and the largest of each period, to three digits."""
    there = ~np.isnan(values)
    low: Float64 = np.where(there, values, np.inf).min(axis=1)
    high: Float64 = np.where(there, values, -np.inf).max(axis=1)
    return rounded(mean(values), 3), rounded(low, 3), rounded(high, 3)


def _is_of(owner: Mapping[str, str], names: Mapping[str, str]) -> bool:
    known = {**owner, "workspaceId": WORKSPACE_ID}
    return all(name == "regionId" or known.get(name) == value for name, value in names.items())
