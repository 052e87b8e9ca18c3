"""How API v1's answers become columns: which zeros are values, whose card a series is, and what its numbers mean."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from metricsbridge_modelarts._catalog import V1
from metricsbridge_modelarts._series_v1 import Dialect, Reading, decode_job, decode_pod, fillers, to_batch
from metricsbridge_modelarts._time_axis import Anchoring

MINUTE = 60_000
START = 1_705_300_000_123
FLOOR = START // MINUTE * MINUTE
DIALECT = Dialect("modelarts-v1", 1000.0, 1.0)


def pod_body(*series: tuple[str, Any], interval: Any = 1) -> bytes:
    return json.dumps({"metrics": [{"metric": n, "value": v} for n, v in series], "interval": interval}).encode()


def read(
    *series: tuple[str, Any], per: mb.Level = "task", cards: int = 0, interval: Any = 1, metrics: tuple[str, ...] = (),
    end: int | None = None, received: int = START + 10**8, anchor: Any = "start", dialect: Dialect = DIALECT,
) -> mb.SeriesBatch:  # fmt: skip
    reading = Reading(Anchoring(START, end, anchor, not metrics, end is not None), per, cards)
    call = mb.Call(
        operation="x", targets=(("1/2", "pod"),), metrics=metrics, window=mb.Window(0, 10**14), payload=reading
    )  # fmt: skip
    return to_batch(decode_pod(pod_body(*series, interval=interval)), call, received, dialect=dialect)


def values(batch: mb.SeriesBatch, index: int = 0) -> list[float | None]:
    return [None if np.isnan(value) else value for value in batch.samples(index)[1].tolist()]


def mask(rows: list[str], *, decimals: bool = False, lived: list[tuple[int, int]] | None = None) -> list[str]:
    """Judge rows of text in which ``0`` is a bare zero; gives them with ``-`` for a filler."""
    lengths = [len(row) for row in rows]
    bare = np.array([sign == "0" for row in rows for sign in row], np.bool_)
    found = fillers(bare, lengths, decimals=decimals, lived=lived or [(0, length) for length in lengths])
    signs = iter(["-" if filler else sign for filler, sign in zip(found, "".join(rows), strict=True)])
    return ["".join([next(signs) for _ in row]) for row in rows]


def test_where_numbers_have_decimals_no_bare_zero_is_a_value() -> None:
    assert mask(["0x0", "xx0"], decimals=True) == ["-x-", "xx-"]


def test_a_bare_zero_that_every_series_has_at_its_place_is_no_value() -> None:
    assert mask(["0x00", "0x0x"]) == ["-x-0", "-x-x"]


def test_series_that_end_before_a_place_have_no_say_in_it() -> None:
    assert mask(["x00", "0x"]) == ["x0-", "0x"]


def test_a_bare_zero_outside_of_the_life_is_no_value() -> None:
    assert mask(["0000", "xxxx"], lived=[(1, 3), (1, 3)]) == ["-00-", "xxxx"]


def test_no_series_at_all_have_no_fillers() -> None:
    assert fillers(np.zeros(0, np.bool_), (), decimals=False, lived=()).tolist() == []


@given(
    rows=st.lists(st.text("0x", max_size=8), max_size=5), decimals=st.booleans(),
    bounds=st.tuples(st.integers(0, 8), st.integers(0, 8)),
)  # fmt: skip
def test_nothing_but_a_bare_zero_is_ever_taken_away_and_the_rule_is_what_it_says(
    rows: list[str], decimals: bool, bounds: tuple[int, int]
) -> None:
    judged = mask(rows, decimals=decimals, lived=[bounds] * len(rows))
    for before, after in zip(rows, judged, strict=True):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            column = {row[place] for row in rows if place < len(row)}
            filler = old == "0" and (decimals or column == {"0"} or not bounds[0] <= place < bounds[1])
            assert new == ("-" if filler else old)


@given(st.lists(st.sampled_from(["0", "0.00", "12.50", "7"]), min_size=1, max_size=20))
def test_a_zero_with_decimals_is_always_kept_and_none_is_invented(texts: list[str]) -> None:
    found = values(read(("cpuUsage", texts), ("memUsage", ["5"] * len(texts))))
    for text, value in zip(texts, found, strict=True):
        if text != "0":
            assert value == float(text) / 100
        else:
            assert value == (None if any("." in other for other in texts) else 0.0)


def test_a_recorded_series_keeps_its_measured_zero() -> None:
    batch = read(("diskReadRate", ["0", "0", "42159.50", "23886.87", "9.00", "0.00", "0"]))
    assert values(batch) == [None, None, 42159500.0, 23886870.0, 9000.0, 0.0, None]


def test_zeros_after_the_end_of_a_job_are_no_values_without_decimals_either() -> None:
    batch = read(("cpuUsage", ["0", "0", "0", "0"]), ("memUsage", ["1", "1", "1", "1"]), end=START + 2 * MINUTE)
    assert values(batch) == [0.0, 0.0, 0.0, None]
    assert values(batch, 1) == [0.01] * 4


def test_zeros_before_the_start_of_a_job_are_no_values_where_it_is_anchored_at_its_end() -> None:
    batch = read(
        ("cpuUsage", ["0", "0", "0"]), ("memUsage", ["1", "1", "1"]), end=START + MINUTE, anchor="end",
    )  # fmt: skip
    assert batch.times[:3].tolist() == [FLOOR - MINUTE, FLOOR, FLOOR + MINUTE]
    assert values(batch) == [None, 0.0, 0.0]


@pytest.mark.parametrize("name", V1)
@pytest.mark.parametrize("upper", [False, True])
def test_each_metric_of_the_catalog_is_known_by_either_first_letter(name: str, upper: bool) -> None:
    batch = read((name[0].upper() + name[1:] if upper else name, ["12.34"]))
    assert [key.metric for key in batch.keys] == [V1[name].metric]
    assert batch.unit == (mb.METRICS[V1[name].metric].unit,)
    expected = {"disk": 12.34 * 1000, "recv": 12.34, "send": 12.34}.get(name[:4], 12.34 / 100)
    assert values(batch) == [expected]


def test_the_units_of_rates_are_what_is_set() -> None:
    batch = read(
        ("diskWriteRate", ["1.50"]), ("recvBytesRate", ["2.00"]), ("cpuUsage", ["50.00"]),
        dialect=Dialect("modelarts-v1", 1024.0, 8.0),
    )  # fmt: skip
    assert batch.values.tolist() == [1536.0, 16.0, 0.5]


def test_a_metric_outside_the_catalog_passes_through_unchanged() -> None:
    batch = read(("cpuUsage", ["50.00"]), ("HbmTemp_1", ["61.50"]), dialect=Dialect("otc-modelarts", 1000.0, 1.0))
    assert [key.metric for key in batch.keys] == ["container.cpu.utilization", "vendor.otc-modelarts.HbmTemp_1"]
    assert batch.values.tolist() == [0.5, 61.5]
    assert batch.unit == ("1", "")


def test_only_what_is_asked_for_is_given_and_all_series_judge_the_zeros() -> None:
    batch = read(
        ("cpuUsage", ["0", "1"]), ("memUsage", ["0", "2"]), ("x", ["0", "0"]), metrics=(V1["memUsage"].metric,)
    )
    assert [key.metric for key in batch.keys] == ["container.memory.utilization"]
    assert values(batch) == [None, 0.02]


CARDS = {
    "underscore": [("gpuUtil_0", ["1.00"]), ("gpuUtil_1", ["2.00"]), ("gpuUtil_10", ["3.00"])],
    "plain": [("gpuUtil0", ["1.00"]), ("gpuUtil1", ["2.00"]), ("gpuUtil10", ["3.00"])],
    "dash": [("gpuUtil-0", ["1.00"]), ("gpuUtil-1", ["2.00"]), ("gpuUtil-10", ["3.00"])],
    "bracket": [("GpuUtil[0]", ["1.00"]), ("GpuUtil[1]", ["2.00"]), ("GpuUtil[10]", ["3.00"])],
}
IN_ORDER = {
    "repeated": [("gpuUtil", ["1.00"]), ("gpuUtil", ["2.00"]), ("gpuUtil", ["3.00"])],
    "nested": [("gpuUtil", [["1.00"], ["2.00"], ["3.00"]])],
}


@pytest.mark.parametrize("shape", [*CARDS, *IN_ORDER])
def test_every_way_of_naming_cards_is_read(shape: str) -> None:
    numbered = shape in CARDS
    series = CARDS[shape] if numbered else IN_ORDER[shape]
    batch = read(("cpuUsage", ["50.00"]), *series, ("x", ["1.00"]), per="device", cards=3)
    assert [key.device for key in batch.keys] == ["0", "1", "10" if numbered else "2"]
    assert {key.metric for key in batch.keys} == {"hw.gpu.utilization"}
    assert batch.values.tolist() == [0.01, 0.02, 0.03]


def test_both_gpu_metrics_count_their_own_cards() -> None:
    batch = read(
        ("gpuUtil", ["1.00"]), ("gpuMemUsage", ["2.00"]), ("gpuUtil", ["3.00"]), ("gpuMemUsage", ["4.00"]),
        per="device", cards=2,
    )  # fmt: skip
    assert [(key.metric, key.device) for key in batch.keys] == [
        ("hw.gpu.utilization", "0"), ("hw.gpu.memory.utilization", "0"),
        ("hw.gpu.utilization", "1"), ("hw.gpu.memory.utilization", "1"),
    ]  # fmt: skip


@pytest.mark.parametrize(("cards", "found"), [(0, ["0"]), (1, ["0"]), (8, [])])
def test_a_single_series_of_a_pod_with_several_cards_is_their_mean_and_no_card_s(cards: int, found: list[str]) -> None:
    batch = read(("gpuUtil", ["1.00"]), per="device", cards=cards)
    assert [key.device for key in batch.keys] == found


def test_beside_numbered_cards_the_plain_name_is_their_mean() -> None:
    batch = read(("gpuUtil", ["9.00"]), ("gpuUtil_0", ["8.00"]), ("gpuUtil_1", ["10.00"]), per="device", cards=2)
    assert [(key.device, value) for key, _, (value,) in batch] == [("0", 0.08), ("1", 0.1)]


def test_a_numbered_series_of_a_metric_outside_the_catalog_is_a_card_s_unless_the_number_may_be_its_name() -> None:
    batch = read(("gpuTemp_3", ["61.00"]), ("sm90", ["5.00"]), ("gpuTemp[4]", ["62.00"]), per="device")
    assert [(key.metric, key.device) for key in batch.keys] == [
        ("vendor.modelarts-v1.gpuTemp", "3"), ("vendor.modelarts-v1.gpuTemp", "4"),
    ]  # fmt: skip


@pytest.mark.parametrize("interval", [None, 0, -1, "", 10**9, "1", 1])
def test_an_interval_that_makes_no_sense_is_a_minute(interval: Any) -> None:
    assert read(("cpuUsage", ["1.00", "2.00"]), interval=interval).interval_ms == (MINUTE,)


def test_values_of_several_minutes_stand_that_far_apart() -> None:
    batch = read(("cpuUsage", ["1.00", "2.00", "3.00"]), interval=5, received=FLOOR + 16 * MINUTE)
    assert batch.times.tolist() == [FLOOR, FLOOR + 5 * MINUTE, FLOOR + 10 * MINUTE]
    assert (batch.interval_ms, batch.time_error_ms) == ((5 * MINUTE,), (5 * MINUTE,))


def test_a_running_job_s_series_ends_at_the_interval_that_is_complete() -> None:
    batch = read(
        ("cpuUsage", ["1.00", "2.00"]), interval=5, anchor="end", received=FLOOR + 17 * MINUTE
    )  # fmt: skip
    assert batch.times.tolist() == [FLOOR + 5 * MINUTE, FLOOR + 10 * MINUTE]


@pytest.mark.parametrize("wrapped", [dict, json.dumps])
def test_the_means_of_a_job_are_read_from_an_object_and_from_text(wrapped: Any) -> None:
    metrics = {"cpuUsage": ["0", "3.10"], "interval": 2, "note": "x", "recvBytesRate": ["0.00", "91811.07"]}
    arrays = decode_job(json.dumps({"system_metric_list": wrapped(metrics)}).encode())
    assert arrays is not None
    assert (arrays.names, arrays.interval, arrays.decimals) == (("cpuUsage", "recvBytesRate"), 2.0, True)
    assert arrays.values.tolist() == [0.0, 3.1, 0.0, 91811.07]


@pytest.mark.parametrize("empty", [{}, {"system_metric_list": None}, {"system_metric_list": " "}])
def test_a_job_without_means_has_none(empty: dict[str, Any]) -> None:
    assert decode_job(json.dumps(empty).encode()) is None


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"system_metric_list": "{oops"}', "$.system_metric_list"),
        (b'{"system_metric_list": {"cpuUsage": ["1", "x"]}}', "$.system_metric_list.cpuUsage[1]"),
        (b'{"system_metric_list": 5}', "$.system_metric_list"),
        (b"[]", "$"),
    ],
)
def test_means_that_are_not_as_documented_are_refused_with_their_path(body: bytes, path: str) -> None:
    with pytest.raises(mb.DecodeError) as caught:
        decode_job(body)
    assert caught.value.path == path


UNASKED = {
    "repeated": [("gpuUtil", ["10.00", "0"]), ("GpuUtil", ["90.00", "30.00"])],
    "numbered": [("gpuUtil_0", ["10.00", "0"]), ("gpuUtil_1", ["90.00", "30.00"])],
    "nested": [("gpuUtil", [["10.00", "0"], ["90.00", "30.00"]])],
}


@pytest.mark.parametrize("shape", UNASKED)
@pytest.mark.parametrize("per", ["task", "job"])
def test_cards_that_come_unasked_are_given_as_their_mean_and_never_as_one_of_them(shape: str, per: Any) -> None:
    batch = read(*UNASKED[shape], ("cpuUsage", ["5.00", "6.00"]), per=per, cards=2)
    assert [key.metric for key in batch.keys] == ["hw.gpu.utilization", "container.cpu.utilization"]
    assert values(batch) == [0.5, 0.3]
    assert {key.device for key in batch.keys} == {""}


def test_cards_of_unequal_length_have_no_mean() -> None:
    batch = read(("gpuUtil", [["10.00"], ["90.00", "30.00"]]), ("cpuUsage", ["5.00", "6.00"]), cards=2)
    assert [key.metric for key in batch.keys] == ["container.cpu.utilization"]


def test_beside_the_mean_cards_do_not_count() -> None:
    batch = read(("gpuUtil", ["7.00"]), ("gpuUtil_0", ["1.00"]), ("gpuUtil_1", ["2.00"]), cards=2)
    assert values(batch) == [0.07]
    assert len(batch) == 1


def test_both_spellings_of_a_metric_are_cards_of_one() -> None:
    batch = read(("gpuUtil", ["1.00"]), ("GpuUtil", ["2.00"]), per="device", cards=2)
    assert [(key.device, key.metric) for key in batch.keys] == [
        ("0", "hw.gpu.utilization"), ("1", "hw.gpu.utilization"),
    ]  # fmt: skip


@pytest.mark.parametrize("per", ["task", "device"])
def test_a_job_that_is_not_known_to_have_gpus_has_none_that_are_idle(per: Any) -> None:
    series = [("cpuUsage", ["12", "0", "15"]), ("gpuUtil", ["0", "0", "0"]), ("gpuMemUsage", ["0", "0", "0"])]
    batch = read(*series, per=per).only_observed()
    assert [key.metric for key in batch.keys] == (["container.cpu.utilization"] if per == "task" else [])
    known = read(*series, per="task", cards=8).only_observed()
    assert values(known, 1) == [0.0, None, 0.0]


def test_minus_one_is_no_value_here_either() -> None:
    assert values(read(("cpuUsage", ["-1", "3.00"]))) == [None, 0.03]


@pytest.mark.parametrize("empty", [["", "", ""], [None, None, None], [None, "7", None]])
def test_what_is_missing_is_no_sign_that_its_neighbours_were_measured(empty: list[Any]) -> None:
    assert values(read(("cpuUsage", ["0", "5", "0"]), ("memUsage", empty))) == [None, 0.05, None]


@pytest.mark.parametrize("nothing", [None, []])
def test_a_series_of_nothing_loses_nothing_of_the_others(nothing: Any) -> None:
    assert values(read(("gpuUtil", nothing), ("cpuUsage", ["5.00"])), 1) == [0.05]


@pytest.mark.parametrize("minutes", [30, 60, 1440])
def test_long_intervals_are_taken_as_they_are(minutes: int) -> None:
    assert read(("cpuUsage", ["1.00", "2.00"]), interval=minutes).interval_ms == (minutes * MINUTE,)
