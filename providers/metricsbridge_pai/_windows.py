"""Which stretches of time are asked for, at which resolution: pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from metricsbridge.provider_kit import Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

TIME_STEPS: Final[Mapping[int, str]] = {
    _MINUTE_MS: "1m", 5 * _MINUTE_MS: "5m", 15 * _MINUTE_MS: "15m", 30 * _MINUTE_MS: "30m", _HOUR_MS: "1h",
}  # fmt: skip
"""Step in ms to ``TimeStep`` of ``GetJobMetrics``: 5m is its documented default, the others follow its grammar."""

MOST_STEPS: Final = 1_439
"""A range of so many steps has at most 1440 points, both of its ends included: more than a page of CloudMonitor's
metrics has is not known to be given by ``GetJobMetrics`` in one answer."""

PERIODS: Final = (60, 900, 3600)
"""CloudMonitor's periods in seconds, where a metric's own are not known; 15 s is kept for a week only."""

LONGEST_QUERY_MS: Final = 31 * _DAY_MS
"""CloudMonitor answers for so long a range at most (CloudMonitor API reference, DescribeMetricList)."""


def time_step(step_ms: int | None, /) -> int:
    """Give the coarsest step of ``GetJobMetrics`` that a query accepts, else the finest, in ms."""
    return max([step for step in TIME_STEPS if step_ms is not None and step <= step_ms], default=_MINUTE_MS)


def period(step_ms: int | None, periods: Sequence[int], /) -> int:
    """Give the coarsest of CloudMonitor's periods that a query accepts, in seconds.

    Where the query accepts anything it is the finest from a minute on: finer ones are kept for a week only.
    """
    known = sorted(periods or ((15, *PERIODS) if step_ms is not None and step_ms < _MINUTE_MS else PERIODS))
    if step_ms is None:
        return next((seconds for seconds in known if seconds >= 60), known[-1])
    return max([seconds for seconds in known if seconds * 1000 <= step_ms], default=known[0])


def retention_ms(period_s: int, /) -> int:
    """Give how long CloudMonitor keeps data of a period (CloudMonitor API reference, DescribeMetricList)."""
    if period_s < 60:
        return 7 * _DAY_MS
    return (31 if period_s < 300 else 91) * _DAY_MS


def split(window: Window, step_ms: int, most: int, /) -> tuple[Window, ...]:
    """Give adjoining windows that make up the window, each of at most so many steps when widened to whole ones."""
    bounds = [window.start_ms]
    first = window.start_ms // step_ms * step_ms
    bounds += range(first + most * step_ms, window.end_ms, most * step_ms)
    bounds.append(window.end_ms)
    if len(bounds) == 2:
        return (window,)
    return tuple([Window(start, end) for start, end in pairwise(bounds)])


def whole_steps(window: Window, step_ms: int, /) -> tuple[int, int]:
    """Give the window's start and end, moved outwards to whole steps, in ms."""
    return window.start_ms // step_ms * step_ms, -(-window.end_ms // step_ms) * step_ms


def left_open(window: Window, /) -> tuple[int, int]:
    """Give the range ``(start, end]`` in whole seconds that holds every sample of the window ``[start, end)``, in ms.

    CloudMonitor leaves out the sample at the start of its range. What is more than asked for is clipped away.
    """
    return (window.start_ms - 1) // 1000 * 1000, -(-(window.end_ms - 1) // 1000) * 1000


def shifted(window: Window, by_ms: int, /) -> Window:
    """Give the window moved by so much."""
    return Window(window.start_ms + by_ms, window.end_ms + by_ms) if by_ms else window


def within(window: Window, life: tuple[int | None, int | None], /) -> Window:
    """Give the part of a window in which a job may have samples: an hour about its life; all of it without a start.

    A window beside it keeps its first minute, so that the vendor itself says that there is nothing.
    """
    if life[0] is None:
        return window
    start = max(window.start_ms, (life[0] // _HOUR_MS - 1) * _HOUR_MS)
    end = window.end_ms if life[1] is None else min(window.end_ms, (life[1] // _HOUR_MS + 2) * _HOUR_MS)
    if start < end:
        return Window(start, end)
    return Window(window.start_ms, min(window.end_ms, window.start_ms + _MINUTE_MS))


@lru_cache(maxsize=64)  # the calls of a collection ask for the same few windows
def iso(time_ms: int, /) -> str:
    """Write an instant as both services do: ISO 8601 in whole seconds, UTC."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
