"""What CloudMonitor's points, units and names of metrics mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricsbridge as mb
from metricsbridge_pai._catalog import CLOUDMONITOR_METRICS, PERCENT, UNITS, CloudMetric, level_of
from metricsbridge_pai._columns import mean_over_devices
from metricsbridge_pai._datapoints import Pages, Reading, unescape

if TYPE_CHECKING:
    from collections.abc import Callable

JOB = "dlc1abcdefghijklmnop"
DUTY = "hw.gpu.utilization"
START = 1_705_276_800_000
CARDS = Reading(
    metric=CloudMetric(name="CARD_GPU_DUTY_CYCLE", metric=DUTY, level="device", conversion=PERCENT), period_s=60
)


def read(*rows: dict[str, Any], tasks: tuple[str, ...] = ("a",), reading: Reading = CARDS) -> mb.SeriesBatch:
    pages = Pages(reading, PERCENT, JOB, frozenset(tasks))
    assert pages.add(json.dumps(rows)) == len(rows)
    (batch,) = pages.batches
    return batch


def row(time: int = START, value: float | None = 5.0, **more: Any) -> dict[str, Any]:
    return {"timestamp": time, "userId": "1", "jobId": JOB, "pod": "a", "Value": value, **more}


@pytest.mark.parametrize(
    ("members", "device"),
    [
        ({"gpu": "3"}, "3"), ({"gpuId": "GPU-1"}, "GPU-1"), ({"cardIndex": "0"}, "0"), ({"minorThing": "7"}, "7"),
        ({}, ""), ({"regionId": "cn", "workspaceId": "w"}, ""), ({"x": "1", "y": "2"}, "1/2"),
    ],
)  # fmt: skip
def test_a_card_is_found_under_any_name(members: dict[str, str], device: str) -> None:
    batch = read(row(**members))
    assert batch.keys == (mb.SeriesKey(JOB, "a", device, DUTY),)
    assert batch.values.tolist() == [0.05]


def test_a_number_names_a_card_but_neither_a_job_nor_a_pod() -> None:
    metric = CloudMetric(
        name="X", metric=DUTY, level="device", conversion=PERCENT, dimensions=("job", "pod", "podid", "gpuidx")
    )
    found = {name: value for name, value in row(job=7, podId=8, gpuIdx=9, other=10).items() if name != "jobId"}
    batch = read(found, reading=Reading(metric=metric, period_s=60))
    assert [(key.task, key.device) for key in batch.keys] == [("a", "9")]


@pytest.mark.parametrize("name", ["pod", "podId", "podName"])
def test_a_pod_is_found_under_any_name(name: str) -> None:
    found = row(gpu="0")
    found[name] = found.pop("pod")
    assert [key.task for key in read(found, tasks=("a", "b")).keys] == ["a"]


@pytest.mark.parametrize("spelled", [str, str.lower])
@pytest.mark.parametrize("key", ["Value", "Average", "Maximum", "Minimum", "Sum"])
def test_a_value_is_found_under_any_name_the_mean_before_the_largest(key: str, spelled: Callable[[str], str]) -> None:
    found = {name: value for name, value in row().items() if name != "Value"}
    assert read({**found, spelled(key): "7"}).keys == (mb.SeriesKey(JOB, "a", "", DUTY),)
    assert read({**found, spelled(key): 7}).values.tolist() == [0.07]
    assert read({**found, spelled("Sum"): 9, "Maximum": 8, spelled("Average"): 7}).values.tolist() == [0.07]


def test_points_of_other_jobs_and_pods_are_left_out() -> None:
    assert len(read(row(jobId="other"), row(pod="z"))) == 0


def test_points_of_no_pod_are_the_one_pods_that_was_asked_for_else_an_error() -> None:
    found = {name: value for name, value in row().items() if name != "pod"}
    assert [key.task for key in read(found).keys] == ["a"]
    with pytest.raises(mb.DecodeError, match="do not name their pod"):
        read(found, tasks=("a", "b"))


def test_points_of_incarnations_become_one_series_in_order() -> None:
    reading = Reading(metric=CARDS.metric, period_s=60, aliases=(("a-old", "a"),))
    rows = [row(START + 60_000, 2.0), row(START, 1.0, pod="a-old"), row(START + 60_000, 3.0)]
    batch = read(*[{**one, "gpu": "0"} for one in rows], reading=reading)
    assert [(key.task, key.device) for key in batch.keys] == [("a", "0")]
    assert batch.times.tolist() == [START, START + 60_000]
    assert batch.values.tolist() == [0.01, 0.03]


def test_incarnations_whose_cards_have_no_name_may_meet_at_a_time() -> None:
    reading = Reading(metric=CARDS.metric, period_s=60, aliases=(("a-old", "a"),))
    batch = read(row(START, 1.0, pod="a-old"), row(START, 2.0), reading=reading)
    assert batch.values.tolist() == [0.02]
    with pytest.raises(mb.DecodeError, match="do not name their card"):
        read(row(START, 1.0, pod="a-old"), row(START, 2.0, pod="a-old"), reading=reading)


@given(
    cards=st.lists(
        st.dictionaries(st.integers(0, 9), st.one_of(st.none(), st.floats(0, 1000)), max_size=6), min_size=1, max_size=4
    )
)
def test_the_mean_over_cards_is_over_those_that_have_a_value_then(cards: list[dict[int, float | None]]) -> None:
    rows = [row(time, value, gpu=str(card)) for card, points in enumerate(cards) for time, value in points.items()]
    batch = mean_over_devices(read(*rows))
    times = sorted({time for points in cards for time in points})
    assert [(key.task, key.device) for key in batch.keys] == ([("a", "")] if times else [])
    assert batch.times.tolist() == times
    for time, value in zip(times, batch.values.tolist(), strict=True):
        found = [points[time] / 100 for points in cards if points.get(time) is not None]
        assert np.isclose(value, sum(found) / len(found)) if found else np.isnan(value)


rows = st.lists(
    st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=12), st.integers(), st.none()), max_size=4),
    max_size=4,
)


@given(rows=rows, times=st.integers(0, 4), spaces=st.sampled_from(["", " ", "\n"]))
def test_an_array_is_read_however_often_it_is_escaped(rows: Any, times: int, spaces: str) -> None:
    points: Any = rows
    for _ in range(times):
        points = spaces + json.dumps(points if isinstance(points, str) else rows)
    assert json.loads(unescape(points)) == rows


@given(rows=rows.filter(any), times=st.integers(2, 4))
def test_an_escaped_array_that_lost_its_quotes_is_read(rows: Any, times: int) -> None:
    points = json.dumps(rows)
    for _ in range(times - 1):
        points = json.dumps(points)[1:-1]
    if '"' in points:
        assert json.loads(unescape(points)) == rows


def test_points_escaped_beyond_reason_are_an_error() -> None:
    points = "[]"
    for _ in range(9):
        points = json.dumps(points)
    with pytest.raises(mb.DecodeError, match="escaped"):
        unescape(points)


@pytest.mark.parametrize(
    ("name", "dimensions", "level"),
    [
        ("JOB_X", None, "job"), ("CARD_X", None, "device"), ("POD_X", None, "task"), ("NODE_X", None, None),
        ("X", "userId,jobId", "job"), ("X", "userId,jobId,pod", "task"), ("X", "userId,jobId,pod,gpuId", "device"),
        ("CARD_X", "userId,jobId,pod", "device"), ("X", "userId,quotaId", None), ("X", "userId,jobId,quotaId", None),
        ("JOB_X", "userId,jobId,pod", "task"), ("X", None, None),
    ],
)  # fmt: skip
def test_a_metrics_level_is_told_by_its_dimensions_else_by_its_name(
    name: str, dimensions: str | None, level: str | None
) -> None:
    assert level_of(name, dimensions) == level


def test_each_unit_becomes_a_canonical_one() -> None:
    known = {metric.unit for metric in mb.METRICS.values()}
    assert {conversion.unit for conversion in UNITS.values()} <= known
    for unit, factor in {
        "%": 0.01,
        "B": 1,
        "KB": 1e3,
        "KiB/s": 1024,
        "MB/s": 1e6,
        "MiB/s": 2**20,
        "GiB": 2**30,
    }.items():
        assert UNITS[unit].apply(np.array([3.0])).tolist() == [pytest.approx(3 * factor)]
    assert not {"bit/s", "bps", "Mbps", "", "ms"} & set(UNITS)


def test_the_metrics_in_the_table_are_shares() -> None:
    assert {mb.METRICS[known.metric].unit for known in CLOUDMONITOR_METRICS.values()} == {"1"}
