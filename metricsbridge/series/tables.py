"""Series as tables of other libraries: one layout for all of them, in long form, a row for each sample.

What varies is only how a library holds a column of texts, of instants or of numbers. Each library stands behind an
extra and is imported inside the functions that need it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from metricsbridge.extras import naming_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas
    import polars
    import pyarrow
    from numpy.typing import NDArray

    from metricsbridge.series.columns import Float64, Int64, SeriesBatch

TEXTS: Final[Mapping[str, Callable[[SeriesBatch], Iterable[str]]]] = {
    "source": lambda batch: [key.source or batch.source for key in batch.keys],
    "job": lambda batch: [key.job for key in batch.keys],
    "task": lambda batch: [key.task for key in batch.keys],
    "device": lambda batch: [key.device for key in batch.keys],
    "metric": lambda batch: [key.metric for key in batch.keys],
    "labels": lambda batch: [labels_text(key.labels) for key in batch.keys],
    "unit": lambda batch: batch.unit,
    "timing": lambda batch: batch.timing,
    "statistic": lambda batch: batch.statistic,
}
"""The columns of texts, each with what it holds of each series."""

COLUMNS: Final = (
    "series", "source", "job", "task", "device", "metric", "labels", "unit", "interval_ms", "timing", "statistic",
    "time_error_ms", "time", "value",
)  # fmt: skip
"""The columns of every table, in their order."""

METADATA_SOURCE: Final = "metricsbridge.source"
"""In an Arrow schema: the batch's own source, so that keys that name theirs get it back as it was."""

NO_TIME: Final = np.iinfo(np.int64).min
"""What stands for no instant where NumPy holds instants."""


def labels_text(labels: Iterable[tuple[str, str]], /) -> str:
    """Give labels as a JSON object, ``{}`` where there are none; a name that occurs twice stays so."""
    return f"{{{', '.join([f'{_quoted(name)}: {_quoted(value)}' for name, value in labels])}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@attrs.frozen(kw_only=True, eq=False)
class Texts:
    """A column of texts of which few differ.

    Attributes:
        codes: int32[N], each the place of a text in ``distinct``.
        distinct: The texts, in the order in which they occur.
    """

    codes: NDArray[np.int32]
    distinct: Sequence[str]


@attrs.frozen(kw_only=True, eq=False)
class Table:
    """The layout, before a library has it: N rows, one for each sample and one for each series that has none.

    Attributes:
        texts: The columns of texts.
        numbers: The columns of whole numbers: ``series``, ``interval_ms``, ``time_error_ms``.
        times: int64[N], ms since the epoch, UTC; ``NO_TIME`` in a row that is no sample.
        values: float64[N]; NaN in a row that is no sample.
        sample: bool[N], whether a row is a sample; None where all are: then times and values are those of the batch.
        metadata: For the schema, where a library has such a thing.
    """

    texts: Mapping[str, Texts]
    numbers: Mapping[str, NDArray[np.int32] | Int64]
    times: Int64
    values: Float64
    sample: NDArray[np.bool_] | None
    metadata: Mapping[str, str]


def lay_out(batch: SeriesBatch, metadata: Mapping[str, str], /) -> Table:
    """Lay a batch out as a table.

    Raises:
        ValueError: A text that is no Unicode, such as half of a surrogate pair.
    """
    lengths = np.diff(batch.offsets)
    rows = np.maximum(lengths, 1)
    times, values, sample = batch.times, batch.values, None
    if not lengths.all():
        sample = np.repeat(lengths > 0, rows)
        times, values = np.full(len(sample), NO_TIME), np.full(len(sample), np.nan)
        times[sample], values[sample] = batch.times, batch.values
    return Table(
        texts={name: _encode(name, column(batch), rows) for name, column in TEXTS.items()},
        numbers={
            "series": np.repeat(np.arange(len(batch), dtype=np.int32), rows),
            "interval_ms": np.repeat(np.array(batch.interval_ms, np.int64), rows),
            "time_error_ms": np.repeat(np.array(batch.time_error_ms, np.int64), rows),
        },
        times=np.ascontiguousarray(times),
        values=np.ascontiguousarray(values),
        sample=sample,
        metadata={METADATA_SOURCE: batch.source, **metadata},
    )


