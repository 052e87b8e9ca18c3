"""The provider pai-dlc against a transport that answers from the request: jobs, and the route GetJobMetrics."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_pai import PAI_DLC
from metricsbridge_pai._catalog import JOB_METRICS
from metricsbridge_pai._jobs import STATUSES, Facts

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = (Path(__file__).parent / "samples" / "get_job_metrics.json").read_bytes()
JOB = "dlc1abcdefghijklmnop"
START = 1_705_276_800_000  # 2024-01-15T00:00:00Z
MINUTE = 60_000
HOUR = 60 * MINUTE
NOW = START + 5 * HOUR
SETTINGS = {"region": "cn-hangzhou", "access_key_id": "AK", "access_key_secret": "S3CRET-key-never-shown"}
CPU = "container.cpu.utilization"
EIGHT = [entry.metric for entry in JOB_METRICS.values()]


def pod(number: int = 0, **more: Any) -> dict[str, Any]:
    known = {"PodId": f"{JOB}-worker-{number}", "Type": "worker", "GmtStartTime": "2024-01-15T00:00:07Z"}
    return {**known, "Status": "Running", **more}


def details(**more: Any) -> dict[str, Any]:
    resources = {"CPU": "8", "GPU": "2", "GPUType": "A10", "Memory": "64Gi"}
    known = {
        "JobId": JOB, "DisplayName": "train", "Status": "Running", "JobType": "PyTorchJob",
        "GmtCreateTime": "2024-01-14T23:58:00Z", "GmtRunningTime": "2024-01-15T00:00:00Z", "ResourceType": "ECS",
        "ResourceId": "", "RequestGPU": 4.0, "RequestCPU": 16,
        "JobSpecs": [{"Type": "Worker", "PodCount": 2, "ResourceConfig": resources}],
        "Pods": [pod(0), pod(1)], "RequestId": "R",
    }  # fmt: skip
    return {name: value for name, value in {**known, **more}.items() if value is not ...}


def pods(**found: list[tuple[int, float | None]]) -> dict[str, Any]:
    series = [
        {"PodId": f"{JOB}-{name.replace('_', '-')}", "Metrics": [{"Time": t, "Value": v} for t, v in points]}
        for name, points in found.items()
    ]
    return {"JobId": JOB, "PodMetrics": series, "RequestId": "R"}


def service(job: Any = None, metrics: Any = None, *, status: int = 200) -> Callable[[Request], Response]:
    """Answer GetJob and GetJobMetrics with those documents, or what functions of the request give."""

    def handler(request: Request) -> Response:
        given = {"GetJob": details() if job is None else job, "GetJobMetrics": metrics}.get(request.operation)
        if callable(given):
            given = given(request)
        if isinstance(given, Response):
            return given
        if given is None:
            return Response(404, {}, b'{"Code":"InvalidAction.NotFound","Message":"no"}', NOW)
        return Response(status, {}, given if isinstance(given, bytes) else json.dumps(given).encode(), NOW)

    return handler


def asked(transport: FakeTransport, operation: str) -> list[dict[str, str]]:
    return [dict(request.params) for request in transport.requests if request.operation == operation]


async def get_job(document: Any = None, metrics: Any = None, **settings: Any) -> tuple[mb.Job, FakeTransport]:
    transport = FakeTransport(service(document, metrics))
    async with mb.open_provider("pai-dlc", transport=transport, **{**SETTINGS, **settings}) as provider:
        return await provider.get_job(JOB), transport


async def fetch(metrics: Any, job: Any = None, *, query: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Give (series, requests) of all calls for a query, by default of the CPU in the job's first five hours."""
    transport = FakeTransport(service(job, metrics))
    asks = {"window": mb.Window(START, NOW), "metrics": (CPU,), **(query or {})}
    async with mb.open_provider("pai-dlc", transport=transport, **{**SETTINGS, **settings}) as provider:
        calls = provider.plan(await provider.get_job(JOB), mb.Query(**asks))
        assert [pickle.loads(pickle.dumps(call)) for call in calls] == [*calls]
        batches = [await provider.fetch(call) for call in calls]
    return batches, asked(transport, "GetJobMetrics")


