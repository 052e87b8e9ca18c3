"""What a collection would send: how many calls to whom, and how long they take under the limits. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import attrs

from metricsbridge.model import Absence, Failure, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from metricsbridge.model import Call
    from metricsbridge.protocols import Rate

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class PlannedCalls:
    """The calls to one operation of one source.

    Attributes:
        operation: The vendor's name of it.
        calls: How many; what is sent may be more, where an answer comes in pages or has to be asked for again.
        jobs: How many jobs they are for.
        targets: How many tasks they are for; a job as a whole counts as one.
        rate: The limit that they are held to, as it was set, documented or, where that is lower, learned; None where
            there is none, or none is known yet.
        seconds: How long the limit makes them take; None where there is no limit. Latency is not in it.
    """

    source: str
    operation: str
    calls: int
    jobs: int
    targets: int
    rate: Rate | None = None
    seconds: float | None = None


@attrs.frozen(kw_only=True)
class Plan:
    """What a collection would send.

    Attributes:
        operations: By source and operation, in the order in which they came up.
        seconds: How long the limits make all of it take, sources and operations side by side; None where no limit
            holds anything up.
        jobs: The jobs as their sources described them: given to ``Collector.collect``, they are not described again.
        failures: Jobs that could not be described or planned.
        absences: What is known to be absent already: not offered, or of a job that has not started.
    """

    operations: tuple[PlannedCalls, ...]
    seconds: float | None = None
    jobs: tuple[Job, ...] = attrs.field(default=(), repr=False)
    failures: tuple[Failure, ...] = attrs.field(default=(), repr=False)
    absences: tuple[Absence, ...] = attrs.field(default=(), repr=False)

    @property
    def calls(self) -> int:
        """How many calls there are in all."""
        return sum(each.calls for each in self.operations)


Limit = tuple["Hashable", "Rate"]
"""What is shared (an account's operation, in one quota), and its rate."""


class Tally:
    """Counts calls by source and operation, and keeps what else planning comes to."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._outcomes: list[tuple[tuple[int, int], object]] = []

    def add(self, order: tuple[int, int], outcome: object) -> None:
        """Keep a job, failure or absence, with its place."""
        self._outcomes.append((order, outcome))

    def count(self, source: str, calls: Sequence[Call]) -> None:
        """Count the calls of one plan: no other plan is for the same jobs."""
        found: dict[str, Counter[str]] = {}
        for operation in dict.fromkeys([call.operation for call in calls]):
            mine = [call for call in calls if call.operation == operation]
            targets = {target for call in mine for target in call.targets}
            found[operation] = Counter(calls=len(mine), jobs=len({job for job, _ in targets}), targets=len(targets))
        for operation, counts in found.items():  # only now: a provider's mistake may have ended it
            self._counts.setdefault((source, operation), Counter()).update(counts)

    def plan(self, limit_of: Callable[[str, str], Limit | None]) -> Plan:
        """Give the plan.

        Args:
            limit_of: Source and operation to what limits it, if anything does.
        """
        operations: list[PlannedCalls] = []
        shared: dict[Hashable, float] = {}
        for (source, operation), counts in self._counts.items():
            limit, seconds = limit_of(source, operation), None
            if limit is not None:
                seconds = counts["calls"] / limit[1].per_second
                shared[limit[0]] = shared.get(limit[0], 0.0) + seconds
            operations.append(
                PlannedCalls(
                    source=source, operation=operation, **counts, rate=limit and limit[1], seconds=seconds,
                )
            )  # fmt: skip
        found = [outcome for _, outcome in sorted(self._outcomes, key=lambda entry: entry[0])]
        return Plan(
            operations=tuple(operations),
            seconds=max(shared.values(), default=None),
            jobs=_only(Job, found),
            failures=_only(Failure, found),
            absences=_only(Absence, found),
        )


def _only(kind: type[T], found: Iterable[object]) -> tuple[T, ...]:
    return tuple([each for each in found if isinstance(each, kind)])
