"""Limits hold, are shared, and are released on cancellation."""

from __future__ import annotations

import math

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.errors import ThrottledError
from metricsbridge.http import Request, Response
from metricsbridge.protocols import Rate
from metricsbridge.runtime._context import CURRENT, CallContext
from metricsbridge.runtime._limits import LimitTransport, Quota, RateController
from metricsbridge.testing import FakeClock


async def starts(controller: RateController, clock: FakeClock, count: int) -> list[float]:
    found: list[float] = []

    async def one() -> None:
        await controller.acquire(clock)
        found.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    return found


@given(st.floats(0.5, 500), st.integers(1, 40))
async def test_limit_is_never_exceeded(rate: float, count: int) -> None:
    found = await starts(RateController(rate), FakeClock(), count)
    for first, last in zip(found, found[max(1, math.ceil(rate)) :], strict=False):
        assert last - first >= math.ceil(rate) / rate - 0.002
    assert found[-1] <= (count - 1) / rate + 0.002


async def test_without_a_limit_nobody_waits() -> None:
    assert await starts(RateController(math.inf), FakeClock(), 100) == [0.0] * 100


async def test_a_pause_holds_everyone_back() -> None:
    clock, controller = FakeClock(), RateController(50)
    controller.throttle.refused(0.0, None, 7)
    found = await starts(controller, clock, 3)
    assert found[0] == 7.0
    assert found == sorted(found)


async def test_a_waiter_that_is_cancelled_gives_its_slot_back() -> None:
    clock, controller = FakeClock(), RateController(1)
    await controller.acquire(clock)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await controller.acquire(clock)
    await controller.acquire(clock)
    assert clock.monotonic() == 1.0


def test_of_two_rates_for_one_account_the_lower_holds() -> None:
    quota = Quota()
    controller = quota.controller("me", "Op", 50)
    assert quota.controller("me", "Op", 10) is controller
    assert controller.per_second == pytest.approx(10)
    assert quota.controller("me", "Op", 90).per_second == pytest.approx(10)
    assert quota.controller("you", "Op", 90) is not controller
    assert quota.controller("me", "Other", 90) is not controller


class Service:
    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)

    async def send(self, request: Request, /) -> Response:
        if self.failures:
            raise self.failures.pop()
        return Response(200)


def limited(service: Service, clock: FakeClock, quota: Quota, account: str = "me", **rates: str) -> LimitTransport:
    parsed = {name.replace("any", "*"): Rate.parse(rate) for name, rate in rates.items()}
    return LimitTransport(service, account, parsed, quota, clock)


async def test_each_operation_has_its_own_limit_and_the_star_covers_the_rest() -> None:
    clock = FakeClock()
    transport = limited(Service(), clock, Quota(), Slow="1/s", any="10/s")
    for _ in range(2):
        await transport.send(Request("GET", "http://x", operation="Slow"))
    assert clock.monotonic() == 1.0
    for _ in range(3):
        await transport.send(Request("GET", "http://x", operation="Quick"))
    assert clock.monotonic() == pytest.approx(1.2)


async def test_after_a_throttle_answer_the_operation_pauses_for_everyone_who_shares_the_quota() -> None:
    clock, quota = FakeClock(), Quota()
    ask = Request("GET", "http://x", operation="Op")
    with pytest.raises(ThrottledError):
        await limited(Service(ThrottledError("no", retry_after_s=5)), clock, quota).send(ask)
    await limited(Service(), clock, quota, account="you").send(ask)
    assert clock.monotonic() == 0
    await limited(Service(), clock, quota).send(ask)
    assert clock.monotonic() == 5


async def test_the_quota_of_the_collection_takes_the_place_of_the_providers() -> None:
    clock, shared = FakeClock(), Quota()
    token = CURRENT.set(CallContext(shared, clock))
    try:
        for transport in (limited(Service(), clock, Quota(), Op="1/s"), limited(Service(), clock, Quota(), Op="1/s")):
            await transport.send(Request("GET", "http://x", operation="Op"))
    finally:
        CURRENT.reset(token)
    assert clock.monotonic() == 1.0
    assert shared.controller("me", "Op", math.inf).per_second == pytest.approx(1)


async def test_nobody_sleeps_through_a_pause_that_is_too_long() -> None:
    clock, quota = FakeClock(), Quota()
    ask = Request("GET", "http://x", operation="Op")
    with pytest.raises(ThrottledError):
        await limited(Service(ThrottledError("no", retry_after_s=86_400)), clock, quota).send(ask)
    with pytest.raises(ThrottledError, match="86400 s") as caught:
        await limited(Service(), clock, quota).send(ask)
    assert caught.value.retry_after_s == 86_400
    assert clock.monotonic() == 0


async def test_nothing_bursts_when_a_pause_ends() -> None:
    clock, controller = FakeClock(), RateController(10)
    await controller.acquire(clock)
    controller.throttle.refused(clock.monotonic(), None, 10)
    found = await starts(controller, clock, 40)
    assert min(found) >= 10
    for first, last in zip(found, found[10:], strict=False):
        assert last - first >= 1 - 0.002
