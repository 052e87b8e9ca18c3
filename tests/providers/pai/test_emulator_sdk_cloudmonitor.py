"""The vendor's own clients, unchanged, read the emulated CloudMonitor and arrive at the fleet's truth."""

import json

import numpy as np
import pytest
from alibabacloud_cms20190101 import models as cms
from alibabacloud_pai_dlc20201203 import models as dlc

from metricsbridge.testing.emulator import EMULATOR
from metricsbridge_pai._emulated import gateway as gate
from metricsbridge_pai.emulator import create_app, pod_ids
from pai_clients import NAMESPACE, monitored, quota_ended, text, truth, vendor_clients

# The vendor's client asks for the time in a way that newer Pythons deprecate.
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


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


async def test_metrics_of_cards_come_through_the_proxy_page_by_page(app, fleet):
    job, job_id = quota_ended(fleet)
    given = monitored("CARD_GPU_DUTY_CYCLE", job, job_id, job_id=job_id, length="500")
    rows, pages, token = [], 0, None
    async with vendor_clients(app) as call:
        while pages == 0 or token:
            answer = await call("get_metrics", dlc.GetMetricsRequest(next_token=token, **given))
            assert (answer.code, answer.success, answer.period) == ("200", True, "60")
            rows += json.loads(answer.data_points)
            pages, token = pages + 1, answer.next_token
    assert pages == -(-len(rows) // 500) > 2
    read = {}
    for row in rows:
        read.setdefault((row["pod"], row["gpu"]), {})[row["timestamp"]] = row["Value"]
        assert (row["jobId"], row["userId"]) == (job_id, gate.USER_ID)
    assert read == {
        (pod, str(card)): truth(fleet, job, task, "hw.gpu.utilization", card)
        for pod, task in zip(pod_ids(fleet, job), job.tasks, strict=True)
        for card in range(job.devices)
    }


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("POD_CPU_UTIL", "container.cpu.utilization"),
        ("POD_MEMORY_UTIL", "container.memory.utilization"),
        ("POD_GPU_MEMORY_UTIL", "hw.gpu.memory.utilization"),
        ("POD_DISK_READ_RATE", "container.disk.read.rate"),
        ("POD_NETWORK_TRANSMIT_RATE", "container.network.transmit.rate"),
    ],
)
async def test_metrics_of_pods_come_from_cloudmonitor(app, fleet, name, metric):
    job, job_id = quota_ended(fleet)
    async with vendor_clients(app) as call:
        answer = await call(
            "describe_metric_list", cms.DescribeMetricListRequest(length="1440", **monitored(name, job, job_id))
        )
    read = {}
    for row in json.loads(answer.datapoints):
        read.setdefault(row["pod"], {})[row["timestamp"]] = row["Value"]
    pods = zip(pod_ids(fleet, job), job.tasks, strict=True)
    assert read == {pod: truth(fleet, job, task, metric) for pod, task in pods}


async def test_metrics_of_the_job_are_means_of_its_tasks(app, fleet):
    job, job_id = quota_ended(fleet)
    given = monitored("JOB_GPU_ACCELERATOR_DUTTY_UTIL", job, job_id)
    async with vendor_clients(app) as call:
        answer = await call("describe_metric_data", cms.DescribeMetricDataRequest(**given))
        given |= {"period": "900", "start_time": text(job.first_minute_ms - 3_600_000)}
        longer = await call("describe_metric_data", cms.DescribeMetricDataRequest(**given))
    minutes = {}
    for task in job.tasks:
        for time, value in truth(fleet, job, task, "hw.gpu.utilization").items():
            minutes.setdefault(time, []).append(value)
    read = {row["timestamp"]: row["Value"] for row in json.loads(answer.datapoints)}
    assert read == {time: pytest.approx(np.mean(values), abs=0.0006) for time, values in minutes.items()}
    quarters = {row["timestamp"] for row in json.loads(longer.datapoints)}
    assert quarters == {time // 900_000 * 900_000 for time in read}


async def test_newest_point_of_each_series_is_the_last(app, fleet):
    job, job_id = quota_ended(fleet)
    async with vendor_clients(app) as call:
        request = cms.DescribeMetricLastRequest(**monitored("POD_MEMORY_UTIL", job, job_id))
        answer = await call("describe_metric_last", request)
    read = {row["pod"]: (row["timestamp"], row["Value"]) for row in json.loads(answer.datapoints)}
    for pod, task in zip(pod_ids(fleet, job), job.tasks, strict=True):
        assert read[pod] == list(truth(fleet, job, task, "container.memory.utilization").items())[-1]


async def test_metrics_that_there_are_come_page_by_page(app):
    names, units = [], {}
    async with vendor_clients(app) as call:
        for page in (1, 2, 3, 4):
            request = cms.DescribeMetricMetaListRequest(namespace=NAMESPACE, page_number=page, page_size=5)
            answer = await call("describe_metric_meta_list", request)
            for entry in answer.resources.resource:
                names.append(entry.metric_name)
                units[entry.metric_name] = (entry.unit, entry.dimensions)
                assert entry.periods == "15,60,900,3600"
        other = await call("describe_metric_meta_list", cms.DescribeMetricMetaListRequest(namespace="acs_ecs"))
    assert answer.total_count == str(len(names)) == str(len(set(names)))
    assert units["CARD_GPU_DUTY_CYCLE"] == ("%", "userId,jobId,pod,gpu")
    assert units["CARD_GPU_NVLINK_RECEIVE"] == ("MiB/s", "userId,jobId,pod,gpu")
    assert units["POD_DISK_READ_RATE"] == ("B/s", "userId,jobId,pod")
    assert units["JOB_MEMORY_FREE"] == ("B", "userId,jobId")
    assert other.total_count == "0"


async def test_export_gives_every_point_once(app, fleet):
    job, job_id = quota_ended(fleet)
    given = monitored("POD_CPU_UTIL", job, job_id)
    matcher = cms.Matcher(label="jobId", operator="EQUALS", value=job_id)
    begin = cms.CursorRequest(
        namespace=NAMESPACE, metric="POD_CPU_UTIL", period=60, matchers=[matcher],
        start_time=given["start_time"], end_time=given["end_time"],
    )  # fmt: skip
    results = []
    async with vendor_clients(app) as call:
        answer = await call("cursor", begin)
        assert (answer.code, answer.success) == (200, True)
        more = True
        while more:
            request = cms.BatchExportRequest(
                cursor=answer.cursor, namespace=NAMESPACE, metric="POD_CPU_UTIL", length=100, measurements=["Value"]
            )
            answer = await call("batch_export", request)
            results += answer.data_results
            more = answer.has_next
    assert answer.cursor is None
    read = {}
    for entry in results:
        names = {dimension.label: dimension.value for dimension in entry.dimensions}
        read.setdefault(names["pod"], {})[entry.timestamp] = entry.measurements["Value"]
    pods = zip(pod_ids(fleet, job), job.tasks, strict=True)
    assert read == {pod: truth(fleet, job, task, "container.cpu.utilization") for pod, task in pods}
    assert len(results) == sum(map(len, read.values()))
