"""From the emulated service through real HTTP to columns: what is read is the truth, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import os
import random
import warnings
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest

import metricsbridge as mb
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from metricsbridge_modelarts.emulator import create_app, password_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = 1_760_000_012_345
CANONICAL = [name for name in mb.METRICS if name.endswith("utilization")]


@asynccontextmanager
async def emulated(
    fleet: Fleet | None = None,
    faults: Faults | None = None,
    *,
    by_password: bool = False,
    wrong: str | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[mb.Collector, Fleet, str]]:
    fleet = Fleet(now_ms=NOW, longest_minutes=300) if fleet is None else fleet
    clock = FakeClock(fleet.now_ms)
    app = create_app(fleet=fleet, faults=faults, now_ms=clock.now_ms)
    async with serve(app) as url:
        known = dict(password_settings(url) if by_password else app[EMULATOR].settings(url))
        if wrong is not None:
            known["password" if by_password else "secret_key"] = wrong
        provider = mb.open_provider("modelarts", clock=clock, **{**known, **settings})
        async with mb.Collector({"hw": provider}, clock=clock) as collector:
            yield collector, fleet, url


def check_truth(result: mb.Collection, fleet: Fleet, *, failed: set[tuple[str, str]] = frozenset()) -> int:
    """Compare everything delivered with the truth, and everything else with its absence; gives how many values."""
    series = {(key.job, key.task, key.metric): (times, values) for key, times, values in result.series}
    absent = {(*target, metric) for a in result.absences for target in a.targets for metric in a.metrics}
    compared = 0
    for job in fleet.jobs:
        for task in job.tasks:
            for metric in CANONICAL:
                unit = (job.id, task, metric)
                if (job.id, task) in failed or (job.id, "") in failed:
                    assert unit not in series
                    assert unit not in absent
                    continue
                minutes = job.minutes(result.as_of_ms)
                truth = fleet.truth_values(job, task, metric, minutes)
                if unit not in series:
                    assert unit in absent
                    # A value of the minute that has just become complete may not have been there yet.
                    assert np.isnan(truth[:-1]).all()
                    continue
                times, values = series[unit]
                served = len(times)
                assert len(minutes) - served in ((0,) if job.end_time_ms is not None else (0, 1))
                assert times.tolist() == minutes[:served].tolist()
                assert np.array_equal(values, truth[:served], equal_nan=True)
                compared += served
    return compared


async def test_what_is_collected_equals_the_truth_for_every_job_task_metric_and_minute() -> None:
    async with emulated(Fleet(seed=7, now_ms=NOW)) as (collector, fleet, _):
        jobs = [job async for job in collector.list_jobs("hw")]
        assert {job.id for job in jobs} == {job.id for job in fleet.jobs}
        result = await collector.collect(f"hw/{job.id}" for job in fleet.jobs)
    assert result.complete
    assert check_truth(result, fleet) > 10_000


@pytest.mark.parametrize("seed", range(8))
async def test_the_truth_survives_any_mix_of_faults_and_nothing_is_lost_silently(seed: int) -> None:
    dice = random.Random(seed)
    kinds = ["throttle", "unavailable", "error", "reset", "slow", "truncated", "html", "expired-token"]
    rates = {kind: dice.uniform(0, 0.15) for kind in dice.sample(kinds, 4)}
    faults = Faults(rates=rates, seed=seed, retry_after_s=0)
    fleet = Fleet(seed=seed, now_ms=NOW, longest_minutes=200)
    async with emulated(fleet, faults, by_password=seed % 2 == 0) as (collector, fleet, _):
        result = await collector.collect(f"hw/{job.id}" for job in fleet.jobs)
    assert sum(faults.injected.values()) > 0
    failed = {target for failure in result.failures for target in failure.targets}
    # Asking again mends all but a proxy's page in place of the answer, and two revoked tokens in a row.
    errors = [type(failure.error) for failure in result.failures]
    assert set(errors) <= {mb.DecodeError, mb.AuthenticationError}
    assert errors.count(mb.DecodeError) <= faults.injected["html"]
    assert faults.injected["expired-token"] > 1 or mb.AuthenticationError not in errors
    check_truth(result, fleet, failed=failed)


async def test_metrics_that_are_not_ready_are_absent_and_never_zero() -> None:
    faults = Faults(rates={"not-ready": 1.0}, most_in_a_row=10**6)
    async with emulated(faults=faults) as (collector, fleet, _):
        job = next(job for job in fleet.jobs if job.status is mb.JobStatus.SUCCEEDED)
        result = await collector.collect(f"hw/{job.id}")
    assert len(result.series) == 0
    assert {absence.reason for absence in result.absences} <= {"no-data", "outside-retention"}
    assert result.complete


async def test_a_long_job_of_which_only_the_last_days_are_kept_is_anchored_at_its_end() -> None:
    start = SystemClock().now_ms()
    fleet = Fleet(seed=3, now_ms=start, longest_minutes=8000)
    app = create_app(fleet=fleet, now_ms=lambda: start, retention_minutes=3 * 1440)
    async with serve(app) as url, mb.open_provider("modelarts", **app[EMULATOR].settings(url)) as provider:
        job = max((j for j in fleet.jobs if j.end_time_ms is None and j.start_time_ms), key=lambda j: -j.start_time_ms)
        described = await provider.get_job(job.id)
        query = mb.Query(window=mb.Window(job.start_time_ms // 60_000 * 60_000, start), metrics=(CANONICAL[0],))
        batch = await provider.fetch(provider.plan(described, query)[0])
    assert job.minute_count(start) > 3 * 1440 + 5
    assert len(batch.times) <= 3 * 1440
    assert set(batch.time_error_ms) == {120_000}


async def test_a_token_is_obtained_once_and_renewed_when_it_is_refused() -> None:
    faults = Faults()
    faults.script(*[""] * 20, "expired-token", *[""] * 30, "expired-token")
    async with emulated(faults=faults, by_password=True) as (collector, fleet, _):
        result = await collector.collect(f"hw/{job.id}" for job in fleet.jobs)
    assert faults.injected["expired-token"] == 2
    assert result.complete
    assert check_truth(result, fleet) > 1000


async def test_the_project_is_looked_up_where_it_is_not_given() -> None:
    async with emulated(project_id=None) as (collector, fleet, _):
        assert (await collector.collect(f"hw/{fleet.jobs[0].id}")).complete


async def test_keys_are_found_where_the_vendors_tools_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    app = create_app()
    async with serve(app) as url:
        known = app[EMULATOR].settings(url)
        place = {"region": known["region"], "endpoint": url, "iam_endpoint": url}
        job_id = app[EMULATOR].jobs[0]
        monkeypatch.setenv("HUAWEICLOUD_SDK_CREDENTIALS_FILE", str(tmp_path / "profile"))
        with pytest.raises(mb.ConfigurationError, match="HUAWEICLOUD_SDK_AK"):
            async with mb.open_provider("modelarts", **place):
                pass
        (tmp_path / "profile").write_text(
            f"[basic]\nak = {known['access_key']}\nsk = {known['secret_key']}\nproject_id = {known['project_id']}\n"
        )
        async with mb.open_provider("modelarts", **place) as provider:
            assert (await provider.get_job(job_id)).id == job_id
        (tmp_path / "profile").unlink()
        monkeypatch.setenv("HUAWEICLOUD_SDK_AK", known["access_key"])
        monkeypatch.setenv("HUAWEICLOUD_SDK_SK", known["secret_key"])
        async with mb.open_provider("modelarts", **place) as provider:
            assert (await provider.get_job(job_id)).id == job_id


@pytest.mark.parametrize("password", [False, True])
async def test_a_wrong_secret_gives_one_clear_message_that_does_not_show_it(password: bool) -> None:
    async with emulated(by_password=password, wrong="Wr0ng-S3cret-value") as (collector, fleet, _):
        result = await collector.collect(f"hw/{job.id}" for job in fleet.jobs[:3])
    messages = {str(failure.error) for failure in result.failures}
    assert len(result.failures) == 3
    assert all(isinstance(failure.error, mb.AuthenticationError) for failure in result.failures)
    assert all("check access_key and secret_key" in message for message in messages)
    assert not any("Wr0ng" in message for message in messages)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"region": "cn-nroth-4"}, "did you mean 'cn-north-4'"), ({"region": None}, "set region"),
        ({"project": "x"}, "did you mean project_id"), ({"timeout": "soon"}, "timeout: expected a number, got text"),
        ({"limits": {"X": "fast"}}, "'50/s'"), ({"access_key": "AK"}, "set secret_key"),
        ({"username": "me"}, "set password, domain_name"), ({"anchor": "middle"}, "anchor"),
        ({"endpoint": "ftp://x"}, "endpoint"), ({"ca_file": "/no/such/file.pem"}, "ca_file"),
    ],
)  # fmt: skip
async def test_a_bad_setting_says_what_to_write_before_anything_is_sent(
    settings: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {} if {"access_key", "username"} & settings.keys() else {"access_key": "AK", "secret_key": "S3CRET-never"}
    given = {"region": "cn-north-4", "project_id": "p", **keys, **settings}
    with pytest.raises(mb.ConfigurationError, match=says) as caught:
        async with mb.open_provider("modelarts", **given):
            pass
    assert "S3CRET" not in str(caught.value) + repr(caught.value.__cause__)


def open_sockets() -> int:
    return sum(1 for fd in os.listdir("/proc/self/fd") if _is_socket(fd))


def _is_socket(fd: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open sockets are counted through /proc")
async def test_ending_a_collection_at_any_point_leaves_nothing_behind() -> None:
    """200 times: cancelled, timed out, or a stream left, each at a random point; no task, socket or warning is left."""
    dice = random.Random(20)
    faults = Faults(rates={"slow": 0.2, "throttle": 0.1, "reset": 0.1}, retry_after_s=0)
    app = create_app(fleet=Fleet(now_ms=SystemClock().now_ms(), longest_minutes=60), faults=faults)
    jobs = [f"hw/{job}" for job in app[EMULATOR].jobs]
    ended_early = 0

    async def end(turn: int, after_s: float) -> None:
        nonlocal ended_early
        early = await _collect_some(settings, jobs, ["cancel", "timeout", "leave"][turn % 3], after_s)
        ended_early += early

    async with serve(app) as url:
        settings = app[EMULATOR].settings(url)
        await _collect_some(settings, jobs, "timeout", 5.0)
        await anyio.wait_all_tasks_blocked()
        tasks, sockets = len(asyncio.all_tasks()), open_sockets()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for first in range(0, 200, 20):
                async with anyio.create_task_group() as group:
                    for turn in range(first, first + 20):
                        group.start_soon(end, turn, dice.random() * 0.12)
        with anyio.fail_after(10):
            while len(asyncio.all_tasks()) > tasks or open_sockets() > sockets:
                await anyio.lowlevel.checkpoint()
    assert ended_early > 100


async def _collect_some(settings: dict[str, Any], jobs: list[str], how: str, after_s: float) -> bool:
    async with mb.Collector({"hw": mb.open_provider("modelarts", **settings)}) as collector:
        if how == "timeout":
            result = await collector.collect(jobs, timeout=after_s)
            return any(isinstance(failure.error, mb.DeadlineExceededError) for failure in result.failures)
        with anyio.move_on_after(after_s if how == "cancel" else 5) as scope:
            if how == "cancel":
                await collector.collect(jobs)
            else:
                left = after_s * 1000
                async with collector.stream(jobs) as parts:
                    async for part in parts:
                        left -= len(part.series) + len(part.jobs)
                        if left < 0:
                            return True
        return scope.cancelled_caught
