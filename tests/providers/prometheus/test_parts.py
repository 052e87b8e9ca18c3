"""The pure parts: quoting, ranges, what an error means, settings and credentials."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.protocols import SupportsEvaluations, SupportsJobSearch, SupportsJobTotals
from metricsbridge.registry import load_provider
from metricsbridge.testing import FakeTransport
from metricsbridge_prometheus import PROMETHEUS
from metricsbridge_prometheus._catalog import CATALOG
from metricsbridge_prometheus._errors import ERROR_TYPES, classify
from metricsbridge_prometheus._promql import duration, fill, left_open, one_of, quoted, reads_counters, seconds
from metricsbridge_prometheus._ranges import MOST_INSTANTS, instants_of, reach_of, stamps_of, windows_of
from prometheus_api import URL, Api, refusal

# PromQL


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.text(max_size=20))
def test_a_regular_expression_of_names_matches_them_and_nothing_else(names: list[str], other: str) -> None:
    pattern = re.compile(one_of(names), re.DOTALL)
    assert all(pattern.fullmatch(name) for name in names)
    assert bool(pattern.fullmatch(other)) == (other in names)


def test_texts_are_escaped_for_string_literals() -> None:
    assert quoted('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'


@given(st.integers(0, 2**45))
def test_seconds_are_exact(milliseconds: int) -> None:
    whole, _, rest = seconds(milliseconds).partition(".")
    assert int(whole) * 1000 + int(rest or 0) == milliseconds
    assert len(rest) in (0, 3)


def test_durations_are_whole_seconds_else_milliseconds() -> None:
    assert (duration(60_000), duration(1_500)) == ("60s", "1500ms")


def test_a_query_is_filled_in_and_other_dollars_stay() -> None:
    query = 'label_replace(x{$pods,n="$namespace"}[$range], "a", "$1", "$pod", "$podx")'
    assert left_open(query) == {"pods", "namespace", "range", "pod"}
    values = {"pods": "P", "namespace": "N", "pod": "$range", "range": "R"}
    assert fill(query, values) == 'label_replace(x{P,n="N"}[R], "a", "$1", "$range", "$podx")'


@pytest.mark.parametrize("metric", CATALOG)
def test_the_rows_that_compare_samples_are_known(metric: str) -> None:
    assert CATALOG[metric].counter == reads_counters(CATALOG[metric].query)


# Ranges

windows = st.builds(
    lambda start, length: mb.Window(start, start + length), st.integers(0, 2**42), st.integers(1, 2**36)
)
steps = st.sampled_from([1, 999, 1_000, 7_000, 60_000, 3_600_000])


@given(windows, steps, st.sampled_from([1, 4, 30]), st.booleans(), st.booleans())
def test_every_cell_of_a_window_is_evaluated_within_the_cap(
    window: mb.Window, step: int, reach: int, aligned: bool, counter: bool
) -> None:
    window = mb.Window(window.start_ms, min(window.end_ms, window.start_ms + 60_000 * step))
    reach_ms = reach_of(step, reach * step, counter=counter)
    assert reach_ms % step == 0
    assert reach_ms >= (4 * reach * step if counter else step)
    stamped: list[int] = []
    for part in windows_of(window, step):
        first, last = instants_of(part, step, reach_ms)
        assert (last - first) // step + 1 <= MOST_INSTANTS
        if aligned:
            first, last = first // step * step, last // step * step
        stamps = stamps_of(np.arange(first, last + 1, step), step, reach_ms)
        stamped += [stamp for stamp in stamps.tolist() if stamp in part]
    cells = range(-(-window.start_ms // step) * step, window.end_ms, step)
    assert stamped == [*cells]


def test_a_value_tells_of_the_stretch_that_begins_at_its_stamp() -> None:
    first, _ = instants_of(mb.Window(120_000, 240_000), 60_000, 180_000)
    assert first == 120_000 + 180_000 - 1  # a selector of three minutes ends here, with its last millisecond
    assert stamps_of(np.array([first]), 60_000, 180_000).tolist() == [120_000]


# Errors


@pytest.mark.parametrize(("kind", "cls"), ERROR_TYPES.items())
@pytest.mark.parametrize("status", [200, 400, 422, 503])
def test_the_type_of_an_error_decides_whatever_the_status(kind: str, cls: type[mb.ProviderError], status: int) -> None:
    response = refusal(status, kind, "it went\nwrong")
    error = classify(replace(response, body=response.body.replace(b": ", b":")))
    assert type(error) is cls
    assert (error.code, error.status) == (kind, status)
    assert "it went wrong" in error.message


@pytest.mark.parametrize(
    ("status", "cls"),
    [(400, mb.InvalidRequestError), (401, mb.AuthenticationError), (403, mb.PermissionDeniedError),
     (404, mb.NotFoundError), (429, mb.ThrottledError), (502, mb.ServiceUnavailableError),
     (504, mb.ServiceUnavailableError)],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"message": 5}', b"[]", b'"x"', b"\xff"])
def test_a_proxy_s_answer_is_read_by_its_status(status: int, cls: type[mb.ProviderError], body: bytes) -> None:
    assert type(classify(Response(status, {}, body))) is cls


def test_a_success_is_none() -> None:
    assert classify(Response(200, {}, b'{"status":"success"}')) is None


def test_a_wait_hint_is_kept() -> None:
    error = classify(Response(503, {"Retry-After": "7"}, b""))
    assert isinstance(error, mb.ServiceUnavailableError)
    assert error.retry_after_s == 7


# Settings and credentials

SECRET = "S3CRET-never-shown"


async def sent(**settings: Any) -> Request:
    api = Api(silent=True)
    async with mb.open_provider("prometheus", transport=FakeTransport(api), **{"url": URL, **settings}) as provider:
        assert [job async for job in provider.list_jobs(mb.JobSearch())] == []
    return api.requests[0]


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"bearer_token": SECRET}, f"Bearer {SECRET}"),
        ({"username": "ann", "password": "p:ä"}, "Basic YW5uOnA6w6Q="),
        ({}, None),
    ],
)
async def test_an_account_proves_itself_in_one_header(settings: dict[str, str], header: str | None) -> None:
    assert (await sent(**settings)).headers.get("Authorization") == header


async def test_a_tenant_is_named_in_its_header() -> None:
    assert (await sent(tenant="t1")).headers["X-Scope-OrgID"] == "t1"
    assert (await sent(tenant="t1", tenant_header="THANOS-TENANT")).headers["THANOS-TENANT"] == "t1"
    assert "X-Scope-OrgID" not in (await sent()).headers


async def test_the_url_may_end_before_or_behind_the_version() -> None:
    assert (await sent(url=f"{URL}/api/v1/")).url == (await sent(url=f"{URL}/")).url == f"{URL}/api/v1/query"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "ftp://x"}, "url: write a URL"),
        ({"bearer_token": SECRET, "username": "a", "password": SECRET}, "not both"),
        ({"username": "a"}, "both username and password"),
        ({"password": SECRET}, "both username and password"),
        ({"username": "a:b", "password": SECRET}, "no colon"),
        ({"bearer_token": "a\nb"}, "bearer_token"),
        ({"bearer_token": ""}, "bearer_token"),
        ({"tenant": "a\r\nX: y"}, "tenant: write plain"),
        ({"tenant_header": "a b"}, "tenant_header: write the name"),
        ({"namespace": "A/b"}, "namespace: write a namespace"),
        ({"labels": {"a-b": "c"}}, "labels: 'a-b' is no name"),
        ({"lookback": "long"}, "lookback: write a duration such as '30d'"),
        ({"scrape_interval": "0s"}, "scrape_interval: write a duration such as '30s'"),
        ({"queries": {"gpu": "x{$pods}"}}, "queries: 'gpu' is no metric"),
        ({"queries": {"vendor.prometheus.": "x{$pods}"}}, "is no metric"),
        ({"queries": {"hw.power": "x"}}, "must name its pods"),
        ({"token": SECRET}, "token"),
    ],
)
async def test_bad_settings_are_refused_before_anything_is_sent(settings: dict[str, Any], said: str) -> None:
    api = Api()
    with pytest.raises(mb.ConfigurationError) as caught:
        async with mb.open_provider("prometheus", transport=FakeTransport(api), **{"url": URL, **settings}):
            pass
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    assert api.requests == []


async def test_no_secret_is_shown_where_a_server_repeats_it() -> None:
    def handler(request: Request) -> Response:
        return Response(401, {}, f'{{"error": "bad token {request.headers["Authorization"]}"}}'.encode())

    transport = FakeTransport(handler)
    async with mb.open_provider("prometheus", transport=transport, url=URL, bearer_token=SECRET) as provider:
        with pytest.raises(mb.AuthenticationError) as caught:
            await provider.get_job("n/lab")
    assert SECRET not in str(caught.value)
    assert len(transport.requests) == 1


def test_settings_show_no_secret() -> None:
    shown = repr(PROMETHEUS.settings(url=URL, bearer_token=mb.Secret(SECRET), password=mb.Secret(SECRET)))
    assert SECRET not in shown


def test_the_spec_is_what_the_class_can_do() -> None:
    assert load_provider("prometheus") is PROMETHEUS
    assert PROMETHEUS.provider is not None
    able = [
        issubclass(PROMETHEUS.provider, kind) for kind in (SupportsJobSearch, SupportsEvaluations, SupportsJobTotals)
    ]
    assert able == [True, False, False]
    assert PROMETHEUS.timing is mb.Timing.REPORTED
    assert all(metric in mb.METRICS for metrics in PROMETHEUS.serves.values() for metric in metrics)
