"""What the emulated GetJobMetrics and CloudMonitor answer, under each reading of the documents."""

import json
from urllib.parse import urlencode

import numpy as np
import pytest

from metricsbridge.model import JobStatus
from metricsbridge.testing.fleet import MINUTE_MS
from metricsbridge_pai.emulator import is_general, pod_ids
from pai_wire import FLEET, GENERAL, IDS, LIST, METRICS, OTHER, POINTS, emulator, life, refused, text

POD, TASK = pod_ids(FLEET, GENERAL)[0], GENERAL.tasks[0]
LONG = next(job for job in FLEET.jobs if is_general(FLEET, job) and job.minute_count(FLEET.now_ms) > 2_000)
PENDING = next(job for job in FLEET.jobs if job.status is JobStatus.PENDING)
CMS = "/api/v1/cms/metrics"


def truth(metric, job=GENERAL, task=TASK):
    minutes = job.minutes(FLEET.now_ms)
    values = FLEET.wire_values(job, task, metric, minutes)
    return {time: value for time, value in zip(minutes.tolist(), values.tolist(), strict=True) if value == value}


CPU = truth("container.cpu.utilization")


@pytest.mark.parametrize(
    ("reading", "metric_type", "expected"),
    [
        ({}, "CpuCoreUsage", {time + 26_587: value for time, value in CPU.items()}),
        ({"digits": 3}, "CpuCoreUsage", {time + 26_587: value for time, value in CPU.items()}),
        ({"offset_ms": 0, "digits": 3}, "CpuCoreUsage", CPU),
        ({"time_at": "end", "digits": 3}, "CpuCoreUsage", {time + 86_587: value for time, value in CPU.items()}),
        (
            {"percent_of": "unit", "digits": 3, "offset_ms": 0},
            "CpuCoreUsage",
            {time: value * GENERAL.cpus for time, value in CPU.items()},
        ),
        (
            {"percent_of": "unit", "digits": 3, "offset_ms": 0},
            "GpuMemoryUsage",
            {time: value * GENERAL.devices for time, value in truth("hw.gpu.memory.utilization").items()},
        ),
        (
            {"percent_of": "unit", "digits": 3, "offset_ms": 0},
            "MemoryUsage",
            truth("container.memory.utilization"),
        ),
        (
            {"offset_ms": 0},
            "DiskReadRate",
            {time: value / 1_000_000 for time, value in truth("container.disk.read.rate").items()},
        ),
        (
            {"offset_ms": 0, "megabyte": 2**20},
            "NetworkInputRate",
            {time: value / 2**20 for time, value in truth("container.network.receive.rate").items()},
        ),
    ],
)
async def test_points_are_the_fleets_numbers_under_each_reading(reading, metric_type, expected):
    async with emulator(**reading) as client:
        points = dict((await client.points(MetricType=metric_type))[POD])
    assert list(points) == list(expected)
    assert list(points.values()) == pytest.approx(list(expected.values()), abs=0.0051 if not reading else 0.00051)


async def test_both_ends_belong_to_the_range():
    some = list(CPU)[10:21]
    async with emulator(offset_ms=0) as client:
        points = await client.points(StartTime=text(some[0]), EndTime=text(some[-1]))
        assert [time for time, _ in points[POD]] == [time for time in CPU if some[0] <= time <= some[-1]]
        points = await client.points(StartTime=text(some[0] + 1000), EndTime=text(some[-1] - 1000))
        assert [time for time, _ in points[POD]] == [time for time in CPU if some[0] < time < some[-1]]


