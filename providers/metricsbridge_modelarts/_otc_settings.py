"""What a user of Open Telekom Cloud sets, and where that cloud's services are."""

# Annotations are read at run time here, to check settings against.

from collections.abc import Mapping
from typing import Final

import attrs

from metricsbridge.provider_kit import ConfigurationError, Secret, check_url
from metricsbridge_modelarts._settings import ModelArtsV1Settings, PodMetrics

_HOSTS: Final[Mapping[str, Mapping[str, str]]] = {
    "endpoint": {"eu-de": "modelarts.eu-de.otc.t-systems.com"},
    "iam_endpoint": {
        "eu-de": "iam.eu-de.otc.t-systems.com",
        "eu-nl": "iam.eu-nl.otc.t-systems.com",
        "eu-ch2": "iam-pub.eu-ch2.sc.otc.t-systems.com",
    },
}
"""Setting to region to host (Open Telekom Cloud, regions and endpoints; OpenStack's vendor profiles)."""


@attrs.frozen(kw_only=True)
class OtcModelArtsSettings(ModelArtsV1Settings):
    """Settings of the provider ``otc-modelarts``: those of ``modelarts-v1``, in this cloud's terms.

    What is left out is looked for where OpenStack's tools look: in the variables ``OS_*``, then in the ``clouds.yaml``
    entry that ``OS_CLOUD`` names. The entry that ``cloud`` names comes before the variables. The account is taken whole
    from the first of these places that has one.

    Attributes:
        cloud: Entry of ``clouds.yaml``; reading it needs the extra ``openstack``.
        project_name: Such as ``eu-de_project``; by default the region's own project.
        token: A token of IAM that was obtained elsewhere; it can't be renewed.
        pool_id: Counts only the jobs of this resource pool.
        pod_metrics: As for ``modelarts-v1``; this cloud's documents no longer have them, so each job is asked for.
    """

    cloud: str | None = None
    project_name: str | None = None
    token: Secret | None = None
    pool_id: str | None = None
    pod_metrics: PodMetrics = attrs.field(default="probe", validator=attrs.validators.in_(("yes", "no", "probe")))

    def service_url(self) -> str:
        """Give the URL of the service, without a slash at its end.

        Raises:
            ConfigurationError: Neither an endpoint nor a known region is set.
        """
        return self._host("endpoint", self.endpoint)

    def iam_url(self) -> str:
        """Give the URL of IAM, without the ``/v3``, or the path to its tokens, that users of OpenStack write behind it.

        Raises:
            ConfigurationError: Neither an endpoint nor a known region is set.
        """
        return self._host("iam_endpoint", self.iam_endpoint).removesuffix("/auth/tokens").removesuffix("/v3")

    def _host(self, setting: str, named: str | None) -> str:
        if named:
            return check_url(setting, named)
        hosts = _HOSTS[setting]
        if self.region is None:
            raise ConfigurationError(f"set region, such as region='eu-de', or {setting}")
        if self.region not in hosts:
            raise ConfigurationError(
                f"no {setting} is known for region {self.region!r} (only for {', '.join(hosts)}): set {setting}"
            )
        return f"https://{hosts[self.region]}"
