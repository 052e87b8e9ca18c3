"""The vendor's metrics and what they are in canonical terms: one table for ``GetJobMetrics``, one for CloudMonitor."""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self

import attrs

from metricsbridge.provider_kit import METRICS, ConfigurationError, Statistic, vendor_metric
from metricsbridge_pai._wire import MetricMeta

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from metricsbridge.provider_kit import Level

    Float64 = NDArray[np.float64]

PROVIDER: Final = "pai-dlc"
NAMESPACE: Final = "acs_pai_dlc"

Share = Literal["", "cpu", "gpu"]


@attrs.frozen
class Conversion:
    """From the vendor's numbers to a unit: value × ``multiply`` ÷ ``divide``; percent are truly divided by 100."""

    unit: str
    multiply: float = 1.0
    divide: float = 1.0

    def apply(self, values: Float64) -> Float64:
        """Convert; gaps stay gaps."""
        if self.multiply != 1.0:
            values = values * self.multiply
        return values / self.divide if self.divide != 1.0 else values


PERCENT: Final = Conversion("1", divide=100.0)


@attrs.frozen
class Entry:
    """What one ``MetricType`` becomes.

    Attributes:
        megabytes: Whether it is in MB/s; otherwise it is in percent.
        share: Of which units of a pod the percent are, where 100 % may be one unit.
    """

    metric: str
    megabytes: bool = False
    share: Share = ""


JOB_METRICS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "CpuCoreUsage": Entry("container.cpu.utilization", share="cpu"),
        "MemoryUsage": Entry("container.memory.utilization"),
        "GpuCoreUsage": Entry("hw.gpu.utilization", share="gpu"),
        "GpuMemoryUsage": Entry("hw.gpu.memory.utilization", share="gpu"),
        "DiskReadRate": Entry("container.disk.read.rate", megabytes=True),
        "DiskWriteRate": Entry("container.disk.write.rate", megabytes=True),
        "NetworkInputRate": Entry("container.network.receive.rate", megabytes=True),
        "NetworkOutputRate": Entry("container.network.transmit.rate", megabytes=True),
    }
)
"""``MetricType`` of ``GetJobMetrics``. Its page has no units; they stand with the same names in PAI's
``ListTrainingJobInstanceMetrics``: percent, and MB/s over TCP/IP."""


@attrs.frozen
class Known:
    """A metric of CloudMonitor that is a canonical one by the table: it is in percent."""

    metric: str
    level: Level


CLOUDMONITOR_METRICS: Final[Mapping[str, Known]] = MappingProxyType(
    {
        "CARD_GPU_DUTY_CYCLE": Known("hw.gpu.utilization", "device"),
        "JOB_GPU_ACCELERATOR_DUTTY_UTIL": Known("hw.gpu.utilization", "job"),  # the vendor's spelling
    }
)
"""Names in the namespace ``acs_pai_dlc`` (metrics used by the vendor's own monitoring scripts)."""

_PREFIXES: Final[Mapping[str, Level]] = {"JOB_": "job", "POD_": "task", "CARD_": "device"}

JOB_DIMENSIONS: Final = ("jobid", "job", "jobname")
POD_DIMENSIONS: Final = ("pod", "podid", "podname", "pod_name", "pod_id")
CARD_DIMENSIONS: Final = (
    "gpu", "gpuid", "gpu_id", "gpuindex", "card", "cardid", "card_id", "cardindex", "index", "device", "deviceid",
    "device_id", "minor_number", "npu", "npuid",
)  # fmt: skip
"""What the members of a point may be called, in lower case: their exact spelling is not documented."""

_SIZES: Final = {
    "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4,
}  # fmt: skip

UNITS: Final[Mapping[str, Conversion]] = MappingProxyType(
    {
        **dict.fromkeys(("%", "percent", "Percent"), PERCENT),
        **{f"{prefix}B": Conversion("By", size) for prefix, size in _SIZES.items()},
        **{f"{prefix}B/s": Conversion("By/s", size) for prefix, size in _SIZES.items()},
        **dict.fromkeys(("byte", "bytes", "Byte", "Bytes"), Conversion("By")),
        **dict.fromkeys(("byte/s", "bytes/s", "Byte/s", "Bytes/s"), Conversion("By/s")),
        **dict.fromkeys(("core", "cores", "Core", "Cores"), Conversion("{cpu}")),
        "W": Conversion("W"),
    }
)
"""Units as CloudMonitor writes them; bits (``bit/s``, ``bps``) are on purpose none of them."""


@attrs.frozen(kw_only=True)
class CloudMetric:
    """One metric of CloudMonitor, as it is asked for and read.

    Attributes:
        name: The vendor's.
        metric: The canonical name, or ``vendor.pai-dlc.<name>``.
        dimensions: What tells its points apart, in lower case; empty where CloudMonitor did not say.
        conversion: To the canonical unit, or none but the vendor's own unit; None where CloudMonitor must still say it.
        periods: In seconds, ascending; empty where CloudMonitor did not say.
    """

    name: str
    metric: str
    level: Level
    conversion: Conversion | None
    dimensions: tuple[str, ...] = ()
    periods: tuple[int, ...] = ()
    statistic: Statistic = Statistic.MEAN


