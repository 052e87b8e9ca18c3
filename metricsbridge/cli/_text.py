"""Numbers, times and names as people read them. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from metricsbridge.durations import to_datetime
from metricsbridge.metrics import VENDOR_PREFIX

if TYPE_CHECKING:
    from metricsbridge.series.columns import Float64

BLOCKS: Final = "▁▂▃▄▅▆▇█"

_RATES: Final = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def sparkline(values: Float64, top: float, /) -> str:
    """Give a block for each value, a full one at ``top`` and above; a gap is a space."""
    return "".join([" " if math.isnan(value) else BLOCKS[_level(value, top)] for value in values.tolist()])


def _level(value: float, top: float) -> int:
    if top <= 0 or value <= 0:
        return 0
    return len(BLOCKS) - 1 if value >= top else int(value / top * len(BLOCKS))


def format_value(value: float, unit: str, /) -> str:
    """Give a number with its unit: a fraction as percent, bytes with a prefix."""
    if math.isnan(value):
        return ""
    if unit == "1":
        return f"{value * 100:.1f}%"
    if not math.isfinite(value):
        return str(value)
    if unit == "By/s":
        return _scaled(value, _RATES, 1000)
    if unit == "By":
        return _scaled(value, _SIZES, 1024)
    return f"{value:.4g} {unit.strip('{}')}".rstrip()


def _scaled(value: float, units: tuple[str, ...], factor: int) -> str:
    size, place = value, 0
    # 999.95 would be rounded to 1000.0 of its unit.
    while abs(size) >= factor - 0.05 and place < len(units) - 1:
        size, place = size / factor, place + 1
    return f"{size:.0f} {units[0]}" if place == 0 else f"{size:.1f} {units[place]}"


def format_span(span_ms: int, /) -> str:
    """Give a duration by its two largest units: ``3d 9h``, ``1m 35s``, ``0s``."""
    parts = []
    rest = span_ms
    for unit, length in _SPANS:
        whole, rest = divmod(rest, length)
        parts.append(f"{whole}{unit}" if whole else "")
    first = next((place for place, part in enumerate(parts) if part), len(parts) - 1)
    return " ".join([part for part in parts[first : first + 2] if part]) or "0s"


def format_instant(time_ms: int | None, /) -> str:
    """Give an instant in UTC to the minute, or nothing for None."""
    return "" if time_ms is None else f"{to_datetime(time_ms):%Y-%m-%d %H:%M}"


def format_share(share: float | None, /) -> str:
    """Give a share in whole percent, rounded down, so that only all of it is 100 %."""
    return "" if share is None else f"{math.floor(share * 100 + 1e-9)}%"


def count(number: int, noun: str, plural: str = "", /) -> str:
    """Give ``1 job``, ``2 jobs``, ``12,000 jobs``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short_metric(name: str, /) -> str:
    """Give a canonical metric's name without what goes without saying, for narrow tables."""
    if name.startswith(VENDOR_PREFIX):
        return name.split(".", 2)[2]
    return name.removeprefix("container.").removeprefix("hw.").removesuffix(".utilization")


def short_task(task: str, *job: str) -> str:
    """Give a task's id without the id or name of its job, where it begins with it: they stand above it."""
    for prefix in job:
        rest = task.removeprefix(prefix)
        if prefix and len(rest) > 1 and rest[0] in "-._/" and len(rest) < len(task):
            return rest[1:]
    return task


def printable(text: str, /) -> str:
    """Give a vendor's or user's text for a terminal: what would steer it shows as ``?``."""
    return "".join([sign if sign.isprintable() else "?" for sign in text])
