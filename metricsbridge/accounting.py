"""The conservation law: whatever is asked for is delivered, absent or failed, and nothing else. Pure.

The unit is (job, task, metric). A unit is delivered when any of its calls brings a value, failed when none does and
one of them failed, and absent otherwise. A delivered unit may also have failures: those windows of it are missing.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.model import Absence, JobTotals, Window
from metricsbridge.series.columns import concat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metricsbridge.http import Response
    from metricsbridge.model import Call, Failure, Job, JobStatus, Query, Reason, Target
    from metricsbridge.series.columns import SeriesBatch

_HOUR_MS: Final = 3_600_000

_MANY_CALLS: Final = 128
"""The batches of so many calls are joined at once, at most."""

_MANY_ANSWERS: Final = 256
_MANY_BYTES: Final = 384 * 1024
"""So many answers, or bytes of them, are decoded at once: a slow decoder may take 10 ms for them."""


def asked_targets(job: Job, query: Query, /) -> tuple[Target, ...]:
    """Give what a query asks of a job: the job as a whole, or its selected tasks.

    A job whose tasks are not known (it has not started) stands for them itself.
    """
    if query.per == "job" or not job.tasks:
        return ((job.id, ""),)
    return tuple([(job.id, task.id) for task in query.selected(job.tasks)])


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


Answer = tuple[int, "Response", int]
"""The answer to a call that is not decoded yet: the call's number, the answer, how many attempts failed before."""


