"""Series from tables: nothing is lost on the way, and what a table can't mean is refused by the column's name."""

import io
import math
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.series_strategies import make_batch, same_batch
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing, concat
from metricsbridge.testing.strategies import values

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
counts = st.one_of(st.sampled_from([0, 1, 60_000]), st.integers(0, 2**63 - 1))
times = st.one_of(st.integers(-5, 5), st.integers(-(2**62), 2**62))


@st.composite
def any_batches(draw: st.DrawFn) -> SeriesBatch:
    """Batches of any texts and numbers, with series that are empty or equal to their neighbours."""
    series = draw(st.lists(st.lists(st.tuples(times, values), max_size=5), max_size=5))
    sources = st.sampled_from(["", "hw", "pai"])
    labels = st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
    known = draw(st.lists(st.builds(SeriesKey, texts, texts, texts, texts, labels, sources), min_size=1, max_size=3))
    return make_batch(
        series,
        source=draw(sources),
        keys=[draw(st.sampled_from(known)) for _ in series],
        unit=[draw(st.sampled_from(["1", "W", draw(texts)])) for _ in series],
        interval_ms=[draw(counts) for _ in series],
        timing=[draw(st.sampled_from(Timing)) for _ in series],
        time_error_ms=[draw(counts) for _ in series],
        statistic=[draw(st.sampled_from(Statistic)) for _ in series],
    )


def sourced(batch: SeriesBatch, source: str) -> SeriesBatch:
    """Give the same series as a batch of that source: only keys that are of another name theirs."""
    own = [batch.source_of(index) for index in range(len(batch))]
    keys = tuple([
        replace(key, source="" if each == source else each)
        for key, each in zip(batch.keys, own, strict=True)
    ])  # fmt: skip
    return SeriesBatch(
        source=source, keys=keys, unit=batch.unit, interval_ms=batch.interval_ms, timing=batch.timing,
        time_error_ms=batch.time_error_ms, statistic=batch.statistic, offsets=batch.offsets, times=batch.times,
        values=batch.values,
    )  # fmt: skip


def without_schema(batch: SeriesBatch) -> SeriesBatch:
    """Give a batch as it comes out of columns alone: where there is one source, it is the batch's."""
    sources = {batch.source_of(index) for index in range(len(batch))}
    return sourced(batch, sources.pop() if len(sources) == 1 else "")


def through_parquet(batch: SeriesBatch) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(batch.to_arrow(), file, row_group_size=2)
    return pq.read_table(file)


WITH_SCHEMA: dict[str, Callable[[SeriesBatch], Any]] = {
    "arrow": SeriesBatch.to_arrow,
    "itself": lambda batch: batch,
    "reader": lambda batch: batch.to_arrow().to_reader(max_chunksize=2),
    "parquet": through_parquet,
}
COLUMNS_ALONE: dict[str, Callable[[SeriesBatch], Any]] = {
    "polars": SeriesBatch.to_polars,
    "polars by the stream": pl.DataFrame,
    "polars' own texts": lambda batch: batch.to_polars().with_columns(pl.col(pl.Categorical).cast(pl.String)),
    "pandas": SeriesBatch.to_pandas,
    "pandas by the stream": lambda batch: batch.to_arrow().to_pandas(),
    "pandas' own texts": lambda batch: batch.to_pandas().astype({"job": "string", "labels": "object"}),
    "parquet by polars": lambda batch: pl.read_parquet(_parquet_bytes(batch)),
    "pandas to polars": lambda batch: pl.DataFrame(batch.to_pandas()),
}


def _parquet_bytes(batch: SeriesBatch) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(batch.to_arrow(), file)
    file.seek(0)
    return file


# Nothing is lost


@pytest.mark.parametrize("way", WITH_SCHEMA)
@settings(deadline=None)  # the libraries load parts of themselves when they are first needed
@given(batch=any_batches())
def test_a_batch_comes_back_as_it_was(way: str, batch: SeriesBatch) -> None:
    # That a key names what is its batch's source anyway is the one thing that is not told.
    assert same_batch(SeriesBatch.from_arrow(WITH_SCHEMA[way](batch)), sourced(batch, batch.source))


