"""The provider modelarts against a transport that answers from the request."""

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
from metricsbridge_modelarts.v2 import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = (Path(__file__).parent / "samples" / "show_training_job_metrics.json").read_bytes()
JOB = "2cd88daa-31a4-40a8-a58f-d186b0e93e4f"
START = 1_705_300_000_123
MINUTE = 60_000
SETTINGS = {"region": "cn-north-4", "project_id": "p0", "access_key": "AK", "secret_key": "S3CRET-key-never-shown"}
SIX = [
    "container.cpu.utilization",
    "container.memory.utilization",
    "hw.gpu.utilization",
    "hw.gpu.memory.utilization",
    "hw.npu.utilization",
    "hw.npu.memory.utilization",
]


def details(**status: Any) -> dict[str, Any]:
    known = {"phase": "Completed", "start_time": START, "duration": 840_000, "tasks": ["worker-0", "worker-1"]}
    flavor = {"npu": {"unit_num": "8", "product_name": "snt9b", "memory": "64GB"}, "gpu": None}
    return {
        "kind": "job",
        "metadata": {"id": JOB, "name": "train", "create_time": START - 5000, "annotations": {"a": "b"}},
        "status": {**known, **status},
        "spec": {"resource": {"flavor_detail": {"flavor_info": flavor}}},
    }


def answer(document: Any, status: int = 200) -> Callable[[Request], Response]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return lambda request: Response(status, {}, body, START + 900_000)


async def fetch(body: Any, status: int = 200, **query: Any) -> mb.SeriesBatch:
    transport = FakeTransport(answer(body, status))
    async with mb.open_provider("modelarts", transport=transport, **SETTINGS) as provider:
        job = mb.Job(
            id=JOB, status=mb.JobStatus.RUNNING, start_time_ms=START, tasks=(mb.Task(id="worker-0"),)
        )  # fmt: skip
        (call,) = provider.plan(job, mb.Query(window=mb.Window(START, START + 10**9), **query))
        assert pickle.loads(pickle.dumps(call)) == call
        batch = await provider.fetch(call)
    assert transport.requests[0].url.endswith(f"/v2/p0/training-jobs/{JOB}/metrics/worker-0")
    return batch


async def get_job(document: Any, status: int = 200) -> mb.Job:
    transport = FakeTransport(answer(document, status))
    async with mb.open_provider("modelarts", transport=transport, **SETTINGS) as provider:
        return await provider.get_job(JOB)


