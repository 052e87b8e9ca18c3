from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.durations import parse_duration, parse_instant, to_datetime

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1m500ms", 60_500),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("05m", 300_000),
    ],
)
def test_a_duration_reads_as_people_write_it(text, milliseconds):
    assert parse_duration(text) == milliseconds


@given(st.lists(st.tuples(st.integers(1, 10**6), st.sampled_from(list(UNITS))), min_size=1, max_size=4))
def test_the_parts_of_a_duration_add_up(parts):
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == sum(number * UNITS[unit] for number, unit in parts)


@given(st.integers(1, 2**62))
def test_an_int_is_milliseconds_already(milliseconds):
    assert parse_duration(milliseconds) == milliseconds


def test_a_timedelta_is_cut_to_whole_milliseconds():
    assert parse_duration(timedelta(minutes=1, microseconds=1999)) == 60_001


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1.5h", "-5m", "5M", "5min", "1h-30m", " 5m", "5m\n", "5µs"])
def test_text_that_is_no_duration_is_refused_with_what_to_write_instead(text):
    with pytest.raises(ValueError, match="is not a duration: write for example '90s', '5m', '1h30m' or '500ms'"):
        parse_duration(text)


@pytest.mark.parametrize("value", [0, -1, "0s", "0h0m", timedelta(0), timedelta(seconds=-1), timedelta(microseconds=9)])
def test_a_duration_is_positive(value):
    with pytest.raises(ValueError, match="is not a positive duration"):
        parse_duration(value)


@given(st.integers(-(2**62), 2**62))
def test_an_int_instant_is_milliseconds_already(milliseconds):
    assert parse_instant(milliseconds) == milliseconds


def test_an_aware_datetime_is_an_instant_in_any_zone():
    assert parse_instant(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert parse_instant(datetime(1970, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))) == 0
    assert parse_instant(datetime(2025, 6, 15, 15, 6, 40, 123999, tzinfo=UTC)) == 1_750_000_000_123
    assert parse_instant(datetime(1969, 12, 31, 23, 59, 59, 999500, tzinfo=UTC)) == -1


def test_a_naive_datetime_is_refused():
    with pytest.raises(ValueError, match=r"has no time zone: pass an aware datetime, such as datetime.now\(UTC\)"):
        parse_instant(datetime(2025, 1, 1))


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_every_millisecond_of_the_calendar_survives_the_way_to_datetime_and_back(milliseconds):
    moment = to_datetime(milliseconds)
    assert moment.tzinfo is UTC
    assert parse_instant(moment) == milliseconds