@pytest.mark.parametrize("way", COLUMNS_ALONE)
@settings(deadline=None)  # the libraries load parts of themselves when they are first needed
@given(batch=any_batches())
def test_a_batch_comes_back_from_its_columns_alone(way: str, batch: SeriesBatch) -> None:
    assert same_batch(SeriesBatch.from_arrow(COLUMNS_ALONE[way](batch)), without_schema(batch))


@pytest.mark.parametrize("way", WITH_SCHEMA | COLUMNS_ALONE)
def test_what_is_special_comes_back(way: str) -> None:
    twice = SeriesKey("j", "t", "0", "hw.power", (("if", "a"), ("if", "b")))
    batch = make_batch(
        [[(1, -0.0), (1, math.nan), (0, math.inf)], [], [], [(5, -math.inf), (-1, 5e-324)], [(9, math.nan)]],
        source="hw",
        keys=[SeriesKey("j", "", "", "hw.power"), twice, twice, twice, twice],
        timing=[Timing.INFERRED, *[Timing.REPORTED] * 4],
    )
    read = SeriesBatch.from_arrow((WITH_SCHEMA | COLUMNS_ALONE)[way](batch))
    assert same_batch(read, batch)
    assert math.copysign(1, read.values[0]) == -1


@settings(deadline=None)
@given(batch=any_batches(), seed=st.randoms(use_true_random=False))
def test_series_keep_their_order_whatever_the_order_of_the_rows(batch: SeriesBatch, seed: Any) -> None:
    table = batch.to_arrow()
    series = [*range(len(batch))]
    seed.shuffle(series)
    rows = [row for each in series for row, number in enumerate(table["series"].to_pylist()) if number == each]
    assert same_batch(SeriesBatch.from_arrow(table.take(pa.array(rows, pa.int64()))), sourced(batch, batch.source))


def test_rows_of_several_series_may_alternate() -> None:
    batch = make_batch([[(1, 1.0), (2, 2.0)], [(1, 3.0), (2, 4.0)]])
    for table in (batch.to_polars().sort("time"), batch.to_polars().sort("time").drop("series")):
        assert same_batch(SeriesBatch.from_arrow(table), batch)


def test_a_table_without_numbers_is_read_by_what_its_rows_say() -> None:
    key = SeriesKey("j", "", "", "hw.power")
    batch = make_batch([[(1, 1.0)], [(2, 2.0)], [(3, 3.0)]], keys=[key] * 3, unit=["W", "W", "kW"])
    read = SeriesBatch.from_arrow(batch.to_arrow().drop_columns("series"))
    assert (read.unit, read.offsets.tolist()) == (("W", "kW"), [0, 2, 3])
    assert len(SeriesBatch.from_arrow(batch.to_arrow())) == 3


def test_what_is_left_of_a_table_reads_as_what_is_left() -> None:
    batch = make_batch([[(1, 1.0)], [(2, 2.0)], [(3, 3.0), (4, 4.0)]])
    left = SeriesBatch.from_arrow(batch.to_pandas().query("value > 1.5 and value < 3.5"))
    assert [key.task for key in left.keys] == ["worker-1", "worker-2"]
    assert left.values.tolist() == [2.0, 3.0]


def test_tables_of_several_sources_read_as_one_batch() -> None:
    parts = [make_batch([[(1, 1.0)]], source=source) for source in ("hw", "pai")]
    stacked = pl.concat([part.to_polars().drop("series") for part in parts])
    assert same_batch(SeriesBatch.from_arrow(stacked), concat(parts))


def test_columns_that_are_not_there_stand_for_nothing_special() -> None:
    table = pa.table({
        "value": [1.5], "time": pa.array([7], pa.timestamp("ms", "UTC")), "unit": ["W"], "metric": ["hw.power"],
        "job": ["j"], "remark": ["mine"],
    })  # fmt: skip
    assert same_batch(
        SeriesBatch.from_arrow(table), make_batch([[(7, 1.5)]], keys=[SeriesKey("j", "", "", "hw.power")])
    )


