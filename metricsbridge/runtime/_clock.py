"""The system's clock: the one place that reads the time."""

from __future__ import annotations

import time

import anyio
import attrs


@attrs.frozen
class SystemClock:
    """Real time and real waiting."""

    def now_ms(self) -> int:
        """Give the wall-clock time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Give seconds that never go backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""
        await anyio.sleep(seconds)

    def deadline(self, seconds: float | None, /) -> anyio.CancelScope:
        """Give a scope that is cancelled when so many seconds have passed; None never cancels it."""
        return anyio.move_on_after(seconds)

    def move(self, scope: anyio.CancelScope, seconds: float | None, /) -> None:
        """Let a scope that ``deadline`` gave be cancelled when so many seconds have passed from now."""
        scope.deadline = anyio.move_on_after(seconds).deadline
