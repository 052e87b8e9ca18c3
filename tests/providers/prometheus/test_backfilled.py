"""What was written into a real server is what is read from it, value by value."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import metricsbridge as mb
from prometheus_server import backfill, running

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
START: Final = 1_760_000_400_000 // (6 * HOUR) * 6 * HOUR
"""Where a block of the storage begins."""
WEEK_MINUTES: Final = 7 * 24 * 60
WEEK_PODS: Final = [f"big-worker-{index}" for index in range(200)]
NAMESPACE: Final = "research"

BUSY: Final = "hw.gpu.utilization"


def labels(**pairs: str) -> str:
    return ",".join([f'{name}="{value}"' for name, value in pairs.items()])


def gauge(name: str, where: str, times_ms: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> Iterator[str]:
    seconds = [f"{time // 1000}" if time % 1000 == 0 else f"{time / 1000:.3f}" for time in times_ms.tolist()]
    return (f"{name}{{{where}}} {value} {time}\n" for time, value in zip(seconds, values.tolist(), strict=True))


def state(pod: str, job: str, first: int, end: int | None, times_ms: Any, *, uid: str) -> dict[str, list[str]]:
    """Write what kube-state-metrics tells of a pod, while it is there."""
    where = labels(namespace=NAMESPACE, pod=pod, uid=uid)
    found: dict[str, list[str]] = {}
    owner = f"{where},{labels(owner_kind='PyTorchJob', owner_name=job)}"
    found["kube_pod_owner"] = [*gauge("kube_pod_owner", owner, times_ms, np.ones(len(times_ms)))]
    found["kube_pod_start_time"] = [
        *gauge("kube_pod_start_time", where, times_ms, np.full(len(times_ms), first // 1000))
    ]
    found["kube_pod_created"] = [*gauge("kube_pod_created", where, times_ms, np.full(len(times_ms), first // 1000 - 5))]
    over = times_ms >= end if end is not None else np.zeros(len(times_ms), bool)
    for phase, holds in (("Running", ~over), ("Succeeded", over)):
        lines = gauge("kube_pod_status_phase", f'{where},phase="{phase}"', times_ms, holds.astype(np.int64))
        found.setdefault("kube_pod_status_phase", []).extend(lines)
    if end is not None:
        told = times_ms[over]
        done = np.full(len(told), end // 1000)
        found["kube_pod_completion_time"] = [*gauge("kube_pod_completion_time", where, told, done)]
    return found


def merged(parts: list[dict[str, list[str]]]) -> list[tuple[str, str, list[str]]]:
    names = dict.fromkeys([name for part in parts for name in part])
    return [(name, "gauge", [line for part in parts for line in part.get(name, ())]) for name in names]


def settings(url: str, **more: object) -> dict[str, Any]:
    return {"url": url, "scrape_interval": "1m", "lookback": "100000d", **more}


def samples_of(result: mb.Collection) -> dict[tuple[str, str, str], tuple[list[int], np.ndarray[Any, Any]]]:
    return {(key.task, key.device, key.metric): (times.tolist(), values) for key, times, values in result.series}


# One metric of 200 pods for a week


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Write a week of percentages, a twentieth of them missing; every other pod ends in the middle of a minute."""
    folder = tmp_path_factory.mktemp("week")
    rng = np.random.default_rng(1)
    written = rng.integers(0, 10_001, (len(WEEK_PODS), WEEK_MINUTES)) / 100.0
    written[rng.random(written.shape) < 0.05] = np.nan
    ends = [None if index % 2 else WEEK_MINUTES - 60 - index for index in range(len(WEEK_PODS))]
    times = START + np.arange(WEEK_MINUTES) * MINUTE
    states = []
    for index, end in enumerate(ends):
        if end is not None:
            written[index, end:] = np.nan
        told = times[-120::10]
        ended = None if end is None else int(times[end])
        states.append(state(WEEK_PODS[index], "big", START, ended, told, uid=f"u{index}"))

    def lines(part: slice) -> Iterator[str]:
        for index, pod in enumerate(WEEK_PODS):
            where = labels(namespace=NAMESPACE, pod=pod, container="main", gpu="0", UUID=f"GPU-{index}")
            there = ~np.isnan(written[index][part])
            yield from gauge("DCGM_FI_DEV_GPU_UTIL", where, times[part][there], written[index][part][there])

    length = 6 * 60  # the tool reads its whole input once for each block that it writes
    for first in range(0, WEEK_MINUTES, length):
        last = first + length == WEEK_MINUTES
        part = lines(slice(first, first + length))
        backfill(folder, [("DCGM_FI_DEV_GPU_UTIL", "gauge", part), *(merged(states) if last else ())])
    with running(folder) as url:
        yield url, written


