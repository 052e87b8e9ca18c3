"""Series as columns: what every answer is decoded into."""

from __future__ import annotations

import enum
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs
import msgspec
import numpy as np
from numpy.typing import NDArray

from metricsbridge.series._observed import observed
from metricsbridge.series._shared_times import bounds, shared_parts
from metricsbridge.series.tables import Table, Tabular, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metricsbridge.model import Window

T = TypeVar("T")
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


class Timing(enum.StrEnum):
    """Whether the vendor reports a sample's time, or the provider had to infer it."""

    REPORTED = "reported"
    INFERRED = "inferred"


class Statistic(enum.StrEnum):
    """What a sample says of its interval."""

    MEAN = "mean"
    MAX = "max"
    LAST = "last"


class SeriesKey(msgspec.Struct, frozen=True, gc=False):
    """The identity of a series.

    There is one for every series, so it is what the garbage collector need not look at; it can't be part of a cycle.

    Attributes:
        task: "" is the job as a whole.
        device: "" is the mean over the task's devices.
        labels: What else tells series apart (network interface, MIG slice, statistic); kept sorted.
        source: Set where series of several sources stand in one batch; otherwise the batch's ``source`` holds.
    """

    job: str
    task: str
    device: str
    metric: str
    labels: tuple[tuple[str, str], ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if self.labels:
            msgspec.structs.force_setattr(self, "labels", tuple(sorted(self.labels)))

    @classmethod
    def each(cls, job: str, task: str, device: str, metrics: Iterable[str], /) -> tuple[Self, ...]:
        """Give the keys of several metrics of one task or device: quicker than one by one."""
        key = cls(job, task, device, "")
        keys = []
        for metric in metrics:
            key = key.__copy__()  # type: ignore[attr-defined]  # msgspec's types leave it out
            msgspec.structs.force_setattr(key, "metric", metric)  # it is new: nobody else has it yet
            keys.append(key)
        return tuple(keys)


@attrs.frozen(kw_only=True, eq=False)
class SeriesBatch(Tabular):
    """Many series in columns.

    Attributes:
        source: Where all of it came from; "" where the keys say it, or before the collector has stamped it.
        keys: S identities.
        unit: S units in UCUM notation.
        interval_ms: S lengths of the interval that a sample summarises; 0 for an instant.
        timing: S of ``Timing``.
        time_error_ms: S bounds of how far a sample's time may be off; 0 where it is reported.
        statistic: S of ``Statistic``.
        offsets: int64[S + 1]; series ``i`` holds the samples ``offsets[i]:offsets[i + 1]``.
        times: int64[N], ms since the epoch, UTC: the start of the interval that a sample summarises, or its instant.
        values: float64[N], NaN where the vendor says that there is no value.

    Raises:
        ValueError: The columns' lengths do not fit each other.
    """

    source: str = ""
    keys: tuple[SeriesKey, ...]
    unit: tuple[str, ...]
    interval_ms: tuple[int, ...]
    timing: tuple[Timing, ...]
    time_error_ms: tuple[int, ...]
    statistic: tuple[Statistic, ...]
    offsets: Int64
    times: Int64
    values: Float64

    def __attrs_post_init__(self) -> None:
        count = len(self.keys)
        fits = len(self.unit) == len(self.interval_ms) == len(self.timing) == len(self.time_error_ms) == count
        if not fits or len(self.statistic) != count or len(self.offsets) != count + 1:
            raise ValueError(f"the columns of {count} series must have {count} entries, and offsets one more")
        if len(self.times) != len(self.values) or self.offsets[-1] != len(self.times) or self.offsets[0] != 0:
            raise ValueError("offsets must run from 0 to the number of times, which is that of the values")
        if self.times.dtype != _INT64 or self.values.dtype != _FLOAT64 or self.offsets.dtype != _INT64:
            raise ValueError("times and offsets must be int64, values float64")

    @classmethod
    def empty(cls) -> Self:
        """Give the batch of no series."""
        none: Float64 = np.empty(0)
        return cls(
            keys=(), unit=(), interval_ms=(), timing=(), time_error_ms=(), statistic=(),
            offsets=np.zeros(1, np.int64), times=none.astype(np.int64), values=none,
        )  # fmt: skip

    @classmethod
    def from_arrow(cls, table: object, /) -> SeriesBatch:
        """Read series from a table, as ``to_arrow``, ``to_pandas`` and ``to_polars`` give it.

        Columns may be in any order, of other types that say exactly the same, and in chunks; columns that it does not
        know are left alone. A table without ``series`` is read by what its rows say of themselves: equal ones are one
        series. ``job``, ``metric``, ``unit``, ``time`` and ``value`` must be there; the others stand for nothing
        special where they are not: an instant, reported, of a job as a whole. Where one source is named in all rows,
        it is the batch's. The samples are shared with the table where nothing forces a copy, and then read-only.

        Args:
            table: Anything with ``__arrow_c_stream__``: of pyarrow, pandas, polars, another batch, a frame.

        Raises:
            ConfigurationError: The extra ``arrow`` is not installed.
            TypeError: It is no such table.
            ValueError: A column is missing, or holds what it can't; the message names it.
        """
        from metricsbridge.series._table_reading import read_table

        return read_table(table)

    def _table(self) -> Table:
        return lay_out(self, {})

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"SeriesBatch({len(self.keys)} series, {len(self.times)} samples, source={self.source!r})"

    def samples(self, index: int, /) -> tuple[Int64, Float64]:
        """Give the times and values of one series, as views."""
        index = range(len(self.keys))[index]
        part = slice(self.offsets[index], self.offsets[index + 1])
        return self.times[part], self.values[part]

    def source_of(self, index: int, /) -> str:
        """Give the source of one series."""
        return self.keys[index].source or self.source

    def __iter__(self) -> Iterator[tuple[SeriesKey, Int64, Float64]]:
        for index, key in enumerate(self.keys):
            yield key, *self.samples(index)

    def with_source(self, source: str, /) -> SeriesBatch:
        """Stamp the source, in constant time: the columns are shared."""
        return SeriesBatch(
            source=source,
            keys=self.keys,
            unit=self.unit,
            interval_ms=self.interval_ms,
            timing=self.timing,
            time_error_ms=self.time_error_ms,
            statistic=self.statistic,
            offsets=self.offsets,
            times=self.times,
            values=self.values,
        )

    def observed(self) -> NDArray[np.bool_]:
        """Give bool[S]: whether a series has a value at all."""
        return observed(self.offsets, self.values)

    def only_observed(self) -> SeriesBatch:
        """Give the series that have a value."""
        kept = self.observed()
        return self if kept.all() else self._take(_runs(np.flatnonzero(kept).tolist()))

    def select(self, indices: Sequence[int], /) -> SeriesBatch:
        """Give those series, in that order."""
        every = range(len(self.keys))
        return self._take(_runs([every[index] for index in indices]))

    def _take(self, runs: Sequence[tuple[int, int]]) -> SeriesBatch:
        """Give the series of each stretch ``[first, last)``, in that order: neighbours are copied at once."""
        lengths, bounds = self.offsets[1:] - self.offsets[:-1], self.offsets.tolist()
        parts = tuple([(bounds[first], bounds[last]) for first, last in runs])
        return SeriesBatch(
            source=self.source,
            keys=_pick(self.keys, runs),
            unit=_pick(self.unit, runs),
            interval_ms=_pick(self.interval_ms, runs),
            timing=_pick(self.timing, runs),
            time_error_ms=_pick(self.time_error_ms, runs),
            statistic=_pick(self.statistic, runs),
            offsets=_offsets(np.concatenate([lengths[:0], *[lengths[first:last] for first, last in runs]])),
            times=shared_parts(self.times, parts),
            values=np.concatenate([self.values[:0], *[self.values[start:end] for start, end in parts]]),
        )

    def clip(self, window: Window, /) -> SeriesBatch:
        """Keep the samples whose time is in the window; series that lose all of theirs stay, empty."""
        times = self.times
        first, last = bounds(times) if len(times) else (window.start_ms, window.start_ms)
        if window.start_ms <= first and last < window.end_ms:
            return self
        inside = (times >= window.start_ms) & (times < window.end_ms)
        kept = np.concatenate(([0], np.cumsum(inside)))
        return attrs.evolve(self, offsets=kept[self.offsets], times=times[inside], values=self.values[inside])


def _runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Give the stretches ``[first, last)`` of neighbours in a list of indices: what can be copied at once."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def _pick(column: tuple[T, ...], runs: Sequence[tuple[int, int]]) -> tuple[T, ...]:
    return tuple(chain.from_iterable([column[first:last] for first, last in runs]))


def _offsets(lengths: Sequence[int] | Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64, copy=False)


def concat(batches: Iterable[SeriesBatch], /) -> SeriesBatch:
    """Stack batches, in order, each series staying itself.

    Where the batches come from several sources, each key of the result names its own.
    """
    parts = [batch for batch in batches if batch.keys]
    if len(parts) < 2:
        return parts[0] if parts else SeriesBatch.empty()
    sources = {part.source for part in parts}
    if len(sources) > 1:
        parts = [_name_sources(part) for part in parts]
    begins = [*accumulate([len(part.times) for part in parts], initial=0)]
    counts = [len(part.keys) for part in parts]
    return SeriesBatch(
        source=parts[0].source,
        keys=_chain("keys", parts),
        unit=_chain("unit", parts),
        interval_ms=_chain("interval_ms", parts),
        timing=_chain("timing", parts),
        time_error_ms=_chain("time_error_ms", parts),
        statistic=_chain("statistic", parts),
        offsets=np.concatenate([[0], *[part.offsets[1:] for part in parts]])
        + np.repeat([0, *begins[:-1]], [1, *counts]),
        times=np.concatenate([part.times for part in parts]),
        values=np.concatenate([part.values for part in parts]),
    )


def _chain(column: str, parts: Sequence[SeriesBatch]) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(map(attrgetter(column), parts)))


