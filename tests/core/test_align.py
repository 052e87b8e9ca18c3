import math
import pickle
from datetime import timedelta
from itertools import product
from typing import get_args

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.series_strategies import NOW_MS, batches, equal, make_batch, row, same_batch, same_bits, steps, windows
from metricsbridge.model import Window
from metricsbridge.series import align as align_module
from metricsbridge.series._reference import align_reference
from metricsbridge.series.align import Fill, Frame, How, align
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing, concat

pytestmark = pytest.mark.usefixtures("engine")

HOWS = get_args(How)
hows = st.sampled_from(HOWS)
fills = st.sampled_from([None, *get_args(Fill)])
gaps = st.one_of(st.none(), st.integers(1, 300))
around = st.sampled_from([0, NOW_MS])
COLUMNS = ("source", "keys", "unit", "interval_ms", "timing", "time_error_ms", "statistic", "step_ms", "how", "window")


def same_frame(left: Frame, right: Frame) -> bool:
    return (
        all(getattr(left, name) == getattr(right, name) for name in COLUMNS)
        and same_bits(left.times, right.times)
        and same_bits(left.values, right.values)
    )


# The specification


@settings(max_examples=500)
@given(data=st.data(), middle=around, step=steps, how=hows, fill=fills, max_gap=gaps)
def test_every_frame_is_the_reference_bit_for_bit(data, middle, step, how, fill, max_gap):
    batch = data.draw(batches(around=middle, source="hw"))
    window = data.draw(st.one_of(st.none(), windows(around=middle)))
    arguments = {"step": step, "how": how, "window": window, "fill": fill, "max_gap": max_gap}
    assert same_frame(align(batch, **arguments), align_reference(batch, **arguments))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("fill", [None, "previous", "linear"])
def test_the_size_of_the_blocks_worked_on_changes_nothing(monkeypatch, how, fill):
    random = np.random.default_rng(7)
    sizes = (0, 40, 3, 0, 0, 200, 1, 17, 0)
    series = [[(int(random.integers(0, 900)), random.random()) for _ in range(size)] for size in sizes]
    batch = make_batch(series, interval_ms=[300, 0, 20, 60, 0, 0, 100, 400, 60])
    whole = align(batch, step=20, how=how, fill=fill)
    assert same_frame(whole, align_reference(batch, step=20, how=how, fill=fill))
    for size in (1, 5, 64, 300):
        monkeypatch.setattr(align_module, "_BLOCK", size)
        assert same_frame(align(batch, step=20, how=how, fill=fill), whole)


def test_more_samples_than_one_block_are_still_added_in_order():
    random = np.random.default_rng(11)
    count = align_module._BLOCK + 1000
    batch = make_batch([list(enumerate(random.random(count).tolist())), [(5, 1.0)]])
    frame = align(batch, step=count, how="sum")
    total = 0.0
    for value in batch.samples(0)[1].tolist():
        total += value
    assert frame.values.tolist() == [[total], [1.0]]
    assert total != batch.samples(0)[1].sum()  # numpy's pairwise sum is another number


# The laws


@given(data=st.data(), step=steps, how=hows, fill=fills)
def test_order_in_is_order_out(data, step, how, fill):
    batch = data.draw(batches())
    order = data.draw(st.permutations(range(len(batch))))
    window = Window(-200, 200)
    frame = align(batch, step=step, how=how, fill=fill, window=window)
    turned = align(batch.select(order), step=step, how=how, fill=fill, window=window)
    assert turned.keys == tuple(frame.keys[index] for index in order)
    assert same_bits(turned.values, frame.values[list(order)])


@given(upper=batches(), lower=batches(), window=windows(), step=steps, how=hows, fill=fills)
def test_stacking_batches_is_stacking_frames(upper, lower, window, step, how, fill):
    arguments = {"step": step, "how": how, "fill": fill, "window": window}
    whole = align(concat([upper, lower]), **arguments)
    above, below = align(upper, **arguments), align(lower, **arguments)
    assert whole.keys == above.keys + below.keys
    assert same_bits(whole.times, above.times)
    assert same_bits(whole.values, np.vstack([above.values, below.values]))


