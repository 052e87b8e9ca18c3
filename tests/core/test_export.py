import csv
import io
import json
import math
import random
import sys

import attrs
import numpy as np
import polars as pl
import pyarrow.parquet
import pytest
from msgspec.structs import replace

from core.series_strategies import same_batch
from metricsbridge.collection import Collection
from metricsbridge.errors import ConfigurationError, ThrottledError
from metricsbridge.export import COLUMNS, check_path, csv_rows, encode_json, json_document, write
from metricsbridge.model import Absence, Accelerators, Failure, Job, JobStatus, Task, Window
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing

START_MS = 1_736_929_800_123  # 2025-01-15T08:30:00.123Z


def batch(*values: float, source: str = "src", labels: tuple[tuple[str, str], ...] = ()) -> SeriesBatch:
    key = SeriesKey("job, one", "worker-0", "3", "hw.gpu.utilization", labels)
    return SeriesBatch(
        source=source,
        keys=(key,),
        unit=("1",),
        interval_ms=(60_000,),
        timing=(Timing.INFERRED,),
        time_error_ms=(500,),
        statistic=(Statistic.MEAN,),
        offsets=np.array([0, len(values)], np.int64),
        times=START_MS + np.arange(len(values), dtype=np.int64) * 60_000,
        values=np.array(values, np.float64),
    )


def collection(series: SeriesBatch) -> Collection:
    error = ThrottledError("too many", provider="p", operation="Show", status=429, code="X.1", request_id="r")
    error.attempts = 7
    return Collection(
        series=series,
        failures=(
            Failure(
                targets=(("a", "t0"), ("a", "t1")), metrics=("hw.power",), window=Window(1, 2), error=error, attempts=7,
                source="src",
            ),
            Failure(targets=(("b", ""),), metrics=(), window=None, error=ConfigurationError("no such source")),
        ),
        absences=(Absence(targets=(("a", "t2"),), metrics=("hw.power",), reason="no-data", source="src"),),
        jobs=(
            Job(
                id="a", name="training", status=JobStatus.RUNNING, vendor_status="Running", start_time_ms=5,
                accelerators=Accelerators(kind="gpu", count=8, model="M"), tasks=(Task(id="t0"),), source="src",
            ),
            Job(id="b"),
        ),
        as_of_ms=99,
        window=Window(1, 2),
    )  # fmt: skip


def test_a_row_holds_the_identity_the_instant_and_the_value() -> None:
    [row] = csv_rows(batch(0.25, labels=(("if", "eth0"), ("a", 'q"'))))
    assert row == (
        "src", "job, one", "worker-0", "3", '{"a": "q\\"", "if": "eth0"}', "hw.gpu.utilization", "1",
        "2025-01-15T08:30:00.123Z", "0.25",
    )  # fmt: skip


def test_every_float_survives_csv() -> None:
    dice = random.Random(0)
    values = [dice.uniform(-1, 1) * 10.0 ** dice.randrange(-300, 300) for _ in range(1_000)] + [0.1 + 0.2, math.inf]
    assert [float(row[-1]) for row in csv_rows(batch(*values))] == values


def test_a_missing_value_is_an_empty_field() -> None:
    assert [row[-1] for row in csv_rows(batch(1.0, math.nan, 0.0))] == ["1.0", "", "0.0"]


def test_the_source_is_the_keys_own_where_there_are_several() -> None:
    several = batch(1.0, source="")
    several = attrs.evolve(several, keys=(replace(several.keys[0], source="other"),))
    assert next(csv_rows(several))[0] == "other"


def test_series_without_samples_give_no_rows() -> None:
    assert list(csv_rows(batch())) == []
    assert list(csv_rows(SeriesBatch.empty())) == []


def test_a_written_csv_reads_back(tmp_path) -> None:
    path = tmp_path / "out.csv"
    written = batch(0.5, math.nan, 1.5)
    write(collection(written), path)
    header, *rows = csv.reader(io.StringIO(path.read_text("utf-8")))
    assert tuple(header) == COLUMNS
    assert [tuple(row) for row in rows] == list(csv_rows(written))


