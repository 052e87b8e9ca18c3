"""What is written on the command line, read and checked before anything is opened. Pure but for the time it is."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.cli._text import short_metric
from metricsbridge.durations import parse_duration
from metricsbridge.errors import ConfigurationError, MetricsBridgeError
from metricsbridge.metrics import METRICS
from metricsbridge.model import JobRef, Window, check_source
from metricsbridge.runtime._clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metricsbridge.model import Level, RelativeWindow

_FULL_NAMES: Final = {short_metric(name): name for name in METRICS}

Wanted = JobRef | str
"""One job, or the name of a source: all of its jobs."""


class UsageError(ConfigurationError):
    """What was written on the command line makes no sense."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn what is wrong with an argument into a ``UsageError``."""
    try:
        yield
    except (ValueError, MetricsBridgeError) as error:
        raise UsageError(getattr(error, "message", str(error))) from error


@attrs.frozen(kw_only=True)
class Options:
    """What is asked of every job, as ``Collector.collect`` takes it; the timeout bounds the listing of jobs too."""

    metrics: Sequence[str] | None = None
    window: Window | RelativeWindow | None = None
    step: int | None = None
    per: Level = "task"
    tasks: Sequence[str] | None = None
    timeout_s: float | None = None
    call_timeout_s: float | None = None


def parse_wanted(text: str, /) -> Wanted:
    """Read ``source/job-id``, or ``source`` for all of its jobs."""
    return JobRef.parse(text) if "/" in text else check_source(text)


def sources_of(wanted: Sequence[Wanted], /) -> list[str]:
    """Give the sources that are needed, each once."""
    return list(dict.fromkeys([each.source if isinstance(each, JobRef) else each for each in wanted]))


def parse_metrics(names: Sequence[str] | None, /) -> list[str] | None:
    """Read names of metrics, canonical or as narrow tables show them; none is all. The collector checks them."""
    return [_FULL_NAMES.get(name, name) for name in names or ()] or None


def parse_optional_duration(text: str | None, /) -> int | None:
    """Read a duration to ms, where there is one.

    Raises:
        ValueError: It is none.
    """
    return None if text is None else parse_duration(text)


def parse_optional_seconds(text: str | None, /) -> float | None:
    """Read a duration to seconds, where there is one.

    Raises:
        ValueError: It is none.
    """
    return None if text is None else parse_duration(text) / 1000


def parse_window(last: str | None, start: str | None, end: str | None) -> Window | RelativeWindow | None:
    """Read a window: up to now, or absolute, or none.

    Raises:
        UsageError: They make no window.
    """
    if last is not None and (start is not None or end is not None):
        raise UsageError("--last goes with neither --start nor --end: write one or the other")
    if end is not None and start is None:
        raise UsageError("--end needs --start")
    now_ms = SystemClock().now_ms()
    with usage_errors():
        if last is not None:
            window = Window.last(last)
            if window.duration_ms > now_ms:
                raise UsageError(f"--last {last} begins before 1970: write less, or nothing for each job's life")
            return window
        if start is None:
            return None
        return Window(_instant("--start", start), now_ms if end is None else _instant("--end", end))


def _instant(option: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is no time: write for example 2025-01-15T08:00Z") from None
    if instant.tzinfo is None:
        raise UsageError(f"{option} {text!r} has no time zone: write {text}Z, or an offset such as {text}+08:00")
    return instant
