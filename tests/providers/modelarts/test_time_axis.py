"""Where series without times are placed, and that they are off by no more than they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.model import Job, JobStatus
from metricsbridge_modelarts._time_axis import Anchoring, Life, Progress

if TYPE_CHECKING:
    from metricsbridge_modelarts._settings import Anchor

MINUTE = 60_000
DAY = 24 * 60
KEPT = 3 * DAY
START = 1_705_300_012_345
FLOOR = START // MINUTE * MINUTE

lives = st.integers(1, 6 * DAY)
intervals = st.sampled_from([1, 2, 5, 15])


def series_of(minutes: int, size: int) -> int:
    """Give how many intervals an ended job has touched."""
    return (START + minutes * MINUTE - FLOOR) // (size * MINUTE) + 1


@given(minutes=lives, size=intervals)
def test_a_whole_series_begins_with_the_minute_of_the_start(minutes: int, size: int) -> None:
    end, step = START + minutes * MINUTE, size * MINUTE
    anchoring = Anchoring(START, end, "auto")
    assert anchoring.first_ms(series_of(minutes, size), end + 1, interval_ms=step) == (FLOOR, step)


@given(minutes=st.integers(KEPT + 60, 6 * DAY), size=st.sampled_from([1, 2, 5]))
def test_a_series_of_which_the_last_days_are_kept_ends_with_the_job(minutes: int, size: int) -> None:
    end, step, kept = START + minutes * MINUTE, size * MINUTE, KEPT // size
    first, error = Anchoring(START, end, "auto").first_ms(kept, end + 1, interval_ms=step)
    assert first == FLOOR + (series_of(minutes, size) - kept) * step
    assert error == 2 * step


@given(minutes=lives, lost=st.integers(0, 200), size=intervals, behind=st.booleans())
def test_a_series_that_lacks_some_values_is_off_by_no_more_than_it_says(
    minutes: int, lost: int, size: int, behind: bool
) -> None:
    end, step, whole = START + minutes * MINUTE, size * MINUTE, series_of(minutes, size)
    lost = min(lost, whole // 25)  # more is taken for a series that is cut
    count = whole - lost
    first, error = Anchoring(START, end, "auto").first_ms(count, end + 1, interval_ms=step)
    true = FLOOR + (0 if behind else lost) * step
    if abs(count * step - KEPT * MINUTE) > 60 * MINUTE:  # else it looks like one of which the last days are kept
        assert abs(first - true) <= max(error, 5 * step)


@given(
    minutes=st.integers(1, 6 * DAY), skew=st.integers(-2 * DAY, 2 * DAY), later=st.integers(0, 30),
    kept=st.booleans(), status=st.sampled_from(["running", "unknown"]),
)  # fmt: skip
def test_a_running_job_is_placed_by_the_service_s_clock_and_not_by_ours(
    minutes: int, skew: int, later: int, kept: bool, status: str
) -> None:
    whole = series_of(minutes + later, 1) - 1  # the current minute is not complete
    count = min(whole, KEPT) if kept else whole
    described = START + (minutes + skew) * MINUTE
    life = Life.of(JobStatus(status), START, minutes * MINUTE, described)
    job = Job(id="j", status=JobStatus(status), start_time_ms=START, end_time_ms=life.end_ms, payload=life.progress)
    first, error = Anchoring.of(job, "auto", everything=True).first_ms(count, described + later * MINUTE)
    assert abs(first - (FLOOR + (whole - count) * MINUTE)) <= error


def test_an_ended_job_whose_state_is_not_known_is_placed_by_how_long_it_ran() -> None:
    life = Life.of(JobStatus.UNKNOWN, START, 2 * DAY * MINUTE, START + 7 * DAY * MINUTE)
    anchoring = Anchoring(START, life.end_ms, "auto", progress=life.progress)
    assert anchoring.first_ms(2 * DAY, START + 7 * DAY * MINUTE)[0] == FLOOR


def test_a_duration_that_is_not_kept_up_to_date_does_not_count() -> None:
    anchoring = Anchoring(START, None, "end", progress=Progress(0, START + 100 * MINUTE))
    assert anchoring.first_ms(90, START + 100 * MINUTE)[0] == FLOOR + 10 * MINUTE


@pytest.mark.parametrize(("count", "least"), [(60, 1), (KEPT, 10 * DAY - KEPT)])
def test_of_a_job_that_ended_nobody_knows_when_a_long_series_may_be_far_off(count: int, least: int) -> None:
    first, error = Anchoring(START, None, "auto", ended=True).first_ms(count, START + 10 * DAY * MINUTE)
    assert first == FLOOR
    assert least * MINUTE <= error <= (least + 1) * MINUTE


@given(minutes=lives, lost=st.integers(0, 6 * DAY), anchor=st.sampled_from(["start", "end"]))
def test_a_chosen_anchor_is_taken(minutes: int, lost: int, anchor: Anchor) -> None:
    end = START + minutes * MINUTE
    count = max(1, series_of(minutes, 1) - lost)
    first, _ = Anchoring(START, end, anchor).first_ms(count, end + 1)
    assert first == (FLOOR if anchor == "start" else FLOOR + (series_of(minutes, 1) - count) * MINUTE)


@pytest.mark.parametrize(
    ("status", "start", "duration", "expected"),
    [
        ("succeeded", START, 5, Life(START, START + 5, None)),
        ("running", START, 5, Life(START, None, Progress(5, 99))),
        ("failed", 0, 0, Life(None, None, None)), ("failed", None, None, Life(None, None, None)),
        ("stopped", START, None, Life(START, None, Progress(None, 99))),
    ],
)  # fmt: skip
def test_a_life_is_read_from_start_and_duration(status: str, start: int, duration: int, expected: Life) -> None:
    assert Life.of(JobStatus(status), start, duration, 99) == expected
