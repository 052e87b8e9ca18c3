"""The metrics of the emulated ModelArts v1: the fleet's numbers as the service averages them and writes them; pure.

Sources: ModelArts API reference, "Querying the Details About a Training Job Version" and "查询作业的单个容器的监控"
(monitoring one pod); Open Telekom Cloud's recorded answers for how numbers and gaps are written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import msgspec
import numpy as np

from metricsbridge.testing.fleet import MINUTE_MS
from metricsbridge_modelarts._emulated.gateway import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from metricsbridge.testing.fleet import Fleet, FleetJob

    Float64 = NDArray[np.float64]
    Int64 = NDArray[np.int64]

CANONICAL: Final[Mapping[str, str]] = {
    "cpuUsage": "container.cpu.utilization",
    "memUsage": "container.memory.utilization",
    "diskReadRate": "container.disk.read.rate",
    "diskWriteRate": "container.disk.write.rate",
    "recvBytesRate": "container.network.receive.rate",
    "sendBytesRate": "container.network.transmit.rate",
    "gpuUtil": "hw.gpu.utilization",
    "gpuMemUsage": "hw.gpu.memory.utilization",
}
"""The service's name of a metric to the fleet's."""

_DEVICE_NAMES: Final[Mapping[str, str]] = {
    "underscore": "{}_{}",
    "plain": "{}{}",
    "dash": "{}-{}",
    "bracket": "{}[{}]",
    "repeated": "{}",
}
_COMMAS: Final = re.compile("[,，]")

_one_of = attrs.validators.in_


@attrs.frozen(kw_only=True)
class Readings:
    """What the vendor's documents leave open, one reading each; the defaults are the likeliest.

    Attributes:
        device_names: How ``statistic_type=each`` names a card's series: ``gpuUtil_0``, ``gpuUtil0``, ``gpuUtil-0``,
            ``gpuUtil[0]``, the same ``gpuUtil`` for each, or one ``gpuUtil`` whose ``value`` is an array of arrays.
        system_metrics: Whether the details have ``system_metric_list`` as an object or as its JSON in a string; the
            list of versions always has the string.
        model_metrics: Likewise ``model_metric_list``.
        failure_status: The HTTP status of the service's own refusals (not the gateway's); None is the documented one.
        disk_rate_bytes: Bytes per unit of the disk's rates, which are KB/s by analogy.
        network_rate_bytes: Bytes per unit of the network's rates.
        interval_minutes: Each value is the mean of what was measured in so many minutes, from the job's first on. A
            running job has the intervals that are complete.
        retention_minutes: Only intervals from the last so many minutes before now are served; None serves all.
        pod_metrics: Whether the route for one pod is there still.
        filler: Stands where nothing was measured.
        decimals: Whether numbers have two decimals; without, a measured zero looks like the filler.
        no_time: Stands for a time that there is not, such as the start of a job that never started.
        unknown_job_code: Answered, with HTTP 400, for a job or version that does not exist.
        unknown_pod_code: Likewise for a pod.
    """

    device_names: Literal["underscore", "plain", "dash", "bracket", "repeated", "nested"] = attrs.field(
        default="underscore", validator=_one_of((*_DEVICE_NAMES, "nested"))
    )
    system_metrics: Literal["object", "string"] = attrs.field(default="object", validator=_one_of(("object", "string")))
    model_metrics: Literal["object", "string"] = attrs.field(default="string", validator=_one_of(("object", "string")))
    failure_status: int | None = None
    disk_rate_bytes: float = 1000
    network_rate_bytes: float = 1
    interval_minutes: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    retention_minutes: int | None = None
    pod_metrics: bool = True
    filler: str | None = "0"
    decimals: bool = True
    no_time: Literal[0] | None = None
    unknown_job_code: str = "ModelArts.2775"
    unknown_pod_code: str = "ModelArts.2788"

    def bytes_per_unit(self, metric: str, /) -> float:
        """Give what one on the wire is in the fleet's unit, for one of the fleet's metrics."""
        family = metric.split(".")[1]
        return {"disk": self.disk_rate_bytes, "network": self.network_rate_bytes}.get(family, 1)


DEFAULT: Final = Readings()


def displayed(value: float, metric: str, readings: Readings = DEFAULT) -> str | None:
    """Give the text that the wire carries for a number of the fleet.

    Args:
        value: Percent, or bytes per second; NaN is what was not measured.
        metric: The fleet's name of it.
        readings: The emulator's.
    """
    return _displayed(np.array([value]), metric, readings)[0]


def _displayed(values: Float64, metric: str, readings: Readings) -> list[str | None]:
    form = "%.2f" if readings.decimals else "%.0f"
    filler = readings.filler
    scaled = (values / readings.bytes_per_unit(metric)).tolist()
    return [form % value if value == value else filler for value in scaled]


def served_minutes(job: FleetJob, now_ms: int, readings: Readings, /) -> Int64:
    """Give int64[N], the starts of the minutes whose numbers are served, ms since the epoch: whole intervals."""
    size, minutes = readings.interval_minutes, job.minutes(now_ms)
    if job.end_time_ms is None:
        minutes = minutes[: len(minutes) // size * size]
    if readings.retention_minutes is None:
        return minutes
    oldest = (now_ms // MINUTE_MS - readings.retention_minutes) * MINUTE_MS
    dropped = int(np.searchsorted(minutes, oldest))
    return minutes[-(-dropped // size) * size :]


def pod_values(
    fleet: Fleet, job: FleetJob, task: str, metric: str, minutes: Int64, *, size: int = 1, device: int | None = None
) -> Float64:
    """Give float64[⌈N / size⌉], the means over intervals of ``size`` minutes, before they are rounded.

    Args:
        fleet: Whose numbers.
        job: One of its jobs.
        task: One of the job's.
        metric: The fleet's name of it.
        minutes: As ``served_minutes``.
        size: Minutes of an interval.
        device: None is the task as a whole.
    """
    return _intervals(fleet.wire_values(job, task, metric, minutes, device=device), size)


def job_values(fleet: Fleet, job: FleetJob, metric: str, minutes: Int64, *, size: int = 1) -> Float64:
    """Give float64[⌈N / size⌉], the job's averages: over the tasks that were measured, then over each interval."""
    tasks = np.stack([fleet.wire_values(job, task, metric, minutes) for task in job.tasks])
    return _intervals(_mean_of_measured(tasks, axis=0), size)