async def test_every_value_of_200_pods_and_a_week_is_what_was_written(week: tuple[str, np.ndarray[Any, Any]]) -> None:
    url, written = week
    window = mb.Window(START, START + WEEK_MINUTES * MINUTE)
    async with mb.open_provider("prometheus", **settings(url)) as provider, mb.Collector({"p": provider}) as collector:
        result = await collector.collect(f"p/{NAMESPACE}/big", metrics=[BUSY], window=window)
    assert result.failures == ()
    assert result.absences == ()
    [job] = result.jobs
    assert [task.id for task in job.tasks] == WEEK_PODS
    assert [task.role for task in job.tasks] == [f"worker/{index}" for index in range(len(WEEK_PODS))]
    found = samples_of(result)
    assert len(found) == len(WEEK_PODS)
    times = START + np.arange(WEEK_MINUTES) * MINUTE
    for index, pod in enumerate(WEEK_PODS):
        there = ~np.isnan(written[index])
        got_times, got = found[pod, "", BUSY]
        assert got_times == times[there].tolist()
        assert np.array_equal(got, written[index][there] / 100)


async def test_a_pod_that_ended_has_an_end_and_no_value_after_it(week: tuple[str, np.ndarray[Any, Any]]) -> None:
    url, written = week
    async with mb.open_provider("prometheus", **settings(url)) as provider, mb.Collector({"p": provider}) as collector:
        job = await provider.get_job(f"{NAMESPACE}/big")
        result = await collector.collect(job, metrics=[BUSY], tasks=WEEK_PODS[:20], step="10s")
    ends = {task.id: task.end_time_ms for task in job.tasks}
    for index, pod in enumerate(WEEK_PODS):
        minutes = WEEK_MINUTES - 60 - index
        assert ends[pod] == (None if index % 2 else START + minutes * MINUTE)
    for (task, _, _), (times, _) in samples_of(result).items():
        assert times
        assert ends[task] is None or times[-1] < ends[task]
        assert len(times) == np.count_nonzero(~np.isnan(written[WEEK_PODS.index(task)]))


# Six metrics for four hours

FOUR_HOURS: Final = 240
PODS: Final = ["six-master-0", "six-worker-0", "six-worker-1"]
ENDED: Final = 151
"""The minute in which the last pod ends."""
COUNTERS: Final = {
    "container.cpu.usage": ("container_cpu_usage_seconds_total", {"container": "main", "id": "/a", "cpu": "total"}),
    "container.network.receive.rate": ("container_network_receive_bytes_total", {"interface": "eth0", "id": "/p"}),
    "container.disk.read.rate": ("container_fs_reads_bytes_total", {"container": "main", "id": "/a", "device": "sda"}),
}
GAUGES: Final = {
    "container.memory.working_set": ("container_memory_working_set_bytes", {"container": "main", "id": "/a"}, 1.0),
    "hw.gpu.memory.usage": ("DCGM_FI_DEV_FB_USED", {"container": "main", "gpu": "3", "UUID": "GPU-3"}, 2.0**-20),
    "hw.power": ("DCGM_FI_DEV_POWER_USAGE", {"container": "main", "gpu": "3", "UUID": "GPU-3"}, 1.0),
}


def rate(times: np.ndarray[Any, Any], values: np.ndarray[Any, Any], start: int, end: int) -> float:
    """Do what the server documents for ``rate`` over ``[start, end]``, for a counter that is never reset."""
    inside = (times >= start) & (times <= end)
    if np.count_nonzero(inside) < 2:
        return float("nan")
    times, values = times[inside], values[inside]
    sampled, increase = (times[-1] - times[0]) / 1000, values[-1] - values[0]
    spacing = sampled / (len(times) - 1)
    before, after = (times[0] - start) / 1000, (end - times[-1]) / 1000
    if increase > 0:
        before = min(before, sampled * values[0] / increase)
    whole = sampled + sum([gap if gap < 1.1 * spacing else spacing / 2 for gap in (before, after)])
    return float(increase * (whole / sampled) / ((end - start) / 1000))


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[tuple[str, str], np.ndarray[Any, Any]]]]:
    """Write four hours of six metrics; the pods' containers have roll-ups and shells that must not count."""
    folder = tmp_path_factory.mktemp("six")
    rng = np.random.default_rng(2)
    times = START + np.arange(FOUR_HOURS) * MINUTE
    written: dict[tuple[str, str], np.ndarray[Any, Any]] = {}
    families: dict[str, tuple[str, list[str]]] = {}
    for pod in PODS:
        there = times[:ENDED] if pod == PODS[-1] else times
        for metric, (name, more) in COUNTERS.items():
            values = 10_000 + np.cumsum(rng.integers(0, 6_000, FOUR_HOURS)[: len(there)]).astype(np.float64)
            written[metric, pod] = values
            lines = families.setdefault(name, ("counter", []))[1]
            lines.extend(gauge(name, labels(namespace=NAMESPACE, pod=pod, **more), there, values))
            if "container" in more:
                for idle in ("", "POD"):
                    other = labels(namespace=NAMESPACE, pod=pod, **{**more, "container": idle, "id": f"/{idle}x"})
                    lines.extend(gauge(name, other, there, values * 2))
        for metric, (name, more, _) in GAUGES.items():
            values = rng.integers(0, 80_000, len(there)).astype(np.float64)
            written[metric, pod] = values
            lines = families.setdefault(name, ("gauge", []))[1]
            lines.extend(gauge(name, labels(namespace=NAMESPACE, pod=pod, **more), there, values))
    states = [
        state(pod, "six", START, int(times[-1]) if pod != PODS[-1] else int(times[ENDED]), times, uid=pod)
        for pod in PODS
    ]
    samples = [(name, kind, lines) for name, (kind, lines) in families.items()]
    backfill(folder, [*samples, *merged(states)])
    with running(folder) as url:
        yield url, written


