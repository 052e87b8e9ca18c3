"""Series from a table in the layout of ``metricsbridge.series.tables``, whichever library holds it."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import numpy as np

from metricsbridge.extras import naming_extra
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing
from metricsbridge.series.tables import COLUMNS, METADATA_SOURCE, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow
    from numpy.typing import NDArray

    from metricsbridge.series.columns import Float64, Int64

T = TypeVar("T")

DEFAULTS: Final[Mapping[str, str | int]] = {
    "source": "", "task": "", "device": "", "labels": "{}", "interval_ms": 0, "timing": "reported",
    "statistic": "last", "time_error_ms": 0,
}  # fmt: skip
"""What a column that a table lacks is taken to hold; ``series`` may be lacking too, the other columns may not."""

_NUMBERS: Final = ("interval_ms", "time_error_ms")


@attrs.frozen(kw_only=True, eq=False)
class _Column:
    """What tells series apart: N codes, and the texts that they are places of; None where they are numbers."""

    codes: NDArray[np.integer]
    distinct: Sequence[str] | None = None

    def at(self, rows: Int64, read: Callable[[str], T], /) -> list[T]:
        """Give what those rows hold, each different text read once."""
        assert self.distinct is not None
        codes = self.codes[rows].tolist()
        known = {code: read(self.distinct[code]) for code in dict.fromkeys(codes)}
        return [known[code] for code in codes]


def read_table(table: object, /) -> SeriesBatch:
    """Give the series of a table; see ``SeriesBatch.from_arrow``."""
    whole = _take(table)
    _check_names(whole)
    columns = {name: _texts(whole, name) for name in TEXTS}
    columns |= {name: _Column(codes=_whole_numbers(whole, name)) for name in _NUMBERS}
    number = _whole_numbers(whole, "series") if "series" in whole.column_names else None
    times, values, sample = _samples(whole)
    starts = _starts([column.codes for column in columns.values()] + ([] if number is None else [number]))
    series, first = _group(columns, number, starts)
    lengths = np.diff(starts, append=len(times))
    if (series[1:] < series[:-1]).any():
        order = np.argsort(np.repeat(series, lengths), kind="stable")
        times, values, sample = times[order], values[order], None if sample is None else sample[order]
        series, lengths = np.arange(len(first)), np.bincount(series, lengths, len(first)).astype(np.int64)
    if sample is not None:
        times, values = times[sample], values[sample]
        lengths = np.diff(np.append(0, np.cumsum(sample))[np.append(0, np.cumsum(lengths))])
    offsets = np.zeros(len(first) + 1, np.int64)
    np.add.at(offsets, series + 1, lengths)
    offsets = np.cumsum(offsets)
    if type(table).__module__.partition(".")[0] == "pandas":  # its frames may be written to later
        times, values = times.copy(), values.copy()
    source, keys = _keys(columns, first, (whole.schema.metadata or {}).get(METADATA_SOURCE.encode()))
    return SeriesBatch(
        source=source,
        keys=keys,
        unit=tuple(columns["unit"].at(first, str)),
        interval_ms=tuple(columns["interval_ms"].codes[first].tolist()),
        timing=tuple(columns["timing"].at(first, _word("timing", Timing))),
        time_error_ms=tuple(columns["time_error_ms"].codes[first].tolist()),
        statistic=tuple(columns["statistic"].at(first, _word("statistic", Statistic))),
        offsets=offsets,
        times=times,
        values=values,
    )


def _take(table: object) -> pyarrow.Table:
    with naming_extra():
        import pyarrow as pa
    if isinstance(table, pa.Table):  # its string views do not survive the stream in every release
        return table
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(
            f"a {type(table).__name__} is no table that has __arrow_c_stream__: give a table of pyarrow, pandas or "
            "polars, or of another library that speaks Arrow"
        )
    try:
        return pa.RecordBatchReader.from_stream(table).read_all()
    except pa.ArrowInvalid as error:
        raise ValueError(f"a {type(table).__name__} gives no table: {error}") from None


def _check_names(whole: pyarrow.Table) -> None:
    names = whole.column_names
    for name in COLUMNS:
        if name not in names and name not in DEFAULTS and name != "series":
            raise ValueError(f"the table has no column {name!r}; it has {', '.join(map(repr, names)) or 'none'}")
        if names.count(name) > 1:
            raise ValueError(f"the table has {names.count(name)} columns {name!r}: leave one of them")


def _wrong(name: str, held: object, wanted: str) -> ValueError:
    return ValueError(f"column {name!r} holds {held}: it must hold {wanted}")


def _texts(whole: pyarrow.Table, name: str) -> _Column:
    import pyarrow as pa

    if name not in whole.column_names:
        return _Column(codes=np.zeros(len(whole), np.int64), distinct=[str(DEFAULTS[name])])
    column = whole.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not _is_text(kind):
        raise _wrong(name, column.type, "text")
    places: dict[str | None, int] = {}
    parts = []
    for chunk in column.chunks:
        if not pa.types.is_dictionary(chunk.type):
            chunk = chunk.cast(pa.large_string()).dictionary_encode()
        if chunk.indices.null_count:
            raise _wrong(name, "null", "a text in every row")
        codes = _numpy(chunk.indices, chunk.indices.type.to_pandas_dtype())
        own = [places.setdefault(text, len(places)) for text in chunk.dictionary.to_pylist()]
        parts.append(codes if own == [*range(len(own))] else np.array(own, np.int64)[codes])
    codes = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])
    if None in places and (codes == places[None]).any():
        raise _wrong(name, "null", "a text in every row")
    return _Column(codes=codes, distinct=[text or "" for text in places])


def _is_text(kind: pyarrow.DataType) -> bool:
    import pyarrow.types as types

    # Where pandas has no rows, it says of a column of texts that it is of nothing.
    held = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(is_held(kind) for is_held in held)


def _whole_numbers(whole: pyarrow.Table, name: str) -> Int64:
    import pyarrow as pa

    if name not in whole.column_names:
        return np.full(len(whole), DEFAULTS[name], np.int64)
    column = whole.column(name)
    if not pa.types.is_integer(column.type):
        raise _wrong(name, column.type, "whole numbers")
    if column.null_count:
        raise _wrong(name, "null", "a whole number in every row")
    numbers: Int64 = _joined(_cast(column, name, pa.int64()), np.int64)
    return numbers


def _samples(whole: pyarrow.Table) -> tuple[Int64, Float64, NDArray[np.bool_] | None]:
    """Give times, values, and which rows are samples; None where all are."""
    import pyarrow as pa

    times, values = whole.column("time"), whole.column("value")
    if not pa.types.is_timestamp(times.type):
        raise _wrong("time", times.type, "instants, such as timestamp[ms, tz=UTC]")
    if times.type.tz is None:
        raise _wrong("time", f"{times.type}, which is of no time zone", "instants, such as timestamp[ms, tz=UTC]")
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise _wrong("value", values.type, "numbers")
    sample = _present(times)
    times = _cast(_cast(times, "time", pa.timestamp("ms", times.type.tz)), "time", pa.int64())
    numbers: Float64 = _joined(_cast(values, "value", pa.float64()), np.float64)
    present = _present(values)
    if present is not None:
        numbers = np.where(present, numbers, np.nan)
    if sample is not None:
        untimed = np.flatnonzero(~sample & ~np.isnan(numbers))
        if len(untimed):
            raise _wrong("time", f"null in row {untimed[0]}, which has a value", "an instant for each value")
    return _joined(times, np.int64), numbers, sample


def _present(column: pyarrow.ChunkedArray) -> NDArray[np.bool_] | None:
    """Give bool[N]: whether a row is not null; None where none is."""
    import pyarrow as pa

    return _joined(column.is_valid().cast(pa.uint8()), np.bool_) if column.null_count else None


def _cast(column: pyarrow.ChunkedArray, name: str, kind: pyarrow.DataType) -> pyarrow.ChunkedArray:
    """Give the column in a type that says exactly the same; it shares the numbers where it has that type already."""
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except ValueError as error:
        raise ValueError(f"column {name!r} holds what {kind} can't say exactly: {error}") from None


def _joined(column: pyarrow.ChunkedArray, kind: type[np.generic]) -> Any:
    parts = [_numpy(chunk, kind) for chunk in column.chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def _numpy(chunk: pyarrow.Array, kind: type[np.generic]) -> Any:
    """Share the numbers of an array, whatever they are where it is null; pyarrow's own way would import pandas."""
    buffer = chunk.buffers()[1]
    if buffer is None:
        return np.zeros(len(chunk), kind)
    numbers = np.frombuffer(buffer, kind)[chunk.offset : chunk.offset + len(chunk)]
    numbers.flags.writeable = False
    return numbers


