"""Open Telekom Cloud's own client, unchanged, reads the emulator and arrives at the fleet's truth."""

import asyncio
import json
from contextlib import asynccontextmanager

import openstack
import pytest
from openstack import exceptions
from otcextensions.sdk.modelartsv1.v1.training_job_version import TrainingJobVersion

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from metricsbridge_modelarts import emulator_v1 as v1
from metricsbridge_modelarts._emulated import gateway as gate

# The client and OpenStack's, which it extends, are of different ages.
pytestmark = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

FLEET = Fleet(size=40)
IDS = v1.job_ids(FLEET)
FIRST_VERSIONS = {text.split("/")[0]: index for index, text in reversed(list(enumerate(IDS.values())))}
JOB_IDS = [int(text) for text in FIRST_VERSIONS]
VERSION_IDS = [int(text.split("/")[1]) for text in IDS.values()]
ENDED = next(job for job in FLEET.jobs if job.end_time_ms and job.device_kind == "gpu")
METRICS = {
    "cpu_usage": ("container.cpu.utilization", 1),
    "mem_usage": ("container.memory.utilization", 1),
    "disk_read_rate": ("container.disk.read.rate", 1000),
    "disk_write_rate": ("container.disk.write.rate", 1000),
    "recv_bytes_rate": ("container.network.receive.rate", 1),
    "send_bytes_rate": ("container.network.transmit.rate", 1),
    "gpu_util": ("hw.gpu.utilization", 1),
    "gpu_mem_usage": ("hw.gpu.memory.utilization", 1),
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def emulator(**chosen):
    """Make the emulator; its clock stands, so that tokens have to be good for long in the eyes of the client's."""
    return v1.create_otc_app(fleet=FLEET, now_ms=lambda: FLEET.now_ms, token_life_ms=100 * 365 * 86_400_000, **chosen)


def connect(url, **auth):
    """Log in as a clouds.yaml would, and load the vendor's extensions."""
    entry = v1.cloud_entry(url)
    entry["auth"] |= auth
    hook = "otcextensions.sdk:load"
    return openstack.connect(load_yaml_config=False, load_envvars=False, vendor_hook=hook, **entry)


@asynccontextmanager
async def vendor_client(app=None, **auth):
    """Serve the emulator, and give a function that lets another use the vendor's connection in a thread."""
    async with serve(emulator() if app is None else app) as url:
        connection = await asyncio.to_thread(connect, url, **auth)

        async def call(use):
            return await asyncio.to_thread(use, connection)

        try:
            yield call
        finally:
            connection.close()


def version(service, job):
    """Read the details: the client's own getter of them loses the job's id and sends nothing."""
    job_id, version_id = IDS[job.id].split("/")
    found = TrainingJobVersion.new(id=version_id)
    return found.fetch(service, base_path=f"/training-jobs/{job_id}/versions")


async def test_client_finds_the_service_in_the_catalog():
    async with vendor_client() as call:
        found = await call(lambda connection: connection.modelartsv1.get_endpoint())
        projects = await call(lambda connection: [project.name for project in connection.identity.projects()])
    assert found.endswith(f"/v1/{gate.PROJECT_ID}")
    assert projects == [v1.OTC_REGION]


async def test_project_is_named_by_its_id_too():
    async with vendor_client(project_name=None, project_domain_name=None, project_id=gate.PROJECT_ID) as call:
        assert await call(lambda connection: len(list(connection.modelartsv1.training_jobs()))) == 10


async def test_jobs_are_listed_ten_at_once():
    async with vendor_client() as call:
        jobs = await call(lambda connection: list(connection.modelartsv1.training_jobs()))
    names = sorted([FLEET.jobs[index].name for index in FIRST_VERSIONS.values()])
    assert [job.name for job in jobs] == names[:10]
    assert all(isinstance(job.job_id, int) and job.id == job.job_id for job in jobs)


async def test_jobs_are_listed_page_by_page():
    def read(connection):
        pages = [list(connection.modelartsv1.training_jobs(limit=6, offset=number)) for number in range(1, 6)]
        return [[job.job_id for job in page] for page in pages]

    async with vendor_client() as call:
        pages = await call(read)
    assert sorted([job_id for page in pages for job_id in page]) == sorted(JOB_IDS)
    assert [len(page) for page in pages[:-2]] == [6] * (len(pages) - 2)


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_jobs_are_sorted_as_asked(order):
    async with vendor_client() as call:
        jobs = await call(
            lambda connection: list(connection.modelartsv1.training_jobs(limit=50, sort_by="create_time", order=order))
        )
    times = [job.created_at for job in jobs]
    assert times == sorted(times, reverse=order == "desc")
    assert len(times) == len(JOB_IDS)


async def test_jobs_are_searched_by_status_name_and_workspace():
    def read(connection):
        jobs = connection.modelartsv1.training_jobs
        return (
            list(jobs(limit=50, status="8")),
            list(jobs(limit=50, search_content="npu")),
            list(jobs(limit=50, workspace_id="other")),
        )

    async with vendor_client() as call:
        running, named, elsewhere = await call(read)
    assert running
    assert {job.status for job in running} == {8}
    assert named
    assert all("npu" in job.name for job in named)
    assert elsewhere == []


async def test_versions_of_every_job_are_listed():
    def read(connection):
        service = connection.modelartsv1
        return [row for job in service.training_jobs(limit=50) for row in service.training_job_versions(job)]

    async with vendor_client() as call:
        versions = await call(read)
    by_id = {row.version_id: row for row in versions}
    assert sorted(by_id) == sorted(VERSION_IDS)
    for job, version_id in zip(FLEET.jobs, VERSION_IDS, strict=True):
        row = by_id[version_id]
        assert (row.created_at, row.started_at) == (job.create_time_ms, job.start_time_ms)
        assert row.worker_server_num == len(job.tasks)
        assert row.gpu_num == (job.devices if job.device_kind == "gpu" else 0)


async def test_versions_are_paged_from_one():
    job_id = next(job_id for job_id in JOB_IDS if sum(text.startswith(f"{job_id}/") for text in IDS.values()) == 3)

    def read(connection):
        service = connection.modelartsv1
        pages = [service.training_job_versions(job_id, limit=2, offset=number) for number in (1, 2)]
        return [[row.version_id for row in page] for page in pages]

    async with vendor_client() as call:
        pages = await call(read)
    ids = [int(text.split("/")[1]) for text in IDS.values() if text.startswith(f"{job_id}/")]
    assert pages == [ids[:0:-1], ids[:1]]


async def test_details_have_the_averages_that_the_client_knows():
    jobs = [job for job in FLEET.jobs if job.end_time_ms is not None and len(job.tasks) == 1]
    compared = 0
    async with vendor_client() as call:
        for job in jobs:
            found = await call(lambda connection, job=job: version(connection.modelartsv1, job))
            assert found.system_metric_list.interval == 1
            for name, (metric, unit) in METRICS.items():
                numbers = FLEET.wire_values(job, job.tasks[0], metric, job.minutes(FLEET.now_ms)).tolist()
                expected = ["0" if value != value else f"{value / unit:.2f}" for value in numbers]
                assert getattr(found.system_metric_list, name) == expected
                compared += len(expected)
    assert compared > 50


async def test_details_describe_every_version():
    statuses = {JobStatus.RUNNING: {8}, JobStatus.SUCCEEDED: {10}, JobStatus.STOPPED: {12}, JobStatus.PENDING: {1, 7}}
    names = {job_id: FLEET.jobs[index].name for job_id, index in FIRST_VERSIONS.items()}
    async with vendor_client() as call:
        for job in FLEET.jobs[:12]:
            found = await call(lambda connection, job=job: version(connection.modelartsv1, job))
            assert found.version_id == int(IDS[job.id].split("/")[1])
            assert found.job_name == names[IDS[job.id].split("/")[0]]
            assert found.status in statuses.get(job.status, {5, 11})
            assert (found.is_success, found.created_at, found.started_at) == (
                True, job.create_time_ms, job.start_time_ms,
            )  # fmt: skip
            gpus = found.flavor_info["gpu"]
            assert (gpus or {}).get("unit_num", 0) == found.gpu_num
            if job.end_time_ms is not None:
                assert found.duration == job.end_time_ms - job.start_time_ms


async def test_evaluation_is_text_in_the_details():
    job = next(job for job in FLEET.jobs if job.status is JobStatus.SUCCEEDED)
    async with vendor_client() as call:
        found = await call(lambda connection: version(connection.modelartsv1, job))
    assert "total_metric" in json.loads(found.model_metric_list)


async def test_plain_requests_reach_the_other_routes():
    job_id, version_id = IDS[ENDED.id].split("/")
    path = f"/training-jobs/{job_id}/versions/{version_id}"

    def read(connection):
        service = connection.modelartsv1
        pods = service.get(f"{path}/log/file-names").json()["log_file_list"]
        wanted = {"metrics": "GpuUtil", "statistic_type": "each"}
        return (
            pods,
            service.get(f"{path}/pod/{pods[0]}/metric-statistic", params=wanted).json(),
            service.get("/training-jobs/versions", params={"limit": 0}).json(),
            service.get("/training-jobs/versions", json={"limit": 3, "status": "10"}).json(),
        )

    async with vendor_client() as call:
        pods, metrics, versions, finished = await call(read)
    assert tuple(pods) == v1.pod_names(FLEET, ENDED)
    assert [entry["metric"] for entry in metrics["metrics"]] == [f"gpuUtil_{card}" for card in range(ENDED.devices)]
    assert {row["version_id"] for row in versions["versions"]} == set(VERSION_IDS)
    assert [row["status"] for row in finished["versions"]] == [10] * 3


@pytest.mark.parametrize(
    "wrong", [{"password": "x"}, {"username": "x"}, {"user_domain_name": "x"}, {"project_name": "x"}]
)
async def test_wrong_log_in_is_unauthorized(wrong):
    with pytest.raises(exceptions.SDKException, match="HTTP 401"):
        async with vendor_client(**wrong):
            pass


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda service: list(service.training_job_versions(1)), exceptions.BadRequestException),
        (lambda service: list(service.training_jobs(offset=70_000)), exceptions.BadRequestException),
        (lambda service: list(service.training_jobs(sort_by="colour")), exceptions.BadRequestException),
        (lambda service: list(service.training_job_configs()), exceptions.NotFoundException),
        (lambda service: service.delete_training_job(1), exceptions.NotFoundException),
        (
            lambda service: TrainingJobVersion.new(id=1).fetch(service, base_path="/training-jobs/1/versions"),
            exceptions.BadRequestException,
        ),
    ],
)
async def test_refusal_is_the_clients_error(use, error):
    async with vendor_client() as call:
        with pytest.raises(error):
            await call(lambda connection: use(connection.modelartsv1))


async def test_client_renews_a_token_that_is_good_no_longer():
    faults = Faults()
    async with vendor_client(emulator(faults=faults)) as call:
        faults.script("expired-token")
        jobs = await call(lambda connection: list(connection.modelartsv1.training_jobs()))
    assert len(jobs) == 10
    assert faults.injected == {"expired-token": 1}


async def test_client_reads_the_default_fleet_at_the_present():
    app = v1.create_otc_app()
    async with vendor_client(app) as call:
        jobs = await call(lambda connection: list(connection.modelartsv1.training_jobs(limit=100)))
    assert {str(job.job_id) for job in jobs} == {text.split("/")[0] for text in app[EMULATOR].jobs}
