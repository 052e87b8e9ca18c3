"""The provider modelarts-v1 lists the versions of all jobs, whatever the service's lists are like."""

from __future__ import annotations

import json
from typing import Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport

START = 1_705_300_000_123
SETTINGS = {"region": "cn-north-4", "project_id": "p0", "access_key": "AK", "secret_key": "S3CRET-key-never-shown"}


class Jobs:
    """Jobs with versions, in pages of at most ``most``; a job stands in the list as its newest version."""

    def __init__(self, versions: dict[int, list[tuple[int, int]]], *, most: int = 1000, counted: bool = True) -> None:
        self.versions = versions  # job id to (create time, status), the oldest first
        self.most = most
        self.counted = counted
        self.asked: list[tuple[str, int]] = []
        self.deleted: set[int] = set()

    def __call__(self, request: Request) -> Response:
        asked = dict(request.params)
        _, _, path = request.url.partition("/training-jobs")
        page, size = int(asked["page"]) - 1, min(int(asked["per_page"]), self.most)
        self.asked.append((path, page + 1))
        if not path:
            assert (asked["sortBy"], asked["order"]) == ("create_time", "desc")
            rows = sorted([self.row(job) for job in self.versions], key=lambda row: -row["create_time"])
            count, name = "job_total_count", "jobs"
        else:
            job = int(path.split("/")[1])
            if job in self.deleted:
                return Response(404)
            rows = [self.version(job, number) for number in range(len(self.versions[job]))]
            count, name = "version_count", "versions"
        document: dict[str, Any] = {"is_success": True, name: rows[page * size :][:size], "job_name": f"train-{path}"}
        if self.counted:
            document[count] = len(rows)
        return Response(200, {}, json.dumps(document).encode())

    def row(self, job: int) -> dict[str, Any]:
        created, status = self.versions[job][-1]
        count = len(self.versions[job])
        named = {"job_id": job, "job_name": f"train-{job}", "version_count": count}
        return {**named, "create_time": created, "status": status}

    def version(self, job: int, number: int) -> dict[str, Any]:
        created, status = self.versions[job][number]
        return {
            "version_id": job * 100 + number, "job_name": f"train-{job}", "status": status, "create_time": created,
            "start_time": created + 1, "duration": 60_000, "gpu_num": 2, "system_metric_list": '{"cpuUsage":["0"]}',
        }  # fmt: skip


async def listed(service: Any, settings: dict[str, Any] | None = None, **search: Any) -> list[mb.Job]:
    transport = FakeTransport(service)
    async with mb.open_provider("modelarts-v1", transport=transport, **SETTINGS, **(settings or {})) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        return [job async for job in provider.list_jobs(mb.JobSearch(**search))]


def some(jobs: int, versions: int = 1) -> dict[int, list[tuple[int, int]]]:
    return {job: [(START + job * 10 + number, 8 + job % 3) for number in range(versions)] for job in range(1, jobs + 1)}


