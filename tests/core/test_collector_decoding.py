"""Answers that a provider decodes together say what each says alone, whatever comes between them."""

from __future__ import annotations

import asyncio
import gc
import random
import traceback
from typing import Any
from zlib import crc32

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from decoding_provider import WORDS, Decoding, DecodingForMany, large, one_by_one, told
from fake_provider import MINUTE, WINDOW, A, B, C, account
from metricsbridge import accounting
from metricsbridge.http import Request, Response
from metricsbridge.protocols import ProviderSpec
from metricsbridge.registry import open_spec
from metricsbridge.runtime import _source
from metricsbridge.testing import FakeClock, FakeTransport

JOBS = {f"job-{i}": [f"worker-{t}" for t in range(tasks)] for i, tasks in enumerate((1, 9, 2, 4))}
REFS = [f"x/{job}" for job in JOBS]
SIX = {"j": [f"w{index}" for index in range(6)]}


def collector(provider: Any, clock: FakeClock | None = None, **options: Any) -> mb.Collector:
    return mb.Collector({"x": provider}, clock=clock or FakeClock(10 * MINUTE), **options)


def of_task(answers: dict[str, str]) -> Any:
    """Answer the calls of some tasks with other words than "value"."""
    return lambda call: answers.get(call.targets[0][1], "value")


@pytest.mark.parametrize("kind", [Decoding, DecodingForMany])
@given(
    seed=st.integers(0, 2**32), halves=st.sampled_from([1, 1, 1, 2]), metrics=st.sampled_from([None, (A,), (A, B, C)]),
    limits=st.tuples(*[st.sampled_from(some) for some in [(128, 1), (4, 2, 256), (2**20, 40), (4096, 4096, 2)]]),
    words=st.lists(st.sampled_from(WORDS), max_size=4).map(lambda words: ["value", *words]),
    larger=st.sampled_from([0.3, 0.2, 0.0]),
)  # fmt: skip
async def test_a_collection_is_what_it_is_where_each_answer_is_decoded_alone(
    kind: type[Decoding], seed: int, halves: int, metrics: Any, limits: tuple[int, ...], words: list[str], larger: float
) -> None:
    """Any mix of answers and failures, large and small, in any order of completion."""
    found = []
    for apart in (lambda provider: provider, one_by_one):
        clock, dice = FakeClock(10 * MINUTE), random.Random(seed)
        provider = kind(JOBS, halves=halves)
        drawn = {
            (*call.targets, *call.metrics, call.window): (dice.choice(words), dice.random(), dice.random() < larger)
            for job in JOBS
            for call in provider.plan(await provider.get_job(job), mb.Query(window=WINDOW, metrics=metrics))
        }

        def of(call: mb.Call, drawn: Any = drawn) -> Any:
            return drawn[*call.targets, *call.metrics, call.window]

        provider.say = lambda call, of=of: of(call)[0]
        provider.arrive = lambda call, of=of, clock=clock: clock.sleep(of(call)[1])
        provider.answered = lambda call, word, of=of: Response(
            200, {}, word.encode(), in_thread=large if of(call)[2] else None
        )
        with pytest.MonkeyPatch.context() as patch:
            for name, limit in zip(("_MANY_CALLS", "_MANY_ANSWERS", "_MANY_BYTES"), limits, strict=False):
                patch.setattr(accounting, name, limit)
            patch.setattr(_source, "_ALONE", limits[-1])
            order = random.Random(seed).sample(REFS, len(REFS))
            result = await collector(apart(provider), clock).collect(order, window=WINDOW, metrics=metrics)
        assert bool(provider.asked_alone) == (apart is one_by_one)
        found.append(told(result))
    assert found[0] == found[1]


async def test_the_order_is_exact_where_a_large_answer_overtakes_small_ones() -> None:
    """What is decoded by itself is not joined with what comes long after it, as long as others may come between."""
    tasks = [f"w{index}" for index in range(20)]
    clock = FakeClock(10 * MINUTE)
    provider = Decoding({"j": tasks})
    delays = {"w2": 0.5, "w5": 0.5, "w3": 5, "w4": 5}
    provider.arrive = lambda call: clock.sleep(delays.get(call.targets[0][1], 1))
    provider.answered = lambda call, word: Response(
        200, {}, word.encode(), in_thread=large if call.targets[0][1] in ("w2", "w5") else None
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "_MANY_ANSWERS", 10)
        result = await collector(provider, clock).collect("x/j", window=WINDOW, metrics=[A])
    assert [key.task for key in result.series.keys] == tasks


