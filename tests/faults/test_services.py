"""What services, gateways and proxies answer when something is wrong, each kind at each provider, in process."""

from __future__ import annotations

import json
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest
from msgspec.structs import replace

import metricsbridge as mb
from emulated_clouds import CLOUDS, Cloud
from fake_provider import account
from fault_combinations import PASSWORDS, repeatable, told
from in_process import URL, handler_of
from metricsbridge.testing import FakeClock, FakeTransport
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from mishaps import Mishaps
from prometheus_api import START as PROMETHEUS_START
from prometheus_api import URL as PROMETHEUS_URL
from prometheus_api import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from metricsbridge.http import Request, Response

    Handler = Callable[[Request], Any]

FLEET: Final = Fleet(longest_minutes=60)
JOBS: Final = (FLEET.jobs[1], FLEET.jobs[7])
"""One that ended and one that runs, both on several workers with GPUs."""

CPU: Final = "container.cpu.utilization"
ATTEMPTS: Final = 7
BY_NAME: Final = {cloud.provider: cloud for cloud in CLOUDS}
NAMES: Final = (*BY_NAME, "prometheus")

BECOMES: Final = {
    "refused": mb.TransportError,
    "lost": mb.TransportError,
    "hanging": mb.TransportError,
    "distrusted": mb.TlsError,
    "too large": mb.ResponseTooLargeError,
    "cut": mb.DecodeError,
    "nested": mb.DecodeError,
    "proxy page": mb.DecodeError,
    "no object": mb.DecodeError,
    "proxy failure": mb.ServiceUnavailableError,
    "proxy sign-in": mb.InvalidRequestError,
    "redirected": mb.InvalidRequestError,
    "unauthorized": mb.AuthenticationError,
    "forbidden": mb.PermissionDeniedError,
    "bug": mb.ProviderError,
    "foreign cancellation": mb.ProviderError,
}
"""Mishap to what a call that always meets it fails with."""


@attrs.frozen(kw_only=True)
class Source:
    """One provider over its service in process.

    Attributes:
        collector: Has it as the source ``x``.
        jobs: As it describes them.
        mishaps: What goes wrong on the way, at first nothing.
        clock: Everybody's, but for the service's own where that is skewed.
        sent: Every request.
    """

    collector: mb.Collector
    jobs: list[mb.Job]
    mishaps: Mishaps
    clock: FakeClock
    sent: list[Request]
    metric: str

    async def collect(self) -> mb.Collection:
        return await self.collector.collect(self.jobs, metrics=[self.metric])


@asynccontextmanager
async def source(
    name: str,
    *,
    faults: Faults | None = None,
    login: bool = False,
    change: Callable[[Response], Response] | None = None,
) -> AsyncIterator[Source]:
    """Open it and describe its jobs, all well; ``change`` is done to each answer from then on."""
    clock = FakeClock(FLEET.now_ms if name in BY_NAME else PROMETHEUS_START + 600_000)
    described = False

    def changed(handler: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            answer = handler(request)
            answer = answer if name not in BY_NAME else await answer
            return answer if change is None or not described else change(answer)

        return handle

    if name in BY_NAME:
        cloud = BY_NAME[name]
        app = cloud.create(fleet=FLEET, faults=faults or Faults(), now_ms=clock.now_ms)
        app.freeze()
        settings = (PASSWORDS[name] if login else app[EMULATOR].settings)(URL)
        handler, ids = handler_of(app), [cloud.job_ids(FLEET)[job.id] for job in JOBS]
    else:
        settings, handler, ids = {"url": PROMETHEUS_URL, "bearer_token": "t" * 40}, Api(), ["n/lab"]
    mishaps = Mishaps(rates={}, seed=0, most_in_a_row=1_000)
    transport = FakeTransport(mishaps.around(changed(handler), clock), clock=clock)
    with repeatable(0):
        provider = mb.open_provider(name, transport=transport, clock=clock, **settings)
        async with mb.Collector({"x": provider}, clock=clock) as collector:
            first = await collector.collect([f"x/{id}" for id in ids], metrics=[CPU])
            described = True
            yield Source(
                collector=collector, jobs=list(first.jobs), mishaps=mishaps, clock=clock,
                sent=transport.requests, metric=CPU if name in BY_NAME else "container.memory.working_set",
            )  # fmt: skip


def same(one: mb.SeriesBatch, other: mb.SeriesBatch) -> bool:
    return one.keys == other.keys and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name == "values")
        for name in ("offsets", "times", "values")
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", BECOMES)
async def test_a_call_that_always_meets_it_fails_with_its_class(kind: str, name: str) -> None:
    async with source(name) as opened:
        whole = await opened.collect()
        assert whole.complete
        units = account(whole)[0] | account(whole)[1]
        opened.mishaps.rates = {kind: 1.0}
        result = await opened.collect()
        assert account(result) == (set(), set(), units)
        assert {type(failure.error) for failure in result.failures} == {BECOMES[kind]}
        told([failure.error for failure in result.failures], ["t" * 40])
        retried = BECOMES[kind].retried
        assert {failure.attempts for failure in result.failures} == {ATTEMPTS if retried else 1}
        opened.mishaps.rates = {}
        opened.clock.advance(3_600)
        assert (await opened.collect()).complete


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["refused", "lost", "hanging", "proxy failure"])
async def test_what_passes_before_the_attempts_are_spent_loses_nothing(kind: str, name: str) -> None:
    async with source(name) as opened:
        whole = await opened.collect()
        opened.mishaps.rates = {kind: 1.0}
        opened.mishaps.most_in_a_row = ATTEMPTS - 1
        result = await opened.collect()
        assert result.complete
        assert opened.mishaps.met[kind] >= ATTEMPTS - 1
        assert set(account(whole)[0]) <= set(account(result)[0])


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
async def test_a_storm_of_429_is_waited_out_and_not_fed(cloud: Cloud) -> None:
    faults = Faults(retry_after_s=20, most_in_a_row=3)
    async with source(cloud.provider, faults=faults) as opened:
        whole = await opened.collect()
        sent, began = len(opened.sent), opened.clock.monotonic()
        faults.rates = {"throttle": 1.0}
        result = await opened.collect()
        assert result.complete
        assert account(result)[0] == account(whole)[0]
        assert faults.injected["throttle"] >= 3
        assert len(opened.sent) - sent == faults.injected["throttle"] + len(calls(whole))
        assert opened.clock.monotonic() - began >= 3 * (20 if cloud.provider != "pai-dlc" else 0)


