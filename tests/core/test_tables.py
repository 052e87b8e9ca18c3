"""Series and frames as tables: what each library is given."""

import math
import re
import sys

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from core.series_strategies import equal, make_batch
from fresh_interpreter import PROJECT, run_fresh
from metricsbridge.errors import ConfigurationError
from metricsbridge.extras import naming_extra
from metricsbridge.series.align import Frame, align
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing, concat
from metricsbridge.series.tables import COLUMNS, TEXTS

START_MS = 1_736_929_800_123  # 2025-01-15T08:30:00.123Z

# A promise: who reads a table, or a Parquet file, by these names and types goes on doing so.
SCHEMA = """\
series: int32
source: dictionary<values=string, indices=int32, ordered=0>
job: dictionary<values=string, indices=int32, ordered=0>
task: dictionary<values=string, indices=int32, ordered=0>
device: dictionary<values=string, indices=int32, ordered=0>
metric: dictionary<values=string, indices=int32, ordered=0>
labels: dictionary<values=string, indices=int32, ordered=0>
unit: dictionary<values=string, indices=int32, ordered=0>
interval_ms: int64
timing: dictionary<values=string, indices=int32, ordered=0>
statistic: dictionary<values=string, indices=int32, ordered=0>
time_error_ms: int64
time: timestamp[ms, tz=UTC]
value: double"""
POLARS_SCHEMA = {
    "series": pl.Int32, "source": pl.Categorical, "job": pl.Categorical, "task": pl.Categorical,
    "device": pl.Categorical, "metric": pl.Categorical, "labels": pl.Categorical, "unit": pl.Categorical,
    "interval_ms": pl.Int64, "timing": pl.Categorical, "statistic": pl.Categorical, "time_error_ms": pl.Int64,
    "time": pl.Datetime("ms", "UTC"), "value": pl.Float64,
}  # fmt: skip
PANDAS_DTYPES = {
    name: {pl.Int32: "int32", pl.Int64: "int64", pl.Float64: "float64", pl.Categorical: "category"}.get(
        kind, "datetime64[ms, UTC]"
    )
    for name, kind in POLARS_SCHEMA.items()
}


ONE_BATCH = (
    "import numpy as np, metricsbridge as mb; key = mb.SeriesKey('job', '', '', 'hw.power'); "
    "batch = mb.SeriesBatch(keys=(key, key), unit=('W', 'W'), interval_ms=(0, 0), timing=(mb.Timing.REPORTED,) * 2, "
    "time_error_ms=(0, 0), statistic=(mb.Statistic.LAST,) * 2, offsets=np.array([0, 1, 1]), times=np.array([1]), "
    "values=np.array([1.5]))"
)


def two_series(*, source: str = "hw") -> SeriesBatch:
    """Give one inferred series of a device with labels, and one plain one."""
    return make_batch(
        [[(START_MS, 0.5), (START_MS + 60_000, math.nan)], [(START_MS, -0.0)]],
        source=source,
        keys=[
            SeriesKey("a", "worker-0", "3", "hw.gpu.utilization", (("mig", "1g"), ("if", 'eth"0'))),
            SeriesKey("b", "", "", "vendor.x.loss"),
        ],
        unit=["1", "{loss}"],
        interval_ms=[60_000, 0],
        timing=[Timing.INFERRED, Timing.REPORTED],
        time_error_ms=[500, 0],
        statistic=[Statistic.MEAN, Statistic.LAST],
    )


ROWS = [
    (0, "hw", "a", "worker-0", "3", "hw.gpu.utilization", '{"if": "eth\\"0", "mig": "1g"}', "1", 60_000, "inferred",
     "mean", 500, START_MS, 0.5),
    (0, "hw", "a", "worker-0", "3", "hw.gpu.utilization", '{"if": "eth\\"0", "mig": "1g"}', "1", 60_000, "inferred",
     "mean", 500, START_MS + 60_000, math.nan),
    (1, "hw", "b", "", "", "vendor.x.loss", "{}", "{loss}", 0, "reported", "last", 0, START_MS, -0.0),
]  # fmt: skip


def rows_of(table: pa.Table) -> list[str]:
    """Give the rows as texts, in which NaN is NaN and -0.0 is not 0.0."""
    plain = table.set_column(table.column_names.index("time"), "time", table["time"].cast(pa.int64()))
    return [repr(tuple(row.values())) for row in plain.to_pylist()]


def address(array: pa.ChunkedArray) -> int:
    [chunk] = array.chunks
    return chunk.buffers()[1].address + 8 * chunk.offset


# The layout


def test_the_schema_of_an_arrow_table_is_a_promise() -> None:
    for batch in (two_series(), make_batch([[], [(1, 1.0)]]), SeriesBatch.empty()):
        assert str(batch.to_arrow().schema.remove_metadata()) == SCHEMA


def test_the_types_of_polars_and_pandas_are_a_promise() -> None:
    for batch in (two_series(), make_batch([[], [(1, 1.0)]]), SeriesBatch.empty()):
        assert dict(batch.to_polars().schema) == POLARS_SCHEMA
        assert {name: str(kind) for name, kind in batch.to_pandas().dtypes.items()} == PANDAS_DTYPES


