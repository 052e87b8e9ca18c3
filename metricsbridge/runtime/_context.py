"""What the transport of one call knows of the collection around it: quota, deadline, and how far it got.

The collector sets it once in each of its workers; outside of a collection there is none, and a provider's own quota
and the caller's own scopes hold.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from metricsbridge.errors import ProviderError
    from metricsbridge.protocols import Clock
    from metricsbridge.runtime._limits import Quota


@attrs.define
class CallContext:
    """The state of one worker's current call.

    Attributes:
        quota: The collector's; it takes the place of the one that the provider was opened with.
        clock: The collector's, on which ``deadline`` counts.
        deadline: In the clock's monotonic seconds; None for none.
        attempts: Attempts that have failed so far.
        last_error: What the last of them failed with.
    """

    quota: Quota | None
    clock: Clock
    deadline: float | None = None
    attempts: int = 0
    last_error: ProviderError | None = None

    def begin(self) -> None:
        """Forget the call before."""
        self.attempts = 0
        self.last_error = None

    def outlasts(self, seconds: float, clock: Clock, /) -> bool:
        """Tell whether a wait would last beyond the deadline."""
        return self.deadline is not None and clock == self.clock and clock.monotonic() + seconds >= self.deadline


CURRENT: ContextVar[CallContext | None] = ContextVar("metricsbridge_call", default=None)