@pytest.mark.parametrize(("reading", "count"), [({}, 1_440), ({"clip": 7}, 7)])
async def test_longer_range_is_answered_for_by_its_newest_steps(reading, count):
    path, end_ms = f"{LIST}/{IDS[LONG.id]}/metrics", LONG.first_minute_ms + 2_000 * MINUTE_MS
    given = {"MetricType": "MemoryUsage", "TimeStep": "1m"}
    given |= {"StartTime": text(LONG.first_minute_ms), "EndTime": text(end_ms)}
    async with emulator(**reading) as client:
        _, body, _ = await client.call("GetJobMetrics", path, given)
    assert len(body["PodMetrics"]) == len(LONG.tasks)
    newest = (end_ms - MINUTE_MS, end_ms - count * MINUTE_MS)
    for pod, task in zip(body["PodMetrics"], LONG.tasks, strict=True):
        there = [time for time in truth("container.memory.utilization", LONG, task) if newest[1] <= time <= newest[0]]
        assert [point["Time"] - 26_587 for point in pod["Metrics"]] == there


@pytest.mark.parametrize(("step", "step_ms"), [("30s", 30_000), ("5m", 300_000), ("15m", 900_000), ("1h", 3_600_000)])
async def test_points_of_each_step_are_means_of_its_minutes(step, step_ms):
    async with emulator(offset_ms=0, digits=9) as client:
        points = dict((await client.points(TimeStep=step, StartTime=text(GENERAL.start_time_ms - 7_200_000)))[POD])
    assert {time % step_ms for time in points} == {0}
    assert {time // MINUTE_MS for time in points} >= (
        {time // MINUTE_MS for time in CPU} if step_ms < 60_000 else set()
    )
    for start, value in points.items():
        first = start // MINUTE_MS * MINUTE_MS
        within = [CPU[time] for time in CPU if first <= time < first + max(step_ms, MINUTE_MS)]
        assert value == pytest.approx(np.mean(within))


@pytest.mark.parametrize("renamed", [False, True])
async def test_points_before_a_restart_stand_under_the_earlier_id_where_that_is_the_reading(renamed):
    pod = pod_ids(FLEET, GENERAL)[-1]
    async with emulator(renamed=renamed) as client:
        points, rows = await client.points(), await client.rows()
        _, body, _ = await client.call("GetJob", f"{LIST}/{IDS[GENERAL.id]}")
    (earlier,) = body["Pods"][-1]["HistoryPods"]
    assert (body["Pods"][-1]["PodId"], earlier["PodId"] != pod) == (pod, renamed)
    expected = list(truth("container.cpu.utilization", GENERAL, GENERAL.tasks[-1]))
    found = {name: [time - 26_587 for time, _ in points[name]] for name in (earlier["PodId"], pod)}
    monitored = {name: [row["timestamp"] for row in rows if row["pod"] == name] for name in found}
    assert found == monitored
    if renamed:
        split = GENERAL.start_time_ms + 600_000
        assert found[earlier["PodId"]] == [time for time in expected if time < split] != []
        assert found[pod] == [time for time in expected if time >= split] != []
    else:
        assert found[pod] == expected


async def test_minute_that_is_not_over_has_no_point():
    async with emulator(offset_ms=0) as client:
        client.now_ms = list(CPU)[5] + MINUTE_MS // 2
        running = LONG.first_minute_ms + LONG.minute_count(client.now_ms) * MINUTE_MS
        given = {"MetricType": "MemoryUsage", "TimeStep": "1m", "EndTime": text(client.now_ms + 3_600_000)}
        _, body, _ = await client.call("GetJobMetrics", f"{LIST}/{IDS[LONG.id]}/metrics", given)
    newest = max(point["Time"] for pod in body["PodMetrics"] for point in pod["Metrics"])
    assert newest == running - MINUTE_MS


async def test_step_that_is_not_over_has_the_mean_of_its_complete_minutes():
    memory = truth("container.memory.utilization", LONG, LONG.tasks[0])
    hours = [time for time in memory if time % 3_600_000 == 0 and time + MINUTE_MS in memory]
    given = {"MetricType": "MemoryUsage", "TimeStep": "1h", "EndTime": text(hours[1] + 3_600_000)}
    async with emulator(offset_ms=0, digits=9) as client:
        client.now_ms = hours[1] + 2 * MINUTE_MS + MINUTE_MS // 2
        _, body, _ = await client.call("GetJobMetrics", f"{LIST}/{IDS[LONG.id]}/metrics", given)
    newest = body["PodMetrics"][0]["Metrics"][-1]
    assert newest["Time"] == hours[1]
    assert newest["Value"] == pytest.approx((memory[hours[1]] + memory[hours[1] + MINUTE_MS]) / 2)


async def test_job_that_never_ran_has_no_points():
    async with emulator() as client:
        _, body, _ = await client.call(
            "GetJobMetrics", f"{LIST}/{IDS[PENDING.id]}/metrics", {"MetricType": "MemoryUsage"}
        )
        assert body["PodMetrics"] == []
        assert await client.rows(Dimensions=json.dumps([{"jobId": IDS[PENDING.id]}])) == []


async def test_job_that_is_not_served_is_an_error_where_that_is_the_reading():
    path, given = f"{LIST}/{IDS[OTHER.id]}/metrics", {"MetricType": "CpuCoreUsage", **life(OTHER)}
    async with emulator() as client:
        assert (await client.call("GetJobMetrics", path, given))[1]["PodMetrics"] == []
    async with emulator(uncovered="error") as client:
        refused(await client.call("GetJobMetrics", path, given), 400, "InvalidParameter")
        assert await client.points()


@pytest.mark.parametrize(
    "given",
    [
        {"MetricType": "Cpu"},
        {"MetricType": ""},
        {"TimeStep": "5"},
        {"TimeStep": "0m"},
        {"TimeStep": "m"},
        {"StartTime": "1700000000000"},
        {"StartTime": "2099-01-01T00:00:00Z"},
    ],
)
async def test_malformed_query_for_metrics_is_refused(given):
    async with emulator() as client:
        answer = await client.call("GetJobMetrics", METRICS, {"MetricType": "CpuCoreUsage", **life(GENERAL), **given})
    refused(answer, 400, "InvalidParameter")


async def test_range_of_cloudmonitor_is_open_on_the_left_and_closed_on_the_right():
    some = list(CPU)[10:21]
    async with emulator() as client:
        rows = await client.rows(StartTime=str(some[0]), EndTime=str(some[-1]))
        times = [row["timestamp"] for row in rows if row["pod"] == POD]
        assert times == [time for time in CPU if some[0] < time <= some[-1]]
        rows = await client.rows(StartTime=str(some[0] - 1), EndTime=str(some[-1] - 1))
        times = [row["timestamp"] for row in rows if row["pod"] == POD]
        assert times == [time for time in CPU if some[0] <= time < some[-1]]


async def test_time_names_the_end_of_the_period_where_that_is_the_reading():
    some = list(CPU)[10:21]
    async with emulator(time_at="end") as client:
        rows = await client.rows(StartTime=str(some[0]), EndTime=str(some[-1]))
    assert {row["timestamp"]: row["Value"] for row in rows if row["pod"] == POD} == {
        time + MINUTE_MS: value for time, value in CPU.items() if some[0] <= time < some[-1]
    }


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%S.000Z"]
)
async def test_times_may_be_written_in_each_documented_form(form):
    start, end = list(CPU)[3], list(CPU)[9]
    written = [np.datetime64(time, "ms").item().strftime(form) for time in (start, end)]
    async with emulator() as client:
        expected = await client.rows(StartTime=str(start), EndTime=str(end))
        assert await client.rows(StartTime=written[0], EndTime=written[1]) == expected != []


