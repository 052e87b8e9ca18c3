"""Collecting: everything asked for is accounted for, whatever happens on the way."""

from __future__ import annotations

import asyncio
import random
from itertools import cycle
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, B, C, FakeProvider, account, batch
from metricsbridge.runtime import _source
from metricsbridge.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = {f"job-{i}": [f"worker-{t}" for t in range(i % 3 + 1)] for i in range(7)}
REFS = [f"x/{job}" for job in JOBS]


def collector(*providers: FakeProvider, **options: Any) -> mb.Collector:
    names = "xyz"
    return mb.Collector(dict(zip(names, providers, strict=False)), **{"clock": FakeClock(10 * MINUTE), **options})


async def test_everything_asked_for_is_delivered_in_the_order_of_the_input() -> None:
    order = random.Random(3).sample(REFS, len(REFS))
    result = await collector(FakeProvider(JOBS)).collect(order, window=WINDOW)
    assert [f"x/{job.id}" for job in result.jobs] == order
    assert list(dict.fromkeys(f"x/{key.job}" for key in result.series.keys)) == order
    assert (result.failures, result.absences) == ((), ())
    assert result.series.source == "x"
    assert len(result.series) == sum(len(tasks) for tasks in JOBS.values()) * 2


async def test_the_tasks_of_a_very_large_job_are_in_order_and_their_windows_joined() -> None:
    """What each of many calls brings is taken by itself."""
    tasks = [f"w{index}" for index in random.Random(4).sample(range(1000), 200)]
    for halves in (1, 2):
        provider = FakeProvider({"j": tasks, "k": ["w"]}, halves=halves)
        result = await collector(provider).collect(["x/k", "x/j"], window=WINDOW, metrics=[A])
        assert result.complete
        assert [(key.job, key.task) for key in result.series.keys] == [("k", "w"), *[("j", task) for task in tasks]]
        assert len(result.series.times) == 201 * halves


async def test_answers_are_clipped_to_the_window_of_their_call_and_joined() -> None:
    result = await collector(FakeProvider({"j": ["w"]})).collect("x/j", window=WINDOW, metrics=[A])
    assert result.series.times.tolist() == [0, 5 * MINUTE]
    assert result.series.values.tolist() == [0.5, 0.5]


FAULTS = ["ok", "empty", "nan", "outside", "throttled", "broken", "bug", "partial", "extra"]


def faulty(call: mb.Call, fault: str) -> Any:
    (job, task), (metric,) = call.targets[0], call.metrics
    start = call.window.start_ms
    good = batch(job, task, metric, [(start, 1.0)])
    lost = mb.Failure(
        targets=call.targets, metrics=call.metrics, window=call.window, error=mb.ServiceUnavailableError("page 2 lost")
    )
    return {
        "ok": good,
        "empty": mb.SeriesBatch.empty(),
        "nan": batch(job, task, metric, [(start, float("nan"))]),
        "outside": batch(job, task, metric, [(start - 1, 1.0), (call.window.end_ms, 1.0)]),
        "throttled": mb.ThrottledError("too many"),
        "broken": mb.DecodeError("no JSON"),
        "bug": KeyError("oops"),
        "partial": mb.PartialDataError("half", series=good, lost=[lost]),
        "extra": mb.concat([good, batch(job, task, C, [(start, 7.0)])]),
    }[fault]


