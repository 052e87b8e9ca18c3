"""The provider over a server that answers from the request: windows, caps, what is missing, what fails."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeClock, FakeTransport
from metricsbridge_prometheus._catalog import SERVED, SERVED_OF_DEVICES
from prometheus_api import MINUTE, START, URL, Api, answer, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = "lab-worker-0", "lab-worker-1"
MEMORY, CPU, BUSY = "container.memory.working_set", "container.cpu.usage", "hw.gpu.utilization"
DAY = 1440 * MINUTE
WINDOW = mb.Window(START, START + 10 * MINUTE)
LATER = START + 30 * DAY


def opened(handler: Callable[[Request], Response], **settings: Any) -> Any:
    transport = FakeTransport(handler, clock=FakeClock(LATER))
    return mb.open_provider("prometheus", transport=transport, url=URL, **settings)


async def collect(api: Callable[[Request], Response], jobs: Any = "p/n/lab", /, **more: Any) -> mb.Collection:
    asked = {"metrics": [MEMORY], "window": WINDOW, **more}
    settings = asked.pop("settings", {})
    async with opened(api, **settings) as provider, mb.Collector({"p": provider}, clock=FakeClock(LATER)) as collector:
        return await collector.collect(jobs, **asked)


def series(result: mb.Collection, task: str = A) -> tuple[list[int], list[float]]:
    [(times, values)] = [(times, values) for key, times, values in result.series if key.task == task]
    return times.tolist(), values.tolist()


async def test_what_is_evaluated_at_the_last_millisecond_of_a_cell_stands_at_its_start() -> None:
    times, values = series(await collect(Api()))
    assert times == [START + minute * MINUTE for minute in range(10)]
    assert values == [time + MINUTE - 1 for time in times]


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("metric", [MEMORY, CPU])
async def test_a_window_has_all_its_cells_even_where_a_cache_moves_the_instants(aligned: bool, metric: str) -> None:
    window = mb.Window(START + 90_001, START + 5 * MINUTE + 1)
    result = await collect(Api(aligned=aligned), metrics=[metric], window=window)
    times, values = series(result)
    assert times == [START + minute * MINUTE for minute in (2, 3, 4, 5)]
    reach = 2 * MINUTE if metric == CPU else MINUTE
    assert values == [time + reach - (0 if aligned else 1) for time in times]
    assert set(result.series.interval_ms) == {reach}


@pytest.mark.parametrize(
    ("step", "scrape", "cells", "rates"),
    [(None, "30s", MINUTE, 2 * MINUTE), ("5m", "30s", 5 * MINUTE, 5 * MINUTE), ("10s", "30s", 30_000, 120_000),
     (None, "2m", 2 * MINUTE, 8 * MINUTE), ("50s", "30s", 50_000, 150_000)],
)  # fmt: skip
async def test_steps_are_no_finer_than_scrapes_and_rates_have_four(
    step: str | None, scrape: str, cells: int, rates: int
) -> None:
    api = Api()
    more = {"window": mb.Window(START, START + 3_600_000), "step": step, "settings": {"scrape_interval": scrape}}
    gauges = await collect(api, **more)
    counters = await collect(api, metrics=[CPU], **more)
    assert set(np.diff(series(gauges)[0])) == set(np.diff(series(counters)[0])) == {cells}
    assert (set(gauges.series.interval_ms), set(counters.series.interval_ms)) == ({cells}, {rates})
    asked = [query for operation, query, _, _ in api.queries if operation == "query_range"]
    assert f"[{cells // 1000}s]" in asked[0]
    assert f"[{rates // 1000}s]" in asked[1]


async def test_a_long_window_is_cut_under_the_cap_and_is_whole() -> None:
    window = mb.Window(START - 20 * DAY + 5, START + 5)
    api = Api()
    times, _ = series(await collect(api, window=window))
    assert times == [*range(START - 20 * DAY + MINUTE, START + 1, MINUTE)]
    ranges = [query for query in api.queries if query[0] == "query_range"]
    assert len(ranges) == 3


async def test_many_pods_are_asked_for_in_groups_of_bounded_size() -> None:
    api = Api(pods=tuple([f"lab-worker-{index}" for index in range(450)]))
    result = await collect(api)
    assert len(result.series) == 450
    assert len([query for query in api.queries if query[0] == "query_range"]) == 3
    week = await collect(api, window=mb.Window(START, START + DAY), metrics=[BUSY], per="device", step="1h")
    assert len(week.series) == 450


async def test_names_are_quoted_in_queries() -> None:
    api = Api(pods=("lab-worker-0.a", "lab-worker-0xa"))
    assert {key.task for key in (await collect(api, tasks=["lab-worker-0.a"])).series.keys} == {"lab-worker-0.a"}
    assert 'pod=~"lab-worker-0\\\\.a"' in api.queries[-1][1]


async def test_a_pod_that_ended_has_no_value_after_its_end_whatever_is_answered() -> None:
    api = Api(end_ms=START + 150_000)
    assert series(await collect(api))[0] == [START, START + MINUTE, START + 2 * MINUTE]
    assert len(series(await collect(api), B)[0]) == 10
    whole = await collect(api, metrics=["container.cpu.utilization"], per="job")
    assert len(whole.series.times) > 0  # the other pod runs on


async def test_a_rate_is_brought_to_what_the_pod_lived_through() -> None:
    api = Api(end_ms=START + 15 * MINUTE, value=lambda pod, time: "3")
    window = mb.Window(START - 20 * MINUTE, START + 60 * MINUTE)
    times, values = series(await collect(api, metrics=[CPU], window=window, step="10m"))
    assert times == [START, START + 10 * MINUTE]
    assert values == [3, 6]
    early, short = series(await collect(api, metrics=[CPU], window=window, step="1m"))
    assert early == [START + minute * MINUTE for minute in range(14)]  # two minutes each
    assert set(short) == {3}


async def test_a_rate_whose_stretch_is_not_over_yet_is_left_out_or_brought_to_what_is() -> None:
    clock = FakeClock(START + 14 * MINUTE)
    api = Api(value=lambda pod, time: "3")
    transport = FakeTransport(api, clock=clock)
    window = mb.Window(START, START + 60 * MINUTE)
    async with mb.open_provider("prometheus", transport=transport, url=URL) as provider:
        job = await provider.get_job("n/lab")
        [coarse] = provider.plan(job, mb.Query(window=window, metrics=(CPU,), step_ms=10 * MINUTE))
        [fine] = provider.plan(job, mb.Query(window=window, metrics=(CPU,)))
        batch, other = await provider.fetch(coarse), await provider.fetch(fine)
    assert [*zip(*map(np.ndarray.tolist, batch.samples(0)), strict=True)] == [(START, 3), (START + 10 * MINUTE, 7.5)]
    assert other.samples(0)[0].tolist() == [START + minute * MINUTE for minute in range(13)]


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "9223372036854775807", "9.3e18"])
async def test_what_is_no_quantity_is_missing(text: str) -> None:
    result = await collect(Api(value=lambda pod, time: text if pod == A else "1"))
    assert {key.task for key in result.series.keys} == {B}
    assert [(absence.targets, absence.reason) for absence in result.absences] == [((("n/lab", A),), "no-data")]


async def test_percentages_are_divided_by_100() -> None:
    result = await collect(Api(value=lambda pod, time: "58.3", labels={"gpu": "0"}), metrics=[BUSY])
    assert set(series(result)[1]) == {58.3 / 100}


async def test_a_device_is_its_index_else_its_uuid_and_slices_are_told_apart() -> None:
    async def key(**labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        result = await collect(Api(labels=labels), metrics=[BUSY], per="device")
        return result.series.keys[0].device, result.series.keys[0].labels

    assert await key(gpu="3", UUID="GPU-1") == ("3", ())
    assert await key(UUID="GPU-1") == ("GPU-1", ())
    assert await key(id="7") == ("7", ())
    assert await key(gpu="3", GPU_I_ID="2") == ("3", (("GPU_I_ID", "2"),))


@pytest.mark.parametrize(
    "labels", [{"pod": "exporter", "exported_pod": A}, {"pod": "", "pod_name": A}], ids=["exported", "pod_name"]
)
async def test_a_pod_is_found_under_each_of_its_labels(labels: dict[str, str]) -> None:
    result = await collect(Api(pods=(A,), labels=labels), metrics=[BUSY])
    assert {key.task for key in result.series.keys} == {A}


async def test_series_of_other_pods_are_left_out() -> None:
    result = await collect(Api(labels={"exported_pod": "other"}))
    assert len(result.series) == 0


async def test_a_user_s_query_takes_the_place_of_ours_as_it_is() -> None:
    queries = {
        MEMORY: 'sum(label_replace(my_bytes{ns="$namespace",pod=~"$pod"}[$range], "pod", "$1", "p", "(.*)"))',
        "vendor.prometheus.loss": "avg_over_time(loss{$pods}[$range])  # mine",
    }
    api = Api()
    result = await collect(api, metrics=[*queries], settings={"queries": queries, "labels": {"cluster": 'a"b'}})
    assert {key.metric for key in result.series.keys} == set(queries)
    assert dict(zip([key.metric for key in result.series.keys], result.series.unit, strict=True)) == {
        MEMORY: "By", "vendor.prometheus.loss": "",
    }  # fmt: skip
    mine, loss = [query for operation, query, _, _ in api.queries if operation == "query_range"]
    assert f'my_bytes{{ns="n",pod=~"{A}|{B}"}}[60s], "pod", "$1", "p", "(.*)"' in mine
    assert f'loss{{namespace="n",pod=~"{A}|{B}",cluster="a\\"b"}}[60s]' in loss
    assert loss.endswith("# mine\n)")


async def test_a_user_s_metric_is_only_read_where_it_is_asked_for() -> None:
    queries = {"vendor.prometheus.loss": "avg_over_time(loss{$pods}[$range])"}
    result = await collect(Api(), metrics=None, settings={"queries": queries})
    assert {key.metric for key in result.series.keys} == set(SERVED)


async def test_a_query_that_loses_its_pods_is_refused_and_says_so() -> None:
    result = await collect(Api(labels={"pod": ""}), settings={"queries": {MEMORY: "avg(x{$pods})"}})
    [failure] = result.failures
    assert isinstance(failure.error, mb.InvalidRequestError)
    assert "keep one of the labels" in str(failure.error)


async def test_warnings_are_reported_and_the_series_kept() -> None:
    api = Api(warnings={"query_range": ["store a is\ndown", "b too"]})
    result = await collect(api)
    assert len(result.series) == 2
    [failure] = result.failures
    assert (failure.targets, failure.metrics, failure.window) == ((("n/lab", A), ("n/lab", B)), (MEMORY,), WINDOW)
    assert "store a is down; b too" in str(failure.error)


async def test_warnings_about_a_job_are_reported_with_its_series() -> None:
    api = Api(warnings={"query": ["no answer from b"]})
    result = await collect(api)
    assert len(result.series) == 2
    assert "no answer from b" in str(result.failures[0].error)
    async with opened(api) as provider:
        [job] = [job async for job in provider.list_jobs(mb.JobSearch())]
    assert "no answer from b" in str((await collect(api, job)).failures[0].error)


async def test_a_job_without_pods_in_an_answer_that_is_not_whole_may_be_there() -> None:
    async with opened(Api(silent=True, warnings={"query": ["no answer from b"]})) as provider:
        with pytest.raises(mb.ServiceUnavailableError, match="no answer from b"):
            await provider.get_job("n/lab")
    async with opened(Api(silent=True)) as provider:
        with pytest.raises(mb.NotFoundError, match="lookback"):
            await provider.get_job("n/lab")


@pytest.mark.parametrize("job_id", ["lab", "n/lab/0", "n/", "/lab", "n/..", "n/a\nb"])
async def test_another_form_of_id_is_refused_before_anything_is_sent(job_id: str) -> None:
    api = Api()
    async with opened(api) as provider:
        with pytest.raises(mb.InvalidRequestError):
            await provider.get_job(job_id)
    assert api.requests == []


async def test_pods_that_nobody_reports_any_more_leave_the_status_open() -> None:
    def handler(request: Request) -> Response:
        return answer([], "vector") if b"count" in request.body else api(request)

    api = Api()
    async with opened(handler) as provider:
        job = await provider.get_job("n/lab")
    assert (job.status, job.vendor_status) == (mb.JobStatus.UNKNOWN, "Running")
    assert [task.end_time_ms for task in job.tasks] == [None, None]


@pytest.mark.parametrize(
    ("response", "cls", "said"),
    [
        (refusal(400, "bad_data", "parse error"), mb.InvalidRequestError, "parse error"),
        (refusal(422, "execution", "too many samples in query"), mb.InvalidRequestError, "fewer tasks"),
        (Response(401, {}, b"no"), mb.AuthenticationError, "bearer_token"),
        (Response(200, {}, b"<html>log in</html>"), mb.DecodeError, "proxy"),
        (Response(302, {"Location": "https://login"}, b""), mb.InvalidRequestError, "redirects to login"),
    ],
)
async def test_a_call_that_fails_loses_its_own_part_and_says_why(
    response: Response, cls: type[Exception], said: str
) -> None:
    api = Api()

    def handler(request: Request) -> Response:
        return response if request.operation == "query_range" and b"working_set" in request.body else api(request)

    result = await collect(handler, metrics=[MEMORY, CPU])
    assert {key.metric for key in result.series.keys} == {CPU}
    [failure] = result.failures
    assert isinstance(failure.error, cls)
    assert said in str(failure.error)
    assert failure.attempts == 1


@pytest.mark.parametrize(("status", "kind"), [(503, "timeout"), (503, "canceled"), (500, "internal"), (429, "")])
async def test_what_passes_is_tried_again(status: int, kind: str) -> None:
    api, failed = Api(), [0]

    def handler(request: Request) -> Response:
        if request.operation == "query_range" and failed[0] < 2:
            failed[0] += 1
            return refusal(status, kind, "busy")
        return api(request)

    result = await collect(handler)
    assert result.failures == ()
    assert failed == [2]


# Planning


def job(*pods: str, **more: Any) -> mb.Job:
    return mb.Job(id="n/lab", start_time_ms=START, tasks=tuple([mb.Task(id=pod) for pod in pods]), **more)


async def test_each_level_is_served_as_promised_and_no_metric_stands_on_two() -> None:
    async with opened(Api()) as provider:
        for per, served in (("task", SERVED), ("device", SERVED_OF_DEVICES)):
            calls = provider.plan(job(A, B), mb.Query(window=WINDOW, per=per))
            assert [call.metrics for call in calls] == [(metric,) for metric in served]
        calls = provider.plan(job(A, B), mb.Query(window=WINDOW, per="job", tasks=(A,)))
        assert {call.targets for call in calls} == {(("n/lab", ""),)}
        assert provider.plan(job(A), mb.Query(window=WINDOW, metrics=("hw.fan",))) == []
        waiting = provider.plan(mb.Job(id="n/lab"), mb.Query(window=WINDOW))
        assert [call.targets for call in waiting] == [(("n/lab", ""),)] * len(SERVED)


async def test_calls_survive_pickling() -> None:
    async with opened(Api()) as provider:
        [call] = provider.plan(job(A, B), mb.Query(window=WINDOW, metrics=(CPU,)))
        again = await provider.fetch(pickle.loads(pickle.dumps(call)))
    assert [key.task for key in again.keys] == [A, B]


@given(
    st.integers(0, 10**9), st.integers(1, 10**10), st.sampled_from([1_000, 7_000, 60_000, 3_600_000]),
    st.integers(1, 500), st.sampled_from(["task", "device"]),
)  # fmt: skip
async def test_calls_answer_for_each_pod_and_instant_once(
    begin: int, length: int, step_ms: int, pods: int, per: Any
) -> None:
    length = min(length, 50_000 * step_ms)
    window = mb.Window(START + begin, START + begin + length)
    async with opened(Api(), scrape_interval="1s") as provider:
        query = mb.Query(window=window, metrics=(BUSY,), step_ms=step_ms, per=per)
        calls = provider.plan(job(*[f"p{index}" for index in range(pods)]), query)
    windows: dict[str, list[mb.Window]] = {}
    for call in calls:
        assert call.window.duration_ms / step_ms <= 11_000
        for _, pod in call.targets:
            windows.setdefault(pod, []).append(call.window)
    assert len(windows) == pods
    for parts in windows.values():
        bounds = [parts[0].start_ms, *[part.end_ms for part in parts]]
        assert [part.start_ms for part in parts] == bounds[:-1]
        assert (bounds[0], bounds[-1]) == (window.start_ms, window.end_ms)
        assert all(bound % step_ms == 0 for bound in bounds[1:-1])