def test_the_source_of_no_series_is_kept_by_arrow() -> None:
    batch = SeriesBatch.empty().with_source("hw")
    assert SeriesBatch.from_arrow(batch.to_arrow()).source == "hw"
    assert SeriesBatch.from_arrow(batch.to_pandas()).source == ""


def test_a_source_that_was_written_into_a_column_counts() -> None:
    table = make_batch([[(1, 1.0)]], source="hw").to_arrow()
    changed = table.set_column(1, "source", pa.array([""]))
    assert SeriesBatch.from_arrow(changed).source_of(0) == ""
    changed = table.set_column(1, "source", pa.array(["other"]))
    assert SeriesBatch.from_arrow(changed).source_of(0) == "other"


# Other types that say the same

BATCH = make_batch([[(1_000, 1.0), (2_000, 2.5)], [], [(3_000, math.nan)]], source="hw", interval_ms=[60, 0, 0])
TABLE = BATCH.to_arrow()


def with_type(name: str, kind: pa.DataType) -> pa.Table:
    place = TABLE.column_names.index(name)
    column = TABLE[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    return TABLE.set_column(place, name, column.cast(kind))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("job", pa.string()),
        ("labels", pa.large_string()),
        ("unit", pa.string_view()),
        ("task", pa.dictionary(pa.int8(), pa.large_string())),
        ("device", pa.dictionary(pa.uint32(), pa.string())),
        ("series", pa.int64()),
        ("series", pa.uint8()),
        ("interval_ms", pa.uint64()),
        ("time_error_ms", pa.int16()),
        ("time", pa.timestamp("s", "UTC")),
        ("time", pa.timestamp("us", "UTC")),
        ("time", pa.timestamp("ns", "UTC")),
        ("time", pa.timestamp("ms", "Asia/Shanghai")),
        ("value", pa.float32()),
        ("value", pa.float16()),
    ],
    ids=str,
)
def test_a_type_that_says_the_same_is_taken(name: str, kind: pa.DataType) -> None:
    table = with_type(name, kind)
    assert table[name].type == kind
    assert same_batch(SeriesBatch.from_arrow(table), BATCH)


def test_whole_numbers_are_values_too() -> None:
    table = make_batch([[(1, 1.0), (2, 3.0)]]).to_arrow()
    whole = table.set_column(13, "value", table["value"].cast(pa.int32()))
    assert SeriesBatch.from_arrow(whole).values.tolist() == [1.0, 3.0]


def test_chunks_and_slices_are_taken() -> None:
    chunked = pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 2), TABLE.slice(3)])
    assert chunked["value"].num_chunks == 3
    assert same_batch(SeriesBatch.from_arrow(chunked), BATCH)
    assert SeriesBatch.from_arrow(TABLE.slice(1, 1)).values.tolist() == [2.5]


def test_chunks_may_number_their_texts_each_in_its_own_way() -> None:
    parts = [make_batch([[(1, 1.0)]], keys=[SeriesKey(job, "", "", "hw.power")]).to_arrow() for job in ("b", "a", "b")]
    read = SeriesBatch.from_arrow(pa.concat_tables([part.drop_columns("series") for part in parts]))
    assert [key.job for key in read.keys] == ["b", "a"]
    assert read.offsets.tolist() == [0, 2, 3]


def test_columns_may_be_in_any_order() -> None:
    assert same_batch(SeriesBatch.from_arrow(TABLE.select(sorted(TABLE.column_names))), BATCH)


def test_one_batch_of_records_is_a_table_too() -> None:
    [records] = TABLE.to_batches()
    assert same_batch(SeriesBatch.from_arrow(records), BATCH)


# What is shared


def test_the_samples_are_shared_with_a_table_that_no_one_writes_to() -> None:
    batch = make_batch([[(1, 1.0)], [(2, 2.0)]])
    for table in (batch.to_arrow(), batch, batch.to_polars(), batch.to_arrow().slice(0)):
        read = SeriesBatch.from_arrow(table)
        assert read.times.ctypes.data == batch.times.ctypes.data
        assert read.values.ctypes.data == batch.values.ctypes.data
        assert not read.values.flags.writeable


