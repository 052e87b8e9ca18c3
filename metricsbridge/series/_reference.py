"""What alignment means, in the plainest words: slow, obvious, and the oracle of tests and benchmarks.

The functions here take valid arguments only; what is refused, and how, is up to the functions they specify.
``_reference_decode.py`` is the same for decoding.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from metricsbridge.durations import parse_duration
from metricsbridge.model import Window
from metricsbridge.series.align import Fill, Frame, How

if TYPE_CHECKING:
    from datetime import timedelta

    from metricsbridge.series.columns import SeriesBatch


def align_reference(
    batch: SeriesBatch,
    /,
    *,
    step: str | int | timedelta,
    how: How = "mean",
    window: Window | None = None,
    fill: Fill | None = None,
    max_gap: str | int | timedelta | None = None,
) -> Frame:
    """Do what ``metricsbridge.series.align.align`` does, one sample at a time."""
    step_ms = parse_duration(step)
    if window is None and len(batch.times):
        window = Window(min(batch.times.tolist()), max(batch.times.tolist()) + 1)
    starts = cell_starts(window, step_ms)

    rows = []
    for index in range(len(batch)):
        times, values = batch.samples(index)
        samples = distinct_samples(times.tolist(), values.tolist())
        row = []
        for start in starts:
            inside = []
            for time, value in samples:
                if window is not None and time in window and start <= time < start + step_ms:
                    inside.append(value)
            row.append(summary(inside, how))
        if how != "count" and fill is not None:
            gap_ms = max(batch.interval_ms[index], step_ms) if max_gap is None else parse_duration(max_gap)
            row = previous(row, step_ms, gap_ms) if fill == "previous" else linear(row, step_ms, gap_ms)
        rows.append(row)

    return Frame(
        source=batch.source,
        keys=batch.keys,
        unit=tuple("{sample}" for _ in batch.keys) if how == "count" else batch.unit,
        interval_ms=batch.interval_ms,
        timing=batch.timing,
        time_error_ms=batch.time_error_ms,
        statistic=batch.statistic,
        times=np.array(starts, np.int64),
        values=np.array(rows, np.float64).reshape(len(batch), len(starts)),
        step_ms=step_ms,
        how=how,
        window=window,
    )


def cell_starts(window: Window | None, step_ms: int) -> list[int]:
    """Give the starts of the cells: from the multiple of the step at or before the window until it is covered."""
    starts: list[int] = []
    if window is not None:
        start = window.start_ms // step_ms * step_ms
        while start < window.end_ms:
            starts.append(start)
            start += step_ms
    return starts


def distinct_samples(times: list[int], values: list[float]) -> list[tuple[int, float]]:
    """Give the samples in time order: of equal times the last one given, and if that one is NaN, none."""
    latest = dict(zip(times, values, strict=True))
    return [(time, latest[time]) for time in sorted(latest) if not math.isnan(latest[time])]


def summary(values: list[float], how: How) -> float:
    """Say what a cell says of its values, which are in time order."""
    if how == "count":
        return float(len(values))
    if not values:
        return math.nan
    if how == "first":
        return values[0]
    if how == "last":
        return values[-1]
    if how == "max":
        return max(values) + 0.0  # of zeros, the positive one
    if how == "min":
        return min(values) + 0.0
    total = 0.0
    for value in values:
        total += value
    return total if how == "sum" else total / len(values)


def previous(row: list[float], step_ms: int, gap_ms: int) -> list[float]:
    """Carry each value forward, to the cells that start at most the gap after its own cell's start."""
    filled = list(row)
    known = None
    for cell, value in enumerate(row):
        if not math.isnan(value):
            known = cell
        elif known is not None and (cell - known) * step_ms <= gap_ms:
            filled[cell] = row[known]
    return filled


def linear(row: list[float], step_ms: int, gap_ms: int) -> list[float]:
    """Draw a straight line over each run of cells without a value, if the run is no longer than the gap."""
    filled = list(row)
    known = [cell for cell, value in enumerate(row) if not math.isnan(value)]
    for left, right in pairwise(known):
        if (right - left - 1) * step_ms <= gap_ms:
            for cell in range(left + 1, right):
                filled[cell] = row[left] + (row[right] - row[left]) * ((cell - left) / (right - left))
    return filled