def level_of(name: str, dimensions: str | None, /) -> Level | None:
    """Tell from a metric's dimensions, else from its name, what one series of it stands for; None for none of ours."""
    found = set(_dimensions(dimensions))
    if found & set(CARD_DIMENSIONS):
        return "device"
    if found & set(POD_DIMENSIONS):
        return "task" if not name.startswith("CARD_") else "device"
    by_name = next((level for prefix, level in _PREFIXES.items() if name.startswith(prefix)), None)
    if by_name is None and found & set(JOB_DIMENSIONS):
        return "job" if found <= {*JOB_DIMENSIONS, "userid", "regionid", "workspaceid"} else None
    return by_name


def _dimensions(text: str | None) -> tuple[str, ...]:
    return tuple([part.strip().lower() for part in (text or "").split(",") if part.strip()])


def _statistic(statistics: str | None) -> Statistic:
    """Tell what a point says of its period: the mean, unless there is only a largest value."""
    names = {name.strip() for name in (statistics or "").split(",")}
    return Statistic.MAX if "Maximum" in names and not names & {"Average", "Value"} else Statistic.MEAN


def _periods(text: str | None) -> tuple[int, ...]:
    return tuple(sorted([int(part) for part in (text or "").split(",") if part.strip().isdecimal() and int(part) > 0]))


@attrs.frozen
class Catalog:
    """The metrics of CloudMonitor that can be asked for.

    Attributes:
        told: What CloudMonitor says of its metrics; None where it could not be asked.
        metrics: Those that are canonical ones.
    """

    told: Mapping[str, MetricMeta] | None
    metrics: tuple[CloudMetric, ...]

    @classmethod
    def of(cls, told: Mapping[str, MetricMeta] | None, mapped: Mapping[str, str], /) -> Self:
        """Make the catalog from what CloudMonitor tells, the table, and what the user says.

        Raises:
            ConfigurationError: A metric that the user names does not exist, or its unit or level does not fit.
        """
        metrics = [_mapped(name, metric, told) for name, metric in mapped.items()]
        for name, known in CLOUDMONITOR_METRICS.items():
            # An empty list tells nothing, like none at all.
            meta = told.get(name) if told else MetricMeta(name)
            if name not in mapped and meta is not None:
                metrics.append(_asked(meta, known.metric, known.level, PERCENT))
        return cls(told, tuple(metrics))

    def canonical(self, per: Level, /) -> tuple[str, ...]:
        """Give the canonical metrics of a level."""
        return tuple(dict.fromkeys([one.metric for one in self.metrics if self.find(one.metric, per) is not None]))

    def find(self, metric: str, per: Level, /) -> CloudMetric | None:
        """Give what answers for a metric on a level; for a task, else what its devices' mean is made of."""
        chosen = [one for one in self.metrics if one.metric == metric]
        prefix = vendor_metric(PROVIDER, "")
        if metric.startswith(prefix):
            meta = (MetricMeta if self.told is None else self.told.get)(metric.removeprefix(prefix))
            level = level_of(meta.MetricName, meta.Dimensions) if meta is not None else None
            if meta is not None and level is not None:
                chosen = [_asked(meta, metric, level, Conversion((meta.Unit or "").strip()))]
        levels: tuple[Level, ...] = ("task", "device") if per == "task" else (per,)
        return next((one for level in levels for one in chosen if one.level == level), None)


def _asked(meta: MetricMeta, metric: str, level: Level, conversion: Conversion | None) -> CloudMetric:
    return CloudMetric(
        name=meta.MetricName, metric=metric, level=level, conversion=conversion,
        dimensions=_dimensions(meta.Dimensions), periods=_periods(meta.Periods), statistic=_statistic(meta.Statistics),
    )  # fmt: skip


def _mapped(name: str, metric: str, told: Mapping[str, MetricMeta] | None) -> CloudMetric:
    if told is not None and name not in told:
        close = get_close_matches(name, told, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(told)) or 'none'}"
        raise ConfigurationError(f"cloudmonitor_metrics: CloudMonitor has no metric {name} in {NAMESPACE}; {hint}")
    meta = told[name] if told is not None else MetricMeta(name)
    level = level_of(name, meta.Dimensions)
    if level is None:
        text = "is neither of a job, nor of a pod, nor of a card; leave it out"
        if told is None:
            text = "can't be used while CloudMonitor does not tell what it is of; allow DescribeMetricMetaList"
        raise ConfigurationError(f"cloudmonitor_metrics: {name} {text}")
    return _asked(meta, metric, level, conversion_of(meta, metric) if told is not None else None)


def conversion_of(meta: MetricMeta, metric: str, /) -> Conversion:
    """Give the conversion from CloudMonitor's unit to a canonical metric's.

    Raises:
        ConfigurationError: The unit is not known, or is none of that metric: it is not guessed.
    """
    found = UNITS.get((meta.Unit or "").strip())
    if found is None or found.unit != METRICS[metric].unit:
        raise ConfigurationError(
            f"cloudmonitor_metrics: {meta.MetricName} is in {meta.Unit or 'no unit'!r}, which can't be made "
            f"{METRICS[metric].unit!r}, the unit of {metric}: leave it out and ask for "
            f"{vendor_metric(PROVIDER, meta.MetricName)}"
        )
    return found