async def test_every_value_of_six_metrics_and_four_hours_is_what_was_written(
    six: tuple[str, dict[tuple[str, str], np.ndarray[Any, Any]]],
) -> None:
    url, written = six
    async with mb.open_provider("prometheus", **settings(url)) as provider, mb.Collector({"p": provider}) as collector:
        result = await collector.collect(f"p/{NAMESPACE}/six", metrics=[*COUNTERS, *GAUGES])
    assert (result.failures, result.absences) == ((), ())
    [job] = result.jobs
    assert (job.status, job.vendor_status) == (mb.JobStatus.SUCCEEDED, "Succeeded")
    assert (job.start_time_ms, job.end_time_ms) == (START, START + (FOUR_HOURS - 1) * MINUTE)
    ends = {task.id: task.end_time_ms for task in job.tasks}
    found = samples_of(result)
    assert len(found) == 6 * len(PODS)
    for (metric, pod), values in written.items():
        got_times, got = found[pod, "", metric]
        times = START + np.arange(len(values)) * MINUTE
        end = ends[pod]
        assert end is not None
        if metric in GAUGES:
            alive = times < end
            assert got_times == times[alive].tolist()
            assert np.array_equal(got, (values / GAUGES[metric][2])[alive])
        else:
            cells = START + np.arange(len(values)) * MINUTE
            truth = np.array([rate(times, values, int(cell) - 1, int(cell) + 4 * MINUTE - 1) for cell in cells])
            kept = ~np.isnan(truth) & (cells + 4 * MINUTE <= end)  # those that the pod lived through
            assert got_times == cells[kept].tolist()
            np.testing.assert_allclose(got, truth[kept], rtol=1e-12)
    intervals = dict(zip([key.metric for key in result.series.keys], result.series.interval_ms, strict=True))
    assert {intervals[metric] for metric in COUNTERS} == {4 * MINUTE}
    assert {intervals[metric] for metric in GAUGES} == {MINUTE}


def run_tool(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize("metric", [*COUNTERS, *GAUGES])
async def test_our_numbers_are_those_that_the_server_s_own_tool_prints(
    six: tuple[str, dict[tuple[str, str], np.ndarray[Any, Any]]], metric: str
) -> None:
    url, _ = six
    step, window = 5 * MINUTE, mb.Window(START, START + HOUR)
    async with mb.open_provider("prometheus", **settings(url)) as provider, mb.Collector({"p": provider}) as collector:
        result = await collector.collect(f"p/{NAMESPACE}/six", metrics=[metric], window=window, step="5m")
    name, more, divide = (*COUNTERS[metric], 1.0) if metric in COUNTERS else GAUGES[metric]
    function = "rate" if metric in COUNTERS else "avg_over_time"
    selected = {name: value for name, value in more.items() if name in ("container", "interface", "gpu")}
    query = f"{function}({name}{{{labels(namespace=NAMESPACE, **selected)}}}[5m])"
    first, last = (window.start_ms + step - 1) / 1000, (window.end_ms - 1) / 1000
    command = [
        "promtool", "query", "range", "--format=json", f"--start={first:.3f}", f"--end={last:.3f}", "--step=5m",
        url, query,
    ]  # fmt: skip
    printed = run_tool(command)
    wanted = {
        series["metric"]["pod"]: [
            (round(time * 1000) + 1 - step, float(value) / divide) for time, value in series["values"]
        ]
        for series in json.loads(printed)
    }
    found = {
        task: [*zip(times, values.tolist(), strict=True)]
        for (task, _, _), (times, values) in samples_of(result).items()
    }
    assert len(wanted) == len(PODS)
    assert found == wanted
