"""From the emulated API v1 through real HTTP to columns: what is read is what was measured, however it is worded."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import metricsbridge as mb
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_modelarts import emulator_v1 as emulated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

FLEET = Fleet(now_ms=1_759_999_980_345, longest_minutes=300)  # early in a minute, which the waits do not outlast
IDS = emulated.job_ids(FLEET)
STARTED = [job for job in FLEET.jobs if job.start_time_ms is not None]
APPS = {"modelarts-v1": emulated.create_app, "otc-modelarts": emulated.create_otc_app}
DEFAULT = emulated.Readings()
BOTH = pytest.mark.parametrize("name", APPS)


@asynccontextmanager
async def served(
    name: str, faults: Faults | None = None, settings: dict[str, Any] | None = None, **readings: Any
) -> AsyncIterator[tuple[mb.Collector, web.Application]]:
    clock = FakeClock(FLEET.now_ms)
    app = APPS[name](fleet=FLEET, faults=faults, now_ms=clock.now_ms, **readings)
    async with serve(app) as url:
        known = {**app[EMULATOR].settings(url), **(settings or {})}
        provider = mb.open_provider(name, clock=clock, **known)
        async with mb.Collector({"v1": provider}, clock=clock) as collector:
            yield collector, app


async def collected(
    name: str = "modelarts-v1", *, per: mb.Level = "task", settings: dict[str, Any] | None = None, **readings: Any
) -> mb.Collection:
    async with served(name, None, settings, **readings) as (collector, _):
        return await collector.collect([f"v1/{IDS[job.id]}" for job in FLEET.jobs], per=per)


def check_truth(result: mb.Collection, per: mb.Level, readings: emulated.Readings = DEFAULT) -> int:
    """Compare every series with what was measured, and every one that is missing with its absence; counts values."""
    assert result.complete, result.failures
    series = {(key.job, key.task, key.device, key.metric): (times, values) for key, times, values in result.series}
    size, compared = readings.interval_minutes, 0
    for job in STARTED:
        minutes = emulated.served_minutes(job, FLEET.now_ms, readings)
        pods = dict(zip(emulated.pod_names(FLEET, job), job.tasks, strict=True))
        for metric in emulated.CANONICAL.values():
            for pod in [""] if per == "job" else pods:
                for card in range(job.devices) if per == "device" else [None]:
                    if per == "job":
                        truth = emulated.job_values(FLEET, job, metric, minutes, size=size)
                    else:
                        truth = emulated.pod_values(FLEET, job, pods[pod], metric, minutes, size=size, device=card)
                    found = series.pop((IDS[job.id], pod, "" if card is None else str(card), metric), None)
                    if np.isnan(truth).all():
                        assert found is None
                        continue
                    assert found is not None, (job.name, pod, card, metric)
                    assert found[0].tolist() == minutes[::size].tolist()
                    assert np.array_equal(found[1], [read(value, metric, readings) for value in truth], equal_nan=True)
                    compared += len(truth)
    assert series == {}
    return compared


def read(value: float, metric: str, readings: emulated.Readings) -> float:
    """Give what the text that the service writes for a number comes to."""
    if value != value:
        return value
    number = float(emulated.displayed(value, metric, readings) or "nan")
    return number * readings.bytes_per_unit(metric) if mb.METRICS[metric].unit == "By/s" else number / 100


@BOTH
@pytest.mark.parametrize("per", ["task", "device", "job"])
async def test_every_value_of_every_level_is_the_truth(name: str, per: mb.Level) -> None:
    assert check_truth(await collected(name, per=per), per) > 1000


@pytest.mark.parametrize("names", ["underscore", "plain", "dash", "bracket", "repeated", "nested"])
async def test_every_way_of_naming_cards_gives_the_same_cards(names: str) -> None:
    assert check_truth(await collected(per="device", device_names=names), "device") > 1000


@pytest.mark.parametrize("per", ["task", "job"])
@pytest.mark.parametrize("minutes", [1, 5, 7])
async def test_longer_intervals_are_means_at_their_own_times(per: mb.Level, minutes: int) -> None:
    readings = emulated.Readings(interval_minutes=minutes)
    result = await collected(per=per, interval_minutes=minutes)
    assert check_truth(result, per, readings) > 100
    assert set(result.series.interval_ms) == {minutes * MINUTE_MS}


@pytest.mark.parametrize("filler", ["0", "", None, "NaN"])
@pytest.mark.parametrize("document", ["object", "string"])
async def test_every_form_of_the_details_is_read(document: str, filler: str | None) -> None:
    result = await collected(per="job", system_metrics=document, filler=filler)
    assert check_truth(result, "job") > 1000


async def test_the_units_of_rates_are_what_is_set() -> None:
    readings = emulated.Readings(disk_rate_bytes=1024, network_rate_bytes=125)
    result = await collected(
        disk_rate_bytes=1024, network_rate_bytes=125, settings={"disk_rate_unit": 1024, "network_rate_unit": 125}
    )  # fmt: skip
    assert check_truth(result, "task", readings) > 1000


async def test_without_decimals_only_zeros_are_in_doubt() -> None:
    readings = emulated.Readings(decimals=False)
    result = await collected(decimals=False)
    measured = 0
    for job in STARTED:
        minutes = emulated.served_minutes(job, FLEET.now_ms, readings)
        pods = dict(zip(emulated.pod_names(FLEET, job), job.tasks, strict=True))
        for key, _, values in result.series:
            if key.job == IDS[job.id]:
                truth = emulated.pod_values(FLEET, job, pods[key.task], key.metric, minutes)
                expected = np.array([read(value, key.metric, readings) for value in truth])
                certain = expected > 0
                assert np.array_equal(values[certain], expected[certain])
                assert not np.any(values[~certain] > 0)
                measured += int(certain.sum())
    assert measured > 1000


@BOTH
async def test_where_pods_are_not_served_tasks_have_the_means_of_their_job(name: str) -> None:
    settings = {"pod_metrics": "no"} if name == "modelarts-v1" else {}
    result = await collected(name, settings=settings, pod_metrics=False)
    assert check_truth(result, "job") > 1000
    assert {key.task for key in result.series.keys} == {""}


@BOTH
async def test_a_failure_under_http_200_is_one_job_s(name: str) -> None:
    async with served(name, failure_status=200) as (collector, _):
        result = await collector.collect(["v1/1/2", f"v1/{IDS[STARTED[0].id]}"], metrics=["container.cpu.utilization"])
    (failure,) = result.failures
    assert isinstance(failure.error, mb.NotFoundError)
    assert {key.job for key in result.series.keys} == {IDS[STARTED[0].id]}


@BOTH
async def test_all_versions_are_listed_and_a_listed_one_can_be_collected(name: str) -> None:
    async with served(name) as (collector, app):
        jobs = [job async for job in collector.list_jobs("v1")]
        assert sorted(job.id for job in jobs) == sorted(app[EMULATOR].jobs)
        created = [job.create_time_ms for job in jobs]
        assert created == sorted(created, reverse=True)
        running = [job async for job in collector.list_jobs("v1", mb.JobSearch(status=["running"]))]
        assert {job.id for job in running} == {IDS[job.id] for job in FLEET.jobs if job.status == "running"}
        result = await collector.collect(running[-1:])
    assert {key.job for key in result.series.keys} == {running[-1].id}
    assert {key.task for key in result.series.keys} - {""}


async def test_jobs_and_devices_are_counted() -> None:
    async with served("otc-modelarts") as (collector, _):
        totals = await collector.job_totals("v1")
        failed = await collector.job_totals("v1", mb.JobSearch(status=["failed"]))
    for kind in ("gpu", "npu"):
        devices = sum(job.devices * len(job.tasks) for job in FLEET.jobs if job.device_kind == kind)
        assert sum(getattr(total, f"{kind}s") for total in totals) == devices
    assert sum(total.jobs for total in totals) == len(FLEET.jobs)
    assert {total.status for total in failed} == {mb.JobStatus.FAILED}
    assert sum(total.jobs for total in failed) == len([job for job in FLEET.jobs if job.status == "failed"])


@BOTH
@pytest.mark.parametrize("document", ["object", "string"])
async def test_evaluations_have_a_total_in_both_forms(name: str, document: str) -> None:
    ended = next(job for job in FLEET.jobs if job.status == "succeeded")
    async with served(name, model_metrics=document) as (collector, _):
        found = await collector.evaluations(f"v1/{IDS[ended.id]}")
    assert [evaluation.class_id for evaluation in found][-1] == ""
    assert all({*evaluation.metrics} == {"recall", "precision", "accuracy"} for evaluation in found)


@BOTH
async def test_what_goes_wrong_on_the_way_is_tried_again(name: str) -> None:
    faults = Faults(rates={"throttle": 0.05, "unavailable": 0.1, "error": 0.1}, seed=3)
    async with served(name, faults) as (collector, _):
        result = await collector.collect([f"v1/{IDS[job.id]}" for job in FLEET.jobs])
    assert check_truth(result, "task") > 1000
