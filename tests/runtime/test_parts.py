"""The parts of a stream are held back, and nothing of them is lost, whoever gives up reading."""

from __future__ import annotations

import anyio
from anyio.lowlevel import checkpoint

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, FakeProvider, batch
from metricsbridge.runtime._parts import Parts
from metricsbridge.testing import FakeClock

POINTS = 20_000
"""Two answers of so many are put together in a thread."""


async def give_up(parts: Parts) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(parts)


async def test_a_reader_that_gives_up_lets_no_more_come_in_than_before() -> None:
    jobs = {f"j{index}": ["w"] for index in range(200)}
    provider = FakeProvider(jobs, halves=1)
    provider.answer = lambda call: batch(*call.targets[0], A, [(time, 0.5) for time in range(POINTS)])
    collector = mb.Collector({"x": provider}, clock=FakeClock(10 * MINUTE), concurrency=4)
    async with collector.stream([f"x/{job}" for job in jobs], window=WINDOW, metrics=[A]) as parts:
        for given_up in range(4):
            await anyio.wait_all_tasks_blocked()
            assert len(provider.fetched) <= 2**20 // POINTS + 4 * (given_up + 1)
            await give_up(parts)  # type: ignore[arg-type]  # what a stream gives is its Parts
        assert sum([len(part.series) async for part in parts]) == len(jobs)


async def test_nobody_hurries_for_a_reader_that_has_given_up() -> None:
    parts = Parts(None, FakeClock())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anext, parts)
        await anyio.wait_all_tasks_blocked()
        assert parts.hurry()
        tasks.cancel_scope.cancel()
    assert not parts.hurry()


async def test_what_one_reader_gives_back_another_one_gets() -> None:
    parts, scope = Parts(None, FakeClock()), anyio.CancelScope()
    found: list[int] = []

    async def begin() -> None:
        with scope:
            await anext(parts)

    async def read() -> None:
        found.append(len((await anext(parts)).series.times))

    async with anyio.create_task_group() as tasks:
        parts.put((0, 0), batch("j", "w", A, [(time, 0.5) for time in range(2 * POINTS)]))
        tasks.start_soon(begin)
        tasks.start_soon(read)
        await checkpoint()  # one has begun, and the other one waits
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert scope.cancelled_caught
    assert found == [2 * POINTS]