@pytest.mark.parametrize(("period", "count"), [("15", 4), ("60", 1)])
async def test_short_periods_have_the_value_of_their_minute(period, count):
    async with emulator() as client:
        rows = await client.rows(Period=period, Dimensions=json.dumps([{"pod": POD}]))
    assert {row["timestamp"]: row["Value"] for row in rows} == {
        time + number * 15_000: value for time, value in CPU.items() for number in range(count)
    }


async def test_long_periods_tell_the_mean_and_the_extremes():
    async with emulator(value_key="Average") as client:
        start = text(GENERAL.first_minute_ms - 3_600_000)
        rows = await client.rows(Period="900", Dimensions=json.dumps([{"pod": POD}]), StartTime=start)
    assert len(rows) > 5
    for row in rows:
        within = [value for time, value in CPU.items() if time // 900_000 * 900_000 == row["timestamp"]]
        assert (row["Minimum"], row["Maximum"]) == (min(within), max(within))
        assert row["Average"] == pytest.approx(np.mean(within), abs=0.00051)
        assert "Value" not in row


async def test_points_older_than_what_is_kept_are_gone():
    async with emulator() as client:
        client.now_ms += 8 * 86_400_000
        assert await client.rows(Period="15") == []
        assert await client.rows(Period="60")
        client.now_ms += 60 * 86_400_000
        assert await client.rows(Period="60") == []
        assert await client.rows(Period="900")


async def test_free_memory_is_what_the_tasks_have_left():
    async with emulator() as client:
        rows = await client.rows(MetricName="JOB_MEMORY_FREE")
    used = [truth("container.memory.working_set", GENERAL, task) for task in GENERAL.tasks]
    for row in rows:
        there = [task[row["timestamp"]] for task in used if row["timestamp"] in task]
        assert row["Value"] == sum(GENERAL.memory_bytes - value for value in there)
    assert {row["timestamp"] for row in rows} == set().union(*used)


@pytest.mark.parametrize(
    ("dimensions", "pods"),
    [
        ([{"jobId": IDS[GENERAL.id], "pod": POD}], 1),
        ({"jobId": IDS[GENERAL.id]}, 4),
        ([{"jobId": IDS[GENERAL.id], "regionId": "any", "workspaceId": "268"}], 4),
        ([{"jobId": IDS[GENERAL.id], "workspaceId": "1"}], 0),
        ([{"jobId": IDS[GENERAL.id], "node": "1"}], 0),
        ([{"pod": pod} for pod in pod_ids(FLEET, GENERAL)[:2]] * 25, 2),
        ([{"jobId": "dlc0"}], 0),
    ],
)
async def test_dimensions_choose_the_series(dimensions, pods):
    async with emulator() as client:
        rows = await client.rows(Dimensions=json.dumps(dimensions))
    assert len({row["pod"] for row in rows}) == pods


async def test_card_may_be_asked_for_by_number():
    given = {"MetricName": "CARD_GPU_PCIE_RECEIVE", "Dimensions": json.dumps([{"pod": POD, "gpu": 3}])}
    async with emulator() as client:
        rows = await client.rows(**given)
    device = FLEET.wire_values(GENERAL, TASK, "hw.gpu.utilization", [row["timestamp"] for row in rows], device=3)
    assert [row["Value"] for row in rows] == pytest.approx((device * 80).tolist(), abs=0.00051)
    assert {row["gpu"] for row in rows} == {"3"}


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"Dimensions": json.dumps([{"jobId": "a"}] * 51)}, 400, "InvalidParameter"),
        ({"Dimensions": "jobId"}, 400, "InvalidParameter"),
        ({"Length": "1441"}, 400, "InvalidParameter"),
        ({"Length": "0"}, 400, "InvalidParameter"),
        ({"Period": "30"}, 400, "InvalidParameter"),
        ({"StartTime": "yesterday"}, 400, "InvalidParameter"),
        ({"StartTime": "2020-01-01 00:00:00"}, 400, "InvalidParameter"),
        ({"StartTime": text(GENERAL.end_time_ms + 10 * MINUTE_MS)}, 400, "InvalidParameter"),
        ({"Express": "{}"}, 400, "InvalidParameter"),
        ({"NextToken": "x"}, 400, "InvalidParameter"),
        ({"MetricName": "NO_SUCH"}, 404, "ResourceNotFound"),
        ({"Namespace": "acs_ecs"}, 404, "ResourceNotFound"),
        ({"MetricName": ""}, 400, "MissingParameter"),
    ],
)
async def test_malformed_query_to_cloudmonitor_is_refused_by_status_or_in_the_body(given, status, code):
    given = {**POINTS, **life(GENERAL), **given}
    async with emulator() as client:
        refused(await client.call("DescribeMetricList", "/", given), status, code)
    async with emulator(refused_in_body=True) as client:
        got, body, _ = await client.call("DescribeMetricList", "/", given)
        assert (got, body["Success"], body["Code"]) == (200, False, code)
        refused(
            await client.call("DescribeMetricList", "/", given, keys=("a", "b")), 404, "InvalidAccessKeyId.NotFound"
        )


