"""What a source may have in flight: requests, and bytes of large answers."""

from __future__ import annotations

import gc

import anyio
import pytest
from anyio.lowlevel import checkpoint

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, FakeProvider
from metricsbridge.runtime._room import BytesInFlight, Slots
from metricsbridge.testing import FakeClock


class Answer:
    """What lives as long as an answer does."""


async def settle() -> None:
    for _ in range(5):
        await checkpoint()


async def test_slots_are_given_on_in_the_order_of_asking() -> None:
    slots, entered = Slots(0), list[int]()

    async def enter(number: int) -> None:
        await slots.enter()
        entered.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(enter, number)
            await settle()
        for given in range(3):
            assert entered == [*range(given)]
            slots.leave()
            await settle()
    assert (entered, slots.free) == ([0, 1, 2], 0)
    slots.leave()
    assert slots.free == 1


async def test_who_is_cancelled_while_waiting_for_a_slot_holds_up_nobody() -> None:
    slots, entered = Slots(0), anyio.Event()

    async def enter() -> None:
        await slots.enter()
        entered.set()

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def give_up() -> None:
            with scope:
                await slots.enter()

        tasks.start_soon(give_up)
        await settle()
        tasks.start_soon(enter)
        await settle()
        scope.cancel()
        await settle()
        slots.leave()
        await entered.wait()
    assert not slots.waiting


async def test_a_slot_that_comes_together_with_a_cancellation_goes_on_to_the_next() -> None:
    slots, entered = Slots(0), anyio.Event()

    async def enter() -> None:
        await slots.enter()
        entered.set()

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def give_up() -> None:
            with scope:
                await slots.enter()
                slots.leave()  # where the slot came first

        tasks.start_soon(give_up)
        await settle()
        tasks.start_soon(enter)
        await settle()
        slots.leave()
        scope.cancel()
        await entered.wait()
    assert not slots.waiting


async def test_who_would_go_beyond_the_budget_waits_until_another_is_done() -> None:
    room, taken = BytesInFlight(100), anyio.Event()
    await room.take("first", 80)

    async def second() -> None:
        await room.take("second", 80)
        taken.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(second)
        await settle()
        assert (room.held, taken.is_set()) == (80, False)
        room.end("first", None)
        await taken.wait()
    assert room.held == 80


async def test_one_answer_may_be_larger_than_the_budget() -> None:
    room = BytesInFlight(100)
    with anyio.fail_after(5):
        await room.take("only", 1_000)
        await room.take("only", 1_000)
    assert room.held == 2_000


async def test_whoever_reads_the_longest_never_waits() -> None:
    room, done = BytesInFlight(100), list[int]()

    async def read(number: int) -> None:
        for _ in range(5):
            await room.take(number, 40)
            await checkpoint()
        room.end(number, None)
        done.append(number)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(read, number)
    assert (sorted(done), room.held) == ([*range(10)], 0)


async def test_bytes_are_held_as_long_as_the_answer_is() -> None:
    room = BytesInFlight(100)
    answer = Answer()
    await room.take("first", 80)
    room.end("first", answer)
    assert room.held == 80
    del answer
    gc.collect()
    assert room.held == 0


async def test_answers_that_are_held_for_ever_do_not_stop_the_reading() -> None:
    room, kept = BytesInFlight(100), []
    with anyio.fail_after(5):
        for number in range(4):
            await room.take(number, 80)
            kept.append(Answer())
            room.end(number, kept[-1])
    assert room.held == 320


async def test_a_reader_that_is_cancelled_while_it_waits_holds_nothing() -> None:
    room = BytesInFlight(100)
    await room.take("first", 80)
    with pytest.raises(TimeoutError):  # what is left behind is what is tested
        with anyio.fail_after(0):
            try:
                await room.take("second", 80)
            finally:
                room.end("second", None)
    assert room.held == 80


async def test_the_wait_for_a_slot_is_no_part_of_what_bounds_a_call() -> None:
    """Each of twenty calls has the only connection for a second; one that hangs is bounded all the same."""
    clock, slots = FakeClock(10 * MINUTE), Slots(1)

    class Connected(FakeProvider):
        async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
            if slots.free:
                slots.free -= 1
            else:
                await slots.enter()
            try:
                await clock.sleep(1e6 if call.targets[0][1] == "w7" else 1)
            finally:
                slots.leave()
            return await super().fetch(call)

    provider = Connected({"j": [f"w{index}" for index in range(20)]}, halves=1)
    collector = mb.Collector({"x": provider}, clock=clock)
    result = await collector.collect("x/j", window=WINDOW, metrics=[A], call_timeout=2)
    assert [failure.targets for failure in result.failures] == [(("j", "w7"),)]
    assert len(result.series) == 19
    assert clock.monotonic() == 21
