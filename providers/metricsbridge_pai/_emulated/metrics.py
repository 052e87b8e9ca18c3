"""The emulated GetJobMetrics: one metric of all pods of a job over a range, step by step; pure.

Source: PAI-DLC API reference, GetJobMetrics; for the units, PAI's ListTrainingJobInstanceMetrics, which has the same
names. The grid of the steps, what a point's time names, and how many points there are at most, are not documented.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from metricsbridge_pai._emulated.gateway import invalid
from metricsbridge_pai._emulated.numbers import grid, life_ms, mean, measured, minutes_of, rounded
from metricsbridge_pai._emulated.search import parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from metricsbridge.testing.fleet import Fleet, FleetJob
    from metricsbridge_pai._emulated.readings import Readings
    from metricsbridge_pai._emulated.roster import Placed

    Int64 = NDArray[np.int64]

METRIC_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "CpuCoreUsage": ("container.cpu.utilization", "cpus"),
    "MemoryUsage": ("container.memory.utilization", ""),
    "GpuCoreUsage": ("hw.gpu.utilization", "devices"),
    "GpuMemoryUsage": ("hw.gpu.memory.utilization", "devices"),
    "NetworkInputRate": ("container.network.receive.rate", "MB/s"),
    "NetworkOutputRate": ("container.network.transmit.rate", "MB/s"),
    "DiskReadRate": ("container.disk.read.rate", "MB/s"),
    "DiskWriteRate": ("container.disk.write.rate", "MB/s"),
}
"""``MetricType`` to the fleet's metric, and to MB/s or what there may be several of in a pod, each with 100 %."""

RATE_DIGITS: Final = 3

_STEP: Final = re.compile(r"([1-9]\d{0,3})([smh])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}
_HOUR_MS: Final = 3_600_000


class Point(msgspec.Struct, gc=False):
    """One point as it stands in the answer."""

    Time: int
    Value: float


@attrs.frozen(kw_only=True)
class Range:
    """What GetJobMetrics is asked for; both ends belong to the range."""

    metric_type: str
    start_ms: int
    end_ms: int
    step_ms: int

    @classmethod
    def parse(cls, query: Mapping[str, str], now_ms: int, /) -> Range:
        """Read the parameters.

        Raises:
            ApiError: One is missing or malformed.
        """
        metric_type = query.get("MetricType", "")
        if metric_type not in METRIC_TYPES:
            raise invalid(f"MetricType {metric_type!r} is not one of {', '.join(METRIC_TYPES)}.")
        step = _STEP.fullmatch(query.get("TimeStep") or "5m")
        if step is None:
            raise invalid("TimeStep is no time such as 5m.")
        start = parse_instant(query["StartTime"], "StartTime") if query.get("StartTime") else now_ms - _HOUR_MS
        end = parse_instant(query["EndTime"], "EndTime") if query.get("EndTime") else now_ms
        if start > end:
            raise invalid("StartTime is later than EndTime.")
        return cls(metric_type=metric_type, start_ms=start, end_ms=end, step_ms=int(step[1]) * _UNIT_MS[step[2]])


def metrics_document(
    fleet: Fleet, job: Placed, asked: Range, /, *, readings: Readings, now_ms: int, shuffled: bool
) -> dict[str, Any]:
    """Give the answer: pods without points are left out.

    Args:
        fleet: Whose numbers.
        job: Which job.
        asked: What of it.
        readings: How the documents are read.
        now_ms: The service's clock.
        shuffled: Whether the points come in no order, some of them twice: the later one is right.
    """
    starts, shift_ms = _steps(job.job, asked, readings, now_ms)
    minutes = minutes_of(starts, asked.step_ms)
    metric, many = METRIC_TYPES[asked.metric_type]
    pods = []
    for pod, task in zip(job.pods, job.job.tasks, strict=True) if len(starts) else ():
        values = mean(measured(fleet, job.job, task, metric, minutes, now_ms=now_ms))
        if many == "MB/s":
            values = rounded(values / readings.megabyte, RATE_DIGITS)
        else:
            count = getattr(job.job, many) if many and readings.percent_of == "unit" else 1
            values = rounded(rounded(values, readings.digits) * count, readings.digits)
        for name, first_ms, end_ms in job.incarnations(pod, renamed=readings.renamed):
            there = ~np.isnan(values) & (starts >= first_ms) & (starts < end_ms)
            times = (starts[there] + shift_ms).tolist()
            points = [Point(time, value) for time, value in zip(times, values[there].tolist(), strict=True)]
            if points:
                pods.append({"PodId": name, "Metrics": disordered(points, name) if shuffled else points})
    return {"JobId": job.id, "PodMetrics": pods}


def _steps(job: FleetJob, asked: Range, readings: Readings, now_ms: int) -> tuple[Int64, int]:
    """Give int64[N], the starts of the steps whose points are in the range, and how far behind it a point stands."""
    step_ms = asked.step_ms
    shift_ms = readings.offset_ms % step_ms + (step_ms if readings.time_at == "end" else 0)
    start_ms, end_ms = asked.start_ms - shift_ms, asked.end_ms - shift_ms + 1
    newest_ms = (end_ms - 1) // step_ms * step_ms
    life = life_ms(job, step_ms, now_ms)
    return grid(
        max(start_ms, newest_ms - (readings.clip - 1) * step_ms, life[0]), min(end_ms, life[1]), step_ms
    ), shift_ms


def disordered(points: list[Point], seed: str, /) -> list[Point]:
    """Give the points in no order, every fifth twice: first with a wrong value, later with its own."""
    dice = random.Random(seed)
    mixed = [*points]
    dice.shuffle(mixed)
    wrong = [Point(point.Time, point.Value + 1.0) for point in points[::5]]
    return [*wrong, *mixed]