async def test_the_vendors_sample_decodes_to_the_six_canonical_metrics() -> None:
    batch = await fetch(SAMPLE)
    assert [key.metric for key in batch.keys] == SIX
    texts = [entry["value"] for entry in json.loads(SAMPLE, parse_int=str, parse_float=str)["metrics"]]
    for index, numbers in enumerate(texts):
        times, values = batch.samples(index)
        expected = [np.nan if text == "-1" else float(text) / 100 for text in numbers]
        assert values.tobytes() == np.array(expected).tobytes() or np.array_equal(values, expected, equal_nan=True)
        assert times.tolist() == [START // MINUTE * MINUTE + i * MINUTE for i in range(15)]
    assert set(batch.unit) == {"1"}
    assert set(batch.timing) == {mb.Timing.INFERRED}
    assert set(batch.interval_ms) == {MINUTE}
    assert set(batch.time_error_ms) == {MINUTE}
    assert set(batch.statistic) == {mb.Statistic.MEAN}
    assert {(key.job, key.task, key.device) for key in batch.keys} == {(JOB, "worker-0", "")}


@pytest.mark.parametrize(("status", "body"), [(204, b""), (200, b"")])
async def test_an_answer_without_a_body_is_no_data_yet(status: int, body: bytes) -> None:
    assert len(await fetch(body, status)) == 0


async def test_a_metric_outside_the_catalog_passes_through_unchanged() -> None:
    batch = await fetch({"metrics": [{"metric": "cpuUsage", "value": [50]}, {"metric": "hbmTemp", "value": [61.5]}]})
    assert [key.metric for key in batch.keys] == [SIX[0], "vendor.modelarts.hbmTemp"]
    assert batch.values.tolist() == [0.5, 61.5]
    assert batch.unit == ("1", "")


async def test_only_what_is_asked_for_is_given() -> None:
    body = {"metrics": [{"metric": name, "value": [1]} for name in ("memUsage", "hbmTemp", "cpuUsage")]}
    batch = await fetch(body, metrics=("vendor.modelarts.hbmTemp", SIX[0], "hw.power"))
    assert [key.metric for key in batch.keys] == ["vendor.modelarts.hbmTemp", SIX[0]]


async def test_series_of_unequal_length_keep_their_own_times() -> None:
    body = {"metrics": [{"metric": "cpuUsage", "value": [1, 2, 3]}, {"metric": "memUsage", "value": [4]}]}
    batch = await fetch(body)
    assert [len(batch.samples(i)[0]) for i in range(2)] == [3, 1]
    assert batch.samples(1)[0][0] == START // MINUTE * MINUTE


async def test_a_job_is_described_in_neutral_terms() -> None:
    job = await get_job(details())
    assert job == mb.Job(
        id=JOB, name="train", status=mb.JobStatus.SUCCEEDED, vendor_status="Completed", create_time_ms=START - 5000,
        start_time_ms=START, end_time_ms=START + 840_000,
        accelerators=mb.Accelerators(kind="npu", count=8, model="snt9b"),
        tasks=(mb.Task(id="worker-0"), mb.Task(id="worker-1")),
    )  # fmt: skip


@pytest.mark.parametrize("phase", [*PHASES, "Hibernating", ""])
async def test_every_phase_has_a_status_and_an_unknown_one_is_unknown(phase: str) -> None:
    job = await get_job(details(phase=phase))
    assert job.status is PHASES.get(phase, mb.JobStatus.UNKNOWN)
    assert job.vendor_status == phase
    assert (job.end_time_ms is not None) == job.status.terminal


@pytest.mark.parametrize(
    "status", [{"start_time": 0, "duration": 0, "phase": "Abnormal", "tasks": None}, {"start_time": None}]
)
async def test_a_job_that_never_started_has_no_times_and_makes_no_call(status: dict[str, Any]) -> None:
    transport = FakeTransport(answer(details(**status)))
    async with mb.open_provider("modelarts", transport=transport, **SETTINGS) as provider:
        job = await provider.get_job(JOB)
        assert (job.start_time_ms, job.end_time_ms) == (None, None)
        async with mb.Collector({"hw": provider}) as collector:
            result = await collector.collect([f"hw/{JOB}"], metrics=["hw.npu.utilization"])
    (absence,) = result.absences
    assert (absence.reason, absence.metrics) == ("not-started", ("hw.npu.utilization",))
    assert result.complete
    assert len(transport.requests) == 2


@pytest.mark.parametrize("per", ["device", "job"])
async def test_levels_that_the_service_lacks_are_unsupported(per: Any) -> None:
    transport = FakeTransport(answer(details()))
    async with mb.Collector({"hw": mb.open_provider("modelarts", transport=transport, **SETTINGS)}) as collector:
        result = await collector.collect([f"hw/{JOB}"], per=per, metrics=[SIX[2]])
    assert [absence.reason for absence in result.absences] == ["unsupported"]
    assert len(transport.requests) == 1


ERRORS = [
    (400, "ModelArts.2775", mb.NotFoundError),
    (400, "ModelArts.2771", mb.PermissionDeniedError),
    (400, "ModelArts.2788", mb.InvalidRequestError),
    (400, "ModelArts.0204", mb.AuthenticationError),
    (401, "ModelArts.0204", mb.AuthenticationError),
    (401, "APIGW.0301", mb.AuthenticationError),
    (401, "APIGW.0307", mb.AuthenticationError),
    (403, "ModelArts.0203", mb.AuthenticationError),
    (403, "ModelArts.0206", mb.AuthenticationError),
    (403, "ModelArts.2784", mb.AuthenticationError),
    (403, "ModelArts.0108", mb.PermissionDeniedError),
    (403, "ModelArts.0210", mb.PermissionDeniedError),
    (400, "ModelArts.0210", mb.InvalidRequestError),
    (403, "APIGW.0302", mb.PermissionDeniedError),
    (404, "ModelArts.2786", mb.PermissionDeniedError),
    (404, "APIGW.0101", mb.NotFoundError),
    (405, "ModelArts.2803", mb.InvalidRequestError),
    (409, "ModelArts.2796", mb.InvalidRequestError),
    (429, "ModelArts.2799", mb.ThrottledError),
    (429, "APIGW.0308", mb.ThrottledError),
    (500, "ModelArts.2955", mb.ServiceUnavailableError),
    (502, "APIGW.0610", mb.ServiceUnavailableError),
    (504, "APIGW.0201", mb.ServiceUnavailableError),
    (418, "Unheard.0001", mb.InvalidRequestError),
]


@pytest.mark.parametrize(("status", "code", "kind"), ERRORS)
async def test_a_code_means_what_it_means_under_its_status(
    status: int, code: str, kind: type[mb.ProviderError]
) -> None:
    with pytest.raises(kind) as caught:
        await get_job({"error_code": code, "error_msg": "it says why", "request_id": "r-7"}, status)
    error = caught.value
    assert type(error) is kind
    assert (error.provider, error.operation, error.status, error.code, error.request_id) == (
        "modelarts", "ShowTrainingJobDetails", status, code, "r-7",
    )  # fmt: skip
    assert "it says why" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        {"errorCode": "APIGW.0308", "errorMsg": "slow"},
        {"code": "APIGW.0308", "message": "slow"},
        {"error": {"code": "APIGW.0308", "message": "slow", "title": "x"}},
        {"is_success": False, "error_code": "APIGW.0308", "error_message": "slow"},
    ],
)
async def test_every_form_of_an_error_is_read(body: Any) -> None:
    with pytest.raises(mb.ThrottledError, match="slow") as caught:
        await get_job(body, 429)
    assert caught.value.code == "APIGW.0308"


