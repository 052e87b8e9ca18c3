"""The vendor's metrics and what they are in canonical terms, one table for each API.

Units: percent for all utilisations (console guide of the training service; the API reference's samples agree). Those of
API v1's rates are not documented: the same rate of disks is KB/s where AOM shows it, and the numbers of recorded jobs
say bytes per second for the network, so both may be set.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

Rated = Literal["", "disk", "network"]
"""Which setting says what one unit of a rate stands for; "" is none."""


@attrs.frozen
class Entry:
    """What one vendor metric becomes: value × the unit that ``rated`` names ÷ ``divide`` is the canonical metric."""

    metric: str
    unit: str
    divide: float
    rated: Rated = ""


def _percent(metric: str) -> Entry:
    return Entry(metric, "1", 100.0)


def _rate(metric: str, rated: Rated) -> Entry:
    return Entry(metric, "By/s", 1.0, rated)


V2: Final[Mapping[str, Entry]] = MappingProxyType({
    "cpuUsage": _percent("container.cpu.utilization"),
    "memUsage": _percent("container.memory.utilization"),
    "gpuUtil": _percent("hw.gpu.utilization"),
    "gpuMemUsage": _percent("hw.gpu.memory.utilization"),
    "npuUtil": _percent("hw.npu.utilization"),
    "npuMemUsage": _percent("hw.npu.memory.utilization"),
})  # fmt: skip
"""Metrics of ``ShowTrainingJobMetrics``."""

V1: Final[Mapping[str, Entry]] = MappingProxyType({
    **V2,
    "diskReadRate": _rate("container.disk.read.rate", "disk"),
    "diskWriteRate": _rate("container.disk.write.rate", "disk"),
    "recvBytesRate": _rate("container.network.receive.rate", "network"),
    "sendBytesRate": _rate("container.network.transmit.rate", "network"),
})  # fmt: skip
"""Metrics of ``ShowPodMetricStatistic`` and of ``system_metric_list``; those of NPUs are not documented there."""

V1_DEVICES: Final = ("hw.gpu.utilization", "hw.gpu.memory.utilization")
"""What there is for each card: ``statistic_type`` is for GPUs only (ModelArts API reference, metric-statistic)."""

V1_KNOWN: Final = tuple([entry.metric for entry in V1.values()])
"""What is read of a pod and of a job where API v1 gives it."""

V1_SERVED: Final = tuple([entry.metric for entry in V1.values() if not entry.metric.startswith("hw.npu.")])
"""Of these, what API v1 documents, of a pod and of a job."""
