"""What very many calls hold in memory: a stream's peak must not grow with them, a collection's is its columns."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.lowlevel
import attrs
import numpy as np

import metricsbridge as mb
from benchmarks.inputs import MINUTE_MS, START_MS
from benchmarks.measure import Gate, Table
from benchmarks.server import find_nginx, serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GROWTH_MIB: Final = 64.0
"""Gate: from 1 000 to 100 000 calls the peak of a stream grows by so much at most."""

OVER_COLUMNS: Final = 1.5
"""Gate: a collection of 100 000 tasks takes at most so many times its columns, keys and jobs included."""

METRICS: Final = ("container.cpu.utilization", "container.memory.utilization", "hw.npu.utilization",
                  "hw.npu.memory.utilization")  # fmt: skip
_SERIES: Final = len(METRICS)


@attrs.frozen
class Case:
    """So many calls of so many points a metric, for jobs of so many tasks."""

    kind: str
    calls: int
    points: int
    tasks: int
    nginx: bool = False

    def __str__(self) -> str:
        source = "nginx" if self.nginx else "in process"
        return f"{self.kind}, {self.calls} calls, {_SERIES} x {self.points} points, {self.tasks} tasks a job, {source}"


@attrs.frozen
class Reading:
    """What one case came to, in an interpreter of its own.

    Attributes:
        grown: Bytes that the process's peak lies above what it was before the first call.
        samples: How many arrived.
    """

    grown: int
    samples: int
    seconds: float


class InProcess:
    """A provider without a network: every task has the same values; it keeps no record."""

    def __init__(self, points: int, tasks: int) -> None:
        self._tasks = tuple([mb.Task(id=f"worker-{index}") for index in range(tasks)])
        self._times = START_MS + MINUTE_MS * np.arange(points)
        self.window = mb.Window(START_MS, START_MS + MINUTE_MS * points)

    async def get_job(self, job_id: str, /) -> mb.Job:
        await anyio.lowlevel.checkpoint()
        tasks = tuple([mb.Task(id=task.id) for task in self._tasks])  # a service's answer shares nothing with others
        return mb.Job(id=job_id, start_time_ms=START_MS, tasks=tasks)

    def plan(self, job: mb.Job, query: mb.Query, /) -> Sequence[mb.Call]:
        return [
            mb.Call(operation="Read", targets=((job.id, task.id),), metrics=METRICS, window=query.window)
            for task in job.tasks
        ]

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        await anyio.lowlevel.checkpoint()
        ((job, task),) = call.targets
        points = len(self._times)
        return mb.SeriesBatch(
            keys=tuple([mb.SeriesKey(job, task, "", metric) for metric in METRICS]),
            unit=("1",) * _SERIES, interval_ms=(MINUTE_MS,) * _SERIES, timing=(mb.Timing.REPORTED,) * _SERIES,
            time_error_ms=(0,) * _SERIES, statistic=(mb.Statistic.MEAN,) * _SERIES,
            offsets=np.arange(_SERIES + 1) * points, times=np.tile(self._times, _SERIES),
            values=np.full(_SERIES * points, 0.5),
        )  # fmt: skip


def run(*, short: bool, without_nginx: bool = False) -> list[Table]:
    """Measure each case in an interpreter of its own.

    Raises:
        SystemExit: There is no nginx, and doing without was not asked for.
    """
    nginx = None if without_nginx else find_nginx()
    if nginx is None and not without_nginx:
        raise SystemExit("scale: there is no nginx here; install it, or pass --without-nginx, which leaves it out")
    many, far = (5_000, 500) if short else (100_000, 10_000)
    streams = [Case("stream", calls, 15, tasks) for tasks in (50, 1) for calls in (many // 100, many)]
    streams.append(Case("stream", many, 15, many))
    collects = [Case("collect", calls, points, 50) for points in (15, 60) for calls in (many // 10, many)]
    collects += [Case("collect", many, 15, tasks) for tasks in (1, many)]
    found = {case: measure(case) for case in (*streams, *collects)}
    if nginx is not None:
        over = [Case("stream", calls, 60, 50, nginx=True) for calls in (far // 10, far)]
        over.append(Case("collect", far, 60, 50, nginx=True))
        with serve(60, 50, nginx=nginx) as url:
            found |= {case: measure(case, url) for case in over}
    return [_table(found, many)]


def measure(case: Case, url: str = "") -> Reading:
    """Measure a case in a fresh interpreter: a process's peak never falls again."""
    child = [sys.executable, "-m", "benchmarks.scale", json.dumps(attrs.asdict(case)), url]
    answer = subprocess.run(child, check=True, capture_output=True, text=True, timeout=900)
    reading = Reading(**json.loads(answer.stdout))
    assert reading.samples == case.calls * _SERIES * case.points
    return reading


