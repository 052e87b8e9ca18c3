"""What the transport of one call knows of the collection around it: quota, deadline, and how far it got.

The collector sets it once in each of its workers; outside of a collection there is none, and a provider's own quota
and the caller's own scopes hold.
"""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import anyio

    from metricsbridge.errors import ProviderError
    from metricsbridge.observer import Guarded
    from metricsbridge.protocols import Clock
    from metricsbridge.runtime._limits import Quota


@attrs.define
class Bound:
    """How long one call may take; while it waits in line, no time of it passes.

    How long that takes (for its turn under a rate limit, for a free connection) is up to the calls before it, of which
    there may be many, and which are bounded themselves.

    Attributes:
        clock: The collector's.
        scope: Of this clock; it ends the call.
        ends: When it does so, in the clock's monotonic seconds; what waiting takes is added.
    """

    clock: Clock
    scope: anyio.CancelScope
    ends: float
    _waiting: int = 0
    _left_s: float = 0.0

    def stop(self) -> None:
        """Let no time pass while it waits."""
        self._waiting += 1
        if self._waiting == 1:
            self._left_s, self.ends = self.ends - self.clock.monotonic(), math.inf
            self.clock.move(self.scope, None)

    def go_on(self) -> None:
        """Let it pass again, once all of the call's requests that waited have had their turn."""
        self._waiting -= 1
        if not self._waiting:
            self.ends = self.clock.monotonic() + self._left_s
            self.clock.move(self.scope, self._left_s)


@attrs.define
class CallContext:
    """The state of one worker's current call.

    Attributes:
        quota: The collector's; it takes the place of the one that the provider was opened with.
        clock: The collector's, on which ``deadline`` counts.
        deadline: The collection's, in the clock's monotonic seconds; None for none.
        bound: The call's own; None for none.
        attempts: Attempts that have failed so far.
        last_error: What the last of them failed with.
        source: The collector's name of the source.
        provider: Name of its provider, where that is known.
        for_others: Whether what it sends now is waited for by others, who may have more time.
        call_id: What an observer knows the call by; given when it is first asked for.
    """

    quota: Quota | None
    clock: Clock
    deadline: float | None = None
    attempts: int = 0
    last_error: ProviderError | None = None
    source: str = ""
    provider: str = ""
    call_id: str = ""
    bound: Bound | None = None
    for_others: bool = False

    def begin(self) -> None:
        """Forget the call before."""
        self.attempts = 0
        self.last_error = None
        self.call_id = ""

    def identify(self) -> str:
        """Give the id that observers know the call by."""
        self.call_id = self.call_id or new_call_id()
        return self.call_id

    def outlasts(self, seconds: float, clock: Clock, /) -> bool:
        """Tell whether a wait would last beyond the deadline, or the call's own bound, and is thus not to be begun."""
        if self.for_others:
            return False
        ends = math.inf if self.deadline is None else self.deadline
        if self.bound is not None:
            ends = min(ends, self.bound.ends)
        return clock == self.clock and clock.monotonic() + seconds >= ends


CURRENT: ContextVar[CallContext | None] = ContextVar("metricsbridge_call", default=None)


@contextmanager
def waiting_in_line() -> Iterator[CallContext | None]:
    """Let no time of the call pass while it waits for those before it; gives what is known of the call."""
    context = CURRENT.get()
    bound = None if context is None else context.bound
    if bound is not None:
        bound.stop()
    try:
        yield context
    finally:
        if bound is not None:
            bound.go_on()


def new_call_id() -> str:
    """Give an id that no other call has."""
    return os.urandom(8).hex()


@attrs.define
class Sending:
    """One request that is being sent, as an observer will be told of it.

    Attributes:
        call_id: Which call it belongs to.
        since: When it was asked for, or the attempt before ended, in the clock's monotonic seconds.
        attempts: How often it was sent.
        began: When it was sent last.
    """

    call_id: str
    since: float
    attempts: int = 0
    began: float = 0.0


SENDING: ContextVar[Sending | None] = ContextVar("metricsbridge_sending", default=None)
"""Set only where an observer is told."""


@attrs.frozen
class Opening:
    """What a provider that is being opened knows of the collector that opens it."""

    source: str
    observer: Guarded | None


OPENING: ContextVar[Opening | None] = ContextVar("metricsbridge_opening", default=None)
