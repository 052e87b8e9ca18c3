"""The route through CloudMonitor, against a transport that answers from the request."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
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
DAY = 24 * HOUR
NOW = START + 5 * HOUR
SETTINGS = {"region": "cn-hangzhou", "access_key_id": "AK", "access_key_secret": "S3CRET-key-never-shown"}
DUTY = "hw.gpu.utilization"
CPU = "container.cpu.utilization"
CARD = "userId,jobId,pod,gpu"
METAS = [
    {
        "MetricName": "CARD_GPU_DUTY_CYCLE", "Unit": "%", "Periods": "15,60,900,3600", "Dimensions": CARD,
        "Statistics": "Average,Minimum,Maximum",
    },
    {"MetricName": "JOB_GPU_ACCELERATOR_DUTTY_UTIL", "Unit": "%", "Dimensions": "userId,jobId"},
    {"MetricName": "CARD_GPU_PCIE_RECEIVE", "Unit": "MiB/s", "Dimensions": CARD, "Statistics": "Maximum"},
    {"MetricName": "POD_CPU_UTIL", "Unit": "%", "Periods": "60,300", "Dimensions": "userId,jobId,pod"},
    {"MetricName": "POD_READ", "Unit": "KiB/s", "Dimensions": "userId,jobId,pod"},
    {"MetricName": "POD_ODD", "Unit": "furlongs", "Dimensions": "userId,jobId,pod"},
    {"MetricName": "QUOTA_FREE", "Unit": "B", "Dimensions": "userId,quotaId"},
]  # fmt: skip


def job(count: int = 1, **more: Any) -> dict[str, Any]:
    pods = [{"PodId": f"{JOB}-worker-{i}", "Type": "worker"} for i in range(count)]
    known = {
        "JobId": JOB, "Status": "Running", "GmtRunningTime": "2024-01-15T00:00:00Z", "ResourceType": "Lingjun",
        "ResourceId": "quota1", "JobSpecs": [], "Pods": pods,
    }  # fmt: skip
    return {**known, **more}


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


class Cloud:
    """GetJob, the list of metrics, and data: a point a period of each pod and card that is asked for, valued by it."""

    def __init__(self, described: Any = None, metas: Any = None, *, cards: int = 2, page: int = 10**9) -> None:
        self.job = job() if described is None else described
        self.metas: Any = METAS if metas is None else metas
        self.cards = cards
        self.page = page
        self.asked: list[dict[str, str]] = []
        self.meta_pages = 0

    def __call__(self, request: Request) -> Response:
        asked = dict(request.params)
        if request.operation == "GetJob":
            return self.answer(self.job)
        if request.operation == "DescribeMetricMetaList":
            assert (request.method, request.url) == ("POST", "https://metrics.cn-hangzhou.aliyuncs.com/")
            assert asked["Namespace"] == "acs_pai_dlc"
            self.meta_pages += 1
            if isinstance(self.metas, Response):
                return self.metas
            begin = (int(asked["PageNumber"]) - 1) * int(asked["PageSize"])
            found = self.metas[begin : begin + int(asked["PageSize"])]
            return self.answer(
                {"Code": "200", "Success": True, "TotalCount": str(len(self.metas)), "Resources": {"Resource": found}}
            )
        self.asked.append(asked)
        return self.data(request.operation, asked)

    def answer(self, document: Any) -> Response:
        return Response(200, {}, json.dumps(document).encode(), NOW)

    def data(self, operation: str, asked: dict[str, str]) -> Response:
        rows = self.rows(asked)
        begin = int(asked.get("NextToken", "0"))
        token = str(begin + self.page) if begin + self.page < len(rows) else ""
        member = "DataPoints" if operation == "GetMetrics" else "Datapoints"
        points = json.dumps(rows[begin : begin + self.page])
        return self.answer({"Code": "200", "Success": True, "NextToken": token, member: points})

    def rows(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        step = int(asked["Period"]) * 1000
        start, end = instant(asked["StartTime"]), instant(asked["EndTime"])
        found = []
        for time in range(start // step * step, end + 1, step):
            for names in json.loads(asked["Dimensions"]) if start < time else ():
                for card in range(self.cards if asked["MetricName"].startswith("CARD") else 1):
                    more = {"gpu": str(card)} if asked["MetricName"].startswith("CARD") else {}
                    found.append({"timestamp": time, "userId": "1", **names, **more, "Value": 10.0 * (card + 1)})
        return found


async def read(cloud: Any, *, query: dict[str, Any] | None = None, **settings: Any) -> tuple[Any, Sequence[mb.Call]]:
    """Give (batches, calls) of a query, by default of the GPUs in the job's first hour."""
    asks = {"window": mb.Window(START, START + HOUR), "metrics": (DUTY,), **(query or {})}
    async with mb.open_provider("pai-dlc", transport=FakeTransport(cloud), **{**SETTINGS, **settings}) as provider:
        calls = provider.plan(await provider.get_job(JOB), mb.Query(**asks))
        assert [pickle.loads(pickle.dumps(call)) for call in calls] == [*calls]
        return [await provider.fetch(call) for call in calls], calls


