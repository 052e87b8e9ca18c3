"""The emulated ModelArts v1 on the wire: the quirks of its documents, and the fleet's numbers as it writes them."""

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import numpy as np
import pytest

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_modelarts import emulator_v1 as v1
from metricsbridge_modelarts._emulated import gateway as gate
from metricsbridge_modelarts._signing import SigningKey, authorization

FLEET = Fleet()
IDS = v1.job_ids(FLEET)
ENDED = next(job for job in FLEET.jobs if job.end_time_ms and job.device_kind == "gpu")
RUNNING = FLEET.jobs[0]
FRESH = next(job for job in FLEET.jobs if job.start_time_ms and job.minute_count(FLEET.now_ms) == 0)
UNSTARTED = [job for job in FLEET.jobs if job.start_time_ms is None]
BASE = f"/v1/{gate.PROJECT_ID}/training-jobs"
METRICS = {
    "cpuUsage": ("container.cpu.utilization", 1),
    "memUsage": ("container.memory.utilization", 1),
    "diskReadRate": ("container.disk.read.rate", 1000),
    "diskWriteRate": ("container.disk.write.rate", 1000),
    "recvBytesRate": ("container.network.receive.rate", 1),
    "sendBytesRate": ("container.network.transmit.rate", 1),
    "gpuUtil": ("hw.gpu.utilization", 1),
    "gpuMemUsage": ("hw.gpu.memory.utilization", 1),
}
PAGE_S_MEMBERS = {
    "is_success", "job_id", "job_name", "job_desc", "version_id", "version_name", "pre_version_id", "engine_type",
    "engine_name", "engine_id", "engine_version", "status", "app_url", "boot_file_url", "create_time", "parameter",
    "duration", "spec_id", "core", "cpu", "gpu_num", "gpu_type", "worker_server_num", "data_url", "train_url",
    "log_url", "dataset_version_id", "dataset_id", "data_source", "model_id", "model_metric_list",
    "system_metric_list", "user_image_url", "user_command", "resource_id", "dataset_name", "spec_code", "start_time",
    "volumes", "dataset_version_name", "pool_name", "pool_id", "nas_mount_path", "nas_share_addr", "nas_type",
}  # fmt: skip


