"""The vendor's own clients, unchanged, read the emulator and arrive at the fleet's truth."""

import numpy as np
import pytest
from alibabacloud_cms20190101 import models as cms
from alibabacloud_pai_dlc20201203 import models as dlc
from alibabacloud_tea_openapi.exceptions import ClientException, ThrottlingException
from darabonba.policy.retry import RetryCondition, RetryOptions

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.fleet import Fleet
from metricsbridge_pai._emulated import gateway as gate
from metricsbridge_pai.emulator import create_app, is_general, job_ids, pod_ids
from pai_clients import NAMESPACE, first, general_ended, life, quota_ended, text, truth, vendor_clients

# The vendor's client asks for the time in a way that newer Pythons deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

METRIC_TYPES = {
    "CpuCoreUsage": "container.cpu.utilization",
    "MemoryUsage": "container.memory.utilization",
    "GpuCoreUsage": "hw.gpu.utilization",
    "GpuMemoryUsage": "hw.gpu.memory.utilization",
    "NetworkInputRate": "container.network.receive.rate",
    "NetworkOutputRate": "container.network.transmit.rate",
    "DiskReadRate": "container.disk.read.rate",
    "DiskWriteRate": "container.disk.write.rate",
}
OFFSET_MS = 26_587
STS = (gate.TEMPORARY_ACCESS_KEY_ID, gate.TEMPORARY_ACCESS_KEY_SECRET)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def app():
    return create_app()


@pytest.fixture
def fleet(app):
    return app[EMULATOR].fleet


@pytest.mark.parametrize("metric_type", METRIC_TYPES)
async def test_metrics_of_all_pods_are_the_fleets_numbers(app, fleet, metric_type):
    job, job_id = general_ended(fleet)
    request = dlc.GetJobMetricsRequest(metric_type=metric_type, time_step="1m", **life(job))
    async with vendor_clients(app) as call:
        answer = await call("get_job_metrics", job_id, request)
    assert answer.job_id == job_id
    assert [pod.pod_id for pod in answer.pod_metrics] == list(pod_ids(fleet, job))
    for pod, task in zip(answer.pod_metrics, job.tasks, strict=True):
        expected = truth(fleet, job, task, METRIC_TYPES[metric_type])
        assert [point.time for point in pod.metrics] == [time + OFFSET_MS for time in expected]
        unit, digits = (1_000_000, 3) if metric_type.endswith("Rate") else (1, 2)
        wanted = [round(value / unit, digits) for value in expected.values()]
        assert [point.value for point in pod.metrics] == wanted