def test_the_document_holds_the_whole_account() -> None:
    document = json.loads(encode_json(json_document(collection(batch(0.5, math.nan)))))
    assert document["as_of_ms"] == 99
    assert document["window"] == {"start_ms": 1, "end_ms": 2}
    assert document["series"] == [
        {
            "source": "src", "job": "job, one", "task": "worker-0", "device": "3", "labels": {},
            "metric": "hw.gpu.utilization", "unit": "1", "interval_ms": 60_000, "timing": "inferred",
            "time_error_ms": 500, "statistic": "mean", "times": [START_MS, START_MS + 60_000], "values": [0.5, None],
        }
    ]  # fmt: skip
    throttled, unknown = document["failures"]
    assert throttled["targets"] == [{"job": "a", "task": "t0"}, {"job": "a", "task": "t1"}]
    assert (throttled["metrics"], throttled["attempts"]) == (["hw.power"], 7)
    assert throttled["error"] == {
        "class": "ThrottledError", "message": "too many [p Show, HTTP 429, X.1, request r, 7 attempts]",
        "operation": "Show", "status": 429, "code": "X.1", "request_id": "r",
    }  # fmt: skip
    assert unknown["window"] is None
    assert unknown["error"] == {"class": "ConfigurationError", "message": "no such source"}
    assert document["absences"] == [
        {"source": "src", "targets": [{"job": "a", "task": "t2"}], "metrics": ["hw.power"], "reason": "no-data"}
    ]
    running, other = document["jobs"]
    assert running["ref"] == "src/a"
    assert running["accelerators"] == {"kind": "gpu", "count": 8, "model": "M"}
    assert (other["ref"], other["accelerators"]) == ("b", None)


def test_infinities_are_strings_as_json_has_no_number_for_them() -> None:
    [series] = json_document(batch(math.inf, -math.inf))["series"]
    assert series["values"] == ["Infinity", "-Infinity"]


def test_series_alone_are_a_document_too(tmp_path) -> None:
    path = tmp_path / "out.JSON"
    write(batch(1.0), path)
    assert json.loads(path.read_text("utf-8")) == json_document(batch(1.0))


def test_a_written_parquet_file_reads_back_as_the_series(tmp_path) -> None:
    path = tmp_path / "out.parquet"
    written = batch(0.5, math.nan, math.inf, labels=(("if", "eth0"),))
    for collected in (written, collection(written)):
        write(collected, path)
        assert same_batch(SeriesBatch.from_arrow(pyarrow.parquet.read_table(path)), written)
        assert same_batch(SeriesBatch.from_arrow(pl.read_parquet(path)), written)


def test_a_parquet_file_has_the_schema_of_the_arrow_table_and_says_nothing_else_of_where_it_comes_from(
    tmp_path,
) -> None:
    path = tmp_path / "out.parquet"
    write(collection(batch(0.5)), path)
    assert pyarrow.parquet.read_schema(path).equals(batch(0.5).to_arrow().schema, check_metadata=True)
    assert set(pyarrow.parquet.read_metadata(path).metadata) == {b"metricsbridge.source", b"ARROW:schema"}


def test_the_statistics_of_a_parquet_file_do_not_deny_that_there_is_nan(tmp_path) -> None:
    path = tmp_path / "out.parquet"
    write(batch(0.5, math.nan), path)
    columns = pyarrow.parquet.read_metadata(path).row_group(0).to_dict()["columns"]
    told = {column["path_in_schema"] for column in columns if (column["statistics"] or {}).get("has_min_max")}
    assert "value" not in told
    assert {"series", "time", "metric"} <= told


def test_a_format_that_needs_what_is_not_installed_is_refused_before_there_is_anything_to_write(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for refused in (check_path, lambda path: write(batch(1.0), path)):
        with pytest.raises(ConfigurationError, match=r"needs pyarrow.*'metricsbridge\[arrow\]'"):
            refused(tmp_path / "out.PARQUET")
    assert list(tmp_path.iterdir()) == []
    write(batch(1.0), tmp_path / "out.csv")


@pytest.mark.parametrize("name", ["out.xlsx", "out", ".csv"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.csv or \.json or \.parquet"):
        write(batch(1.0), tmp_path / name)


def test_a_folder_that_does_not_exist_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="no folder"):
        write(batch(1.0), tmp_path / "nowhere" / "out.csv")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("before")
    broken = batch(1.0)
    object.__setattr__(broken, "times", np.array(["not a time"]))
    with pytest.raises(ValueError, match="not a time"):
        write(broken, path)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
    write(batch(1.0), path)
    assert path.read_text().count("\n") == 2
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


def test_a_parquet_file_is_replaced_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "out.parquet"
    write(batch(1.0), path)
    before = path.read_bytes()
    broken = attrs.evolve(batch(2.0), unit=("\ud800",))
    with pytest.raises(ValueError, match="no Unicode"):
        write(broken, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]


def test_a_link_is_followed(tmp_path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    link.symlink_to(real)
    write(batch(1.0), link)
    assert link.is_symlink()
    assert real.is_file()