def _encode(name: str, texts: Iterable[str], rows: Int64) -> Texts:
    places: dict[str, int] = {}
    codes = np.array([places.setdefault(text, len(places)) for text in texts], np.int32)
    distinct = [str(text) for text in places]
    for text in distinct:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} {text!r} is no Unicode text that a table can hold: {error.reason}") from None
    return Texts(codes=np.repeat(codes, rows), distinct=distinct)


def _to_arrow(table: Table) -> pyarrow.Table:
    """Put the arrays into a table as they are, which neither copies them nor makes pyarrow import pandas."""
    with naming_extra():
        import pyarrow as pa

    def shared(kind: pa.DataType, numbers: NDArray[np.generic], validity: pa.Buffer | None = None) -> pa.Array:
        return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(numbers)])

    def texts(column: Texts) -> pa.Array:
        encoded = [text.encode() for text in column.distinct]
        ends = pa.py_buffer(np.cumsum([0, *map(len, encoded)], dtype=np.int32))
        distinct = pa.Array.from_buffers(pa.string(), len(encoded), [None, ends, pa.py_buffer(b"".join(encoded))])
        return pa.DictionaryArray.from_arrays(shared(pa.int32(), column.codes), distinct)

    columns = {name: shared(pa.from_numpy_dtype(column.dtype), column) for name, column in table.numbers.items()}
    columns |= {name: texts(column) for name, column in table.texts.items()}
    validity = None if table.sample is None else pa.py_buffer(np.packbits(table.sample, bitorder="little"))
    columns["time"] = shared(pa.timestamp("ms", "UTC"), table.times, validity)
    columns["value"] = shared(pa.float64(), table.values, validity)
    schema = pa.schema([(name, columns[name].type) for name in COLUMNS], metadata=dict(table.metadata))
    return pa.Table.from_arrays([columns[name] for name in COLUMNS], schema=schema)


def _to_pandas(table: Table) -> pandas.DataFrame:
    with naming_extra():
        import pandas as pd

    columns: dict[str, object] = {**table.numbers}
    columns |= {name: pd.Categorical.from_codes(text.codes, text.distinct) for name, text in table.texts.items()}
    columns["time"] = pd.Series(table.times.view("datetime64[ms]")).dt.tz_localize("UTC")
    columns["value"] = table.values
    return pd.DataFrame({name: columns[name] for name in COLUMNS})  # copies, as what it gives may be written to


def _to_polars(table: Table) -> polars.DataFrame:
    with naming_extra():
        import polars as pl

    columns = [pl.Series(name, numbers) for name, numbers in table.numbers.items()]
    columns += [
        pl.Series(name, text.distinct, dtype=pl.Categorical).gather(text.codes) for name, text in table.texts.items()
    ]
    columns.append(pl.Series("time", table.times).cast(pl.Datetime("ms", "UTC")))
    columns.append(pl.Series("value", table.values))
    frame = pl.DataFrame(columns)
    if table.sample is not None:
        sample = pl.Series(table.sample)
        frame = frame.with_columns(pl.when(sample).then(pl.col("time", "value")))
    return frame.select(COLUMNS)


class Tabular:
    """What goes out as a table: a row for each sample, in the order of the series.

    The columns are those that the README tells of: ``series`` counts the series from 0; ``labels`` is a JSON object;
    ``time`` is in UTC; ``value`` is NaN where the vendor says that there is no value. A series without samples is one
    row with neither time nor value. Texts are dictionaries in Arrow, categories in pandas and polars. The times and
    values in Arrow and polars are the arrays themselves, not copies.
    """

    __slots__ = ()

    def _table(self) -> Table:
        raise NotImplementedError

    def to_arrow(self) -> pyarrow.Table:
        """Give a ``pyarrow.Table``; a frame's schema says its step and what a cell says in its metadata.

        Raises:
            ConfigurationError: The extra ``arrow`` is not installed.
        """
        return _to_arrow(self._table())

    def to_pandas(self) -> pandas.DataFrame:
        """Give a ``pandas.DataFrame``, which shares nothing with this.

        Raises:
            ConfigurationError: The extra ``pandas`` is not installed.
        """
        return _to_pandas(self._table())

    def to_polars(self) -> polars.DataFrame:
        """Give a ``polars.DataFrame``.

        Raises:
            ConfigurationError: The extra ``polars`` is not installed.
        """
        return _to_polars(self._table())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the table as an Arrow C stream, so that any library that knows of it can take this as it is.

        Raises:
            ConfigurationError: The extra ``arrow`` is not installed.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)