async def test_get_metrics_is_asked_for_one_metric_of_all_pods() -> None:
    cloud = Cloud(job(2))
    (batch,), (call,) = await read(cloud, query={"per": "device"}, share_token="eyToken")
    assert cloud.asked == [
        {
            "Namespace": "acs_pai_dlc", "MetricName": "CARD_GPU_DUTY_CYCLE", "JobId": JOB, "Period": "60",
            "Dimensions": f'[{{"jobId":"{JOB}","pod":"{JOB}-worker-0"}},{{"jobId":"{JOB}","pod":"{JOB}-worker-1"}}]',
            "StartTime": "2024-01-14T23:59:59Z", "EndTime": "2024-01-15T01:00:00Z", "Length": "1440",
            "Token": "eyToken",
        }
    ]  # fmt: skip
    assert call.operation == "GetMetrics"
    assert (call.step_ms, call.retention_ms) == (MINUTE, 31 * DAY)
    assert [(key.task, key.device) for key in batch.keys] == [
        (f"{JOB}-worker-{pod}", card) for pod in (0, 1) for card in ("0", "1")
    ]
    times, values = batch.clip(call.window).samples(1)
    assert times.tolist() == [*range(START, START + HOUR, MINUTE)]
    assert set(values.tolist()) == {0.2}
    assert batch.unit[0] == "1"
    assert batch.timing[0] is mb.Timing.REPORTED


async def test_describe_metric_list_is_asked_the_same_of_cloudmonitor_itself() -> None:
    first, second = Cloud(), Cloud()
    (one,), _ = await read(first, query={"per": "device"})
    (other,), (call,) = await read(second, query={"per": "device"}, metrics_api="DescribeMetricList")
    assert call.operation == "DescribeMetricList"
    assert second.asked == [{name: text for name, text in first.asked[0].items() if name != "JobId"}]
    assert one.keys == other.keys
    assert np.array_equal(one.values, other.values)


async def test_a_jobs_own_metric_names_no_pod() -> None:
    cloud = Cloud(job(3))
    (batch,), (call,) = await read(cloud, query={"per": "job"})
    assert cloud.asked[0]["MetricName"] == "JOB_GPU_ACCELERATOR_DUTTY_UTIL"
    assert json.loads(cloud.asked[0]["Dimensions"]) == [{"jobId": JOB}]
    assert batch.keys == (mb.SeriesKey(JOB, "", "", DUTY),)
    assert call.targets == ((JOB, ""),)


async def test_a_task_has_the_mean_of_its_cards_where_pods_have_no_metric_of_their_own() -> None:
    class Gap(Cloud):
        def rows(self, asked: dict[str, str]) -> list[dict[str, Any]]:
            rows = super().rows(asked)
            return [row for row in rows if (row["timestamp"], row["gpu"]) not in {(START, "1"), (START + MINUTE, "0")}]

    (batch,), (call,) = await read(Gap())
    assert batch.keys == (mb.SeriesKey(JOB, f"{JOB}-worker-0", "", DUTY),)
    times, values = batch.clip(call.window).samples(0)
    assert times.tolist() == [*range(START, START + HOUR, MINUTE)]
    assert values.tolist() == [0.1, 0.2, *[(0.1 + 0.2) / 2] * 58]


