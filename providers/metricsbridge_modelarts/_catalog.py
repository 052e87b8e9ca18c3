"""The vendor's metrics and what they are in canonical terms, one table for each API.

Units: percent for all six (console guide of the training service; the API reference's sample agrees).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen
class Entry:
    """What one vendor metric becomes: value ÷ ``divide`` is the canonical metric in its unit."""

    metric: str
    unit: str
    divide: float


def _percent(metric: str) -> Entry:
    return Entry(metric, "1", 100.0)


V2: Final[Mapping[str, Entry]] = MappingProxyType({
    "cpuUsage": _percent("container.cpu.utilization"),
    "memUsage": _percent("container.memory.utilization"),
    "gpuUtil": _percent("hw.gpu.utilization"),
    "gpuMemUsage": _percent("hw.gpu.memory.utilization"),
    "npuUtil": _percent("hw.npu.utilization"),
    "npuMemUsage": _percent("hw.npu.memory.utilization"),
})  # fmt: skip
"""Metrics of ``ShowTrainingJobMetrics``."""
