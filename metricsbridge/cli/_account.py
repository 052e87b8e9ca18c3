"""What failed and what is absent, grouped by why. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.cli._text import count, printable
from metricsbridge.errors import ProviderError
from metricsbridge.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from metricsbridge.collection import Collection
    from metricsbridge.model import Failure, Reason

REASONS: Final[Mapping[Reason, str]] = {
    "not-started": "not started",
    "no-data": "no data",
    "outside-retention": "kept no longer",
    "unsupported": "not offered",
}
"""In the order in which they are told."""

_NAMED: Final = 4
_ORDER: Final = list(METRICS)

EVERY_JOB: Final = "*"
"""Stands for a job's id where a source's jobs could not be listed."""


@attrs.define(kw_only=True)
class Entry:
    """Some targets that have the same thing to say.

    Attributes:
        why: In a few words.
        metrics: Empty where all metrics are meant.
        tasks: (source, job id) to the tasks; "" is the job as a whole.
        attempts: The most that were made.
    """

    why: str
    metrics: tuple[str, ...]
    tasks: dict[tuple[str, str], list[str]] = attrs.field(factory=dict)
    attempts: int = 0

    def add(self, source: str, targets: Iterable[tuple[str, str]], /) -> None:
        """Add targets."""
        for job, task in targets:
            self.tasks.setdefault((source, job), []).append(task)

    def what(self, name: Callable[[str], str], /) -> str:
        """Say which metrics."""
        return ", ".join(map(name, self.metrics)) or "everything"

    def where(self, names: Mapping[tuple[str, str], str], /) -> str:
        """Say how many targets, and name the first ones."""
        if all(job == EVERY_JOB for _, job in self.tasks):
            return f"all jobs of {', '.join(source for source, _ in self.tasks)}"
        tasks = sum(task != "" for of_job in self.tasks.values() for task in of_job)
        jobs = count(len(self.tasks), "job")
        several = len(self.tasks) > 1
        named = [_named(names.get(key) or key[1], of_job, several) for key, of_job in list(self.tasks.items())[:_NAMED]]
        more = f" and {len(self.tasks) - _NAMED} more" if len(self.tasks) > _NAMED else ""
        total = f"{count(tasks, 'task')} of {jobs}" if tasks else jobs
        return f"{total}: {printable(', '.join(named))}{more}"


def _named(name: str, tasks: list[str], several: bool) -> str:
    known = [task for task in tasks if task]
    if not known:
        return name
    if several:
        return f"{name} ({len(known)})"
    more = ", …" if len(known) > _NAMED else ""
    return f"{name} ({', '.join(known[:_NAMED])}{more})"


def absent(collection: Collection, /) -> list[Entry]:
    """Group the absences by reason and metrics."""
    everything = _all_metrics(collection)
    entries: dict[tuple[str, tuple[str, ...]], Entry] = {}
    for reason, why in REASONS.items():
        for absence in collection.absences:
            if absence.reason == reason:
                metrics = _told(absence.metrics, everything[absence.source])
                entry = entries.setdefault((why, metrics), Entry(why=why, metrics=metrics))
                entry.add(absence.source, absence.targets)
    order = list(REASONS.values())
    return sorted(entries.values(), key=lambda entry: (order.index(entry.why), entry.metrics != ()))


def failed(collection: Collection, /) -> list[Entry]:
    """Group the failures by what went wrong and metrics; the first message of each speaks for all."""
    everything = _all_metrics(collection)
    entries: dict[tuple[object, ...], Entry] = {}
    for failure in collection.failures:
        metrics = _told(failure.metrics, everything[failure.source])
        entry = entries.setdefault((*_kind(failure), metrics), Entry(why=explain(failure), metrics=metrics))
        entry.add(failure.source, failure.targets)
        entry.attempts = max(entry.attempts, failure.attempts)
    return list(entries.values())


def explain(failure: Failure, /) -> str:
    """Say in one line what went wrong."""
    return printable(f"{type(failure.error).__name__}: {' '.join(str(failure.error).split())}")


def _kind(failure: Failure) -> tuple[object, ...]:
    error = failure.error
    if isinstance(error, ProviderError):
        return type(error), failure.source, error.operation, error.status, error.code
    return type(error), failure.source, str(error)


def _told(metrics: Iterable[str], everything: set[str]) -> tuple[str, ...]:
    """Give the metrics in one order, or nothing where all of the source's are meant."""
    return () if everything.issubset(metrics) else tuple(sorted(metrics, key=_place))


def _place(metric: str) -> tuple[int, str]:
    return (_ORDER.index(metric) if metric in METRICS else len(_ORDER)), metric


def _all_metrics(collection: Collection) -> Mapping[str, set[str]]:
    """Give source to the metrics that it is known to be asked for."""
    everything: defaultdict[str, set[str]] = defaultdict(set)
    for failure in collection.failures:
        everything[failure.source].update(failure.metrics)
    for absence in collection.absences:
        everything[absence.source].update(absence.metrics)
    for index, key in enumerate(collection.series.keys):
        everything[collection.series.source_of(index)].add(key.metric)
    return everything
