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

    from numpy.typing import NDArray

    from metricsbridge.provider_kit import Call, LabelledSamples, Level

    Int64 = NDArray[np.int64]
    Float64 = NDArray[np.float64]


@attrs.frozen(kw_only=True)
class Reading:
    """What one call asks for: its payload.

    Attributes:
        query: The user's own PromQL; "" is the table's.
        unit: Of its values, once divided by ``divide``.
        step_ms: From one value to the next.
        reach_ms: The stretch that each value summarises.
        least_ms: So much of that stretch the pod must have lived through for a rate to say something; 0 for gauges.
        pods: The pods that the query is about.
        lives: Task to when it started and ended, each None where that is not known or has not happened.
        warnings: What the server said is missing from its answers about the job.
    """

    query: str
    per: Level
    unit: str
    divide: float
    step_ms: int
    reach_ms: int
    least_ms: int
    pods: tuple[str, ...]
    lives: tuple[tuple[str, int | None, int | None], ...] = ()
    warnings: tuple[str, ...] = ()


def to_batch(samples: LabelledSamples, call: Call, reading: Reading, now_ms: int, /) -> SeriesBatch:
    """Give the series of the call's tasks; those of other pods are left out, and values after a pod's end.

    Raises:
        InvalidRequestError: A series does not say which pod it is of.
    """
    job, tasks = call.targets[0][0], {task for _, task in call.targets}
    lives = {task: (start, end) for task, start, end in reading.lives}
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
        times, own = _alive(times, own, reading, *lives.get(task, (None, None)), now_ms)
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


def _alive(
    times: Int64, values: Float64, reading: Reading, start: int | None, end: int | None, now_ms: int
) -> tuple[Int64, Float64]:
    """Give what a pod's life allows.

    A rate over a stretch that the pod lived through in part only has its increase spread over all of it: it is brought
    to the part, or left out where that is too short. Gauges are means over their samples, wherever these are.
    """
    if end is not None:
        last = int(np.searchsorted(times, end))
        times, values = times[:last], values[:last]
    if not reading.least_ms:
        return times, values
    begins = times if start is None else np.maximum(times, start)
    lived = np.minimum(times + reading.reach_ms, now_ms if end is None else end) - begins
    enough, partly = lived >= reading.least_ms, lived < reading.reach_ms
    values = np.where(partly & enough, values * (reading.reach_ms / np.maximum(lived, 1)), values)
    return times[enough], values[enough]


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
