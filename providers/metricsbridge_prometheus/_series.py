"""From the samples of a range query to the series of a call's tasks: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from metricsbridge.provider_kit import (
    InvalidRequestError,
    SeriesBatch,
    SeriesKey,
    Statistic,
    Timing,
    merge,
    sort_samples,
)
from metricsbridge_prometheus._catalog import DEVICE_LABELS, POD_LABELS
from metricsbridge_prometheus._ranges import stamps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.provider_kit import Call, LabelledSamples, Level


@attrs.frozen(kw_only=True)
class Reading:
    """What one call asks for: its payload.

    Attributes:
        query: The user's own PromQL; "" is the table's.
        unit: Of its values, once divided by ``divide``.
        step_ms: From one value to the next.
        reach_ms: The stretch that each value summarises.
        pods: The pods that the query is about.
        ends: Task to when it ended, where it has: it has no value from then on.
        warnings: What the server said is missing from its answers about the job.
    """

    query: str
    per: Level
    unit: str
    divide: float
    step_ms: int
    reach_ms: int
    pods: tuple[str, ...]
    ends: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()


def to_batch(samples: LabelledSamples, call: Call, reading: Reading, /) -> SeriesBatch:
    """Give the series of the call's tasks; those of other pods are left out.

    Raises:
        InvalidRequestError: A series does not say which pod it is of.
    """
    job, tasks, ends = call.targets[0][0], {task for _, task in call.targets}, dict(reading.ends)
    stamps = stamps_of(samples.times, reading.step_ms, reading.reach_ms)
    values = samples.values / reading.divide
    bounds = samples.offsets.tolist()
    keys, times_of, values_of = [], [], []
    for index, labels in enumerate(samples.labels):
        task = "" if reading.per == "job" else _pod(labels, call.metrics[0])
        if task not in tasks:
            continue
        part = slice(bounds[index], bounds[index + 1])
        times, own = sort_samples(stamps[part], values[part])
        if task in ends:
            alive = int(np.searchsorted(times, ends[task]))
            times, own = times[:alive], own[:alive]
        device, more = _device(labels) if reading.per == "device" else ("", ())
        keys.append(SeriesKey(job, task, device, call.metrics[0], more))
        times_of.append(times)
        values_of.append(own)
    if not keys:
        return SeriesBatch.empty()
    count = len(keys)
    return merge([
        SeriesBatch(
            keys=tuple(keys),
            unit=(reading.unit,) * count,
            interval_ms=(reading.reach_ms,) * count,
            timing=(Timing.REPORTED,) * count,
            time_error_ms=(0,) * count,
            statistic=(Statistic.MEAN,) * count,
            offsets=np.cumsum([0, *[len(times) for times in times_of]], dtype=np.int64),
            times=np.concatenate(times_of),
            values=np.concatenate(values_of),
        )
    ])  # fmt: skip


def _pod(labels: Mapping[str, str], metric: str) -> str:
    for label in POD_LABELS:
        if labels.get(label):
            return labels[label]
    raise InvalidRequestError(
        f"the query of {metric} gives a series without its pod: keep one of the labels {', '.join(POD_LABELS)}"
    )


def _device(labels: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Give a device's id, the first of its labels that it has, and what tells its slices apart."""
    device = next((labels[label] for label in DEVICE_LABELS if label != "GPU_I_ID" and labels.get(label)), "")
    return device, (("GPU_I_ID", labels["GPU_I_ID"]),) if labels.get("GPU_I_ID") else ()
