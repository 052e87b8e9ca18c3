"""Batches piled up as they come and stacked in order at the end, the samples never held twice."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from metricsbridge.series.columns import SeriesBatch, merge, named_keys, sort_samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metricsbridge.series.columns import Float64, Int64

_CHUNK: Final = 2**20
"""Samples of a full chunk. So large a block is the system's own to give and take back, and freed is free."""

_FIRST: Final = 2**12
"""Samples of the first chunks; later ones hold a quarter of all that is there, so that little room is left over."""

_WHOLE: Final = 2**15
"""So many samples are not copied when they are added: that would hold up whoever adds them."""

_SHARED: Final = 2**10
"""So many numbers that can't be written to, such as the times that the tasks of a job share, are kept as they are."""

_TEXTS: Final = ("keys", "unit", "interval_ms", "timing", "time_error_ms", "statistic")


class _Column:
    """Numbers in chunks, taken out in stretches; a chunk of which all is taken is freed."""

    def __init__(self, dtype: type) -> None:
        self._dtype = dtype
        self._chunks: list[Any] = []
        self._starts: list[int] = []
        self._kept: dict[int, int] = {}  # of arrays that are chunks: id to start
        self._room = 0  # in the last chunk
        self.count = 0

    def add(self, numbers: Int64 | Float64) -> int:
        """Copy numbers to the end, and give their place.

        Very many become a chunk themselves; and so do numbers that can't be written to, which are kept once.
        """
        fixed = not numbers.flags.writeable
        if len(numbers) >= (_SHARED if fixed else _WHOLE):
            start = self._kept.get(id(numbers)) if fixed else None
            if start is None:
                if self._room:
                    self._chunks[-1].resize(len(self._chunks[-1]) - self._room, refcheck=False)
                    self._room = 0
                start = self._kept[id(numbers)] = self.count
                self._append(numbers)
            return start
        start, taken = self.count, 0
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
        return start

    def _append(self, chunk: Int64 | Float64) -> None:
        self._chunks.append(chunk)
        self._starts.append(self.count)
        self.count += len(chunk)

    def take(self, stretches: Sequence[tuple[int, int]]) -> Any:
        """Give all numbers as one array that holds the stretches ``(start, length)`` in their order.

        The system gives memory to an array where it is written, so this one grows as the chunks are freed.
        """
        pieces = [piece for start, length in stretches for piece in self._pieces(start, length)]
        left = [0] * len(self._chunks)
        for number, _, length in pieces:
            left[number] += length
        whole: Any = np.empty(sum(left), self._dtype)
        filled = 0
        for number, place, length in pieces:
            whole[filled : filled + length] = self._chunks[number][place : place + length]
            filled += length
            left[number] -= length
            if not left[number]:
                self._chunks[number] = None
        return whole

    def _pieces(self, start: int, length: int) -> Iterator[tuple[int, int, int]]:
        """Give what of a stretch is in one chunk each: the chunk's number, the place in it, the length."""
        number = bisect_right(self._starts, start) - 1
        while length:
            place = start - self._starts[number]
            here = min(length, len(self._chunks[number]) - place)
            yield number, place, here
            start, length, number = start + here, length - here, number + 1


