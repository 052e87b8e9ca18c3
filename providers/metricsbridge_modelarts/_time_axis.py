"""The times of series that the service sends without times: counted from the job's start, or back from its end.

The documents name no anchor. A recorded job has exactly one value for each calendar minute that it touched, so value
``i`` stands for interval ``i`` from the calendar minute in which the job started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.provider_kit import Job, JobStatus
    from metricsbridge_modelarts._settings import Anchor

MINUTE_MS: Final = 60_000

RETENTION_MS: Final = 3 * 24 * 60 * MINUTE_MS
"""The console keeps about three days of a job's metrics (user manual); the API's own reach is not documented."""

_SLACK: Final = 5
"""So many values fewer than intervals are no sign of a cut series."""

_WHOLE: Final = 0.95
"""Of its life, the share that a series has at least which lacks some values and is not cut."""

_HOUR_MS: Final = 3_600_000


@attrs.frozen
class Progress:
    """How far a job had come when it was described: kept in ``Job.payload``.

    Attributes:
        ran_ms: How long it had run by the service's own clock; None where that is not told.
        described_ms: When that was, by ours.
    """

    ran_ms: int | None
    described_ms: int


@attrs.frozen
class Life:
    """When a job began and ended, ms since the epoch, as far as the service tells; and how far it has come."""

    start_ms: int | None
    end_ms: int | None
    progress: Progress | None

    @classmethod
    def of(cls, status: JobStatus, start_time: int | None, duration: int | None, described_ms: int, /) -> Self:
        """Read the service's ``start_time`` (0 of a job that never started) and ``duration``, both in ms."""
        start_ms = start_time or None
        if start_ms is None:
            return cls(None, None, None)
        end_ms = start_ms + duration if status.terminal and duration is not None else None
        return cls(start_ms, end_ms, None if end_ms is not None else Progress(duration, described_ms))


@attrs.frozen
class Anchoring:
    """What the times of a series are counted from: kept in ``Call.payload``.

    Attributes:
        start_ms: The job's start.
        end_ms: Its end; None while it runs.
        anchor: As in the settings.
        everything: Whether all metrics of the answer are wanted, those outside the catalog too.
        ended: Whether the job has ended, perhaps at a time that is not known.
        progress: Of a job without an end.
    """

    start_ms: int
    end_ms: int | None
    anchor: Anchor
    everything: bool = True
    ended: bool = False
    progress: Progress | None = None

    @classmethod
    def of(cls, job: Job, anchor: Anchor, /, *, everything: bool) -> Self:
        """Give what a job's series are counted from."""
        progress = job.payload if isinstance(job.payload, Progress) else None
        return cls(job.start_time_ms or 0, job.end_time_ms, anchor, everything, job.status.terminal, progress)

    def first_times(self, counts: Sequence[int], received_ms: int, /) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Give ``first_ms`` of several series: the times of their first values, and how far each may be off."""
        if counts and len(set(counts)) == 1:
            first, error = self.first_ms(counts[0], received_ms)
            return (first,) * len(counts), (error,) * len(counts)
        found = [self.first_ms(count, received_ms) for count in counts]
        return tuple([first for first, _ in found]), tuple([error for _, error in found])

    def first_ms(self, count: int, received_ms: int, *, interval_ms: int = MINUTE_MS) -> tuple[int, int]:
        """Give the time of the first of ``count`` values, and how far it may be off, both in ms."""
        start = self.start_ms // MINUTE_MS * MINUTE_MS
        last = self._last_ms(count, received_ms, interval_ms) if self.end_ms is None else self.end_ms
        expected = (last - start) // interval_ms + 1
        missing = expected - count
        if self.end_ms is None and self.ended:  # nobody knows how many there should be
            if self.anchor == "end":
                return start + missing * interval_ms, max(missing + 1, 2) * interval_ms
            may_be_cut = count * interval_ms > RETENTION_MS - _HOUR_MS
            return start, max(missing + 1, 1) * interval_ms if may_be_cut else interval_ms
        near = abs(count * interval_ms - RETENTION_MS) <= _HOUR_MS
        cut = missing > _SLACK and expected * interval_ms > RETENTION_MS and (near or count < _WHOLE * expected)
        if self.anchor == "end" or (self.anchor == "auto" and cut):
            return start + missing * interval_ms, 2 * interval_ms
        return start, interval_ms if missing <= _SLACK else (missing + 1) * interval_ms

    def _last_ms(self, count: int, received_ms: int, interval_ms: int) -> int:
        """Give a time in the last interval that a series can have a value of whose job has no end.

        A running job's current interval is not complete. How far it has come, the service's own account says best: our
        clock may be another one, and a state that is not known here may be one of an ended job.
        """
        progress = self.progress
        if progress is not None and progress.ran_ms is not None:
            ran_ms = progress.ran_ms + max(0, received_ms - progress.described_ms)
            if ran_ms + _SLACK * interval_ms >= count * interval_ms:  # else it is not kept up to date while a job runs
                return self.start_ms + ran_ms - interval_ms
        return received_ms - interval_ms

    def lived(self, first_ms: int, count: int, *, interval_ms: int) -> tuple[int, int]:
        """Give which of ``count`` intervals from that time on touch the job's life, as ``[first, last)``."""
        before = (self.start_ms - first_ms) // interval_ms
        after = count if self.end_ms is None else (self.end_ms - first_ms) // interval_ms + 1
        return min(max(before, 0), count), min(max(after, 0), count)
