"""What a collection gives: the series, and an account of everything that was asked for."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import attrs

from metricsbridge.model import Absence, Failure, Job
from metricsbridge.series.align import align
from metricsbridge.series.columns import SeriesBatch, merge
from metricsbridge.series.pile import Pile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from metricsbridge.model import RelativeWindow, Window
    from metricsbridge.series.align import Fill, Frame, How

Outcome = SeriesBatch | Failure | Absence | Job
"""What may come of a part of the work."""

Order = tuple[int, int]
"""(place of the job in the input, place of the call in its plan)."""


@attrs.frozen(kw_only=True, eq=False)
class Collection:
    """The answer to one collection, or a part of it.

    Each (job, task, metric) that was asked for is exactly one of: delivered in ``series``, named in ``absences``,
    named in ``failures``. A delivered one may be named in ``failures`` too: then those windows of it are missing.

    Attributes:
        series: Every series that has a value, in the order of the jobs.
        failures: What was not answered, and why.
        absences: What was answered with nothing, or is not offered.
        jobs: The jobs as their sources described them.
        as_of_ms: When the last of it was received, ms since the epoch.
        window: The window that was asked for, resolved; None where it was each job's life.
    """

    series: SeriesBatch
    failures: tuple[Failure, ...] = ()
    absences: tuple[Absence, ...] = ()
    jobs: tuple[Job, ...] = ()
    as_of_ms: int = 0
    window: Window | None = None

    def __repr__(self) -> str:
        return (
            f"Collection({len(self.jobs)} jobs, {len(self.series)} series, {len(self.failures)} failures, "
            f"{len(self.absences)} absences)"
        )

    @property
    def complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    def raise_failures(self) -> None:
        """Raise the failures, for those who prefer exceptions.

        Raises:
            ExceptionGroup: Holds the error of each failure; not raised where there is none.
        """
        if self.failures:
            targets = sum(len(failure.targets) for failure in self.failures)
            raise ExceptionGroup(f"{targets} targets failed", [failure.error for failure in self.failures])

    def align(
        self,
        step: str | int | timedelta,
        how: How = "mean",
        window: Window | RelativeWindow | None = None,
        fill: Fill | None = None,
        max_gap: str | int | timedelta | None = None,
    ) -> Frame:
        """Align the series on one grid, by default over the window that was asked for; see ``metricsbridge.align``."""
        chosen = self.window if window is None else window.resolve(self.as_of_ms)
        return align(self.series, step=step, how=how, window=chosen, fill=fill, max_gap=max_gap)


def assemble(outcomes: Iterable[tuple[Order, Outcome]], window: Window | None, as_of_ms: int) -> Collection:
    """Put what a part of a collection came to, each with its place, in the order of the input."""
    found = [outcome for _, outcome in sorted(outcomes, key=itemgetter(0))]
    series = merge([outcome for outcome in found if isinstance(outcome, SeriesBatch)])
    return _collection(series, found, window, as_of_ms)


class Gathering:
    """Takes all that a collection comes to, in any order, and holds the series' columns and little else.

    Args:
        progress: Is told of each outcome.
    """

    def __init__(self, progress: Callable[[Outcome], None] | None = None) -> None:
        self._progress = progress
        self._series = Pile()
        self._others: list[tuple[Order, Outcome]] = []

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return self._series.samples

    def add(self, order: Order, outcome: Outcome) -> None:
        """Take an outcome with its place."""
        if isinstance(outcome, SeriesBatch):
            self._series.add(order, outcome)
        else:
            self._others.append((order, outcome))
        if self._progress is not None:
            self._progress(outcome)

    def finish(self, window: Window | None, as_of_ms: int) -> Collection:
        """Put all of it in the order of the input; nothing is left here."""
        others, self._others = self._others, []
        found = [outcome for _, outcome in sorted(others, key=itemgetter(0))]
        return _collection(self._series.stack(), found, window, as_of_ms)


def _collection(series: SeriesBatch, found: Sequence[Outcome], window: Window | None, as_of_ms: int) -> Collection:
    return Collection(
        series=series,
        failures=tuple([outcome for outcome in found if isinstance(outcome, Failure)]),
        absences=tuple([outcome for outcome in found if isinstance(outcome, Absence)]),
        jobs=tuple([outcome for outcome in found if isinstance(outcome, Job)]),
        as_of_ms=as_of_ms,
        window=window,
    )
