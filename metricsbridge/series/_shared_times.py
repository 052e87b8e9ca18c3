"""Times that the tasks of a job have in common: one array, which can't be written to, for all of them. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]
    Parts = tuple[tuple[int, int], ...]

_AT_ONCE: Final = 8
"""So many arrays are remembered of each kind."""

_MOST: Final = 2**16
"""Longer ones are not remembered: that would hold much memory for ever."""


def regular_times(lengths: Sequence[int], first_ms: Sequence[int], interval_ms: int, /) -> Int64:
    """Give int64[N] times for series whose samples follow each other at a fixed interval; they can't be written to.

    The tasks of a job share their times, so the array is shared where the same one is asked for again.

    Args:
        lengths: S numbers of samples.
        first_ms: S times of the first sample, ms since the epoch.
        interval_ms: From one sample to the next.
    """
    make = _remembered_times if sum(lengths) <= _MOST else _times
    return make(tuple(lengths), tuple(first_ms), interval_ms)


def _times(lengths: tuple[int, ...], first_ms: tuple[int, ...], interval_ms: int) -> Int64:
    counts = np.array(lengths, np.int64)
    starts = np.array(first_ms, np.int64) - (np.cumsum(counts) - counts) * interval_ms
    times: Int64 = np.arange(sum(lengths), dtype=np.int64) * interval_ms + np.repeat(starts, counts)
    times.flags.writeable = False
    return times


_remembered_times = lru_cache(maxsize=_AT_ONCE)(_times)


@attrs.frozen(eq=False)
class _Same:
    """An array as a key: equal to nothing but itself."""

    array: Int64

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.array is other.array


def bounds(times: Int64, /) -> tuple[int, int]:
    """Give the earliest and the latest of times, of which there is one at least; of shared ones they are remembered."""
    shared = not times.flags.writeable and len(times) <= _MOST
    return _remembered_bounds(_Same(times)) if shared else _bounds(times)


def _bounds(times: Int64) -> tuple[int, int]:
    return int(np.minimum.reduce(times)), int(np.maximum.reduce(times))


@lru_cache(maxsize=_AT_ONCE)
def _remembered_bounds(times: _Same) -> tuple[int, int]:
    return _bounds(times.array)


def shared_parts(times: Int64, parts: Parts, /) -> Int64:
    """Give stretches ``(start, end)`` of times as one array; of shared times mostly the same one to everybody."""
    shared = not times.flags.writeable and len(times) <= _MOST
    return _remembered_parts(_Same(times), parts) if shared else _parts(times, parts)


def _parts(times: Int64, parts: Parts) -> Int64:
    return np.concatenate([times[:0], *[times[start:end] for start, end in parts]])


@lru_cache(maxsize=_AT_ONCE)
def _remembered_parts(times: _Same, parts: Parts) -> Int64:
    taken = _parts(times.array, parts)
    taken.flags.writeable = False
    return taken
