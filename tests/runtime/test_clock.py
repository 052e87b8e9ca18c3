"""The fake clock keeps the order of time, and the system's clock really tells it."""

from __future__ import annotations

import math

import anyio
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.runtime._clock import SystemClock
from metricsbridge.runtime._context import Bound
from metricsbridge.testing import FakeClock


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=12))
async def test_sleepers_wake_in_the_order_of_their_times(naps: list[float]) -> None:
    clock = FakeClock()
    woken: list[tuple[float, float]] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with anyio.create_task_group() as tasks:
        for nap in naps:
            tasks.start_soon(sleep, nap)
    assert [nap for nap, _ in woken] == sorted(naps)
    assert all(at >= nap for nap, at in woken)
    assert clock.monotonic() == max(naps)


async def test_a_sleeper_that_is_cancelled_does_not_move_the_time() -> None:
    clock = FakeClock()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await clock.sleep(100)
    assert clock.monotonic() == 0


async def test_a_deadline_that_has_passed_already_lets_nothing_wait() -> None:
    clock = FakeClock()
    with clock.deadline(0) as scope:
        await clock.sleep(100)
    assert scope.cancelled_caught
    assert clock.monotonic() == 0


async def test_a_deadline_on_the_fake_clock_cancels_when_its_time_comes() -> None:
    clock = FakeClock()
    with clock.deadline(10) as scope:
        await clock.sleep(4)
        await clock.sleep(100)
    assert scope.cancelled_caught
    with clock.deadline(None) as scope:
        await clock.sleep(1e9)
    assert not scope.cancelled_caught


async def test_wall_clock_and_monotonic_time_move_together() -> None:
    clock = FakeClock(1_000_000)
    await clock.sleep(1.5)
    assert clock.now_ms() == 1_001_500


async def test_the_systems_clock_tells_the_time() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now_ms() > 1_700_000_000_000
    with clock.deadline(0) as scope:
        await clock.sleep(60)
    assert scope.cancelled_caught


async def test_a_deadline_can_be_moved_and_taken_away() -> None:
    clock = FakeClock()
    with clock.deadline(10) as scope:
        clock.move(scope, None)
        await clock.sleep(50)
        clock.move(scope, 5)
        await clock.sleep(4)
        await clock.sleep(100)
    assert scope.cancelled_caught
    assert clock.monotonic() == 55
    with clock.deadline(10) as scope:
        clock.move(scope, -1)
        await clock.sleep(1)
    assert scope.cancelled_caught
    assert clock.monotonic() == 55


async def test_a_deadline_of_the_systems_clock_can_be_moved_and_taken_away() -> None:
    clock = SystemClock()
    with clock.deadline(60) as scope:
        clock.move(scope, None)
        assert scope.deadline == math.inf
        clock.move(scope, 600)
        assert 540 < scope.deadline - anyio.current_time() <= 600
        clock.move(scope, 0)
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_of_a_call_no_time_passes_as_long_as_any_of_its_requests_waits_for_its_turn() -> None:
    clock = FakeClock()
    with clock.deadline(10) as scope:
        bound = Bound(clock, scope, clock.monotonic() + 10)
        for seconds, step in ((4, bound.stop), (90, bound.stop), (90, bound.go_on), (90, bound.go_on), (5, bound.stop)):
            await clock.sleep(seconds)
            step()
        assert bound.ends == math.inf
        bound.go_on()
        assert bound.ends == clock.monotonic() + 1
        await clock.sleep(100)
    assert scope.cancelled_caught
    assert clock.monotonic() == 4 + 270 + 5 + 1