def _starts(columns: Sequence[NDArray[np.integer]]) -> Int64:
    """Give where the runs of rows begin that agree in all of the columns."""
    border = np.zeros(len(columns[0]), np.bool_)
    border[:1] = True
    for codes in columns:
        border[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(border)


def _group(columns: Mapping[str, _Column], number: Int64 | None, starts: Int64) -> tuple[Int64, Int64]:
    """Give the series of each run of rows, and the first row of each series.

    Where the table numbers its series, they are in the order of their numbers; otherwise rows that say the same of
    themselves are one series, and the series are in the order in which they begin.
    """
    identities = [*zip(*[column.codes[starts].tolist() for column in columns.values()], strict=True)]
    names = identities if number is None else number[starts].tolist()
    first: dict[Any, int] = {}
    for run, name in enumerate(names):
        known = first.setdefault(name, run)
        if identities[run] != identities[known]:
            pairs = zip(columns, identities[run], identities[known], strict=True)
            raise ValueError(
                f"column 'series' holds {name} in rows {starts[known]} and {starts[run]}, which differ in "
                f"{next(column for column, here, there in pairs if here != there)!r}: number the series of tables that "
                "were put together anew, or drop the column"
            )
    order = [*first] if number is None else sorted(first)
    places = {name: place for place, name in enumerate(order)}
    series = np.array([places[name] for name in names], np.int64)
    return series, starts[np.array([first[name] for name in order], np.int64)]


def _keys(columns: Mapping[str, _Column], first: Int64, told: bytes | None) -> tuple[str, tuple[SeriesKey, ...]]:
    """Give the batch's own source, and the keys, which name theirs where it is another."""
    sources = columns["source"].at(first, str)
    if told is not None and (not sources or "" not in sources):
        source = told.decode()
    else:
        source = sources[0] if len(set(sources)) == 1 else ""
    named = [columns[name].at(first, str) for name in ("job", "task", "device", "metric")]
    own = ["" if each == source else each for each in sources]
    keys = map(SeriesKey, *named, columns["labels"].at(first, _labels), own)
    return source, tuple(keys)


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    """Read a JSON object of texts; a name that occurs twice stays so."""
    try:
        pairs = json.loads(text, object_pairs_hook=tuple) if text else ()
    except (ValueError, RecursionError):
        raise _wrong("labels", repr(text), "JSON objects of texts, such as {}") from None
    fits = isinstance(pairs, tuple) and all(isinstance(part, str) for part in chain.from_iterable(pairs))
    if not fits:
        raise _wrong("labels", repr(text), "JSON objects of texts, such as {}")
    return pairs


def _word(name: str, words: Callable[[str], T]) -> Callable[[str], T]:
    def read(text: str) -> T:
        try:
            return words(text)
        except ValueError:
            allowed = " or ".join(map(str, words))  # type: ignore[call-overload]  # an enum of texts
            raise _wrong(name, repr(text), allowed) from None

    return read
