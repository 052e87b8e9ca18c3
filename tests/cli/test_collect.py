"""One collection for the command line: held once, and shown as it goes."""

from __future__ import annotations

import io
import tracemalloc

import anyio.lowlevel
import attrs
import numpy as np
import pytest
from rich.console import Console

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, B, FakeProvider, batch
from metricsbridge.cli._arguments import Options, UsageError
from metricsbridge.cli._collect import CollectionProgress, gather
from metricsbridge.testing import FakeClock

HIDDEN = CollectionProgress(Console(file=io.StringIO()))


def collector(provider: FakeProvider) -> mb.Collector:
    return mb.Collector({"x": provider}, clock=FakeClock(10 * MINUTE))


class Minutes(FakeProvider):
    """Answers with a thousand samples each time."""

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        await anyio.lowlevel.checkpoint()
        one = batch(*call.targets[0], call.metrics[0], [(0, 0.5)])
        times, values = np.arange(1000, dtype=np.int64) * 400, np.full(1000, 0.5)
        return attrs.evolve(one, offsets=np.array([0, 1000]), times=times, values=values)


async def test_what_it_gives_is_nearly_all_that_it_holds() -> None:
    names = [f"j{index}" for index in range(250)]
    asking = collector(Minutes({name: ["a", "b", "c", "d"] for name in names}, halves=1))
    refs, options = [mb.JobRef("x", name) for name in names], Options(metrics=[A], window=WINDOW)
    await gather(asking, refs[:2], options, HIDDEN)  # what is made once is made before
    tracemalloc.start()
    try:
        result = await gather(asking, refs, options, HIDDEN)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    samples = len(result.series.times)
    assert samples == 1_000_000
    assert [job.id for job in result.jobs] == names
    assert peak < 2 * 16 * samples


async def test_a_wrong_option_is_told_before_anything_is_sent() -> None:
    provider = FakeProvider({"j": ["w"]})
    with pytest.raises(UsageError, match="there is no metric 'cpu'"):
        await gather(collector(provider), [mb.JobRef("x", "j")], Options(metrics=["cpu"]), HIDDEN)
    assert provider.described == []


async def test_on_a_terminal_the_tasks_that_are_done_are_counted_and_the_calls_that_failed() -> None:
    shown = io.StringIO()
    provider = FakeProvider({"j": ["v", "w"], "k": ["v"]})
    provider.answer = lambda call: mb.DecodeError("no JSON") if call.metrics == (B,) else provider.default_answer(call)
    console = Console(file=shown, force_terminal=True, width=100)
    with CollectionProgress(console) as progress:
        result = await gather(
            collector(provider), [mb.JobRef("x", name) for name in "jkl"], Options(window=WINDOW), progress
        )
    assert len(result.failures) == 7  # three tasks with two windows, and a job that there is not
    assert "4/4" in shown.getvalue()
    assert "7 failed" in shown.getvalue()


async def test_elsewhere_nothing_is_shown() -> None:
    shown = io.StringIO()
    with CollectionProgress(Console(file=shown, width=100)) as progress:
        await gather(collector(FakeProvider({"j": ["v"]})), [mb.JobRef("x", "j")], Options(window=WINDOW), progress)
    assert shown.getvalue() == ""