async def test_proxy_asks_for_dimensions_and_a_job_that_there_is():
    async with emulator() as client:
        refused(await client.call("GetMetrics", CMS, {**POINTS, "Dimensions": ""}), 400, "InvalidParameter")
        refused(await client.call("GetMetrics", CMS, {**POINTS, "JobId": "dlc0"}), 404, "NotFound")
        given = {**POINTS, **life(GENERAL), "Length": "5000", "JobId": IDS[OTHER.id]}
        assert (await client.call("GetMetrics", CMS, given))[1]["DataPoints"] == "[]"
        given["JobId"] = IDS[GENERAL.id]
        assert json.loads((await client.call("GetMetrics", CMS, given))[1]["DataPoints"]) == await client.rows()


async def test_pages_adjoin_and_a_token_is_good_for_its_query_alone():
    async with emulator() as client:
        whole = await client.rows()
        given, read, token = {**POINTS, **life(GENERAL), "Length": "7"}, [], ""
        while True:
            _, body, _ = await client.call("DescribeMetricList", "/", {**given, "NextToken": token})
            read += json.loads(body["Datapoints"])
            if "NextToken" not in body:
                break
            token = body["NextToken"]
        other = {**given, "NextToken": token, "Period": "15"}
        refused(await client.call("DescribeMetricList", "/", other), 400, "InvalidParameter")
    assert read == whole
    assert [row["timestamp"] for row in whole] == sorted([row["timestamp"] for row in whole])


