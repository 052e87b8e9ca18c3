"""Which stretches of time are asked for: held against simulated services that answer from the request."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge import Window
from metricsbridge_pai._windows import (
    MOST_STEPS,
    TIME_STEPS,
    iso,
    left_open,
    period,
    retention_ms,
    split,
    time_step,
    whole_steps,
    within,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
BASE = 1_700_000_000_000

starts = st.integers(BASE, BASE + 10 * DAY)
windows = st.builds(lambda start, length: Window(start, start + length), starts, st.integers(1, 40 * DAY))
steps = st.sampled_from([15_000, *TIME_STEPS, 900_000])


@given(window=windows, step=steps, most=st.integers(1, 2000))
def test_parts_adjoin_make_up_the_window_and_have_at_most_so_many_steps(window: Window, step: int, most: int) -> None:
    if window.duration_ms // step // most > 5_000:
        most = 500
    parts = split(window, step, most)
    assert (parts[0].start_ms, parts[-1].end_ms) == (window.start_ms, window.end_ms)
    assert all(left.end_ms == right.start_ms for left, right in pairwise(parts))
    for part in parts:
        start, end = whole_steps(part, step)
        assert (end - start) // step <= most
        assert start <= part.start_ms < part.end_ms <= end
        assert start % step == end % step == 0
    assert len(parts) <= -(-(window.duration_ms + step) // (most * step)) + 1


@pytest.mark.parametrize("step", TIME_STEPS)
def test_as_many_steps_as_fit_are_one_call_and_one_more_is_two(step: int) -> None:
    start = BASE // HOUR * HOUR
    assert MOST_STEPS + 1 == 1440  # points, both ends included
    assert len(split(Window(start, start + MOST_STEPS * step), step, MOST_STEPS)) == 1
    assert len(split(Window(start, start + MOST_STEPS * step + 1), step, MOST_STEPS)) == 2


@given(window=windows, step=st.sampled_from([*TIME_STEPS]), offset=st.integers(0, HOUR - 1))
def test_get_job_metrics_is_asked_for_every_point_and_no_answer_has_more_points_than_it_may(
    window: Window, step: int, offset: int
) -> None:
    offset %= step
    first = -(-(window.start_ms - offset) // step) * step + offset
    wanted = range(first, window.end_ms, step)
    got: list[int] = []
    for part in split(window, step, MOST_STEPS):
        start, end = whole_steps(part, step)
        answered = range(-(-(start - offset) // step) * step + offset, end + 1, step)  # both ends belong to the range
        assert len(answered) <= 1440
        assert iso(start).endswith("Z")
        got += [time for time in answered if time in part]
    assert got == [*wanted]


@given(
    window=windows, step=st.sampled_from([15_000, 60_000, 900_000, 3_600_000]), most=st.integers(100, 2000),
    jitter=st.sampled_from([0, 1, 250, 500, 999]),
)  # fmt: skip
def test_a_left_open_range_brings_every_sample_of_the_window_once(
    window: Window, step: int, most: int, jitter: int
) -> None:
    every = range(window.start_ms // step * step - 2 * step + jitter, window.end_ms + 2 * step, step)
    got: list[int] = []
    for part in split(window, step, most):
        start, end = left_open(part)
        assert start % 1000 == end % 1000 == 0  # the services take whole seconds
        assert end - start <= part.duration_ms + 2000
        got += [time for time in _near(every, start, end) if start < time <= end and time in part]
    assert got == [time for time in _near(every, window.start_ms, window.end_ms) if time in window]


def _near(every: range, start: int, end: int) -> range:
    first = max(0, (start - every.start) // every.step - 1)
    return every[first : (end - every.start) // every.step + 3]


def test_the_sample_at_the_very_start_of_a_window_is_inside_of_the_left_open_range() -> None:
    start, end = left_open(Window(BASE, BASE + HOUR))
    assert (start, end) == (BASE - 1000, BASE + HOUR)
    assert left_open(Window(BASE + 1, BASE + 2)) == (BASE, BASE + 1000)


@pytest.mark.parametrize(
    ("asked", "step"),
    [
        (None, MINUTE), (1, MINUTE), (MINUTE, MINUTE), (299_999, MINUTE), (5 * MINUTE, 5 * MINUTE),
        (15 * MINUTE, 15 * MINUTE), (29 * MINUTE, 15 * MINUTE), (30 * MINUTE, 30 * MINUTE), (HOUR, HOUR), (DAY, HOUR),
    ],
)  # fmt: skip
def test_the_coarsest_step_that_is_accepted_is_asked_for(asked: int | None, step: int) -> None:
    assert time_step(asked) == step


def test_a_time_step_is_written_as_a_number_and_its_unit() -> None:
    units = {"s": 1000, "m": MINUTE, "h": HOUR}
    assert {int(text[:-1]) * units[text[-1]]: text for text in TIME_STEPS.values()} == TIME_STEPS


@pytest.mark.parametrize(
    ("asked", "known", "seconds"),
    [
        (None, (), 60), (1, (), 15), (15_000, (), 15), (59_999, (), 15), (60_000, (), 60), (900_000, (), 900),
        (HOUR, (), 3600), (DAY, (), 3600), (None, (15, 60), 60), (None, (15,), 15), (None, (300, 60), 60),
        (30_000, (15, 60), 15), (1_000, (60, 300), 60), (HOUR, (60, 300), 300),
    ],
)  # fmt: skip
def test_the_coarsest_period_that_is_accepted_is_asked_for(
    asked: int | None, known: tuple[int, ...], seconds: int
) -> None:
    assert period(asked, known) == seconds


@pytest.mark.parametrize(("seconds", "days"), [(15, 7), (59, 7), (60, 31), (299, 31), (300, 91), (3600, 91)])
def test_how_long_data_are_kept_depends_on_their_period(seconds: int, days: int) -> None:
    assert retention_ms(seconds) == days * DAY


@pytest.mark.parametrize("last", [0, 1, HOUR - 1])
def test_samples_may_be_stamped_until_an_hour_and_more_after_a_jobs_end(last: int) -> None:
    hour = BASE // HOUR * HOUR
    cut = within(Window(hour - 9 * HOUR, hour + 9 * HOUR), (hour + 7, hour + HOUR + last))
    assert cut == Window(hour - HOUR, hour + 3 * HOUR)


@given(window=windows, first=starts, length=st.one_of(st.none(), st.integers(0, 20 * DAY)))
def test_a_window_is_cut_to_where_a_job_may_have_samples(window: Window, first: int, length: int | None) -> None:
    last = None if length is None else first + length
    cut = within(window, (first, last))
    assert window.start_ms <= cut.start_ms < cut.end_ms <= window.end_ms
    for time in (first, first + 1, first if last is None else last):
        assert time in cut or time not in window
    if last is not None and (window.start_ms > last + 2 * HOUR or window.end_ms < first - 2 * HOUR):
        assert cut.duration_ms <= MINUTE
