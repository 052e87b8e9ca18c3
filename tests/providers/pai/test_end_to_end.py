"""From the emulated services through real HTTP to columns, on both routes: what is read is the truth."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from msgspec.structs import replace

import metricsbridge as mb
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from metricsbridge_pai._windows import MOST_STEPS
from metricsbridge_pai.emulator import create_app, is_general, job_ids, pod_ids, settings, sts_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from metricsbridge.testing.fleet import FleetJob

NOW = 1_759_999_980_345  # early in a minute, which the waits after many refusals do not outlast
MINUTE = 60_000
OFFSET = 26_587
POD_METRICS = [name for name in mb.METRICS if name.endswith((".utilization", ".rate")) and "npu" not in name]
DUTY = "hw.gpu.utilization"
BOTH_APIS = pytest.mark.parametrize("api", ["GetMetrics", "DescribeMetricList"])


@asynccontextmanager
async def emulated(
    fleet: Fleet | None = None, faults: Faults | None = None, *, readings: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[tuple[mb.Collector, Fleet, list[str]]]:
    fleet = Fleet(now_ms=NOW, longest_minutes=300) if fleet is None else fleet
    clock = FakeClock(fleet.now_ms)
    async with serve(create_app(fleet=fleet, faults=faults, now_ms=clock.now_ms, **(readings or {}))) as url:
        provider = mb.open_provider("pai-dlc", clock=clock, **{**settings(url), **more})
        async with mb.Collector({"ali": provider}, clock=clock) as collector:
            yield collector, fleet, [f"ali/{job}" for job in job_ids(fleet).values()]


def rounded(values: Any, digits: int) -> Any:
    return np.array([round(value, digits) for value in values.tolist()], np.float64)


def served(fleet: Fleet, job: FleetJob, task: str, metric: str, minutes: Any) -> Any:
    """Give what the services tell of a task, in canonical terms, as precisely as they write it."""
    if metric == DUTY and not is_general(fleet, job):
        cards = [rounded(fleet.wire_values(job, task, metric, minutes, device=i), 3) for i in range(job.devices)]
        return mean(np.array(cards).reshape(len(cards), len(minutes))) / 100
    wire = fleet.wire_values(job, task, metric, minutes)
    if metric.endswith(".utilization"):
        return rounded(wire, 2 if is_general(fleet, job) else 3) / 100
    return rounded(wire / 1e6, 3) * 1e6 if is_general(fleet, job) else wire


def mean(rows: Any) -> Any:
    counts = (~np.isnan(rows)).sum(axis=0)
    return np.divide(np.nansum(rows, axis=0), counts, out=np.full(rows.shape[1], np.nan), where=counts > 0)


def expected(fleet: Fleet, job: FleetJob, as_of_ms: int, offset_ms: int) -> tuple[Any, Any]:
    """Give (minutes, times) of the samples that there are by then."""
    minutes = job.minutes(fleet.now_ms)
    minutes = minutes[minutes + offset_ms <= as_of_ms]
    return minutes, minutes + offset_ms


def check_truth(result: mb.Collection, fleet: Fleet, failed: set[tuple[str, str]] = frozenset()) -> int:
    """Compare everything delivered with the truth, and everything else with its absence; gives how many values."""
    series = {(key.job, key.task, key.metric): (times, values) for key, times, values in result.series}
    compared = 0
    for job in fleet.jobs:
        job_id, offset_ms = job_ids(fleet)[job.id], OFFSET if is_general(fleet, job) else 0
        minutes, times = expected(fleet, job, result.as_of_ms, offset_ms)
        for task, pod in zip(job.tasks, pod_ids(fleet, job), strict=True):
            for metric in POD_METRICS:
                truth = served(fleet, job, task, metric, minutes)
                there = ~np.isnan(truth)
                got = series.pop((job_id, pod, metric), None)
                if got is None:
                    assert {(job_id, pod), (job_id, "")} & failed or not there.any(), (job, task, metric)
                    continue
                if (job_id, pod) not in failed:
                    assert got[0].tolist() == times[there].tolist()
                wanted = dict(zip(times[there].tolist(), truth[there].tolist(), strict=True))
                np.testing.assert_allclose(got[1], [wanted[time] for time in got[0].tolist()], rtol=1e-12)
                compared += len(got[0])
    assert not series
    return compared


@BOTH_APIS
@pytest.mark.parametrize("escaped", [1, 2])
async def test_what_is_collected_equals_the_truth_for_every_job_pod_metric_and_minute(api: str, escaped: int) -> None:
    readings = {"escaped": escaped, "value_key": "Average" if escaped == 2 else "Value"}
    async with emulated(readings=readings, metrics_api=api) as (collector, fleet, jobs):
        listed = [job async for job in collector.list_jobs("ali")]
        assert {job.id for job in listed} == {job.partition("/")[2] for job in jobs}
        result = await collector.collect(jobs)
    assert result.complete
    assert check_truth(result, fleet) > 10_000


async def test_jobs_of_more_than_a_week_are_listed_and_read_over_many_calls() -> None:
    fleet = Fleet(seed=4, now_ms=NOW, size=12)
    async with emulated(fleet, metrics_api="DescribeMetricList") as (collector, fleet, jobs):
        listed = [job async for job in collector.list_jobs("ali")]
        result = await collector.collect(listed, metrics=["hw.gpu.utilization", "container.cpu.utilization"])
        assert {job.id for job in listed} == {job.partition("/")[2] for job in jobs}
    assert result.complete
    longest = max(len(times) for _, times, _ in result.series)
    assert longest > 2 * 1440
    for key, times, _ in result.series:
        assert (np.diff(times) > 0).all(), key


async def test_pods_that_come_with_the_list_need_no_second_look() -> None:
    faults = Faults()
    async with emulated(faults=faults, readings={"list_pods": True}) as (collector, fleet, _):
        listed = [job async for job in collector.list_jobs("ali")]
        assert {job.partial for job in listed} == {False, True}  # those whose route must be tried are partial
        result = await collector.collect(listed)
    assert result.complete
    assert check_truth(result, fleet) > 10_000


@BOTH_APIS
async def test_devices_and_jobs_have_series_of_their_own_in_cloudmonitor(api: str) -> None:
    async with emulated(metrics_api=api) as (collector, fleet, jobs):
        per_device = await collector.collect(jobs, per="device", metrics=[DUTY])
        per_job = await collector.collect(jobs, per="job", metrics=[DUTY])
    cards = {(key.job, key.task, key.device): found for key, *found in per_device.series}
    wholes = {key.job: found for key, *found in per_job.series}
    compared = 0
    for job in fleet.jobs:
        if is_general(fleet, job) or job.device_kind != "gpu" or job.start_time_ms is None:
            continue
        minutes, _ = expected(fleet, job, per_device.as_of_ms, 0)
        job_id = job_ids(fleet)[job.id]
        for task, pod in zip(job.tasks, pod_ids(fleet, job), strict=True):
            for card in range(job.devices):
                truth = rounded(fleet.wire_values(job, task, DUTY, minutes, device=card), 3) / 100
                check_series(cards.pop((job_id, pod, str(card)), None), minutes, truth)
                compared += 1
        whole = mean(np.array([fleet.wire_values(job, task, DUTY, minutes) for task in job.tasks]))
        check_series(wholes.pop(job_id, None), minutes, rounded(whole, 3) / 100)
    assert compared > 10
    assert not cards
    assert not wholes
    general = {job_ids(fleet)[job.id] for job in fleet.jobs if is_general(fleet, job) and job.start_time_ms}
    refused = {job for a in per_device.absences if a.reason == "unsupported" for job, _ in a.targets}
    assert general <= refused


def check_series(found: Any, minutes: Any, truth: Any) -> None:
    there = ~np.isnan(truth)
    times, values = ([], []) if found is None else (found[0].tolist(), found[1])
    assert times == minutes[there].tolist()
    np.testing.assert_allclose(values, truth[there], rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
async def test_the_truth_survives_any_mix_of_faults_and_nothing_is_lost_silently(seed: int) -> None:
    dice = random.Random(seed)
    kinds = ["throttle", "unavailable", "error", "reset", "slow", "truncated", "html", "nonce-used", "shuffled"]
    rates = {kind: dice.uniform(0, 0.12) for kind in dice.sample(kinds, 5)}
    faults = Faults(rates=rates, seed=seed, retry_after_s=0)
    fleet = Fleet(seed=seed, now_ms=NOW, longest_minutes=100)
    readings = {"throttle_status": [400, 429, 503][seed % 3], "retry_after_ms": [None, 20][seed % 2]}
    api = ["GetMetrics", "DescribeMetricList"][seed % 2]
    async with emulated(fleet, faults, readings=readings, metrics_api=api) as (collector, fleet, jobs):
        result = await collector.collect(jobs)
    assert sum(faults.injected.values()) > 0
    failed = {target for failure in result.failures for target in failure.targets}
    # Asking again mends all but a proxy's page in place of the answer.
    errors = [type(failure.error) for failure in result.failures]
    assert set(errors) <= {mb.DecodeError}
    assert len(errors) <= faults.injected["html"]
    check_truth(result, fleet, failed)


async def test_an_empty_answer_is_no_data_and_never_zero() -> None:
    faults = Faults(rates={"empty": 1.0}, most_in_a_row=10**6)
    async with emulated(faults=faults) as (collector, _, jobs):
        result = await collector.collect(jobs, metrics=POD_METRICS)
    assert len(result.series) == 0
    assert result.complete
    assert {absence.reason for absence in result.absences} <= {"no-data", "not-started"}


@pytest.mark.parametrize("uncovered", ["empty", "error"])
async def test_a_job_whose_fields_leave_its_route_open_is_tried_once(uncovered: str) -> None:
    async with emulated(readings={"uncovered": uncovered}) as (collector, fleet, jobs):
        result = await collector.collect(jobs, metrics=["container.cpu.utilization"])
        routes = {job.id: job.payload.route for job in result.jobs if job.start_time_ms is not None}
    for job in fleet.jobs:
        if job.start_time_ms is not None and job.minute_count(NOW) > 3:
            wanted = "GetJobMetrics" if is_general(fleet, job) else "CloudMonitor"
            assert routes[job_ids(fleet)[job.id]] == wanted


@pytest.mark.parametrize(
    ("readings", "own"),
    [
        ({"time_at": "end"}, {"time_at": "end"}),
        ({"percent_of": "unit"}, {"percent_of": "unit"}),
        ({"megabyte": 1_048_576}, {"megabyte": 1_048_576}),
    ],
    ids=["time_at", "percent_of", "megabyte"],
)
async def test_each_reading_of_the_documents_can_be_set(readings: dict[str, Any], own: dict[str, Any]) -> None:
    async with emulated(readings=readings, **own) as (collector, fleet, _):
        general = [job for job in fleet.jobs if is_general(fleet, job) and job.minute_count(NOW) > 3]
        result = await collector.collect(
            [f"ali/{job_ids(fleet)[job.id]}" for job in general],
            metrics=["container.cpu.utilization", "container.disk.read.rate"],
        )
    assert result.complete
    for job in general:
        for key, times, values in result.series:
            if key.job == job_ids(fleet)[job.id]:
                task = job.tasks[pod_ids(fleet, job).index(key.task)]
                wire = fleet.wire_values(job, task, key.metric, times // MINUTE * MINUTE)
                assert (times % MINUTE == OFFSET).all()
                scale, slack = (100, 0.6e-4) if key.metric.endswith("utilization") else (1, 600)
                np.testing.assert_allclose(values, wire / scale, atol=slack, rtol=0)
    assert len(result.series) > 5


async def test_a_window_of_as_many_steps_as_one_answer_may_have_loses_nothing() -> None:
    fleet = Fleet(seed=4, now_ms=NOW, size=12)
    job = max([job for job in fleet.jobs if is_general(fleet, job)], key=lambda job: job.minute_count(NOW))
    minutes = job.minutes(NOW)
    assert len(minutes) > MOST_STEPS + 2
    cpu = "container.cpu.utilization"
    async with emulated(fleet, readings={"offset_ms": 0}) as (collector, _, _):
        for more in (0, 1):
            window = mb.Window(int(minutes[1]), int(minutes[1]) + (MOST_STEPS + more) * MINUTE)
            result = await collector.collect([f"ali/{job_ids(fleet)[job.id]}"], metrics=[cpu], window=window)
            assert result.complete
            assert len(result.series) == len(job.tasks)
            for key, times, _ in result.series:
                task = job.tasks[pod_ids(fleet, job).index(key.task)]
                wanted = minutes[(minutes >= window.start_ms) & (minutes < window.end_ms)]
                there = ~np.isnan(fleet.wire_values(job, task, cpu, wanted))
                assert there.sum() > MOST_STEPS // 2
                assert times.tolist() == wanted[there].tolist()


async def test_a_coarser_step_gives_means_of_that_step() -> None:
    async with emulated() as (collector, fleet, jobs):
        result = await collector.collect(jobs, metrics=["container.cpu.utilization"], step="20m")
    general = {job_ids(fleet)[job.id]: is_general(fleet, job) for job in fleet.jobs}
    assert {(general[key.job], ms) for key, ms in zip(result.series.keys, result.series.interval_ms, strict=True)} == {
        (True, 15 * MINUTE), (False, 15 * MINUTE),
    }  # fmt: skip


async def test_a_temporary_key_that_was_rotated_is_found_when_the_old_one_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet, clock, faults = Fleet(now_ms=NOW, longest_minutes=30), FakeClock(NOW), Faults()
    names = ("access_key_id", "access_key_secret", "security_token")
    async with serve(create_app(fleet=fleet, faults=faults, now_ms=clock.now_ms)) as url:
        place = {name: value for name, value in settings(url).items() if name not in names}

        def rotate(number: int) -> None:
            for name in names:
                monkeypatch.setenv(f"ALIBABA_CLOUD_{name.upper()}", sts_settings(url, number)[name])

        rotate(0)
        async with mb.Collector({"ali": mb.open_provider("pai-dlc", clock=clock, **place)}, clock=clock) as collector:
            rotate(1)
            faults.script("", "", "expired-token")
            result = await collector.collect(f"ali/{job}" for job in job_ids(fleet).values())
    assert faults.injected["expired-token"] == 1
    assert result.complete
    assert check_truth(result, fleet) > 500


@pytest.mark.parametrize("wrong", ["access_key_secret", "access_key_id"])
async def test_a_wrong_key_gives_one_clear_message_that_does_not_show_it(wrong: str) -> None:
    async with emulated(**{wrong: "Wr0ng-value-of-mine"}) as (collector, _, jobs):
        result = await collector.collect(jobs[:3])
    messages = {str(failure.error) for failure in result.failures}
    assert len(result.failures) == 3
    assert all(isinstance(failure.error, mb.AuthenticationError) for failure in result.failures)
    assert all("check access_key_id" in message for message in messages)
    assert not any("Wr0ng" in message for message in messages)


@BOTH_APIS
@pytest.mark.parametrize("in_body", [False, True])
async def test_a_refusal_is_a_failure_also_where_cloudmonitor_tells_it_under_200(api: str, in_body: bool) -> None:
    fleet, clock = Fleet(now_ms=NOW, longest_minutes=30), FakeClock(NOW)
    job = next(j for j in fleet.jobs if not is_general(fleet, j) and j.device_kind == "gpu" and j.start_time_ms)
    query = mb.Query(window=mb.Window(NOW - 10 * MINUTE, NOW), metrics=(DUTY,), per="job")
    app = create_app(fleet=fleet, now_ms=clock.now_ms, refused_in_body=in_body)
    async with (
        serve(app) as url,
        mb.open_provider("pai-dlc", clock=clock, metrics_api=api, **settings(url)) as provider,
    ):
        (call,) = provider.plan(await provider.get_job(job_ids(fleet)[job.id]), query)
        with pytest.raises(mb.InvalidRequestError) as caught:
            await provider.fetch(replace(call, payload=attrs.evolve(call.payload, period_s=7)))
    assert caught.value.status == (200 if in_body else 400)
    assert caught.value.code == "InvalidParameter"


async def test_a_vendors_metric_is_read_by_its_name_in_its_own_unit() -> None:
    async with emulated() as (collector, _, jobs):
        result = await collector.collect(
            jobs, metrics=["vendor.pai-dlc.CARD_GPU_PCIE_RECEIVE", "vendor.pai-dlc.NO_SUCH"], per="device"
        )
    assert set(result.series.unit) == {"MiB/s"}
    assert {key.metric for key in result.series.keys} == {"vendor.pai-dlc.CARD_GPU_PCIE_RECEIVE"}
    assert all(absence.reason != "no-data" for absence in result.absences if "NO_SUCH" in absence.metrics[0])
