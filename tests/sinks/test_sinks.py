"""The ready-made observers say what they are told, in the words of those who read it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import metricsbridge as mb
from fresh_interpreter import run_fresh
from metricsbridge.sinks import LogSink, OpenTelemetryMetrics, OpenTelemetryTraces, Together
from metricsbridge.testing import FakeClock
from watched_service import WINDOW, Notes, Service, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST: Final = mb.RequestEvent(
    call_id="00c0ffee00c0ffee", source="hw", provider="acme", operation="Show", method="GET",
    url="https://host.test:8443/jobs/j", attempt=1, status=200, bytes=812, wait_s=0.5, duration_s=0.25, started_ms=1000,
)  # fmt: skip
THROTTLED: Final = attrs.evolve(REQUEST, status=429, bytes=2, error="ThrottledError", code="C.1")
BROKEN: Final = attrs.evolve(REQUEST, status=None, bytes=None, error="TransportError", attempt=3)
FAILED_200: Final = attrs.evolve(REQUEST, error="ServiceUnavailableError", url="http://host.test/x", method="BREW")
CALL: Final = mb.CallEvent(
    call_id="00c0ffee00c0ffee", source="hw", operation="Show", targets=(("j", "a"), ("j", "b")), points=480,
    duration_s=2.5, started_ms=1000,
)  # fmt: skip
LOST: Final = attrs.evolve(CALL, points=None, error="NotFoundError", code="C.2", targets=(("j", ""),))


# The standard logger


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (REQUEST, "DEBUG", "hw Show, attempt 1: HTTP 200, 812 bytes in 0.250 s after 0.500 s"),
        (THROTTLED, "WARNING", "hw Show, attempt 1: ThrottledError C.1, HTTP 429, 2 bytes in 0.250 s after 0.500 s"),
        (BROKEN, "WARNING", "hw Show, attempt 3: TransportError in 0.250 s after 0.500 s"),
        (
            attrs.evolve(REQUEST, source="", operation=""),
            "DEBUG",
            "acme GET, attempt 1: HTTP 200, 812 bytes in 0.250 s after 0.500 s",
        ),
        (CALL, "DEBUG", "hw Show of 2 targets: 480 points in 2.500 s"),
        (LOST, "WARNING", "hw Show of 1 target: NotFoundError C.2 in 2.500 s"),
        (attrs.evolve(CALL, points=None), "DEBUG", "hw Show of 2 targets: done in 2.500 s"),
    ],
)
def test_a_record_says_what_happened(event: Any, level: str, text: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tell(LogSink(), event)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("metricsbridge.events", level)
    assert record.getMessage() == f"{text} [call 00c0ffee00c0ffee]"
    assert vars(record)["event"] is event


def test_the_logger_and_the_levels_may_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = LogSink(logging.getLogger("mine"), level=logging.INFO, failure_level=logging.DEBUG)
    for event in (REQUEST, THROTTLED, CALL, LOST):
        tell(sink, event)
    assert [(record.name, record.levelname) for record in caplog.records] == [("mine", "INFO")] * 2


def tell(observer: mb.Observer, event: mb.RequestEvent | mb.CallEvent) -> None:
    if isinstance(event, mb.RequestEvent):
        observer.on_request(event)
    else:
        observer.on_call(event)


# OpenTelemetry


def recorded(*events: Any) -> dict[str, Any]:
    """Give what a meter's metrics came to: name to data points."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    sink = OpenTelemetryMetrics(provider)
    for event in events:
        tell(sink, event)
    data = reader.get_metrics_data()
    assert data is not None
    found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    provider.shutdown()
    return found


def attributes_of(metric: Any) -> list[dict[str, Any]]:
    return [dict(point.attributes) for point in metric.data.data_points]


COMMON: Final = {"metricsbridge.source": "hw", "metricsbridge.operation": "Show"}
HTTP: Final = {
    **COMMON, "metricsbridge.provider": "acme", "http.request.method": "GET", "server.address": "host.test",
    "server.port": 8443,
}  # fmt: skip


