"""The provider modelarts-v1 against a transport that answers from the request."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_modelarts._catalog import V1_SERVED
from metricsbridge_modelarts._errors import CODES, CODES_ALONE
from metricsbridge_modelarts._wire_v1 import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1_705_300_000_123
MINUTE = 60_000
SETTINGS = {"region": "cn-north-4", "project_id": "p0", "access_key": "AK", "secret_key": "S3CRET-key-never-shown"}
PODS = ("train.0", "train.1")
EXPECTED = {
    **dict.fromkeys((3, 5, 6, 11, 14, 16, 17, 21), "failed"),
    **dict.fromkeys((1, 2, 4, 7, 18), "pending"),
    **dict.fromkeys((8, 15, 19, 20), "running"),
    **dict.fromkeys((12, 13), "stopped"),
    0: "unknown", 9: "stopping", 10: "succeeded",
}  # fmt: skip


def details(**fields: Any) -> dict[str, Any]:
    known = {"is_success": True, "job_id": 10, "version_id": 20, "job_name": "train", "status": 10}
    times = {"create_time": START - 5000, "start_time": START, "duration": 840_000}
    return {**known, **times, "gpu_num": 4, "gpu_type": "V100", **fields}


class Service:
    """One version of one job, its log files and its pods; a number instead is the HTTP status of a refusal."""

    def __init__(self, *, files: Any = PODS, pod: Any = 200, **fields: Any) -> None:
        self.details = details(**fields)
        self.files = files
        self.pod = pod

    def __call__(self, request: Request) -> Response:
        assert request.headers["X-Project-Id"] == "p0"
        _, _, path = request.url.partition("/v1/p0/training-jobs/10/versions/20")
        if path.endswith("/metric-statistic"):
            body = {"metrics": [{"metric": "cpuUsage", "value": ["0", "50.00"]}], "interval": 1}
            return answered(body if self.pod == 200 else self.pod)
        if path:
            files = {"is_success": True, "log_file_list": self.files}
            return answered(self.files if isinstance(self.files, int) else files)
        return answered(self.details)


def answered(document: Any) -> Response:
    if isinstance(document, int):
        refusal = b'{"error_code": "ModelArts.2788", "error_msg": "no"}'
        return Response(document, {}, b"" if document == 204 else refusal, START + 900_000)
    return Response(200, {}, json.dumps(document).encode(), START + 900_000)


async def get_job(service: Callable[[Request], Response], **settings: Any) -> tuple[mb.Job, FakeTransport]:
    transport = FakeTransport(service)
    async with mb.open_provider("modelarts-v1", transport=transport, **{**SETTINGS, **settings}) as provider:
        return await provider.get_job("10/20"), transport


def operations(transport: FakeTransport) -> list[str]:
    return [request.operation for request in transport.requests]


async def test_a_version_is_described_in_neutral_terms_in_two_calls() -> None:
    job, transport = await get_job(Service())
    assert job == mb.Job(
        id="10/20", name="train", status=mb.JobStatus.SUCCEEDED, vendor_status="10", create_time_ms=START - 5000,
        start_time_ms=START, end_time_ms=START + 840_000,
        accelerators=mb.Accelerators(kind="gpu", count=4, model="V100"),
        tasks=(mb.Task(id="train.0"), mb.Task(id="train.1")),
    )  # fmt: skip
    assert operations(transport) == ["ShowTrainingJobVersion", "ListTrainingJobLogFiles"]


@pytest.mark.parametrize("number", [*STATUSES, 22, -1, None])
async def test_every_status_is_mapped_and_an_unknown_one_is_unknown(number: int | None) -> None:
    job, _ = await get_job(Service(status=number))
    assert job.status == EXPECTED.get(-2 if number is None else number, "unknown")
    assert job.vendor_status == ("" if number is None else str(number))
    assert (job.end_time_ms is not None) == job.status.terminal


def test_all_22_statuses_of_the_documents_are_in_the_table() -> None:
    assert sorted(STATUSES) == sorted(EXPECTED) == [*range(22)]


@pytest.mark.parametrize("bad", ["10", "10/", "/20", "10/20/30", "a/b", "10/-1", "..", "10/..", "", "１/2", "1 /2"])
async def test_an_id_of_another_form_is_refused_before_a_request_and_says_how_to_write_it(bad: str) -> None:
    transport = FakeTransport(Service())
    async with mb.open_provider("modelarts-v1", transport=transport, **SETTINGS) as provider:
        with pytest.raises(mb.InvalidRequestError, match=r"job_id/version_id.*source/10/10"):
            await provider.get_job(bad)
        assert isinstance(provider, mb.SupportsEvaluations)
        with pytest.raises(mb.InvalidRequestError):
            await provider.evaluations(bad)
    assert transport.requests == []


@pytest.mark.parametrize(
    ("files", "pods"),
    [
        (["a.0"], ["a.0"]),
        (["a.0", "a.1", "a.0", "", None], ["a.0", "a.1"]),
        ('["a.0", "a.1"]', ["a.0", "a.1"]),
        ("a.0", ["a.0"]),
        ("a.0, a.1,", ["a.0", "a.1"]),
        ("", []),
        (None, []),
        ([], []),
        ({"a": "b"}, []),
    ],
)
async def test_the_names_of_log_files_are_read_in_every_form(files: Any, pods: list[str]) -> None:
    job, _ = await get_job(Service(files=files))
    assert [task.id for task in job.tasks] == pods


@pytest.mark.parametrize("status", [404, 204])
async def test_without_log_files_a_job_has_no_tasks(status: int) -> None:
    job, _ = await get_job(Service(files=status))
    assert job.tasks == ()


async def test_another_failure_of_the_log_files_is_not_taken_for_a_job_without_pods() -> None:
    with pytest.raises(mb.PermissionDeniedError):
        await get_job(Service(files=403))


@pytest.mark.parametrize("fields", [{"start_time": 0, "duration": 0, "status": 5}, {"start_time": None, "status": 7}])
async def test_a_job_that_has_not_started_is_not_asked_for_log_files(fields: dict[str, Any]) -> None:
    job, transport = await get_job(Service(**fields))
    assert (job.start_time_ms, job.end_time_ms, job.tasks) == (None, None, ())
    assert operations(transport) == ["ShowTrainingJobVersion"]


@pytest.mark.parametrize(
    ("setting", "pod", "pods", "asked"),
    [
        ("yes", 404, 2, 2),
        ("no", 200, 0, 1),
        ("probe", 200, 2, 3),
        ("probe", 404, 0, 3),
        ("probe", 400, 0, 3),
        ("probe", 403, 0, 3),
    ],
)
async def test_whether_pods_are_served_is_set_or_found_out_with_one_call(
    setting: str, pod: int, pods: int, asked: int
) -> None:
    job, transport = await get_job(Service(pod=pod), pod_metrics=setting)
    assert (len(job.tasks), len(transport.requests)) == (pods, asked)
    if asked == 3:
        assert transport.requests[2].url.endswith("/pod/train.0/metric-statistic")


async def test_a_probe_that_fails_otherwise_says_nothing_about_pods() -> None:
    with pytest.raises(mb.ServiceUnavailableError):
        await get_job(Service(pod=503), pod_metrics="probe")


ACCELERATORS: list[tuple[dict[str, Any], mb.Accelerators | None]] = [
    ({"gpu_num": 2, "gpu_type": "P100"}, mb.Accelerators(kind="gpu", count=2, model="P100")),
    ({"gpu_num": "2", "gpu_type": None}, mb.Accelerators(kind="gpu", count=2)),
    (
        {"gpu_num": 0, "gpu_type": "", "flavor_info": {"gpu": {"unit_num": 1, "product_name": "V100", "memory": "16"}}},
        mb.Accelerators(kind="gpu", count=1, model="V100"),
    ),
    (
        {"gpu_num": 0, "npu_info": {"unit_num": "8", "product_name": "snt9"}},
        mb.Accelerators(kind="npu", count=8, model="snt9"),
    ),
    (
        {"gpu_num": None, "flavor_info": {"gpu": None, "npu": {"unit_num": 1}}},
        mb.Accelerators(kind="npu", count=1),
    ),
    ({"gpu_num": None, "gpu_type": None, "npu_info": "", "flavor_info": []}, None),
    ({"gpu_num": "many", "flavor_info": {"gpu": {"unit_num": -1}}}, None),
]


@pytest.mark.parametrize(("fields", "expected"), ACCELERATORS)
async def test_accelerators_are_read_from_whichever_field_says_them(
    fields: dict[str, Any], expected: mb.Accelerators | None
) -> None:
    job, _ = await get_job(Service(**{"gpu_num": None, "gpu_type": None, **fields}))
    assert job.accelerators == expected


async def planned(job: mb.Job, **query: Any) -> list[mb.Call]:
    async with mb.open_provider("modelarts-v1", transport=FakeTransport(Service()), **SETTINGS) as provider:
        calls = provider.plan(job, mb.Query(window=mb.Window(START, START + 10**7), **query))
    assert [pickle.loads(pickle.dumps(call)) for call in calls] == [*calls]
    return [*calls]


JOB = mb.Job(id="10/20", start_time_ms=START, tasks=(mb.Task(id="train.0"), mb.Task(id="train.1")))
GPUS = ("hw.gpu.utilization", "hw.gpu.memory.utilization")


@pytest.mark.parametrize(
    ("per", "targets", "metrics", "operation"),
    [
        ("task", ["train.0", "train.1"], V1_SERVED, "ShowPodMetricStatistic"),
        ("device", ["train.0", "train.1"], GPUS, "ShowPodMetricStatistic"),
        ("job", [""], V1_SERVED, "ShowTrainingJobVersion"),
    ],
)
async def test_each_level_is_one_call_for_each_pod_or_one_for_the_job(
    per: Any, targets: list[str], metrics: tuple[str, ...], operation: str
) -> None:
    calls = await planned(JOB, per=per)
    assert [call.targets for call in calls] == [(("10/20", task),) for task in targets]
    assert {(call.operation, call.metrics, call.retention_ms) for call in calls} == {
        (operation, metrics, 3 * 86_400_000)
    }  # fmt: skip
    assert await planned(JOB, per=per, metrics=("hw.power",)) == []
    # Not documented, and read where it is there: asked for by name it is looked for.
    assert len(await planned(JOB, per=per, metrics=("hw.npu.utilization",))) == (0 if per == "device" else len(targets))
    assert len(await planned(JOB, per=per, metrics=("hw.power", GPUS[0]))) == len(targets)


async def test_only_the_pods_that_are_asked_for_are_planned() -> None:
    assert [call.targets for call in await planned(JOB, tasks=("train.1", "x"))] == [(("10/20", "train.1"),)]


async def test_a_job_without_pods_stands_for_them_unless_single_ones_are_asked_for() -> None:
    job = mb.Job(id="10/20", start_time_ms=START)
    (call,) = await planned(job)
    assert (call.operation, call.targets) == ("ShowTrainingJobVersion", (("10/20", ""),))
    assert await planned(job, tasks=("train.0",)) == []
    assert await planned(job, per="device") == []


@pytest.mark.parametrize(("per", "kind"), [("task", "all"), ("device", "each")])
async def test_a_pod_is_asked_for_all_its_metrics_at_once(per: Any, kind: str) -> None:
    transport = FakeTransport(Service())
    async with mb.open_provider("modelarts-v1", transport=transport, **SETTINGS) as provider:
        calls = provider.plan(JOB, mb.Query(window=mb.Window(START, START + 10**7), per=per))
        await provider.fetch(calls[1])
    (request,) = transport.requests
    assert request.url.endswith("/v1/p0/training-jobs/10/versions/20/pod/train.1/metric-statistic")
    assert request.params == (("statistic_type", kind),)


@pytest.mark.parametrize("per", ["task", "job"])
async def test_an_answer_without_metrics_is_no_data_yet(per: Any) -> None:
    def handler(request: Request) -> Response:
        return Response(200, {}, json.dumps(details()).encode()) if per == "job" else Response(204)

    async with mb.open_provider("modelarts-v1", transport=FakeTransport(handler), **SETTINGS) as provider:
        calls = provider.plan(JOB, mb.Query(window=mb.Window(START, START + 10**7), per=per))
        assert len(await provider.fetch(calls[0])) == 0


async def test_a_pod_that_is_not_found_says_what_to_set_where_pods_are_not_served() -> None:
    async with mb.open_provider("modelarts-v1", transport=FakeTransport(Service(pod=404)), **SETTINGS) as provider:
        calls = provider.plan(JOB, mb.Query(window=mb.Window(START, START + 10**7)))
        with pytest.raises(mb.NotFoundError, match="set pod_metrics to 'probe' or 'no'"):
            await provider.fetch(calls[0])


async def test_odd_pod_names_stay_one_segment_of_the_path_and_those_that_lead_elsewhere_are_refused() -> None:
    transport = FakeTransport(Service())
    async with mb.open_provider("modelarts-v1", transport=transport, **SETTINGS) as provider:
        job = mb.Job(id="10/20", start_time_ms=START, tasks=(mb.Task(id="a b/ü"), mb.Task(id="..")))
        odd, bad = provider.plan(job, mb.Query(window=mb.Window(START, START + 10**7)))
        await provider.fetch(odd)
        with pytest.raises(mb.InvalidRequestError):
            await provider.fetch(bad)
    assert transport.requests[0].url.endswith("/pod/a%20b%2F%C3%BC/metric-statistic")
    assert len(transport.requests) == 1


@pytest.mark.parametrize("code", [*CODES_ALONE, "ModelArts.0210", "ModelArts.0112", "Unheard.1", ""])
async def test_a_failure_under_http_200_goes_by_its_code(code: str) -> None:
    body = {"is_success": False, "error_code": code, "error_message": "it says why"}
    expected = CODES_ALONE.get(code, mb.InvalidRequestError)
    with pytest.raises(expected, match="it says why") as caught:
        await get_job(lambda request: answered(body))
    assert (type(caught.value), caught.value.code, caught.value.status) == (expected, code, 200)


def test_a_code_that_goes_alone_means_the_same_under_every_status() -> None:
    assert {(code, CODES_ALONE[code]) for _, code in CODES} == {(code, cls) for (_, code), cls in CODES.items()}


@pytest.mark.parametrize(
    "body",
    [
        b'{"is_success" : \n false}',
        b'{"jobs": [' + b"1," * 5000 + b'1], "is_success": false, "error_code": "x"}',
        b'{"error_msg": "Error string", "error_code": "ModelArts.0105"}',
    ],
)
async def test_a_failure_is_seen_wherever_and_however_it_is_written(body: bytes) -> None:
    with pytest.raises(mb.InvalidRequestError):
        await get_job(lambda request: Response(200, {}, body))


@pytest.mark.parametrize(
    "fields",
    [
        {"job_desc": 'it printed "is_success": false and "error_code": "x"'},
        {"error_code": None, "error_message": ""},
        {"parameter": [{"is_success": False}]},
    ],
)
async def test_what_only_looks_like_a_failure_is_none(fields: dict[str, Any]) -> None:
    job, _ = await get_job(Service(**fields))
    assert job.id == "10/20"


@pytest.mark.parametrize(
    "given",
    [
        {"metric": [{"metric_values": {"recall": 1}, "metric_meta": {"class_name": "cat", "class_id": 3}}]},
        '{"metric": [{"metric_values": {"recall": 1.0}, "metric_meta": {"class_name": "cat", "class_id": "3"}}]}',
    ],
)
async def test_evaluations_are_read_from_an_object_and_from_text(given: Any) -> None:
    expected = mb.Evaluation(class_id="3", class_name="cat", metrics={"recall": 1.0})
    assert await evaluations(given) == [expected]


@pytest.mark.parametrize("given", ["", None, {}, [], '{"metric": null, "total_metric": {"total_metric_values": {}}}'])
async def test_where_there_is_no_evaluation_there_is_none(given: Any) -> None:
    assert await evaluations(given) == []


async def test_a_class_without_an_id_is_not_taken_for_the_total_and_what_is_no_number_is_no_metric() -> None:
    given = {"metric": [{"metric_values": {"recall": 0.5, "note": "x", "ok": True}}, {"metric_values": None}, 7]}
    assert await evaluations(given) == [mb.Evaluation(class_id="0", metrics={"recall": 0.5})]


async def evaluations(given: Any) -> list[mb.Evaluation]:
    transport = FakeTransport(Service(model_metric_list=given))
    async with mb.open_provider("modelarts-v1", transport=transport, **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsEvaluations)
        return [*await provider.evaluations("10/20")]


async def test_evaluations_that_are_no_json_are_refused_with_their_path() -> None:
    with pytest.raises(mb.DecodeError) as caught:
        await evaluations("{oops")
    assert caught.value.path == "$.model_metric_list"


@pytest.mark.parametrize("setting", ["disk_rate_unit", "network_rate_unit"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
async def test_a_unit_that_is_none_is_refused(setting: str, value: float) -> None:
    with pytest.raises(mb.ConfigurationError, match=f"{setting}: .*bytes per second"):
        async with mb.open_provider("modelarts-v1", **SETTINGS, **{setting: value}):
            pass
