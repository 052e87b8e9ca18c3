"""Times that tasks have in common are one array, and nobody gets those of others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.series import _shared_times
from metricsbridge.series._shared_times import bounds, regular_times, shared_parts

PARTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4).map(tuple)


@given(PARTS, st.booleans(), st.integers(0, 3))
def test_they_are_the_stretches_one_after_the_other(parts: tuple, writeable: bool, begin: int) -> None:
    times = np.arange(begin, begin + 40, dtype=np.int64)
    times.flags.writeable = writeable
    found = shared_parts(times, parts)
    assert found.dtype == np.int64
    assert found.tolist() == [begin + index for start, end in parts for index in range(start, end)]


def test_of_shared_times_the_same_is_the_same_array() -> None:
    times = regular_times([30, 30], [0, 0], 60_000)
    assert regular_times([30, 30], [0, 0], 60_000) is times
    taken = shared_parts(times, ((0, 30),))
    assert shared_parts(times, ((0, 30),)) is taken
    assert shared_parts(times, ((30, 60),)) is not taken
    with pytest.raises(ValueError, match="read-only"):
        taken[0] = 1


def test_what_may_change_is_shared_with_nobody() -> None:
    times = np.arange(60)
    assert shared_parts(times, ((0, 30),)) is not shared_parts(times, ((0, 30),))


def test_not_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(100):
        shared_parts(regular_times([30], [index], 60_000), ((0, 10),))
    assert _shared_times._remembered_parts.cache_info().currsize <= 8
    assert _shared_times._remembered_times.cache_info().currsize <= 8
    long = regular_times([2**16 + 1], [0], 60_000)
    assert regular_times([2**16 + 1], [0], 60_000) is not long
    assert shared_parts(long, ((0, 10),)) is not shared_parts(long, ((0, 10),))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.booleans())
def test_bounds_are_the_earliest_and_the_latest(values: list[int], writeable: bool) -> None:
    times = np.array(values, np.int64)
    times.flags.writeable = writeable
    assert bounds(times) == bounds(times) == (min(values), max(values))


def test_bounds_of_what_may_change_are_looked_up_again() -> None:
    times = np.array([3, 1, 2])
    assert bounds(times) == (1, 3)
    times[0] = 9
    assert bounds(times) == (1, 9)
