"""What a user sets."""

# Annotations are read at run time here, to check settings against.

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from metricsbridge.provider_kit import METRICS, ConfigurationError, Secret, check_url, parse_duration

PercentOf = Literal["pod", "unit"]
TimeAt = Literal["start", "end"]
MetricsApi = Literal["GetMetrics", "DescribeMetricList"]

_REGION: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MEGABYTES: Final = (1_000_000, 1_048_576)


def _one_of(*choices: object) -> Any:
    return attrs.validators.in_(choices)


def _region(_: object, field: "attrs.Attribute[Any]", region: str | None) -> None:
    if region is not None and not _REGION.fullmatch(region):
        raise ConfigurationError(f"{field.name}: write a region such as cn-hangzhou")


def _duration(_: object, field: "attrs.Attribute[Any]", text: str | None) -> None:
    try:
        good = text is None or parse_duration(text) > 0
    except ValueError:
        good = False
    if not good:
        raise ConfigurationError(f"{field.name}: write a duration such as '30d' or '12h'")


def _megabyte(_: object, field: "attrs.Attribute[Any]", size: int) -> None:
    if size not in _MEGABYTES:
        raise ConfigurationError(f"{field.name}: write 1000000 or 1048576")


def _canonical(_: object, field: "attrs.Attribute[Any]", names: Mapping[str, str]) -> None:
    for name, metric in names.items():
        if metric not in METRICS:
            raise ConfigurationError(
                f"{field.name}: {name} is to be {metric!r}, which is no metric; there are {', '.join(METRICS)}"
            )


@attrs.frozen(kw_only=True)
class PaiSettings:
    """Settings of the provider ``pai-dlc``, in the vendor's own terms.

    Credentials that are left out are looked for where the vendor's tools look: the variables
    ``ALIBABA_CLOUD_ACCESS_KEY_ID``, ``_SECRET`` and ``ALIBABA_CLOUD_SECURITY_TOKEN``, then ``~/.aliyun/config.json``,
    then ``~/.alibabacloud/credentials.ini`` or ``credentials``.

    Attributes:
        region: For example ``cn-hangzhou``.
        endpoint: URL of PAI-DLC; overrides the region's.
        cloudmonitor_endpoint: URL of CloudMonitor; overrides the region's.
        sts_endpoint: URL of STS. Nothing asks it yet.
        access_key_id: With ``access_key_secret``, and ``security_token`` where it is temporary: requests are signed.
        share_token: A token that PAI-DLC gave out for a job (``GetToken``); sent with what is asked about that job.
        workspace_id: List only the jobs of this workspace.
        megabyte: How many bytes the "MB" of ``GetJobMetrics`` has; its documents do not say.
        percent_of: Whether the 100 % of ``GetJobMetrics`` is all that a pod has, or one unit: one CPU, one accelerator.
            Then values are divided by how many a pod has, too; pods that nobody counted have no such metric.
        time_at: Which end of its interval a sample's time names.
        created_within: List only jobs created this long ago or less, such as ``"30d"``; all jobs where it is left out.
            The service by itself would leave out those that are older than seven days.
        metrics_api: Through which operation the data of CloudMonitor is read: PAI-DLC's ``GetMetrics``, or
            CloudMonitor's own ``DescribeMetricList``.
        cloudmonitor_metrics: Name of a metric in CloudMonitor's namespace ``acs_pai_dlc`` to the canonical one that it
            is. Its unit is what CloudMonitor says.
    """

    region: str | None = attrs.field(default=None, validator=_region)
    endpoint: str | None = None
    cloudmonitor_endpoint: str | None = None
    sts_endpoint: str | None = None
    access_key_id: str | None = None
    access_key_secret: Secret | None = None
    security_token: Secret | None = None
    share_token: Secret | None = None
    workspace_id: str | None = None
    megabyte: int = attrs.field(default=1_000_000, validator=_megabyte)
    percent_of: PercentOf = attrs.field(default="pod", validator=_one_of("pod", "unit"))
    time_at: TimeAt = attrs.field(default="start", validator=_one_of("start", "end"))
    created_within: str | None = attrs.field(default=None, validator=_duration)
    metrics_api: MetricsApi = attrs.field(default="GetMetrics", validator=_one_of("GetMetrics", "DescribeMetricList"))
    cloudmonitor_metrics: Mapping[str, str] = attrs.field(factory=dict, validator=_canonical)

    def service_url(self) -> str:
        """Give the URL of PAI-DLC, without a slash at its end.

        Raises:
            ConfigurationError: Neither an endpoint nor a region is set.
        """
        return self._url("endpoint", self.endpoint, "pai-dlc")

    def cloudmonitor_url(self) -> str | None:
        """Give the URL of CloudMonitor, without a slash at its end; None where neither it nor a region is set.

        Raises:
            ConfigurationError: What is set is no URL.
        """
        if self.region is None and not self.cloudmonitor_endpoint:
            return None
        return self._url("cloudmonitor_endpoint", self.cloudmonitor_endpoint, "metrics")

    def _url(self, setting: str, named: str | None, service: str) -> str:
        if named:
            return check_url(setting, named)
        if self.region is None:
            raise ConfigurationError(f"set region, such as region='cn-hangzhou', or {setting}")
        return f"https://{service}.{self.region}.aliyuncs.com"
