"""Of a service with a hidden, changing rate nearly all is got, and next to nothing is refused."""

from __future__ import annotations

import anyio
import pytest

from hidden_limit import PHASES, RandomRefusals, SteppedClock, UnstalledClock, call_endlessly, measure, transport
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.testing import FakeClock


@pytest.mark.parametrize("latency_s", [0.02, 0.2])
@pytest.mark.parametrize("hint", [None, "1"])
async def test_nine_tenths_are_got_and_a_fiftieth_is_refused_at_most(latency_s: float, hint: str | None) -> None:
    found = await measure(PHASES, latency_s=latency_s, hint=hint)
    assert [phase.rate for phase in found] == [20, 5, 50]
    assert all(phase.good for phase in found), found


@pytest.mark.parametrize("later_s", [2.0, 5.0, 9.0])
async def test_it_does_not_matter_when_the_rate_changes(later_s: float) -> None:
    found = await measure([(60 + later_s, 20.0), (60 + later_s / 2, 5.0), (60, 50.0)], latency_s=0.1, seed=7)
    assert all(phase.good for phase in found), found


async def test_a_service_that_lets_two_hundred_through_is_not_held_to_the_twenty_it_begins_with() -> None:
    found = await measure([(30, 200.0)], latency_s=0.02)
    assert all(phase.good for phase in found), found


async def test_in_real_time_too() -> None:
    found = await measure([(20, 20.0), (20, 5.0)], latency_s=0.02, clock=UnstalledClock(SystemClock()))
    assert [phase.rate for phase in found] == [20, 5]
    assert all(phase.good for phase in found), found


async def test_the_unstalled_clock_goes_with_the_machines_but_for_stalls() -> None:
    machine = FakeClock()
    clock = UnstalledClock(machine)
    await clock.sleep(3.0)
    assert clock.monotonic() == pytest.approx(3.0)
    machine.advance(60.0)
    assert clock.monotonic() == pytest.approx(3.02)
    await clock.sleep(1.0)
    assert clock.monotonic() == pytest.approx(4.02)
    assert machine.monotonic() == pytest.approx(64.0)


async def test_the_stepped_clock_wakes_in_order_of_time() -> None:
    clock, woken = SteppedClock(), []

    async def nap(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with anyio.create_task_group() as tasks:
        for seconds in (3.0, 1.0, 2.0):
            tasks.start_soon(nap, seconds)
        await clock.drive(3.0)
    assert woken == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


@pytest.mark.parametrize(("share", "hint"), [(0.05, "1"), (0.15, None)])
async def test_refusals_at_random_do_not_slow_it_down_to_nothing(share: float, hint: str | None) -> None:
    """Of at least twenty a second nearly all that are let through come through, once that is found out."""
    clock, service = SteppedClock(), RandomRefusals(share)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call_endlessly, transport(service, clock, latency_s=0.02, hint=hint, seed=1))
        await clock.drive(240)
        tasks.cancel_scope.cancel()
    later = [taken for at, taken in service.answers if at >= 60]
    assert later.count(True) > 0.4 * 20 * (1 - share) * 180