async def test_a_mapped_metric_of_pods_has_precedence_over_the_mean_of_cards() -> None:
    cloud = Cloud()
    (batch,), _ = await read(cloud, cloudmonitor_metrics={"POD_CPU_UTIL": DUTY})
    assert cloud.asked[0]["MetricName"] == "POD_CPU_UTIL"
    assert set(batch.values.tolist()) == {0.1}


async def test_what_is_mapped_is_converted_from_the_unit_that_cloudmonitor_tells() -> None:
    mapped = {"POD_CPU_UTIL": CPU, "POD_READ": "container.disk.read.rate"}
    batches, calls = await read(Cloud(), query={"metrics": None, "step_ms": 300_000}, cloudmonitor_metrics=mapped)
    assert [(b.keys[0].metric, b.unit[0], b.values[0], b.interval_ms[0]) for b in batches] == [
        (CPU, "1", 0.1, 300_000), ("container.disk.read.rate", "By/s", 10240.0, MINUTE),
        (DUTY, "1", (0.1 + 0.2) / 2, MINUTE),
    ]  # fmt: skip
    assert calls[0].retention_ms == 91 * DAY


@pytest.mark.parametrize(
    ("mapped", "says"),
    [
        ({"POD_ODD": CPU}, "POD_ODD is in 'furlongs', which can't be made '1'"),
        ({"POD_READ": CPU}, "'KiB/s'"),
        ({"POD_CPU_UITL": CPU}, "did you mean POD_CPU_UTIL"),
        ({"QUOTA_FREE": "container.memory.working_set"}, "neither of a job"),
    ],
)
async def test_what_cannot_be_mapped_is_refused_and_never_guessed(mapped: dict[str, str], says: str) -> None:
    with pytest.raises(mb.ConfigurationError) as caught:
        await read(Cloud(), cloudmonitor_metrics=mapped)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "refusal",
    [
        Response(403, {}, b'{"Code":"NoPermission","Message":"no"}'),
        Response(404, {}, b'{"Code":"InvalidAction.NotFound","Message":"no"}'),
        Response(400, {}, b'{"Code":"InvalidParameter","Message":"no"}'),
        Response(200, {}, b'{"Code":"403","Success":false}'),
        Response(503, {}, b""),
        Response(200, {}, b"<html>"),
    ],
)
async def test_where_the_list_of_metrics_is_refused_the_known_names_remain(refusal: Response) -> None:
    (batch,), _ = await read(Cloud(metas=refusal), query={"per": "device"})
    assert batch.keys[0].metric == DUTY
    (batch,), _ = await read(
        Cloud(metas=refusal), query={"metrics": ("vendor.pai-dlc.CARD_GPU_SM_UTIL",), "per": "device"}
    )
    assert (batch.values[0], batch.unit[0]) == (10.0, "")


async def test_a_unit_that_could_not_be_asked_for_at_first_is_asked_for_with_the_data() -> None:
    cloud = Cloud(metas=Response(403, {}, b'{"Code":"NoPermission","Message":"no"}'))
    mapped = {"POD_CPU_UTIL": CPU}
    async with mb.open_provider(
        "pai-dlc", transport=FakeTransport(cloud), cloudmonitor_metrics=mapped, **SETTINGS
    ) as provider:
        query = mb.Query(window=mb.Window(START, START + HOUR), metrics=(CPU,))
        (call,) = provider.plan(await provider.get_job(JOB), query)
        with pytest.raises(mb.PermissionDeniedError):
            await provider.fetch(call)
        assert cloud.asked == []
        cloud.metas = [meta for meta in METAS if meta["MetricName"] != "POD_CPU_UTIL"]
        with pytest.raises(mb.ConfigurationError, match="CloudMonitor has no metric POD_CPU_UTIL"):
            await provider.fetch(call)
        cloud.metas = METAS
        assert (await provider.fetch(call)).values[0] == 0.1
        asked = cloud.meta_pages
        (again,) = provider.plan(await provider.get_job(JOB), query)
        await provider.fetch(again)
        await provider.fetch(call)
        assert cloud.meta_pages == asked


