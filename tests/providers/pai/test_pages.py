"""Pages of CloudMonitor, of data and of metrics: when there are no more, and what a lost one takes along."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB = "dlc1abcdefghijklmnop"
START = 1_705_276_800_000  # 2024-01-15T00:00:00Z
MINUTE = 60_000
HOUR = 60 * MINUTE
NOW = START + 5 * HOUR
SETTINGS = {"region": "cn-hangzhou", "access_key_id": "AK", "access_key_secret": "S3CRET-key-never-shown"}
DUTY = "hw.gpu.utilization"
CPU = "container.cpu.utilization"
PODS = [{"PodId": f"{JOB}-worker-{number}"} for number in range(2)]
NO_PERMISSION = Response(403, {}, b'{"Code":"NoPermission","Message":"no"}', NOW)


def meta(name: str, dimensions: str = "userId,jobId,pod") -> dict[str, Any]:
    return {"MetricName": name, "Unit": "%", "Periods": "60", "Dimensions": dimensions}


def row(minute: int = 0, value: float = 5.0, pod: int = 0, **more: Any) -> dict[str, Any]:
    time = START + minute * MINUTE
    return {"timestamp": time, "userId": "1", "jobId": JOB, "pod": f"{JOB}-worker-{pod}", "Value": value, **more}


class Cloud:
    """A service with one job and those pages: of data (rows, or an answer), and of metrics (names, or an answer)."""

    def __init__(
        self, *data: Sequence[dict[str, Any]] | Response, metas: Any = NO_PERMISSION, total: Any = None, **job: Any
    ) -> None:
        self.data = data
        self.metas = metas
        self.total = total
        self.job = {
            "JobId": JOB, "Status": "Running", "GmtRunningTime": "2024-01-15T00:00:00Z", "ResourceType": "Lingjun",
            "Pods": PODS[:1], **job,
        }  # fmt: skip
        self.asked: list[dict[str, str]] = []
        self.meta_asked: list[dict[str, str]] = []

    def __call__(self, request: Request) -> Response:
        asked = dict(request.params)
        if request.operation == "GetJob":
            return answer(self.job)
        if request.operation == "DescribeMetricMetaList":
            self.meta_asked.append(asked)
            return self.meta_page(int(asked["PageNumber"]))
        self.asked.append(asked)
        return self.page(int(asked.get("NextToken", "0")))

    def page(self, number: int) -> Response:
        found = self.data[number] if number < len(self.data) else []
        if isinstance(found, Response):
            return found
        token = str(number + 1) if number + 1 < len(self.data) else ""
        return answer({"Code": "200", "Success": True, "DataPoints": json.dumps(found), "NextToken": token})

    def meta_page(self, number: int) -> Response:
        if isinstance(self.metas, Response):
            return self.metas
        found = self.metas[number - 1] if number <= len(self.metas) else []
        return answer({"Code": "200", "TotalCount": self.total, "Resources": {"Resource": found}})


def answer(document: Any) -> Response:
    return Response(200, {}, json.dumps(document).encode(), NOW)


async def collect(cloud: Any, *, settings: dict[str, Any] | None = None, **query: Any) -> mb.Collection:
    """Collect the job's GPUs in its first hour, or what the query asks for."""
    transport = FakeTransport(cloud)
    provider = mb.open_provider("pai-dlc", transport=transport, **SETTINGS, **(settings or {}))
    asks = {"metrics": [DUTY], "window": mb.Window(START, START + HOUR), **query}
    async with mb.Collector({"a": provider}, clock=transport.clock) as collector:
        return await collector.collect([f"a/{JOB}"], **asks)


async def test_a_lost_page_takes_the_mean_over_cards_along_and_leaves_the_cards_by_themselves() -> None:
    cloud = Cloud([row(gpu="0", value=10.0)], NO_PERMISSION)
    result = await collect(cloud)
    assert len(result.series) == 0
    (failure,) = result.failures
    assert type(failure.error) is mb.PermissionDeniedError
    assert not result.absences
    result = await collect(Cloud([row(gpu="0", value=10.0)], NO_PERMISSION), per="device")
    assert [(key.device, values.tolist()) for key, _, values in result.series] == [("0", [0.1])]
    (failure,) = result.failures
    assert isinstance(failure.error, mb.PermissionDeniedError)


@pytest.mark.parametrize("follows", [[], None])
async def test_an_announced_page_without_points_leaves_no_mean_of_some_cards(follows: Any) -> None:
    cards = [row(minute, gpu=str(card), value=10.0 * (card + 1)) for minute in range(2) for card in range(2)]
    cloud = Cloud(cards[:-1], follows) if follows is not None else Cloud(cards[:-1])
    result = await collect(cloud)
    ((_, _, values),) = result.series
    mean_of_all, mean_of_some = (0.1 + 0.2) / 2, 0.1
    assert values.tolist() == ([mean_of_all] if follows is not None else [mean_of_all, mean_of_some])
    assert len((await collect(cloud, per="device")).series.times) == 3


@pytest.mark.parametrize("per", ["task", "device"])
async def test_a_card_that_is_numbered_by_a_dimension_of_its_own_is_told_apart(per: Any) -> None:
    cards = [row(gpuIdx=card, value=10.0 * (card + 1)) for card in range(2)]
    metas = [[meta("CARD_GPU_DUTY_CYCLE", "userId, jobId,pod,gpuIdx")]]
    result = await collect(Cloud(cards, metas=metas), per=per)
    found = {key.device: values.tolist() for key, _, values in result.series}
    assert found == ({"": [(0.1 + 0.2) / 2]} if per == "task" else {"0": [0.1], "1": [0.2]})


