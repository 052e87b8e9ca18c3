import math
import pickle

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.series_strategies import COLUMNS, batches, keys, make_batch, same_batch, same_bits, samples, windows
from metricsbridge.series.columns import (
    SeriesBatch,
    SeriesKey,
    Statistic,
    Timing,
    concat,
    merge,
    sort_samples,
)

KEY = SeriesKey("job", "worker-0", "", "hw.power")


def pairs_of(batch: SeriesBatch, index: int) -> list[tuple[int, float]]:
    times, values = batch.samples(index)
    return list(zip(times.tolist(), values.tolist(), strict=True))


def row_of(batch: SeriesBatch, index: int) -> tuple[object, ...]:
    return *(getattr(batch, name)[index] for name in COLUMNS), repr(pairs_of(batch, index))


def rows_of(batch: SeriesBatch) -> list[tuple[object, ...]]:
    return [row_of(batch, index) for index in range(len(batch))]


# Keys


def test_labels_are_part_of_the_identity_in_any_order():
    one = SeriesKey("j", "t", "", "m", (("slice", "1g"), ("interface", "eth0")))
    other = SeriesKey("j", "t", "", "m", (("interface", "eth0"), ("slice", "1g")))
    assert one == other
    assert hash(one) == hash(other)
    assert one.labels == (("interface", "eth0"), ("slice", "1g"))
    assert one != SeriesKey("j", "t", "", "m")


def test_a_source_is_part_of_the_identity():
    assert SeriesKey("j", "t", "", "m", source="hw") != SeriesKey("j", "t", "", "m")


@given(keys)
def test_a_key_survives_pickling(key):
    assert pickle.loads(pickle.dumps(key)) == key


# One batch


def test_the_empty_batch_has_nothing():
    batch = SeriesBatch.empty()
    assert len(batch) == 0
    assert list(batch) == []
    assert (batch.offsets.dtype, batch.times.dtype, batch.values.dtype) == (np.int64, np.int64, np.float64)
    assert batch.observed().tolist() == []


@given(st.lists(samples(0), max_size=5))
def test_each_series_holds_its_own_samples(series):
    batch = make_batch(series)
    assert len(batch) == len(series)
    for index, (pairs, (key, times, values)) in enumerate(zip(series, batch, strict=True)):
        assert key == batch.keys[index]
        assert times.tolist() == [time for time, _ in pairs]
        assert same_bits(values, np.array([value for _, value in pairs], np.float64))


def test_samples_are_views():
    batch = make_batch([[(0, 1.0)], [(5, 2.0)]])
    times, values = batch.samples(1)
    assert np.shares_memory(times, batch.times)
    assert np.shares_memory(values, batch.values)


def test_a_negative_index_counts_from_the_end():
    batch = make_batch([[(0, 1.0)], [(5, 2.0), (6, 3.0)]])
    assert pairs_of(batch, -1) == [(5, 2.0), (6, 3.0)]
    assert row_of(batch.select([-1]), 0) == row_of(batch, 1)


@pytest.mark.parametrize("index", [2, -3])
def test_a_series_that_is_not_there_is_refused(index):
    with pytest.raises(IndexError):
        make_batch([[(0, 1.0)], []]).samples(index)


@pytest.mark.parametrize(
    "columns",
    [
        {"unit": ()},
        {"interval_ms": (1, 2)},
        {"timing": ()},
        {"time_error_ms": ()},
        {"statistic": ()},
        {"keys": ()},
        {"offsets": np.array([0])},
        {"offsets": np.array([0, 3])},
        {"offsets": np.array([1, 2])},
        {"times": np.array([1])},
        {"values": np.array([1.0])},
    ],
)
def test_columns_that_do_not_fit_each_other_are_refused(columns):
    with pytest.raises(ValueError, match=r"must have 1|must have 0|offsets must run"):
        attrs.evolve(make_batch([[(0, 1.0), (1, 2.0)]]), **columns)


def test_a_batch_is_frozen_and_compared_by_identity():
    batch = make_batch([[(0, 1.0)]])
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        batch.source = "hw"
    assert batch != attrs.evolve(batch)


@given(batches(source="hw"))
def test_a_batch_survives_pickling(batch):
    assert same_batch(pickle.loads(pickle.dumps(batch)), batch)


