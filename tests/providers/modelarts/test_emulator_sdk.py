"""The vendor's own client, unchanged, reads the emulator and arrives at the fleet's truth."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ClientRequestException
from huaweicloudsdkcore.region.region import Region
from huaweicloudsdkmodelarts import v1 as sdk

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.fleet import Fleet
from metricsbridge_modelarts._emulated import gateway as gate
from metricsbridge_modelarts.emulator import create_app

METRICS = {
    "cpuUsage": "container.cpu.utilization",
    "memUsage": "container.memory.utilization",
    "gpuUtil": "hw.gpu.utilization",
    "gpuMemUsage": "hw.gpu.memory.utilization",
    "npuUtil": "hw.npu.utilization",
    "npuMemUsage": "hw.npu.memory.utilization",
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@asynccontextmanager
async def vendor_client(app=None, *, ak=gate.ACCESS_KEY, sk=gate.SECRET_KEY, project=gate.PROJECT_ID, token=None):
    """Serve the emulator, and give a function that calls the vendor's client in a thread."""
    async with serve(create_app() if app is None else app) as url:
        credentials = BasicCredentials(ak, sk, project)
        if token:
            credentials.with_security_token(token)
        client = sdk.ModelArtsClient.new_builder().with_credentials(credentials).with_endpoint(url).build()

        async def call(name, request):
            return await asyncio.to_thread(getattr(client, name), request)

        try:
            yield call
        finally:
            client.get_http_client().close()
            client.get_http_client().executor.shutdown()


@pytest.fixture
def app():
    return create_app()


@pytest.fixture
def fleet(app):
    return app[EMULATOR].fleet


def details(job):
    return sdk.ShowTrainingJobDetailsRequest(training_job_id=job.id)


async def test_task_metrics_are_the_fleets_numbers(app, fleet):
    compared = 0
    async with vendor_client(app) as call:
        for job in fleet.jobs:
            if job.end_time_ms is None:
                continue
            minutes = job.minutes(fleet.now_ms)
            for task in job.tasks[:3]:
                request = sdk.ShowTrainingJobMetricsRequest(training_job_id=job.id, task_id=task)
                answer = await call("show_training_job_metrics", request)
                assert [entry.metric for entry in answer.metrics] == list(METRICS)
                for entry in answer.metrics:
                    truth = fleet.wire_values(job, task, METRICS[entry.metric], minutes).tolist()
                    assert entry.value == [-1 if value != value else value for value in truth]
                    compared += len(truth)
    assert compared > 10_000


async def test_running_job_has_the_complete_minutes(app, fleet):
    job = next(job for job in fleet.jobs if job.status is JobStatus.RUNNING and job.minute_count(fleet.now_ms) > 30)
    async with vendor_client(app) as call:
        request = sdk.ShowTrainingJobMetricsRequest(training_job_id=job.id, task_id="worker-0")
        answer = await call("show_training_job_metrics", request)
    assert len(answer.metrics[0].value) - job.minute_count(fleet.now_ms) in (0, 1)


async def test_details_describe_every_job(app, fleet):
    async with vendor_client(app) as call:
        for job in fleet.jobs:
            answer = await call("show_training_job_details", details(job))
            assert (answer.metadata.id, answer.metadata.name) == (job.id, job.name)
            assert answer.metadata.create_time == job.create_time_ms
            assert answer.status.start_time == (job.start_time_ms or 0)
            assert answer.status.tasks == list(job.tasks)
            if job.end_time_ms is not None:
                assert answer.status.duration == job.end_time_ms - job.start_time_ms
            info = answer.spec.resource.flavor_detail.flavor_info
            devices = {"gpu": info.gpu and info.gpu.unit_num, "npu": info.npu and info.npu.unit_num}
            expected = {"gpu": job.devices, "npu": str(job.devices)}
            assert devices == {kind: expected[kind] if kind == job.device_kind else None for kind in devices}


async def test_never_started_job_has_phase_abnormal_and_start_zero(app, fleet):
    job = next(job for job in fleet.jobs if job.status is JobStatus.FAILED and job.start_time_ms is None)
    async with vendor_client(app) as call:
        status = (await call("show_training_job_details", details(job))).status
    assert (status.phase, status.secondary_phase) == ("Abnormal", "CreateFailed")
    assert (status.start_time, status.duration) == (0, 0)


async def test_list_pages_through_all_jobs():
    app = create_app(fleet=Fleet(size=70))
    fleet = app[EMULATOR].fleet
    seen = []
    async with vendor_client(app) as call:
        for page in range(4):
            search = sdk.JobSearches(offset=page, limit=20, sort_by="create_time", order="desc")
            answer = await call("list_training_jobs", sdk.ListTrainingJobsRequest(body=search))
            assert (answer.total, answer.count, answer.offset, answer.limit) == (70, 70, page, 20)
            seen += [item.metadata.id for item in answer.items]
    newest_first = sorted(fleet.jobs, key=lambda job: (job.create_time_ms, job.id), reverse=True)
    assert seen == [job.id for job in newest_first]