async def test_a_name_that_does_not_say_what_it_is_of_cannot_be_used_while_cloudmonitor_does_not_either() -> None:
    cloud = Cloud(metas=Response(403, {}, b'{"Code":"NoPermission","Message":"no"}'))
    with pytest.raises(mb.ConfigurationError, match="allow DescribeMetricMetaList"):
        await read(cloud, cloudmonitor_metrics={"CPU_OF_SOMETHING": CPU})


async def test_all_pages_of_the_list_of_metrics_are_read() -> None:
    many = [{"MetricName": f"CARD_{i}", "Unit": "u", "Dimensions": CARD} for i in range(250)]
    cloud = Cloud(metas=many)
    (batch,), _ = await read(cloud, query={"metrics": ("vendor.pai-dlc.CARD_249",), "per": "device"})
    assert cloud.meta_pages == 3
    assert batch.unit[0] == "u"


@pytest.mark.parametrize(
    ("name", "per", "served"),
    [
        ("CARD_GPU_PCIE_RECEIVE", "device", True), ("CARD_GPU_PCIE_RECEIVE", "task", True),
        ("CARD_GPU_PCIE_RECEIVE", "job", False), ("JOB_GPU_ACCELERATOR_DUTTY_UTIL", "job", True),
        ("JOB_GPU_ACCELERATOR_DUTTY_UTIL", "task", False), ("POD_ODD", "task", True), ("POD_ODD", "device", False),
        ("QUOTA_FREE", "job", False), ("NO_SUCH", "task", False), ("CARD_GPU_DUTY_CYCLE", "device", True),
    ],
)  # fmt: skip
async def test_a_vendors_metric_passes_in_its_own_unit_on_its_own_level(name: str, per: Any, served: bool) -> None:
    metric = f"vendor.pai-dlc.{name}"
    batches, _ = await read(Cloud(), query={"metrics": (metric,), "per": per})
    assert len(batches) == served
    if served:
        unit = next(meta["Unit"] for meta in METAS if meta["MetricName"] == name)
        assert (batches[0].keys[0].metric, batches[0].unit[0]) == (metric, unit)
        largest = batches[0].statistic[0] is mb.Statistic.MAX
        assert largest == (name == "CARD_GPU_PCIE_RECEIVE")
        assert batches[0].values[0] == (15.0 if per == "task" and name.startswith("CARD") else 10.0)


@pytest.mark.parametrize(("pods", "groups"), [(1, [1]), (50, [50]), (51, [50, 1]), (123, [50, 50, 23])])
async def test_no_more_than_fifty_pods_are_named_in_a_call(pods: int, groups: list[int]) -> None:
    cloud = Cloud(job(pods), cards=1)
    batches, calls = await read(cloud)
    assert [len(json.loads(asked["Dimensions"])) for asked in cloud.asked] == groups
    tasks = [task for call in calls for _, task in call.targets]
    assert tasks == [f"{JOB}-worker-{i}" for i in range(pods)]
    assert [key.task for batch in batches for key in batch.keys] == tasks


async def test_earlier_incarnations_are_asked_for_and_belong_to_their_task() -> None:
    history = [{"PodId": f"{JOB}-worker-0-r{i}"} for i in range(60)]
    pods = [{"PodId": f"{JOB}-worker-{n}", "HistoryPods": history if n == 1 else None} for n in range(3)]
    cloud = Cloud(job(Pods=[{**pods[1], "PodId": f"{JOB}-worker-0"}, pods[0] | {"PodId": f"{JOB}-worker-9"}]), cards=1)
    batches, _ = await read(cloud)
    names = [[row["pod"] for row in json.loads(asked["Dimensions"])] for asked in cloud.asked]
    last = [f"{JOB}-worker-0-r{i}" for i in range(11, 60)]  # of more than a call may name
    assert names == [[f"{JOB}-worker-0", *last], [f"{JOB}-worker-9"]]
    assert [key.task for batch in batches for key in batch.keys] == [f"{JOB}-worker-0", f"{JOB}-worker-9"]