def calls(result: mb.Collection) -> set[Any]:
    """Give what a cloud is asked for one call each: v2, v1 and Open Telekom Cloud by task, PAI-DLC by job."""
    per_job = any(key.job.startswith("dlc") for key in result.series.keys)
    return {(key.job, "" if per_job else key.task) for key in result.series.keys}


@pytest.mark.parametrize("name", PASSWORDS)
async def test_a_401_in_the_middle_is_one_log_in_and_loses_nothing(name: str) -> None:
    faults = Faults()
    async with source(name, faults=faults, login=True) as opened:
        whole = await opened.collect()
        faults.script("", "", "expired-token")
        sent = len(opened.sent)
        result = await opened.collect()
        assert faults.injected["expired-token"] == 1
        assert same(result.series, whole.series)
        log_ins = [request for request in opened.sent[sent:] if "Token" in request.operation]
        assert len(log_ins) == 1


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
@pytest.mark.parametrize("skew_s", [-3_600, 3_600])
async def test_a_clock_that_is_wrong_is_named_in_the_advice(cloud: Cloud, skew_s: int) -> None:
    clock = FakeClock(FLEET.now_ms)
    app = cloud.create(fleet=FLEET, now_ms=lambda: clock.now_ms() + skew_s * 1000)
    app.freeze()
    transport = FakeTransport(handler_of(app), clock=clock)
    provider = mb.open_provider(cloud.provider, transport=transport, clock=clock, **app[EMULATOR].settings(URL))
    async with mb.Collector({"x": provider}, clock=clock) as collector:
        result = await collector.collect(f"x/{cloud.job_ids(FLEET)[JOBS[0].id]}", metrics=[CPU])
    [failure] = result.failures
    assert type(failure.error) is mb.AuthenticationError
    assert "this machine's clock" in str(failure.error)
    assert failure.attempts == 1


def _points(document: Any) -> list[list[Any]]:
    """Give the lists of points with times of an answer of PAI-DLC, CloudMonitor or Prometheus."""
    if "PodMetrics" in document:
        return [pod["Metrics"] for pod in document["PodMetrics"]]
    return [series["values"] for series in document.get("data", {}).get("result", []) if "values" in series]


def _later(point: Any, seconds: int) -> Any:
    if isinstance(point, dict):
        return {**point, "Time": point["Time"] + seconds * 1000}
    return [point[0] + seconds, point[1]]


def _disordered(response: Response) -> Response:
    """Mix the points, send each twice, and add some of times to come and of years ago."""
    document = json.loads(response.body)
    dice = random.Random(1)
    for points in _points(document):
        if points:
            last = max(points, key=lambda point: point["Time"] if isinstance(point, dict) else point[0])
            points += [*points, _later(last, 86_400), _later(last, 7 * 86_400), _later(last, -3 * 365 * 86_400)]
            dice.shuffle(points)
    return replace(response, body=json.dumps(document).encode())


@pytest.mark.parametrize("name", ["pai-dlc", "prometheus"])
async def test_points_that_are_double_disordered_or_of_the_future_change_nothing(name: str) -> None:
    async with source(name) as opened:
        whole = await opened.collect()
    async with source(name, change=_disordered) as opened:
        result = await opened.collect()
        window = (FLEET.now_ms if name in BY_NAME else opened.clock.now_ms()) + 1
    assert len(whole.series.times)
    assert same(result.series, whole.series)
    assert result.series.times.max() < window