async def test_the_vendors_sample_decodes_to_the_expected_columns() -> None:
    job_id, pod_id = "dlc-20210126170216-*******", "dlc-20210329110128-******-worker-0"
    transport = FakeTransport(lambda request: Response(200, {}, SAMPLE, NOW))
    async with mb.open_provider("pai-dlc", transport=transport, **SETTINGS) as provider:
        job = mb.Job(id=job_id, start_time_ms=1_616_980_000_000, tasks=(mb.Task(id=pod_id),), payload=Facts())
        window = mb.Window(1_616_986_800_000, 1_616_990_400_000)
        (call,) = provider.plan(job, mb.Query(window=window, metrics=("hw.gpu.memory.utilization",), step_ms=300_000))
        batch = await provider.fetch(call)
    assert batch.keys == (mb.SeriesKey(job_id, pod_id, "", "hw.gpu.memory.utilization"),)
    assert batch.times.tolist() == [1_616_987_726_587]
    assert batch.values.tolist() == [23.45 / 100]
    assert batch.unit == ("1",)
    assert batch.interval_ms == (300_000,)
    assert batch.timing == (mb.Timing.REPORTED,)
    assert batch.time_error_ms == (0,)
    assert batch.statistic == (mb.Statistic.MEAN,)
    request = transport.requests[-1]
    assert request.url.endswith("/api/v1/jobs/dlc-20210126170216-%2A%2A%2A%2A%2A%2A%2A/metrics")
    assert dict(request.params) == {
        "MetricType": "GpuMemoryUsage", "StartTime": "2021-03-29T03:00:00Z", "EndTime": "2021-03-29T04:00:00Z",
        "TimeStep": "5m",
    }  # fmt: skip


@pytest.mark.parametrize("name", JOB_METRICS)
async def test_each_metric_type_becomes_a_canonical_metric_in_its_unit(name: str) -> None:
    entry = JOB_METRICS[name]
    (batch,), (params,) = await fetch(pods(worker_0=[(START, 57.0)]), query={"metrics": (entry.metric,)})
    assert params["MetricType"] == name
    assert batch.unit == (mb.METRICS[entry.metric].unit,)
    assert batch.values.tolist() == [57e6 if name.endswith("Rate") else 0.57]  # and not 57 × 0.01


async def test_all_metrics_are_asked_for_one_by_one_for_all_pods_at_once() -> None:
    batches, requests = await fetch(pods(worker_0=[(START, 1.0)], worker_1=[(START, 2.0)]), query={"metrics": None})
    assert [request["MetricType"] for request in requests] == [*JOB_METRICS]
    assert [batch.keys[0].metric for batch in batches] == EIGHT
    assert all([key.task for key in batch.keys] == [f"{JOB}-worker-0", f"{JOB}-worker-1"] for batch in batches)
    assert PAI_DLC.serves["task"] == tuple(EIGHT)


async def test_points_in_no_order_are_sorted_and_the_last_of_equal_times_holds() -> None:
    points = [(START + 61_001, 5.0), (START + 1_001, 9.0), (START + 61_001, 6.0), (START + 1_001, None)]
    (batch,), _ = await fetch(pods(worker_0=points))
    assert batch.times.tolist() == [START + 1_001, START + 61_001]
    assert np.array_equal(batch.values, [np.nan, 0.06], equal_nan=True)


@pytest.mark.parametrize("body", [pods(), {"JobId": JOB}, {"JobId": JOB, "PodMetrics": None}, pods(worker_0=[])])
async def test_an_answer_without_points_is_no_data(body: Any) -> None:
    (batch,), _ = await fetch(body)
    assert len(batch.times) == 0


async def test_pods_that_are_not_asked_for_are_left_out() -> None:
    body = pods(worker_0=[(START, 1.0)], worker_1=[(START, 2.0)], stranger_0=[(START, 3.0)])
    (batch,), _ = await fetch(body, query={"tasks": (f"{JOB}-worker-1",)})
    assert [key.task for key in batch.keys] == [f"{JOB}-worker-1"]
    assert batch.values.tolist() == [0.02]


async def test_an_earlier_incarnation_of_a_pod_belongs_to_its_task() -> None:
    earlier = [{"PodId": f"{JOB}-worker-0-old", "GmtStartTime": "2024-01-14T23:59:00Z"}, pod(0)]
    job = details(Pods=[pod(0, GmtStartTime="2024-01-15T02:00:00Z", HistoryPods=earlier)])
    described, _ = await get_job(job)
    assert described.tasks == (mb.Task(id=f"{JOB}-worker-0", role="worker", start_time_ms=START - MINUTE),)
    assert described.payload.aliases == ((f"{JOB}-worker-0-old", f"{JOB}-worker-0"),)
    body = pods(worker_0=[(START + 2 * HOUR, 2.0)], worker_0_old=[(START, 1.0)])
    (batch,), _ = await fetch(body, job)
    assert [key.task for key in batch.keys] == [f"{JOB}-worker-0"]
    assert batch.times.tolist() == [START, START + 2 * HOUR]
    assert batch.values.tolist() == [0.01, 0.02]


