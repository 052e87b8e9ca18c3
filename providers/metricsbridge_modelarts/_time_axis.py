"""The times of series that the service sends without times: counted from the job's start, or back from its end.

The documents name no anchor. A recorded job has exactly one value for each calendar minute that it touched, so value
``i`` stands for interval ``i`` from the calendar minute in which the job started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from metricsbridge_modelarts._settings import Anchor

MINUTE_MS: Final = 60_000

RETENTION_MS: Final = 3 * 24 * 60 * MINUTE_MS
"""The console keeps about three days of a job's metrics (user manual); the API's own reach is not documented."""

_SLACK: Final = 5
"""So many values fewer than intervals are no sign of a cut series."""


@attrs.frozen
class Anchoring:
    """What the times of a series are counted from: kept in ``Job.payload`` and ``Call.payload``.

    Attributes:
        start_ms: The job's start.
        end_ms: Its end; None while it runs.
        anchor: As in the settings.
        everything: Whether all metrics of the answer are wanted, those outside the catalog too.
    """

    start_ms: int
    end_ms: int | None
    anchor: Anchor
    everything: bool = True
    ended: bool = False  # perhaps at a time that is not known

    def first_ms(self, count: int, received_ms: int, *, interval_ms: int = MINUTE_MS) -> tuple[int, int]:
        """Give the time of the first of ``count`` values, and how far it may be off, both in ms."""
        start = self.start_ms // MINUTE_MS * MINUTE_MS
        # A running job's current interval is not complete, so it is not there yet.
        last = (self.end_ms if self.end_ms is not None else received_ms - interval_ms) - start
        expected = last // interval_ms + 1
        known = self.end_ms is not None or not self.ended
        cut = known and expected * interval_ms > RETENTION_MS and count < expected - _SLACK
        if self.anchor == "end" or (self.anchor == "auto" and cut):
            return start + (expected - count) * interval_ms, 2 * interval_ms
        return start, interval_ms

    def lived(self, first_ms: int, count: int, *, interval_ms: int) -> tuple[int, int]:
        """Give which of ``count`` intervals from that time on touch the job's life, as ``[first, last)``."""
        before = (self.start_ms - first_ms) // interval_ms
        after = count if self.end_ms is None else (self.end_ms - first_ms) // interval_ms + 1
        return min(max(before, 0), count), min(max(after, 0), count)