def _intervals(values: Float64, size: int) -> Float64:
    rows = -(-len(values) // size)
    padded = np.full(rows * size, np.nan)
    padded[: len(values)] = values
    return _mean_of_measured(padded.reshape(rows, size), axis=1)


def _mean_of_measured(values: Float64, *, axis: int) -> Float64:
    measured = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: Float64 = np.sum(np.where(measured, values, 0.0), axis=axis) / np.count_nonzero(measured, axis=axis)
    return means


def asked_metrics(text: str, /) -> list[str]:
    """Read the parameter ``metrics``: ASCII or full-width commas, either case of the first letter, blank for all.

    Raises:
        ApiError: There is no such metric.
    """
    asked = [name.strip() for name in _COMMAS.split(text) if name.strip()]
    names = list(dict.fromkeys([name[0].lower() + name[1:] for name in asked])) or list(CANONICAL)
    unknown = [name for name in names if name not in CANONICAL]
    if unknown:
        raise ApiError(400, "ModelArts.0104", f"Invalid parameter metrics: {', '.join(unknown)}.")
    return names


def pod_body(
    fleet: Fleet,
    job: FleetJob,
    task: str,
    names: Sequence[str],
    *,
    each: bool,
    minutes: Int64,
    readings: Readings,
) -> bytes:
    """Give the body of ShowPodMetricStatistic.

    All metrics have equal length; those of GPUs that the pod lacks hold the filler throughout, in one series.

    Args:
        fleet: Whose numbers.
        job: One of its jobs.
        task: One of the job's.
        names: The service's names of the metrics.
        each: Whether each card has a series of its own.
        minutes: As ``served_minutes``.
        readings: The emulator's.
    """

    def texts(metric: str, device: int | None = None) -> list[str | None]:
        values = pod_values(fleet, job, task, metric, minutes, size=readings.interval_minutes, device=device)
        return _displayed(values, metric, readings)

    entries: list[dict[str, Any]] = []
    for name in names:
        metric = CANONICAL[name]
        cards = range(job.devices if each and name.startswith("gpu") and job.device_kind == "gpu" else 0)
        if not cards:
            entries.append({"metric": name, "value": texts(metric)})
        elif readings.device_names == "nested":
            entries.append({"metric": name, "value": [texts(metric, card) for card in cards]})
        else:
            form = _DEVICE_NAMES[readings.device_names]
            entries += [{"metric": form.format(name, card), "value": texts(metric, card)} for card in cards]
    return msgspec.json.encode({"metrics": entries, "interval": readings.interval_minutes})


def system_metrics_body(fleet: Fleet, job: FleetJob, minutes: Int64, readings: Readings, /) -> bytes:
    """Give ``system_metric_list`` as JSON: arrays of the job's averages, and the interval, a number, among them."""
    size = readings.interval_minutes
    arrays = {
        name: _displayed(job_values(fleet, job, metric, minutes, size=size), metric, readings)
        for name, metric in CANONICAL.items()
    }
    return msgspec.json.encode({"interval": size, **arrays})