def _name_sources(batch: SeriesBatch) -> SeriesBatch:
    return attrs.evolve(batch, source="", keys=named_keys(batch.source, batch.keys))


def named_keys(source: str, keys: Iterable[SeriesKey], /) -> tuple[SeriesKey, ...]:
    """Give keys that name their source: this one, where they don't yet."""
    return tuple([key if key.source else msgspec.structs.replace(key, source=source) for key in keys])


def merge(batches: Iterable[SeriesBatch], /) -> SeriesBatch:
    """Stack batches and join the series that have the same key, unit and statistic.

    A joined series is sorted by time, the last of equal times wins; it has the longest interval, the largest time
    error, and is inferred where any of its parts is. It stands where its first part stood.
    """
    whole = concat(batches)
    if len(set(whole.keys)) == len(whole):
        return whole
    groups: dict[tuple[SeriesKey, str, Statistic], list[int]] = {}
    for index, identity in enumerate(zip(whole.keys, whole.unit, whole.statistic, strict=True)):
        groups.setdefault(identity, []).append(index)
    if len(groups) == len(whole):
        return whole
    parts = [_join(whole, indices) if len(indices) > 1 else whole.samples(indices[0]) for indices in groups.values()]
    first = whole.select([indices[0] for indices in groups.values()])
    return attrs.evolve(
        first,
        interval_ms=tuple([max(whole.interval_ms[i] for i in indices) for indices in groups.values()]),
        time_error_ms=tuple([max(whole.time_error_ms[i] for i in indices) for indices in groups.values()]),
        timing=tuple([
            Timing.INFERRED if any(whole.timing[i] is Timing.INFERRED for i in indices) else Timing.REPORTED
            for indices in groups.values()
        ]),
        offsets=_offsets([len(times) for times, _ in parts]),
        times=np.concatenate([times for times, _ in parts]),
        values=np.concatenate([values for _, values in parts]),
    )  # fmt: skip


def _join(batch: SeriesBatch, indices: Sequence[int]) -> tuple[Int64, Float64]:
    parts = [batch.samples(index) for index in indices]
    return sort_samples(np.concatenate([times for times, _ in parts]), np.concatenate([values for _, values in parts]))


def sort_samples(times: Int64, values: Float64, /) -> tuple[Int64, Float64]:
    """Sort the samples of one series by time; of equal times the last one given wins."""
    if len(times) < 2 or bool((times[1:] > times[:-1]).all()):
        return times, values
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    last = np.append(times[1:] != times[:-1], True)
    return times[last], values[last]