def test_stamping_the_source_shares_the_columns():
    batch = make_batch([[(0, 1.0)]])
    stamped = batch.with_source("hw")
    assert (stamped.source, stamped.source_of(0), batch.source) == ("hw", "hw", "")
    assert stamped.times is batch.times
    assert stamped.values is batch.values
    assert stamped.keys is batch.keys


def test_a_source_in_a_key_wins_over_that_of_the_batch():
    batch = make_batch([[]], keys=[replace(KEY, source="k8s")], source="hw")
    assert batch.source_of(0) == "k8s"


def test_the_representation_tells_the_size_and_no_numbers():
    assert repr(make_batch([[(0, 1.0)], []], source="hw")) == "SeriesBatch(2 series, 1 samples, source='hw')"


# Parts of a batch


@pytest.mark.usefixtures("engine")
@given(batches())
def test_observed_are_the_series_with_a_value_that_is_not_nan(batch):
    expected = [any(not math.isnan(value) for value in values) for _, _, values in batch]
    assert batch.observed().tolist() == expected
    assert batch.observed().dtype == np.bool_


@given(data=st.data(), batch=batches(source="hw"))
def test_select_gives_those_series_in_that_order(data, batch):
    indices = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=6)) if len(batch) else []
    chosen = batch.select(indices)
    assert chosen.source == "hw"
    assert rows_of(chosen) == [row_of(batch, index) for index in indices]


@given(batches(source="hw"))
def test_selecting_all_series_changes_nothing(batch):
    assert same_batch(batch.select(range(len(batch))), batch)


@given(batch=batches(source="hw"), window=windows())
def test_clip_keeps_the_samples_inside_the_window_and_every_series(batch, window):
    clipped = batch.clip(window)
    assert clipped.source == "hw"
    assert clipped.offsets.dtype == np.int64
    assert all(getattr(clipped, name) == getattr(batch, name) for name in COLUMNS)
    for index in range(len(batch)):
        inside = [pair for pair in pairs_of(batch, index) if window.start_ms <= pair[0] < window.end_ms]
        assert repr(pairs_of(clipped, index)) == repr(inside)


@given(batch=batches(), one=windows(), other=windows())
def test_clipping_twice_is_clipping_to_what_is_in_both_windows(batch, one, other):
    assert same_batch(batch.clip(one).clip(other), batch.clip(other).clip(one))
    assert same_batch(batch.clip(one).clip(one), batch.clip(one))


# Concatenation


@given(st.lists(batches(source="hw", max_series=3), max_size=4))
def test_concat_stacks_in_order(parts):
    whole = concat(parts)
    assert rows_of(whole) == [row for part in parts for row in rows_of(part)]
    assert whole.source == ("hw" if len(whole) else "")
    assert whole.offsets.dtype == whole.times.dtype == np.int64


@given(st.lists(batches(max_series=3), min_size=3, max_size=3))
def test_concat_is_associative(parts):
    one, two, three = parts
    assert same_batch(concat([concat([one, two]), three]), concat([one, concat([two, three])]))


@given(batches(source="hw"))
def test_batches_of_no_series_add_nothing_and_hide_no_source(batch):
    whole = concat([SeriesBatch.empty(), batch, SeriesBatch.empty()])
    assert rows_of(whole) == rows_of(batch)
    assert whole.source == (batch.source if len(batch) else "")


def test_concat_takes_any_iterable():
    assert len(concat(make_batch([[]]) for _ in range(3))) == 3
    assert len(concat(())) == 0


@given(batches(source="hw"), batches(source="k8s"), batches(source="hw"))
def test_over_several_sources_every_series_keeps_its_own(one, two, three):
    parts = [one, two, three]
    whole = concat(parts)
    expected = [part.source_of(index) for part in parts for index in range(len(part))]
    assert [whole.source_of(index) for index in range(len(whole))] == expected
    bare = [replace(key, source="") for key in whole.keys]
    assert bare == [key for part in parts for key in part.keys]
    if len(set(expected)) > 1:
        assert whole.source == ""
        assert [key.source for key in whole.keys] == expected


def test_a_key_that_names_its_source_is_left_alone():
    mixed = concat([make_batch([[]], source="hw"), make_batch([[]], source="k8s")])
    again = concat([mixed, make_batch([[]], source="pai")])
    assert [again.source_of(index) for index in range(3)] == ["hw", "k8s", "pai"]


# Merging