class Pile:
    """Takes batches in any order, each with its place, and stacks them by their places.

    It is for very many: what is added may be freed at once, and in the end the columns are put in order one after the
    other, so about one of them exists twice at worst, and next to nothing where batches came nearly in order.
    """

    def __init__(self) -> None:
        # Of each batch: its place, first series, series, first time, first value, samples, source.
        self._parts = array("q")
        self._texts: dict[str, list[Any]] = {name: [] for name in _TEXTS}
        self._lengths, self._times, self._values = _Column(np.int64), _Column(np.int64), _Column(np.float64)
        self._sources: dict[str, int] = {}

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return self._values.count

    def add(self, place: tuple[int, int], batch: SeriesBatch, /) -> None:
        """Copy a batch."""
        if not batch.keys:
            return
        source = self._sources.setdefault(batch.source, len(self._sources))
        for name, column in self._texts.items():
            column.extend(getattr(batch, name))
        series = self._lengths.add(batch.offsets[1:] - batch.offsets[:-1])
        times, values = self._times.add(batch.times), self._values.add(batch.values)
        self._parts.extend((*place, series, len(batch), times, values, len(batch.times), source))

    def stack(self) -> SeriesBatch:
        """Give what ``merge`` makes of the batches in order of their places; the pile is then used up."""
        if not self._parts:
            return SeriesBatch.empty()
        parts = np.array(self._parts).reshape(-1, 8)
        parts = parts[np.lexsort((parts[:, 1], parts[:, 0]))]
        series, times, values = parts[:, 2:4].tolist(), parts[:, [4, 6]].tolist(), parts[:, 5:7].tolist()
        sources = [*self._sources]
        names = [sources[number] for number in parts[:, 7].tolist()] if len(sources) > 1 else None
        columns = {name: self._take(name, series, names) for name in _TEXTS}
        lengths = self._lengths.take(series)
        groups = _equal(columns)
        if groups is not None:  # what is to be joined is put side by side
            within = np.cumsum(lengths) - lengths - np.repeat(np.cumsum(parts[:, 6]) - parts[:, 6], parts[:, 3])
            order = np.concatenate(groups)
            times, values = [
                np.stack([(np.repeat(starts, parts[:, 3]) + within)[order], lengths[order]], axis=1).tolist()
                for starts in (parts[:, 4], parts[:, 5])
            ]
        whole_times, whole_values = self._times.take(times), self._values.take(values)
        if groups is not None:
            columns = _joined_texts(columns)
            counts = [(len(group), int(lengths[group].sum())) for group in groups]
            lengths = _join(whole_times, whole_values, counts)
        return SeriesBatch(
            source="" if names else sources[0], **columns, offsets=np.concatenate([[0], np.cumsum(lengths)]),
            times=whole_times, values=whole_values,
        )  # fmt: skip

    def _take(self, name: str, stretches: Sequence[tuple[int, int]], sources: Sequence[str] | None) -> Any:
        entries = self._texts.pop(name)
        parts = [entries[start : start + length] for start, length in stretches]
        if name == "keys" and sources is not None:
            parts = [list(named_keys(source, keys)) for source, keys in zip(sources, parts, strict=True)]
        return tuple(chain.from_iterable(parts))


def _equal(columns: Mapping[str, Sequence[Any]]) -> list[list[int]] | None:
    """Give the numbers of the series that are to be joined, for each that there will be; None where none are."""
    if len(set(columns["keys"])) == len(columns["keys"]):
        return None
    groups: dict[object, list[int]] = {}
    for index, identity in enumerate(zip(columns["keys"], columns["unit"], columns["statistic"], strict=True)):
        groups.setdefault(identity, []).append(index)
    return [*groups.values()] if len(groups) < len(columns["keys"]) else None


def _joined_texts(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Give what ``merge`` makes of all but the samples."""
    none = np.zeros(len(columns["keys"]) + 1, np.int64)
    joined = merge([SeriesBatch(**columns, offsets=none, times=none[:0], values=np.empty(0))])
    return {name: getattr(joined, name) for name in _TEXTS}


def _join(times: Any, values: Any, series: Sequence[tuple[int, int]]) -> list[int]:
    """Join, in place, the samples of equal series, which stand side by side, and give how many each has then.

    Args:
        times: Shrinks, as ``values`` does, where several samples have one time.
        values: Likewise.
        series: Of each that there will be, how many it is made of, and how many samples they have.
    """
    lengths, at, filled = list[int](), 0, 0
    for parts, count in series:
        kept = times[at : at + count], values[at : at + count]
        if parts > 1:
            kept = sort_samples(*kept)
        end = filled + len(kept[0])
        if parts > 1 or filled < at:
            times[filled:end], values[filled:end] = kept
        lengths.append(end - filled)
        at, filled = at + count, end
    del kept
    times.resize(filled, refcheck=False)
    values.resize(filled, refcheck=False)
    return lengths