@pytest.mark.parametrize("alone", [2, 4096])
@given(data=st.data(), metrics=st.sampled_from([None, (A,), (A, B, C)]), halves=st.integers(1, 3))
async def test_conservation(alone: int, data: st.DataObject, metrics: Any, halves: int) -> None:
    """Asked = delivered + absent + failed, each once, with any mix of faults, of small and of large answers."""
    provider = FakeProvider(JOBS, halves=halves)
    lost_jobs = data.draw(st.sets(st.sampled_from(list(JOBS))))
    provider.job_error = lambda job: mb.TransportError("gone") if job in lost_jobs else None
    drawn: dict[Any, str] = {}

    def answer(call: mb.Call) -> Any:
        fault = data.draw(st.sampled_from(FAULTS))
        drawn[call.targets, call.metrics, call.window] = fault
        return faulty(call, fault)

    provider.answer = answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_source, "_ALONE", alone)
        result = await collector(provider).collect([*REFS, REFS[0]], window=WINDOW, metrics=metrics)
    delivered, absent, failed = account(result)
    asked = {
        ("x", job, task, metric)
        for job, tasks in JOBS.items()
        if job not in lost_jobs
        for task in tasks
        for metric in metrics or (A, B)
    }
    asked |= {("x", job, "", metric) for job in lost_jobs for metric in metrics or ()}
    counted = [{unit for unit in units if unit[3] in (metrics or (A, B))} for units in (delivered, absent, failed)]
    assert set.union(*counted) == asked
    assert sum(map(len, counted)) == len(asked)
    assert {f.targets[0][0] for f in result.failures if not f.metrics} == (lost_jobs if metrics is None else set())
    for (targets, names, window), fault in drawn.items():
        unit = ("x", *targets[0], names[0])
        if fault in ("ok", "partial", "extra"):
            assert unit in delivered
        if fault in ("throttled", "broken", "bug", "partial"):
            assert any(f.targets == targets and f.metrics == names and f.window == window for f in result.failures)


async def test_a_metric_that_no_call_answers_for_is_unsupported() -> None:
    result = await collector(FakeProvider({"j": ["w"]})).collect("x/j", window=WINDOW, metrics=[A, C])
    (absence,) = result.absences
    assert (absence.targets, absence.metrics, absence.reason) == ((("j", "w"),), (C,), "unsupported")


async def test_a_job_of_which_nothing_is_served_is_not_passed_over() -> None:
    result = await collector(FakeProvider({"j": ["w"]})).collect("x/j", window=WINDOW, per="job")
    (absence,) = result.absences
    assert (absence.targets, absence.metrics, absence.reason) == ((("j", ""),), (), "unsupported")


async def test_an_empty_answer_from_before_the_vendors_memory_is_outside_retention() -> None:
    provider = FakeProvider({"j": ["w"]}, halves=1)
    provider.answer = lambda call: mb.SeriesBatch.empty()
    late = FakeClock(2 * 10**12)
    assert [a.reason for a in (await collector(provider, clock=late).collect("x/j", window=WINDOW)).absences] == [
        "outside-retention"
    ]
    assert [a.reason for a in (await collector(provider).collect("x/j", window=WINDOW)).absences] == ["no-data"]


async def test_a_task_that_the_job_lacks_is_a_failure_that_names_those_it_has() -> None:
    result = await collector(FakeProvider(JOBS)).collect("x/job-1", window=WINDOW, tasks=["worker-1", "worker-9"])
    (failure,) = result.failures
    assert failure.targets == (("job-1", "worker-9"),)
    assert isinstance(failure.error, mb.NotFoundError)
    assert "worker-0" in str(failure.error)
    assert {key.task for key in result.series.keys} == {"worker-1"}


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ("nowhere/j", mb.ConfigurationError), ("no-slash", mb.ConfigurationError), ("x/..", mb.InvalidRequestError),
        ("x/", mb.InvalidRequestError), ("b d/j", mb.ConfigurationError), (None, mb.ConfigurationError),
        (7, mb.ConfigurationError),
    ],
)  # fmt: skip
async def test_a_bad_reference_loses_only_itself(bad: str, kind: type[Exception]) -> None:
    result = await collector(FakeProvider(JOBS)).collect([bad, "x/job-0"], window=WINDOW)
    assert [type(failure.error) for failure in result.failures] == [kind]
    assert [job.id for job in result.jobs] == ["job-0"]


async def test_a_job_is_not_fetched_again() -> None:
    provider = FakeProvider(JOBS)
    job = await provider.get_job("job-2")
    result = await collector(provider).collect([job, attrs.evolve(job, id="job-1", source="x")], window=WINDOW)
    assert provider.described == ["job-2"]
    assert [job.source for job in result.jobs] == ["x", "x"]