@given(st.lists(batches(source="hw", max_series=3), max_size=4))
def test_merge_joins_equal_keys_by_time_and_the_last_duplicate_wins(parts):
    expected: dict[tuple, list[tuple[object, ...]]] = {}
    joined: dict[tuple, list[tuple[int, float]]] = {}
    for part in parts:
        for index in range(len(part)):
            identity = (part.keys[index], part.unit[index], part.statistic[index])
            expected.setdefault(identity, []).append(row_of(part, index))
            joined.setdefault(identity, []).extend(pairs_of(part, index))
    whole = merge(parts)
    assert list(zip(whole.keys, whole.unit, whole.statistic, strict=True)) == list(expected)
    for index, (identity, rows) in enumerate(expected.items()):
        if len(rows) == 1:
            assert row_of(whole, index) == rows[0]
        else:
            assert repr(pairs_of(whole, index)) == repr(sorted(dict(joined[identity]).items()))


@given(st.lists(batches(max_series=3), max_size=3))
def test_merging_again_changes_nothing(parts):
    once = merge(parts)
    assert same_batch(merge([once]), once)
    assert same_batch(merge([once, once.select([])]), once)


def test_a_joined_series_is_as_coarse_and_as_uncertain_as_its_worst_part():
    one = make_batch(
        [[(60, 1.0)]], keys=[KEY], interval_ms=[60], timing=[Timing.REPORTED], time_error_ms=[0], source="hw"
    )
    two = make_batch(
        [[(0, 2.0)]], keys=[KEY], interval_ms=[300], timing=[Timing.INFERRED], time_error_ms=[9], source="hw"
    )
    for parts in ([one, two], [two, one]):
        whole = merge(parts)
        assert (whole.interval_ms, whole.timing, whole.time_error_ms) == ((300,), (Timing.INFERRED,), (9,))
        assert pairs_of(whole, 0) == [(0, 2.0), (60, 1.0)]
        assert whole.source == "hw"


def test_a_joined_series_stands_where_its_first_part_stood():
    other = replace(KEY, task="worker-1")
    whole = merge([make_batch([[(0, 1.0)], [(0, 2.0)]], keys=[KEY, other]), make_batch([[(1, 3.0)]], keys=[KEY])])
    assert whole.keys == (KEY, other)
    assert [pairs_of(whole, index) for index in range(2)] == [[(0, 1.0), (1, 3.0)], [(0, 2.0)]]


def test_the_last_duplicate_wins_across_batches_and_within_one():
    one = make_batch([[(0, 1.0), (5, 2.0), (5, 3.0)]], keys=[KEY])
    two = make_batch([[(0, 4.0)]], keys=[KEY])
    assert pairs_of(merge([one, two]), 0) == [(0, 4.0), (5, 3.0)]
    assert pairs_of(merge([two, one]), 0) == [(0, 1.0), (5, 3.0)]


@pytest.mark.parametrize("difference", [{"unit": ["1"]}, {"statistic": [Statistic.MAX]}])
def test_series_of_another_unit_or_statistic_are_not_joined(difference):
    assert len(merge([make_batch([[]], keys=[KEY]), make_batch([[]], keys=[KEY], **difference)])) == 2


def test_equal_keys_of_different_sources_are_not_joined():
    parts = [make_batch([[(0, 1.0)]], keys=[KEY], source=source) for source in ("hw", "k8s")]
    whole = merge(parts)
    assert [whole.source_of(index) for index in range(len(whole))] == ["hw", "k8s"]
    assert len(merge([whole, whole])) == 2


# Sorting


@given(samples(0))
def test_sorting_samples_keeps_the_last_of_equal_times(pairs):
    times = np.array([time for time, _ in pairs], np.int64)
    values = np.array([value for _, value in pairs], np.float64)
    expected = sorted(dict(pairs).items())
    sorted_times, sorted_values = sort_samples(times, values)
    assert sorted_times.tolist() == [time for time, _ in expected]
    assert same_bits(sorted_values, np.array([value for _, value in expected], np.float64))


def test_samples_in_order_are_not_copied():
    times, values = np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])
    assert sort_samples(times, values)[0] is times
    assert sort_samples(times, values)[1] is values


def test_keys_of_several_metrics_are_what_they_are_one_by_one():
    made = SeriesKey.each("job", "task", "0", ("b", "a", "b"))
    assert made == tuple([SeriesKey("job", "task", "0", metric) for metric in ("b", "a", "b")])
    assert [hash(key) for key in made] == [hash(SeriesKey("job", "task", "0", key.metric)) for key in made]
    assert SeriesKey.each("job", "task", "", ()) == ()
