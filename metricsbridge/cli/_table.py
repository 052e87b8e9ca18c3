"""A collection as rows that a person reads. Pure; ``_render`` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from metricsbridge.cli._text import count, format_span, printable, short_task, sparkline
from metricsbridge.metrics import METRICS
from metricsbridge.model import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metricsbridge.collection import Collection
    from metricsbridge.model import Job, JobTotals, Window
    from metricsbridge.series.columns import Float64, Int64, SeriesBatch

JobKey = tuple[str, str]
"""(source, job id)."""

_DEFAULT_INTERVAL_MS = 60_000


@attrs.frozen(kw_only=True, eq=False)
class Row:
    """One series, summed up.

    Attributes:
        last: Its newest value; ``mean`` and ``max`` likewise leave out what is missing.
        span: The stretch [start, end) in which it could have values, ms since the epoch.
        observed: Of the intervals in the span, the share that has a value.
    """

    source: str
    job: str
    job_name: str
    task: str
    device: str
    labels: tuple[tuple[str, str], ...]
    metric: str
    unit: str
    last: float
    mean: float
    max: float
    span: tuple[int, int]
    interval_ms: int
    observed: float
    times: Int64
    values: Float64

    @property
    def place(self) -> str:
        """What the series is about, within its job."""
        task = short_task(self.task, self.job, self.job_name, self.job_name.partition(" ")[0]) or "whole job"
        return printable(f"{task}/{self.device}" if self.device else task)

    def cells(self, most: int, /) -> Float64:
        """Give the means of equal parts of the span, NaN where nothing is; no part is shorter than the interval."""
        start, end = self.span
        parts = max(1, min(most, (end - start) // self.interval_ms))
        index = np.clip((self.times - start) * parts // (end - start), 0, parts - 1)
        sums = np.bincount(index, self.values, parts)
        counts = np.bincount(index, minlength=parts)
        cells: Float64 = np.divide(sums, counts, out=np.full(parts, np.nan), where=counts > 0)
        return cells

    def sparkline(self, most: int, /) -> str:
        """Give the cells as blocks; full height is 100 % of what is a fraction, else the highest cell."""
        cells = self.cells(most)
        highest = float(np.fmax.reduce(cells))
        return sparkline(cells, max(1.0, highest) if self.unit == "1" else highest)

    def document(self) -> dict[str, Any]:
        """Give plain values for JSON."""
        names = ("source", "job", "task", "device", "metric", "unit", "last", "mean", "max", "observed")
        return {**{name: getattr(self, name) for name in names}, "labels": dict(self.labels)}


def make_row(series: SeriesBatch, index: int, job: Job | None, window: Window | None, as_of_ms: int, /) -> Row:
    """Sum up one series of a collection."""
    key, (times, values) = series.keys[index], series.samples(index)
    interval_ms = series.interval_ms[index] or _spacing(times)
    present = ~np.isnan(values)
    times, values = times[present], values[present]
    start, end = _span(times, interval_ms, job, window, as_of_ms)
    return Row(
        source=series.source_of(index), job=key.job, job_name=job.name if job is not None else "", task=key.task,
        device=key.device, labels=key.labels, metric=key.metric, unit=series.unit[index],
        last=float(values[-1]) if len(values) else np.nan,
        mean=float(values.mean()) if len(values) else np.nan,
        max=float(values.max()) if len(values) else np.nan,
        span=(start, end), interval_ms=interval_ms,
        observed=min(1.0, len(values) * interval_ms / (end - start)), times=times, values=values,
    )  # fmt: skip


def _spacing(times: Int64) -> int:
    return max(1, int(np.median(np.diff(times)))) if len(times) > 1 else _DEFAULT_INTERVAL_MS


def _span(times: Int64, interval: int, job: Job | None, window: Window | None, as_of_ms: int) -> tuple[int, int]:
    """Give the whole intervals that a series could have: those the job ran in, are over, and begin in the window."""
    start_ms = job.start_time_ms if job is not None else None
    if start_ms is None:
        start_ms = int(times[0]) if len(times) else as_of_ms - interval
    end_ms = job.end_time_ms if job is not None else None
    start = start_ms // interval * interval
    end = as_of_ms // interval * interval if end_ms is None else (end_ms // interval + 1) * interval
    if window is not None:
        start = max(start, -(-window.start_ms // interval) * interval)
        end = min(end, -(-window.end_ms // interval) * interval)
    return start, max(end, start + interval)


@attrs.frozen(kw_only=True)
class Group:
    """One job's part of the table: a headline, and the indices of the series that are shown.

    Attributes:
        shown: In the order in which they are shown.
        series: How many it has in all.
    """

    job: Job
    shown: tuple[int, ...]
    series: int

    def headline(self, as_of_ms: int, /) -> str:
        """Say what the job is, behind its name and status."""
        job, devices = self.job, self.job.accelerators
        said = (
            []
            if job.start_time_ms is None
            else [format_span(max(0, (job.end_time_ms or as_of_ms) - job.start_time_ms))]
        )
        if job.tasks:
            said.append(count(len(job.tasks), "task"))
        if devices is not None:
            said.append(
                printable(f"{devices.count} {devices.kind} each" + (f" ({devices.model})" if devices.model else ""))
            )
        if job.start_time_ms is None:
            said.append("not started")
        elif not self.series:
            said.append("no data")
        return " · ".join(said)


def make_groups(collection: Collection, rows: int, /) -> list[Group]:
    """Choose which series to show, task by task and the known metrics first; jobs without any come last.

    Args:
        collection: What was collected.
        rows: So many at most, spread over the jobs and by whole tasks; 0 is all.
    """
    series, metrics = collection.series, {name: place for place, name in enumerate(METRICS)}
    by_task: dict[JobKey, dict[str, list[int]]] = {
        (job.source, job.id): {task.id: [] for task in job.tasks} for job in collection.jobs
    }
    for index in sorted(range(len(series)), key=lambda index: metrics.get(series.keys[index].metric, len(metrics))):
        key = series.keys[index]
        by_task.setdefault((series.source_of(index), key.job), {}).setdefault(key.task, []).append(index)
    by_job = {key: [task for task in tasks.values() if task] for key, tasks in by_task.items()}
    chosen = _choose([tasks for tasks in by_job.values() if tasks], rows)
    groups = []
    for job in collection.jobs:
        indices = [index for task in by_job[job.source, job.id] for index in task]
        shown = tuple([index for index in indices if index in chosen])
        groups.append(Group(job=job, shown=shown, series=len(indices)))
    return sorted(groups, key=lambda group: not group.series)


def _choose(jobs: Sequence[Sequence[Sequence[int]]], rows: int) -> set[int]:
    """Choose indices from jobs → tasks → series: every job's first task first, then more tasks, each whole."""
    if rows <= 0:
        return {index for job in jobs for task in job for index in task}
    share = max(1, rows // max(1, len(jobs)))
    chosen = [index for job in jobs[:rows] for index in job[0][:share]]
    for number in range(1, max(map(len, jobs), default=0)):
        for job in jobs:
            if number < len(job) and len(chosen) + len(job[number]) <= rows:
                chosen += job[number]
    return set(chosen)


def jobs_by_key(collection: Collection, /) -> Mapping[JobKey, Job]:
    """Give the jobs by source and id."""
    return {(job.source, job.id): job for job in collection.jobs}


def task_count(collection: Collection, /) -> int:
    """Count the tasks that delivered something."""
    series = collection.series
    return len({(series.source_of(index), key.job, key.task) for index, key in enumerate(series.keys) if key.task})


def totals(collection: Collection, /) -> str:
    """Say how much was delivered."""
    series, jobs, tasks = collection.series, count(len(collection.jobs), "job"), task_count(collection)
    of = f"{count(tasks, 'task')} in {jobs}" if tasks else jobs
    return f"{len(series):,} series of {of}, {count(len(series.times), 'sample')}"


def sort_totals(counted: Iterable[JobTotals], /) -> list[JobTotals]:
    """Put totals in the order of a job's life, then by the vendor's word, numbers in their own order."""
    life = list(JobStatus)

    def place(each: JobTotals) -> tuple[int, int, str]:
        word = each.vendor_status
        return life.index(each.status), int(word) if word.isdecimal() else -1, word

    return sorted(counted, key=place)