def test_the_columns_are_named_once_and_in_order() -> None:
    assert [line.partition(":")[0] for line in SCHEMA.splitlines()] == list(COLUMNS) == list(POLARS_SCHEMA)
    assert {line.partition(":")[0] for line in SCHEMA.splitlines() if "dictionary" in line} == set(TEXTS)


def test_the_readme_tells_of_the_columns_and_their_types() -> None:
    section = (PROJECT / "README.md").read_text("utf-8").partition("\n## Tables\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", section, re.M)
    told = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    plain = re.sub(r"dictionary<values=string, indices=int32, ordered=0>", "text", SCHEMA)
    assert list(told.items()) == [tuple(line.split(": ", 1)) for line in plain.splitlines()]
    assert "`dictionary<values=string, indices=int32>`" in section


@pytest.mark.parametrize("way", ["to_arrow", "to_pandas", "to_polars"])
def test_a_row_is_a_sample_with_all_that_is_known_of_it(way: str) -> None:
    table = getattr(two_series(), way)()
    arrow = pa.RecordBatchReader.from_stream(table).read_all()
    if way == "to_pandas":  # says null for NaN to others
        arrow = arrow.set_column(13, "value", arrow["value"].fill_null(math.nan))
    assert rows_of(arrow) == [repr(row) for row in ROWS]


def test_the_names_are_those_of_the_csv_file() -> None:
    from metricsbridge.export import COLUMNS as CSV_COLUMNS

    assert set(CSV_COLUMNS) <= set(COLUMNS)


@pytest.mark.parametrize("way", ["to_arrow", "to_pandas", "to_polars"])
def test_a_series_without_samples_is_a_row_with_neither_time_nor_value(way: str) -> None:
    table = getattr(make_batch([[], [(7, 1.0)], []]), way)()
    arrow = pa.RecordBatchReader.from_stream(table).read_all()
    assert arrow["series"].to_pylist() == [0, 1, 2]
    assert arrow["time"].cast(pa.int64()).to_pylist() == [None, 7, None]
    assert arrow["value"].to_pylist() == [None, 1.0, None]


def test_the_source_is_the_keys_own_where_there_are_several() -> None:
    table = concat([two_series(), two_series(source="pai")]).to_arrow()
    assert table["source"].to_pylist() == ["hw"] * 3 + ["pai"] * 3


def test_a_label_that_occurs_twice_stays_so() -> None:
    key = SeriesKey("a", "", "", "hw.power", (("if", "b"), ("if", "a")))
    assert make_batch([[(1, 1.0)]], keys=[key]).to_arrow()["labels"].to_pylist() == ['{"if": "a", "if": "b"}']


@pytest.mark.parametrize("way", ["to_arrow", "to_pandas", "to_polars"])
def test_a_text_that_is_no_unicode_is_refused_by_name(way: str) -> None:
    batch = make_batch([[(1, 1.0)]], keys=[SeriesKey("a", "worker-\ud800", "", "hw.power")])
    with pytest.raises(ValueError, match=r"task 'worker-\\ud800' is no Unicode text"):
        getattr(batch, way)()


# What is shared


def test_arrow_has_the_arrays_themselves() -> None:
    batch = two_series()
    for table in (batch.to_arrow(), pa.table(batch), pa.RecordBatchReader.from_stream(batch).read_all()):
        assert address(table["time"]) == batch.times.ctypes.data
        assert address(table["value"]) == batch.values.ctypes.data


def test_polars_has_the_arrays_themselves() -> None:
    batch = two_series()
    for frame in (batch.to_polars(), pl.DataFrame(batch)):
        assert frame["time"].to_physical().to_numpy(allow_copy=False).ctypes.data == batch.times.ctypes.data
        assert frame["value"].to_numpy(allow_copy=False).ctypes.data == batch.values.ctypes.data


def test_writing_to_a_table_that_can_be_written_to_leaves_the_batch_as_it_is() -> None:
    batch = two_series()
    frame = batch.to_pandas()
    frame.loc[0, "value"] = 99.0
    frame.loc[0, "time"] = pd.Timestamp(0, tz="UTC")
    polars = batch.to_polars()
    polars[0, "value"] = 99.0
    assert (polars["value"][0], frame["value"][0]) == (99.0, 99.0)
    assert (batch.values[0], batch.times[0]) == (0.5, START_MS)


def test_arrays_that_are_not_contiguous_are_laid_out_all_the_same() -> None:
    batch = attrs.evolve(
        make_batch([[(0, 0.0)] * 3]), times=np.arange(6)[::2], values=np.arange(6.0)[::-2]
    )  # fmt: skip
    assert batch.to_arrow()["value"].to_pylist() == batch.to_polars()["value"].to_list() == [5.0, 3.0, 1.0]
    assert batch.to_arrow()["time"].cast(pa.int64()).to_pylist() == [0, 2, 4]


