"""Series on one grid: what charts, comparisons and tables start from.

``align`` checks its arguments and lays the grid; ``_aggregate`` and ``_bridge`` do the work on plain arrays. What they
must give, bit for bit, is written out in ``metricsbridge.series._reference``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs
import numpy as np

from metricsbridge.durations import parse_duration
from metricsbridge.model import Window
from metricsbridge.series import _kernel
from metricsbridge.series.columns import Float64, Int64, SeriesBatch, SeriesKey, Statistic, Timing, sort_samples
from metricsbridge.series.tables import Table, Tabular, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

How = Literal["mean", "max", "min", "sum", "count", "first", "last"]
"""What a cell says of the samples in it."""

Fill = Literal["previous", "linear"]
"""How a gap is bridged: with the value before it, or with a straight line between its two ends."""

MAX_CELLS = 2**31
"""The largest frame that is laid out: 16 GiB of values. More than that is a mistake in the step or the window."""

_BLOCK = 2**17  # samples, or cells, worked on at once: temporary arrays of this length stay in the processor's cache
_FARTHEST_MS = 2**62  # two instants closer to the epoch than this differ by an int64


@attrs.frozen(kw_only=True, eq=False)
class Frame(Tabular):
    """Series on one grid of time: a row per series, a column per cell.

    As a table it has a row for each cell, NaN where there is no value, and ``interval_ms`` is at least the step.

    Attributes:
        source: Where all of it came from; "" where the keys say it.
        keys: S identities.
        unit: S units in UCUM notation; ``{sample}`` where ``how`` is ``count``.
        interval_ms: S lengths of the interval that a sample of the series summarised; 0 for an instant.
        timing: S of ``Timing``.
        time_error_ms: S bounds of how far a sample's time may have been off.
        statistic: S of ``Statistic``: what a sample of the series said of its interval.
        times: int64[T], ms since the epoch, UTC: the starts of the cells.
        values: float64[S, T], NaN where there is no value.
        step_ms: The length of a cell.
        how: What a cell says of the samples in it.
        window: Which samples were counted; None where there were none and no window was given.

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
    times: Int64
    values: Float64
    step_ms: int
    how: How
    window: Window | None

    def __attrs_post_init__(self) -> None:
        columns = (self.unit, self.interval_ms, self.timing, self.time_error_ms, self.statistic)
        if any(len(column) != len(self.keys) for column in columns):
            raise ValueError(f"the columns of {len(self.keys)} series must have {len(self.keys)} entries")
        if self.values.shape != (len(self.keys), len(self.times)):
            raise ValueError(
                f"values must have one row per series and one column per time, ({len(self.keys)}, {len(self.times)}), "
                f"not {self.values.shape}"
            )

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Frame({len(self.keys)} series, {len(self.times)} times, step_ms={self.step_ms}, how={self.how!r})"

    def source_of(self, index: int, /) -> str:
        """Give the source of one series."""
        return self.keys[index].source or self.source

    def to_batch(self) -> SeriesBatch:
        """Give the cells that have a value as samples, each summarising its cell or more."""
        present = ~np.isnan(self.values)
        offsets = np.zeros(len(self.keys) + 1, np.int64)
        np.cumsum(np.count_nonzero(present, axis=1), out=offsets[1:])
        return self._as_batch(offsets, self.times[np.nonzero(present)[1]], self.values[present])

    def _table(self) -> Table:
        cells = np.arange(len(self.keys) + 1) * len(self.times)
        batch = self._as_batch(cells, np.tile(self.times, len(self.keys)), self.values.reshape(-1))
        return lay_out(batch, {"metricsbridge.step_ms": str(self.step_ms), "metricsbridge.how": self.how})

    def _as_batch(self, offsets: Int64, times: Int64, values: Float64) -> SeriesBatch:
        return SeriesBatch(
            source=self.source,
            keys=self.keys,
            unit=self.unit,
            interval_ms=tuple([max(interval, self.step_ms) for interval in self.interval_ms]),
            timing=self.timing,
            time_error_ms=self.time_error_ms,
            statistic=self.statistic,
            offsets=offsets,
            times=times,
            values=values,
        )


