"""What one source may have in flight: so many requests at once, and so many bytes of large answers."""

from __future__ import annotations

import weakref
from collections import deque

import anyio

from metricsbridge.runtime._context import waiting_in_line


class Slots:
    """Lets so many in at once; the others wait in line.

    Whoever finds ``free`` above 0 may count it down without a call, and back up where nobody is ``waiting``.

    Attributes:
        free: How many more may come in.
        waiting: Whoever waits, the first one first.
    """

    def __init__(self, count: int) -> None:
        self.free = count
        self.waiting: deque[anyio.Event] = deque()

    async def enter(self) -> None:
        """Wait for a place."""
        turn = anyio.Event()
        self.waiting.append(turn)
        try:
            with waiting_in_line():
                await turn.wait()
        except BaseException:
            if turn.is_set():
                self.leave()
            else:
                self.waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Give the place to the first who waits."""
        if self.waiting:
            self.waiting.popleft().set()
        else:
            self.free += 1


class BytesInFlight:
    """Counts the bytes of large answers from their reading until nobody holds the answer any more.

    Who would read beyond the budget waits, but never the one who reads the longest: so reading always goes on, even
    where one answer alone is larger than the budget, or where answers are held for ever.

    Args:
        budget: So many bytes, and the rest of the answer that is read the longest.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._held: dict[object, int] = {}
        self._reading: dict[object, None] = {}
        self._ended = anyio.Event()

    @property
    def held(self) -> int:
        """How many bytes are counted."""
        return sum([*self._held.values()])

    async def take(self, reader: object, size: int, /) -> None:
        """Wait until so many bytes more fit in, and count them; from then on the reader is one."""
        self._reading[reader] = None
        while self.held + size > self._budget and next(iter(self._reading)) is not reader:
            await self._ended.wait()
        self._held[reader] = self._held.get(reader, 0) + size

    def end(self, reader: object, answer: object, /) -> None:
        """Take note that a reader has read all, or has given up where ``answer`` is None.

        Args:
            reader: As for ``take``.
            answer: What lives as long as the answer does.
        """
        self._reading.pop(reader, None)
        if answer is None:
            self._held.pop(reader, None)
        else:
            # It may be called in any thread, so it wakes nobody: the next reader's end does.
            weakref.finalize(answer, self._held.pop, reader, None).atexit = False
        self._ended.set()
        self._ended = anyio.Event()