@given(data=st.data(), steps_on=st.integers(-10_000, 10_000), step=steps, how=hows, fill=fills)
def test_shifting_by_whole_steps_shifts(data, steps_on, step, how, fill):
    batch = data.draw(batches())
    window = data.draw(st.one_of(st.none(), windows()))
    shift = steps_on * step
    moved = attrs.evolve(batch, times=batch.times + shift)
    moved_window = window and Window(window.start_ms + shift, window.end_ms + shift)
    before = align(batch, step=step, how=how, fill=fill, window=window)
    after = align(moved, step=step, how=how, fill=fill, window=moved_window)
    assert same_bits(after.times, before.times + shift)
    assert same_bits(after.values, before.values)


@given(data=st.data(), step=steps, how=hows.filter("count".__ne__), fill=fills, gap=st.integers(1, 300))
def test_aligned_again_on_its_own_grid_it_is_itself(data, step, how, fill, gap):
    batch = data.draw(batches(source="hw"))
    window = data.draw(windows())
    once = align(batch, step=step, how=how, fill=fill, max_gap=gap, window=window)
    # Filled cells are values now: a second filling would reach farther, so the second alignment does not fill.
    grid = Window(int(once.times[0]), int(once.times[-1]) + step)
    again = align(once.to_batch(), step=step, how=how, window=grid)
    assert again.keys == once.keys
    assert again.source == once.source
    assert same_bits(again.times, once.times)
    assert equal(again.values, once.values)


@given(batch=batches(), step=steps)
def test_counts_add_up_to_the_distinct_samples_inside_the_window(batch, step):
    window = Window(-70, 83)
    expected = []
    for _, times, values in batch:
        latest = dict(zip(times.tolist(), values.tolist(), strict=True))
        expected.append(sum(time in window and not math.isnan(value) for time, value in latest.items()))
    frame = align(batch, step=step, how="count", window=window)
    assert frame.values.sum(axis=1).tolist() == expected


@given(batch=batches(), step=steps)
def test_a_mean_is_the_sum_divided_by_the_count(batch, step):
    total, count = (align(batch, step=step, how=how).values for how in ("sum", "count"))
    with np.errstate(invalid="ignore"):
        assert equal(align(batch, step=step, how="mean").values, total / count)


@given(batch=batches(), step=steps, how=hows)
def test_the_batch_is_left_as_it_was(batch, step, how):
    copy = pickle.loads(pickle.dumps(batch))
    for column in (batch.times, batch.values, batch.offsets):
        column.flags.writeable = False
    align(batch, step=step, how=how, fill="linear", window=Window(-50, 50))
    assert same_batch(batch, copy)


# The grid


@pytest.mark.parametrize(
    ("window", "times"),
    [
        (Window(0, 30), [0, 10, 20]),
        (Window(7, 30), [0, 10, 20]),
        (Window(7, 31), [0, 10, 20, 30]),
        (Window(9, 10), [0]),
        (Window(-1, 1), [-10, 0]),
        (Window(-25, -20), [-30]),
        (Window(-20, -19), [-20]),
    ],
)
def test_the_grid_starts_at_the_multiple_of_the_step_at_or_before_the_window_and_covers_it(window, times):
    frame = align(make_batch([[]]), step=10, window=window)
    assert frame.times.dtype == np.int64
    assert frame.times.tolist() == times


def test_without_a_window_the_grid_covers_the_first_to_the_last_sample():
    frame = align(make_batch([[(25, 1.0)], [(49, np.nan), (3, 1.0)]]), step=10)
    assert frame.times.tolist() == [0, 10, 20, 30, 40]
    assert frame.window == Window(3, 50)


def test_a_sample_at_a_border_belongs_to_the_cell_that_starts_there():
    assert row((9, 1.0), (10, 2.0), (19, 3.0), (20, 4.0), how="sum").tolist() == [1.0, 5.0, 4.0]


def test_samples_of_the_first_cell_before_the_window_do_not_count():
    pairs = [(10, 100.0), (14, 100.0), (15, 1.0), (24, 2.0), (25, 100.0), (29, 100.0)]
    assert row(*pairs, how="sum", window=Window(15, 25)).tolist() == [1.0, 2.0]


def test_an_empty_batch_without_a_window_gives_a_frame_without_times():
    frame = align(SeriesBatch.empty(), step="1m")
    assert (frame.values.shape, frame.times.shape, frame.window) == ((0, 0), (0,), None)
    assert (frame.times.dtype, frame.values.dtype) == (np.int64, np.float64)
    assert len(frame.to_batch()) == 0


