"""A clock on which waits are free."""

from __future__ import annotations

import heapq
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import Iterator

_YIELDS = 20
"""How often the earliest sleeper lets others run before it moves the time on."""


class FakeClock:
    """Time that moves only when someone sleeps: the earliest sleeper wakes first, at exactly its time.

    Args:
        now_ms: The wall-clock time at the beginning, ms since the epoch; by default 2024-01-15 08:30 UTC.
    """

    def __init__(self, now_ms: int = 1_705_307_400_000) -> None:
        self._start_ms = now_ms
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int]] = []
        self._ids = 0
        self._deadlines: dict[anyio.CancelScope, float] = {}

    def now_ms(self) -> int:
        """Give the wall-clock time in milliseconds since the epoch."""
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        """Give the seconds that have passed since the beginning."""
        return self._elapsed

    def advance(self, seconds: float, /) -> None:
        """Move the time on; scopes whose deadline has come are cancelled."""
        self._reach(self._elapsed + seconds)

    def _reach(self, elapsed: float) -> None:
        self._elapsed = max(self._elapsed, elapsed)
        for scope, deadline in self._deadlines.items():
            if deadline <= self._elapsed:
                scope.cancel()

    async def sleep(self, seconds: float, /) -> None:
        """Let the time pass without waiting for it, after all who would wake earlier."""
        self._ids += 1
        entry = (self._elapsed + max(0.0, seconds), self._ids)
        heapq.heappush(self._sleepers, entry)
        try:
            while self._elapsed < entry[0]:
                await self._turn(entry)
                # A deadline on the way comes first; whoever it cancels wakes then.
                stops = [at for at in self._deadlines.values() if self._elapsed < at < entry[0]]
                self._reach(min(stops, default=entry[0]))
            await anyio.lowlevel.checkpoint()
        finally:
            self._sleepers.remove(entry)
            heapq.heapify(self._sleepers)

    async def _turn(self, entry: tuple[float, int]) -> None:
        """Wait until this sleeper is the earliest, and has let the others run for a while."""
        turns = 0
        while turns < _YIELDS and self._elapsed < entry[0]:
            await anyio.lowlevel.checkpoint()
            turns = turns + 1 if self._sleepers[0] == entry else 0

    @contextmanager
    def deadline(self, seconds: float | None, /) -> Iterator[anyio.CancelScope]:
        """Give a scope that is cancelled when the time has moved on so far."""
        with anyio.CancelScope() as scope:
            self.move(scope, seconds)
            try:
                yield scope
            finally:
                del self._deadlines[scope]

    def move(self, scope: anyio.CancelScope, seconds: float | None, /) -> None:
        """Let a scope that ``deadline`` gave be cancelled when the time has moved on so far from now."""
        self._deadlines[scope] = math.inf if seconds is None else self._elapsed + seconds
        self._reach(self._elapsed)  # a deadline that has passed already counts at once
