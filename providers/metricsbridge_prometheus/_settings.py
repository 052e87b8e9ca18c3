"""What a user sets."""

# Annotations are read at run time here, to check settings against.

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from metricsbridge.provider_kit import METRICS, ConfigurationError, Secret, check_url, parse_duration, vendor_metric
from metricsbridge_prometheus._promql import left_open

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

PASSED: Final = vendor_metric("prometheus", "")
"""What a user's own metrics begin with."""


def _duration(_: object, field: "attrs.Attribute[Any]", text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        raise ConfigurationError(f"{field.name}: write a duration such as {field.default!r}") from None


def _header(_: object, field: "attrs.Attribute[Any]", name: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise ConfigurationError(f"{field.name}: write the name of an HTTP header such as {field.default!r}")


def _plain(_: object, field: "attrs.Attribute[Any]", value: str | None) -> None:
    if value is not None and not (value and value.isascii() and value.isprintable()):
        raise ConfigurationError(f"{field.name}: write plain characters, as an HTTP header takes them")


def _namespace(_: object, field: "attrs.Attribute[Any]", name: str | None) -> None:
    if name is not None and not _NAMESPACE.fullmatch(name):
        raise ConfigurationError(f"{field.name}: write a namespace such as 'research'")


def _labels(_: object, field: "attrs.Attribute[Any]", labels: Mapping[str, str]) -> None:
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise ConfigurationError(f"{field.name}: {name!r} is no name of a label; write for example cluster = 'a'")


def _queries(_: object, field: "attrs.Attribute[Any]", queries: Mapping[str, str]) -> None:
    for metric, query in queries.items():
        if metric not in METRICS and (metric == PASSED or not metric.startswith(PASSED)):
            raise ConfigurationError(
                f"{field.name}: {metric!r} is no metric; there are {', '.join(METRICS)}, and {PASSED}NAME for any other"
            )
        if not left_open(query) & {"pods", "pod"}:
            raise ConfigurationError(
                f'{field.name}: the query of {metric} must name its pods: {{$pods}}, or namespace="$namespace" and '
                'pod=~"$pod"'
            )


@attrs.frozen(kw_only=True)
class PrometheusSettings:
    """Settings of the provider ``prometheus``. A custom CA and a client certificate are settings of every source.

    Attributes:
        url: Of the server, up to where ``/api/v1`` begins.
        bearer_token: Sent with each request; or
        username: with ``password``.
        tenant: Whose data are read, where a server has several tenants.
        tenant_header: The header that says so.
        namespace: Reads the jobs of this namespace only.
        labels: Matchers that every series has to fulfil, such as ``{cluster = "a"}``.
        lookback: How long ago a job may have ended and is still found.
        scrape_interval: How often the server scrapes. Nothing finer is asked for, and a rate is taken over four
            scrapes at least.
        queries: Metric to the PromQL that takes the place of the provider's own; its values are in the metric's unit.
            ``$pods`` stands for the matchers of the pods, ``$namespace`` and ``$pod`` for what they match, between
            double quotes, and ``$range`` for the stretch of time that one value summarises. Its series keep the labels
            of the pod, and those of the device where there are devices. Names of the form
            ``vendor.prometheus.NAME`` may be asked for too.
    """

    url: str
    bearer_token: Secret | None = None
    username: str | None = None
    password: Secret | None = None
    tenant: str | None = attrs.field(default=None, validator=_plain)
    tenant_header: str = attrs.field(default="X-Scope-OrgID", validator=_header)
    namespace: str | None = attrs.field(default=None, validator=_namespace)
    labels: Mapping[str, str] = attrs.field(factory=dict, validator=_labels)
    lookback: str = attrs.field(default="30d", validator=_duration)
    scrape_interval: str = attrs.field(default="30s", validator=_duration)
    queries: Mapping[str, str] = attrs.field(factory=dict, validator=_queries)

    def api_url(self) -> str:
        """Give the URL of the API, without a slash at its end.

        Raises:
            ConfigurationError: What is set is no URL.
        """
        return f"{check_url('url', self.url).removesuffix('/api/v1')}/api/v1"

    @property
    def lookback_ms(self) -> int:
        """The lookback in milliseconds."""
        return parse_duration(self.lookback)

    @property
    def scrape_ms(self) -> int:
        """The scrape interval in milliseconds."""
        return parse_duration(self.scrape_interval)
