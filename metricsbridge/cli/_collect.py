"""One collection for the command line: jobs by reference or by source, shown as it goes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

import attrs
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from metricsbridge.cli._account import EVERY_JOB
from metricsbridge.cli._arguments import usage_errors
from metricsbridge.collection import Collection
from metricsbridge.errors import ConfigurationError, DeadlineExceededError, MetricsBridgeError
from metricsbridge.metrics import METRICS
from metricsbridge.model import Absence, Failure, Job, JobRef, JobSearch
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.series.columns import merge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import Console

    from metricsbridge.cli._arguments import Options, Wanted
    from metricsbridge.collector import Collector
    from metricsbridge.planning import Plan


async def gather(
    collector: Collector, wanted: Sequence[Wanted], options: Options, progress: CollectionProgress
) -> Collection:
    """Collect, telling ``progress`` of each part, and put the parts in the order of the jobs.

    A source whose jobs can't be listed, or not in time, is a failure like any other.

    Raises:
        UsageError: An option that does not exist.
        ConfigurationError: A source can't list its jobs at all.
    """
    remaining = _Remaining(options.timeout_s)
    jobs, lost = await _find_jobs(collector, wanted, options, remaining)
    parts = [Collection(series=merge([]), failures=lost)] if lost else []
    async with AsyncExitStack() as stack:
        with usage_errors():
            stream = collector.stream(jobs, **_asked(options, remaining))
            arriving = await stack.enter_async_context(stream)
        async for part in arriving:
            parts.append(part)
            progress.show(part)
    return _in_order(parts, jobs)


async def foresee(collector: Collector, wanted: Sequence[Wanted], options: Options) -> Plan:
    """Say what ``gather`` would send; what it raises, this raises."""
    remaining = _Remaining(options.timeout_s)
    jobs, lost = await _find_jobs(collector, wanted, options, remaining)
    with usage_errors():
        plan = await collector.plan(jobs, **_asked(options, remaining))
    return attrs.evolve(plan, failures=(*lost, *plan.failures))


class _Remaining:
    """What is left of the time that all of it may take."""

    def __init__(self, seconds: float | None) -> None:
        self.clock = SystemClock()
        self._ends = None if seconds is None else self.clock.monotonic() + seconds

    def seconds(self) -> float | None:
        return None if self._ends is None else max(0.001, self._ends - self.clock.monotonic())


def _asked(options: Options, remaining: _Remaining) -> dict[str, Any]:
    return {
        "metrics": options.metrics, "window": options.window, "step": options.step, "per": options.per,
        "tasks": options.tasks, "timeout": remaining.seconds(),
        "call_timeout": options.call_timeout_s,
    }  # fmt: skip


async def _find_jobs(
    collector: Collector, wanted: Sequence[Wanted], options: Options, remaining: _Remaining
) -> tuple[list[JobRef | Job], tuple[Failure, ...]]:
    """Give the jobs that are meant, and a failure for each source whose jobs could not be listed."""
    jobs: list[JobRef | Job] = []
    lost: list[Failure] = []
    for each in wanted:
        if isinstance(each, JobRef):
            jobs.append(each)
            continue
        with remaining.clock.deadline(remaining.seconds()) as scope:
            error = await _list(collector, each, jobs)
        if scope.cancelled_caught:
            error = DeadlineExceededError("its jobs could not be listed in time: allow more, or name the jobs")
        if error is not None:
            lost.append(_not_listed(each, options, error))
    return jobs, tuple(lost)


async def _list(collector: Collector, source: str, jobs: list[JobRef | Job]) -> MetricsBridgeError | None:
    """Add a source's jobs, as they come; give the error that ends that early."""
    try:
        async for job in collector.list_jobs(source, JobSearch()):
            jobs.append(job)  # noqa: PERF401  # those before an error or a deadline count
    except ConfigurationError:
        raise
    except MetricsBridgeError as error:
        return error
    return None


def _not_listed(source: str, options: Options, error: MetricsBridgeError) -> Failure:
    attempts = getattr(error, "attempts", 1)
    return Failure(
        targets=((EVERY_JOB, ""),), metrics=tuple(options.metrics or ()), window=None, error=error, attempts=attempts,
        source=source,
    )  # fmt: skip


def _in_order(parts: Sequence[Collection], jobs: Sequence[JobRef | Job]) -> Collection:
    asked = [(job.source, job.job_id if isinstance(job, JobRef) else job.id) for job in jobs]
    places = {key: place for place, key in enumerate(dict.fromkeys(asked))}
    described = [job for part in parts for job in part.jobs]
    tasks = {(job.source, job.id, task.id): place for job in described for place, task in enumerate(job.tasks)}
    metrics = {name: place for place, name in enumerate(METRICS)}
    series = merge([part.series for part in parts])

    def place(index: int) -> tuple[int, int, int]:
        key, source = series.keys[index], series.source_of(index)
        return (
            places.get((source, key.job), len(places)),
            tasks.get((source, key.job, key.task), len(tasks)),
            metrics.get(key.metric, len(metrics)),
        )

    def first_target(part: Failure | Absence) -> int:
        return places.get((part.source, part.targets[0][0]), len(places))

    return Collection(
        series=series.select(sorted(range(len(series)), key=place)),
        failures=tuple(sorted([failure for part in parts for failure in part.failures], key=first_target)),
        absences=tuple(sorted([absence for part in parts for absence in part.absences], key=first_target)),
        jobs=tuple(sorted(described, key=lambda job: places.get((job.source, job.id), len(places)))),
        as_of_ms=max([part.as_of_ms for part in parts], default=0) or SystemClock().now_ms(),
        window=next((part.window for part in parts if part.window is not None), None),
    )


class CollectionProgress:
    """A bar that counts tasks, shown while it is entered, on a terminal only.

    Args:
        console: Where to show it: stderr, so that it never mixes with what is read.
        shown: False for none.
    """

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        columns = (
            TextColumn("collecting"), BarColumn(30), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn(),
            TextColumn("{task.fields[failed]}", style="red"),
        )  # fmt: skip
        hidden = not (shown and console.is_terminal)
        self._progress = Progress(*columns, console=console, transient=True, disable=hidden)
        self._bar = self._progress.add_task("", total=None, failed="")
        self._expected = 0
        self._done: set[tuple[str, str, str]] = set()
        self._failed = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, part: Collection) -> None:
        """Take note of a part."""
        self._expected += sum(max(1, len(job.tasks)) for job in part.jobs)
        series = part.series
        self._done.update([(series.source_of(index), key.job, key.task) for index, key in enumerate(series.keys)])
        self._done.update([(lost.source, *target) for lost in part.failures for target in lost.targets])
        self._done.update([(gone.source, *target) for gone in part.absences for target in gone.targets])
        self._failed += len(part.failures)
        done = len(self._done)
        failed = f"{self._failed} failed" if self._failed else ""
        self._progress.update(self._bar, completed=done, total=max(self._expected, done), failed=failed)