def test_another_schema_may_be_asked_for() -> None:
    wanted = two_series().to_arrow().schema.remove_metadata()
    wanted = wanted.set(1, pa.field("source", pa.string()))
    table = pa.table(two_series(), schema=wanted)
    assert table["source"].type == pa.string()
    assert table["source"].to_pylist() == ["hw"] * 3


# Frames


def test_a_frame_is_a_row_for_each_cell() -> None:
    frame = align(two_series(), step="30s")
    table = frame.to_arrow()
    assert str(table.schema.remove_metadata()) == SCHEMA
    assert table["series"].to_pylist() == [0] * len(frame.times) + [1] * len(frame.times)
    assert table["time"].cast(pa.int64()).to_pylist() == frame.times.tolist() * 2
    assert equal(table["value"].to_numpy(), frame.values.reshape(-1))
    assert table["value"].null_count == 0
    assert set(table["interval_ms"].to_pylist()) == {60_000, 30_000}
    assert address(table["value"]) == frame.values.ctypes.data


def test_a_frame_is_the_same_for_every_library() -> None:
    frame = align(two_series(), step="30s")
    assert rows_of(pa.table(frame.to_polars())) == rows_of(frame.to_arrow())
    assert equal(frame.to_pandas()["value"].to_numpy(), frame.values.reshape(-1))
    assert rows_of(pa.table(pl.DataFrame(frame))) == rows_of(frame.to_arrow())


def test_an_arrow_table_says_of_a_frame_what_its_cells_are() -> None:
    metadata = align(two_series(), step="30s", how="max").to_arrow().schema.metadata
    assert metadata == {
        b"metricsbridge.source": b"hw", b"metricsbridge.step_ms": b"30000", b"metricsbridge.how": b"max",
    }  # fmt: skip
    assert two_series().to_arrow().schema.metadata == {b"metricsbridge.source": b"hw"}


def test_a_frame_reads_back_as_the_samples_that_it_stands_for() -> None:
    frame = align(two_series(), step="30s")
    read = SeriesBatch.from_arrow(frame)
    present, samples = ~np.isnan(read.values), frame.to_batch()
    assert read.values[present].tolist() == samples.values.tolist()
    assert read.times[present].tolist() == samples.times.tolist()
    assert (read.keys, read.interval_ms, read.source) == (samples.keys, samples.interval_ms, samples.source)


def test_a_frame_of_no_cells_keeps_its_series() -> None:
    frame = align(make_batch([[], []]), step="30s")
    assert isinstance(frame, Frame)
    assert frame.values.shape == (2, 0)
    assert SeriesBatch.from_arrow(frame).keys == frame.keys
    assert frame.to_pandas()["time"].isna().tolist() == [True, True]


# What is not installed


@pytest.mark.parametrize(
    ("way", "library", "extra"),
    [
        ("to_arrow", "pyarrow", "arrow"),
        ("__arrow_c_stream__", "pyarrow", "arrow"),
        ("to_pandas", "pandas", "pandas"),
        ("to_polars", "polars", "polars"),
    ],
)
def test_without_its_library_a_table_says_what_to_install(monkeypatch, way: str, library: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigurationError, match=rf"needs {library}.*'metricsbridge\[{extra}\]'"):
        getattr(two_series(), way)()
    with pytest.raises(ConfigurationError, match=rf"needs {library}.*'metricsbridge\[{extra}\]'"):
        getattr(align(two_series(), step="1m"), way)()


def test_without_its_library_reading_says_what_to_install(monkeypatch) -> None:
    table = two_series().to_polars()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match=r"'metricsbridge\[arrow\]'"):
        SeriesBatch.from_arrow(table)


def test_an_import_that_fails_inside_a_library_is_not_taken_for_a_missing_one() -> None:
    with pytest.raises(ModuleNotFoundError, match="of_theirs"), naming_extra():
        import of_theirs  # noqa: F401


@pytest.mark.parametrize(
    ("way", "missing"),
    [("to_pandas", ["pyarrow", "polars"]), ("to_polars", ["pyarrow", "pandas"]), ("to_arrow", ["polars"])],
)
def test_a_table_needs_no_other_library_than_its_own(way: str, missing: list[str]) -> None:
    code = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); {ONE_BATCH}; print(len(batch.{way}()))"
    assert run_fresh(code) == "2\n"


def test_arrow_tables_and_parquet_files_do_not_bring_pandas_along(tmp_path) -> None:
    code = f"{ONE_BATCH}; from metricsbridge.export import write; write(batch, 'x.parquet')"
    code += "; print(len(mb.SeriesBatch.from_arrow(batch))); import sys; print(*sys.modules)"
    series, *modules = run_fresh(code, cwd=tmp_path).split()
    assert series == "2"
    assert "pyarrow" in modules
    assert "pandas" not in modules


def test_files_and_commands_bring_no_table_library_along() -> None:
    code = "import metricsbridge.export, metricsbridge.cli.app, metricsbridge.series._table_reading, sys"
    code += "; print(*sys.modules)"
    assert {"pandas", "polars", "pyarrow"} & set(run_fresh(code).split()) == set()
