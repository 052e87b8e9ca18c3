"""Batches piled up as they come and stacked in order at the end, the samples never held twice."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from metricsbridge.series.columns import SeriesBatch, merge, named_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.series.columns import Float64, Int64

    Order = tuple[int, int]

_CHUNK: Final = 2**20
"""Samples of a full chunk. So large a block is the system's own to give and take back, and freed is free."""

_FIRST: Final = 2**12
"""Samples that a chunk has room for at first."""

_TEXT_COLUMNS: Final = ("keys", "unit", "interval_ms", "timing", "time_error_ms", "statistic")
_columns_of = attrgetter("source", *_TEXT_COLUMNS, "offsets")


class _Column:
    """Numbers in chunks: added at the end, taken out in stretches; a chunk of which all is taken is freed."""

    def __init__(self, dtype: type) -> None:
        self._dtype = dtype
        self._chunks: list[Any] = []
        self._count = 0

    def add(self, numbers: Int64 | Float64) -> None:
        """Copy numbers to the end."""
        taken = 0
        while taken < len(numbers):
            place = self._count % _CHUNK
            if place == 0:
                self._chunks.append(np.empty(_FIRST, self._dtype))
            chunk = self._chunks[-1]
            here = min(len(numbers) - taken, _CHUNK - place)
            if place + here > len(chunk):
                chunk.resize(min(_CHUNK, max(place + here, 2 * len(chunk))), refcheck=False)
            chunk[place : place + here] = numbers[taken : taken + here]
            taken += here
            self._count += here

    def take(self, stretches: Sequence[tuple[int, int]]) -> Any:
        """Give all numbers as one array that holds the stretches ``(start, length)`` in their order.

        The array grows as the chunks are freed. Large blocks grow in place, or by being given other addresses.
        """
        left = [min(_CHUNK, self._count - start) for start in range(0, self._count, _CHUNK)]
        whole: Any = np.empty(0, self._dtype)
        filled = 0
        for start, length in stretches:
            while length:
                number, place = divmod(start, _CHUNK)
                here = min(length, _CHUNK - place)
                if filled + here > len(whole):
                    room = max(filled + here, min(self._count, filled + max(_CHUNK, filled // 8)))
                    whole.resize(room, refcheck=False)
                whole[filled : filled + here] = self._chunks[number][place : place + here]
                left[number] -= here
                if not left[number]:
                    self._chunks[number] = None
                start, length, filled = start + here, length - here, filled + here
        return whole


@attrs.frozen(eq=False)
class _Part:
    """A batch without its samples, which are a stretch of the pile's."""

    order: Order
    start: int
    columns: tuple[Any, ...]

    @property
    def length(self) -> int:
        return int(self.columns[-1][-1])


class Pile:
    """Takes batches in any order, each with its place, and stacks them by their places.

    It is for very many: what is added may be freed at once, and in the end the columns are put in order one after the
    other, so about one of them exists twice at worst, and next to nothing where batches came nearly in order.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._times, self._values = _Column(np.int64), _Column(np.float64)
        self._count = 0
        self._jobs: set[int] = set()
        self._overlap = False

    def add(self, order: Order, batch: SeriesBatch, /) -> None:
        """Copy a batch; those of its series that have equal keys are joined, as by ``merge``."""
        batch = merge([batch])
        if not len(batch):
            return
        # Equal numbers of different jobs only cost a needless look for equal keys.
        jobs = {hash((key.source or batch.source, key.job)) for key in batch.keys}
        self._overlap = self._overlap or not self._jobs.isdisjoint(jobs)
        self._jobs |= jobs
        self._parts.append(_Part(order, self._count, _columns_of(batch)))
        self._times.add(batch.times)
        self._values.add(batch.values)
        self._count += len(batch.times)

    def stack(self) -> SeriesBatch:
        """Give what ``merge`` makes of the batches in order of their places; the pile is then used up."""
        parts, self._parts = sorted(self._parts, key=attrgetter("order")), []
        if not parts:
            return SeriesBatch.empty()
        stretches = [(part.start, part.length) for part in parts]
        sources, *texts, offsets = map(list, zip(*[part.columns for part in parts], strict=True))
        del parts
        begins = np.cumsum([0, *[length for _, length in stretches[:-1]]])
        several = len(set(sources)) > 1
        if several:
            texts[0] = [*map(named_keys, sources, texts[0])]
        columns = {}
        for name in _TEXT_COLUMNS:
            columns[name] = tuple(chain.from_iterable(texts.pop(0)))
        whole = SeriesBatch(
            source="" if several else sources[0],
            **columns,
            offsets=np.concatenate([[0], *[part[1:] + begin for part, begin in zip(offsets, begins, strict=True)]]),
            times=self._times.take(stretches),
            values=self._values.take(stretches),
        )
        return merge([whole]) if self._overlap else whole
