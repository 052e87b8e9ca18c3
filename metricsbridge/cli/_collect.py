"""One collection for the command line: jobs by reference or by source, shown as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from metricsbridge.asking import Ask
from metricsbridge.cli._account import EVERY_JOB
from metricsbridge.cli._arguments import usage_errors
from metricsbridge.errors import ConfigurationError, DeadlineExceededError, MetricsBridgeError
from metricsbridge.model import Failure, Job, JobRef, JobSearch
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.series.columns import SeriesBatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import Console

    from metricsbridge.cli._arguments import Options, Wanted
    from metricsbridge.collection import Collection, Outcome
    from metricsbridge.collector import Collector
    from metricsbridge.planning import Plan


async def gather(
    collector: Collector, wanted: Sequence[Wanted], options: Options, progress: CollectionProgress
) -> Collection:
    """Collect, telling ``progress`` of each part of the answer.

    A source whose jobs can't be listed, or not in time, is a failure like any other.

    Raises:
        UsageError: An option that does not exist.
        ConfigurationError: A source can't list its jobs at all.
    """
    remaining, asked = _Remaining(options.timeout_s), _asked(options)
    jobs, lost = await _find_jobs(collector, wanted, options, remaining)
    found = await collector.collect(jobs, **asked, timeout=remaining.seconds(), progress=progress.show)
    return attrs.evolve(found, failures=(*found.failures, *lost))


async def foresee(collector: Collector, wanted: Sequence[Wanted], options: Options) -> Plan:
    """Say what ``gather`` would send; what it raises, this raises."""
    remaining, asked = _Remaining(options.timeout_s), _asked(options)
    jobs, lost = await _find_jobs(collector, wanted, options, remaining)
    plan = await collector.plan(jobs, **asked, timeout=remaining.seconds())
    return attrs.evolve(plan, failures=(*lost, *plan.failures))


class _Remaining:
    """What is left of the time that all of it may take."""

    def __init__(self, seconds: float | None) -> None:
        self.clock = SystemClock()
        self._ends = None if seconds is None else self.clock.monotonic() + seconds

    def seconds(self) -> float | None:
        return None if self._ends is None else max(0.001, self._ends - self.clock.monotonic())


def _asked(options: Options) -> dict[str, Any]:
    """Give the arguments that collecting and planning take, but for the timeout; they are checked."""
    asked: dict[str, Any] = {
        "metrics": options.metrics, "window": options.window, "step": options.step, "per": options.per,
        "tasks": options.tasks, "call_timeout": options.call_timeout_s, "strict": False,
    }  # fmt: skip
    with usage_errors():
        Ask.check(SystemClock().now_ms(), **asked, timeout=options.timeout_s)
    return asked


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

    def show(self, outcome: Outcome) -> None:
        """Take note of a part of the answer."""
        if self._progress.disable:
            return
        if isinstance(outcome, Job):
            self._expected += max(1, len(outcome.tasks))
        elif isinstance(outcome, SeriesBatch):
            self._done.update([(outcome.source, key.job, key.task) for key in outcome.keys])
        else:
            self._done.update([(outcome.source, *target) for target in outcome.targets])
            self._failed += isinstance(outcome, Failure)
        done = len(self._done)
        failed = f"{self._failed} failed" if self._failed else ""
        self._progress.update(self._bar, completed=done, total=max(self._expected, done), failed=failed)
