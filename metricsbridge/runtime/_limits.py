"""Rate limits: one controller per (account, operation), shared through a Quota."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from metricsbridge.errors import ProviderError, ThrottledError
from metricsbridge.runtime._context import CURRENT, waiting_in_line
from metricsbridge.runtime._throttle import TIMER_S, Throttle

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from metricsbridge.http import Request, Response
    from metricsbridge.protocols import Clock, Rate, Transport
    from metricsbridge.runtime._context import CallContext

LONGEST_PAUSE_S: Final = 300.0
"""For a longer pause nobody waits: whoever comes meanwhile fails at once."""

_MARK_EVERY: Final = 64
"""While nothing is held back, the time is looked at only after so many answers; a power of two."""


@attrs.define(eq=False)
class _Turn:
    """One who waits: for the turn, then for the time."""

    came: float
    first: anyio.Event = attrs.field(factory=anyio.Event)
    nap: anyio.CancelScope | None = None


class RateController:
    """Lets the requests of one operation go at the rate of its throttle, first come, first served.

    Only the first of those who wait looks at the time; nobody has a slot before it is there, so whoever is cancelled
    has nothing to give back.

    Args:
        ceiling: Requests per second that are never exceeded; infinite for none; None where no limit is known.
    """

    __slots__ = ("_queue", "throttle")

    def __init__(self, ceiling: float | None) -> None:
        self.throttle = Throttle(ceiling)
        self._queue: deque[_Turn] = deque()

    @property
    def per_second(self) -> float:
        """The rate at which requests are let go now; infinite where nothing is held back."""
        return self.throttle.per_second

    async def acquire(self, clock: Clock, /) -> float:
        """Wait for a slot, and give the time at which it was there.

        Raises:
            ThrottledError: The vendor asked for a pause that is too long to wait for, or outlasts the deadline.
        """
        now = clock.monotonic()
        if not self._queue and self.throttle.wait_s(now) <= TIMER_S:
            self.throttle.take(now, now)
            return now
        turn = _Turn(now)
        self._queue.append(turn)
        try:
            with waiting_in_line() as context:
                return await self._wait(turn, context, clock)
        finally:
            self._queue.remove(turn)
            if self._queue:
                self._queue[0].first.set()

    async def _wait(self, turn: _Turn, context: CallContext | None, clock: Clock) -> float:
        if self._queue[0] is not turn:
            await turn.first.wait()
        while True:
            now = clock.monotonic()
            pause = self.throttle.pause_s(now)
            if pause > LONGEST_PAUSE_S or (context is not None and pause and context.outlasts(pause, clock)):
                text = f"the service asks to wait for {pause:.0f} s more"
                again = f"it is asked again in {self.throttle.held_s(now):.0f} s"
                raise ThrottledError(f"{text}: {again}", retry_after_s=pause)
            wait = self.throttle.wait_s(now)
            if wait <= TIMER_S:
                self.throttle.take(now, turn.came)
                return now
            with anyio.CancelScope() as turn.nap:
                await clock.sleep(wait)
            turn.nap = None

    def accepted(self, clock: Clock, sent: float, /) -> None:
        """Learn from an answer to what was sent then; it may let the first of those who wait go at once."""
        now = clock.monotonic()
        self.throttle.accepted(now, sent)
        nap = self._queue[0].nap if self._queue else None
        if nap is not None and self.throttle.wait_s(now) <= TIMER_S:
            nap.cancel()


class Quota:
    """Holds the rate controllers by (account, operation), and what they have learned.

    Each provider has its own unless one is passed: several collectors that use one account share its quota by sharing
    this object. It belongs to one event loop, and to one clock, at a time.
    """

    def __init__(self) -> None:
        self._controllers: dict[tuple[str, str], RateController] = {}

    def controller(self, account: str, operation: str, ceiling: float | None, /) -> RateController:
        """Give the controller of an operation.

        Args:
            account: Whose calls are counted.
            operation: The vendor's name of the call.
            ceiling: Requests per second, infinite for no limit, None where none is known; the lowest asked for holds.
        """
        controller = self._controllers.get((account, operation))
        if controller is None:
            controller = self._controllers[account, operation] = RateController(ceiling)
        elif ceiling is not None:
            controller.throttle.lower(ceiling)
        return controller

    def known(self, account: str, operation: str, ceiling: float | None, /) -> float:
        """Give the requests per second that an operation is known to be held to, without any change; else infinite.

        The arguments are those of ``controller``.
        """
        controller = self._controllers.get((account, operation))
        learned = math.inf if controller is None else controller.throttle.sustained_per_second
        return min(learned, math.inf if ceiling is None else ceiling)


@attrs.frozen
class LimitTransport:
    """Waits for its turn before each attempt, and tells the operation's throttle what came of it."""

    inner: Transport
    account: str
    rates: Mapping[str, Rate]
    quota: Quota
    clock: Clock
    _controllers: dict[str, tuple[Quota, RateController]] = attrs.field(init=False, factory=dict)

    async def send(self, request: Request, /) -> Response:
        """Send when the operation's turn has come; after a refusal the operation pauses for everyone."""
        context = CURRENT.get()
        quota = self.quota if context is None or context.quota is None else context.quota
        known = self._controllers.get(request.operation)
        if known is None or known[0] is not quota:
            known = (quota, quota.controller(self.account, request.operation, self._ceiling(request.operation)))
            self._controllers[request.operation] = known
        controller = known[1]
        throttle = controller.throttle
        sent = None if throttle.open else await controller.acquire(self.clock)
        try:
            response = await self.inner.send(request)
        except ProviderError as error:
            if isinstance(error, ThrottledError):
                if error.retried:  # else it is another operation's: the log-in's
                    throttle.refused(self.clock.monotonic(), sent, error.retry_after_s)
            elif sent is not None and error.status is not None and error.status < 500:
                controller.accepted(self.clock, sent)  # whatever is wrong with it, it was let through
            raise
        if sent is not None:
            controller.accepted(self.clock, sent)
        else:
            throttle.count += 1
            if not throttle.count % _MARK_EVERY:
                throttle.mark(self.clock.monotonic())
        return response

    def _ceiling(self, operation: str) -> float | None:
        rate = self.rates.get(operation) or self.rates.get("*")
        return None if rate is None else rate.per_second

    def known(self, operation: str, quota: Quota | None, /) -> tuple[Hashable, float]:
        """Give what an operation's limit is shared by, and the requests per second that it is known to be held to.

        Args:
            operation: The vendor's name.
            quota: The collector's, where it takes the place of the provider's own.
        """
        quota = quota or self.quota
        return (id(quota), self.account, operation), quota.known(self.account, operation, self._ceiling(operation))