async def test_a_long_window_is_asked_for_in_parts_that_adjoin() -> None:
    window = mb.Window(START + 1, START + 50 * HOUR + 1)

    def metrics(request: Request) -> Any:
        begin, end = (_ms(dict(request.params)[name]) for name in ("StartTime", "EndTime"))
        return pods(worker_0=[(time, 1.0) for time in range(begin + 26_587, end + 1, MINUTE)])

    transport = FakeTransport(service(None, metrics))
    async with mb.Collector({"a": mb.open_provider("pai-dlc", transport=transport, **SETTINGS)}) as collector:
        result = await collector.collect([f"a/{JOB}"], metrics=[CPU], window=window, tasks=[f"{JOB}-worker-0"])
    parts = asked(transport, "GetJobMetrics")
    assert len(parts) == 3
    assert [part["EndTime"] for part in parts[:-1]] == [part["StartTime"] for part in parts[1:]]
    ((_, times, _),) = result.series
    assert times.tolist() == [*range(START + 26_587, START + 50 * HOUR, MINUTE)]


def _ms(text: str) -> int:
    return mb.Window(0, 1).start_ms + round(np.datetime64(text.rstrip("Z"), "ms").astype(np.int64))


async def test_a_window_much_longer_than_the_job_is_asked_for_only_about_its_life() -> None:
    job = details(Status="Succeeded", GmtFinishTime="2024-01-15T01:10:00Z")
    _, requests = await fetch(pods(), job, query={"window": mb.Window(START - 10**10, START + 10**10)})
    (params,) = requests
    assert (params["StartTime"], params["EndTime"]) == ("2024-01-14T23:00:00Z", "2024-01-15T03:00:00Z")


async def test_a_time_at_the_end_of_its_interval_is_moved_to_the_start() -> None:
    (batch,), (params,) = await fetch(
        pods(worker_0=[(START + 5 * MINUTE, 1.0)]), query={"step_ms": 5 * MINUTE}, time_at="end"
    )
    assert batch.times.tolist() == [START]
    assert (params["StartTime"], params["EndTime"]) == ("2024-01-15T00:05:00Z", "2024-01-15T05:05:00Z")


async def test_percent_of_one_unit_are_divided_by_how_many_there_are() -> None:
    query = {"metrics": (CPU, "hw.gpu.utilization", "container.memory.utilization")}
    batches, _ = await fetch(pods(worker_0=[(START, 80.0)]), query=query, percent_of="unit")
    assert [batch.values.tolist() for batch in batches] == [[0.8 / 8], [0.8], [0.8 / 2]]
    assert [batch.keys[0].metric for batch in batches] == [CPU, query["metrics"][2], query["metrics"][1]]


async def test_percent_of_units_that_nobody_counted_are_unsupported_and_not_guessed() -> None:
    specs = [{"Type": "Worker", "EcsSpec": "ecs.a"}, {"Type": "PS", "EcsSpec": "ecs.b"}]
    batches, _ = await fetch(pods(), details(JobSpecs=specs), percent_of="unit")
    assert batches == []


async def test_units_are_shared_out_where_all_pods_are_alike() -> None:
    specs = [{"Type": role, "EcsSpec": "ecs.a", "PodCount": 1} for role in ("Master", "Worker")]
    job, _ = await get_job(details(JobSpecs=specs, RequestGPU="16"))
    assert job.payload.cpus == (("", 8.0),)
    assert job.accelerators == mb.Accelerators(kind="gpu", count=8)


async def test_the_megabyte_can_be_chosen() -> None:
    query = {"metrics": ("container.disk.read.rate",)}
    (batch,), _ = await fetch(pods(worker_0=[(START, 1.5)]), query=query, megabyte=1_048_576)
    assert batch.values.tolist() == [1.5 * 2**20]


async def test_a_job_is_described_in_neutral_terms() -> None:
    job, transport = await get_job(details(Status="Stopped", GmtStoppedTime="2024-01-15T03:00:00.5Z"))
    assert job == mb.Job(
        id=JOB, name="train", status=mb.JobStatus.STOPPED, vendor_status="Stopped",
        create_time_ms=START - 2 * MINUTE, start_time_ms=START, end_time_ms=START + 3 * HOUR + 500,
        accelerators=mb.Accelerators(kind="gpu", count=2, model="A10"),
        tasks=tuple([mb.Task(id=f"{JOB}-worker-{i}", role="worker", start_time_ms=START + 7000) for i in range(2)]),
        payload=Facts("GetJobMetrics", (), (("", 8.0),), (("", 2.0),), 4.0),
    )  # fmt: skip
    request = transport.requests[-1]
    assert request.url == f"https://pai-dlc.cn-hangzhou.aliyuncs.com/api/v1/jobs/{JOB}"
    assert dict(request.params) == {"NeedDetail": "true"}
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (headers["x-acs-action"], headers["x-acs-version"]) == ("GetJob", "2020-12-03")


