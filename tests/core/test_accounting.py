"""The window that stands for jobs' lives, and what becomes of what was asked for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_provider import batch
from metricsbridge import accounting
from metricsbridge.accounting import Ledger, life_window
from metricsbridge.errors import TransportError
from metricsbridge.http import Response
from metricsbridge.model import Call, Failure, Job, Window

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


NOW = 1000
TARGETS = st.sampled_from([("j", "a"), ("j", "b"), ("k", "a")])
METRICS = st.sampled_from("pqr")
CALLS = st.lists(
    st.tuples(
        st.lists(TARGETS, min_size=1, max_size=2, unique=True), st.lists(METRICS, min_size=1, max_size=3, unique=True),
        st.sampled_from([None, 1, 10_000]), st.sampled_from(["value", "failure", "nothing"]),
    ), max_size=5,
)  # fmt: skip


def expected_absences(asked: Any, metrics: Any, calls: Any, started: bool) -> dict[tuple[Any, str], str]:
    """Give unit to why it is absent, one by one; a target of which nothing is known has the metric ""."""
    reasons: dict[tuple[Any, str], str] = {}
    for targets, names, retention, _ in calls:
        for unit in [(target, name) for target in targets for name in names]:
            if not started:
                reasons[unit] = "not-started"
            elif retention != 1:
                reasons[unit] = "no-data"
            else:
                reasons.setdefault(unit, "outside-retention")
    for target in asked:
        for name in metrics:
            reasons.setdefault((target, name), "unsupported" if started or calls else "not-started")
        if not any(unit[0] == target for unit in reasons):
            reasons[target, ""] = "unsupported" if started or calls else "not-started"
    for targets, names, _, outcome in calls if started else ():
        if outcome == "value":
            reasons.pop((targets[0], names[0]), None)
        if outcome == "failure":
            for unit in [(target, name) for target in targets for name in names]:
                reasons.pop(unit, None)
    return reasons


@given(
    asked=st.lists(TARGETS, min_size=1, max_size=3, unique=True), metrics=st.sampled_from([(), ("p",), ("r", "p")]),
    calls=CALLS, started=st.booleans(),
)  # fmt: skip
def test_a_unit_is_absent_when_it_is_neither_delivered_nor_failed(asked, metrics, calls, started):
    ledger = Ledger(source="s", targets=lambda: asked, metrics=metrics, started=started)
    ledger.plan([
        Call(operation="o", targets=tuple(targets), metrics=tuple(names), window=Window(0, 10), retention_ms=retention)
        for targets, names, retention, _ in calls
    ])  # fmt: skip
    for number, (targets, names, _, outcome) in enumerate(calls if started else ()):
        if outcome == "value":
            ledger.deliver(number, batch(*targets[0], names[0], [(1, 0.5)]))
        if outcome == "failure":
            ledger.fail(
                Failure(targets=tuple(targets), metrics=tuple(names), window=None, error=TransportError("gone"))
            )
    ledger.take()
    found: dict[tuple[Any, str], str] = {}
    for absence in ledger.absences(NOW):
        assert absence.source == "s"
        for unit in [(target, name) for target in absence.targets for name in absence.metrics or ("",)]:
            assert unit not in found
            found[unit] = absence.reason
    # A target may have failed or been delivered where it is named by nothing but its absence of everything.
    assert found == expected_absences(asked, metrics, calls, started)


# Answers that wait to be decoded together


def planned(*windows: Window) -> Ledger:
    """Give the ledger of calls with these windows, each for a task of its own."""
    calls = [
        Call(operation="o", targets=(("j", f"w{number}"),), metrics=("p",), window=window)
        for number, window in enumerate(windows)
    ]
    ledger = Ledger(source="s", targets=lambda: [target for call in calls for target in call.targets], metrics=("p",))
    ledger.plan(calls)
    return ledger


def put_by_all(ledger: Ledger, numbers: Any, body: bytes = b"{}") -> None:
    for number in numbers:
        ledger.put_by(number, Response(200, {}, body), number % 3)


WINDOW = Window(0, 10)


@given(numbers=st.permutations(range(9)), taken=st.integers(0, 9))
def test_answers_are_taken_once_and_in_stretches_of_neighbours(numbers, taken):
    ledger = planned(*[WINDOW] * 9)
    found = []
    for part in (numbers[:taken], numbers[taken:]):
        put_by_all(ledger, part)
        assert ledger.waiting == len(part)
        stretches = ledger.take_answers()
        assert (ledger.waiting, ledger.take_answers()) == (0, [])
        assert sum(map(len, stretches)) == len(part)
        spans = [[number for number, _, _ in stretch] for stretch in stretches]
        assert all(span == [*range(span[0], span[-1] + 1)] for span in spans)
        assert all(left[-1] + 1 < right[0] for left, right in pairwise(spans))
        found += [answer for stretch in stretches for answer in stretch]
    assert sorted(number for number, _, _ in found) == [*range(9)]
    assert all(failed == number % 3 for number, _, failed in found)


def test_answers_to_calls_of_different_windows_are_taken_one_by_one():
    ledger = planned(WINDOW, WINDOW, Window(10, 20))
    put_by_all(ledger, [2, 0, 1])
    assert [[number for number, _, _ in stretch] for stretch in ledger.take_answers()] == [[0], [1], [2]]


@pytest.mark.parametrize(("body", "most"), [(b"{}", accounting._MANY_ANSWERS), (b" " * 2**16, 6)])
def test_a_ledger_is_full_of_many_answers_or_of_many_bytes_until_they_are_taken(body, most):
    ledger = planned(*[WINDOW] * 300)
    for again in range(2):
        put_by_all(ledger, range(most - 1), body)
        assert not ledger.is_full, again
        put_by_all(ledger, [most - 1], body)
        assert ledger.is_full
        ledger.take_answers()


@pytest.mark.parametrize(("calls", "full"), [(accounting._MANY_CALLS, False), (accounting._MANY_CALLS + 1, True)])
def test_what_one_of_very_many_calls_brings_fills_a_ledger_and_its_answer_does_not(calls, full):
    ledger = planned(*[WINDOW] * calls)
    put_by_all(ledger, [3])
    assert not ledger.is_full
    ledger.deliver(4, batch("j", "w4", "p", [(1, 0.5)]))
    assert ledger.is_full is full
    assert (ledger.waiting, ledger.numbers) == (2, [4])
    ledger.take()
    assert (ledger.waiting, ledger.numbers, ledger.is_full) == (1, [], False)
