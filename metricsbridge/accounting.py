"""The conservation law: whatever is asked for is delivered, absent or failed, and nothing else. Pure.

The unit is (job, task, metric). A unit is delivered when any of its calls brings a value, failed when none does and
one of them failed, and absent otherwise. A delivered unit may also have failures: those windows of it are missing.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.model import Absence, JobTotals, Window
from metricsbridge.series.columns import concat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metricsbridge.model import Call, Failure, Job, JobStatus, Query, Reason, Target
    from metricsbridge.series.columns import SeriesBatch

_HOUR_MS: Final = 3_600_000

Unit = tuple[str, str, str]
"""(job id, task id, metric)."""


def asked_targets(job: Job, query: Query, /) -> tuple[Target, ...]:
    """Give what a query asks of a job: the job as a whole, or its selected tasks.

    A job whose tasks are not known (it has not started) stands for them itself.
    """
    if query.per == "job" or not job.tasks:
        return ((job.id, ""),)
    return tuple([(job.id, task.id) for task in job.tasks if query.selects(task)])


def life_window(jobs: Iterable[Job], now_ms: int, /) -> Window:
    """Give the window of the jobs' lives, in full hours but not beyond now.

    A sample's interval may begin before the job does, and the sample that tells of a job's last moments may be stamped
    later than its end.
    """
    lives = [(job.start_time_ms, job.end_time_ms) for job in jobs]
    start = min([start for start, _ in lives if start is not None], default=now_ms) // _HOUR_MS * _HOUR_MS
    hours = [now_ms if end is None else max(end, min(now_ms, (end // _HOUR_MS + 1) * _HOUR_MS)) for _, end in lives]
    return Window(start, max(*hours, start) + 1)


def count_jobs(jobs: Iterable[Job], /) -> tuple[JobTotals, ...]:
    """Count jobs and their devices, one entry for each of the vendor's states, in the order in which they occur."""
    counts: dict[tuple[JobStatus, str], Counter[str]] = {}
    for job in jobs:
        count = counts.setdefault((job.status, job.vendor_status), Counter())
        count["jobs"] += 1
        if job.accelerators is not None:
            count[job.accelerators.kind] += job.accelerators.count * len(job.tasks)
    return tuple([
        JobTotals(status=status, vendor_status=word, jobs=count["jobs"], gpus=count["gpu"], npus=count["npu"])
        for (status, word), count in counts.items()
    ])  # fmt: skip


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
    _window: Window | None = None  # that of all calls, where they share one: then all is clipped at once
    _arrived: list[tuple[int, SeriesBatch]] = attrs.field(factory=list)

    def plan(self, calls: Iterable[Call]) -> None:
        """Take note of the calls."""
        self.calls = tuple(calls)
        self.open_calls = len(self.calls)
        windows = {id(call.window): call.window for call in self.calls}
        self._window = next(iter(windows.values())) if len(windows) == 1 else None

    def deliver(self, number: int, batch: SeriesBatch, /) -> None:
        """Take what the call of that number brings, up to its window; it waits for ``take``."""
        self._arrived.append((number, batch if self._window is not None else batch.clip(self.calls[number].window)))

    @property
    def waiting(self) -> list[int]:
        """The numbers of the calls whose batches wait to be taken."""
        return [number for number, _ in self._arrived]

    def take(self) -> SeriesBatch:
        """Give what has arrived as one batch in the order of the calls, and count it; many batches cost little more.

        A series without any value brings nothing: it is left out.
        """
        arrived, self._arrived = self._arrived, []
        whole = concat([batch for _, batch in sorted(arrived, key=itemgetter(0))])
        if self._window is not None:
            whole = whole.clip(self._window)
        whole = whole.only_observed()
        self.delivered.update([(key.job, key.task, key.metric) for key in whole.keys])
        return whole

    def fail(self, failure: Failure, /) -> None:
        """Take note of what a failure names."""
        self.failed.update([(job, task, metric) for job, task in failure.targets for metric in failure.metrics])

    def expect_all(self) -> None:
        """Take it that every call will bring all that it answers for: what is absent then is known beforehand."""
        for call in self.calls:
            self.delivered.update([(job, task, metric) for job, task in call.targets for metric in call.metrics])

    def absences(self, now_ms: int, /) -> Iterator[Absence]:
        """Give what is neither delivered nor failed, once every call is done: one Absence per reason and metrics."""
        reasons = self._covered(now_ms)
        uncovered: Reason = "unsupported" if self.started or self.calls else "not-started"
        for target, metrics in self.asked.items():
            for metric in metrics:
                reasons.setdefault((*target, metric), uncovered)
        missing: dict[Target, dict[Reason, list[str]]] = {}
        settled = self.delivered | self.failed if self.failed else self.delivered
        for unit in [unit for unit in reasons if unit not in settled]:
            missing.setdefault(unit[:2], {}).setdefault(reasons[unit], []).append(unit[2])
        # A target of which nothing is served, where the query asks for whatever there is, is still named.
        named = {unit[:2] for unit in reasons}
        missing.update({target: {uncovered: []} for target in self.asked if target not in named})
        groups: dict[tuple[Reason, tuple[str, ...]], list[Target]] = {}
        for target, found in missing.items():
            for reason, names in found.items():
                groups.setdefault((reason, tuple(names)), []).append(target)
        for (reason, names_), targets in groups.items():
            yield Absence(targets=tuple(targets), metrics=names_, reason=reason, source=self.source)

    def _covered(self, now_ms: int) -> dict[Unit, Reason]:
        """Give, for each unit that a call answers for, why it is absent if it is."""
        reasons: dict[Unit, Reason] = {}
        for call in self.calls:
            units = [(job, task, metric) for job, task in call.targets for metric in call.metrics]
            if not self.started:
                reasons.update(dict.fromkeys(units, "not-started"))
            elif call.retention_ms is None or call.window.end_ms > now_ms - call.retention_ms:
                reasons.update(dict.fromkeys(units, "no-data"))
            else:
                for unit in units:
                    reasons.setdefault(unit, "outside-retention")
        return reasons