async def test_points_of_longer_steps_are_means(app, fleet):
    job, job_id = general_ended(fleet)
    request = dlc.GetJobMetricsRequest(metric_type="GpuCoreUsage", **life(job))
    async with vendor_clients(app) as call:
        answer = await call("get_job_metrics", job_id, request)
    expected = {}
    for time, value in truth(fleet, job, job.tasks[0], "hw.gpu.utilization").items():
        expected.setdefault(time // 300_000 * 300_000, []).append(value)
    points = answer.pod_metrics[0].metrics
    first_whole = [point for point in points if point.time - OFFSET_MS >= job.first_minute_ms]
    assert len(first_whole) in (len(expected), len(expected) - 1)
    for point in first_whole:
        assert point.value == pytest.approx(np.mean(expected[point.time - OFFSET_MS]), abs=0.0051)


async def test_default_range_is_the_last_hour(app, fleet):
    _, job_id = first(fleet, lambda job: is_general(fleet, job) and job.minute_count(fleet.now_ms) > 2_000)
    async with vendor_clients(app) as call:
        answer = await call("get_job_metrics", job_id, dlc.GetJobMetricsRequest(metric_type="MemoryUsage"))
    times = [point.time for point in answer.pod_metrics[0].metrics]
    assert len(times) in (11, 12)
    assert {time % 300_000 for time in times} == {OFFSET_MS}


async def test_jobs_of_other_resources_have_no_metrics_here(app, fleet):
    job, job_id = quota_ended(fleet)
    request = dlc.GetJobMetricsRequest(metric_type="GpuCoreUsage", time_step="1m", **life(job))
    async with vendor_clients(app) as call:
        assert (await call("get_job_metrics", job_id, request)).pod_metrics == []


async def test_job_is_described(app, fleet):
    async with vendor_clients(app) as call:
        for job in fleet.jobs:
            answer = await call("get_job", job_ids(fleet)[job.id], dlc.GetJobRequest())
            assert (answer.job_id, answer.display_name) == (job_ids(fleet)[job.id], job.name)
            assert answer.gmt_create_time == text(job.create_time_ms)
            assert answer.gmt_running_time == (text(job.start_time_ms) if job.start_time_ms else None)
            assert [pod.pod_id for pod in answer.pods] == list(pod_ids(fleet, job))
            assert sum(spec.pod_count for spec in answer.job_specs) == len(job.tasks)
            gpus = job.devices * len(job.tasks) if job.device_kind == "gpu" else 0
            assert (type(answer.request_gpu), answer.request_gpu) == (float, gpus)
            if job.end_time_ms is not None:
                assert answer.duration == (job.end_time_ms - job.start_time_ms) // 1000
            general = answer.resource_type == "ECS" and not answer.resource_id
            spot = any(spec.use_spot_instance for spec in answer.job_specs)
            if answer.resource_type is not None:
                assert (general and not spot) is is_general(fleet, job)


async def test_detail_is_left_out_on_request(app, fleet):
    async with vendor_clients(app) as call:
        answer = await call("get_job", job_ids(fleet)[fleet.jobs[0].id], dlc.GetJobRequest(need_detail=False))
    assert answer.pods is None or answer.pods == []
    assert answer.job_specs


async def test_restarted_pod_has_its_history(app, fleet):
    async with vendor_clients(app) as call:
        answers = [await call("get_job", job_id, dlc.GetJobRequest()) for job_id in job_ids(fleet).values()]
    restarted = [answer for answer in answers if answer.restart_times == "1/10"]
    assert restarted
    for answer in restarted:
        *others, last = answer.pods
        assert all(not pod.history_pods for pod in others)
        (earlier,) = last.history_pods
        assert earlier.pod_uid != last.pod_uid
        assert answer.gmt_running_time == earlier.gmt_start_time < earlier.gmt_finish_time < last.gmt_start_time
        assert "Restarting" in [entry.status for entry in answer.status_history]


async def test_list_pages_through_all_jobs():
    app = create_app(fleet=Fleet(size=70, now_ms=create_app()[EMULATOR].fleet.now_ms))
    fleet = app[EMULATOR].fleet
    seen = []
    async with vendor_clients(app) as call:
        for page in range(1, 5):
            answer = await call("list_jobs", dlc.ListJobsRequest(page_number=page, page_size=20))
            assert answer.total_count == 70
            assert all(isinstance(item.request_gpu, str) and not item.is_deleted for item in answer.jobs)
            seen += [item.job_id for item in answer.jobs]
    newest_first = sorted(fleet.jobs, key=lambda job: (job.create_time_ms, job_ids(fleet)[job.id]), reverse=True)
    assert seen == [job_ids(fleet)[job.id] for job in newest_first]


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({"status": "Running"}, lambda fleet, job: job.status is JobStatus.RUNNING),
        ({"display_name": "GPU"}, lambda fleet, job: "gpu" in job.name),
        ({"job_type": "TFJob"}, lambda fleet, job: not job.device_kind),
        ({"payment_type": "PostPaid"}, lambda fleet, job: is_general(fleet, job) or job is fleet.jobs[10]),
        ({"show_own": True, "from_all_workspaces": True}, lambda fleet, job: True),
        ({"workspace_id": "1"}, lambda fleet, job: False),
        ({"tags": {"a": "b"}}, lambda fleet, job: False),
    ],
)
async def test_list_filters(app, fleet, given, chosen):
    async with vendor_clients(app) as call:
        answer = await call("list_jobs", dlc.ListJobsRequest(page_size=100, **given))
    expected = {job_ids(fleet)[job.id] for job in fleet.jobs if chosen(fleet, job)}
    assert {item.job_id for item in answer.jobs} == expected
    assert answer.total_count == len(expected)


async def test_list_takes_a_range_of_creation_times_and_an_order(app, fleet):
    created = sorted(job.create_time_ms for job in fleet.jobs)
    request = dlc.ListJobsRequest(
        start_time=text(created[3]), end_time=text(created[8]), sort_by="GmtCreateTime", order="asc", page_size=50
    )
    async with vendor_clients(app) as call:
        answer = await call("list_jobs", request)
    assert [item.gmt_create_time for item in answer.jobs] == [text(time) for time in created[3:8]]


async def test_list_finds_jobs_by_id(app, fleet):
    ids = list(job_ids(fleet).values())[:3]
    async with vendor_clients(app) as call:
        several = await call("list_jobs", dlc.ListJobsRequest(job_ids=",".join(ids)))
        one = await call("list_jobs", dlc.ListJobsRequest(job_id=ids[0], job_ids=",".join(ids[1:])))
    assert {item.job_id for item in several.jobs} == set(ids)
    assert [item.job_id for item in one.jobs] == [ids[0]]