def test_the_samples_are_not_shared_with_a_frame_that_may_be_written_to() -> None:
    frame = make_batch([[(1, 1.0)], [(2, 2.0)]]).to_pandas()
    read = SeriesBatch.from_arrow(frame)
    frame.loc[:, "value"] = 99.0
    assert read.values.tolist() == [1.0, 2.0]
    assert read.values.flags.writeable


# What is refused


def changed(name: str, column: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return TABLE.set_column(TABLE.column_names.index(name), name, pa.array(column, kind))


DEVICES = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1, 0]), pa.array(["a", None]))
INSTANTS = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.drop_columns("value"), "no column 'value'; it has 'series', 'source'"),
        (TABLE.drop_columns("job"), "no column 'job'"),
        (TABLE.drop_columns("metric"), "no column 'metric'"),
        (TABLE.drop_columns("unit"), "no column 'unit'"),
        (TABLE.drop_columns("time"), "no column 'time'"),
        (TABLE.append_column("task", TABLE["task"]), "2 columns 'task'"),
        (changed("job", [1, 2, 3, 4]), "'job' holds int64: it must hold text"),
        (changed("job", [b"a"] * 4), "'job' holds binary"),
        (changed("job", ["a", None, "b", "c"]), "'job' holds null"),
        (changed("job", [None] * 4), "'job' holds null"),
        (changed("device", ["a", None, "b", "c"], pa.dictionary(pa.int32(), pa.string())), "'device' holds null"),
        (TABLE.set_column(4, "device", DEVICES), "'device' holds null"),
        (changed("labels", ["[]"] * 4), "'labels' holds '[]'"),
        (changed("labels", ["{"] * 4), "'labels' holds '{'"),
        (changed("labels", ['{"a": 1}'] * 4), "'labels' holds"),
        (changed("labels", ['{"a": {"b": "c"}}'] * 4), "'labels' holds"),
        (changed("labels", ["[" * 100_000] * 4), "'labels' holds"),
        (changed("timing", ["guessed"] * 4), "'timing' holds 'guessed': it must hold reported or inferred"),
        (changed("statistic", [""] * 4), "'statistic' holds '': it must hold mean or max or last"),
        (changed("interval_ms", [1.0] * 4), "'interval_ms' holds double: it must hold whole numbers"),
        (changed("interval_ms", [1, None, 1, 1]), "'interval_ms' holds null"),
        (changed("time_error_ms", [2**63] * 4, pa.uint64()), "'time_error_ms' holds what int64 can't say exactly"),
        (changed("series", ["0"] * 4), "'series' holds string"),
        (changed("series", [0, 0, 0, 2]), "'series' holds 0 in rows 0 and 2, which differ in 'task'"),
        (changed("time", [1, 2, 3, 4]), "'time' holds int64: it must hold instants"),
        (changed("time", [1, 2, 3, 4], pa.timestamp("ms")), "'time' holds timestamp[ms], which is of no time zone"),
        (changed("time", [1, 1000, None, 2000], INSTANTS), "'time' holds what timestamp[ms, tz=UTC] can't say exactly"),
        (changed("time", [0, None, None, 1000], INSTANTS), "'time' holds null in row 1, which has a value"),
        (changed("value", ["1"] * 4), "'value' holds string: it must hold numbers"),
        (changed("value", [2**53 + 1, 1, None, 1], pa.int64()), "'value' holds what double can't say exactly"),
        (changed("value", [True] * 4), "'value' holds bool"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_table_can_t_mean_is_refused_by_name(table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        SeriesBatch.from_arrow(table)


@pytest.mark.parametrize("given", [None, [1, 2], {"job": ["a"]}, "x.parquet"])
def test_what_is_no_table_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match=f"a {type(given).__name__} is no table that has __arrow_c_stream__"):
        SeriesBatch.from_arrow(given)


def test_a_column_alone_is_refused() -> None:
    for column in (pl.Series("value", [1.0]), pa.chunked_array([[1.0]])):
        with pytest.raises(ValueError, match=r"gives no table"):
            SeriesBatch.from_arrow(column)
