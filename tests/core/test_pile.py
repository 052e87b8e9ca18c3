"""A pile gives what merging gives, in the order of the places, and holds the samples once."""

from __future__ import annotations

import tracemalloc
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from core.series_strategies import batches as any_batches
from core.series_strategies import same_batch
from fresh_interpreter import PROJECT, run_fresh
from metricsbridge.series import pile as pile_module
from metricsbridge.series.pile import Pile

if TYPE_CHECKING:
    from collections.abc import Sequence


def batch(job: int, series: int, points: int, *, source: str = "s", seed: int = 0) -> mb.SeriesBatch:
    """Give series of one job, of ``points`` samples but for the last one, which has a sample more."""
    lengths = [points] * (series - 1) + [points + 1] if series else []
    count = sum(lengths)
    dice = np.random.default_rng(seed * 1000 + job)
    return mb.SeriesBatch(
        source=source,
        keys=tuple([mb.SeriesKey(f"job-{job}", f"worker-{index}", "", "hw.power") for index in range(series)]),
        unit=("W",) * series, interval_ms=(60_000,) * series, timing=(mb.Timing.REPORTED,) * series,
        time_error_ms=(0,) * series, statistic=(mb.Statistic.MEAN,) * series,
        offsets=np.cumsum([0, *lengths], dtype=np.int64), times=np.arange(count, dtype=np.int64) * 60_000,
        values=dice.random(count),
    )  # fmt: skip


def piled(batches: Sequence[mb.SeriesBatch], order: Sequence[int]) -> mb.SeriesBatch:
    pile = Pile()
    for place in order:
        pile.add((place, 0), batches[place])
    return pile.stack()


@pytest.mark.parametrize(("chunk", "kept"), [(1, 10**9), (7, 10**9), (2**20, 10**9), (7, 1), (7, 10), (2**20, 4)])
@given(
    shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 3)), max_size=8),
    sources=st.sampled_from(["s", "st"]),
    data=st.data(),
)
def test_what_is_piled_up_in_any_order_is_merged_in_order(chunk, kept, shapes, sources, data) -> None:
    """Jobs may come again: the same job in two batches has equal keys."""
    batches = [
        batch(job, series, points, source=sources[place % len(sources)], seed=place)
        for place, (series, points, job) in enumerate(shapes)
    ]
    for each in batches[::2]:
        each.times.flags.writeable = False
    batches += batches[:1]  # the very same arrays again
    order = data.draw(st.permutations(range(len(batches))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pile_module, "_CHUNK", chunk)
        patch.setattr(pile_module, "_FIRST", min(chunk, 4))
        patch.setattr(pile_module, "_WHOLE", kept)
        patch.setattr(pile_module, "_SHARED", kept)
        found = piled(batches, order)
    assert same_batch(found, mb.merge(batches))


@pytest.mark.parametrize("kept", [1, 12, 10**9])
@given(
    given=st.lists(st.one_of(any_batches(source="s"), any_batches(source="t"), any_batches(max_series=0)), max_size=6),
    data=st.data(),
)
def test_so_is_whatever_else_there_is(kept, given, data) -> None:
    """Keys that come again within a batch and in others, of two sources; empty series; samples in any order."""
    for each in given:
        each.times.flags.writeable = each.values.flags.writeable = False  # nothing may be written into what is kept
    order = data.draw(st.permutations(range(len(given))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pile_module, "_CHUNK", 7)
        patch.setattr(pile_module, "_FIRST", 4)
        patch.setattr(pile_module, "_WHOLE", kept)
        patch.setattr(pile_module, "_SHARED", kept)
        found = piled(given, order)
    assert same_batch(found, mb.merge(given))


@pytest.mark.parametrize("kept", [1, 10**9])
def test_what_was_not_copied_is_let_go_when_it_is_stacked(kept, monkeypatch) -> None:
    monkeypatch.setattr(pile_module, "_WHOLE", kept)
    pile, arrays = Pile(), []
    for place in range(3):
        one = batch(place, 2, 50)
        arrays += [weakref.ref(one.times), weakref.ref(one.values)]
        pile.add((place, 0), one)
    del one
    assert [array() is None for array in arrays] == [kept > 1] * 6
    stacked = pile.stack()
    assert [array() for array in arrays] == [None] * 6
    assert len(stacked) == 6


def test_nothing_piled_up_is_the_empty_batch() -> None:
    assert same_batch(Pile().stack(), mb.SeriesBatch.empty())


_HELD: Final = """
import random
from pathlib import Path
from core.test_pile import batch
from metricsbridge.series.pile import Pile

def peak():
    status = Path("/proc/self/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024

dice = random.Random(5)
order = sorted(range(8000), key=lambda place: place + dice.uniform(0, APART))
small = Pile()
small.add((0, 0), batch(0, 4, 120))
small.stack()
before, pile = peak(), Pile()
for place in order:
    pile.add((place, 0), batch(place, 4, 120))
filled, whole = peak(), pile.stack()
print(whole.times.nbytes + whole.values.nbytes, filled - before, peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
@pytest.mark.parametrize(("apart", "most"), [(0, 0.3), (100, 0.3), (100_000, 0.7)])
def test_the_samples_are_held_about_once(apart: int, most: float) -> None:
    """``apart``: how far from their places batches come, in batches; with all out of order, one column exists twice."""
    printed = run_fresh(f"APART = {apart}\n{_HELD}", paths=[PROJECT / "tests"])
    samples, filled, stacked = [int(number) for number in printed.split()]
    assert samples > 60e6
    assert filled > samples
    assert stacked - filled < most * samples


def test_times_that_are_shared_are_kept_once() -> None:
    times = np.arange(4 * 1024, dtype=np.int64)
    times.flags.writeable = False
    batches = [attrs.evolve(batch(job, 4, 1023), times=times[:4093]) for job in range(3)]
    shared = attrs.evolve(batches[0], times=batches[1].times)
    pile = Pile()
    for place, each in enumerate((shared, batches[1], batches[2], batches[1])):
        pile.add((place, 0), attrs.evolve(each, keys=batch(place, 4, 1023).keys))
    assert pile._times.count == 2 * 4093
    assert pile.samples == 4 * 4093
    whole = pile.stack()
    assert np.array_equal(whole.times, np.tile(times[:4093], 4))


@pytest.mark.parametrize("points", [1000, 40_000])
def test_nor_is_more_held_where_series_of_several_batches_are_joined(points: int) -> None:
    """Each task comes in four windows, some of which overlap; ``merge`` would hold everything more than three times."""
    count = 8_000_000 // points // 16
    batches = []
    for number in range(count):
        one = batch(number // 4, 1, points)
        batches.append(attrs.evolve(one, times=one.times + number % 4 * (points - 5) * 60_000))
    expected = mb.merge(batches)
    tracemalloc.start()
    try:
        pile = Pile()
        for number in reversed(range(count)):
            each = batches.pop()
            pile.add((number, 0), attrs.evolve(each, times=each.times.copy(), values=each.values.copy()))
        del each
        found = pile.stack()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert same_batch(found, expected)
    assert len(found) == count // 4 + (count % 4 > 0)
    assert peak < 1.9 * (found.times.nbytes + found.values.nbytes)