def test_series_without_samples_keep_their_rows():
    assert align(make_batch([[], []]), step="1m").values.shape == (2, 0)
    assert align(make_batch([[], []]), step="1m", window=Window(0, 120_000)).values.shape == (2, 2)
    assert align(SeriesBatch.empty(), step="1m", window=Window(0, 120_000)).values.shape == (0, 2)


@pytest.mark.parametrize("step", ["90s", "1m30s", 90_000, timedelta(seconds=90)])
def test_a_step_is_any_duration(step):
    assert align(make_batch([[(0, 1.0)]]), step=step).step_ms == 90_000


# The cells

SEVERAL = [(0, 4.0), (1, 1.0), (2, 7.0), (3, 2.0)]


@pytest.mark.parametrize(
    ("how", "value"),
    [("mean", 3.5), ("max", 7.0), ("min", 1.0), ("sum", 14.0), ("count", 4.0), ("first", 4.0), ("last", 2.0)],
)
def test_how_says_what_a_cell_says_of_its_samples(how, value):
    assert row(*SEVERAL, how=how).tolist() == [value]


@pytest.mark.parametrize("how", HOWS)
def test_nan_samples_are_absent_for_every_how(how):
    noisy = [(0, np.nan), *[(time + 1, value) for time, value in SEVERAL], (8, np.nan), (15, np.nan), (25, 1.0)]
    clean = [(time, value) for time, value in noisy if not math.isnan(value)]
    window = Window(0, 30)
    assert equal(row(*noisy, how=how, window=window), row(*clean, how=how, window=window))


@pytest.mark.parametrize("how", HOWS)
def test_an_empty_cell_counts_zero_and_is_nan_for_every_other_how(how):
    cell = row((0, 1.0), (20, 1.0), how=how)[1]
    assert cell == 0 if how == "count" else math.isnan(cell)


def test_infinities_are_ordinary_values():
    assert row((0, np.inf), (1, 2.0), (10, -np.inf), (11, 2.0)).tolist() == [np.inf, -np.inf]
    assert row((0, np.inf), (1, -np.inf), how="max").tolist() == [np.inf]
    assert row((0, np.inf), (1, -np.inf), how="count").tolist() == [2]
    assert math.isnan(row((0, np.inf), (1, -np.inf), how="sum")[0])


def test_of_equal_times_the_last_sample_given_counts():
    assert row((3, 1.0), (1, 5.0), (3, 2.0), (1, 6.0), how="sum").tolist() == [8.0]
    assert row((3, 1.0), (3, 2.0), how="count").tolist() == [1]


def test_a_value_that_is_withdrawn_by_a_later_nan_is_gone():
    assert math.isnan(row((3, 1.0), (3, np.nan), how="sum")[0])
    assert row((3, np.nan), (3, 1.0), how="sum").tolist() == [1.0]


def test_unsorted_samples_are_added_in_the_order_of_time():
    pairs = [(time, value) for time, value in enumerate([1e16, 1.0, -1e16, 1.0, 0.1, 0.2, 0.3])]
    for turned in (pairs[::-1], pairs[3:] + pairs[:3]):
        assert row(*turned, how="sum").tolist() == row(*pairs, how="sum").tolist()
    assert row(*pairs[::-1], how="first").tolist() == [1e16]


def test_equal_times_of_different_series_are_different_samples():
    frame = align(make_batch([[(5, 1.0)], [(5, 2.0)], [(3, 1.0), (5, 9.0)]]), step=10, how="sum")
    assert frame.values.tolist() == [[1.0], [2.0], [10.0]]


# The frame


def test_a_frame_keeps_what_is_known_of_each_series():
    batch = make_batch(
        [[(0, 1.0)], [(0, 2.0)]],
        source="hw",
        keys=[SeriesKey("a", "", "", "m"), SeriesKey("b", "", "", "m", source="k8s")],
        unit=["W", "1"],
        interval_ms=[60_000, 0],
        timing=[Timing.INFERRED, Timing.REPORTED],
        time_error_ms=[60_000, 0],
        statistic=[Statistic.MEAN, Statistic.MAX],
    )
    frame = align(batch, step="30s", how="max")
    for name in ("source", "keys", "unit", "interval_ms", "timing", "time_error_ms", "statistic"):
        assert getattr(frame, name) == getattr(batch, name)
    assert [frame.source_of(0), frame.source_of(1)] == ["hw", "k8s"]
    assert (frame.step_ms, frame.how, frame.window, len(frame)) == (30_000, "max", Window(0, 1), 2)
    assert repr(frame) == "Frame(2 series, 1 times, step_ms=30000, how='max')"