async def test_a_version_of_the_list_is_part_of_a_job() -> None:
    (job,) = await listed(Jobs({7: [(START, 10)]}))
    assert job == mb.Job(
        id="7/700", name="train-7", status=mb.JobStatus.SUCCEEDED, vendor_status="10", create_time_ms=START,
        start_time_ms=START + 1, end_time_ms=START + 60_001, accelerators=mb.Accelerators(kind="gpu", count=2),
        partial=True,
    )  # fmt: skip


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 23])
async def test_all_pages_are_read_and_each_version_is_given_once_the_newest_first(count: int, counted: bool) -> None:
    service = Jobs(some(count, versions=3), most=10, counted=counted)
    found = await listed(service)
    assert [job.id for job in found] == [f"{j}/{j * 100 + v}" for j in range(count, 0, -1) for v in (2, 1, 0)]
    pages = [page for path, page in service.asked if not path]
    assert pages == [*range(1, max(1, -(-count // 10)) + (1 if count and not counted else 0) + 1)]


@pytest.mark.parametrize("count", [9, 10, 11, 25])
async def test_all_pages_of_a_job_s_versions_are_read(count: int) -> None:
    service = Jobs(some(1, versions=count), most=10)
    assert [job.id for job in await listed(service)] == [f"1/{100 + number}" for number in range(count - 1, -1, -1)]
    assert [page for path, page in service.asked if path] == [*range(1, -(-count // 10) + 1)]


async def test_versions_of_several_jobs_are_given_by_their_age() -> None:
    service = Jobs({1: [(START, 10), (START + 50, 10)], 2: [(START + 20, 10), (START + 40, 10)], 3: [(START + 30, 8)]})
    found = await listed(service)
    assert [job.create_time_ms for job in found] == [START + t for t in (50, 40, 30, 20, 0)]
    assert len(service.asked) == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
async def test_the_list_ends_at_the_limit(limit: int) -> None:
    service = Jobs(some(100), most=10)
    found = await listed(service, limit=limit)
    assert [job.id for job in found] == [f"{j}/{j * 100}" for j in range(100, 100 - limit, -1)]
    assert len([path for path, _ in service.asked if path]) <= limit
    assert [page for path, page in service.asked if not path] == [1]


async def test_a_limit_beyond_what_there_is_gives_all() -> None:
    assert len(await listed(Jobs(some(3, 2)), limit=100)) == 6
    assert len(await listed(Jobs(some(3, 2)), limit=5)) == 5


async def test_every_version_is_filtered_by_its_own_status_time_and_name() -> None:
    versions = {1: [(START, 11), (START + 50, 10)], 2: [(START + 20, 11)], 3: [(START + 30, 12)], 4: [(START + 40, 5)]}
    found = await listed(Jobs(versions), status=["failed"])
    assert [job.id for job in found] == ["4/400", "2/200", "1/100"]
    found = await listed(Jobs(versions), created=mb.Window(START + 20, START + 40))
    assert [job.id for job in found] == ["3/300", "2/200"]
    assert [job.id for job in await listed(Jobs(versions), name="n-1")] == ["1/101", "1/100"]


async def test_what_the_list_shows_as_a_name_finds_that_version() -> None:
    def handler(request: Request) -> Response:
        if request.url.endswith("/versions"):
            versions = [{"version_id": n, "version_name": f"V000{n}", "status": 10} for n in (1, 2)]
            return Response(200, {}, json.dumps({"versions": versions, "version_count": 2}).encode())
        jobs = [{"job_id": 7, "job_name": "train", "version_count": 2}] * 2  # the same row twice is one job
        return Response(200, {}, json.dumps({"jobs": jobs, "job_total_count": 1}).encode())

    for name, ids in (("train V0002", ["7/2"]), ("V0001", ["7/1"]), ("train", ["7/2", "7/1"]), ("V3", [])):
        assert sorted([job.id for job in await listed(handler, name=name)]) == sorted(ids)


async def test_a_job_whose_only_version_is_in_another_state_is_not_looked_into() -> None:
    service = Jobs({1: [(START, 11)], 2: [(START + 1, 10)]})
    assert [job.id for job in await listed(service, status=["failed"])] == ["1/100"]
    assert [path for path, _ in service.asked] == ["", "/1/versions"]


async def test_a_job_that_is_deleted_meanwhile_is_left_out() -> None:
    service = Jobs(some(3))
    service.deleted = {2}
    assert [job.id for job in await listed(service)] == ["3/300", "1/100"]


async def test_a_job_that_slides_to_the_next_page_is_given_once() -> None:
    service = Jobs(some(25), most=10)

    def handler(request: Request) -> Response:
        response = service(request)
        if "versions" not in request.url:
            service.versions[1000 + len(service.asked)] = [(START + 10**6 + len(service.asked), 8)]
        return response

    found = [job.id for job in await listed(handler)]
    assert len(found) == len(set(found))
    assert {f"{job}/{job * 100}" for job in range(1, 26)} <= set(found)


@pytest.mark.parametrize("counts", [{}, {"job_total_count": 10**6, "version_count": 10**6}])
async def test_lists_that_never_end_are_left_when_they_bring_nothing_new(counts: dict[str, int]) -> None:
    service = Jobs(some(3))

    def handler(request: Request) -> Response:
        whole = Request(request.method, request.url, tuple({**dict(request.params), "page": "1"}.items()))
        document = json.loads(service(whole).body)
        for name in ("job_total_count", "version_count"):
            document.pop(name, None)
        return Response(200, {}, json.dumps({**document, **counts}).encode())

    assert len(await listed(handler)) == 3
    assert len(service.asked) == 2 + 3 * 2


async def test_a_workspace_is_asked_for_where_one_is_set() -> None:
    transport = FakeTransport(Jobs(some(1)))
    async with mb.open_provider("modelarts-v1", transport=transport, workspace_id="w1", **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        assert [job.id async for job in provider.list_jobs(mb.JobSearch())] == ["1/100"]
    assert ("workspace_id", "w1") in transport.requests[0].params


async def test_a_list_can_be_left_early() -> None:
    async with mb.open_provider("modelarts-v1", transport=FakeTransport(Jobs(some(30))), **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        jobs = provider.list_jobs(mb.JobSearch())
        assert (await anext(jobs)).id == "30/3000"
        await jobs.aclose()  # type: ignore[attr-defined]  # it is a generator
