"""Limits hold, are shared, and are released on cancellation."""

from __future__ import annotations

import math
import sys

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hidden_limit import SteppedClock
from metricsbridge.errors import NotFoundError, ServiceUnavailableError, ThrottledError
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


async def test_who_came_first_goes_first_also_where_others_give_up() -> None:
    clock, controller, went = FakeClock(), RateController(2), []
    scopes = [anyio.CancelScope() for _ in range(9)]

    async def one(number: int) -> None:
        with scopes[number]:
            await controller.acquire(clock)
            went.append((number, clock.monotonic()))
            if number == 2:
                for other in (3, 6, 8):  # the next, one in the middle, the last
                    scopes[other].cancel()

    async with anyio.create_task_group() as tasks:
        for number in range(9):
            tasks.start_soon(one, number)
    assert went == [(0, 0.0), (1, 0.5), (2, 1.0), (4, 1.5), (5, 2.0), (7, 2.5)]
    assert not controller._queue


async def test_a_pause_that_begins_while_others_wait_holds_them_too() -> None:
    clock, controller, went = FakeClock(), RateController(1), []

    async def one() -> None:
        await controller.acquire(clock)
        went.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
        await clock.sleep(0.5)
        controller.throttle.refused(0.5, 0.0, 20)
    assert went[0] == 0.0
    assert went[1] == 20.5


async def test_an_answer_lets_the_first_who_waits_go_at_once() -> None:
    clock, controller = FakeClock(), RateController(None)
    for _ in range(10):
        await controller.acquire(clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(controller.acquire, clock)
        await anyio.lowlevel.checkpoint()
        controller.accepted(clock, 0.0)
    assert clock.monotonic() < 0.05


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


async def test_a_pause_of_years_ends_after_an_hour_for_everyone() -> None:
    clock, quota = FakeClock(), Quota()
    ask, years = Request("GET", "http://x", operation="Op"), ThrottledError("no", retry_after_s=1e9)
    for hour in range(2):
        with pytest.raises(ThrottledError, match=r"^no$"):  # the service's own word: it was asked
            await limited(Service(years), clock, quota).send(ask)
        clock.advance(3_540)
        with pytest.raises(ThrottledError, match="wait for 999996460 s more: it is asked again in 60 s"):
            await limited(Service(), clock, quota).send(ask)
        assert clock.monotonic() == 3_600 * hour + 3_540
        clock.advance(60)
    assert (await limited(Service(), clock, quota).send(ask)).status == 200
    assert clock.monotonic() == 7_200


async def test_nothing_bursts_when_a_pause_ends() -> None:
    clock, controller = FakeClock(), RateController(10)
    await controller.acquire(clock)
    controller.throttle.refused(clock.monotonic(), None, 10)
    found = await starts(controller, clock, 40)
    assert min(found) >= 10
    for first, last in zip(found, found[10:], strict=False):
        assert last - first >= 1 - 0.002


async def test_what_is_refused_for_other_reasons_was_let_through_and_a_broken_service_says_nothing() -> None:
    clock, quota = FakeClock(), Quota()
    ask = Request("GET", "http://x", operation="Op")
    counted = quota.controller("me", "Op", None).throttle
    for error, count in ((NotFoundError("no", status=404), 1), (ServiceUnavailableError("no", status=503), 1)):
        with pytest.raises(type(error)):
            await limited(Service(error), clock, quota).send(ask)
        assert counted.count == count


async def test_the_refusal_of_another_operation_slows_nothing() -> None:
    clock, quota = FakeClock(), Quota()
    error = ThrottledError("no", retry_after_s=60)
    error.retried = False  # type: ignore[misc]  # as the credential store marks the log-in's
    with pytest.raises(ThrottledError):
        await limited(Service(error), clock, quota).send(Request("GET", "http://x", operation="Op"))
    assert quota.controller("me", "Op", None).throttle.pause_s(clock.monotonic()) == 0


async def test_what_was_learned_is_shared_with_the_quota() -> None:
    clock, quota = FakeClock(), Quota()
    ask = Request("GET", "http://x", operation="Op")
    with pytest.raises(ThrottledError):
        await limited(Service(ThrottledError("no")), clock, quota, Op="40/s").send(ask)
    assert quota.controller("me", "Op", None).per_second < 30
    assert quota.controller("me", "Other", None).per_second == 20


class Fast:
    """Answers after some time, as often as it is asked."""

    def __init__(self, clock: SteppedClock | FakeClock, latency_s: float) -> None:
        self.clock = clock
        self.latency_s = latency_s

    async def send(self, request: Request, /) -> Response:
        await self.clock.sleep(self.latency_s)
        return Response(200)


async def fan_out(calls: int, latency_s: float, rates: dict[str, Rate]) -> list[float]:
    """Give when each of so many calls was done, 64 of them under way at once."""
    clock = SteppedClock()
    transport = LimitTransport(Fast(clock, latency_s), "me", rates, Quota(), clock)
    left, done = iter(range(calls)), []

    async def work() -> None:
        for _ in left:
            await transport.send(Request("GET", "http://x", operation="Op"))
            done.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(work)
        await clock.drive(math.inf)
    return done


async def test_a_collection_of_64_calls_is_not_delayed_where_answers_come_at_once() -> None:
    clock = FakeClock()
    transport = limited(Service(), clock, Quota())
    async with anyio.create_task_group() as tasks:
        for _ in range(64):
            tasks.start_soon(transport.send, Request("GET", "http://x", operation="Op"))
    assert clock.monotonic() == 0


@pytest.mark.parametrize(("latency_s", "most_s"), [(0.002, 0.02), (0.02, 0.2), (0.2, 1.2), (5.0, 8.0)])
async def test_elsewhere_it_takes_a_few_round_trips_at_most(latency_s: float, most_s: float) -> None:
    assert max(await fan_out(64, latency_s, {})) <= most_s


@pytest.mark.parametrize("latency_s", [0.005, 0.04])
async def test_a_service_without_a_limit_loses_nothing_after_the_first_second(latency_s: float) -> None:
    free = await fan_out(4_000, latency_s, {"*": Rate(math.inf)})
    ours = await fan_out(4_000, latency_s, {})
    assert max(ours) <= max(free) * 1.03 + 0.6
    later = [at for at in ours if at >= 1]
    assert len(later) >= 0.97 * 64 / latency_s * (max(ours) - 1 - latency_s)


async def test_without_a_limit_a_call_costs_one_python_function_more_than_none_at_all() -> None:
    clock, service = FakeClock(), Service()
    transport = limited(service, clock, Quota(), any="unlimited")
    ask = Request("GET", "http://x", operation="Op")
    counts = []
    for sender in (service, transport):
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        await sender.send(ask)
        sys.setprofile(note)
        try:
            for _ in range(1_000):
                await sender.send(ask)
        finally:
            sys.setprofile(None)
        counts.append(count)
    assert counts[1] - counts[0] <= 1_100
