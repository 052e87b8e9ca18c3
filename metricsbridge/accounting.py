"""The conservation law: whatever is asked for is delivered, absent or failed, and nothing else. Pure.

The unit is (job, task, metric). A unit is delivered when any of its calls brings a value, failed when none does and
one of them failed, and absent otherwise. A delivered unit may also have failures: those windows of it are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from metricsbridge.model import Absence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metricsbridge.model import Call, Failure, Job, Query, Reason, Target
    from metricsbridge.series.columns import SeriesBatch

Unit = tuple[str, str, str]
"""(job id, task id, metric)."""


def asked_targets(job: Job, query: Query, /) -> tuple[Target, ...]:
    """Give what a query asks of a job: the job as a whole, or its selected tasks.

    A job whose tasks are not known (it has not started) stands for them itself.
    """
    if query.per == "job" or not job.tasks:
        return ((job.id, ""),)
    return tuple([(job.id, task.id) for task in job.tasks if query.selects(task)])


@attrs.define
class Ledger:
    """The account of one job, or of jobs that are planned together.

    Attributes:
        asked: What each target is asked for; empty where the query asks for whatever there is.
        source: Which source.
        started: Whether the jobs have begun to run; otherwise the calls only say what would be served.
        calls: The calls that were planned.
        open_calls: How many of them are not done.
        delivered: The units that have a value.
        failed: The units that a failure names.
    """

    source: str
    asked: Mapping[Target, tuple[str, ...]]
    started: bool = True
    calls: tuple[Call, ...] = ()
    open_calls: int = 0
    delivered: set[Unit] = attrs.field(factory=set)
    failed: set[Unit] = attrs.field(factory=set)

    def plan(self, calls: Iterable[Call]) -> None:
        """Take note of the calls."""
        self.calls = tuple(calls)
        self.open_calls = len(self.calls)

    def deliver(self, batch: SeriesBatch, /) -> SeriesBatch:
        """Take note of what a batch brings; gives it without the series that have no value at all."""
        observed = batch.observed()
        if not observed.all():
            batch = batch.select(observed.nonzero()[0].tolist())
        self.delivered.update([(key.job, key.task, key.metric) for key in batch.keys])
        return batch

    def fail(self, failure: Failure, /) -> None:
        """Take note of what a failure names."""
        self.failed.update([(job, task, metric) for job, task in failure.targets for metric in failure.metrics])

    def absences(self, now_ms: int, /) -> Iterator[Absence]:
        """Give what is neither delivered nor failed, once every call is done: one Absence per reason and metrics."""
        reasons = self._covered(now_ms)
        uncovered: Reason = "unsupported" if self.started or self.calls else "not-started"
        groups: dict[tuple[Reason, tuple[str, ...]], list[Target]] = {}
        for target in {**self.asked, **reasons}:
            found: dict[Reason, list[str]] = {}
            covered = reasons.get(target, {})
            for metric in dict.fromkeys((*self.asked.get(target, ()), *covered)):
                unit = (*target, metric)
                if unit not in self.delivered and unit not in self.failed:
                    found.setdefault(covered.get(metric, uncovered), []).append(metric)
            if not covered and not found:
                found[uncovered] = []
            for reason, metrics in found.items():
                groups.setdefault((reason, tuple(metrics)), []).append(target)
        for (reason, metrics_), targets in groups.items():
            yield Absence(targets=tuple(targets), metrics=metrics_, reason=reason, source=self.source)

    def _covered(self, now_ms: int) -> dict[Target, dict[str, Reason]]:
        """Give, for each unit that a call answers for, why it is absent if it is."""
        reasons: dict[Target, dict[str, Reason]] = {}
        for call in self.calls:
            forgotten = call.retention_ms is not None and call.window.end_ms <= now_ms - call.retention_ms
            for target in call.targets:
                of_target = reasons.setdefault(target, {})
                for metric in call.metrics:
                    if not self.started:
                        of_target[metric] = "not-started"
                    elif not forgotten:
                        of_target[metric] = "no-data"
                    else:
                        of_target.setdefault(metric, "outside-retention")
        return reasons