def test_requests_are_measured_as_the_conventions_say() -> None:
    found = recorded(REQUEST, attrs.evolve(REQUEST, duration_s=0.75, started_ms=9000))
    duration = found["http.client.request.duration"]
    assert duration.unit == "s"
    (point,) = duration.data.data_points
    assert dict(point.attributes) == {**HTTP, "http.response.status_code": 200}
    assert (point.count, point.sum) == (2, 1.0)
    assert point.explicit_bounds == (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
    size = found["http.client.response.body.size"]
    assert (size.unit, size.data.data_points[0].sum) == ("By", 1624)
    wait = found["metricsbridge.request.wait"]
    assert (wait.unit, wait.data.data_points[0].sum) == ("s", 1.0)


@pytest.mark.parametrize(
    ("event", "attributes"),
    [
        (THROTTLED, {**HTTP, "http.response.status_code": 429, "error.type": "429"}),
        (BROKEN, {**HTTP, "error.type": "TransportError"}),
        (
            FAILED_200,
            {
                **HTTP, "http.response.status_code": 200, "error.type": "ServiceUnavailableError", "server.port": 80,
                "http.request.method": "_OTHER",
            },
        ),
    ],
)  # fmt: skip
def test_a_failure_has_its_type(event: Any, attributes: Any) -> None:
    assert attributes_of(recorded(event)["http.client.request.duration"]) == [attributes]


def test_an_answer_that_never_came_has_no_size() -> None:
    assert "http.client.response.body.size" not in recorded(BROKEN)


def test_calls_are_measured_and_their_points_counted() -> None:
    found = recorded(CALL, CALL, LOST)
    duration = found["metricsbridge.call.duration"]
    assert attributes_of(duration) == [COMMON, {**COMMON, "error.type": "NotFoundError"}]
    assert [point.count for point in duration.data.data_points] == [2, 1]
    points = found["metricsbridge.points"]
    assert (points.unit, [point.value for point in points.data.data_points]) == ("{point}", [960])


@pytest.fixture
def spans() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter
    provider.shutdown()


def test_a_request_is_a_client_s_span(spans: Any) -> None:
    provider, exporter = spans
    tell(OpenTelemetryTraces(provider), attrs.evolve(THROTTLED, attempt=2))
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind, span.status.status_code) == ("GET Show", SpanKind.CLIENT, StatusCode.ERROR)
    assert (span.start_time, span.end_time) == (1_000_000_000, 1_250_000_000)
    assert dict(span.attributes) == {
        **HTTP, "http.response.status_code": 429, "error.type": "429", "http.request.resend_count": 1,
        "http.response.body.size": 2, "url.full": "https://host.test:8443/jobs/j", "metricsbridge.request.wait": 0.5,
        "metricsbridge.call.id": "00c0ffee00c0ffee", "metricsbridge.error.code": "C.1",
    }  # fmt: skip


def test_a_request_that_went_well_has_no_status_of_its_own(spans: Any) -> None:
    provider, exporter = spans
    tell(OpenTelemetryTraces(provider), REQUEST)
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET
    assert not {"http.request.resend_count", "error.type", "metricsbridge.error.code"} & set(span.attributes)


def test_a_method_that_the_conventions_do_not_know_is_kept_beside(spans: Any) -> None:
    provider, exporter = spans
    tell(OpenTelemetryTraces(provider), attrs.evolve(FAILED_200, operation=""))
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.attributes["http.request.method"]) == ("HTTP", "_OTHER")
    assert span.attributes["http.request.method_original"] == "BREW"


def test_a_call_is_an_internal_span(spans: Any) -> None:
    provider, exporter = spans
    for event in (CALL, LOST):
        tell(OpenTelemetryTraces(provider), event)
    good, bad = exporter.get_finished_spans()
    assert (good.name, good.kind, good.end_time - good.start_time) == ("Show", SpanKind.INTERNAL, 2_500_000_000)
    assert dict(good.attributes) == {
        **COMMON, "metricsbridge.call.id": "00c0ffee00c0ffee", "metricsbridge.targets": 2, "metricsbridge.points": 480,
    }  # fmt: skip
    assert (bad.status.status_code, bad.attributes["error.type"]) == (StatusCode.ERROR, "NotFoundError")


async def test_spans_belong_to_the_span_around_the_collection(spans: Any) -> None:
    provider, exporter = spans
    service = Service(FakeClock(), lambda request: ("ok", 0.0))
    source = opened(service)
    sink = OpenTelemetryTraces(provider)
    async with mb.Collector({"hw": source}, clock=service.clock, observer=sink) as collector:
        with provider.get_tracer("mine").start_as_current_span("nightly report") as around:
            await collector.collect(["hw/j", "hw/k"], window=WINDOW)
    found = [span for span in exporter.get_finished_spans() if span.name != "nightly report"]
    assert len(found) == len(service.seen) + 6
    assert {span.parent.span_id for span in found} == {around.get_span_context().span_id}


@pytest.mark.parametrize("sink", [OpenTelemetryMetrics, OpenTelemetryTraces])
def test_a_library_that_is_missing_is_named_with_its_extra(sink: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opentelemetry.metrics", "opentelemetry.trace"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(mb.ConfigurationError, match=r"needs opentelemetry.*'metricsbridge\[opentelemetry\]'"):
        sink()


def test_importing_the_sinks_imports_no_opentelemetry() -> None:
    code = "import sys, metricsbridge.sinks; print({name.partition('.')[0] for name in sys.modules})"
    assert "'opentelemetry'" not in run_fresh(code)


# Several


class Failing(Notes):
    """Raises at every event."""

    def on_request(self, event: mb.RequestEvent, /) -> None:
        raise ValueError

    on_call = on_request  # type: ignore[assignment]


def test_one_of_several_that_raises_does_not_keep_it_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    first, last = Notes(), Notes()
    together = Together(first, Failing(), last)
    tell(together, REQUEST)
    tell(together, CALL)
    for notes in (first, last):
        assert (notes.requests, notes.calls) == ([REQUEST], [CALL])
    assert [record.message for record in caplog.records] == ["the observer Failing raised; it is not said again"]


def test_what_can_not_be_one_of_several_is_refused() -> None:
    with pytest.raises(mb.ConfigurationError, match="on_request"):
        Together(Notes(), print)  # type: ignore[arg-type]