@pytest.mark.parametrize("body", [b"", b"<html>proxy</html>", b"[]", b'"x"', b'{"error_code": 5}', b"\xff"])
async def test_an_error_without_a_readable_body_goes_by_its_status(body: bytes) -> None:
    with pytest.raises(mb.ServiceUnavailableError):
        await get_job(body, 503)


async def test_a_field_that_is_not_as_documented_is_named() -> None:
    document = details()
    document["spec"]["resource"]["flavor_detail"]["flavor_info"]["npu"]["unit_num"] = "many"
    with pytest.raises(mb.DecodeError) as caught:
        await get_job(document)
    assert caught.value.path == "$.spec.resource.flavor_detail.flavor_info.npu.unit_num"


class Jobs:
    """A job list that pages and filters as the service documents it."""

    def __init__(self, count: int) -> None:
        self.items = [
            {
                "metadata": {"id": f"job-{i}", "name": f"train-{i % 3}", "create_time": START + i},
                "status": {"phase": list(PHASES)[i % len(PHASES)]},
            }
            for i in reversed(range(count))
        ]
        self.pages: list[int] = []

    def __call__(self, request: Request) -> Response:
        asked = json.loads(request.body)
        assert request.headers["Content-Type"] == "application/json"
        self.pages.append(asked["offset"])
        chosen = [item for item in self.items if all(self.passes(item, f) for f in asked["filters"])]
        begin = asked["offset"] * asked["limit"]
        page = {"items": chosen[begin : begin + asked["limit"]], "count": len(chosen), "total": len(self.items)}
        return Response(200, {}, json.dumps(page).encode())

    @staticmethod
    def passes(item: dict[str, Any], rule: dict[str, Any]) -> bool:
        value = rule["value"]
        if rule["operator"] == "like":
            return value[0] in item["metadata"][rule["key"]]
        if rule["operator"] == "between":
            return int(value[0]) <= item["metadata"][rule["key"]] <= int(value[1])
        return item["status"][rule["key"]] in value


