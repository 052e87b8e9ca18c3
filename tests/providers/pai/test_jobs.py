"""What a job's description says: when it began, which pods it had, what they have; and what it leaves open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.envelopes import decode_json
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_pai._jobs import to_job
from metricsbridge_pai._wire import DlcJob

if TYPE_CHECKING:
    from collections.abc import Callable

JOB = "dlc1abcdefghijklmnop"
START = 1_705_276_800_000  # 2024-01-15T00:00:00Z
MINUTE = 60_000
HOUR = 60 * MINUTE
NOW = START + 5 * HOUR
SETTINGS = {"region": "cn-hangzhou", "access_key_id": "AK", "access_key_secret": "S3CRET-key-never-shown"}
CPU = "container.cpu.utilization"
DUTY = "hw.gpu.utilization"
ZEROES = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+08:00", "1970-01-01T00:00:00Z", "2008-12-31T23:59:59Z", "", None]


def document(**more: Any) -> dict[str, Any]:
    known = {
        "JobId": JOB, "Status": "Running", "GmtRunningTime": "2024-01-15T00:00:00Z", "ResourceType": "ECS",
        "JobSpecs": [{"Type": "Worker", "PodCount": 2}],
    }  # fmt: skip
    return {**known, **more}


def described(*, listed: bool = False, **more: Any) -> mb.Job:
    return to_job(decode_json(json.dumps(document(**more)).encode(), DlcJob), listed=listed)


def pod(number: int = 0, start: str | None = None, *history: dict[str, Any]) -> dict[str, Any]:
    return {
        "PodId": f"{JOB}-worker-{number}", "Type": "worker", "GmtStartTime": start, "HistoryPods": history or None,
    }  # fmt: skip


@pytest.mark.parametrize("text", ZEROES)
def test_a_time_before_the_vendor_was_there_is_none(text: str | None) -> None:
    waiting = described(Status="Queuing", GmtCreateTime=text, GmtRunningTime=text, Pods=[pod(0, text)])
    assert (waiting.create_time_ms, waiting.start_time_ms, waiting.tasks[0].start_time_ms) == (None, None, None)
    ended = described(Status="Failed", GmtFinishTime=text, GmtFailedTime="2024-01-15T01:00:00Z")
    assert ended.end_time_ms == START + HOUR


@pytest.mark.parametrize(
    ("running", "pods", "start"),
    [
        ("2024-01-15T00:00:00Z", [], START),
        ("2024-01-15T00:00:00Z", [pod(0, "2024-01-15T00:00:07Z")], START),
        ("2024-01-15T04:00:00Z", [pod(0, "2024-01-15T00:02:00Z"), pod(1, "2024-01-15T00:01:00Z")], START + MINUTE),
        ("2024-01-15T04:00:00Z", [pod(0, "2024-01-15T04:00:00Z", pod(0, "2024-01-15T00:00:00Z"))], START),
        (None, [pod(0, None), pod(1, "2024-01-15T00:01:00Z")], START + MINUTE),
        (None, [pod(0, None, pod(0, "2024-01-15T00:01:00Z"))], START + MINUTE),
        (None, [pod(0, None)], None),
    ],
)
def test_a_job_began_with_the_first_of_its_pods(running: str | None, pods: Any, start: int | None) -> None:
    job = described(GmtRunningTime=running, Pods=pods, Status="Failed", GmtFinishTime="2024-01-15T05:00:00Z")
    assert job.start_time_ms == start
    assert job.end_time_ms == (None if start is None else NOW)  # what never began has no end


@pytest.mark.parametrize(
    ("status", "more", "partial"),
    [
        ("Queuing", {}, False), ("Running", {}, True), ("Failed", {}, True), ("Hibernating", {}, True),
        ("Failed", {"Pods": [pod(0)]}, False), ("Failed", {"Pods": [pod(0)], "JobSpecs": None}, False),
        ("Failed", {"Pods": [pod(0, "2024-01-15T00:00:00Z")], "JobSpecs": None}, True),
    ],
)  # fmt: skip
def test_a_listed_job_without_a_start_is_partial_where_its_pods_may_tell_one(
    status: str, more: dict[str, Any], partial: bool
) -> None:
    assert described(Status=status, GmtRunningTime=None, listed=True, **more).partial is partial


def test_the_id_of_a_pod_that_is_there_belongs_to_no_other() -> None:
    job = described(Pods=[pod(0, None, pod(1), pod(7)), pod(1, None, pod(0))])
    assert job.payload.aliases == ((f"{JOB}-worker-7", f"{JOB}-worker-0"),)


def spec(cpus: Any, role: str = "Worker", count: int = 1) -> dict[str, Any]:
    return {"Type": role, "PodCount": count, "ResourceConfig": {"CPU": cpus, "GPU": "1"}}


@pytest.mark.parametrize(
    ("specs", "cpus"),
    [
        ([spec("8"), spec("8")], (("", 8.0),)),
        ([spec("8"), spec("4")], ()),
        ([spec("8"), spec("")], ()),
        ([spec("16", "Master"), spec("8"), spec("4")], (("master", 16.0),)),
        ([spec("4", "Master"), spec("8"), spec("8")], (("master", 4.0), ("worker", 8.0))),
    ],
)
def test_a_role_whose_pods_differ_has_no_count(specs: Any, cpus: Any) -> None:
    assert described(JobSpecs=specs, RequestCPU=12).payload.cpus == cpus


def service(job: Any, points: Callable[[dict[str, str]], Any]) -> Callable[[Request], Response]:
    def handler(request: Request) -> Response:
        if request.operation == "GetJob":
            return Response(200, {}, json.dumps(job).encode(), NOW)
        if request.operation == "DescribeMetricMetaList":
            return Response(403, {}, b'{"Code":"NoPermission","Message":"no"}', NOW)
        return Response(200, {}, json.dumps(points(dict(request.params))).encode(), NOW)

    return handler


async def collect(handler: Any, **query: Any) -> tuple[mb.Collection, FakeTransport]:
    transport = FakeTransport(handler)
    settings = query.pop("settings", {})
    provider = mb.open_provider("pai-dlc", transport=transport, **SETTINGS, **settings)
    asks = {"metrics": [CPU], "window": mb.Window(START, START + HOUR), **query}
    async with mb.Collector({"a": provider}, clock=transport.clock) as collector:
        return await collector.collect([f"a/{JOB}"], **asks), transport


def of_pods(params: dict[str, str]) -> Any:
    series = [{"PodId": f"{JOB}-worker-{i}", "Metrics": [{"Time": START, "Value": 40.0 * (i + 1)}]} for i in range(2)]
    return {"PodMetrics": series}


@pytest.mark.parametrize("pods", [None, [], [{"PodId": None}]])
@pytest.mark.parametrize("tasks", [None, [f"{JOB}-worker-1"]])
async def test_a_started_job_that_names_no_pods_brings_those_that_the_answer_names(pods: Any, tasks: Any) -> None:
    result, transport = await collect(service(document(Pods=pods), of_pods), tasks=tasks)
    assert result.complete
    assert {key.task: values.tolist() for key, _, values in result.series} == {
        f"{JOB}-worker-{i}": [0.4 * (i + 1)] for i in range(2) if tasks is None or i == 1
    }
    assert [(absence.targets, absence.reason) for absence in result.absences] == [(((JOB, ""),), "no-data")]
    assert [request.operation for request in transport.requests].count("GetJobMetrics") == 1


@pytest.mark.parametrize(
    ("specs", "values"), [([spec("8", count=2)], [0.4 / 8, 0.8 / 8]), ([spec("8", "Master"), spec("4")], [])]
)
async def test_pods_that_are_not_named_before_have_the_units_that_every_pod_has(specs: Any, values: Any) -> None:
    settings = {"percent_of": "unit"}
    result, _ = await collect(service(document(JobSpecs=specs), of_pods), settings=settings)
    assert [found.tolist() for _, _, found in result.series] == [[value] for value in values]
    assert [absence.reason for absence in result.absences] == ["no-data" if values else "unsupported"]


@pytest.mark.parametrize("per", ["task", "device"])
@pytest.mark.parametrize("tasks", [None, [f"{JOB}-worker-1"]])
async def test_cloudmonitor_is_asked_by_the_job_where_no_pods_are_known(per: Any, tasks: Any) -> None:
    asked: list[dict[str, str]] = []

    def points(params: dict[str, str]) -> Any:
        asked.append(params)
        rows = [
            {"timestamp": START, "jobId": JOB, "pod": f"{JOB}-worker-{i}", "gpu": str(card), "Value": 10.0 * (card + i)}
            for i in range(2) for card in range(2)
        ]  # fmt: skip
        return {"Code": "200", "DataPoints": json.dumps(rows)}

    result, _ = await collect(service(document(ResourceId="q"), points), metrics=[DUTY], per=per, tasks=tasks)
    assert result.complete
    assert [json.loads(params["Dimensions"]) for params in asked] == [[{"jobId": JOB}]]
    pods = range(2) if tasks is None else [1]
    wanted = {
        (f"{JOB}-worker-{i}", device): [value]
        for i in pods
        for device, value in (
            {"": (10.0 * i / 100 + (10.0 * i + 10) / 100) / 2} if per == "task" else
            {str(card): 10.0 * (card + i) / 100 for card in range(2)}
        ).items()
    }  # fmt: skip
    assert {(key.task, key.device): values.tolist() for key, _, values in result.series} == wanted
    assert [absence.targets for absence in result.absences] == [((JOB, ""),)]


async def test_a_job_that_names_no_pods_is_asked_for_as_if_it_had_many() -> None:
    transport = FakeTransport(service(document(ResourceId="q"), of_pods))
    async with mb.open_provider("pai-dlc", transport=transport, **SETTINGS) as provider:
        job = await provider.get_job(JOB)
        window = mb.Window(START, START + 20 * 24 * HOUR)
        per_task, per_job = [
            provider.plan(job, mb.Query(window=window, metrics=(DUTY,), per=per)) for per in ("task", "job")
        ]
    assert {call.targets for call in (*per_task, *per_job)} == {((JOB, ""),)}
    assert (len(per_task), len(per_job)) == (20, 1)  # a page of one series each, and one series


async def test_points_that_name_no_pod_are_nobodys_where_no_pods_are_known() -> None:
    rows = [{"timestamp": START, "jobId": JOB, "gpu": "0", "Value": 1.0}]
    data = {"Code": "200", "DataPoints": json.dumps(rows)}
    result, _ = await collect(service(document(ResourceId="q"), lambda _: data), metrics=[DUTY])
    (failure,) = result.failures
    assert "do not name their pod" in str(failure.error)
