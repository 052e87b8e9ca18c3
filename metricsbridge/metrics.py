"""The canonical metrics, one table.

Names follow OpenTelemetry's semantic conventions where those have one (``hw.gpu.utilization``,
``container.cpu.usage``, ``hw.power``) and their style elsewhere. A utilisation is a fraction of what the container or
device has, unit ``1``; it is shown to people as percent. Values above 1 are legal (bursts, sums) and never clipped.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen
class Metric:
    """One canonical metric: its name, its unit in UCUM notation, and what it says."""

    name: str
    unit: str
    description: str


_TABLE = (
    Metric("container.cpu.utilization", "1", "CPU time used, of the CPUs the container may use"),
    Metric("container.cpu.usage", "{cpu}", "CPU time used, in CPUs"),
    Metric("container.memory.utilization", "1", "Physical memory used, of the memory the container may use"),
    Metric("container.memory.working_set", "By", "Memory in use that can't be reclaimed"),
    Metric("container.disk.read.rate", "By/s", "Bytes read from disk per second"),
    Metric("container.disk.write.rate", "By/s", "Bytes written to disk per second"),
    Metric("container.network.receive.rate", "By/s", "Bytes received from the network per second"),
    Metric("container.network.transmit.rate", "By/s", "Bytes sent to the network per second"),
    Metric("hw.gpu.utilization", "1", "Time in which the GPU was busy"),
    Metric("hw.gpu.memory.utilization", "1", "GPU memory used, of the memory it has"),
    Metric("hw.gpu.memory.usage", "By", "GPU memory used"),
    Metric("hw.npu.utilization", "1", "Time in which the NPU was busy"),
    Metric("hw.npu.memory.utilization", "1", "NPU memory used, of the memory it has"),
    Metric("hw.power", "W", "Electric power drawn by the device"),
)

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({metric.name: metric for metric in _TABLE})
"""Canonical name to Metric."""

VENDOR_PREFIX: Final = "vendor."
"""A metric outside the table passes through as ``vendor.<provider>.<the vendor's name>``, in its own unit."""


def vendor_metric(provider: str, name: str, /) -> str:
    """Name a vendor's metric that is outside the table."""
    return f"{VENDOR_PREFIX}{provider}.{name}"


def is_metric_name(name: str, /) -> bool:
    """Tell whether a name can be asked for: a canonical one, or ``vendor.<provider>.<name>``."""
    if not name.startswith(VENDOR_PREFIX):
        return name in METRICS
    provider, _, own = name.removeprefix(VENDOR_PREFIX).partition(".")
    return bool(provider and own)
