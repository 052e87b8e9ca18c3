"""The window that stands for jobs' lives."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.accounting import life_window
from metricsbridge.model import Job

HOUR = 3_600_000
times = st.integers(0, 2 * 10**12)


def job(start: int | None, end: int | None) -> Job:
    return Job(id="j", start_time_ms=start, end_time_ms=end)


@given(start=times, ran=st.integers(0, 10**10), ago=st.integers(0, 10**10))
def test_an_ended_job_lies_in_its_window_which_is_at_most_an_hour_longer_at_each_end(start, ran, ago):
    now = start + ran + ago
    window = life_window([job(start, start + ran)], now)
    assert start - HOUR < window.start_ms <= start
    assert start + ran < window.end_ms <= min(start + ran + HOUR, now) + 1
    assert window.start_ms % HOUR == 0


@given(start=times, ran=st.integers(0, 10**10))
def test_a_running_job_has_lived_up_to_now(start, ran):
    assert life_window([job(start, None)], start + ran).end_ms == start + ran + 1


def test_an_end_that_is_a_full_hour_leaves_room_for_its_last_sample():
    assert life_window([job(0, HOUR)], 10 * HOUR).end_ms == 2 * HOUR + 1


@pytest.mark.parametrize("late", [job(10 * HOUR, None), job(9 * HOUR, 10 * HOUR), job(None, None)])
def test_a_clock_that_is_behind_the_job_makes_no_empty_window(late):
    window = life_window([late], HOUR)
    assert window.duration_ms > 0
    assert late.start_time_ms is None or late.start_time_ms in window


def test_jobs_planned_together_share_one_window():
    jobs = [job(5 * HOUR, 6 * HOUR), job(None, None), attrs.evolve(job(2 * HOUR, 3 * HOUR), id="k")]
    window = life_window(jobs, 20 * HOUR)
    assert window.start_ms == 2 * HOUR
    assert all(each.end_time_ms in window for each in jobs if each.end_time_ms is not None)