async def test_events_logs_and_specifications_are_read(app, fleet):
    job, job_id = general_ended(fleet)
    pod = pod_ids(fleet, job)[0]
    async with vendor_clients(app) as call:
        events = await call("get_job_events", job_id, dlc.GetJobEventsRequest(start_time=text(job.start_time_ms)))
        of_pod = await call("get_pod_events", job_id, pod, dlc.GetPodEventsRequest(max_events_num=1))
        logs = await call("get_pod_logs", job_id, pod, dlc.GetPodLogsRequest(max_lines=2))
        specs = await call("list_ecs_specs", dlc.ListEcsSpecsRequest(accelerator_type="GPU", page_size=100))
    assert len(events.events) == 2
    assert (of_pod.pod_id, len(of_pod.events), len(logs.logs)) == (pod, 1, 2)
    assert {spec.gpu for spec in specs.ecs_specs} == {1, 4, 8}


@pytest.mark.parametrize(
    ("given", "code", "status"),
    [
        ({"keys": (gate.ACCESS_KEY_ID, "wrong")}, "SignatureDoesNotMatch", 400),
        ({"keys": ("UNKNOWN", "wrong")}, "InvalidAccessKeyId.NotFound", 404),
        ({"keys": STS}, "MissingSecurityToken", 400),
        ({"keys": STS, "token": "nonsense"}, "InvalidSecurityToken.Malformed", 400),
        ({"token": gate.security_token()}, "InvalidSecurityToken.MismatchWithAccessKey", 400),
    ],
)
async def test_who_may_not_pass_is_refused(app, fleet, given, code, status):
    async with vendor_clients(app, **given) as call:
        for name, *arguments in (("list_jobs", dlc.ListJobsRequest()), ("cursor", cms.CursorRequest())):
            with pytest.raises(ClientException) as caught:
                await call(name, *arguments)
            assert (caught.value.code, caught.value.status_code) == (code, status)


@pytest.mark.parametrize("number", [0, 7])
async def test_temporary_keys_pass_with_a_security_token(app, number):
    async with vendor_clients(app, keys=STS, token=gate.security_token(number)) as call:
        assert (await call("list_jobs", dlc.ListJobsRequest())).total_count == 12
        request = cms.DescribeMetricMetaListRequest(namespace=NAMESPACE)
        assert (await call("describe_metric_meta_list", request)).success


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("get_job", ("dlc0", dlc.GetJobRequest()), "NotFound"),
        ("get_job_metrics", ("dlc0", dlc.GetJobMetricsRequest(metric_type="CpuCoreUsage")), "NotFound"),
        ("get_job_metrics", (None, dlc.GetJobMetricsRequest(metric_type="Cpu")), "InvalidParameter"),
        ("get_job_metrics", (None, dlc.GetJobMetricsRequest()), "InvalidParameter"),
        ("list_jobs", (dlc.ListJobsRequest(page_size=101),), "InvalidParameter"),
        ("get_metrics", (dlc.GetMetricsRequest(namespace=NAMESPACE, metric_name="X"),), "InvalidParameter"),
        ("describe_metric_list", (cms.DescribeMetricListRequest(metric_name="X"),), "MissingParameter"),
    ],
)
async def test_wrong_parameters_are_refused(app, fleet, name, arguments, code):
    given = [job_ids(fleet)[fleet.jobs[0].id] if argument is None else argument for argument in arguments]
    async with vendor_clients(app) as call:
        with pytest.raises(ClientException) as caught:
            await call(name, *given)
    assert caught.value.code == code
    assert caught.value.data["HostId"].startswith("127.0.0.1:")


async def test_odd_ids_are_signed_alike(app):
    async with vendor_clients(app) as call:
        for odd in ("a b", "ä/ö", "100%", "a+b&c=d", "~tilde", "a*b"):
            with pytest.raises(ClientException) as caught:
                await call("get_job", odd, dlc.GetJobRequest())
            assert caught.value.code == "NotFound"


@pytest.mark.parametrize("status", [400, 429, 503])
async def test_throttled_client_learns_how_long_to_wait(status):
    app = create_app(throttle_status=status, retry_after_ms=700)
    app[EMULATOR].faults.script("throttle")
    async with vendor_clients(app) as call:
        with pytest.raises(ThrottlingException) as caught:
            await call("list_jobs", dlc.ListJobsRequest())
    assert (caught.value.code, caught.value.status_code, caught.value.retry_after) == ("Throttling.User", status, 700)


async def test_throttled_client_that_retries_gets_through():
    app = create_app(retry_after_ms=1)
    app[EMULATOR].faults.script("throttle", "throttle")
    again = RetryCondition({"errorCode": ["Throttling.User"], "maxAttempts": 3})
    async with vendor_clients(app, retry=RetryOptions({"retryable": True, "retryCondition": [again]})) as call:
        assert (await call("list_jobs", dlc.ListJobsRequest())).total_count == 12
    assert app[EMULATOR].faults.injected["throttle"] == 2
