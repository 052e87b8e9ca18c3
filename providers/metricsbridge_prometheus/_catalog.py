"""What is asked for each canonical metric: one table of PromQL.

In a query ``$pods`` stands for the matchers of the pods and ``$range`` for the stretch of time that one value
summarises. A query of a container metric gives one series for each pod, a query of a device metric one for each device;
what is above that (a pod's mean over its devices, a job's mean over its pods) is the same for all and made of it.

Gauges are averaged over the stretch before anything else is done with them. Series of one container that differ in
``id`` are its lives: rates of all of them add up, of gauges the largest counts, for two lives share no instant. The
same series scraped twice counts once.

Sources: cAdvisor's and kube-state-metrics' lists of metrics; DCGM exporter's default counters; Ascend NPU exporter.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen
class Place:
    """By which labels the series of an exporter are found, and told apart.

    Attributes:
        namespace: The label with the pod's namespace.
        pod: The label with the pod's name.
        devices: The labels of one device, where there are devices.
    """

    namespace: str = "namespace"
    pod: str = "pod"
    devices: tuple[str, ...] = ()


_POD: Final = (Place(),)
_DCGM_DEVICE: Final = ("gpu", "UUID", "GPU_I_ID")
_DCGM: Final = (
    Place(devices=_DCGM_DEVICE),
    Place("exported_namespace", "exported_pod", _DCGM_DEVICE),  # scraped without honor_labels
)
_NPU_DEVICE: Final = ("id", "vdie_id")
_NPU: Final = (Place("namespace", "pod_name", _NPU_DEVICE), Place("exported_namespace", "pod_name", _NPU_DEVICE))


@attrs.frozen
class Entry:
    """How one canonical metric is read: its value is that of the query, divided by ``divide``.

    Attributes:
        query: PromQL.
        unit: Of the canonical metric.
        divide: A percentage is divided by 100, never multiplied by 0.01; a power of two below 1 multiplies exactly.
        places: Where the exporters put the pod's name; the query is asked for each of them.
        counter: Whether it compares samples of a counter, of which it needs several.
    """

    query: str
    unit: str
    divide: float = 1.0
    places: tuple[Place, ...] = _POD
    counter: bool = False


_MIB: Final = 2.0**-20

_CONTAINERS: Final = '$pods,container!="",container!="POD"'
"""Without the sums over a pod's containers, and without the one that only holds its network."""

_SMALL: Final = "< 9.2e18"
"""The exporters' blank, and a memory limit that is none, are the largest int64."""


def _counter(name: str, selector: str, *labels: str) -> str:
    """Sum a counter's rate over all series of a pod that differ in ``labels``."""
    apart = ", ".join(("namespace", "pod", *labels))
    return f"sum by (namespace, pod) (max by ({apart}) (rate({name}{{{selector}}}[$range])))"


def _limit(in_force: str, resource: str) -> str:
    """Give each container's limit: the one in force, else the one that was asked for."""
    asked = f'avg_over_time(kube_pod_container_resource_limits{{$pods,resource="{resource}"}}[$range])'
    each = "max by (namespace, pod, container)"
    return f"({each} ({in_force}) > 0 {_SMALL} or {each} ({asked}) > 0)"


def _share(used: str, limit: str) -> str:
    """Give what a pod uses of its limit: over its containers that have one, on both sides of the division."""
    apart = "on (namespace, pod, container)"
    return (
        f"sum by (namespace, pod) ({used} and {apart} {limit}) / sum by (namespace, pod) ({limit} and {apart} {used})"
    )


_CPU_USED: Final = (
    "sum by (namespace, pod, container) (max by (namespace, pod, container, id, cpu) "
    f"(rate(container_cpu_usage_seconds_total{{{_CONTAINERS}}}[$range])))"
)
_CPU_LIMIT: Final = _limit(
    f"avg_over_time(container_spec_cpu_quota{{{_CONTAINERS}}}[$range])"
    f" / avg_over_time(container_spec_cpu_period{{{_CONTAINERS}}}[$range])",
    "cpu",
)
_MEMORY_USED: Final = (
    "max by (namespace, pod, container) "
    f"(avg_over_time(container_memory_working_set_bytes{{{_CONTAINERS}}}[$range]))"
)  # fmt: skip
_MEMORY_LIMIT: Final = _limit(f"avg_over_time(container_spec_memory_limit_bytes{{{_CONTAINERS}}}[$range])", "memory")


def _dcgm(name: str) -> str:
    """Average a gauge of the DCGM exporter; a stretch with a blank in it has no value."""
    samples = f"{name}{{$pods}}[$range]"
    return f"(avg_over_time({samples}) and max_over_time({samples}) {_SMALL})"


def _npu(name: str) -> str:
    """Average a gauge of the NPU exporter, which reports a failed reading as a negative number."""
    samples = f"{name}{{$pods}}[$range]"
    return f"(avg_over_time({samples}) and min_over_time({samples}) >= 0)"


