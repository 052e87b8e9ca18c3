"""What happens, as OpenTelemetry's metrics and traces.

Names, units and attributes are those of its semantic conventions for HTTP clients where these have one; the others
begin with ``metricsbridge``. The attributes of metrics name no job, so that there are few of them.

Source: https://opentelemetry.io/docs/specs/semconv/http/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from metricsbridge.extras import naming_extra

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import TracerProvider

    from metricsbridge.observer import CallEvent, RequestEvent

    Attributes = dict[str, str | int | float]

_SCOPE: Final = "metricsbridge"

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Bounds of the buckets, as the conventions advise for requests."""

_LONG_SECONDS: Final = (*_SECONDS, 30.0, 60.0, 120.0, 300.0)
"""Waits and calls with all their retries take longer than requests do."""

_HISTOGRAMS: Final[Mapping[str, tuple[str, str, tuple[float, ...] | None]]] = {
    "http.client.request.duration": ("s", "Duration of HTTP client requests.", _SECONDS),
    "http.client.response.body.size": ("By", "Size of HTTP client response bodies, decompressed.", None),
    "metricsbridge.request.wait": ("s", "How long a request waited before it was sent.", _LONG_SECONDS),
    "metricsbridge.call.duration": ("s", "Duration of calls, with all attempts and waits.", _LONG_SECONDS),
}
"""Each histogram with its unit, description and bounds; None leaves those to the SDK."""

_POINTS: Final = "metricsbridge.points"

_METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
"""The conventions want ``_OTHER`` for any other."""

_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


class OpenTelemetryMetrics:
    """Records how many requests and calls there are, how long they take and wait, and what they bring.

    Args:
        meter_provider: By default the one that the process has set.

    Raises:
        ConfigurationError: The extra ``opentelemetry`` is not installed.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        with naming_extra():
            from opentelemetry.metrics import get_meter
        meter = get_meter(_SCOPE, meter_provider=meter_provider)
        self._histograms: dict[str, Histogram] = {
            name: meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)
            for name, (unit, text, bounds) in _HISTOGRAMS.items()
        }
        self._points = meter.create_counter(_POINTS, "{point}", "Samples that calls brought.")

    def on_request(self, event: RequestEvent, /) -> None:
        """Record one request."""
        attributes = _request_attributes(event)
        self._histograms["http.client.request.duration"].record(event.duration_s, attributes)
        self._histograms["metricsbridge.request.wait"].record(event.wait_s, attributes)
        if event.bytes is not None:
            self._histograms["http.client.response.body.size"].record(event.bytes, attributes)

    def on_call(self, event: CallEvent, /) -> None:
        """Record one call."""
        attributes = _call_attributes(event)
        self._histograms["metricsbridge.call.duration"].record(event.duration_s, attributes)
        if event.points is not None:
            self._points.add(event.points, attributes)


class OpenTelemetryTraces:
    """Makes one span for each request and one for each call, below the span that is current around the collection.

    Spans are made when what they tell of is over, so a request's span is not the child of its call's: both have the
    attribute ``metricsbridge.call.id``.

    Args:
        tracer_provider: By default the one that the process has set.

    Raises:
        ConfigurationError: The extra ``opentelemetry`` is not installed.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        with naming_extra():
            from opentelemetry.trace import SpanKind, StatusCode, get_tracer
        self._tracer = get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._client, self._internal = SpanKind.CLIENT, SpanKind.INTERNAL
        self._failed = StatusCode.ERROR

    def on_request(self, event: RequestEvent, /) -> None:
        """Make the span of one request."""
        attributes = _request_attributes(event)
        attributes.update({
            "url.full": event.url, "metricsbridge.call.id": event.call_id, "metricsbridge.request.wait": event.wait_s,
        })  # fmt: skip
        if event.attempt > 1:
            attributes["http.request.resend_count"] = event.attempt - 1
        if event.bytes is not None:
            attributes["http.response.body.size"] = event.bytes
        known = event.method in _METHODS
        if not known:
            attributes["http.request.method_original"] = event.method
        self._span(f"{event.method if known else 'HTTP'} {event.operation}".strip(), True, attributes, event)

    def on_call(self, event: CallEvent, /) -> None:
        """Make the span of one call."""
        attributes = _call_attributes(event)
        attributes.update({
            "metricsbridge.call.id": event.call_id, "metricsbridge.targets": len(event.targets),
        })  # fmt: skip
        if event.points is not None:
            attributes[_POINTS] = event.points
        self._span(event.operation, False, attributes, event)

    def _span(self, name: str, client: bool, attributes: Attributes, event: RequestEvent | CallEvent) -> None:
        if event.code:
            attributes["metricsbridge.error.code"] = event.code
        began_ns = event.started_ms * 1_000_000
        kind = self._client if client else self._internal
        span = self._tracer.start_span(name, kind=kind, attributes=attributes, start_time=began_ns)
        if event.error:
            span.set_status(self._failed)
        span.end(began_ns + round(event.duration_s * 1e9))


def _request_attributes(event: RequestEvent) -> Attributes:
    parts = urlsplit(event.url)
    attributes: Attributes = {
        "http.request.method": event.method if event.method in _METHODS else "_OTHER",
        "server.address": parts.hostname or "",
        "metricsbridge.source": event.source,
        "metricsbridge.provider": event.provider,
        "metricsbridge.operation": event.operation,
    }
    port = parts.port or _PORTS.get(parts.scheme)
    if port is not None:
        attributes["server.port"] = port
    if event.status is not None:
        attributes["http.response.status_code"] = event.status
    if event.error:
        failed = event.status is not None and event.status >= 400
        attributes["error.type"] = str(event.status) if failed else event.error
    return attributes


def _call_attributes(event: CallEvent) -> Attributes:
    attributes: Attributes = {"metricsbridge.source": event.source, "metricsbridge.operation": event.operation}
    if event.error:
        attributes["error.type"] = event.error
    return attributes