async def test_several_sources_keep_their_names() -> None:
    first, second = FakeProvider({"j": ["w"]}), FakeProvider({"j": ["w"], "k": ["w"]})
    result = await collector(first, second).collect(["y/j", "x/j", "y/k"], window=WINDOW, metrics=[A])
    assert [(result.series.source_of(i), key.job) for i, key in enumerate(result.series.keys)] == [
        ("y", "j"), ("x", "j"), ("y", "k"),
    ]  # fmt: skip
    assert [(job.source, job.id) for job in result.jobs] == [("y", "j"), ("x", "j"), ("y", "k")]


async def test_never_more_calls_at_once_than_allowed() -> None:
    provider = FakeProvider({f"j{i}": ["a", "b"] for i in range(50)})
    await collector(provider, concurrency=5).collect([f"x/j{i}" for i in range(50)], window=WINDOW)
    assert 2 <= provider.most_in_flight <= 5


async def test_jobs_are_read_as_they_are_worked_on() -> None:
    provider = FakeProvider({f"j{i}": ["w"] for i in range(500)})
    read = 0

    def refs() -> Iterator[str]:
        nonlocal read
        for i in range(500):
            read += 1
            assert read - len(provider.fetched) // 4 <= 12
            yield f"x/j{i}"

    await collector(provider, concurrency=4).collect(refs(), window=WINDOW)
    assert read == 500


async def test_what_the_input_raises_is_raised() -> None:
    def refs() -> Iterator[str]:
        yield "x/job-0"
        raise RuntimeError("the database is gone")

    with pytest.raises(RuntimeError, match="the database is gone"):
        await collector(FakeProvider(JOBS)).collect(refs(), window=WINDOW)


async def test_strict_raises_instead() -> None:
    provider = FakeProvider(JOBS)
    provider.answer = lambda call: mb.ThrottledError("too many")
    with pytest.raises(ExceptionGroup) as caught:
        await collector(provider).collect(REFS, window=WINDOW, strict=True)
    assert caught.group_contains(mb.ThrottledError)
    assert len(provider.fetched) < 40


async def test_failures_can_be_raised_afterwards() -> None:
    result = await collector(FakeProvider(JOBS)).collect(["x/none", "x/job-0"], window=WINDOW)
    assert not result.complete
    with pytest.raises(ExceptionGroup) as caught:
        result.raise_failures()
    assert caught.group_contains(mb.NotFoundError)
    (await collector(FakeProvider(JOBS)).collect("x/job-0", window=WINDOW)).raise_failures()


class Slow(FakeProvider):
    """Takes a second for each call."""

    clock: FakeClock

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        await self.clock.sleep(1)
        return await super().fetch(call)


@pytest.mark.parametrize("timeout", [0.5, 1.5, 3.5, "3s", 1000])
async def test_at_the_deadline_what_arrived_is_returned_and_the_rest_is_named(timeout: Any) -> None:
    provider = Slow(JOBS, halves=1)
    provider.clock = FakeClock(10 * MINUTE)
    with_input = collector(provider, clock=provider.clock, concurrency=2)
    result = await with_input.collect(REFS, window=WINDOW, metrics=[A], timeout=timeout)
    delivered, absent, failed = account(result)
    described = {job.id for job in result.jobs}
    expected = {("x", job, task, A) for job, tasks in JOBS.items() if job in described for task in tasks}
    expected |= {("x", job, "", A) for job in JOBS if job not in described}
    assert delivered | failed == expected
    assert not absent
    assert bool(failed) == (timeout != 1000)
    assert all(isinstance(failure.error, mb.DeadlineExceededError) for failure in result.failures)
    assert result.as_of_ms - 10 * MINUTE <= 14_000


async def test_a_stream_gives_what_collect_gives() -> None:
    provider = FakeProvider(JOBS)
    provider.answer = lambda call: faulty(call, FAULTS[hash((call.targets, call.metrics, call.window)) % len(FAULTS)])
    whole = await collector(provider).collect(REFS, window=WINDOW, metrics=[A, C])
    async with collector(provider).stream(REFS, window=WINDOW, metrics=[A, C]) as stream:
        parts = [part async for part in stream]
    assert len(parts) > 1
    assert {str(f.error) for part in parts for f in part.failures} == {str(f.error) for f in whole.failures}
    assert sorted(job.id for part in parts for job in part.jobs) == sorted(job.id for job in whole.jobs)
    merged = mb.merge([part.series for part in parts])
    assert {k: repr(v.tolist()) for k, _, v in merged} == {k: repr(v.tolist()) for k, _, v in whole.series}
    assert set().union(*[account(part)[1] for part in parts]) == account(whole)[1]