_GPU_MEMORY: Final = _dcgm("DCGM_FI_DEV_FB_USED")

CATALOG: Final[Mapping[str, Entry]] = MappingProxyType({
    "container.cpu.utilization": Entry(_share(_CPU_USED, _CPU_LIMIT), "1", counter=True),
    "container.cpu.usage": Entry(f"sum by (namespace, pod) ({_CPU_USED})", "{cpu}", counter=True),
    "container.memory.utilization": Entry(_share(_MEMORY_USED, _MEMORY_LIMIT), "1"),
    "container.memory.working_set": Entry(f"sum by (namespace, pod) ({_MEMORY_USED})", "By"),
    "container.disk.read.rate": Entry(
        _counter("container_fs_reads_bytes_total", _CONTAINERS, "container", "id", "device"), "By/s", counter=True
    ),
    "container.disk.write.rate": Entry(
        _counter("container_fs_writes_bytes_total", _CONTAINERS, "container", "id", "device"), "By/s", counter=True
    ),
    # A pod has one network, which its containers share: it is counted at the pod, or at the container that holds it.
    "container.network.receive.rate": Entry(
        _counter("container_network_receive_bytes_total", '$pods,interface!="lo"', "interface"), "By/s", counter=True
    ),
    "container.network.transmit.rate": Entry(
        _counter("container_network_transmit_bytes_total", '$pods,interface!="lo"', "interface"), "By/s", counter=True
    ),
    "hw.gpu.utilization": Entry(_dcgm("DCGM_FI_DEV_GPU_UTIL"), "1", 100.0, _DCGM),
    "hw.gpu.memory.utilization": Entry(
        f"{_GPU_MEMORY} / ({_GPU_MEMORY} + {_dcgm('DCGM_FI_DEV_FB_FREE')})", "1", places=_DCGM
    ),
    "hw.gpu.memory.usage": Entry(_GPU_MEMORY, "By", _MIB, _DCGM),
    "hw.npu.utilization": Entry(_npu("npu_chip_info_utilization"), "1", 100.0, _NPU),
    "hw.npu.memory.utilization": Entry(
        f"({_npu('npu_chip_info_hbm_used_memory')} / ({_npu('npu_chip_info_hbm_total_memory')} > 0)"
        f" or {_npu('npu_chip_info_used_memory')} / ({_npu('npu_chip_info_total_memory')} > 0))",
        "1", places=_NPU,
    ),
    "hw.power": Entry(_dcgm("DCGM_FI_DEV_POWER_USAGE"), "W", places=_DCGM),
})  # fmt: skip
"""Canonical name to how it is read. ``hw.power`` of NPUs is in ``NPU_POWER``."""

NPU_POWER: Final = Entry(_npu("npu_chip_info_power"), "W", places=_NPU)
"""The other kind of device that draws power: ``hw.power`` asks for both."""

_EVERY_PLACE: Final = (
    Place(),
    Place("exported_namespace", "exported_pod"),
    Place("namespace", "pod_name"),
)
POD_LABELS: Final = ("exported_pod", "pod_name", "pod")
"""Where a series names its pod: the first that it has."""

DEVICE_LABELS: Final = tuple(dict.fromkeys([*_DCGM_DEVICE, *_NPU_DEVICE]))

_NAMING: Final = tuple(dict.fromkeys([label for place in _EVERY_PLACE for label in (place.namespace, place.pod)]))

SERVED: Final = tuple(CATALOG)
SERVED_OF_DEVICES: Final = tuple([name for name, entry in CATALOG.items() if entry.places is not _POD])
SERVED_OF_JOBS: Final = tuple([name for name, entry in CATALOG.items() if entry.unit == "1"])


def parts_of(metric: str, /) -> tuple[tuple[Place, str], ...]:
    """Give the queries that together answer for a metric, each with the labels that it goes by."""
    entries = (CATALOG[metric], NPU_POWER) if metric == "hw.power" else (CATALOG[metric],)
    return tuple([(place, entry.query) for entry in entries for place in entry.places])


def at_level(query: str, place: Place, level: str, /) -> str:
    """Give the query with one series for each pod, or for each device."""
    pod = (place.namespace, place.pod)
    if not place.devices:
        return query
    each = f"avg by ({', '.join((*pod, *place.devices))}) ({query})"
    return each if level == "device" else f"avg by ({', '.join(pod)}) ({each})"


def users_at_level(query: str, level: str, /) -> str:
    """Give a user's query with one series for each pod, or for each device, whichever labels it has."""
    labels = (*_NAMING, *DEVICE_LABELS) if level == "device" else _NAMING
    return f"avg by ({', '.join(labels)}) ({query}\n)"  # its last line may be a comment


def unit_of(metric: str, /) -> str:
    """Give a metric's unit; of those outside the table it is not known."""
    return METRICS[metric].unit if metric in METRICS else ""
