"""What a throttle makes of answers and refusals; time is passed in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.runtime._throttle import BURST_S, START_PER_S, TIMER_S, Throttle

CEILINGS = st.one_of(st.none(), st.just(math.inf), st.floats(0.5, 500))
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "answer", "answer", "refusal"]),
        st.floats(0, 3),  # seconds before it
        st.floats(0, 5),  # seconds since its request was sent
        st.one_of(st.none(), st.floats(0, 30)),  # a refusal's hint
    ),
    max_size=60,
)


def send(throttle: Throttle, now: float, most: int = 10_000) -> int:
    """Send at one moment until somebody would have to wait."""
    for sent in range(most):
        if throttle.wait_s(now) > 0:
            return sent
        throttle.take(now, now)
    return most


def refused_after(accepted: int, seconds: float, ceiling: float | None = None) -> Throttle:
    """Give a throttle whose service accepted so many in so many seconds, and refused the next."""
    throttle = Throttle(ceiling)
    for number in range(accepted):
        throttle.accepted(100 + seconds * number / accepted, 100.0)
    throttle.refused(100 + seconds, 100.0, None)
    return throttle


@given(CEILINGS, EVENTS)
def test_whatever_happens_no_wait_is_negative_and_no_ceiling_is_exceeded(ceiling, events) -> None:
    throttle, now = Throttle(ceiling), 0.0
    for kind, later, latency, hint in events:
        now += later
        if kind == "answer":
            throttle.accepted(now, now - latency)
        else:
            throttle.refused(now, None if throttle.open else now - latency, hint)
        assert throttle.wait_s(now) >= 0
        assert throttle.pause_s(now) >= 0
        assert 0 < throttle.per_second <= (math.inf if ceiling is None else ceiling)
        assert throttle.open or throttle.per_second < math.inf


@given(st.floats(0.5, 300), EVENTS)
def test_no_second_has_more_than_the_ceiling(ceiling, events) -> None:
    throttle, now, sent = Throttle(ceiling), 0.0, []
    for kind, later, latency, hint in events:
        until = now + later
        while now + throttle.wait_s(now) <= until:
            now += throttle.wait_s(now)
            throttle.take(now, now)
            sent.append(now)
        now = until
        if kind == "answer":
            throttle.accepted(now, now - latency)
        else:
            throttle.refused(now, now - latency, hint)
    count = math.ceil(ceiling)
    for first, last in zip(sent, sent[count:], strict=False):
        assert last - first >= count / ceiling - 1e-6


@given(st.floats(1, 200), st.floats(0, 20), st.floats(0, 600))
def test_nobody_goes_before_a_pause_is_over(rate: float, since: float, hint: float) -> None:
    throttle = Throttle(rate)
    throttle.refused(since, None, hint)
    over = since + max(hint, BURST_S)
    assert throttle.wait_s(since) == pytest.approx(over - since)
    assert throttle.wait_s(over - 0.001) > 0
    assert throttle.wait_s(over) == pytest.approx(0, abs=1e-9)


@given(st.floats(3_601, allow_nan=False))
def test_however_long_a_pause_is_asked_for_it_is_kept_for_an_hour(hint: float) -> None:
    throttle = Throttle(None)
    throttle.refused(10.0, 9.9, hint)
    assert throttle.pause_s(10.0) == pytest.approx(hint)
    assert throttle.held_s(10.0) == throttle.wait_s(10.0) == 3_600
    assert throttle.pause_s(3_609.0) == pytest.approx(hint - 3_599)
    assert throttle.pause_s(3_610.0) == throttle.held_s(3_610.0) == throttle.wait_s(3_610.0) == 0
    throttle.refused(3_610.1, 3_610.0, 5.0)
    assert throttle.pause_s(3_610.1) == throttle.held_s(3_610.1) == pytest.approx(5)


def test_an_unknown_service_is_asked_a_few_at_once_then_twenty_a_second_until_it_answers() -> None:
    throttle = Throttle(None)
    assert throttle.per_second == START_PER_S
    assert send(throttle, 50.0) == 10
    assert throttle.wait_s(50.0) == pytest.approx(1 / START_PER_S)


def test_each_answer_of_an_unknown_service_admits_more_than_one() -> None:
    throttle = Throttle(None)
    waves = [send(throttle, 50.0)]
    while not throttle.open:
        for _ in range(waves[-1]):
            throttle.accepted(50.0 + len(waves), 49.5 + len(waves))
        waves.append(send(throttle, 50.0 + len(waves), 200))
    assert waves == sorted(waves)
    assert sum(waves[:-1]) < 1000
    assert throttle.per_second == math.inf


def test_an_unknown_service_that_gets_slow_is_not_asked_faster() -> None:
    throttle = Throttle(None)
    send(throttle, 0.0)
    throttle.accepted(0.1, 0.0)
    for number in range(1, 2_000):
        throttle.accepted(5.0 * number, 5.0 * number - 2)
        send(throttle, 5.0 * number)
        assert not throttle.open


@pytest.mark.parametrize(
    ("accepted", "seconds", "rate"), [(20, 0.0, 20), (100, 1.0, 50), (330, 10.0, 30), (0, 0.0, 20)]
)
def test_the_first_refusal_tells_the_rate_of_a_bucket_that_was_full(accepted, seconds, rate) -> None:
    throttle = refused_after(accepted, seconds)
    assert throttle.per_second == pytest.approx(rate, rel=0.25)


def test_between_two_refusals_the_rate_is_exact() -> None:
    throttle = refused_after(10, 0.25, 12.0)  # 8 a second at least
    for number in range(54):
        throttle.accepted(101.5 + number / 8, 101.4 + number / 8)
    throttle.refused(100.5 + 9.0, 105.0, None)
    assert throttle._learned == pytest.approx(54 / 9.0)


def test_a_rate_falls_to_a_half_at_most_for_one_refusal() -> None:
    throttle = Throttle(100)
    throttle.refused(10.0, 9.9, None)
    assert throttle._learned == 50
    throttle.refused(12.0, 11.9, None)
    assert throttle._learned == 25


def test_refusals_of_what_was_sent_before_the_first_was_known_count_once() -> None:
    throttle = Throttle(100)
    for later in (0.0, 0.1, 0.2):
        throttle.refused(10.0 + later, 9.9 + later / 4, None)
    assert throttle._learned == 50
    assert throttle.pause_s(10.2) == pytest.approx(0.8)
    throttle.refused(10.3, 9.9, 5.0)  # but what it asks for is done
    assert throttle.pause_s(10.3) == 5


def test_what_was_learned_rises_again_to_the_ceiling_and_no_further() -> None:
    throttle, now = refused_after(20, 1.0, 40.0), 102.0
    assert throttle.per_second == 20  # not less than half
    for _ in range(4_000):
        now += max(throttle.wait_s(now), TIMER_S)
        throttle.take(now, now)
        throttle.accepted(now, now - 0.02)
    assert throttle.per_second == 40


def test_a_rate_that_is_not_used_does_not_grow() -> None:
    throttle = refused_after(20, 1.0)
    before = throttle._learned
    for second in range(1, 4_000):
        throttle.accepted(102.0 + second, 101.9 + second)
    assert throttle._learned == before


def test_slow_answers_keep_a_learned_rate_from_growing() -> None:
    throttle, now = refused_after(20, 1.0), 102.0
    quick = throttle._learned
    throttle.accepted(now, now - 0.02)
    for _ in range(100):
        now += max(throttle.wait_s(now), TIMER_S)
        throttle.take(now, now)
        throttle.accepted(now, now - 3)
    assert throttle.per_second <= quick * 1.1


def test_a_sleeper_that_wakes_late_does_not_put_off_those_behind_it_unless_it_is_very_late() -> None:
    throttle = Throttle(10)
    throttle.take(0.0, 0.0)
    throttle.take(0.15, 0.0)  # due at 0.1
    assert throttle.wait_s(0.15) == pytest.approx(0.05)
    throttle.take(9.0, 0.0)  # due at 0.2
    assert throttle.wait_s(9.0) == pytest.approx(0.0)
    throttle.take(9.0, 0.0)
    assert throttle.wait_s(9.0) == pytest.approx(0.1)


def test_unlimited_holds_nothing_back_until_the_service_refuses() -> None:
    throttle = Throttle(math.inf)
    assert throttle.open
    assert send(throttle, 5.0) == 10_000
    throttle.count = 640
    throttle.mark(5.0)
    throttle.count = 6_400
    throttle.mark(9.0)
    throttle.refused(10.0, None, None)
    assert not throttle.open
    assert throttle._learned == pytest.approx((6_400 - 639) / 6)


def test_a_lower_ceiling_holds_for_what_was_free() -> None:
    for throttle in (Throttle(None), Throttle(math.inf), Throttle(50)):
        throttle.lower(7)
        assert throttle.per_second == 7
        throttle.lower(90)
        assert throttle.per_second == 7
        assert send(throttle, 5.0) == 1
