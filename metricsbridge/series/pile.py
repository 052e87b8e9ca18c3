"""Batches piled up as they come and stacked in order at the end, the samples never held twice."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from metricsbridge.series.columns import SeriesBatch, merge, named_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.series.columns import Float64, Int64

_CHUNK: Final = 2**20
"""Samples of a full chunk. So large a block is the system's own to give and take back, and freed is free."""

_FIRST: Final = 2**12
"""Samples of the first chunks; later ones hold a quarter of all that is there, so that little room is left over."""

_WHOLE: Final = 2**15
"""So many samples are not copied when they are added: that would hold up whoever adds them."""

_TEXTS: Final = ("keys", "unit", "interval_ms", "timing", "time_error_ms", "statistic")


class _Column:
    """Numbers in chunks: added at the end, taken out in stretches; a chunk of which all is taken is freed."""

    def __init__(self, dtype: type) -> None:
        self._dtype = dtype
        self._chunks: list[Any] = []
        self._starts: list[int] = []
        self._room = 0  # in the last chunk
        self.count = 0

    def add(self, numbers: Int64 | Float64) -> None:
        """Copy numbers to the end; very many become a chunk themselves."""
        if len(numbers) >= _WHOLE:
            if self._room:
                self._chunks[-1].resize(len(self._chunks[-1]) - self._room, refcheck=False)
            self._chunks.append(numbers)
            self._starts.append(self.count)
            self._room = 0
            self.count += len(numbers)
            return
        taken = 0
        while taken < len(numbers):
            if not self._room:
                self._room = max(_FIRST, min(_CHUNK, self.count // 4))
                self._chunks.append(np.empty(self._room, self._dtype))
                self._starts.append(self.count)
            chunk = self._chunks[-1]
            place, here = len(chunk) - self._room, min(len(numbers) - taken, self._room)
            chunk[place : place + here] = numbers[taken : taken + here]
            taken += here
            self._room -= here
            self.count += here

    def take(self, stretches: Sequence[tuple[int, int]]) -> Any:
        """Give all numbers as one array that holds the stretches ``(start, length)`` in their order.

        The system gives memory to an array where it is written, so this one grows as the chunks are freed.
        """
        ends = [*self._starts[1:], self.count]
        left = [end - start for start, end in zip(self._starts, ends, strict=False)]
        whole: Any = np.empty(self.count, self._dtype)
        filled = 0
        for start, length in stretches:
            while length:
                number = bisect_right(self._starts, start) - 1
                here = min(length, ends[number] - start)
                place = start - self._starts[number]
                whole[filled : filled + here] = self._chunks[number][place : place + here]
                left[number] -= here
                if not left[number]:
                    self._chunks[number] = None
                start, length, filled = start + here, length - here, filled + here
        return whole


class Pile:
    """Takes batches in any order, each with its place, and stacks them by their places.

    It is for very many: what is added may be freed at once, and in the end the columns are put in order one after the
    other, so about one of them exists twice at worst, and next to nothing where batches came nearly in order.
    """

    def __init__(self) -> None:
        self._parts = array("q")  # of each batch: its place, first series, series, first sample, samples, source
        self._texts: dict[str, list[Any]] = {name: [] for name in _TEXTS}
        self._lengths, self._times, self._values = _Column(np.int64), _Column(np.int64), _Column(np.float64)
        self._sources: dict[str, int] = {}

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return self._times.count

    def add(self, place: tuple[int, int], batch: SeriesBatch, /) -> None:
        """Copy a batch."""
        if not batch.keys:
            return
        source = self._sources.setdefault(batch.source, len(self._sources))
        first_series, first_sample = self._lengths.count, self._times.count
        self._parts.extend((*place, first_series, len(batch), first_sample, len(batch.times), source))
        for name, column in self._texts.items():
            column.extend(getattr(batch, name))
        self._lengths.add(batch.offsets[1:] - batch.offsets[:-1])
        self._times.add(batch.times)
        self._values.add(batch.values)

    def stack(self) -> SeriesBatch:
        """Give what ``merge`` makes of the batches in order of their places; the pile is then used up."""
        if not self._parts:
            return SeriesBatch.empty()
        parts = np.array(self._parts).reshape(-1, 7)
        parts = parts[np.lexsort((parts[:, 1], parts[:, 0]))]
        series, samples = parts[:, 2:4].tolist(), parts[:, 4:6].tolist()
        sources = [*self._sources]
        names = [sources[number] for number in parts[:, 6].tolist()] if len(sources) > 1 else None
        columns = {name: self._take(name, series, names) for name in _TEXTS}
        whole = SeriesBatch(
            source="" if names else sources[0],
            **columns,
            offsets=np.concatenate([[0], np.cumsum(self._lengths.take(series))]),
            times=self._times.take(samples),
            values=self._values.take(samples),
        )
        return merge([whole])

    def _take(self, name: str, stretches: Sequence[tuple[int, int]], sources: Sequence[str] | None) -> Any:
        entries = self._texts.pop(name)
        parts = [entries[start : start + length] for start, length in stretches]
        if name == "keys" and sources is not None:
            parts = [list(named_keys(source, keys)) for source, keys in zip(sources, parts, strict=True)]
        return tuple(chain.from_iterable(parts))