def align(
    batch: SeriesBatch,
    /,
    *,
    step: str | int | timedelta,
    how: How = "mean",
    window: Window | None = None,
    fill: Fill | None = None,
    max_gap: str | int | timedelta | None = None,
) -> Frame:
    """Put series on one grid, whose cells start at whole multiples of the step since the epoch.

    Cell ``k`` holds the samples of the window in ``[times[k], times[k] + step)``. A NaN sample counts as absent, and of
    samples of a series at one time the last one given counts. Sums run in time order, in float64.

    Args:
        batch: Series whose samples may be in any order.
        step: The length of a cell: ``"90s"``, ``"5m"``, a ``timedelta``, or an ``int`` of milliseconds.
        how: What a cell says of its samples. An empty cell is NaN, but for ``count``, which is 0.
        window: Only samples in it count, and the grid covers it; None stands for all samples.
        fill: None leaves gaps; ``previous`` carries the last value forward; ``linear`` draws a line between the values
            around a gap, and leaves a gap at either end of the grid. ``count`` has no gaps to fill.
        max_gap: The longest gap that is bridged: ``previous`` carries a value no farther than this, ``linear`` leaves a
            longer gap as it is. By default the series' own interval, and at least the step.

    Raises:
        ValueError: An argument is not one of the above, or the grid would be absurdly large.

    Example:
        >>> import numpy as np
        >>> from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing
        >>> batch = SeriesBatch(
        ...     keys=(SeriesKey("job", "task", "", "hw.power"),), unit=("W",), interval_ms=(0,),
        ...     timing=(Timing.REPORTED,), time_error_ms=(0,), statistic=(Statistic.LAST,),
        ...     offsets=np.array([0, 3]), times=np.array([1_000, 59_000, 130_000]), values=np.array([1.0, 2.0, 5.0]),
        ... )
        >>> align(batch, step="1m").values
        array([[1.5, nan, 5. ]])
    """
    step_ms = _milliseconds("step", step)
    max_gap_ms = None if max_gap is None else _milliseconds("max_gap", max_gap)
    _check_choice("how", how, get_args(How))
    if fill is not None:
        _check_choice("fill", fill, get_args(Fill))
    if window is not None and not isinstance(window, Window):
        raise ValueError(f"window={window!r} is not absolute: write Window(start, end), or resolve it first")
    guessed = window is None and len(batch.times) > 0
    if guessed:
        window = _extent(batch.times if _kernel.COMPILED is None else _edges(batch))
    times = _grid(window, step_ms, len(batch))
    values = np.empty((len(batch), len(times)))
    if window is not None and len(batch):
        gaps_ms = [max(interval, step_ms) if max_gap_ms is None else max_gap_ms for interval in batch.interval_ms]
        reach = np.array([min(gap // step_ms, len(times)) for gap in gaps_ms], np.int64)
        grid = _Grid(window, int(times[0]), step_ms, how, fill)
        if _kernel.COMPILED is None:
            _in_python(batch, grid, reach, values)
        else:
            late = _write_rows(batch.offsets, batch.times, batch.values, grid, reach, values)
            if late and guessed and window != _extent(batch.times):  # others lie beyond what was guessed
                whole = _extent(batch.times)
                return align(batch, step=step_ms, how=how, window=whole, fill=fill, max_gap=max_gap_ms)
            _write_late(late, batch, grid, reach, values)
    return Frame(
        source=batch.source,
        keys=batch.keys,
        unit=("{sample}",) * len(batch) if how == "count" else batch.unit,
        interval_ms=batch.interval_ms,
        timing=batch.timing,
        time_error_ms=batch.time_error_ms,
        statistic=batch.statistic,
        times=times,
        values=values,
        step_ms=step_ms,
        how=how,
        window=window,
    )


def _milliseconds(name: str, value: str | int | timedelta) -> int:
    try:
        return parse_duration(value)
    except TypeError as error:
        raise ValueError(
            f"{name}={value!r} is not a duration: write for example '90s', '5m' or a whole number of milliseconds"
        ) from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not offered: write one of {', '.join(map(repr, choices))}")


def _extent(times: Int64) -> Window:
    """Give the window of those times."""
    return Window(int(times.min()), int(times.max()) + 1)


def _edges(batch: SeriesBatch) -> Int64:
    """Give the first and the last time of each series: where all are in order, no other one lies beyond them."""
    starts, ends = batch.offsets[:-1], batch.offsets[1:]
    some = ends > starts
    edges: Int64 = batch.times[np.concatenate([starts[some], ends[some] - 1])]
    return edges


def _grid(window: Window | None, step_ms: int, series: int) -> Int64:
    """Give int64[T]: the starts of the cells that cover the window."""
    if window is None:
        return np.empty(0, np.int64)
    start = window.start_ms // step_ms * step_ms
    cells = -((start - window.end_ms) // step_ms)
    if max(series, 1) * cells > MAX_CELLS:
        raise ValueError(
            f"{series} series of {cells} cells each are more than {MAX_CELLS} values: "
            f"take a coarser step than {step_ms} ms, or a narrower window than {window.duration_ms} ms"
        )
    if start < -_FARTHEST_MS or start + cells * step_ms > _FARTHEST_MS:
        raise ValueError(
            f"the grid from {start} ms to {start + cells * step_ms} ms reaches beyond what int64 can reckon with: "
            "take a window that is closer to the epoch, or a shorter step"
        )
    return start + step_ms * np.arange(cells, dtype=np.int64)


@attrs.frozen
class _Grid:
    """What is done: which samples count, where the first cell starts, how long each is, and what it says."""

    window: Window
    start_ms: int
    step_ms: int
    how: How
    fill: Fill | None


def _write_rows(
    offsets: Int64, times: Int64, values: Float64, grid: _Grid, reach: Int64, out: Float64
) -> Sequence[int]:
    """Write float64[S, T] in one pass; gives the rows whose samples are not in order, which are not written."""
    kernel: Any = _kernel.COMPILED
    columns = [np.ascontiguousarray(column) for column in (offsets, times, values)]
    window = (grid.window.start_ms, grid.window.end_ms)
    late: Sequence[int] = kernel.align(
        *columns, window, grid.start_ms, grid.step_ms, grid.how, grid.fill, reach, out
    )  # fmt: skip
    return late


def _write_late(late: Sequence[int], batch: SeriesBatch, grid: _Grid, reach: Int64, out: Float64) -> None:
    """Sort those rows, one after the other, and write them."""
    for row in late:
        some = sort_samples(*batch.samples(row))
        offsets = np.array([0, len(some[0])], np.int64)
        _write_rows(offsets, *some, grid, reach[row : row + 1], out[row : row + 1])


def _in_python(batch: SeriesBatch, grid: _Grid, reach: Int64, out: Float64) -> None:
    """Write float64[S, T], a block of series after the other."""
    for rows, samples in _blocks(batch.offsets, out.shape[1]):
        block = out[rows]
        offsets = batch.offsets[rows.start : rows.stop + 1] - samples.start
        _aggregate(offsets, batch.times[samples], batch.values[samples], grid, block)
        if grid.fill is not None and grid.how != "count":
            _bridge(block, reach[rows], grid.fill)


def _blocks(offsets: Int64, cells: int) -> Iterator[tuple[slice, slice]]:
    """Cut the series into runs of few samples and few cells: (series, samples) of each."""
    series, first = len(offsets) - 1, 0
    most_rows = max(_BLOCK // cells, 1)
    while first < series:
        fitting = int(np.searchsorted(offsets, offsets[first] + _BLOCK, side="right")) - 1
        last = min(max(fitting, first + 1), first + most_rows, series)
        yield slice(first, last), slice(int(offsets[first]), int(offsets[last]))
        first = last


def _aggregate(offsets: Int64, times: Int64, values: Float64, grid: _Grid, out: Float64) -> None:
    """Write what each cell says of its samples to ``out``, contiguous float64[rows, cells]."""
    rows, cells = out.shape
    row = np.repeat(np.arange(0, rows * cells, cells), np.diff(offsets))  # where the row of each sample starts in flat
    row, times, values = _in_order(row, times, values, cells)
    kept = ~np.isnan(values)
    first, end = grid.window.start_ms, grid.window.end_ms
    if len(times) and (times.min() < first or times.max() >= end):
        kept &= (times >= first) & (times < end)
    if not kept.all():
        row, times, values = row[kept], times[kept], values[kept]
    cell = times - grid.start_ms
    cell //= grid.step_ms
    cell += row
    flat = out.reshape(-1)
    if grid.how in ("mean", "sum", "count"):
        _accumulate(cell, values, grid.how, flat)
    else:
        _pick(cell, values, grid.how, flat)


def _in_order(row: Int64, times: Int64, values: Float64, cells: int) -> tuple[Int64, Int64, Float64]:
    """Sort the samples of each row that needs it by time; of equal times the last one given stays."""
    late = (times[1:] <= times[:-1]) & (row[1:] == row[:-1])
    if not late.any():
        return row, times, values
    order = np.arange(len(times))
    unsorted = np.unique(row[1:][late])
    firsts, lasts = np.searchsorted(row, unsorted, "left"), np.searchsorted(row, unsorted, "right")
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        order[first:last] = first + np.argsort(times[first:last], kind="stable")
    times = times[order]
    kept = np.append((times[1:] != times[:-1]) | (row[1:] != row[:-1]), True)
    return row[kept], times[kept], values[order[kept]]


def _accumulate(cell: Int64, values: Float64, how: How, flat: Float64) -> None:
    """Write counts, sums or means; ``bincount`` adds from left to right, which numpy's own sums do not."""
    count = np.bincount(cell, minlength=len(flat))
    if how == "count":
        flat[:] = count
        return
    total = np.bincount(cell, weights=values, minlength=len(flat))
    if how == "mean":
        with np.errstate(invalid="ignore"):  # an empty cell is 0 / 0, which is NaN
            np.divide(total, count, out=flat)
    else:
        flat[:] = total
        flat[count == 0] = np.nan


def _pick(cell: Int64, values: Float64, how: How, flat: Float64) -> None:
    """Write first, last, least or greatest values; the samples of a cell stand side by side."""
    flat[:] = np.nan
    if not len(cell):
        return
    border = cell[1:] != cell[:-1]
    starts = np.flatnonzero(np.concatenate(([True], border)))
    if how == "first":
        picked = values[starts]
    elif how == "last":
        picked = values[np.append(starts[1:], len(cell)) - 1]
    else:
        # Which zero numpy finds of -0.0 and 0.0 depends on the processor; adding 0.0 makes it the positive one.
        picked = (np.maximum if how == "max" else np.minimum).reduceat(values, starts) + 0.0
    flat[cell[starts]] = picked


def _bridge(block: Float64, reach: Int64, fill: Fill) -> None:
    """Fill the gaps of each row in place, those of at most ``reach[row]`` cells."""
    cells = block.shape[1]
    flat = block.reshape(-1)
    left = np.flatnonzero(~np.isnan(flat))
    row = left // cells
    end = (row + 1) * cells
    right = np.minimum(np.append(left[1:], len(flat)), end)  # the next value of the row, or its end
    length = right - left - 1
    if fill == "previous":
        length = np.minimum(length, reach[row])
    else:
        length[(right == end) | (length > reach[row])] = 0
    left, right, length = left[length > 0], right[length > 0], length[length > 0]
    origin = np.repeat(left, length)
    distance = np.arange(1, len(origin) + 1) - np.repeat(np.cumsum(length) - length, length)
    filled = flat[origin]
    if fill == "linear":
        with np.errstate(invalid="ignore", over="ignore"):  # infinite ends are values like others
            filled += np.repeat(flat[right] - flat[left], length) * (distance / np.repeat(length + 1, length))
    flat[origin + distance] = filled
