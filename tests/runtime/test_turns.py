"""One timer ends all that takes too long, and nothing else; those who let others go first come after them."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import anyio
import pytest
import pytest_asyncio
from anyio.lowlevel import checkpoint

from metricsbridge.runtime._turns import Timeouts, next_turn

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60.0


@pytest_asyncio.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give a function that lets the event loop's time pass; by itself it stands still."""
    now = 1000.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    return advance


class Waiting:
    """Notes what becomes of those who wait for ever."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.timeouts = timeouts
        self.ended: list[str] = []

    async def wait(self, name: str) -> None:
        task = self.timeouts.begin()
        try:
            await anyio.sleep_forever()
        except BaseException:
            if not self.timeouts.is_up(task):
                self.ended.append(f"{name} cancelled")
                raise
        finally:
            self.timeouts.end(task)
        await checkpoint()  # whose time is up is cancelled no more
        self.ended.append(f"{name} too late")


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await checkpoint()


def timers() -> list[asyncio.TimerHandle]:
    """Give the loop's timers, but for those of who sleeps for ever."""
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return [timer for timer in scheduled if timer.when() < math.inf and not timer.cancelled()]


async def test_each_is_ended_when_its_own_time_is_up(pass_time: Callable[[float], None]) -> None:
    waiting = Waiting(Timeouts(SECONDS))
    async with anyio.create_task_group() as tasks:
        for name in ("a", "b"):
            tasks.start_soon(waiting.wait, name)
            await turns()
            pass_time(20)
        pass_time(SECONDS - 40)
        await turns()
        assert waiting.ended == ["a too late"]
        pass_time(20)
        await turns()
        assert waiting.ended == ["a too late", "b too late"]


async def test_who_is_done_in_time_is_left_alone(pass_time: Callable[[float], None]) -> None:
    timeouts = Timeouts(SECONDS)
    for _ in range(3):
        timeouts.end(timeouts.begin())
        pass_time(SECONDS - 1)
        await turns()
    begun = timeouts.begin()
    pass_time(SECONDS - 1)
    await turns()
    timeouts.end(begun)
    assert not timeouts.is_up(begun)


async def test_who_is_cancelled_by_others_stays_cancelled(pass_time: Callable[[float], None]) -> None:
    waiting = Waiting(Timeouts(SECONDS))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.wait, "a")
        await turns()
        tasks.cancel_scope.cancel()
    assert waiting.ended == ["a cancelled"]


async def test_who_is_cancelled_by_others_at_the_same_moment_stays_cancelled(
    pass_time: Callable[[float], None],
) -> None:
    waiting = Waiting(Timeouts(SECONDS))
    task = asyncio.ensure_future(waiting.wait("a"))
    await turns()
    task.cancel()
    pass_time(SECONDS)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiting.ended == ["a cancelled"]


async def test_one_timer_does_for_all_and_none_is_left(pass_time: Callable[[float], None]) -> None:
    timeouts = Timeouts(SECONDS)
    waiting = Waiting(timeouts)
    async with anyio.create_task_group() as tasks:
        for index in range(50):
            tasks.start_soon(waiting.wait, str(index))
        await turns()
        assert len(timers()) == 1
        tasks.cancel_scope.cancel()
    timeouts.close()
    assert not timers()


async def test_without_a_bound_nothing_is_ended(pass_time: Callable[[float], None]) -> None:
    waiting = Waiting(Timeouts(None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiting.wait, "a")
        await turns()
        pass_time(1e9)
        await turns()
        assert waiting.ended == []
        tasks.cancel_scope.cancel()


async def test_those_who_can_go_on_go_first() -> None:
    order: list[str] = []

    async def patient(name: str) -> None:
        order.append(f"{name} begins")
        await next_turn()
        order.append(f"{name} goes on")

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b"):
            tasks.start_soon(patient, name)
    assert order == ["a begins", "b begins", "a goes on", "b goes on"]
