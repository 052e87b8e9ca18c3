"""A provider that answers from a table, for tests of the collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import numpy as np

import metricsbridge as mb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

A, B, C = "container.cpu.utilization", "hw.gpu.utilization", "hw.power"
MINUTE = 60_000
WINDOW = mb.Window(0, 10 * MINUTE)


def batch(job: str, task: str, metric: str, points: Iterable[tuple[int, float]], unit: str = "1") -> mb.SeriesBatch:
    """Make a batch of one series."""
    pairs = list(points)
    return mb.SeriesBatch(
        keys=(mb.SeriesKey(job, task, "", metric),), unit=(unit,), interval_ms=(MINUTE,),
        timing=(mb.Timing.REPORTED,), time_error_ms=(0,), statistic=(mb.Statistic.MEAN,),
        offsets=np.array([0, len(pairs)]), times=np.array([t for t, _ in pairs], np.int64),
        values=np.array([v for _, v in pairs], np.float64),
    )  # fmt: skip


class FakeProvider:
    """Serves A and B for the tasks of its jobs, one call per task and metric and half of the window.

    ``answer(call)`` may be replaced; by default each unit has one value in each half.
    """

    def __init__(self, jobs: dict[str, Sequence[str]], *, halves: int = 2) -> None:
        self.jobs = jobs
        self.halves = halves
        self.described: list[str] = []
        self.fetched: list[mb.Call] = []
        self.in_flight = self.most_in_flight = 0
        self.answer: Callable[[mb.Call], Any] = self.default_answer
        self.job_error: Callable[[str], Exception | None] = lambda job_id: None

    async def get_job(self, job_id: str, /) -> mb.Job:
        self.described.append(job_id)
        await anyio.lowlevel.checkpoint()
        error = self.job_error(job_id)
        if error is not None:
            raise error
        if job_id not in self.jobs:
            raise mb.NotFoundError(f"no job {job_id}")
        tasks = tuple([mb.Task(id=task) for task in self.jobs[job_id]])
        return mb.Job(id=job_id, status=mb.JobStatus.RUNNING, start_time_ms=WINDOW.start_ms, tasks=tasks)

    def plan(self, job: mb.Job, query: mb.Query, /) -> Sequence[mb.Call]:
        served = [m for m in (query.metrics or (A, B)) if m in (A, B)]
        if query.per != "task":
            return ()
        window = query.window
        length = max(1, window.duration_ms // self.halves)
        windows = [mb.Window(s, min(s + length, window.end_ms)) for s in range(window.start_ms, window.end_ms, length)]
        return [
            mb.Call(operation="Read", targets=((job.id, task.id),), metrics=(metric,), window=part, retention_ms=10**12)
            for task in job.tasks
            if query.selects(task)
            for metric in served
            for part in windows
        ]

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        self.fetched.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await anyio.lowlevel.checkpoint()
            found = self.answer(call)
        finally:
            self.in_flight -= 1
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, mb.SeriesBatch)
        return found

    @staticmethod
    def default_answer(call: mb.Call) -> mb.SeriesBatch:
        (job, task), (metric,) = call.targets[0], call.metrics
        return batch(job, task, metric, [(call.window.start_ms, 0.5), (call.window.end_ms, 9.0)])


def account(result: mb.Collection) -> tuple[set[Any], set[Any], set[Any]]:
    """Give the units that are (delivered, absent, failed); a delivered one does not count as failed."""
    delivered = {
        (result.series.source_of(i), key.job, key.task, key.metric) for i, key in enumerate(result.series.keys)
    }
    absent = {(a.source, *t, m) for a in result.absences for t in a.targets for m in a.metrics}
    failed = {(f.source, *t, m) for f in result.failures for t in f.targets for m in f.metrics}
    return delivered, absent, failed - delivered