@pytest.mark.parametrize("per", ["task", "device"])
@pytest.mark.parametrize("split", [False, True])
async def test_cards_that_nothing_tells_apart_are_an_error_and_never_the_last_one(per: Any, split: bool) -> None:
    cards = [row(gpuIdx=card, value=10.0 * (card + 1)) for card in range(2)]
    result = await collect(Cloud(*([[card] for card in cards] if split else [cards])), per=per)
    assert len(result.series) == 0
    (failure,) = result.failures
    assert type(failure.error) is mb.DecodeError
    assert "do not name their card" in str(failure.error)


async def test_a_card_without_a_name_is_one_where_its_pod_has_no_other() -> None:
    result = await collect(Cloud([row(), row(1)], [row(pod=1)], Pods=PODS), per="device")
    assert result.complete
    assert [(key.task, key.device, len(times)) for key, times, _ in result.series] == [
        (f"{JOB}-worker-0", "", 2), (f"{JOB}-worker-1", "", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("empty", "complete"), [(99, True), (100, False)])
async def test_a_hundred_pages_in_a_row_without_points_are_enough(empty: int, complete: bool) -> None:
    cloud = Cloud([row(gpu="0")], *[[] for _ in range(empty)], [row(1, gpu="0")])
    result = await collect(cloud, per="device")
    assert result.complete is complete
    assert len(cloud.asked) == min(empty + 2, 101)
    assert len(result.series.times) == 1 + complete
    assert [("NextToken" in str(failure.error)) for failure in result.failures] == [True] * (not complete)


async def test_a_page_with_points_begins_the_count_of_empty_ones_anew() -> None:
    empty: list[list[dict[str, Any]]] = [[] for _ in range(99)]
    cloud = Cloud(*empty, [row(gpu="0")], *empty, [row(1, gpu="0")])
    result = await collect(cloud, per="device")
    assert result.complete
    assert len(result.series.times) == 2


async def test_pages_of_points_that_others_own_are_not_empty() -> None:
    cloud = Cloud(*[[row(minute, pod=7, gpu="0")] for minute in range(120)], [row(1, gpu="0")])
    result = await collect(cloud, per="device")
    assert result.complete
    assert len(result.series.times) == 1


NAMES = [f"JOB_M{i}" for i in range(120)] + ["POD_CPU_UTIL"]


def paged(size: int, names: Sequence[str] = NAMES) -> list[list[dict[str, Any]]]:
    return [[meta(name) for name in names[begin : begin + size]] for begin in range(0, len(names), size)]


@pytest.mark.parametrize(
    ("metas", "total", "pages"),
    [
        (paged(30), "121", 5), (paged(100), "121", 2), (paged(100), "100", 2), (paged(100), "0", 2),
        (paged(100), "", 3), (paged(100), None, 3), (paged(100, NAMES[-100:]), "100", 2), (paged(200), "121", 2),
    ],
)  # fmt: skip
async def test_the_list_of_metrics_is_read_to_its_end_whatever_the_size_of_its_pages(
    metas: Any, total: Any, pages: int
) -> None:
    cloud = Cloud([row(value=50.0)], metas=metas, total=total)
    result = await collect(cloud, metrics=[CPU], settings={"cloudmonitor_metrics": {"POD_CPU_UTIL": CPU}})
    assert [key.metric for key in result.series.keys] == [CPU]
    assert [asked["PageNumber"] for asked in cloud.meta_asked] == [str(i + 1) for i in range(pages)]


async def test_a_list_of_metrics_that_does_not_page_is_asked_for_once_more_and_no_oftener() -> None:
    cloud = Cloud([row(value=50.0)], metas=[[meta(f"JOB_M{i}") for i in range(100)]] * 9, total="1000")
    await collect(cloud)
    assert len(cloud.meta_asked) == 2


async def test_a_metric_of_the_table_that_a_list_of_metrics_lacks_is_unsupported() -> None:
    cloud = Cloud([row(gpu="0")], metas=[[meta("POD_CPU_UTIL")]], total="1")
    result = await collect(cloud)
    assert [(absence.metrics, absence.reason) for absence in result.absences] == [((DUTY,), "unsupported")]
    assert cloud.asked == []
    empty = Cloud([row(gpu="0")], metas=[], total="0")
    assert len((await collect(empty)).series) == 1


async def test_units_are_asked_for_once_however_many_calls_need_them() -> None:
    cloud = Cloud([row(value=50.0)])
    transport = FakeTransport(cloud)
    settings = {**SETTINGS, "cloudmonitor_metrics": {"POD_CPU_UTIL": CPU}}
    async with mb.open_provider("pai-dlc", transport=transport, **settings) as provider:
        window = mb.Window(START - 200 * 24 * HOUR, START + 200 * 24 * HOUR)
        job = mb.Job(id=JOB, tasks=(mb.Task(id=f"{JOB}-worker-0"),), payload=(await provider.get_job(JOB)).payload)
        calls = provider.plan(job, mb.Query(window=window, metrics=(CPU,)))
        before = len(cloud.meta_asked)
        cloud.metas = [[meta("POD_CPU_UTIL")]]
        batches = [await provider.fetch(call) for call in calls]
    assert len(batches) > 5
    assert {batch.unit for batch in batches} == {("1",)}
    assert len(cloud.meta_asked) == before + 2  # one page, and without a total the one that brings nothing new
