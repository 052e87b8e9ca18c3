"""Which stretches of time are asked for, at which instants, and which pods together: pure.

A cell of the grid is ``[k · step, (k + 1) · step)``. Its value is that of a range selector evaluated at its last
millisecond: evaluated at its end, it would have the first sample of the next cell too. The value is stamped with the
cell's start. A selector that needs more samples than a step has reaches over several cells, from the stamp on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from metricsbridge.provider_kit import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

MINUTE_MS: Final = 60_000

MOST_INSTANTS: Final = 11_000
"""A range has at most so many points for each series (Prometheus refuses ``(end - start) / step`` above it)."""

MOST_POINTS: Final = 250_000
"""So many points are asked for at once, all series together: about 9 MB."""

MOST_PODS: Final = 200
"""So many pods are named in one query."""

SCRAPES: Final = 4
"""A rate is taken over so many scrapes at least, so that it survives one that is missing."""


def step_of(step_ms: int | None, scrape_ms: int, /) -> int:
    """Give the step that is asked for: the query's, else a minute; never finer than samples come."""
    return max(MINUTE_MS if step_ms is None else step_ms, scrape_ms)


def reach_of(step_ms: int, scrape_ms: int, /, *, counter: bool) -> int:
    """Give the stretch of time that one value summarises, in whole steps."""
    return max(step_ms, -(-SCRAPES * scrape_ms // step_ms) * step_ms) if counter else step_ms


def windows_of(window: Window, step_ms: int, /) -> tuple[Window, ...]:
    """Give adjoining windows that make up the window, cut between cells, each within the cap of one range."""
    most = MOST_INSTANTS - 2
    first = window.start_ms // step_ms * step_ms
    bounds = [window.start_ms, *range(first + most * step_ms, window.end_ms, most * step_ms), window.end_ms]
    if len(bounds) == 2:
        return (window,)
    return tuple([Window(start, end) for start, end in pairwise(bounds)])


def groups_of(pods: Sequence[str], window: Window, step_ms: int, /, *, devices: int) -> Iterator[tuple[str, ...]]:
    """Give the pods in groups whose answers stay bounded."""
    points = (window.duration_ms // step_ms + 2) * max(1, devices)
    size = max(1, min(MOST_PODS, MOST_POINTS // points))
    return (tuple(pods[first : first + size]) for first in range(0, len(pods), size))


def instants_of(window: Window, step_ms: int, reach_ms: int, /) -> tuple[int, int]:
    """Give the first and last instant at which a query is evaluated, in ms.

    One more than there are cells: a server that moves the instants of a range to multiples of its step, as caches
    before Prometheus do, would leave out the last cell else.
    """
    first = window.start_ms // step_ms * step_ms
    last = (window.end_ms - 1) // step_ms * step_ms
    return first + reach_ms - 1, last + step_ms + reach_ms - 1


def stamps_of(instants: NDArray[np.int64], step_ms: int, reach_ms: int, /) -> NDArray[np.int64]:
    """Give the start of the stretch that each value summarises, whether or not the server moved its instant."""
    return -(-instants // step_ms) * step_ms - reach_ms