ENDS = {"succeeded": "GmtSuccessedTime", "failed": "GmtFailedTime", "stopped": "GmtStoppedTime"}


@pytest.mark.parametrize("word", [*STATUSES, "Hibernating", "", None])
async def test_every_status_is_known_and_any_other_is_unknown(word: str | None) -> None:
    times = {name: f"2024-01-15T0{hour}:00:00Z" for hour, name in enumerate(ENDS.values(), 1)}
    job, _ = await get_job(details(Status=word, **times))
    assert job.status is STATUSES.get(word or "", mb.JobStatus.UNKNOWN)
    assert job.vendor_status == (word or "")
    hours = {status: hour for hour, status in enumerate(ENDS, 1)}
    assert job.end_time_ms == (START + hours[job.status] * HOUR if job.status.terminal else None)
    finished, _ = await get_job(details(Status=word, GmtFinishTime="2024-01-15T04:00:00Z", **times))
    assert finished.end_time_ms == (START + 4 * HOUR if finished.status.terminal else None)


def test_the_statuses_are_those_of_the_documents() -> None:
    by_status: dict[str, set[str]] = {}
    for word, status in STATUSES.items():
        by_status.setdefault(status, set()).add(word)
    assert by_status == {
        "pending": {"Creating", "Queuing", "Bidding", "EnvPreparing", "SanityChecking"},
        "running": {"Running", "Restarting"}, "stopping": {"Stopping"},
        "succeeded": {"Succeeded", "SucceededReserving"}, "failed": {"Failed", "FailedReserving"},
        "stopped": {"Stopped", "Deleted"},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["yesterday", "2024-13-01T00:00:00Z"])
async def test_a_time_that_is_none_is_named(text: str) -> None:
    with pytest.raises(mb.DecodeError, match="GmtRunningTime") as caught:
        await get_job(details(GmtRunningTime=text))
    assert caught.value.path == "$.GmtRunningTime"


@pytest.mark.parametrize("gpus", ["", "0", "none", None, "0.5", {}, True, "-3", "1e999"])
async def test_devices_that_are_no_whole_number_are_none(gpus: Any) -> None:
    specs = [{"Type": "Worker", "PodCount": 2, "ResourceConfig": {"CPU": "8", "GPU": gpus}}]
    job, _ = await get_job(details(JobSpecs=specs, RequestGPU=gpus))
    assert job.accelerators is None


SPOT = [{"Type": "Worker", "UseSpotInstance": True}]
STRATEGY = [{"Type": "Worker", "SpotSpec": {"SpotStrategy": "SpotWithPriceLimit"}}]
ROUTES: list[tuple[dict[str, Any], str | None]] = [
    ({}, "GetJobMetrics"),
    ({"ResourceId": ...}, "GetJobMetrics"),
    ({"ResourceId": None}, "GetJobMetrics"),
    ({"ResourceId": "quota1"}, "CloudMonitor"),
    ({"ResourceType": "Lingjun"}, "CloudMonitor"),
    ({"ResourceType": "ACS"}, "CloudMonitor"),
    ({"JobSpecs": SPOT}, "CloudMonitor"),
    ({"JobSpecs": STRATEGY}, "CloudMonitor"),
    ({"JobSpecs": [{"SpotSpec": {"SpotStrategy": "NoSpot"}, "UseSpotInstance": False}]}, "GetJobMetrics"),
    ({"JobSpecs": [{"QuotaId": "quota1"}]}, "CloudMonitor"),
    ({"ResourceQuotaName": "mine"}, "CloudMonitor"),
    ({"ResourceType": ...}, None),
    ({"ResourceType": ""}, None),
    ({"JobSpecs": ...}, None),
    ({"ResourceType": ..., "JobSpecs": SPOT}, "CloudMonitor"),
]


@pytest.mark.parametrize(("fields", "route"), ROUTES)
async def test_a_jobs_fields_tell_which_api_has_its_metrics(fields: dict[str, Any], route: str | None) -> None:
    job, transport = await get_job(details(**fields), pods(worker_0=[(START, 1.0)]))
    assert job.payload.route == (route or "GetJobMetrics")
    assert len(asked(transport, "GetJobMetrics")) == (route is None)


