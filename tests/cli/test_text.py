import math

import numpy as np
import pytest

from metricsbridge.cli._text import (
    count,
    format_instant,
    format_share,
    format_span,
    format_value,
    printable,
    short_metric,
    short_task,
    sparkline,
)
from metricsbridge.metrics import METRICS


def test_a_sparkline_has_a_block_for_each_value_and_a_space_for_a_gap() -> None:
    assert sparkline(np.array([0.0, 0.5, math.nan, 0.99, 1.0, 3.0]), 1.0) == "▁▅ ███"


def test_a_sparkline_of_zeros_is_flat_and_not_empty() -> None:
    assert sparkline(np.zeros(3), 0.0) == "▁▁▁"


def test_sparklines_rise_with_the_value() -> None:
    assert sparkline(np.arange(8) / 8, 1.0) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4321, "1", "43.2%"),
        (1.736, "1", "173.6%"),
        (0.0, "1", "0.0%"),
        (math.nan, "1", ""),
        (0.0, "By/s", "0 B/s"),
        (999.0, "By/s", "999 B/s"),
        (12_345_678.0, "By/s", "12.3 MB/s"),
        (999_960.0, "By/s", "1.0 MB/s"),
        (2.5 * 2**30, "By", "2.5 GiB"),
        (-2048.0, "By", "-2.0 KiB"),
        (2.0**90, "By", "1099511627776.0 PiB"),
        (3.14159, "{cpu}", "3.142 cpu"),
        (312.0, "W", "312 W"),
        (7.0, "", "7"),
        (math.inf, "By/s", "inf"),
    ],
)
def test_values_are_written_with_their_unit(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0s"),
        (999, "0s"),
        (95_000, "1m 35s"),
        (60_000, "1m"),
        (3_600_000, "1h"),
        (21_700_000, "6h 1m"),
        (294_000_000, "3d 9h"),
        (86_400_000 + 59_000, "1d"),
    ],
)
def test_spans_are_written_with_their_two_largest_units(span_ms: int, text: str) -> None:
    assert format_span(span_ms) == text


def test_only_all_of_it_is_100_percent() -> None:
    assert [format_share(share) for share in (1.0, 0.999, 0.29, 0.0, None)] == ["100%", "99%", "29%", "0%", ""]


def test_instants_are_written_in_utc() -> None:
    assert format_instant(1_736_929_800_123) == "2025-01-15 08:30"
    assert format_instant(None) == ""


def test_short_names_leave_out_what_goes_without_saying() -> None:
    names = ["container.cpu.utilization", "hw.npu.memory.utilization", "container.network.receive.rate", "hw.power"]
    assert [short_metric(name) for name in names] == ["cpu", "npu.memory", "network.receive.rate", "power"]
    assert short_metric("vendor.cloud.a.b") == "a.b"


def test_short_names_tell_the_metrics_apart() -> None:
    assert len({short_metric(name) for name in METRICS}) == len(METRICS)


def test_counts_are_grammatical() -> None:
    assert (count(1, "job"), count(2, "job"), count(12_000, "sample")) == ("1 job", "2 jobs", "12,000 samples")


def test_text_can_not_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\n\x07") == "a?[31mb??"
    assert printable("训练-1") == "训练-1"


@pytest.mark.parametrize(
    ("task", "job", "short"),
    [
        ("dlc1-worker-0", ("dlc1", "train"), "worker-0"), ("train.0", ("10/10", "train"), "0"),
        ("worker-0", ("j", ""), "worker-0"), ("train", ("train",), "train"), ("train-", ("train",), "train-"),
        ("training-0", ("train",), "training-0"), ("", ("train",), ""),
    ],
)  # fmt: skip
def test_a_task_is_shown_without_what_its_job_says_already(task, job, short) -> None:
    assert short_task(task, *job) == short