def test_counts_have_the_unit_of_a_count():
    assert align(make_batch([[(0, 1.0)]]), step=10, how="count").unit == ("{sample}",)


def test_to_batch_drops_cells_without_a_value_and_knows_how_long_a_cell_is():
    batch = make_batch([[(0, 1.0), (25, 2.0)], [], [(10, 3.0)]], interval_ms=[0, 5, 60], source="hw")
    back = align(batch, step=10).to_batch()
    assert (back.source, back.interval_ms) == ("hw", (10, 10, 60))
    assert back.offsets.tolist() == [0, 2, 2, 3]
    assert back.times.tolist() == [0, 20, 10]
    assert back.values.tolist() == [1.0, 2.0, 3.0]


@given(batch=batches(source="hw"), step=steps, how=hows)
def test_a_frame_survives_pickling(batch, step, how):
    frame = align(batch, step=step, how=how)
    assert same_frame(pickle.loads(pickle.dumps(frame)), frame)


def test_a_frame_is_frozen_and_compared_by_identity():
    frame = align(make_batch([[(0, 1.0)]]), step=10)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        frame.how = "max"
    assert frame != attrs.evolve(frame)


def test_a_frame_whose_columns_do_not_fit_is_refused():
    frame = align(make_batch([[(0, 1.0)]]), step=10)
    with pytest.raises(ValueError, match="must have 1 entries"):
        attrs.evolve(frame, unit=())
    with pytest.raises(ValueError, match="one row per series"):
        attrs.evolve(frame, values=np.empty((2, 1)))


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 0}, "step: 0 is not a positive duration"),
        ({"step": "1 minute"}, "write for example '90s'"),
        ({"step": 60.0}, "step=60.0 is not a duration: write for example '90s'"),
        ({"step": None}, "step=None is not a duration"),
        ({"how": "median"}, "how='median' is not offered: write one of 'mean', 'max', 'min', 'sum', 'count'"),
        ({"how": ["mean"]}, "how=.* is not offered"),
        ({"fill": "zero"}, "fill='zero' is not offered: write one of 'previous', 'linear'"),
        ({"fill": 0}, "fill=0 is not offered"),
        ({"max_gap": -5}, "max_gap: -5 is not a positive duration"),
        ({"window": Window.last("1h")}, "is not absolute: write Window"),
        ({"window": (0, 10)}, "is not absolute: write Window"),
    ],
)
def test_a_bad_argument_is_refused_with_what_to_write_instead(arguments, message):
    with pytest.raises(ValueError, match=message):
        align(make_batch([[(0, 1.0)]]), **{"step": 10, **arguments})


def test_an_absurdly_large_frame_is_refused_with_its_numbers():
    batch = make_batch([[(0, 1.0), (2**40, 1.0)], []])
    with pytest.raises(ValueError, match=f"2 series of {2**40 + 1} cells .* coarser step than 1 ms, or a narrower"):
        align(batch, step=1)
    with pytest.raises(ValueError, match="coarser step"):
        align(SeriesBatch.empty(), step=1, window=Window(0, 2**40))


@pytest.mark.parametrize("window", [Window(2**63 - 5, 2**63), Window(-(2**63), -(2**63) + 5), Window(-(2**62) - 1, 0)])
def test_a_grid_beyond_int64_is_refused(window):
    with pytest.raises(ValueError, match="beyond what int64 can reckon with"):
        align(make_batch([[(0, 1.0)]]), step=2**55, window=window)


@pytest.mark.parametrize(("how", "far"), list(product(HOWS, [2**63 - 1, -(2**63)])))
def test_samples_at_the_ends_of_time_are_outside_of_an_ordinary_window(how, far):
    assert equal(row((far, 9.0), (5, 1.0), how=how, window=Window(0, 10)), row((5, 1.0), how=how))


@given(batch=batches(), how=hows)
def test_one_cell_that_holds_everything_is_the_whole_series(batch, how):
    assume(len(batch.times))
    frame = align(batch, step=1000, how=how, window=Window(-1000, 1000))
    assert same_bits(frame.values, align_reference(batch, step=1000, how=how, window=Window(-1000, 1000)).values)
