"""The provider otc-modelarts: where it asks, and how it counts jobs without listing them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_modelarts._wire_v1 import STATUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

START = 1_557_473_030_000
KEYS = {"access_key": "AK", "secret_key": "S3CRET-key-never-shown"}
SETTINGS = {"region": "eu-de", "project_id": "p0", **KEYS}


@pytest.fixture(autouse=True)
def _no_account_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OS_", "S3_"))]:
        monkeypatch.delenv(name)


class Versions:
    """The list of all versions, which gives at most ``most`` rows in one answer."""

    def __init__(self, statuses: Sequence[Any], *, most: int = 10**6, total: int | None = None) -> None:
        self.rows = [
            {
                "version_id": number, "version_name": f"train-{number % 3}", "status": status,
                "create_time": START + number, "start_time": START + number, "gpu_num": number % 4, "npu_num": None,
                "version_desc": None,
            }
            for number, status in reversed([*enumerate(statuses)])
        ]  # fmt: skip
        self.most = most
        self.total = total
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: Request) -> Response:
        assert request.url == "https://modelarts.eu-de.otc.t-systems.com/v1/p0/training-jobs/versions"
        assert request.operation == "ListAllTrainingJobVersions"
        asked = dict(request.params)
        self.asked.append(asked)
        statuses = [int(number) for number in asked.get("status", "").split(",") if number]
        rows = [row for row in self.rows if not statuses or row["status"] in statuses]
        total = len(rows) if self.total is None else self.total
        offset, size = int(asked["offset"]), min(int(asked["limit"]) or self.most, self.most)
        page = {"is_success": True, "versions": rows[offset : offset + size], "offset": offset, "total_count": total}
        return Response(200, {}, json.dumps(page).encode())


async def totals(service: Any, settings: dict[str, Any] | None = None, **search: Any) -> list[mb.JobTotals]:
    transport = FakeTransport(service)
    async with mb.open_provider("otc-modelarts", transport=transport, **SETTINGS, **(settings or {})) as provider:
        assert isinstance(provider, mb.SupportsJobTotals)
        return [*await provider.job_totals(mb.JobSearch(**search))]


def total(number: int | None, jobs: int, gpus: int) -> mb.JobTotals:
    status = mb.JobStatus.UNKNOWN if number is None else STATUSES.get(number, mb.JobStatus.UNKNOWN)
    word = "" if number is None else str(number)
    return mb.JobTotals(status=status, vendor_status=word, jobs=jobs, gpus=gpus, npus=0)


async def test_each_of_the_vendor_s_states_is_one_total_though_some_mean_the_same_to_us() -> None:
    service = Versions([11, 3, 8, 99, None, 8, 3])
    assert await totals(service) == [total(3, 2, 1 + 2), total(8, 2, 2 + 1), total(None, 1, 0), total(99, 1, 3),
                                     total(11, 1, 0)]  # fmt: skip
    assert service.asked == [{"sort_by": "create_time", "order": "desc", "offset": "0", "limit": "0"}]


async def test_no_version_is_no_total() -> None:
    assert await totals(Versions([])) == []


@pytest.mark.parametrize("most", [1, 7, 10, 23, 24])
@pytest.mark.parametrize("counted", [None, 10**6])
async def test_where_everything_is_not_given_at_once_the_rest_is_asked_for(most: int, counted: int | None) -> None:
    service = Versions([8] * 23, most=most, total=counted)
    assert await totals(service) == [total(8, 23, sum(number % 4 for number in range(23)))]
    offsets = [int(asked["offset"]) for asked in service.asked]
    assert offsets == [*range(0, 23, most), *([23] if counted else [])]


async def test_rows_that_look_alike_are_counted_as_what_they_are() -> None:
    row = {"version_id": 1, "status": 8, "gpu_num": 1}
    page = {"versions": [row, {**row, "version_id": 2}], "total_count": 2, "is_success": True}
    assert await totals(lambda request: Response(200, {}, json.dumps(page).encode())) == [total(8, 2, 2)]


@pytest.mark.parametrize("status", mb.JobStatus)
async def test_the_numbers_of_a_status_are_asked_for(status: mb.JobStatus) -> None:
    service = Versions([*range(23)])
    found = await totals(service, status=[status])
    assert {entry.status for entry in found} <= {status}
    assert {int(entry.vendor_status) for entry in found} == {
        number for number in range(23) if STATUSES.get(number, mb.JobStatus.UNKNOWN) is status
    }
    numbers = [str(number) for number, known in STATUSES.items() if known is status]
    exact = status is not mb.JobStatus.UNKNOWN
    assert [asked.get("status") for asked in service.asked] == [",".join(numbers) if exact else None] * bool(numbers)


async def test_name_and_time_are_filtered_here_and_the_limit_counts_the_newest() -> None:
    service = Versions([8] * 12)
    assert await totals(service, name="n-1", created=mb.Window(START + 2, START + 10)) == [total(8, 2, 0 + 3)]
    assert await totals(service, limit=2) == [total(8, 2, 11 % 4 + 10 % 4)]


async def test_pool_and_workspace_are_asked_for_where_they_are_set() -> None:
    service = Versions([8])
    await totals(service, {"pool_id": "pool1", "workspace_id": "w1"})
    assert service.asked[0].items() >= {("pool_id", "pool1"), ("workspace_id", "w1")}


async def test_whether_pods_are_served_is_found_out_unless_it_is_set() -> None:
    details = {"job_id": 1, "version_id": 2, "status": 8, "start_time": START}

    def handler(request: Request) -> Response:
        if request.url.endswith("file-names"):
            return Response(200, {}, b'{"log_file_list": "a.0"}')
        found = not request.url.endswith("metric-statistic")
        return Response(200 if found else 404, {}, json.dumps(details).encode() if found else b"")

    for settings, tasks, asked in (({}, 0, 3), ({"pod_metrics": "yes"}, 1, 2)):
        transport = FakeTransport(handler)
        async with mb.open_provider("otc-modelarts", transport=transport, **SETTINGS, **settings) as provider:
            job = await provider.get_job("1/2")
            (call,) = provider.plan(job, mb.Query(window=mb.Window(START, START + 1)))
        assert (len(job.tasks), len(transport.requests)) == (tasks, asked)
        assert call.targets == (("1/2", "a.0" if tasks else ""),)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"region": None}, "region='eu-de'"),
        ({"region": "eu-nl"}, "no endpoint is known for region 'eu-nl'"),
        ({"region": "eu-nl", "endpoint": "http://me:pw@x"}, "endpoint: write a URL"),
    ],
)
async def test_a_service_that_is_not_known_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(mb.ConfigurationError, match=words):
        async with mb.open_provider("otc-modelarts", transport=FakeTransport(Versions([])), **{**SETTINGS, **settings}):
            pass


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "iam.eu-de.otc.t-systems.com"),
        ({"region": "eu-nl"}, "iam.eu-nl.otc.t-systems.com"),
        ({"region": "eu-ch2"}, "iam-pub.eu-ch2.sc.otc.t-systems.com"),
        ({"iam_endpoint": "https://iam.example.test:443/v3/"}, "iam.example.test:443"),
        ({"iam_endpoint": "iam.example.test/v3"}, "iam.example.test"),
        ({"iam_endpoint": "https://iam.example.test/v3/auth/tokens"}, "iam.example.test"),
    ],
)
async def test_the_project_is_looked_up_by_its_name_at_the_iam_of_the_region(
    settings: dict[str, Any], host: str
) -> None:
    def handler(request: Request) -> Response:
        return Response(200, {}, b'{"projects": [{"id": "p7"}]}' if "projects" in request.url else b'{"versions": []}')

    transport = FakeTransport(handler)
    known = {**SETTINGS, "project_id": None, "project_name": "eu-de_team", "endpoint": "https://host", **settings}
    async with mb.open_provider("otc-modelarts", transport=transport, **known) as provider:
        assert isinstance(provider, mb.SupportsJobTotals)
        assert [*await provider.job_totals(mb.JobSearch())] == []
    assert transport.requests[0].url == f"https://{host}/v3/projects"
    assert transport.requests[0].params == (("name", "eu-de_team"),)
    assert transport.requests[1].url == "https://host/v1/p7/training-jobs/versions"


async def test_without_a_region_and_a_project_nothing_can_be_looked_up() -> None:
    with pytest.raises(mb.ConfigurationError, match="set project_id, or project_name or region"):
        async with mb.open_provider("otc-modelarts", endpoint="https://host", **KEYS):
            pass


async def test_a_service_that_does_not_know_how_to_give_everything_is_asked_in_pages() -> None:
    every = Versions([8] * 23, most=10, total=23)

    def handler(request: Request) -> Response:
        return Response(400) if dict(request.params)["limit"] == "0" else every(request)

    assert (await totals(handler))[0].jobs == 23


async def test_a_first_answer_without_rows_is_not_taken_for_none() -> None:
    every = Versions([8] * 5, total=5)

    def handler(request: Request) -> Response:
        if dict(request.params)["limit"] == "0":
            return Response(200, {}, b'{"versions": [], "total_count": 5, "is_success": true}')
        return every(request)

    assert (await totals(handler))[0].jobs == 5


async def test_a_service_that_tells_of_versions_and_gives_none_is_an_error() -> None:
    with pytest.raises(mb.ServiceUnavailableError, match="tells of 5 versions"):
        await totals(lambda request: Response(200, {}, b'{"versions": [], "total_count": 5, "is_success": true}'))


async def test_a_row_that_changes_between_two_pages_is_counted_once() -> None:
    answers = [[{"version_id": n, "status": 8, "create_time": n} for n in (1, 2, 3)]]
    answers.append([{"version_id": 3, "status": 10, "create_time": 3}, {"version_id": 4, "status": "", "npu_num": ""}])
    pages = iter(answers)

    def handler(request: Request) -> Response:
        return Response(200, {}, json.dumps({"versions": next(pages), "total_count": 4, "is_success": True}).encode())

    assert [(entry.vendor_status, entry.jobs) for entry in await totals(handler)] == [("8", 3), ("", 1)]
