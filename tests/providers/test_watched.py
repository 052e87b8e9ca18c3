"""Watched through every cloud: an observer is told of what the cloud saw, and of no secret."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import metricsbridge as mb
from emulated_clouds import CLOUDS, Cloud
from in_process import URL, in_process
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from watched_service import Notes

FLEET = Fleet(seed=4, size=6)
SECRET_SETTINGS = ("key", "secret", "password", "token")


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
@pytest.mark.parametrize("rates", [{}, {"throttle": 0.1, "error": 0.1, "reset": 0.1}], ids=["well", "with faults"])
async def test_the_observer_is_told_of_what_the_cloud_saw_and_of_no_secret(cloud: Cloud, rates: Any) -> None:
    clock, notes = FakeClock(FLEET.now_ms), Notes()
    faults = Faults(rates=rates, seed=5, sleep=clock.sleep)
    app = cloud.create(fleet=FLEET, now_ms=clock.now_ms, faults=faults)
    transport, settings = in_process(app, clock), app[EMULATOR].settings(URL)
    source = mb.open_provider(cloud.provider, transport=transport, clock=clock, **settings)
    jobs = [f"x/{cloud.job_ids(FLEET)[job.id]}" for job in FLEET.jobs]
    async with mb.Collector({"x": source}, clock=clock, observer=notes) as collector:
        result = await collector.collect(jobs, window=mb.Window(FLEET.now_ms - 3_600_000, FLEET.now_ms))
    assert len(result.series)
    assert Counter((e.method, e.operation, e.url) for e in notes.requests) == Counter(
        (request.method, request.operation, request.url.partition("?")[0]) for request in transport.requests
    )
    assert Counter(e.error for e in notes.requests)["ThrottledError"] == faults.injected["throttle"]
    assert all(e.operation and e.source == "x" and e.provider == cloud.provider for e in notes.requests)
    assert {bool(e.error) for e in notes.requests} == ({False, True} if rates else {False})
    shown = repr((notes.requests, notes.calls))
    secrets = [v for k, v in settings.items() if isinstance(v, str) and k.endswith(SECRET_SETTINGS)]
    assert secrets
    assert [secret for secret in secrets if secret in shown] == []
    assert "?" not in shown


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
async def test_a_plan_names_the_operations_and_limits_that_its_calls_then_meet(cloud: Cloud) -> None:
    clock, notes = FakeClock(FLEET.now_ms), Notes()
    app = cloud.create(fleet=FLEET, now_ms=clock.now_ms)
    transport, settings = in_process(app, clock), app[EMULATOR].settings(URL)
    source = mb.open_provider(cloud.provider, transport=transport, clock=clock, **{**settings, "limits": {"*": "7/s"}})
    jobs = [f"x/{cloud.job_ids(FLEET)[job.id]}" for job in FLEET.jobs]
    async with mb.Collector({"x": source}, clock=clock, observer=notes) as collector:
        plan = await collector.plan(jobs)
        assert {event.operation for event in notes.calls} == {"get_job"}
        notes.calls.clear()
        await collector.collect(plan.jobs)
    sent = {event.call_id: event.operation for event in notes.requests}
    called = Counter(sent[event.call_id] for event in notes.calls)
    assert {each.operation: each.calls for each in plan.operations} == called
    assert {each.rate for each in plan.operations} == {mb.Rate(7)}