async def test_the_answers_of_a_job_are_decoded_at_once() -> None:
    provider = Decoding(JOBS)
    result = await collector(provider).collect(REFS, window=WINDOW, metrics=[A])
    assert result.complete
    assert sorted(count for count, _ in provider.together) == sorted(len(tasks) for tasks in JOBS.values())


@pytest.mark.parametrize(("padding", "at_once"), [(0, 256), (100 * 1024, 4)])
async def test_very_many_answers_are_decoded_before_the_job_is_done(padding: int, at_once: int) -> None:
    """There are so many of them, or so many bytes; the series are in order all the same."""
    clock, dice = FakeClock(10 * MINUTE), random.Random(5)
    tasks = [f"w{index}" for index in dice.sample(range(1000), 600)]
    provider = Decoding({"j": tasks})
    provider.arrive = lambda call: clock.sleep(dice.random())
    provider.answered = lambda call, word: Response(200, {}, word.encode() + b" " * padding)
    result = await collector(provider, clock).collect("x/j", window=WINDOW, metrics=[A])
    assert result.complete
    assert [key.task for key in result.series.keys] == tasks
    first_sent = provider.together[0][1]
    assert at_once <= first_sent <= at_once + 64
    assert max(count for count, _ in provider.together) <= at_once
    assert sum(count for count, _ in provider.together) == 600


BROKEN = [("cut", mb.DecodeError, "the answer is cut off"), ("bug", mb.ProviderError, "KeyError: a bug in it")]


@pytest.mark.parametrize(("word", "kind", "text"), BROKEN, ids=["cut", "bug"])
async def test_an_answer_that_can_not_be_decoded_fails_alone(word: str, kind: Any, text: str) -> None:
    provider = Decoding(SIX)
    provider.say = of_task({"w2": word})
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    (failure,) = result.failures
    assert (failure.source, failure.targets, failure.metrics, failure.window, failure.attempts) == (
        "x", (("j", "w2"),), (A,), WINDOW, 1,
    )  # fmt: skip
    assert isinstance(failure.error, kind)
    assert text in failure.error.message
    assert failure.error.operation == "Read"
    assert [key.task for key in result.series.keys] == ["w0", "w1", "w3", "w4", "w5"]
    assert provider.together[0][0] == 6
    assert result.absences == ()


@attrs.frozen
class NoSettings:
    pass


@pytest.mark.parametrize("apart", [False, True])
async def test_its_failure_says_whose_answer_it_is_and_how_often_the_call_was_tried(apart: bool) -> None:
    """Attempts that failed before the answer came count, those of its own call alone."""
    refusals = {"w1": 2, "w4": 1}

    def answer(request: Request) -> Response:
        task = request.url.rpartition("/")[2]
        refusals[task] = refusals.get(task, 0) - 1
        return Response(503) if refusals[task] >= 0 else Response(200, {}, b"cut" if task in ("w1", "w3") else b"value")

    class Wired(Decoding):
        def __init__(self, transport: Any) -> None:
            super().__init__(SIX)
            self.transport = transport

        async def send(self, call: mb.Call, /) -> Response:
            url = f"https://wired.test/{call.targets[0][1]}"
            response: Response = await self.transport.send(Request("GET", url, operation="Read"))
            return response

    async def connect(settings: NoSettings, transport: Any) -> Any:
        return one_by_one(Wired(transport)) if apart else Wired(transport)

    transport = FakeTransport(answer)
    spec = ProviderSpec(settings=NoSettings, connect=connect)
    async with open_spec("wired", spec, transport=transport, limits={"*": "unlimited"}) as provider:
        result = await collector(provider, transport.clock).collect("x/j", window=WINDOW, metrics=[A])
    assert [key.task for key in result.series.keys] == ["w0", "w2", "w4", "w5"]
    assert [(each.targets[0][1], each.attempts, str(each.error)) for each in result.failures] == [
        ("w1", 3, "the answer is cut off [wired Read, 3 attempts]"), ("w3", 1, "the answer is cut off [wired Read]"),
    ]  # fmt: skip