@pytest.mark.parametrize("page", [1, 7, 119, 120, 121, 10**6])
async def test_all_pages_of_data_are_read(page: int) -> None:
    cloud = Cloud(page=page)
    (batch,), (call,) = await read(cloud, query={"per": "device"})
    kept = batch.clip(call.window)
    assert np.diff(kept.offsets).tolist() == [60, 60]
    assert [asked.get("NextToken") for asked in cloud.asked] == [
        None if i == 0 else str(i * page) for i in range(-(-122 // page))
    ]


class Looping(Cloud):
    """A service whose tokens lead back."""

    def data(self, operation: str, asked: dict[str, str]) -> Response:
        token = "b" if asked.get("NextToken") == "a" else "a"
        return self.answer({"Code": "200", "DataPoints": json.dumps(self.rows(asked)), "NextToken": token})


async def test_a_token_that_comes_again_ends_the_call_and_what_came_is_kept() -> None:
    cloud = Looping()
    transport = FakeTransport(cloud)
    async with mb.Collector({"a": mb.open_provider("pai-dlc", transport=transport, **SETTINGS)}) as collector:
        window = mb.Window(START, START + HOUR)
        result = await collector.collect([f"a/{JOB}"], metrics=[DUTY], window=window, per="device")
    assert len(cloud.asked) == 3
    (failure,) = result.failures
    assert isinstance(failure.error, mb.DecodeError)
    assert "NextToken" in str(failure.error)
    assert len(result.series.times) == 2 * 60


async def test_a_page_that_fails_leaves_those_before_it() -> None:
    class Failing(Cloud):
        def data(self, operation: str, asked: dict[str, str]) -> Response:
            if asked.get("NextToken") == "60":
                return Response(400, {}, b'{"Code":"InvalidParameter","Message":"no"}')
            return super().data(operation, asked)

    with pytest.raises(mb.PartialDataError) as caught:
        await read(Failing(page=30), query={"per": "device"})
    assert len(caught.value.series.times) == 60
    (lost,) = caught.value.lost
    assert isinstance(lost.error, mb.InvalidRequestError)
    assert lost.targets == ((JOB, f"{JOB}-worker-0"),)


async def test_a_long_window_is_split_so_that_no_range_is_longer_than_a_month() -> None:
    window = mb.Window(START, START + 100 * DAY)
    cloud = Cloud(cards=1)
    batches, calls = await read(cloud, query={"window": window, "step_ms": HOUR}, metrics_api="DescribeMetricList")
    for asked in cloud.asked:
        assert instant(asked["EndTime"]) - instant(asked["StartTime"]) <= 31 * DAY
    assert len(calls) == 4
    times = [t for b, call in zip(batches, calls, strict=True) for t in b.clip(call.window).times.tolist()]
    assert times == [*range(START, START + 100 * DAY, HOUR)]


async def test_times_at_the_end_of_a_period_are_moved_to_its_start() -> None:
    cloud = Cloud(cards=1)
    (batch,), (call,) = await read(cloud, query={"per": "device"}, time_at="end")
    assert (cloud.asked[0]["StartTime"], cloud.asked[0]["EndTime"]) == ("2024-01-15T00:00:59Z", "2024-01-15T01:01:00Z")
    assert batch.clip(call.window).times.tolist() == [*range(START, START + HOUR, MINUTE)]


async def test_without_an_endpoint_of_cloudmonitor_nothing_is_asked_of_it() -> None:
    cloud = Cloud()
    settings = {**SETTINGS, "region": None, "endpoint": "https://pai-dlc.cn-hangzhou.aliyuncs.com"}
    (batch,), _ = await read(cloud, **settings)
    assert cloud.meta_pages == 0
    assert len(batch.times)


@pytest.mark.parametrize("points", [None, "", "[]", "null", '""', '"[]"', []])
async def test_an_answer_without_points_is_no_data(points: Any) -> None:
    class Empty(Cloud):
        def data(self, operation: str, asked: dict[str, str]) -> Response:
            return self.answer({"Code": "200", "Success": True, "DataPoints": points})

    for per in ("task", "device"):
        (batch,), _ = await read(Empty(), query={"per": per})
        assert len(batch.times) == 0


@pytest.mark.parametrize("points", ["{", '"[', "[{", '[{\\"a\\": 1', "[1,]"])
async def test_points_that_are_no_json_are_an_error(points: str) -> None:
    class Broken(Cloud):
        def data(self, operation: str, asked: dict[str, str]) -> Response:
            return self.answer({"Code": "200", "DataPoints": points})

    with pytest.raises(mb.DecodeError):
        await read(Broken())
