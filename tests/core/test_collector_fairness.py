"""Whatever is slow, fails or is large holds up only itself; all on a clock on which waits are free."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, B, FakeProvider, account, batch
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeClock, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WORKERS = 8


class Timed(FakeProvider):
    """Serves A of each task in one call, which takes so many seconds; notes when each was done."""

    def __init__(
        self, clock: FakeClock, jobs: Mapping[str, Sequence[str]], *, slow: Mapping[str, float] | None = None,
        describing: float = 0.0, asking: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(dict(jobs), halves=1)
        self.clock = clock
        self.slow = slow or {}
        self.describing, self.asking = describing, asking
        self.done: dict[tuple[str, str], float] = {}

    async def get_job(self, job_id: str, /) -> mb.Job:
        await self.clock.sleep(self.describing)
        return await super().get_job(job_id)

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        target = call.targets[0]
        await self.clock.sleep(self.slow.get(target[0], self.asking))
        self.done[target] = self.clock.monotonic()
        return await super().fetch(call)

    def finished(self, job: str) -> float:
        """Give when the last task of a job was done."""
        return max(at for (name, _), at in self.done.items() if name == job)


def collector(clock: FakeClock, **providers: FakeProvider) -> mb.Collector:
    return mb.Collector(providers, clock=clock, concurrency=WORKERS)


def tasks(count: int) -> list[str]:
    return [f"w{index}" for index in range(count)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(10 * MINUTE)


SMALL = {f"small-{index}": ["w"] for index in range(40)}


@pytest.mark.parametrize("first", [True, False])
async def test_a_large_job_does_not_hold_up_the_small_ones_behind_it(clock, first) -> None:
    provider = Timed(clock, {"large": tasks(1000), **SMALL})
    refs = ["x/large", *[f"x/{job}" for job in SMALL]]
    result = await collector(clock, x=provider).collect(refs if first else refs[::-1], window=WINDOW, metrics=[A])
    assert result.complete
    assert max(provider.finished(job) for job in SMALL) <= 2 * len(SMALL) / WORKERS + 5
    # All places are in use until the end: 1 040 calls of a second each, 8 at once.
    assert provider.finished("large") <= 1040 / WORKERS + 2


async def test_a_slow_job_does_not_hold_up_the_others(clock) -> None:
    provider = Timed(clock, {"slow": tasks(50), **SMALL}, slow={"slow": 1000})
    result = await collector(clock, x=provider).collect(
        ["x/slow", *[f"x/{job}" for job in SMALL]], window=WINDOW, metrics=[A]
    )
    assert result.complete
    assert max(provider.finished(job) for job in SMALL) < 30


async def test_a_hanging_task_holds_up_nothing_but_its_own_call(clock) -> None:
    class Hanging(Timed):
        async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
            if call.targets[0] == ("large", "w3"):
                await self.clock.sleep(100_000)
            return await super().fetch(call)

    provider = Hanging(clock, {"large": tasks(100), **SMALL})
    refs = ["x/large", *[f"x/{job}" for job in SMALL]]
    result = await collector(clock, x=provider).collect(refs, window=WINDOW, metrics=[A], timeout=60)
    delivered, _, failed = account(result)
    assert failed == {("x", "large", "w3", A)}
    assert len(delivered) == 139


async def test_a_hanging_call_for_many_jobs_does_not_hold_up_those_that_are_not_planned_yet(clock) -> None:
    class Batching(Timed):
        max_jobs = 4

        def plan_jobs(self, jobs: Sequence[mb.Job], query: mb.Query, /) -> list[mb.Call]:
            targets = tuple([(job.id, "w") for job in jobs])
            return [mb.Call(operation="Read", targets=targets, metrics=(A,), window=query.window)]

    provider = Batching(clock, {f"j{index}": ["w"] for index in range(10)}, slow={"j0": 1e6})
    provider.answer = lambda call: mb.concat([batch(job, task, A, [(0, 0.5)]) for job, task in call.targets])
    refs = [f"x/j{index}" for index in range(10)]
    result = await collector(clock, x=provider).collect(refs, window=WINDOW, metrics=[A], timeout=100)
    delivered, _, failed = account(result)
    assert {unit[1] for unit in failed} == {"j0", "j1", "j2", "j3"}
    assert len(delivered) == 6
    assert len(provider.done) == 2


@pytest.mark.parametrize("hangs", ["get_job", "fetch"])
async def test_a_source_that_hangs_does_not_hold_up_the_others(clock, hangs) -> None:
    jobs = {f"j{index}": tasks(3) for index in range(60)}
    hanging = Timed(clock, jobs, **{"describing" if hangs == "get_job" else "asking": 1e6})
    good = Timed(clock, jobs)
    refs = [f"{source}/{job}" for job in jobs for source in ("bad", "good")]
    result = await collector(clock, bad=hanging, good=good).collect(refs, window=WINDOW, metrics=[A], timeout=100)
    delivered, _, failed = account(result)
    assert delivered == {("good", job, task, A) for job, names in jobs.items() for task in names}
    assert {unit[0] for unit in failed} == {"bad"}
    assert {unit[1] for unit in failed} == set(jobs)
    assert max(good.done.values()) <= 60 * 3 / WORKERS + 2


async def test_a_source_that_finds_none_of_its_own_jobs_lets_others_run_while_it_looks(clock) -> None:
    good, bad = Timed(clock, {f"j{index}": ["w"] for index in range(2000)}, asking=0.0), FakeProvider({})
    in_one_go = longest = 0
    reader: object = None

    def refs() -> Iterator[str]:
        nonlocal in_one_go, longest, reader
        yield "bad/none"
        for index in range(2000):
            in_one_go = in_one_go + 1 if asyncio.current_task() is reader else 1
            reader = asyncio.current_task()
            longest = max(longest, in_one_go)
            yield f"good/j{index}"

    async def run_beside() -> None:
        nonlocal in_one_go
        while True:
            in_one_go = 0
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(run_beside)
        result = await collector(clock, bad=bad, good=good).collect(refs(), window=WINDOW, metrics=[A])
        group.cancel_scope.cancel()
    assert 200 < longest <= 257
    assert len(result.series) == 2000
    assert [failure.source for failure in result.failures] == ["bad"]


async def test_results_keep_the_order_of_the_input_whatever_comes_first(clock) -> None:
    jobs = {f"j{index}": tasks(3) for index in range(20)}
    provider = Timed(clock, jobs, slow={job: 40.0 - index for index, job in enumerate(jobs)})
    result = await collector(clock, x=provider).collect([f"x/{job}" for job in jobs], window=WINDOW, metrics=[A])
    assert [job.id for job in result.jobs] == list(jobs)
    assert [(key.job, key.task) for key in result.series.keys] == [(job, task) for job in jobs for task in jobs[job]]


class Paging(Timed):
    """Asks for pages without end, each in a second, for the tasks named w1."""

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        while call.targets[0][1] == "w1":
            await self.clock.sleep(1)
        return await super().fetch(call)


@pytest.mark.parametrize("bound", [5, "5s"])
async def test_a_call_that_takes_too_long_fails_alone(clock, bound: Any) -> None:
    provider = Paging(clock, {"j": tasks(3), "k": tasks(1)})
    result = await collector(clock, x=provider).collect(
        ["x/j", "x/k"], window=WINDOW, metrics=[A, B], call_timeout=bound
    )
    delivered, _, failed = account(result)
    assert failed == {("x", "j", "w1", A), ("x", "j", "w1", B)}
    assert len(delivered) == 6
    assert {type(failure.error) for failure in result.failures} == {mb.DeadlineExceededError}
    assert "call_timeout" in str(result.failures[0].error)
    assert clock.monotonic() < 10


async def test_a_description_that_takes_too_long_fails_its_job_alone(clock) -> None:
    class Slow(Timed):
        async def get_job(self, job_id: str, /) -> mb.Job:
            await self.clock.sleep(50 if job_id == "j" else 1)
            return await super().get_job(job_id)

    provider = Slow(clock, {"j": ["w"], "k": ["w"]})
    result = await collector(clock, x=provider).collect(["x/j", "x/k"], window=WINDOW, metrics=[A], call_timeout="20s")
    assert [failure.targets for failure in result.failures] == [(("j", ""),)]
    assert [job.id for job in result.jobs] == ["k"]


async def test_the_deadline_of_all_is_not_put_off_by_that_of_a_call(clock) -> None:
    provider = Paging(clock, {"j": tasks(3)})
    result = await collector(clock, x=provider).collect("x/j", window=WINDOW, timeout=3, call_timeout=500)
    assert clock.monotonic() < 4
    assert {unit[2] for unit in account(result)[2]} == {"w1"}
    assert "the collection's deadline" in str(result.failures[0].error)


@pytest.mark.parametrize(("timeout", "ends"), [(60, 0), (250, 200)])
async def test_a_pause_that_outlasts_the_deadline_of_all_is_waited_for_by_nobody(timeout: float, ends: float) -> None:
    """The service asks to come back in 100 s, each time: those who have not sent anything yet fail, too."""
    clock = FakeClock(10 * MINUTE)
    transport = FakeTransport(lambda request: Response(429, {"Retry-After": "100"}, b"{}"), clock=clock)
    opening = mb.open_provider(
        "modelarts", transport=transport, region="cn-north-4", project_id="p", access_key="a", secret_key="s" * 20
    )
    async with mb.Collector({"hw": opening}, clock=clock) as c:
        result = await c.collect([f"hw/j{index}" for index in range(200)], timeout=timeout)
    assert [type(failure.error) for failure in result.failures] == [mb.ThrottledError] * 200
    assert ends <= clock.monotonic() < ends + 1
    assert len(transport.requests) < 10


@pytest.mark.parametrize(("rate", "bound"), [("1/s", 30), ("20/s", 2), ("3/m", 1)])
async def test_the_wait_for_a_turn_under_a_rate_limit_is_no_part_of_what_bounds_a_call(rate: str, bound: float) -> None:
    """All of 64 calls wait together; those that hang once they have had their turn fail all the same."""
    clock, hanging = FakeClock(10 * MINUTE), {"w7", "w90"}

    async def answer(request: Request) -> Response:
        await clock.sleep(1e6 if request.url.rpartition("/")[2] in hanging else 0.1)
        return Response(200, {}, b'{"metrics": [{"metric": "cpuUsage", "value": [50.0]}]}')

    opening = mb.open_provider(
        "modelarts", transport=FakeTransport(answer, clock=clock), region="cn-north-4", project_id="p",
        access_key="a", secret_key="s" * 20, limits={"*": rate},
    )  # fmt: skip
    job = mb.Job(
        id="j", status=mb.JobStatus.RUNNING, start_time_ms=0, tasks=tuple([mb.Task(id=name) for name in tasks(200)])
    )
    async with mb.Collector({"hw": opening}, clock=clock) as c:
        result = await c.collect(job, window=WINDOW, metrics=[A], call_timeout=bound)
    assert {task for failure in result.failures for _, task in failure.targets} == hanging
    assert {type(failure.error) for failure in result.failures} == {mb.DeadlineExceededError}
    assert clock.monotonic() == pytest.approx(199 / mb.Rate.parse(rate).per_second + 0.1, abs=bound)


async def test_a_wait_that_outlasts_a_call_is_not_begun() -> None:
    """The service asks to come back in a minute: the call fails at once, and tells of the service."""
    clock = FakeClock()

    def answer(request: Request) -> Response:
        return Response(503, {"Retry-After": "60"}, b"{}")

    opening = mb.open_provider(
        "modelarts", transport=FakeTransport(answer, clock=clock), region="cn-north-4", project_id="p",
        access_key="a", secret_key="s" * 20,
    )  # fmt: skip
    async with mb.Collector({"hw": opening}, clock=clock) as c:
        (failure,) = (await c.collect("hw/j", call_timeout=30)).failures
    assert isinstance(failure.error, mb.ServiceUnavailableError)
    assert clock.monotonic() < 1
