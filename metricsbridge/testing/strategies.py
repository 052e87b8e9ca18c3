"""Hypothesis strategies for tests of providers: windows, series, and answers that are broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from hypothesis import strategies as st

from metricsbridge.model import Window
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE: Final = b"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body>busy</body></html>\n"
"""What a gateway sends in place of an answer."""

_WRONG: Final[tuple[Any, ...]] = (None, True, -1, 0, 2**70, 1.5, "", "x", "NaN", "-1", [], [None], [[]], {}, {"x": 1})
"""Values one of which is the wrong type in any place."""


@st.composite
def windows(draw: st.DrawFn, start_ms: int, end_ms: int, /, *, step_ms: int = 1) -> Window:
    """Windows that begin and end in a stretch of time, both on whole steps from the epoch."""
    first, last = -(-start_ms // step_ms), end_ms // step_ms
    start = draw(st.integers(first, last - 1))
    return Window(start * step_ms, draw(st.integers(start + 1, last)) * step_ms)


values: Final = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.1, 0.2, 0.3, 1e308, -1e308, 5e-324, -5e-324]),
    st.floats(),
)
"""Values of samples, NaN for "no value" among them."""


def samples(start_ms: int, end_ms: int, /, *, max_size: int = 25) -> st.SearchStrategy[list[tuple[int, float]]]:
    """Samples of one series: times in a window, rising, and values."""
    pairs = st.lists(st.tuples(st.integers(start_ms, end_ms - 1), values), max_size=max_size)
    return pairs.map(lambda given: sorted(dict(given).items()))


@st.composite
def batches(
    draw: st.DrawFn, start_ms: int, end_ms: int, /, *, keys: Sequence[SeriesKey], unit: str = "1", interval_ms: int = 0
) -> SeriesBatch:
    """Batches with a series for some of the keys, their samples in a window."""
    chosen = [key for key in keys if draw(st.booleans())]
    series = [draw(samples(start_ms, end_ms)) for _ in chosen]
    pairs = [pair for one in series for pair in one]
    count = len(chosen)
    return SeriesBatch(
        keys=tuple(chosen),
        unit=(unit,) * count,
        interval_ms=(interval_ms,) * count,
        timing=(Timing.REPORTED,) * count,
        time_error_ms=(0,) * count,
        statistic=(Statistic.MEAN,) * count,
        offsets=np.cumsum([0, *[len(one) for one in series]], dtype=np.int64),
        times=np.array([time for time, _ in pairs], np.int64),
        values=np.array([value for _, value in pairs], np.float64),
    )


def truncated(body: bytes, /) -> st.SearchStrategy[bytes]:
    """The body cut off somewhere before its end."""
    return st.integers(0, max(0, len(body) - 1)).map(lambda length: body[:length])


@st.composite
def flipped(draw: st.DrawFn, body: bytes, /) -> bytes:
    """The body with a few bits turned over."""
    broken = bytearray(body)
    for _ in range(draw(st.integers(1, 3)) if broken else 0):
        broken[draw(st.integers(0, len(broken) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(broken)


@st.composite
def mistyped(draw: st.DrawFn, body: bytes, /) -> bytes:
    """The JSON document with one value in it replaced by one of another type, or one member left out."""
    document = json.loads(body)
    places = _places(document)
    if not places:
        return json.dumps(draw(st.sampled_from(_WRONG))).encode()
    owner, key = draw(st.sampled_from(places))
    if isinstance(owner, dict) and draw(st.integers(0, 4)) == 0:
        del owner[key]
    else:
        owner[key] = draw(st.sampled_from(_WRONG))
    return json.dumps(document).encode()


def broken_payloads(body: bytes, /) -> st.SearchStrategy[bytes]:
    """What may come in place of a body: cut off, bits turned over, an HTML page, another type somewhere in it."""
    kinds = [truncated(body), flipped(body), st.just(PAGE)]
    return st.one_of(*kinds, mistyped(body)) if is_json(body) else st.one_of(*kinds)


def is_json(body: bytes, /) -> bool:
    """Tell whether a body is a JSON document."""
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Give (container, key or index) of the values in a document: the outermost first, and of a long list the ends."""
    found: list[tuple[Any, Any]] = []
    queue = [document]
    while queue:
        owner = queue.pop(0)
        keys = list(owner) if isinstance(owner, dict) else list(range(len(owner))) if isinstance(owner, list) else []
        for key in keys if len(keys) < 5 or isinstance(owner, dict) else [keys[0], keys[1], keys[-1]]:
            found.append((owner, key))
            queue.append(owner[key])
    return found
