"""From samples as they arrive to the columns of a batch: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricsbridge.provider_kit import SeriesBatch, SeriesKey, Statistic, Timing, merge, sort_samples

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    Samples = tuple[NDArray[np.int64], NDArray[np.float64]]


def to_batch(
    keys: Sequence[SeriesKey],
    samples: Sequence[Samples],
    *,
    unit: str,
    interval_ms: int,
    statistic: Statistic = Statistic.MEAN,
) -> SeriesBatch:
    """Put series into columns; each is sorted, of equal times the last one given wins, and equal keys become one."""
    if not keys:
        return SeriesBatch.empty()
    count = len(keys)
    sorted_ = [sort_samples(times, values) for times, values in samples]
    return merge([
        SeriesBatch(
            keys=tuple(keys),
            unit=(unit,) * count,
            interval_ms=(interval_ms,) * count,
            timing=(Timing.REPORTED,) * count,
            time_error_ms=(0,) * count,
            statistic=(statistic,) * count,
            offsets=np.cumsum([0, *[len(times) for times, _ in sorted_]], dtype=np.int64),
            times=np.concatenate([times for times, _ in sorted_]),
            values=np.concatenate([values for _, values in sorted_]),
        )
    ])  # fmt: skip


def is_wanted(pod: str, tasks: Collection[str], only: Collection[str] | None, /) -> bool:
    """Tell whether a call answers for a pod.

    Args:
        pod: Its id.
        tasks: The call's; "" among them stands for every pod that the answer names.
        only: Which of these are wanted; None for all.
    """
    return pod in tasks if "" not in tasks else only is None or pod in only


def mean_over_devices(batch: SeriesBatch, /, *, of_all: bool = False) -> SeriesBatch:
    """Give one series for each task: at each time the mean over those of its devices that have a value then.

    Args:
        batch: One series for each device.
        of_all: Leave out the times at which only some of a task's devices have one.
    """
    groups: dict[SeriesKey, list[int]] = {}
    for index, key in enumerate(batch.keys):
        groups.setdefault(SeriesKey(key.job, key.task, "", key.metric), []).append(index)
    if not groups:
        return batch
    parts = [_mean([batch.samples(index) for index in indices], of_all) for indices in groups.values()]
    return to_batch(
        tuple(groups), parts, unit=batch.unit[0], interval_ms=batch.interval_ms[0], statistic=batch.statistic[0]
    )


def _mean(parts: Sequence[Samples], of_all: bool) -> Samples:
    times = np.concatenate([times for times, _ in parts])
    values = np.concatenate([values for _, values in parts])
    grid, place = np.unique(times, return_inverse=True)
    present = ~np.isnan(values)
    sums = np.bincount(place[present], values[present], len(grid))
    counts = np.bincount(place[present], minlength=len(grid))
    means = np.full(len(grid), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    kept = (counts == 0) | (counts == len(parts)) if of_all else slice(None)
    return grid[kept], means[kept]