@pytest.mark.parametrize(
    ("key", "operator", "chosen"),
    [
        ("name", "like", lambda job: "gpu" in job.name),
        ("phase", "in", lambda job: job.status in (JobStatus.RUNNING, JobStatus.SUCCEEDED)),
        ("create_time", "between", None),
    ],
)
async def test_list_filters(app, fleet, key, operator, chosen):
    times = sorted(job.create_time_ms for job in fleet.jobs)
    values = {"name": ["gpu"], "phase": ["Running", "Completed"], "create_time": [str(times[3]), str(times[8])]}[key]
    chosen = chosen or (lambda job: times[3] <= job.create_time_ms <= times[8])
    search = sdk.JobSearches(limit=50, filters=[sdk.Filter(key=key, operator=operator, value=values)])
    async with vendor_client(app) as call:
        answer = await call("list_training_jobs", sdk.ListTrainingJobsRequest(body=search))
    expected = {job.id for job in fleet.jobs if chosen(job)}
    assert {item.metadata.id for item in answer.items} == expected
    assert (answer.total, answer.count) == (len(fleet.jobs), len(expected))


async def test_tasks_stages_events_and_flavors_are_read(app, fleet):
    job = next(job for job in fleet.jobs if job.status is JobStatus.FAILED and job.start_time_ms is not None)
    async with vendor_client(app) as call:
        tasks = await call("list_training_job_tasks", sdk.ListTrainingJobTasksRequest(training_job_id=job.id))
        stages = await call("list_training_job_stages", sdk.ListTrainingJobStagesRequest(training_job_id=job.id))
        request = sdk.ListTrainingJobEventsRequest(training_job_id=job.id, level="Error", order="asc")
        events = await call("list_training_job_events", request)
        flavors = await call("show_training_job_flavors", sdk.ShowTrainingJobFlavorsRequest(flavor_type="Ascend"))
    assert [entry.task for entry in tasks.body] == list(job.tasks)
    named = {stage.name: stage for stage in stages.running_records[0].stages}
    assert list(named) == ["scheduling", "preparing", "running", "end"]
    assert named["running"].start_time == str(job.start_time_ms)
    assert [event.message for event in events.events] == ["The job failed."]
    assert {flavor.flavor_type for flavor in flavors.flavors} == {"Ascend"}


@pytest.mark.parametrize(
    ("chosen", "status", "code"),
    [
        ({"sk": "wrong"}, 401, "APIGW.0301"),
        ({"ak": "UNKNOWN"}, 401, "APIGW.0301"),
        ({"token": "not-its-own"}, 401, "APIGW.0301"),
        ({"project": "f" * 32}, 403, "ModelArts.0210"),
        ({"ak": gate.TEMPORARY_ACCESS_KEY, "sk": gate.TEMPORARY_SECRET_KEY}, 401, "APIGW.0301"),
    ],
)
async def test_who_may_not_pass_is_refused(app, fleet, chosen, status, code):
    async with vendor_client(app, **chosen) as call:
        with pytest.raises(ClientRequestException) as caught:
            await call("show_training_job_details", details(fleet.jobs[0]))
    assert (caught.value.status_code, caught.value.error_code) == (status, code)
    assert caught.value.request_id


async def test_temporary_keys_pass_with_their_security_token(app, fleet):
    keys = {"ak": gate.TEMPORARY_ACCESS_KEY, "sk": gate.TEMPORARY_SECRET_KEY, "token": gate.SECURITY_TOKEN}
    async with vendor_client(app, **keys) as call:
        assert (await call("show_training_job_details", details(fleet.jobs[0]))).kind == "job"


@pytest.mark.parametrize(
    ("job_id", "task", "code"),
    [("2cd88daa-31a4-40a8-a58f-d186b0e93e4f", "worker-0", "ModelArts.2775"), (None, "worker-99", "ModelArts.2788")],
)
async def test_unknown_job_or_task_is_a_bad_request(app, fleet, job_id, task, code):
    request = sdk.ShowTrainingJobMetricsRequest(training_job_id=job_id or fleet.jobs[0].id, task_id=task)
    async with vendor_client(app) as call:
        with pytest.raises(ClientRequestException) as caught:
            await call("show_training_job_metrics", request)
    assert (caught.value.status_code, caught.value.error_code) == (400, code)


async def test_odd_ids_are_signed_alike(app):
    async with vendor_client(app) as call:
        for odd in ("a b", "ä/ö", "100%", "a+b&c=d", "~tilde"):
            request = sdk.ShowTrainingJobMetricsRequest(training_job_id=odd, task_id=odd)
            with pytest.raises(ClientRequestException) as caught:
                await call("show_training_job_metrics", request)
            assert caught.value.error_code == "ModelArts.2775"


async def test_project_is_found_by_the_regions_name(app, fleet):
    def read(url):
        credentials = BasicCredentials(gate.ACCESS_KEY, gate.SECRET_KEY).with_iam_endpoint(url)
        builder = sdk.ModelArtsClient.new_builder().with_credentials(credentials).with_region(Region(gate.REGION, url))
        client = builder.build()
        try:
            return client.show_training_job_details(details(fleet.jobs[0]))
        finally:
            client.get_http_client().close()
            client.get_http_client().executor.shutdown()

    async with serve(app) as url:
        answer = await asyncio.to_thread(read, url)
    assert answer.metadata.id == fleet.jobs[0].id


async def test_fresh_job_reads_as_no_metrics(fleet):
    job = next(job for job in fleet.jobs if job.start_time_ms and job.minute_count(fleet.now_ms) == 0)
    request = sdk.ShowTrainingJobMetricsRequest(training_job_id=job.id, task_id="worker-0")
    async with vendor_client(create_app(fleet=fleet, now_ms=lambda: fleet.now_ms)) as call:
        assert (await call("show_training_job_metrics", request)).metrics is None
