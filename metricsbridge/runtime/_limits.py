"""Rate limits: one controller per (account, operation), shared through a Quota."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.errors import ThrottledError
from metricsbridge.runtime._context import CURRENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.http import Request, Response
    from metricsbridge.protocols import Clock, Rate, Transport

_TIMER_S: Final = 0.001
"""Shorter waits are skipped: no timer is that exact. The slot stays reserved, so the mean rate holds."""

LONGEST_PAUSE_S: Final = 300.0
"""For a longer pause nobody waits: whoever comes meanwhile fails at once."""

_UNHINTED_PAUSE_S: Final = 1.0
"""How long everyone pauses after a throttle answer that names no wait."""


class RateController:
    """Spaces the requests of one operation evenly, and pauses all of them when the vendor says so."""

    def __init__(self, per_second: float) -> None:
        self._interval_s = 1 / per_second
        self._next_slot = -math.inf
        self._paused_until = -math.inf

    @property
    def per_second(self) -> float:
        """The rate that is held."""
        return math.inf if self._interval_s == 0 else 1 / self._interval_s

    def lower(self, per_second: float, /) -> None:
        """Take a lower rate; a higher one is not taken: whoever shares an account keeps to the strictest word."""
        self._interval_s = max(self._interval_s, 1 / per_second)

    @property
    def idle(self) -> bool:
        """Whether nobody ever needs to wait: no rate is held and no pause was asked for."""
        return not self._interval_s and self._paused_until == -math.inf

    async def acquire(self, clock: Clock, /) -> None:
        """Wait for a slot; cancelled while waiting, it gives the slot back.

        A slot that a pause swallows is lost: whoever had it takes another one, so nothing bursts when the pause ends.

        Raises:
            ThrottledError: The vendor asked for a pause that is too long to wait for.
        """
        while True:
            now = clock.monotonic()
            pause = self._paused_until - now
            if pause > LONGEST_PAUSE_S:
                raise ThrottledError(f"the service asks to wait for {pause:.0f} s more", retry_after_s=pause)
            if pause > 0:
                await clock.sleep(pause)
                continue
            if not self._interval_s:
                return
            slot = max(self._next_slot, now)
            self._next_slot = slot + self._interval_s
            if slot - now <= _TIMER_S:
                return
            try:
                await clock.sleep(slot - now)
            except BaseException:
                self._next_slot -= self._interval_s
                raise
            if self._paused_until <= clock.monotonic():
                return

    def pause(self, clock: Clock, seconds: float, /) -> None:
        """Let nobody begin for so many seconds."""
        self._paused_until = max(self._paused_until, clock.monotonic() + seconds)


class Quota:
    """Holds the rate controllers by (account, operation).

    Each provider has its own unless one is passed: several collectors that use one account share its quota by sharing
    this object. It belongs to one event loop at a time.
    """

    def __init__(self) -> None:
        self._controllers: dict[tuple[str, str], RateController] = {}

    def controller(self, account: str, operation: str, per_second: float, /) -> RateController:
        """Give the controller of an operation; the lowest of the rates asked for holds."""
        controller = self._controllers.get((account, operation))
        if controller is None:
            controller = self._controllers[account, operation] = RateController(per_second)
        elif per_second < controller.per_second:
            controller.lower(per_second)
        return controller


@attrs.frozen
class LimitTransport:
    """Waits for its turn before each attempt."""

    inner: Transport
    account: str
    rates: Mapping[str, Rate]
    quota: Quota
    clock: Clock
    _controllers: dict[str, tuple[Quota, RateController]] = attrs.field(init=False, factory=dict)

    async def send(self, request: Request, /) -> Response:
        """Send when the operation's turn has come; after a throttle answer the operation pauses for everyone."""
        context = CURRENT.get()
        quota = self.quota if context is None or context.quota is None else context.quota
        known = self._controllers.get(request.operation)
        if known is None or known[0] is not quota:
            rate = self.rates.get(request.operation) or self.rates.get("*")
            per_second = math.inf if rate is None else rate.per_second
            known = (quota, quota.controller(self.account, request.operation, per_second))
            self._controllers[request.operation] = known
        controller = known[1]
        if not controller.idle:
            await controller.acquire(self.clock)
        try:
            return await self.inner.send(request)
        except ThrottledError as error:
            if not error.retried:  # another operation's: the log-in's
                raise
            controller.pause(self.clock, _UNHINTED_PAUSE_S if error.retry_after_s is None else error.retry_after_s)
            raise
