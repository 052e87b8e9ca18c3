"""What a user sets, and the regions that the vendor names."""

# Annotations are read at run time here, to check settings against.

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, Literal

import attrs

from metricsbridge.provider_kit import ConfigurationError, Secret, check_url

_REGIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "af-north-1", "af-south-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "cn-east-3", "cn-east-4",
            "cn-north-1", "cn-north-2", "cn-north-4", "cn-north-9", "cn-north-11", "cn-north-12", "cn-south-1",
            "cn-southwest-2", "cn-southwest-3", "la-north-2", "la-south-2", "me-east-1", "sa-brazil-1", "tr-west-1",
        ),
        "myhuaweicloud.com",
    ),
    "ap-southeast-1": "myhuaweicloud.cn",
    "eu-west-101": "myhuaweicloud.eu",
}  # fmt: skip
"""Region to domain (region table of the vendor's SDK; the European site has a domain of its own)."""

Anchor = Literal["auto", "start", "end"]
PodMetrics = Literal["yes", "no", "probe"]


def _check_given_url(_: object, attribute: "attrs.Attribute[str | None]", url: str | None) -> None:
    if url:
        check_url(attribute.name, url)


@attrs.frozen(kw_only=True)
class ModelArtsSettings:
    """Settings of the provider ``modelarts``, in the vendor's own terms.

    Credentials that are left out are looked for where the vendor's SDK looks: the variables ``HUAWEICLOUD_SDK_AK``,
    ``_SK``, ``_SECURITY_TOKEN`` and ``_PROJECT_ID``, then the profile ``[basic]`` of ``~/.huaweicloud/credentials`` or
    of the file that ``HUAWEICLOUD_SDK_CREDENTIALS_FILE`` names.

    Attributes:
        region: For example ``cn-north-4``.
        endpoint: URL of the service; overrides the region's.
        project_id: Id of the project in that region; looked up by the region's name where it is left out.
        access_key: With ``secret_key``, and ``security_token`` where it is temporary: requests are signed.
        username: With ``password`` and ``domain_name`` (the account): an IAM token is obtained and renewed.
        iam_endpoint: URL of IAM; overrides the region's.
        anchor: The service gives no times. ``start`` counts minutes from the job's start, ``end`` back from its end or
            now; ``auto`` is ``start`` unless a long job's series is shorter than its life, as when only the last days
            are kept.
    """

    region: str | None = None
    endpoint: str | None = None
    project_id: str | None = None
    access_key: str | None = None
    secret_key: Secret | None = None
    security_token: Secret | None = None
    username: str | None = None
    password: Secret | None = None
    domain_name: str | None = None
    iam_endpoint: str | None = attrs.field(default=None, validator=_check_given_url)  # even where no token is needed
    anchor: Anchor = attrs.field(default="auto", validator=attrs.validators.in_(("auto", "start", "end")))

    def service_url(self) -> str:
        """Give the URL of the service, without a slash at its end.

        Raises:
            ConfigurationError: Neither an endpoint nor a known region is set.
        """
        return self._url("modelarts", self.endpoint, self._region_variable())

    def iam_url(self) -> str:
        """Give the URL of IAM, without the ``/v3`` that some write behind it.

        Raises:
            ConfigurationError: Neither an endpoint nor a known region is set.
        """
        return self._url("iam", self.iam_endpoint, "HUAWEICLOUD_SDK_IAM_ENDPOINT").removesuffix("/v3")

    def _region_variable(self) -> str:
        return f"HUAWEICLOUD_SDK_REGION_MODELARTS_{(self.region or '').upper().replace('-', '_')}"

    def _url(self, service: str, endpoint: str | None, variable: str) -> str:
        setting = "endpoint" if service == "modelarts" else "iam_endpoint"
        named = endpoint or os.environ.get(variable, "").split(",")[0].strip()
        if named:
            return check_url(setting, named)
        if self.region is None:
            raise ConfigurationError(f"set region, such as region='cn-north-4', or {setting}")
        domain = _REGIONS.get(self.region)
        if domain is None:
            close = get_close_matches(self.region, _REGIONS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(_REGIONS))}"
            raise ConfigurationError(f"unknown region {self.region!r}: {hint} For any other region set {setting}")
        return f"https://{service}.{self.region}.{domain}"


def _above_zero(instance: object, field: "attrs.Attribute[float]", value: float) -> None:
    if not 0 < value < float("inf"):
        raise ConfigurationError(f"{field.name}: write how many bytes per second one unit stands for, such as 1000")


@attrs.frozen(kw_only=True)
class ModelArtsV1Settings(ModelArtsSettings):
    """Settings of the provider ``modelarts-v1``: those of ``modelarts``, and what its documents leave open.

    Attributes:
        disk_rate_unit: Bytes per second that one unit of a disk's rate stands for.
        network_rate_unit: Likewise, of the network's.
        workspace_id: Lists only the jobs of this workspace.
        pod_metrics: Whether the metrics of single pods are served, which later editions of the documents leave out:
            ``yes``, ``no``, or ``probe`` to ask for each job. Where they are not, tasks have the job's own means.
    """

    disk_rate_unit: float = attrs.field(default=1000.0, validator=_above_zero)
    network_rate_unit: float = attrs.field(default=1.0, validator=_above_zero)
    workspace_id: str | None = None
    pod_metrics: PodMetrics = attrs.field(default="yes", validator=attrs.validators.in_(("yes", "no", "probe")))
