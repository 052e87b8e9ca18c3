"""What would hold up the event loop is done in threads, and nothing else changes by it."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from typing import Any

import anyio
import numpy as np
import pytest
from anyio.lowlevel import checkpoint

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, FakeProvider, batch
from metricsbridge.collection import Gathering
from metricsbridge.runtime import _source, _threads
from metricsbridge.series import _kernel
from metricsbridge.testing import FakeClock
from static_service import serve_static

JOBS = {f"job-{i}": [f"worker-{t}" for t in range(i % 3 + 1)] for i in range(5)}
REFS = [f"x/{job}" for job in JOBS]


def collector(provider: FakeProvider) -> mb.Collector:
    return mb.Collector({"x": provider}, clock=FakeClock(10 * MINUTE))


def take_as_large(monkeypatch: pytest.MonkeyPatch, alone: int, many: int) -> None:
    """Take batches of so many samples for large, and of so many for too large for the event loop."""
    monkeypatch.setattr(_source, "_ALONE", alone)
    monkeypatch.setattr(_threads, "MANY", many)


def answer(call: mb.Call) -> Any:
    """Answer with what is delivered, absent or failed by turns."""
    number = int(call.targets[0][0][-1])
    if number == 0:
        return mb.ServiceUnavailableError("down")
    return FakeProvider.default_answer(call) if number % 2 else mb.SeriesBatch.empty()


async def test_large_batches_come_to_the_same_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for alone, many in ((_source._ALONE, _threads.MANY), (0, _threads.MANY), (0, 0)):
        take_as_large(monkeypatch, alone, many)
        provider = FakeProvider(JOBS)
        provider.answer = answer
        results.append(await collector(provider).collect(REFS, window=WINDOW))
    together, *others = results
    for other in others:
        assert other.series.keys == together.series.keys
        assert other.series.source == together.series.source == "x"
        assert np.array_equal(other.series.times, together.series.times)
        assert np.array_equal(other.series.values, together.series.values)
        assert other.absences == together.absences
        assert [failure.targets for failure in other.failures] == [failure.targets for failure in together.failures]


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_large_and_what_is_small_keeps_the_order_of_the_calls(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever comes first; what is small is put together meanwhile."""
    take_as_large(monkeypatch, 3, 5)
    clock, dice = FakeClock(10 * MINUTE), random.Random(seed)
    tasks = [f"w{index}" for index in range(20)]

    class Slow(FakeProvider):
        async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
            await clock.sleep(dice.random())
            return await super().fetch(call)

    provider = Slow({"i": tasks, "j": tasks[:9]}, halves=1)
    points = {task: dice.choice([1, 2, 3, 5]) for task in tasks}
    provider.answer = lambda call: batch(
        *call.targets[0], A, [(time, 0.5) for time in range(points[call.targets[0][1]])]
    )
    given: list[int] = []
    add = Gathering.add

    def noted(gathering: Gathering, order: Any, outcome: Any) -> None:
        given.append(len(outcome) if isinstance(outcome, mb.SeriesBatch) else 0)
        add(gathering, order, outcome)

    monkeypatch.setattr(Gathering, "add", noted)
    result = await mb.Collector({"x": provider}, clock=clock).collect(["x/j", "x/i"], window=WINDOW, metrics=[A])
    assert [(key.job, key.task) for key in result.series.keys] == [
        *[("j", task) for task in tasks[:9]], *[("i", task) for task in tasks],
    ]  # fmt: skip
    assert np.diff(result.series.offsets).tolist() == [points[task] for task in [*tasks[:9], *tasks]]
    assert max(given) > 1


async def test_large_batches_are_clipped_and_put_together_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    clip, finish, threads = mb.SeriesBatch.clip, Gathering.finish, set[int]()

    def noted(batch: mb.SeriesBatch, window: mb.Window, /) -> mb.SeriesBatch:
        threads.add(threading.get_ident())
        return clip(batch, window)

    def finished(*given: Any) -> mb.Collection:
        threads.add(threading.get_ident())
        return finish(*given)

    monkeypatch.setattr(mb.SeriesBatch, "clip", noted)
    monkeypatch.setattr(Gathering, "finish", finished)
    for alone, many, own in ((10**9, 10**9, True), (1, 10**9, True), (1, 1, False)):
        take_as_large(monkeypatch, alone, many)
        threads.clear()
        result = await collector(FakeProvider(JOBS)).collect(REFS, window=WINDOW)
        assert len(result.series)
        assert (threads == {threading.get_ident()}) is own
        assert (threading.get_ident() in threads) is own


