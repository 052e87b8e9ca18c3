"""What happens, as lines of a standard logger."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metricsbridge.observer import CallEvent, RequestEvent


class LogSink:
    """Writes one record for each event, which the record has as its attribute ``event``.

    Args:
        logger: By default the one named ``metricsbridge.events``.
        level: Of what went well.
        failure_level: Of what did not; an attempt that is tried again is one of these.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        level: int = logging.DEBUG,
        failure_level: int = logging.WARNING,
    ) -> None:
        self._logger = logger or logging.getLogger("metricsbridge.events")
        self._level = level
        self._failure_level = failure_level

    def on_request(self, event: RequestEvent, /) -> None:
        """Write a record such as ``hw ShowMetrics, attempt 2: HTTP 200, 812 bytes in 0.041 s after 0.500 s``."""
        level = self._failure_level if event.error else self._level
        if self._logger.isEnabledFor(level):
            parts = [
                " ".join([part for part in (event.error, event.code) if part]),
                "" if event.status is None else f"HTTP {event.status}",
                "" if event.bytes is None else f"{event.bytes} bytes",
            ]
            self._logger.log(
                level,
                "%s %s, attempt %d: %s in %.3f s after %.3f s [call %s]",
                event.source or event.provider,
                event.operation or event.method,
                event.attempt,
                ", ".join([part for part in parts if part]),
                event.duration_s,
                event.wait_s,
                event.call_id,
                extra={"event": event},
            )

    def on_call(self, event: CallEvent, /) -> None:
        """Write a record such as ``hw ShowMetrics of 1 target: 480 points in 0.541 s``."""
        level = self._failure_level if event.error else self._level
        if self._logger.isEnabledFor(level):
            parts = [
                " ".join([part for part in (event.error, event.code) if part]),
                "" if event.points is None else f"{event.points} points",
            ]
            self._logger.log(
                level,
                "%s %s of %s: %s in %.3f s [call %s]",
                event.source,
                event.operation,
                "1 target" if len(event.targets) == 1 else f"{len(event.targets)} targets",
                ", ".join([part for part in parts if part]) or "done",
                event.duration_s,
                event.call_id,
                extra={"event": event},
            )
