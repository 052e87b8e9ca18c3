"""The list of jobs, against a service that pages and filters as it is documented."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_pai._jobs import STATUSES

DAY = 86_400_000
NOW = 1_705_307_400_000
SETTINGS = {"region": "cn-hangzhou", "access_key_id": "AK", "access_key_secret": "S3CRET-key-never-shown"}
SPECS = [{"Type": "Worker", "PodCount": 1, "ResourceConfig": {"GPU": "1"}}]


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Jobs:
    """ListJobs over made-up jobs, one an hour back from now; without a start it lists those of seven days."""

    def __init__(self, count: int) -> None:
        words = list(STATUSES)
        self.items: list[dict[str, Any]] = [
            {
                "JobId": f"dlc{i}", "DisplayName": f"Train-{i % 3}", "Status": words[i % len(words)],
                "GmtCreateTime": iso(NOW - i * 3_600_000), "WorkspaceId": str(i % 2), "RequestGPU": "8",
            }
            for i in range(count)
        ]  # fmt: skip
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: Request) -> Response:
        if request.operation != "ListJobs":
            return Response(403, {}, b'{"Code":"Forbidden.RAM","Message":"no"}', NOW)
        assert request.url == "https://pai-dlc.cn-hangzhou.aliyuncs.com/api/v1/jobs"
        asked = dict(request.params)
        self.asked.append(asked)
        assert (asked["SortBy"], asked["Order"]) == ("GmtCreateTime", "desc")
        start, end = asked.get("StartTime", iso(NOW - 7 * DAY)), asked.get("EndTime", iso(NOW))
        chosen = [
            item for item in self.items
            if start <= item["GmtCreateTime"] <= end
            and asked.get("DisplayName", "").lower() in item["DisplayName"].lower()
            and asked.get("Status", item["Status"]) == item["Status"]
            and asked.get("WorkspaceId", item["WorkspaceId"]) == item["WorkspaceId"]
        ]  # fmt: skip
        size = int(asked["PageSize"])
        begin = (int(asked["PageNumber"]) - 1) * size
        page = {"Jobs": chosen[begin : begin + size], "TotalCount": len(chosen), "RequestId": "R"}
        return Response(200, {}, json.dumps(page).encode(), NOW)


async def listed(jobs: Any, search: dict[str, Any] | None = None, **settings: Any) -> list[mb.Job]:
    transport = FakeTransport(jobs)
    async with mb.open_provider("pai-dlc", transport=transport, **SETTINGS, **settings) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        return [job async for job in provider.list_jobs(mb.JobSearch(**(search or {})))]


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 345])
async def test_all_pages_are_read_once_and_old_jobs_are_not_left_out(count: int) -> None:
    jobs = Jobs(count)
    found = await listed(jobs)
    assert [job.id for job in found] == [f"dlc{i}" for i in range(count)]
    # Behind a full page another one is asked for, whatever the total says.
    assert [asked["PageNumber"] for asked in jobs.asked] == [str(i + 1) for i in range(count // 100 + 1)]
    assert all(asked["StartTime"] == "2020-01-01T00:00:00Z" for asked in jobs.asked)


async def test_how_far_back_is_looked_can_be_set_and_no_page_behind_it_is_read() -> None:
    jobs = Jobs(345)
    found = await listed(jobs, created_within="2d")
    assert [job.id for job in found] == [f"dlc{i}" for i in range(49)]
    assert len(jobs.asked) == 1


async def test_a_search_by_time_is_exact_and_has_precedence() -> None:
    jobs = Jobs(345)
    window = mb.Window(NOW - 300 * 3_600_000, NOW - 200 * 3_600_000)
    found = await listed(jobs, {"created": window}, created_within="2d")
    assert [job.id for job in found] == [f"dlc{i}" for i in range(201, 301)]
    assert (jobs.asked[0]["StartTime"], jobs.asked[0]["EndTime"]) == (iso(window.start_ms), iso(window.end_ms))


async def test_the_end_of_a_search_is_moved_outwards_to_a_whole_second() -> None:
    jobs = Jobs(2)
    found = await listed(jobs, {"created": mb.Window(NOW - 500, NOW + 1)})
    assert [job.id for job in found] == ["dlc0"]
    assert (jobs.asked[0]["StartTime"], jobs.asked[0]["EndTime"]) == (iso(NOW - 1000), iso(NOW + 1000))


async def test_names_are_filtered_by_the_service_and_then_exactly() -> None:
    jobs = Jobs(30)
    assert [job.id for job in await listed(jobs, {"name": "Train-1"})] == [f"dlc{i}" for i in range(1, 30, 3)]
    assert jobs.asked[0]["DisplayName"] == "Train-1"
    assert await listed(jobs, {"name": "train-1"}) == []


@pytest.mark.parametrize("status", list(mb.JobStatus))
async def test_a_status_is_sent_where_it_is_one_word_and_always_filtered(status: mb.JobStatus) -> None:
    jobs = Jobs(150)
    found = await listed(jobs, {"status": [status]})
    words = [word for word, known in STATUSES.items() if known is status]
    assert {job.vendor_status for job in found} == set(words)
    assert {asked.get("Status") for asked in jobs.asked} == {words[0] if len(words) == 1 else None}


async def test_several_statuses_are_never_sent_as_one() -> None:
    jobs = Jobs(150)
    found = await listed(jobs, {"status": ["stopping", "unknown"]})
    assert {job.vendor_status for job in found} == {"Stopping"}
    assert "Status" not in jobs.asked[0]


async def test_the_list_ends_at_the_limit_without_another_page() -> None:
    jobs = Jobs(500)
    assert len(await listed(jobs, {"limit": 120})) == 120
    assert len(jobs.asked) == 2


async def test_one_workspace_can_be_listed() -> None:
    assert [job.id for job in await listed(Jobs(10), workspace_id="1")] == ["dlc1", "dlc3", "dlc5", "dlc7", "dlc9"]


async def test_a_job_that_slides_to_the_next_page_is_given_once() -> None:
    jobs = Jobs(250)

    def handler(request: Request) -> Response:
        response = jobs(request)
        jobs.items.insert(0, {**jobs.items[0], "JobId": f"new{len(jobs.asked)}"})
        return response

    found = [job.id for job in await listed(handler)]
    assert len(found) == len(set(found))
    assert {f"dlc{i}" for i in range(250)} <= set(found)


async def test_a_list_that_does_not_page_is_left_when_it_brings_nothing_new() -> None:
    page = {"Jobs": [{"JobId": f"dlc{i}"} for i in range(100)]}
    transport = FakeTransport(lambda request: Response(200, {}, json.dumps(page).encode(), NOW))
    async with mb.open_provider("pai-dlc", transport=transport, **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobSearch)
        assert len([job async for job in provider.list_jobs(mb.JobSearch())]) == 100
    assert [request.operation for request in transport.requests].count("ListJobs") == 2


@pytest.mark.parametrize("cap", [50, 100, 200])
@pytest.mark.parametrize("total", ["250", 250, "100", 100, 0, "", None])
async def test_a_full_page_is_followed_by_another_and_a_short_one_where_the_total_says_so(cap: int, total: Any) -> None:
    jobs = Jobs(250)

    def handler(request: Request) -> Response:
        if request.operation != "ListJobs":
            return jobs(request)
        number = int(dict(request.params)["PageNumber"])
        page = {"Jobs": jobs.items[(number - 1) * cap : number * cap], "TotalCount": total}
        jobs.asked.append({})
        return Response(200, {}, json.dumps(page).encode(), NOW)

    found = await listed(handler)
    # Without a total a page is the last one only when it brings nothing new; with a wrong one, when it is not full.
    told = total not in ("", None)
    everything = cap >= 100 or not told or total in ("250", 250)
    assert len(found) == (250 if everything else 100 if total in ("100", 100) else 50)
    assert len(jobs.asked) == {50: 5 if everything else len(found) // 50, 100: 3, 200: 2}[cap] + (not told)


@pytest.mark.parametrize("gpus", ["8", 8.0, "8.0"])
async def test_jobs_and_their_accelerators_are_counted_by_status(gpus: Any) -> None:
    jobs = Jobs(2 * len(STATUSES) + 1)
    for item in jobs.items:
        item["RequestGPU"] = gpus
    jobs.items[1]["RequestGPU"] = ""
    async with mb.open_provider("pai-dlc", transport=FakeTransport(jobs), **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobTotals)
        totals = await provider.job_totals(mb.JobSearch())
    words = list(STATUSES)
    assert [(one.vendor_status, one.status, one.jobs, one.gpus, one.npus) for one in totals] == [
        (word, STATUSES[word], 3 if i == 0 else 2, {0: 24, 1: 8}.get(i, 16), 0) for i, word in enumerate(words)
    ]


@pytest.mark.parametrize("missing", [None, "", "none"])
async def test_accelerators_that_a_job_did_not_sum_up_are_counted_by_its_specs(missing: Any) -> None:
    halves = [{"JobId": f"dlc{i}", "Status": "Running", "RequestGPU": "0.5"} for i in range(3)]
    specs = [
        {"Type": "Master", "PodCount": 1, "ResourceConfig": {"GPU": "0.5"}},
        {"Type": "Worker", "PodCount": 3, "ResourceConfig": {"GPU": "8"}},
        {"Type": "PS", "PodCount": 2, "ResourceConfig": {"GPU": ""}},
        {"Type": "Evaluator", "EcsSpec": "ecs.a"},
    ]
    summed = {"JobId": "dlcx", "Status": "Running", "RequestGPU": missing, "JobSpecs": specs}
    body = json.dumps({"Jobs": [*halves, summed], "TotalCount": 4}).encode()
    transport = FakeTransport(lambda request: Response(200, {}, body, NOW))
    async with mb.open_provider("pai-dlc", transport=transport, **SETTINGS) as provider:
        assert isinstance(provider, mb.SupportsJobTotals)
        (found,) = await provider.job_totals(mb.JobSearch())
    assert (found.jobs, found.gpus) == (4, 26)  # 3 × 0.5 + 0.5 + 3 × 8


FULL = {
    "JobId": "dlcx", "Status": "Running", "GmtRunningTime": "2024-01-15T00:00:00Z", "ResourceType": "ECS",
    "ResourceId": "", "JobSpecs": SPECS, "Pods": [{"PodId": "dlcx-worker-0", "Type": "Worker"}], "RequestGPU": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("item", "partial"),
    [
        (FULL, False),
        ({**FULL, "Pods": None}, True),
        ({**FULL, "Pods": []}, True),
        ({**FULL, "ResourceType": None}, True),
        ({**FULL, "ResourceType": None, "ResourceId": "quota"}, False),
        ({**FULL, "JobSpecs": None}, True),
        ({"JobId": "dlcx", "Status": "Queuing"}, False),
    ],
)
async def test_a_listed_job_is_partial_unless_it_has_all_that_planning_needs(
    item: dict[str, Any], partial: bool
) -> None:
    (job,) = await listed(lambda request: Response(200, {}, json.dumps({"Jobs": [item]}).encode(), NOW))
    assert job.partial is partial