def _table(found: dict[Case, Reading], many: int) -> Table:
    rows = [
        (
            str(case),
            reading.grown / 2**20,
            reading.grown / reading.samples if case.kind == "collect" else None,
            reading.samples * 16 / 2**20 if case.kind == "collect" else None,
            reading.seconds,
        )
        for case, reading in found.items()
    ]
    gates = []
    for tasks in (50, 1):
        few, lots = [found[Case("stream", calls, 15, tasks)].grown for calls in (many // 100, many)]
        what = f"stream, {tasks} tasks a job: {GROWTH_MIB:g} MiB over what {many} calls take more than {many // 100}"
        gates.append(Gate(what, GROWTH_MIB / max((lots - few) / 2**20, 0.1), 1.0))
    reading = found[Case("collect", many, 60, 50)]
    columns = reading.samples * 16
    what = f"collect, 60 points: {OVER_COLUMNS} x times and values over the peak"
    gates.append(Gate(what, OVER_COLUMNS * columns / reading.grown, 1.0))
    return Table(
        title="scale: peak of the process above its start",
        columns=("", "MiB", "bytes/sample", "times and values, MiB", "s"),
        rows=tuple(rows),
        gates=tuple(gates),
        notes=("A sample is 16 bytes of times and values.",),
    )


def _peak() -> int:
    """Give the most that the process ever had resident, in bytes."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise SystemExit("scale: this system does not tell a process's peak in /proc/self/status")


async def _read(case: Case, url: str) -> Reading:
    if url:
        limits = dict.fromkeys(("*", "ShowTrainingJobMetrics", "ShowTrainingJobDetails"), "unlimited")
        source: Any = mb.open_provider(
            "modelarts", endpoint=url, project_id="0123456789abcdef0123456789abcdef", access_key="EXAMPLEACCESSKEY0000",
            secret_key="example-secret-key-of-no-account", limits=limits,
        )  # fmt: skip
        window = None
    else:
        source = InProcess(case.points, case.tasks)
        window = source.window
    refs: Iterator[str] = (f"hw/job-{index:08d}" for index in range(case.calls // case.tasks))
    async with mb.Collector({"hw": source}) as collector:
        if not url:  # what is made once for all is made before
            small = InProcess(case.points, 2)
            await mb.Collector({"hw": small}).collect(repeat("hw/warm-up", 1), window=window)
        before, begun, samples = _peak(), time.perf_counter(), 0
        if case.kind == "collect":
            samples = len((await collector.collect(refs, window=window)).series.times)
        else:
            async with collector.stream(refs, window=window) as parts:
                async for part in parts:
                    samples += len(part.series.times)
        return Reading(_peak() - before, samples, time.perf_counter() - begun)


if __name__ == "__main__":
    found = asyncio.run(_read(Case(**json.loads(sys.argv[1])), sys.argv[2]))
    print(json.dumps(attrs.asdict(found)))
    sys.stdout.flush()
    os._exit(0)  # freeing it all one by one would only take time
