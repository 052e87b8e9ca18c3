"""The vendors' own samples of API v1, byte for byte as they are printed, decode to what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport

MINUTE = 60_000
START = 1_563_172_362_000
SETTINGS = {"project_id": "p0", "access_key": "AK", "secret_key": "S3CRET-key-never-shown"}
REGIONS = {"modelarts-v1": "cn-north-4", "otc-modelarts": "eu-de"}
BOTH = pytest.mark.parametrize("name", REGIONS)


def sample(name: str) -> bytes:
    return (Path(__file__).parent / "samples" / f"{name}.json").read_bytes()


def opened(name: str, body: bytes, status: int = 200) -> tuple[FakeTransport, object]:
    transport = FakeTransport(lambda request: Response(status, {}, body, START + 600_000))
    return transport, mb.open_provider(name, transport=transport, region=REGIONS[name], **SETTINGS)


async def fetched(name: str, body: bytes, per: mb.Level, **query: object) -> mb.SeriesBatch:
    _, provider = opened(name, body)
    job = mb.Job(
        id="10/10", status=mb.JobStatus.SUCCEEDED, start_time_ms=START, end_time_ms=START + 532_003,
        tasks=(mb.Task(id="pod1"),),
    )  # fmt: skip
    async with provider as opened_provider:
        (call,) = opened_provider.plan(job, mb.Query(window=mb.Window(START, START + 10**9), per=per, **query))
        return await opened_provider.fetch(call)


@BOTH
async def test_the_details_give_three_metrics_without_the_fillers_around_them(name: str) -> None:
    batch = await fetched(name, sample("show_training_job_version"), "job")
    assert [key.metric for key in batch.keys] == [
        "container.cpu.utilization", "container.memory.utilization", "hw.gpu.utilization",
    ]  # fmt: skip
    nan = np.nan
    expected = [[nan, 3.10, 5.76, nan, nan, nan, nan], [nan, 0.77, 2.09, nan, nan, nan, nan]]
    expected.append([nan, 0.25, 0.88, nan, nan, nan, nan])
    for index, numbers in enumerate(expected):
        times, values = batch.samples(index)
        assert np.array_equal(values, np.array(numbers) / 100, equal_nan=True)
        assert times.tolist() == [START // MINUTE * MINUTE + i * MINUTE for i in range(7)]
    assert {(key.job, key.task, key.device) for key in batch.keys} == {("10/10", "", "")}
    assert set(batch.unit) == {"1"}
    assert set(batch.interval_ms) == {MINUTE}
    assert set(batch.timing) == {mb.Timing.INFERRED}
    assert set(batch.statistic) == {mb.Statistic.MEAN}


@BOTH
async def test_the_details_describe_the_job(name: str) -> None:
    details = sample("show_training_job_version")

    def handler(request: Request) -> Response:
        last = request.url.rpartition("/")[2]
        if last == "file-names":
            return Response(200, {}, b'{"is_success": true, "log_file_list": ["teseJob.0"]}')
        return Response(200, {}, sample("show_pod_metric_statistic") if last == "metric-statistic" else details)

    transport = FakeTransport(handler)
    async with mb.open_provider(name, transport=transport, region=REGIONS[name], **SETTINGS) as provider:
        job = await provider.get_job("10/10")
    assert job == mb.Job(
        id="10/10", name="TestModelArtsJob jobVersion", status=mb.JobStatus.SUCCEEDED, vendor_status="10",
        create_time_ms=1_524_189_990_635, start_time_ms=START, end_time_ms=START + 532_003,
        accelerators=mb.Accelerators(kind="gpu", count=2, model="P100"), tasks=(mb.Task(id="teseJob.0"),),
    )  # fmt: skip
    assert transport.requests[0].url.endswith("/v1/p0/training-jobs/10/versions/10")


@BOTH
async def test_the_details_give_the_evaluation_of_the_class_and_the_total(name: str) -> None:
    _, provider = opened(name, sample("show_training_job_version"))
    async with provider as opened_provider:
        found = await opened_provider.evaluations("10/10")
    metrics = {"recall": 0.005833, "precision": 0.000178, "accuracy": 0.000937}
    assert found == (mb.Evaluation(class_id="0", class_name="0", metrics=metrics), mb.Evaluation(metrics=metrics))


@BOTH
async def test_the_details_as_printed_are_no_json_and_the_error_points_at_the_place(name: str) -> None:
    body = sample("show_training_job_version_as_printed")
    _, provider = opened(name, body)
    async with provider as opened_provider:
        with pytest.raises(mb.DecodeError) as caught:
            await opened_provider.get_job("10/10")
    assert caught.value.offset == body.index(b'"spec_code": ,') + len(b'"spec_code": ')
    with pytest.raises(mb.DecodeError) as caught:
        await fetched(name, body, "job")
    assert caught.value.offset == body.index(b'"spec_code": ,') + len(b'"spec_code": ')


def test_the_mended_copies_differ_from_what_is_printed_in_that_place_alone() -> None:
    printed, mended = sample("show_training_job_version_as_printed"), sample("show_training_job_version")
    assert printed.replace(b'"spec_code": ,', b'"spec_code": null,') == mended
    printed, mended = sample("list_all_training_job_versions_as_printed"), sample("list_all_training_job_versions")
    assert printed.replace(b"versions:", b'"versions":') == mended


@BOTH
async def test_a_pod_s_sample_gives_its_three_values(name: str) -> None:
    batch = await fetched(name, sample("show_pod_metric_statistic"), "task")
    (key,) = batch.keys
    assert (key.job, key.task, key.device, key.metric) == ("10/10", "pod1", "", "hw.gpu.utilization")
    assert batch.values.tolist() == [1 / 100, 22 / 100, 33 / 100]
    assert batch.times.tolist() == [START // MINUTE * MINUTE + i * MINUTE for i in range(3)]
    assert (batch.unit, batch.interval_ms, batch.time_error_ms) == (
        ("1",),
        (MINUTE,),
        (8 * MINUTE,),
    )  # three of ten minutes


@BOTH
async def test_a_pod_s_sample_is_one_card_s_where_cards_are_asked_for(name: str) -> None:
    batch = await fetched(name, sample("show_pod_metric_statistic"), "device")
    assert [(key.task, key.device) for key in batch.keys] == [("pod1", "0")]


async def test_the_list_of_all_versions_gives_one_total() -> None:
    transport, provider = opened("otc-modelarts", sample("list_all_training_job_versions"))
    async with provider as opened_provider:
        assert isinstance(opened_provider, mb.SupportsJobTotals)
        totals = await opened_provider.job_totals(mb.JobSearch())
    assert [*totals] == [mb.JobTotals(status=mb.JobStatus.STOPPED, vendor_status="12", jobs=1, gpus=1, npus=0)]
    assert transport.requests[0].url.endswith("/v1/p0/training-jobs/versions")


async def test_the_list_of_all_versions_as_printed_is_no_json_and_the_error_points_at_the_place() -> None:
    body = sample("list_all_training_job_versions_as_printed")
    _, provider = opened("otc-modelarts", body)
    async with provider as opened_provider:
        with pytest.raises(mb.DecodeError) as caught:
            await opened_provider.job_totals(mb.JobSearch())
    assert caught.value.offset == body.index(b"versions:")


FAILURES = [
    "show_training_job_version_failure", "show_pod_metric_statistic_failure", "list_all_training_job_versions_failure",
]  # fmt: skip


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("failure", FAILURES)
@BOTH
async def test_a_sample_of_a_failure_is_an_error_under_every_status(name: str, failure: str, status: int) -> None:
    _, provider = opened(name, sample(failure), status)
    async with provider as opened_provider:
        with pytest.raises(mb.InvalidRequestError, match="Error string") as caught:
            await opened_provider.get_job("10/10")
    error = caught.value
    assert (error.code, error.status, error.operation) == ("ModelArts.0105", status, "ShowTrainingJobVersion")