@attrs.define
class Ledger:
    """The account of one job, or of jobs that are planned together.

    Metrics are numbered, and the units of a target are the bits of one number: a job may have very many tasks.

    Attributes:
        targets: Gives every target that is asked for; asked when it is needed, so that nothing is kept for each.
        metrics: What each of them is asked for; empty where the query asks for whatever there is.
        source: Which source.
        started: Whether the jobs have begun to run; otherwise the calls only say what would be served.
        calls: The calls that were planned, until all is settled.
        open_calls: How many of them are not done.
        many: Whether they are so many, each for tasks of its own, that what each brings is best taken at once.
        places: The place of each job in the input, where there are several and their order counts.
    """

    source: str
    targets: Callable[[], Iterable[Target]]
    metrics: tuple[str, ...]
    started: bool = True
    calls: tuple[Call, ...] = ()
    open_calls: int = 0
    many: bool = False
    places: Mapping[str, int] = attrs.field(factory=dict)
    _bits: dict[str, int] = attrs.field(factory=dict)
    _settled: dict[Target, int] = attrs.field(factory=dict)  # delivered, or named by a failure
    _window: Window | None = None  # that of all calls, where they share one: then all is clipped at once
    _arrived: list[tuple[int, SeriesBatch]] = attrs.field(factory=list)
    _answers: list[Answer] = attrs.field(factory=list)
    _answer_bytes: int = 0
    _alone: list[int] = attrs.field(factory=list)  # calls whose batches were taken by themselves, in order

    def plan(self, calls: Iterable[Call]) -> None:
        """Take note of the calls."""
        self.calls = tuple(calls)
        self.open_calls = len(self.calls)
        if self.open_calls > _MANY_CALLS:
            self.many = len({tuple(call.targets) for call in self.calls}) == self.open_calls
        windows = {*{id(call.window): call.window for call in self.calls}.values()}
        self._window = next(iter(windows)) if len(windows) == 1 else None
        for metrics in {id(call.metrics): call.metrics for call in self.calls}.values():
            self._mask(metrics)

    def deliver(self, number: int, batch: SeriesBatch, /) -> None:
        """Take what the call of that number brings, up to its window; it waits for ``take``."""
        self._arrived.append((number, batch if self._window is not None else batch.clip(self.calls[number].window)))

    def put_by(self, number: int, response: Response, failed: int, /) -> None:
        """Take the answer to the call of that number; it waits for ``take_answers``."""
        self._answers.append((number, response, failed))
        self._answer_bytes += len(response.body)

    def take_answers(self) -> list[list[Answer]]:
        """Give the answers that wait, in the order of the calls: those together that can be decoded at once."""
        answers, self._answers, self._answer_bytes = sorted(self._answers, key=itemgetter(0)), [], 0
        if self._window is None:  # then each is clipped by itself
            return [[answer] for answer in answers]
        stretches = groupby(enumerate(answers), lambda entry: entry[1][0] - entry[0])
        return [[answer for _, answer in stretch] for _, stretch in stretches]

    @property
    def is_full(self) -> bool:
        """Whether so much waits that it is better taken now."""
        many_answers = self._answer_bytes >= _MANY_BYTES or len(self._answers) >= _MANY_ANSWERS
        return many_answers or (self.many and bool(self._arrived))

    @property
    def waiting(self) -> int:
        """What so many calls brought waits to be taken."""
        return len(self._arrived) + len(self._answers)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the calls whose batches wait for ``take``."""
        return [number for number, _ in self._arrived]

    def take(self) -> list[tuple[int, SeriesBatch]]:
        """Give what has arrived in the order of the calls, and count it; many batches cost little more than one.

        They are joined to one, which comes with the number of its first call; it ends before a call that was taken
        alone, and another one begins. A series without any value brings nothing: it is left out.
        """
        arrived, self._arrived = sorted(self._arrived, key=itemgetter(0)), []
        if not self._alone:
            return [self._join(arrived)] if arrived else []
        return [self._join([*part]) for _, part in groupby(arrived, lambda entry: bisect(self._alone, entry[0]))]

    def take_alone(self, number: int, batch: SeriesBatch, /) -> SeriesBatch:
        """Give the batch of the call of that number back, counted; its series all have a value."""
        insort(self._alone, number)
        return self.count(batch)

    def _join(self, arrived: Sequence[tuple[int, SeriesBatch]]) -> tuple[int, SeriesBatch]:
        whole = concat([batch for _, batch in arrived])
        if self._window is not None:
            whole = whole.clip(self._window)
        return arrived[0][0], self.count(whole.only_observed())

    def count(self, batch: SeriesBatch, /) -> SeriesBatch:
        """Take note of what a batch delivers whose series all have a value, and give it back."""
        bits = self._bits
        job = task = ""
        mask = 0
        for key in batch.keys:
            if key.task is not task or key.job is not job:  # those of a task mostly come together
                self._add((job, task), mask)
                job, task, mask = key.job, key.task, 0
            mask |= bits.get(key.metric) or bits.setdefault(key.metric, 1 << len(bits))
        self._add((job, task), mask)
        return batch

    def fail(self, failure: Failure, /) -> None:
        """Take note of what a failure names."""
        self._settle(failure.targets, failure.metrics)

    def expect_all(self) -> None:
        """Take it that every call will bring all that it answers for: what is absent then is known beforehand."""
        for call in self.calls:
            self._settle(call.targets, call.metrics)

    def absences(self, now_ms: int, /) -> Iterator[Absence]:
        """Give what is neither delivered nor failed, once every call is done: one Absence per reason and metrics."""
        answered: Reason = "no-data" if self.started else "not-started"
        otherwise: Reason = "unsupported" if self.started or self.calls else "not-started"
        wanted = self._mask(self.metrics)
        size = len(self._bits)
        covered, settled = self._covered(now_ms, size), self._settled
        self.calls = ()
        groups: dict[tuple[Reason, int], list[Target]] = {}
        for target, mask in covered.items():
            missing = mask & ~settled.get(target, 0)
            if not missing:
                continue
            fresh = missing & (1 << size) - 1
            if fresh:
                groups.setdefault((answered, fresh), []).append(target)
            old = missing >> size & ~(mask | settled.get(target, 0))  # what another call answers for is not told twice
            if old:
                groups.setdefault(("outside-retention", old), []).append(target)
        for target in dict.fromkeys(self.targets()):
            mask = covered.get(target, 0)
            missing = wanted & ~mask
            if missing:
                missing &= ~(mask >> size | settled.get(target, 0))
            # A target of which nothing is served, where the query asks for whatever there is, is still named.
            if missing or not (wanted or mask):
                groups.setdefault((otherwise, missing), []).append(target)
        for (reason, mask), targets in groups.items():
            names = tuple([name for name, bit in self._bits.items() if mask & bit])
            yield Absence(targets=tuple(targets), metrics=names, reason=reason, source=self.source)

    def _covered(self, now_ms: int, size: int) -> dict[Target, int]:
        """Give what calls answer for; ``size`` bits higher where the vendor keeps what was asked no longer."""
        covered: dict[Target, int] = {}
        metrics: tuple[str, ...] = ()
        mask = 0
        for call in self.calls:
            if call.metrics is not metrics:
                metrics, mask = call.metrics, self._mask(call.metrics)
            kept = call.retention_ms is None or call.window.end_ms > now_ms - call.retention_ms
            bits = mask if kept or not self.started else mask << size
            for job, task in call.targets:
                covered[job, task] = covered.get((job, task), 0) | bits
        return covered

    def _settle(self, targets: Iterable[Target], metrics: Iterable[str]) -> None:
        mask = self._mask(metrics)
        for job, task in targets:
            self._add((job, task), mask)

    def _add(self, target: Target, mask: int) -> None:
        if mask:
            self._settled[target] = self._settled.get(target, 0) | mask

    def _mask(self, metrics: Iterable[str]) -> int:
        mask = 0
        for metric in metrics:
            mask |= self._bits.setdefault(metric, 1 << len(self._bits))
        return mask
