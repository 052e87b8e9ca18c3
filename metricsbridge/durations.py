"""Durations and instants as people write them, to the int64 milliseconds used inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+)(ms|[smhdw])")
_WHOLE = re.compile(r"(?:\d+(?:ms|[smhdw]))+")


def parse_duration(value: str | int | timedelta, /) -> int:
    """Give a duration in whole milliseconds.

    Args:
        value: Text such as ``"90s"``, ``"5m"``, ``"1h30m"`` or ``"500ms"``, a ``timedelta``, or an ``int`` that is
            already in milliseconds.

    Raises:
        ValueError: The text is no duration, or the duration is not positive.
    """
    if isinstance(value, timedelta):
        result = value // timedelta(milliseconds=1)
    elif isinstance(value, int):
        result = value
    elif _WHOLE.fullmatch(value):
        result = sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(value))
    else:
        raise ValueError(f"{value!r} is not a duration: write for example '90s', '5m', '1h30m' or '500ms'")
    if result <= 0:
        raise ValueError(f"{value!r} is not a positive duration")
    return result


def parse_instant(value: int | datetime, /) -> int:
    """Give an instant in milliseconds since the epoch, UTC.

    Args:
        value: An ``int`` already in milliseconds since the epoch, or an aware ``datetime``.

    Raises:
        ValueError: The ``datetime`` is naive, so that its instant is not known.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: pass an aware datetime, such as datetime.now(UTC)")
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return value


def to_datetime(time_ms: int, /) -> datetime:
    """Give the aware ``datetime`` in UTC of milliseconds since the epoch."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
