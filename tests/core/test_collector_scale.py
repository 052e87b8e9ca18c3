"""Very many calls: what a stream holds does not grow with them, and its first part does not wait for them."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import anyio
import attrs
import numpy as np
import pytest

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, FakeProvider, batch
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeClock, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = json.dumps({"metrics": [{"metric": "cpuUsage", "value": [50.0] * 10}]}).encode()
DAY = 1440


def long_batch(call: mb.Call, points: int) -> mb.SeriesBatch:
    (job, task), (metric,) = call.targets[0], call.metrics
    one = batch(job, task, metric, [(0, 0.5)])
    times, values = np.arange(points, dtype=np.int64) * 400, np.full(points, 0.5)
    return attrs.evolve(one, offsets=np.array([0, points]), times=times, values=values)


def known(job_id: str, tasks: int) -> mb.Job:
    """Give a job as its service would describe it."""
    return mb.Job(
        id=job_id,
        status=mb.JobStatus.RUNNING,
        start_time_ms=0,
        tasks=tuple([mb.Task(id=f"w{i}") for i in range(tasks)]),
    )


def open_collector(transport: FakeTransport) -> mb.Collector:
    provider = mb.open_provider(
        "modelarts", transport=transport, region="cn-north-4", project_id="p", access_key="a", secret_key="s" * 20,
        limits={"*": "unlimited"},
    )  # fmt: skip
    return mb.Collector({"hw": provider}, clock=transport.clock)


@pytest.mark.parametrize("jobs", [[known("j", 1000)], [known(f"j{index}", 1) for index in range(1000)]])
async def test_the_first_part_is_there_after_one_round_trip(jobs: list[mb.Job]) -> None:
    """A key pair and a known job: no log-in, no description, and no waiting for the job's other tasks."""
    clock = FakeClock(10 * MINUTE)

    async def answer(request: Request) -> Response:
        await clock.sleep(1)
        return Response(200, {}, BODY)

    transport = FakeTransport(answer, clock=clock)
    async with open_collector(transport) as c, c.stream(jobs, window=WINDOW) as parts:
        async for part in parts:
            if len(part.series):
                break
        assert clock.monotonic() < 2
        assert len(transport.requests) <= 2 * 64


@pytest.mark.parametrize("tasks", [1, 20, 5000])
async def test_while_the_consumer_takes_nothing_hardly_anything_is_sent(tasks: int) -> None:
    async def answer(request: Request) -> Response:
        await anyio.lowlevel.checkpoint()
        return Response(200, {}, BODY)

    transport = FakeTransport(answer, clock=FakeClock(10 * MINUTE))
    jobs = (known(f"j{index}", tasks) for index in range(100_000 // tasks))
    async with open_collector(transport) as c, c.stream(jobs, window=WINDOW) as parts:
        await anyio.wait_all_tasks_blocked()
        before = len(transport.requests)
        await anext(parts)
        await anyio.wait_all_tasks_blocked()
        after = len(transport.requests)
    assert 0 < before <= 128 * 32 + 64
    assert before < after <= 2 * (128 * 32 + 64)


async def test_large_answers_that_nobody_takes_are_held_back_by_their_size() -> None:
    provider = FakeProvider({"j": [f"w{index}" for index in range(3000)]}, halves=1)
    provider.answer = lambda call: long_batch(call, DAY)
    c = mb.Collector({"x": provider}, clock=FakeClock(10 * MINUTE))
    async with c.stream("x/j", window=WINDOW, metrics=[A]) as parts:
        await anyio.wait_all_tasks_blocked()
        assert len(provider.fetched) * DAY <= 2**20 + (64 + 32) * DAY
        assert sum([len(part.series) async for part in parts]) == 3000


class Plain(FakeProvider):
    """Serves jobs of four tasks, whatever they are called, and keeps no record of it."""

    async def get_job(self, job_id: str, /) -> mb.Job:
        return known(job_id, 4)

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        await anyio.lowlevel.checkpoint()
        return batch(*call.targets[0], A, [(0, 0.5), (MINUTE, 0.25)])


def refs(count: int) -> Iterator[str]:
    return (f"x/job-{index}" for index in range(count))


async def peak_of_stream(jobs: int) -> int:
    c = mb.Collector({"x": Plain({}, halves=1)}, clock=FakeClock(10 * MINUTE))
    delivered = 0
    tracemalloc.start()
    try:
        async with c.stream(refs(jobs), window=WINDOW, metrics=[A]) as parts:
            async for part in parts:
                delivered += len(part.series)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert delivered == jobs * 4


async def test_ten_times_as_many_calls_take_hardly_more_memory() -> None:
    """What grows is what tells a job that comes twice: its id. The benchmark ``scale`` goes on to 100 000 calls."""
    await peak_of_stream(5)
    few, many = await peak_of_stream(150), await peak_of_stream(1500)
    assert many - few < 600_000


async def test_what_collect_gives_is_nearly_all_that_it_holds() -> None:
    class Minutes(Plain):
        async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
            await anyio.lowlevel.checkpoint()
            return long_batch(call, 1000)

    c = mb.Collector({"x": Minutes({}, halves=1)}, clock=FakeClock(10 * MINUTE))
    await c.collect(refs(2), window=WINDOW, metrics=[A])  # what is made once is made before
    tracemalloc.start()
    try:
        result = await c.collect(refs(250), window=WINDOW, metrics=[A])
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    samples = len(result.series.times)
    assert samples == 1_000_000
    assert np.array_equal(result.series.times[:1000], np.arange(1000) * 400)
    assert held < 17 * samples
    assert peak < 1.7 * 16 * samples