@pytest.mark.parametrize("tasks", [["w"], ["v", "w", "x"]])
async def test_what_half_of_an_answer_says_is_kept_and_the_other_half_is_named(tasks: list[str]) -> None:
    provider = Decoding({"j": tasks})
    provider.say = of_task({"w": "partial"})
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    assert [key.task for key in result.series.keys] == tasks
    assert [(each.source, each.targets, str(each.error)) for each in result.failures] == [
        ("x", (("j", "w"),), "page 2 is none")
    ]


@pytest.mark.parametrize("given", [None, [], "series", asyncio.CancelledError()], ids=repr)
async def test_a_decoder_that_gives_no_series_fails_its_calls(given: Any) -> None:
    class Wrong(Decoding):
        def decode(self, answers: Any, /) -> Any:
            if isinstance(given, BaseException):
                raise given
            return given

    result = await collector(Wrong({"j": ["v", "w"]})).collect("x/j", window=WINDOW, metrics=[A, B])
    name = "CancelledError" if isinstance(given, BaseException) else "TypeError"
    assert account(result) == (set(), set(), {("x", "j", task, metric) for task in "vw" for metric in (A, B)})
    assert len(result.failures) == 4
    assert all(f"with {name}: a bug in it" in str(each.error) for each in result.failures)


@pytest.mark.parametrize("given", [None, b"value", ("j", "w")])
async def test_a_provider_that_sends_and_has_no_answer_fails_its_call(given: Any) -> None:
    provider = Decoding({"j": ["v", "w"]})
    provider.answered = lambda call, word: given if call.targets[0][1] == "w" else Response(200, {}, word.encode())
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    assert account(result) == ({("x", "j", "v", A)}, set(), {("x", "j", "w", A)})
    assert "a bug in it" in str(result.failures[0].error)


async def test_a_provider_may_send_and_have_the_series_at_once() -> None:
    provider = Decoding(SIX)
    plain = provider.answered
    provider.answered = lambda call, word: (
        provider.default_answer(call) if call.targets[0][1] in ("w1", "w4") else plain(call, word)
    )
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    assert result.complete
    assert [key.task for key in result.series.keys] == SIX["j"]
    assert sum(count for count, _ in provider.together) == 4


async def test_answers_to_calls_of_different_windows_are_each_clipped_to_their_own() -> None:
    provider = Decoding({"j": ["v", "w"]}, halves=2)
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    assert [times.tolist() for _, times, _ in result.series] == [[0, 5 * MINUTE]] * 2
    assert [values.tolist() for _, _, values in result.series] == [[0.5, 0.5]] * 2


async def test_a_large_answer_is_decoded_in_a_thread_and_alone() -> None:
    worked: list[Any] = []

    async def in_thread(work: Any) -> Any:
        worked.append(work)
        return work()

    provider = Decoding(SIX)
    provider.say = of_task({"w1": "cut"})
    provider.answered = lambda call, word: Response(
        200, {}, word.encode(), in_thread=in_thread if call.targets[0][1] in ("w1", "w3") else None
    )
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    assert [key.task for key in result.series.keys] == ["w0", "w2", "w3", "w4", "w5"]
    assert [each.targets for each in result.failures] == [(("j", "w1"),)]
    assert len(worked) == 2
    assert [count for count, _ in provider.together].count(1) >= 2
    assert sum(count for count, _ in provider.together) == 6


@pytest.mark.parametrize("hangs", [("w1", "w3"), ("w5",), tuple(SIX["j"])])
async def test_at_the_deadline_answers_that_wait_are_delivered_and_the_rest_is_named(hangs: tuple[str, ...]) -> None:
    clock = FakeClock(10 * MINUTE)
    provider = Decoding(SIX)
    provider.say = of_task({"w2": "cut", "w4": "nothing"})
    provider.arrive = lambda call: clock.sleep(1000 if call.targets[0][1] in hangs else 1)
    result = await collector(provider, clock).collect("x/j", window=WINDOW, metrics=[A], timeout=10)
    here = [task for task in SIX["j"] if task not in hangs]
    assert [key.task for key in result.series.keys] == [task for task in here if task not in ("w2", "w4")]
    assert [(each.targets, type(each.error)) for each in result.failures] == [
        ((("j", task),), mb.DeadlineExceededError if task in hangs else mb.DecodeError)
        for task in SIX["j"]
        if task in (*hangs, "w2")
    ]
    assert [each.targets for each in result.absences] == ([(("j", "w4"),)] if "w4" in here else [])
    units = account(result)
    assert sum(map(len, units)) == len(set.union(*units)) == 6


