import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.series_strategies import batches, equal, make_batch, row, same_bits, steps
from metricsbridge.model import Window
from metricsbridge.series.align import Fill, How, align

pytestmark = pytest.mark.usefixtures("engine")

hows = st.sampled_from(get_args(How))


@given(batch=batches(), step=steps, how=hows)
def test_filling_keeps_every_value_that_is_there(batch, step, how):
    plain = align(batch, step=step, how=how).values
    present = ~np.isnan(plain)
    for fill in get_args(Fill):
        filled = align(batch, step=step, how=how, fill=fill, max_gap="1h").values
        assert same_bits(filled[present], plain[present])


GAP = [(0, 1.0), (40, 5.0)]


def test_previous_carries_a_value_as_far_as_the_gap_allows():
    nan = math.nan
    assert equal(row(*GAP, fill="previous", max_gap=30), [1, 1, 1, 1, 5])
    assert equal(row(*GAP, fill="previous", max_gap=29), [1, 1, 1, nan, 5])
    assert equal(row(*GAP, fill="previous", max_gap=10), [1, 1, nan, nan, 5])
    assert equal(row(*GAP, fill="previous", max_gap=9), [1, nan, nan, nan, 5])


def test_previous_reaches_beyond_the_last_value_and_never_before_the_first():
    filled = row((12, 1.0), fill="previous", max_gap=20, window=Window(0, 50))
    assert equal(filled, [math.nan, 1, 1, 1, math.nan])


def test_linear_bridges_a_gap_as_a_whole_or_not_at_all():
    nan = math.nan
    assert equal(row(*GAP, fill="linear", max_gap=30), [1, 2, 3, 4, 5])
    assert equal(row(*GAP, fill="linear", max_gap=29), [1, nan, nan, nan, 5])


def test_linear_never_extrapolates():
    filled = row((12, 1.0), (32, 3.0), fill="linear", max_gap="1h", window=Window(0, 60))
    assert equal(filled, [math.nan, 1, 2, 3, math.nan, math.nan])


@pytest.mark.parametrize("fill", ["previous", "linear"])
def test_filling_never_crosses_from_one_series_to_the_next(fill):
    frame = align(make_batch([[(0, 1.0)], [(40, 5.0)]]), step=10, fill=fill, max_gap=20, window=Window(0, 50))
    nan = math.nan
    head = [1, 1, 1, nan, nan] if fill == "previous" else [1, nan, nan, nan, nan]
    assert equal(frame.values, [head, [nan, nan, nan, nan, 5]])


@pytest.mark.parametrize(("interval_ms", "bridged"), [(0, False), (9, False), (20, False), (30, True), (1000, True)])
def test_the_longest_gap_is_one_interval_and_at_least_the_step(interval_ms, bridged):
    nan = math.nan
    expected = [1, 2, 3, 4, 5] if bridged else [1, nan, nan, nan, 5]
    assert equal(row(*GAP, fill="linear", interval_ms=interval_ms), expected)
    assert equal(row((0, 1.0), (20, 3.0), fill="linear", interval_ms=interval_ms), [1, 2, 3])


def test_each_series_has_a_longest_gap_of_its_own():
    frame = align(make_batch([GAP, GAP], interval_ms=[20, 30]), step=10, fill="previous")
    assert equal(frame.values, [[1, 1, 1, math.nan, 5], [1, 1, 1, 1, 5]])


@pytest.mark.parametrize("fill", ["previous", "linear"])
def test_count_is_never_filled(fill):
    assert row(*GAP, how="count", fill=fill, max_gap="1h").tolist() == [1, 0, 0, 0, 1]


def test_an_interval_longer_than_the_step_leaves_nan_between_its_samples_unless_filled():
    pairs = [(0, 1.0), (30, 2.0), (60, 3.0)]
    nan = math.nan
    assert equal(row(*pairs, interval_ms=30), [1, nan, nan, 2, nan, nan, 3])
    assert equal(row(*pairs, interval_ms=30, fill="previous"), [1, 1, 1, 2, 2, 2, 3])


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2))
@example([1e308, -1e308])
@example([math.inf, math.inf])
def test_a_line_between_any_two_values_raises_no_warning(ends):
    assert same_bits(row((0, ends[0]), (20, ends[1]), fill="linear")[[0, 2]], np.array(ends) + 0.0)
