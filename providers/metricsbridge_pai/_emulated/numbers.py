"""The fleet's numbers, minute by minute, put into steps; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from metricsbridge.testing.fleet import MINUTE_MS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricsbridge.testing.fleet import Fleet, FleetJob

    Int64 = NDArray[np.int64]
    Float64 = NDArray[np.float64]

_NEAR_HALF: Final = 1e-3


def minutes_of(starts: Int64, step_ms: int, /) -> Int64:
    """Give int64[N, M], the minutes of the steps that start then; a shorter step has the minute that it is in."""
    within = np.arange(max(1, step_ms // MINUTE_MS), dtype=np.int64) * MINUTE_MS
    minutes: Int64 = starts[:, None] // MINUTE_MS * MINUTE_MS + within
    return minutes


def measured(
    fleet: Fleet, job: FleetJob, task: str, metric: str, minutes: Int64, *, now_ms: int, device: int | None = None
) -> Float64:
    """Give the numbers of minutes in any arrangement; NaN for those without one, or not complete at ``now_ms``."""
    values = fleet.wire_values(job, task, metric, minutes.ravel(), device=device).reshape(minutes.shape)
    end_ms = (job.first_minute_ms or 0) + job.minute_count(now_ms) * MINUTE_MS
    return np.where(minutes < end_ms, values, np.nan)


def mean(values: Float64, /, *, axis: int = 1) -> Float64:
    """Give the means of what is there; NaN where nothing is."""
    there = ~np.isnan(values)
    counts: NDArray[np.int_] = there.sum(axis=axis)
    sums: Float64 = np.where(there, values, 0.0).sum(axis=axis)
    means: Float64 = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return means


def rounded(values: Float64, digits: int, /) -> Float64:
    """Give float64[N] with so many digits behind the point, each as Python's ``round`` gives it.

    numpy's scales first, which may turn a number that is just not half-way between two into one that is.
    """
    result: Float64 = np.round(values, digits)
    scaled = np.abs(values) * 10.0**digits
    for index in np.flatnonzero(np.abs(scaled - np.floor(scaled) - 0.5) < _NEAR_HALF).tolist():
        result[index] = round(float(values[index]), digits)
    return result


def grid(start_ms: int, end_ms: int, step_ms: int, /) -> Int64:
    """Give int64[N], the multiples of the step in [start, end)."""
    first = -(-start_ms // step_ms) * step_ms
    return np.arange(first, max(first, end_ms), step_ms, dtype=np.int64)


def life_ms(job: FleetJob, step_ms: int, now_ms: int, /) -> tuple[int, int]:
    """Give [start, end) of the steps that a job's measured minutes touch, ms since the epoch."""
    if job.first_minute_ms is None:
        return 0, 0
    end_ms = job.first_minute_ms + job.minute_count(now_ms) * MINUTE_MS
    return job.first_minute_ms // step_ms * step_ms, end_ms