async def listed(jobs: Jobs, **search: Any) -> list[mb.Job]:
    async with mb.open_provider("modelarts", transport=FakeTransport(jobs), **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        return [job async for job in provider.list_jobs(mb.JobSearch(**search))]


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 173])
async def test_all_pages_of_the_list_are_read_once(count: int) -> None:
    jobs = Jobs(count)
    found = await listed(jobs)
    assert [job.id for job in found] == [f"job-{i}" for i in reversed(range(count))]
    assert jobs.pages == list(range(max(1, -(-count // 50))))


async def test_the_list_is_filtered_by_the_service() -> None:
    found = await listed(Jobs(120), name="train-1", status=["failed"], created=mb.Window(START + 10, START + 60))
    assert [int(job.id[4:]) for job in found] == [
        i for i in reversed(range(10, 60)) if i % 3 == 1 and list(PHASES)[i % 8] in ("Failed", "Abnormal")
    ]


async def test_the_list_ends_at_the_limit_without_another_page() -> None:
    jobs = Jobs(500)
    assert len(await listed(jobs, limit=60)) == 60
    assert jobs.pages == [0, 1]


async def test_a_job_that_slides_to_the_next_page_is_given_once() -> None:
    jobs = Jobs(120)

    def handler(request: Request) -> Response:
        response = jobs(request)
        jobs.items.insert(0, {"metadata": {"id": f"new-{len(jobs.pages)}"}, "status": {}})
        return response

    async with mb.open_provider("modelarts", transport=FakeTransport(handler), **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        found = [job.id async for job in provider.list_jobs(mb.JobSearch())]
    assert len(found) == len(set(found))
    assert {f"job-{i}" for i in range(120)} <= set(found)


@pytest.mark.parametrize("bad", ["..", ".", "", "a\nb", "a\x00"])
async def test_an_id_that_would_lead_elsewhere_is_refused_before_a_request(bad: str) -> None:
    transport = FakeTransport(answer(details()))
    async with mb.open_provider("modelarts", transport=transport, **SETTINGS) as provider:
        with pytest.raises(mb.InvalidRequestError):
            await provider.get_job(bad)
        call = mb.Call(operation="x", targets=((JOB, bad),), metrics=("x",), window=mb.Window(0, 1))
        with pytest.raises(mb.InvalidRequestError):
            await provider.fetch(call)
    assert transport.requests == []


async def test_odd_ids_stay_one_segment_of_the_path() -> None:
    transport = FakeTransport(answer(details()))
    async with mb.open_provider("modelarts", transport=transport, **SETTINGS) as provider:
        await provider.get_job("a b/../ü?x=1#y")
    assert transport.requests[0].url.endswith("/training-jobs/a%20b%2F..%2F%C3%BC%3Fx%3D1%23y")


async def test_a_list_that_never_ends_is_left_when_it_brings_nothing_new() -> None:
    page = {"items": [{"metadata": {"id": f"job-{i}"}} for i in range(50)]}
    transport = FakeTransport(answer(page))
    async with mb.open_provider("modelarts", transport=transport, **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        assert len([job async for job in provider.list_jobs(mb.JobSearch())]) == 50
    assert len(transport.requests) == 2


@pytest.mark.parametrize(
    "endpoint",
    ["http://me:s3kret@host", "https://host?x=1", "https://host#x", "http://[::1", "ftp://x", "http://host:99999"],
)
async def test_an_endpoint_that_is_no_plain_url_is_refused_without_being_shown(endpoint: str) -> None:
    with pytest.raises(mb.ConfigurationError, match="endpoint") as caught:
        async with mb.open_provider("modelarts", **{**SETTINGS, "endpoint": endpoint}):
            pass
    assert "s3kret" not in str(caught.value)


async def test_what_a_service_echoes_is_scrubbed_everywhere() -> None:
    secret = SETTINGS["secret_key"]
    body = {"error_code": secret, "error_msg": f"bad {secret}", "request_id": secret}
    with pytest.raises(mb.PermissionDeniedError) as caught:
        await get_job(body, 403)
    assert secret not in str(caught.value) + repr(vars(caught.value))
