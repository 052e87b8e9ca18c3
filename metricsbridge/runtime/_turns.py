"""When a source's requests have their turn: alike work together, and none for longer than allowed."""

from __future__ import annotations

import types
from asyncio import current_task, get_running_loop
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import Task, TimerHandle
    from collections.abc import Generator


@types.coroutine
def next_turn() -> Generator[None, None, None]:
    """Let all others go first who can go on now.

    Where many answers have come, all of them are then worked on, and then all the next requests sent. By turns, each
    kind of work would find the processor's caches full of the other, and every request would wake the service by
    itself: that costs more than it takes to wait.
    """
    yield


class Timeouts:
    """Ends what takes longer than it may, with one timer for all of a source's requests.

    Each may take equally long, so those who began first are the first whose time is up.

    Args:
        seconds: So long each may take; None for no bound.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._begun: dict[Task[object], tuple[float, int]] = {}  # when its time is up, and how often it was cancelled
        self._ended: set[Task[object]] = set()
        self._timer: TimerHandle | None = None

    def begin(self) -> Task[object]:
        """Take the time of what the current task does from now on, and give that task."""
        task = current_task()
        assert task is not None
        if self._seconds is not None:
            loop = task.get_loop()
            self._begun[task] = (loop.time() + self._seconds, task.cancelling())
            if self._timer is None:
                self._timer = loop.call_later(self._seconds, self._cancel)
        return task

    def end(self, task: Task[object], /) -> None:
        """Take no more time of it."""
        self._begun.pop(task, None)
        self._ended.discard(task)

    def is_up(self, task: Task[object], /) -> bool:
        """Tell a cancelled task whether that was because its time is up, and for nothing else; then it goes on."""
        return task in self._ended and task.uncancel() <= self._begun[task][1]

    def close(self) -> None:
        """Let nothing more be ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel(self) -> None:
        loop = get_running_loop()
        now = loop.time()
        self._timer = None
        for task, (end, _) in self._begun.items():
            if end > now:
                self._timer = loop.call_at(end, self._cancel)
                return
            if task not in self._ended:
                self._ended.add(task)
                task.cancel()
