"""A pile gives what merging gives, in the order of the places, and holds the samples once."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from core.series_strategies import same_batch
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


@pytest.mark.parametrize("chunk", [1, 7, 2**20])
@given(
    shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 3)), max_size=8),
    sources=st.sampled_from(["s", "st"]),
    data=st.data(),
)
def test_what_is_piled_up_in_any_order_is_merged_in_order(chunk, shapes, sources, data) -> None:
    """Jobs may come again: the same job in two batches has equal keys."""
    batches = [
        batch(job, series, points, source=sources[place % len(sources)], seed=place)
        for place, (series, points, job) in enumerate(shapes)
    ]
    order = data.draw(st.permutations(range(len(batches))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pile_module, "_CHUNK", chunk)
        patch.setattr(pile_module, "_FIRST", min(chunk, 4))
        found = piled(batches, order)
    assert same_batch(found, mb.merge(batches))


def test_nothing_piled_up_is_the_empty_batch() -> None:
    assert same_batch(Pile().stack(), mb.SeriesBatch.empty())


@pytest.mark.parametrize(("apart", "most"), [(0, 1.3), (100, 1.3), (100_000, 1.7)])
def test_the_samples_are_held_about_once(apart, most, monkeypatch) -> None:
    """``apart``: how far from their places batches come, in batches; with all out of order, one column exists twice."""
    monkeypatch.setattr(pile_module, "_CHUNK", 2**12)
    dice = random.Random(5)
    order = sorted(range(600), key=lambda place: place + dice.uniform(0, apart))
    piled([batch(0, 4, 120)], [0])  # what is made once is made before
    tracemalloc.start()
    try:
        pile = Pile()
        for place in order:
            pile.add((place, 0), batch(place, 4, 120))
        whole = pile.stack()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    samples = whole.times.nbytes + whole.values.nbytes
    assert samples > 4e6
    texts = held - samples
    assert texts < 2e6
    assert peak < most * samples + 2 * texts