async def test_a_stream_gives_answers_that_have_come_while_later_calls_hang() -> None:
    clock = FakeClock(10 * MINUTE)
    provider = Decoding(SIX)
    provider.arrive = lambda call: clock.sleep(1 if call.targets[0][1] in ("w1", "w4") else 1000)
    found: set[str] = set()
    async with collector(provider, clock).stream("x/j", window=WINDOW, metrics=[A], timeout=100) as parts:
        async for part in parts:
            found |= {key.task for key in part.series.keys}
            if "w1" in found:
                break
    assert clock.monotonic() < 2


async def test_a_stream_gives_what_a_collection_gives() -> None:
    async def parts_of(provider: Decoding) -> list[mb.Collection]:
        provider.say = lambda call: WORDS[crc32(repr(call.targets).encode()) % len(WORDS)]
        async with collector(provider).stream(REFS, window=WINDOW, metrics=[A, C]) as stream:
            return [part async for part in stream]

    provider = Decoding(JOBS)
    parts = await parts_of(provider)
    whole = await collector(provider).collect(REFS, window=WINDOW, metrics=[A, C])
    assert sorted(str(f) for part in parts for f in part.failures) == sorted(map(str, whole.failures))
    merged = mb.merge([part.series for part in parts])
    assert {k: repr(v.tolist()) for k, _, v in merged} == {k: repr(v.tolist()) for k, _, v in whole.series}
    assert set().union(*[account(part)[1] for part in parts]) == account(whole)[1]


async def test_an_observer_is_told_what_each_call_brought() -> None:
    events: list[mb.CallEvent] = []

    class Notes:
        def on_request(self, event: mb.RequestEvent, /) -> None:
            raise AssertionError

        def on_call(self, event: mb.CallEvent, /) -> None:
            events.append(event)

    provider = Decoding(SIX)
    provider.say = of_task({"w1": "extra", "w2": "cut", "w3": "nothing"})
    result = await collector(provider, observer=Notes()).collect("x/j", window=WINDOW, metrics=[A])
    points = {each.targets[0][1]: each.points for each in events if each.operation == "Read"}
    assert points == {"w0": 2, "w1": 3, "w2": None, "w3": 0, "w4": 2, "w5": 2}
    assert provider.asked_alone == 6
    assert provider.together == []
    assert len(result.failures) == 1


async def test_a_strict_collection_ends_with_an_answer_that_can_not_be_decoded() -> None:
    provider = Decoding(JOBS)
    provider.say = of_task({"worker-1": "cut"})
    with pytest.raises(ExceptionGroup) as caught:
        await collector(provider, concurrency=1).collect(REFS, window=WINDOW, metrics=[A], strict=True)
    assert caught.group_contains(mb.DecodeError)
    assert len(provider.fetched) < sum(map(len, JOBS.values()))


async def test_planning_sends_and_decodes_nothing() -> None:
    provider = Decoding(JOBS)
    plan = await collector(provider).plan(REFS, window=WINDOW, metrics=[A])
    assert sum(each.calls for each in plan.operations) == sum(map(len, JOBS.values()))
    assert (provider.fetched, provider.together) == ([], [])


@pytest.mark.parametrize("in_thread", [None, large], ids=["small", "large"])
@pytest.mark.parametrize("word", ["cut", "bug", "partial"])
async def test_a_failure_holds_none_of_the_answers(word: str, in_thread: Any) -> None:
    alive: list[bytes] = []

    class Body(bytes):
        def __del__(self) -> None:
            alive.remove(bytes(self))

    provider = Decoding(SIX)
    provider.say = of_task({"w1": word, "w3": "refused"})  # what comes behind is decoded after it

    def answered(call: mb.Call, text: str) -> Response:
        alive.append(text.encode())
        return Response(200, {}, Body(text.encode()), in_thread=in_thread)

    provider.answered = answered
    result = await collector(provider).collect("x/j", window=WINDOW, metrics=[A])
    gc.collect()
    assert alive == []
    failure, _ = result.failures
    shown = "".join(traceback.format_exception(failure.error))
    assert "meaning(call" in shown or word == "partial"
    assert "During handling of the above exception" not in shown
