"""The vendor's JSON, under its own names, only the members that are used; all but a job's id may be missing.

Sources: PAI-DLC API reference, "GetJob", "ListJobs" and "GetMetrics"; CloudMonitor API reference,
"DescribeMetricMetaList" and "DescribeMetricList".
"""

# Annotations are read at run time here, to decode into.

from typing import Any

import attrs


@attrs.frozen
class PodResources:
    """What each pod of a role has; numbers in strings, which may be empty or have a unit behind."""

    CPU: Any = None
    GPU: Any = None
    GPUType: str | None = None


@attrs.frozen
class JobSpec:
    """One role of a job; it has an ``EcsSpec``, whose sizes are not told, or a ``ResourceConfig``."""

    Type: str | None = None
    PodCount: int | None = None
    EcsSpec: str | None = None
    ResourceConfig: PodResources | None = None
    UseSpotInstance: bool | None = None
    SpotSpec: Any = None
    QuotaId: str | None = None


@attrs.frozen
class HistoryPod:
    """An earlier incarnation of a pod."""

    PodId: str | None = None
    GmtStartTime: str | None = None
    GmtFinishTime: str | None = None


@attrs.frozen
class Pod:
    """One pod of a job; times in ISO 8601, UTC."""

    PodId: str | None = None
    Type: str | None = None
    GmtStartTime: str | None = None
    GmtFinishTime: str | None = None
    HistoryPods: tuple[HistoryPod, ...] | None = None


@attrs.frozen
class DlcJob:
    """One job; times in ISO 8601, UTC.

    ``GmtSuccessedTime`` is the vendor's spelling. ``RequestGPU`` is a number in ``GetJob`` and a text in ``ListJobs``.
    ``ResourceName``, ``ResourceQuotaName`` and ``EnablePreemptibleJob`` are in lists only.
    """

    JobId: str
    DisplayName: str | None = None
    Status: str | None = None
    GmtCreateTime: str | None = None
    GmtRunningTime: str | None = None
    GmtFinishTime: str | None = None
    GmtSuccessedTime: str | None = None
    GmtFailedTime: str | None = None
    GmtStoppedTime: str | None = None
    ResourceType: str | None = None
    ResourceId: str | None = None
    ResourceQuotaName: str | None = None
    RequestCPU: Any = None
    RequestGPU: Any = None
    JobSpecs: tuple[JobSpec, ...] | None = None
    Pods: tuple[Pod, ...] | None = None


@attrs.frozen
class JobPage:
    """One page of the job list; ``TotalCount`` is how many jobs match on all pages, perhaps an empty text."""

    Jobs: tuple[DlcJob, ...] | None = None
    TotalCount: Any = None


@attrs.frozen
class MetricMeta:
    """One metric of CloudMonitor; ``Periods``, ``Statistics`` and ``Dimensions`` are lists with commas."""

    MetricName: str
    Unit: str | None = None
    Periods: str | None = None
    Statistics: str | None = None
    Dimensions: str | None = None


@attrs.frozen
class MetricMetas:
    """The list inside of a page."""

    Resource: tuple[MetricMeta, ...] | None = None


@attrs.frozen
class MetaPage:
    """One page of the list of metrics; ``TotalCount`` is a number in a string, which may be empty."""

    Resources: MetricMetas | None = None
    TotalCount: Any = None


@attrs.frozen
class DataPage:
    """One page of data: JSON in a string, ``DataPoints`` in PAI-DLC and ``Datapoints`` in CloudMonitor."""

    DataPoints: Any = None
    Datapoints: Any = None
    NextToken: str | None = None
