"""Seeded inputs, the same in every run: answers as the services write them, and series in columns."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import numpy as np

from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing
from metricsbridge.series.decode import NumberArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = NumberArrays(series="metrics", name="metric", values="value", missing=-1.0)
"""An answer of ``ShowTrainingJobMetrics``."""

METRICS = ("cpuUsage", "memUsage", "npuUtil", "npuMemUsage", "gpuUtil", "gpuMemUsage")
TEXT_METRICS = ("cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage", "diskReadRate", "recvBytesRate")
MINUTE_MS = 60_000
START_MS = 1_700_000_040_000
"""The start of a calendar minute."""

_DLC_JOB = "dlc20231114abcdef"


def metrics_body(points: int, *, digits: int = 2, seed: int = 7) -> bytes:
    """Give the metrics of one task, percent, one value a minute.

    As on the wire: two leading ``-1`` while the container starts, rare lone ones later, whole numbers written without a
    point among the others, and ``-1`` throughout for the devices that the node has not got.

    Args:
        points: Values of each of the six metrics.
        digits: Decimals of a value; 15 stands for a service that does not round.
        seed: Of the random numbers.
    """
    dice = random.Random(seed)
    series = [{"metric": name, "value": _percents(dice, points, digits)} for name in METRICS[:4]]
    series += [{"metric": name, "value": [-1] * points} for name in METRICS[4:]]
    return json.dumps({"metrics": series}, separators=(",", ":")).encode()


def text_body(points: int, *, digits: int = 2, seed: int = 7) -> bytes:
    """Give the metrics of one pod as ModelArts' API v1 writes them: numbers in strings.

    Two leading ``"0"`` stand for minutes in which nothing was measured; rare lone gaps are ``"-1"`` and ``"NaN"``.
    """
    dice = random.Random(seed)
    series = []
    for name in TEXT_METRICS:
        values = _percents(dice, points, digits)
        texts = [dice.choice(("-1", "NaN")) if value == -1 else f"{value:.{digits}f}" for value in values]
        series.append({"metric": name, "value": ["0", "0", *texts[2:]]})
    return json.dumps({"metrics": series, "interval": 1}, separators=(",", ":")).encode()


def objects_body(points: int, *, digits: int = 2, seed: int = 7) -> bytes:
    """Give one metric of six pods as PAI-DLC's ``GetJobMetrics`` writes it: an object for each sample."""
    dice = random.Random(seed)
    pods = []
    for worker in range(6):
        values = _percents(dice, points, digits, 0)
        samples = [{"Time": START_MS + MINUTE_MS * index, "Value": value} for index, value in enumerate(values)]
        pods.append({"PodId": f"{_DLC_JOB}-worker-{worker}", "Metrics": samples})
    document = {"JobId": _DLC_JOB, "PodMetrics": pods, "RequestId": "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E"}
    return json.dumps(document, separators=(",", ":")).encode()


def rows_body(points: int, *, digits: int = 2, seed: int = 7) -> bytes:
    """Give one metric of six pods as the data points of PAI-DLC's ``GetMetrics``: flat rows, minute by minute."""
    dice = random.Random(seed)
    columns = [_percents(dice, points, digits, 0) for _ in range(6)]
    rows = [
        {
            "timestamp": START_MS + MINUTE_MS * index,
            "userId": "1234567890123456",
            "jobId": _DLC_JOB,
            "pod": f"{_DLC_JOB}-worker-{worker}",
            "Average": values[index],
            "Minimum": values[index],
            "Maximum": values[index],
        }
        for index in range(points)
        for worker, values in enumerate(columns)
    ]
    return json.dumps(rows, separators=(",", ":")).encode()


def matrix_body(points: int, *, digits: int = 2, seed: int = 7) -> bytes:
    """Give one metric of six pods as Prometheus answers a range query: pairs of seconds and a number in a string.

    Times are those that the provider asks for: the last millisecond of each minute.
    """
    dice = random.Random(seed)
    series = []
    for worker in range(6):
        labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "namespace": "research", "pod": f"train-worker-{worker}"}
        texts = ["NaN" if value == -1 else str(value) for value in _percents(dice, points, digits)]
        pairs = [[START_MS // 1000 + 60 * index + 59.999, text] for index, text in enumerate(texts)]
        series.append({"metric": {**labels, "container": "pytorch", "gpu": "0"}, "values": pairs})
    data = {"resultType": "matrix", "result": series}
    return json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()


def _percents(dice: random.Random, points: int, digits: int, missing: float = -1) -> list[float]:
    level = dice.uniform(20, 80)
    values: list[float] = []
    for index in range(points):
        level = min(100.0, max(0.0, level + dice.gauss(0, 4)))
        gone = index < 2 or dice.random() < 0.002
        whole = dice.random() < 0.1
        values.append(missing if gone else round(level) if whole else round(level, digits))
    return values


def details_body(job_id: str, tasks: int, points: int) -> str:
    """Give the details of a finished job, a little longer than its ``points`` minutes; ``job_id`` goes in as it is."""
    status = {
        "phase": "Completed",
        "secondary_phase": "Completed",
        "start_time": START_MS,
        "duration": points * MINUTE_MS - 30_000,
        "tasks": [f"worker-{index}" for index in range(tasks)],
    }
    device = {"unit_num": "8", "product_name": "snt9b"}
    document = {
        "kind": "job",
        "metadata": {"id": job_id, "name": "benchmark", "create_time": START_MS - 120_000},
        "status": status,
        "spec": {"resource": {"flavor_detail": {"flavor_info": {"npu": device}}}},
    }
    return json.dumps(document, separators=(",", ":"))


def minute_series(series: int, points: int, *, missing: float = 0.02, seed: int = 7) -> SeriesBatch:
    """Give series of one value a minute, some of them NaN."""
    dice = np.random.default_rng(seed)
    values: NDArray[np.float64] = dice.integers(0, 10_000, series * points) / 10_000
    values[dice.random(len(values)) < missing] = np.nan
    return SeriesBatch(
        keys=tuple([SeriesKey(f"job-{index // 8}", f"worker-{index % 8}", "", "hw.power") for index in range(series)]),
        unit=("W",) * series,
        interval_ms=(MINUTE_MS,) * series,
        timing=(Timing.REPORTED,) * series,
        time_error_ms=(0,) * series,
        statistic=(Statistic.MEAN,) * series,
        offsets=np.arange(series + 1, dtype=np.int64) * points,
        times=np.tile(START_MS + MINUTE_MS * np.arange(points, dtype=np.int64), series),
        values=values,
    )