async def test_a_partial_answer_that_the_deadline_meets_in_a_thread_fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost of it is part of the whole that fails then."""
    take_as_large(monkeypatch, 0, 0)
    clock = FakeClock(10 * MINUTE)

    async def in_slow_thread(work: Any) -> Any:
        await clock.sleep(10)
        return work()

    monkeypatch.setattr(_threads, "in_thread", in_slow_thread)

    def answer(call: mb.Call) -> Any:
        lost = mb.Failure(targets=call.targets, metrics=(A,), window=None, error=mb.ServiceUnavailableError("page 2"))
        return mb.PartialDataError("half", series=FakeProvider.default_answer(call), lost=[lost])

    provider = FakeProvider({"j": ["w"]}, halves=1)
    provider.answer = answer
    for timeout, delivered, error in (5, 0, mb.DeadlineExceededError), (20, 1, mb.ServiceUnavailableError):
        c = mb.Collector({"x": provider}, clock=clock)
        result = await c.collect("x/j", window=WINDOW, metrics=[A], timeout=timeout)
        assert len(result.series) == delivered
        assert [type(failure.error) for failure in result.failures] == [error]


async def test_a_part_whose_reader_is_cancelled_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "MANY", 0)
    units = set()
    async with collector(FakeProvider(JOBS)).stream(REFS, window=WINDOW) as parts:
        while not parts._outcomes:
            await checkpoint()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(parts)
        assert scope.cancelled_caught
        async for part in parts:
            units.update([(key.job, key.task, key.metric) for key in part.series.keys])
            assert not part.failures
    assert len(units) == 2 * sum(len(tasks) for tasks in JOBS.values())


LARGE_POINTS = 700_000
"""Values of each of six metrics: 25 MB, of which decoding alone takes several times as long as may pass here."""

MOST_S = 0.1
"""Processor time of the longest callback: some 5 ms where large answers are worked on in threads; about half a second
where they are not. Both grow on a busy machine, but not to twenty times as much."""


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note the seconds of processor time of each callback of the event loop."""
    taken: list[float] = []
    original = asyncio.Handle._run  # type: ignore[attr-defined]  # there is no public way to time callbacks

    def run(handle: Any) -> Any:
        begun = time.thread_time()
        try:
            return original(handle)
        finally:
            taken.append(time.thread_time() - begun)

    monkeypatch.setattr(asyncio.Handle, "_run", run)
    return taken


@pytest.mark.skipif(_kernel.COMPILED is None, reason="without the kernel answers of this size take too long in a test")
async def test_no_answer_however_large_holds_up_the_event_loop(callbacks: list[float]) -> None:
    values = ",".join([f"{10 + index % 90}.5" for index in range(LARGE_POINTS)])
    entries = ",".join([f'{{"metric":"{name}","value":[{values}]}}' for name in ("cpuUsage", "memUsage", "gpuUtil")])
    body = f'{{"metrics":[{entries}]}}'.encode()
    status = {"phase": "Completed", "start_time": 60_000, "duration": LARGE_POINTS * MINUTE, "tasks": ["a", "b"]}
    details = json.dumps({"metadata": {"id": "j", "name": "j", "create_time": 60_000}, "status": status, "spec": {}})

    def answered(path: str) -> bytes:
        return body if "/metrics/" in path else details.encode()

    with serve_static(answered) as url:
        provider = mb.open_provider("modelarts", endpoint=url, project_id="p", access_key="AK", secret_key="an example")
        async with mb.Collector({"hw": provider}) as opened:
            await checkpoint()  # the body was made in the callback before
            callbacks.clear()
            result = await opened.collect("hw/j")
    assert len(result.series.values) == 2 * 3 * LARGE_POINTS
    assert max(callbacks) < MOST_S