async def test_progress_is_told_of_each_outcome_once_and_changes_nothing() -> None:
    told: list[Any] = []

    async def collect(progress: Any) -> mb.Collection:
        provider, faults = FakeProvider(JOBS), cycle(FAULTS)
        provider.answer = lambda call: faulty(call, next(faults))
        return await collector(provider, concurrency=1).collect([*REFS, "bad"], window=WINDOW, progress=progress)

    plain, result = await collect(None), await collect(told.append)
    columns = [[(key, values.tolist()) for key, _, values in each.series] for each in (plain, result)]
    assert columns[0] == columns[1]
    batches = [outcome for outcome in told if isinstance(outcome, mb.SeriesBatch)]
    assert sum(len(batch.times) for batch in batches) == len(result.series.times)
    others = [id(outcome) for outcome in told if not isinstance(outcome, mb.SeriesBatch)]
    assert sorted(others) == sorted(map(id, (*result.jobs, *result.failures, *result.absences)))


async def test_progress_is_told_of_each_call_as_soon_as_it_is_done() -> None:
    told: list[Any] = []
    before: list[int] = []
    provider = FakeProvider({"j": ["v", "w"]})

    def answer(call: mb.Call) -> Any:
        before.append(len(told))
        return provider.default_answer(call)

    provider.answer = answer
    await collector(provider, concurrency=1).collect("x/j", window=WINDOW, progress=told.append)
    assert before == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_slow_consumer_holds_the_work_back() -> None:
    provider = FakeProvider({f"j{i}": ["w"] for i in range(2000)}, halves=1)
    async with collector(provider).stream([f"x/j{i}" for i in range(2000)], window=WINDOW) as stream:
        async for _ in stream:
            await anyio.wait_all_tasks_blocked()
            break
        assert len(provider.described) < 500


async def test_leaving_a_stream_ends_the_work() -> None:
    provider = FakeProvider({f"j{i}": ["w"] for i in range(2000)})
    before = len(asyncio.all_tasks())
    async with collector(provider).stream([f"x/j{i}" for i in range(2000)], window=WINDOW) as stream:
        await anext(stream)
    assert len(provider.described) < 500
    assert len(asyncio.all_tasks()) == before


async def test_an_exception_in_the_block_of_a_stream_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with collector(FakeProvider(JOBS)).stream(REFS, window=WINDOW) as stream:
            async for _ in stream:
                raise ZeroDivisionError


async def test_a_strict_stream_raises_where_it_is_read() -> None:
    with pytest.raises(ExceptionGroup):
        async with collector(FakeProvider(JOBS)).stream(["x/none"], strict=True) as stream:
            async for _ in stream:
                pass


async def test_sources_come_and_go_while_it_runs() -> None:
    async with collector(FakeProvider(JOBS)) as c:
        await c.add("new", FakeProvider({"n": ["w"]}))
        assert (await c.collect("new/n", window=WINDOW)).complete
        with pytest.raises(mb.ConfigurationError, match="already"):
            await c.add("new", FakeProvider({}))
        await c.drop("new")
        assert c.sources == ("x",)
        with pytest.raises(mb.ConfigurationError, match="no source 'new'"):
            await c.drop("new")


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"metrics": ["gpu.utilization"]}, "did you mean 'hw.gpu.utilization'"), ({"per": "node"}, "'task'"),
        ({"step": "soon"}, "duration"), ({"timeout": "x"}, "duration"),
    ],
)  # fmt: skip
async def test_a_wrong_argument_says_what_to_write(wrong: Any, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        await collector(FakeProvider(JOBS)).collect(REFS, **wrong)


async def test_a_source_that_cannot_list_jobs_says_so() -> None:
    with pytest.raises(mb.ConfigurationError, match="can't list jobs"):
        await anext(collector(FakeProvider(JOBS)).list_jobs("x"))
