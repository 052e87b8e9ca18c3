"""What a provider does wrong stays with the job or call that it breaks; nothing is lost in silence, nothing hangs."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from typing import Any

import anyio
import numpy as np
import pytest

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, B, FakeProvider, account
from metricsbridge.testing import FakeClock

GOOD = {("s", "good", "w", metric) for metric in (A, B)}


def collector(provider: FakeProvider) -> mb.Collector:
    return mb.Collector({"s": provider}, clock=FakeClock(10 * MINUTE))


class Mistaken(FakeProvider):
    """Answers rightly for the job "good" and with a mistake for "bad"."""

    def __init__(self, mistake: Any, *, halves: int = 1) -> None:
        super().__init__({"good": ["w"], "bad": ["w"]}, halves=halves)
        self.mistake = mistake

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        if call.targets[0][0] == "bad":
            if isinstance(self.mistake, BaseException):
                raise self.mistake
            return self.mistake() if callable(self.mistake) else self.mistake
        return await super().fetch(call)


def torn_offsets() -> mb.SeriesBatch:
    return mb.SeriesBatch(
        keys=(mb.SeriesKey("bad", "w", "", A), mb.SeriesKey("bad", "w", "", B)),
        unit=("1", "1"), interval_ms=(0, 0), timing=(mb.Timing.REPORTED,) * 2, time_error_ms=(0, 0),
        statistic=(mb.Statistic.MEAN,) * 2, offsets=np.array([0, 7, 3]), times=np.arange(3), values=np.ones(3),
    )  # fmt: skip


class Bare(mb.ProviderError):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("halves", [1, 2])
@pytest.mark.parametrize(
    "mistake", [asyncio.CancelledError(), None, [1], "abc", {}, torn_offsets, Bare(), KeyError("x"), RecursionError()],
    ids=lambda mistake: getattr(mistake, "__name__", type(mistake).__name__),
)  # fmt: skip
async def test_a_mistake_in_fetch_fails_its_call_alone(mistake: Any, halves: int) -> None:
    result = await collector(Mistaken(mistake, halves=halves)).collect(["s/bad", "s/good"], window=WINDOW)
    delivered, absent, failed = account(result)
    assert delivered == GOOD
    assert failed == {("s", "bad", "w", metric) for metric in (A, B)}
    assert not absent


@pytest.mark.parametrize(
    "mistake",
    [
        asyncio.CancelledError(), None, "a job", mb.Job(id="bad", start_time_ms="2024"),  # type: ignore[arg-type]
        mb.Job(id="bad", start_time_ms=0, tasks=["w"]), ValueError("x"),  # type: ignore[arg-type]
    ],
    ids=repr,
)  # fmt: skip
async def test_a_mistake_in_get_job_fails_its_job_alone(mistake: Any) -> None:
    class Wrong(FakeProvider):
        async def get_job(self, job_id: str, /) -> mb.Job:
            if job_id == "bad":
                if isinstance(mistake, BaseException):
                    raise mistake
                return mistake  # type: ignore[no-any-return]
            return await super().get_job(job_id)

    result = await collector(Wrong({"good": ["w"]})).collect(["s/bad", "s/good"], window=None, metrics=[A])
    assert [failure.targets for failure in result.failures] == [(("bad", ""),)]
    assert {key.job for key in result.series.keys} == {"good"}


async def test_a_plan_whose_targets_are_no_pairs_fails_its_job_alone() -> None:
    class Wrong(FakeProvider):
        def plan(self, job: mb.Job, query: mb.Query, /) -> Any:
            if job.id == "bad":
                return [mb.Call(operation="x", targets=("bad", "w"), metrics=(A,), window=query.window)]  # type: ignore[arg-type]
            return super().plan(job, query)

    provider = Wrong({"good": ["w"], "bad": ["w"]})
    plan = await collector(provider).plan(["s/bad", "s/good"], window=WINDOW)
    assert ([each.jobs for each in plan.operations], [f.targets for f in plan.failures]) == ([1], [(("bad", "w"),)])
    provider.answer = lambda call: (
        mb.SeriesBatch.empty() if call.targets[0] == "bad" else FakeProvider.default_answer(call)
    )
    result = await collector(provider).collect(["s/bad", "s/good"], window=WINDOW)
    assert account(result)[0] == GOOD
    assert result.failures


class Answer:
    """Something large, of which one can tell whether it is still there."""


class Holding(FakeProvider):
    """Has answers in its variables when it breaks."""

    def __init__(self, kind: str) -> None:
        super().__init__({"j": ["w"]}, halves=1)
        self.kind = kind
        self.answers: list[weakref.ref[Answer]] = []

    def read(self) -> Answer:
        body = Answer()
        self.answers.append(weakref.ref(body))
        return body

    async def get_job(self, job_id: str, /) -> mb.Job:
        body = self.read()
        if self.kind == "get_job":
            raise KeyError(type(body))
        return await super().get_job(job_id)

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        body = self.read()
        try:
            self.decode(body)
        except ValueError as error:
            if self.kind == "partial":
                try:
                    raise mb.DecodeError("page 2 is none") from error
                except mb.DecodeError as wrong:
                    lost = mb.Failure(targets=call.targets, metrics=call.metrics, window=None, error=wrong)
                raise mb.PartialDataError("half", series=mb.SeriesBatch.empty(), lost=[lost]) from None
            if self.kind == "several":
                raise ExceptionGroup("both", [error, KeyError()])  # noqa: B904  # what a provider may do
            raise mb.DecodeError("no JSON") from error
        raise AssertionError

    def decode(self, body: Answer) -> None:
        raise KeyError(type(body)) if self.kind == "bug" else ValueError(type(body))


@pytest.mark.parametrize("kind", ["get_job", "decode", "bug", "partial", "several"])
async def test_a_failure_says_where_it_came_from_and_holds_nothing_that_was_there(kind: str) -> None:
    provider = Holding(kind)
    answers = provider.answers
    result = await collector(provider).collect("s/j", window=WINDOW, metrics=[A])
    gc.collect()
    assert answers
    assert [answer() for answer in answers] == [None] * len(answers)
    (failure,) = result.failures
    shown = "".join(traceback.format_exception(failure.error))
    assert ("get_job" if kind == "get_job" else "self.decode(body)") in shown


async def test_a_cancellation_from_outside_still_ends_the_work_at_once() -> None:
    started = anyio.Event()

    class Endless(FakeProvider):
        async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
            started.set()
            await anyio.sleep_forever()
            raise AssertionError

    task = asyncio.ensure_future(collector(Endless({"good": ["w"]})).collect("s/good", window=WINDOW))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_two_consumers_of_one_stream_both_come_to_its_end() -> None:
    provider = FakeProvider({f"j{i}": ["w"] for i in range(30)})
    found: list[str] = []

    async with collector(provider).stream([f"s/j{i}" for i in range(30)], window=WINDOW) as parts:

        async def consume() -> None:
            async for part in parts:
                found.extend(job.id for job in part.jobs)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consume)
                tasks.start_soon(consume)
    assert sorted(found) == sorted(provider.jobs)


async def test_a_source_whose_closing_fails_leaves_no_other_open() -> None:
    closed: list[str] = []

    class Opening:
        def __init__(self, name: str) -> None:
            self.name = name

        async def __aenter__(self) -> FakeProvider:
            return FakeProvider({})

        async def __aexit__(self, *exc: object) -> None:
            closed.append(self.name)
            if self.name == "b":
                raise RuntimeError("no")

    names = ["a", "b", "c"]
    with pytest.raises(RuntimeError, match="no"):
        async with mb.Collector({name: Opening(name) for name in names}):  # type: ignore[dict-item, misc]
            pass
    assert sorted(closed) == names