async def test_points_may_be_escaped_twice():
    async with emulator() as client:
        expected = await client.rows()
    async with emulator(escaped=2) as client:
        assert json.loads(await client.rows()) == expected


async def test_parameters_may_come_in_the_query_or_in_a_form():
    given = {**POINTS, **life(GENERAL)}
    async with emulator() as client:
        answers = [
            await client.call("DescribeMetricList", "/", given),
            await client.call("DescribeMetricList", "/", given, method="POST"),
            await client.call("DescribeMetricList", "/", method="POST", body=urlencode(given).encode()),
        ]
    assert len({body["Datapoints"] for _, body, _ in answers}) == 1
    assert json.loads(answers[0][1]["Datapoints"])


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("Cursor", {"Matchers": '[{"Label":"jobId","Operator":"LIKE","Value":"a"}]'}),
        ("Cursor", {"Matchers": "jobId"}),
        ("BatchExport", {"Cursor": "x"}),
        ("BatchExport", {"Metric": "POD_MEMORY_UTIL"}),
        ("BatchExport", {"Length": "10001"}),
        ("BatchExport", {"Measurements": "Value"}),
    ],
)
async def test_malformed_export_is_refused(action, given):
    asked = {"Namespace": "acs_pai_dlc", "Metric": "POD_CPU_UTIL", "Period": "60", **life(GENERAL)}
    async with emulator() as client:
        _, body, _ = await client.call("Cursor", "/", asked)
        given = {**asked, "Cursor": body["Cursor"], **given}
        refused(await client.call(action, "/", given), 400, "InvalidParameter")