class Client:
    """Sends requests, signed, and has the service's clock in its hand."""

    def __init__(self):
        self.now_ms = FLEET.now_ms

    async def call(self, path, body=b"", *, method="GET", signed=True, **headers):
        sent = {"Host": urlsplit(self.url).netloc}
        sent["X-Sdk-Date"] = datetime.fromtimestamp(self.now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        if signed:
            plain, _, query = path.partition("?")
            key, params = SigningKey.of(gate.ACCESS_KEY, gate.SECRET_KEY), parse_qsl(query, keep_blank_values=True)
            sent["Authorization"] = authorization(key, method, plain, params, sent, body)
        async with self.session.request(method, self.url + path, data=body, headers=sent | headers) as response:
            return response.status, json.loads(await response.text()), response.headers

    async def get(self, path, body=b""):
        status, document, _ = await self.call(path, body)
        assert status == 200, document
        return document

    async def pod(self, job, pod=0, query=""):
        return await self.get(f"{route(job)}/pod/{v1.pod_names(FLEET, job)[pod]}/metric-statistic{query}")


@asynccontextmanager
async def emulator(create=v1.create_app, **chosen):
    client = Client()
    app = create(fleet=FLEET, now_ms=lambda: client.now_ms, **chosen)
    async with serve(app) as client.url, aiohttp.ClientSession() as client.session:
        yield client


def route(job):
    return f"{BASE}/{IDS[job.id].replace('/', '/versions/')}"


def values_of(document):
    assert isinstance(document["interval"], int)
    return {entry["metric"]: entry["value"] for entry in document["metrics"]}


def written(numbers, unit=1, filler="0"):
    return [filler if number != number else f"{number / unit:.2f}" for number in numbers.tolist()]


def fleet_numbers(job, task, metric, device=None):
    return FLEET.wire_values(job, task, metric, job.minutes(FLEET.now_ms), device=device)


def refused(answer, status, code, *, pod=False):
    got, body, headers = answer
    assert (got, body.pop("error_code")) == (status, code)
    assert body.pop("error_msg" if pod else "error_message")
    assert body == ({} if pod else {"is_success": False})
    assert headers["X-Request-Id"]


async def test_each_pod_has_the_fleets_numbers_as_text():
    async with emulator() as client:
        for job in (ENDED, RUNNING):
            for number, task in enumerate(job.tasks):
                values = values_of(await client.pod(job, number))
                expected = {
                    name: written(fleet_numbers(job, task, metric), unit) for name, (metric, unit) in METRICS.items()
                }
                assert values == expected


async def test_gap_is_a_bare_zero_and_a_measured_zero_has_decimals():
    compared = {"0": 0, "0.00": 0}
    async with emulator() as client:
        for number, task in enumerate(ENDED.tasks):
            for name, texts in values_of(await client.pod(ENDED, number)).items():
                numbers = fleet_numbers(ENDED, task, METRICS[name][0]).tolist()
                for text, value in zip(texts, numbers, strict=True):
                    assert (text == "0") == (value != value)
                    assert (text == "0.00") == (value == 0)
                    compared[text] = compared.get(text, 0) + 1
    assert min(compared["0"], compared["0.00"]) > 3


async def test_without_decimals_a_measured_zero_is_bare_too():
    async with emulator(decimals=False, filler="") as client:
        texts = values_of(await client.pod(ENDED))["gpuUtil"]
    numbers = fleet_numbers(ENDED, ENDED.tasks[0], "hw.gpu.utilization").tolist()
    assert texts == ["" if value != value else f"{value:.0f}" for value in numbers]
    assert "." not in "".join(texts)


async def test_units_of_rates_are_settable():
    async with emulator(disk_rate_bytes=1024, network_rate_bytes=1e6) as client:
        values = values_of(await client.pod(ENDED))
    for name, unit in {"diskReadRate": 1024, "recvBytesRate": 1e6, "cpuUsage": 1}.items():
        assert values[name] == written(fleet_numbers(ENDED, ENDED.tasks[0], METRICS[name][0]), unit)


@pytest.mark.parametrize("job", [job for job in FLEET.jobs if job.device_kind != "gpu" and job.start_time_ms][:2])
@pytest.mark.parametrize("statistic", ["all", "each"])
async def test_pod_without_gpus_has_gpu_series_of_zeros_alone(job, statistic):
    async with emulator() as client:
        values = values_of(await client.pod(job, query=f"?statistic_type={statistic}"))
    assert list(values) == list(METRICS)
    assert values["gpuUtil"] == values["gpuMemUsage"] == ["0"] * len(values["cpuUsage"])


@pytest.mark.parametrize(
    ("reading", "names"),
    [
        ("underscore", ["gpuUtil_0", "gpuUtil_1", "gpuUtil_2", "gpuUtil_3"]),
        ("plain", ["gpuUtil0", "gpuUtil1", "gpuUtil2", "gpuUtil3"]),
        ("dash", ["gpuUtil-0", "gpuUtil-1", "gpuUtil-2", "gpuUtil-3"]),
        ("bracket", ["gpuUtil[0]", "gpuUtil[1]", "gpuUtil[2]", "gpuUtil[3]"]),
        ("repeated", ["gpuUtil"] * 4),
        ("nested", ["gpuUtil"]),
    ],
)
async def test_each_card_has_its_own_numbers_under_the_chosen_name(reading, names):
    cards = [written(fleet_numbers(ENDED, ENDED.tasks[0], "hw.gpu.utilization", card)) for card in range(4)]
    async with emulator(device_names=reading) as client:
        document = await client.pod(ENDED, query="?metrics=CpuUsage,GpuUtil&statistic_type=each")
    assert [entry["metric"] for entry in document["metrics"]] == ["cpuUsage", *names]
    cpu, *gpus = [entry["value"] for entry in document["metrics"]]
    assert cpu == written(fleet_numbers(ENDED, ENDED.tasks[0], "container.cpu.utilization"))
    assert (gpus[0] if reading == "nested" else gpus) == cards


async def test_metrics_are_asked_for_in_either_case_with_either_comma():
    served = {
        "": list(METRICS),
        "gpuUtil": ["gpuUtil"],
        "GpuUtil,cpuUsage": ["gpuUtil", "cpuUsage"],
        "CpuUsage，MemUsage": ["cpuUsage", "memUsage"],
        "cpuUsage, CpuUsage,": ["cpuUsage"],
    }
    async with emulator() as client:
        for asked, names in served.items():
            assert list(values_of(await client.pod(ENDED, query=f"?metrics={asked}"))) == names


@pytest.mark.parametrize("job", [ENDED, RUNNING])
async def test_value_is_the_mean_of_what_was_measured_in_the_interval(job):
    async with emulator(interval_minutes=7) as client:
        document, details = await client.pod(job, query="?metrics=cpuUsage"), await client.get(route(job))
    numbers = fleet_numbers(job, job.tasks[0], "container.cpu.utilization").tolist()
    if job.end_time_ms is None:
        numbers = numbers[: len(numbers) // 7 * 7]
    means = []
    for start in range(0, len(numbers), 7):
        measured = [value for value in numbers[start : start + 7] if value == value]
        means.append(sum(measured) / len(measured) if measured else None)
    got = values_of(document)["cpuUsage"]
    assert (document["interval"], details["system_metric_list"]["interval"], len(got)) == (7, 7, len(means))
    assert [float(text) for text in got] == pytest.approx([mean or 0 for mean in means], abs=0.00501)
    assert len(details["system_metric_list"]["cpuUsage"]) == len(means)


async def test_retention_serves_the_tail():
    async with emulator() as client:
        whole = values_of(await client.pod(RUNNING))["memUsage"]
    async with emulator(retention_minutes=100) as client:
        tail = values_of(await client.pod(RUNNING))["memUsage"]
        ended = (await client.get(route(ENDED)))["system_metric_list"]
    assert tail == whole[-100:]
    assert ended == {"interval": 1} | {name: [] for name in METRICS}


async def test_retention_leaves_whole_intervals():
    async with emulator(interval_minutes=7) as client:
        whole = values_of(await client.pod(RUNNING))["memUsage"]
    async with emulator(interval_minutes=7, retention_minutes=100) as client:
        tail = values_of(await client.pod(RUNNING))["memUsage"]
    assert tail == whole[-len(tail) :]
    assert 100 // 7 - 1 <= len(tail) <= 100 // 7


async def test_fresh_job_has_empty_arrays_that_grow():
    async with emulator() as client:
        assert values_of(await client.pod(FRESH)) == {name: [] for name in METRICS}
        client.now_ms = FRESH.first_minute_ms + 10 * MINUTE_MS
        assert {len(texts) for texts in values_of(await client.pod(FRESH)).values()} == {10}


async def test_details_have_the_jobs_average_and_the_list_the_same_as_text():
    minutes = ENDED.minutes(FLEET.now_ms)
    tasks = np.stack([FLEET.wire_values(ENDED, task, METRICS["gpuUtil"][0], minutes) for task in ENDED.tasks])
    expected = ["0" if np.isnan(column).all() else f"{np.nanmean(column):.2f}" for column in tasks.T]
    async with emulator() as client:
        metrics = (await client.get(route(ENDED)))["system_metric_list"]
        listed = (await client.get(route(ENDED).rpartition("/")[0]))["versions"]
    assert set(metrics) == {"interval", *METRICS}
    assert metrics["interval"] == 1
    assert metrics["gpuUtil"] == expected
    text = next(row["system_metric_list"] for row in listed if row["version_id"] == int(IDS[ENDED.id].split("/")[1]))
    assert isinstance(text, str)
    assert json.loads(text) == metrics
    async with emulator(system_metrics="string") as client:
        assert json.loads((await client.get(route(ENDED)))["system_metric_list"]) == metrics


@pytest.mark.parametrize(("reading", "no_time"), [({}, None), ({"no_time": 0}, 0)])
async def test_job_that_never_started_has_no_start_and_nothing_measured(reading, no_time):
    async with emulator(**reading) as client:
        documents = [await client.get(route(job)) for job in UNSTARTED]
        files = [await client.get(f"{route(job)}/log/file-names") for job in UNSTARTED]
    assert [document["start_time"] for document in documents] == [no_time] * len(UNSTARTED)
    assert {document["status"] for document in documents} <= {1, 5, 7}
    assert [document["status"] == 5 for document in documents] == [job.status is JobStatus.FAILED for job in UNSTARTED]
    assert {document["system_metric_list"] for document in documents} == {"", None}
    assert [document["log_file_list"] for document in files] == [[], []]


async def test_details_have_every_member_that_the_page_names():
    statuses = {JobStatus.RUNNING: 8, JobStatus.SUCCEEDED: 10, JobStatus.FAILED: 11, JobStatus.STOPPED: 12}
    async with emulator() as client:
        for job in FLEET.jobs:
            document = await client.get(route(job))
            assert document.keys() >= PAGE_S_MEMBERS
            assert document["is_success"] is True
            assert f"{document['job_id']}/{document['version_id']}" == IDS[job.id]
            assert (document["core"], document["cpu"]) == (job.cpus, job.memory_bytes // 2**30)
            assert document["worker_server_num"] == len(job.tasks)
            assert document["gpu_num"] == (job.devices if job.device_kind == "gpu" else 0)
            assert (document["npu_info"] or {}).get("unit_num", 0) == (job.devices if job.device_kind == "npu" else 0)
            if job.start_time_ms is not None:
                assert document["status"] == statuses[job.status]
                end = FLEET.now_ms if job.end_time_ms is None else job.end_time_ms
                assert document["start_time"] + document["duration"] == end
            assert (document["spec_code"] is None) == (document["pool_id"] is not None)
            if not job.devices:
                assert document["engine_type"] is None


async def test_finished_jobs_tell_how_good_their_model_is():
    async with emulator() as client:
        texts = {job.id: (await client.get(route(job)))["model_metric_list"] for job in FLEET.jobs}
    async with emulator(model_metrics="object") as client:
        assert (await client.get(route(ENDED)))["model_metric_list"] == json.loads(texts[ENDED.id])
    for job in FLEET.jobs:
        if job.status is not JobStatus.SUCCEEDED:
            assert texts[job.id] == ""
            continue
        document = json.loads(texts[job.id])
        assert 2 <= len(document["metric"]) <= 3
        assert [row["metric_meta"]["class_id"] for row in document["metric"]] == list(range(len(document["metric"])))
        assert all(set(row["metric_values"]) == {"recall", "precision", "accuracy"} for row in document["metric"])
        assert document["total_metric"]["total_metric_values"].keys() == {"id", "recall", "precision", "accuracy"}


async def test_log_files_are_named_like_the_pods():
    async with emulator() as client:
        for job in (ENDED, RUNNING, FRESH):
            document = await client.get(f"{route(job)}/log/file-names")
            assert tuple(document["log_file_list"]) == v1.pod_names(FLEET, job)
            assert len(document["log_file_list"]) == len(job.tasks)


def test_jobs_have_one_to_three_versions_with_ids_that_stay():
    ids = list(v1.job_ids(Fleet(size=60)).values())
    assert ids[:12] == list(IDS.values()) == list(v1.create_app(fleet=FLEET)[EMULATOR].jobs)
    assert len(set(ids)) == 60
    jobs, versions = zip(*[map(int, text.split("/")) for text in ids], strict=True)
    assert {jobs.count(job) for job in jobs} == {1, 2, 3}
    assert min(versions) > 2**32
    assert list(v1.job_ids(Fleet(seed=1)).values()) != list(IDS.values())


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("1/versions/1", "ModelArts.2775"),
        ("1/versions", "ModelArts.2775"),
        (f"{IDS[ENDED.id].split('/')[0]}/versions/1", "ModelArts.2775"),
        (f"{IDS[ENDED.id].split('/')[0]}/versions/one", "ModelArts.0104"),
        ("abc/versions/1/log/file-names", "ModelArts.0104"),
        ("1/versions/1/pod/x/metric-statistic", "ModelArts.2775"),
        (route(ENDED).removeprefix(f"{BASE}/") + "/pod/x/metric-statistic", "ModelArts.2788"),
        (route(ENDED).removeprefix(f"{BASE}/") + "/pod/POD/metric-statistic?metrics=colour", "ModelArts.0104"),
        (route(ENDED).removeprefix(f"{BASE}/") + "/pod/POD/metric-statistic?statistic_type=some", "ModelArts.0104"),
    ],
)
@pytest.mark.parametrize("failure_status", [None, 200])
async def test_refusal_has_the_words_of_its_route(path, code, failure_status):
    path = f"{BASE}/{path.replace('POD', v1.pod_names(FLEET, ENDED)[0])}"
    async with emulator(failure_status=failure_status) as client:
        refused(await client.call(path), failure_status or 400, code, pod="/pod/" in path)


async def test_codes_for_the_unknown_are_settable():
    async with emulator(unknown_job_code="ModelArts.0105", unknown_pod_code="ModelArts.0106") as client:
        refused(await client.call(f"{BASE}/1/versions/1"), 400, "ModelArts.0105")
        refused(await client.call(f"{route(ENDED)}/pod/x/metric-statistic"), 400, "ModelArts.0106", pod=True)


@pytest.mark.parametrize("chosen", [{"device_names": "roman"}, {"interval_minutes": 0}, {"system_metrics": "xml"}])
def test_reading_that_there_is_not_is_refused(chosen):
    with pytest.raises(ValueError, match=next(iter(chosen))):
        v1.create_app(fleet=FLEET, **chosen)


async def test_route_for_one_pod_may_be_gone():
    async with emulator(pod_metrics=False) as client:
        status, body, _ = await client.call(f"{route(ENDED)}/pod/{v1.pod_names(FLEET, ENDED)[0]}/metric-statistic")
        assert (status, body["error_code"]) == (404, "APIGW.0101")
        assert (await client.get(route(ENDED)))["is_success"] is True


async def test_gateway_refuses_in_its_own_words():
    async with emulator() as client:
        status, body, _ = await client.call(route(ENDED), signed=False)
        assert (status, body["error_code"], "is_success" in body) == (401, "APIGW.0301", False)
        status, body, _ = await client.call(route(ENDED).replace(gate.PROJECT_ID, "f" * 32))
        assert (status, body["error_code"]) == (403, "ModelArts.0210")


async def test_faults_speak_the_vendors_language():
    faults = Faults(retry_after_s=3)
    async with emulator(faults=faults) as client:
        faults.script("throttle", "unavailable", "error", "expired-token")
        status, body, headers = await client.call(route(ENDED))
        assert (status, body["error_code"], headers["Retry-After"]) == (429, "APIGW.0308", "3")
        assert (await client.call(route(ENDED)))[1]["error_code"] == "APIGW.0613"
        refused(await client.call(route(ENDED)), 500, "ModelArts.0010")
        assert (await client.call(route(ENDED)))[0] == 200  # signed: there is no token to expire
    assert faults.injected == {"throttle": 1, "unavailable": 1, "error": 1}