@pytest.mark.parametrize(
    ("answer", "route"),
    [
        (pods(worker_0=[(START, 0.0)]), "GetJobMetrics"),
        (pods(), "CloudMonitor"),
        (pods(worker_0=[]), "CloudMonitor"),
        (Response(400, {}, b'{"Code":"InvalidParameter","Message":"not here"}', NOW), "CloudMonitor"),
        (Response(404, {}, b'{"Code":"NotFound","Message":"not here"}', NOW), "CloudMonitor"),
    ],
)
async def test_where_they_do_not_tell_one_request_does(answer: Any, route: str) -> None:
    job, transport = await get_job(details(ResourceType=...), answer)
    assert job.payload.route == route
    assert asked(transport, "GetJobMetrics") == [
        {
            "MetricType": "CpuCoreUsage", "StartTime": "2024-01-15T04:00:00Z", "EndTime": "2024-01-15T05:05:00Z",
            "TimeStep": "5m",
        }
    ]  # fmt: skip


async def test_the_try_is_about_the_end_of_an_ended_job_and_not_before_its_start() -> None:
    ended = details(ResourceType=..., Status="Failed", GmtFinishTime="2024-01-15T00:07:30Z")
    _, transport = await get_job(ended, pods())
    (params,) = asked(transport, "GetJobMetrics")
    assert (params["StartTime"], params["EndTime"]) == ("2024-01-15T00:00:00Z", "2024-01-15T00:15:00Z")


async def test_a_try_that_fails_for_another_reason_decides_nothing() -> None:
    with pytest.raises(mb.DecodeError):
        await get_job(details(ResourceType=...), b"<html>")


@pytest.mark.parametrize("resource", ["ECS", "Lingjun", ...])
async def test_a_job_that_never_started_makes_no_call_for_metrics(resource: Any) -> None:
    waiting = details(Status="Queuing", GmtRunningTime=..., ResourceType=resource, Pods=...)
    transport = FakeTransport(service(waiting))
    async with mb.Collector({"a": mb.open_provider("pai-dlc", transport=transport, **SETTINGS)}) as collector:
        result = await collector.collect([f"a/{JOB}"], metrics=["hw.gpu.utilization"])
    assert [(absence.reason, absence.metrics) for absence in result.absences] == [
        ("not-started", ("hw.gpu.utilization",))
    ]
    assert {request.operation for request in transport.requests} == {"GetJob", "DescribeMetricMetaList"}


@pytest.mark.parametrize("per", ["device", "job"])
async def test_only_pods_have_metrics_in_get_job_metrics(per: Any) -> None:
    batches, _ = await fetch(pods(), query={"per": per, "metrics": ("hw.gpu.utilization",)})
    assert batches == []


@pytest.mark.parametrize("keys", [{}, {"access_key_id": "AK", "access_key_secret": "S3CRET-key"}])
async def test_a_share_token_goes_with_what_it_opens_and_is_never_shown(keys: dict[str, str]) -> None:
    token = "eyShare-token.of-mine"
    refusal = Response(403, {}, f'{{"Code":"NoPermission","Message":"bad {token}"}}'.encode())
    transport = FakeTransport(service(None, refusal))
    settings = {"region": "cn-x", "share_token": token, **keys}
    async with mb.open_provider("pai-dlc", transport=transport, **settings) as provider:
        job = await provider.get_job(JOB)
        with pytest.raises(mb.PermissionDeniedError) as caught:
            await provider.fetch(provider.plan(job, mb.Query(window=mb.Window(START, NOW), metrics=(CPU,)))[0])
    assert [dict(request.params).get("Token") for request in transport.requests] == [None, token, token]
    assert all(("Authorization" in request.headers) == bool(keys) for request in transport.requests)
    frames = [entry.frame.f_locals for entry in caught.traceback if "metricsbridge" in str(entry.path)]
    assert "eyShare" not in str(caught.value) + repr(transport.requests) + repr(frames)


@pytest.mark.parametrize("bad", ["..", ".", "", "a\nb"])
async def test_an_id_that_would_lead_elsewhere_is_refused_before_a_request(bad: str) -> None:
    transport = FakeTransport(service())
    async with mb.open_provider("pai-dlc", transport=transport, **SETTINGS) as provider:
        sent = len(transport.requests)
        with pytest.raises(mb.InvalidRequestError):
            await provider.get_job(bad)
    assert len(transport.requests) == sent
