"""Bounded fan-out over one lazy list of work, in which work may bring forth more work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from anyio.abc import TaskGroup

T = TypeVar("T")


class FanOut(Generic[T]):
    """Workers that pull from one list.

    An item's children are worked on before the next item of the list is taken, so the list is read only as fast as
    the work gets done. No worker waits for another's children: it takes whatever is there.

    Args:
        items: The work, read lazily.
        handle: Does one item and gives its children; raises only to end everything.
        last: Gives what is left to do once nothing is left and nobody is busy; asked until it gives nothing.
        workers: How many items are worked on at once, at most; each worker is started only when there is an item more.
        enter: Called in each worker's own context before its first item.
    """

    def __init__(
        self,
        items: Iterator[T],
        handle: Callable[[T], Awaitable[Iterable[T]]],
        *,
        workers: int,
        last: Callable[[], Iterable[T]] = tuple,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        self._stack: list[Iterator[T]] = [items]
        self._handle = handle
        self._last = last
        self._enter = enter
        self._workers = workers
        self._started = 0
        self._taken = 0
        self._waiting = 0
        self._changed = anyio.Event()
        self._busy: dict[int, T] = {}

    def start(self, tasks: TaskGroup, /) -> None:
        """Start the first worker in a task group; the others follow when there is work for them."""
        self._started += 1
        tasks.start_soon(self._work, tasks)

    def unfinished(self) -> Iterator[T]:
        """Give the items that were begun and not done, then those that were not begun, after a cancellation."""
        yield from self._busy.values()
        while self._stack or self._push(self._last()):
            yield from self._stack.pop()

    async def _work(self, tasks: TaskGroup) -> None:
        self._enter()
        while True:
            found = self._next()
            if found is None:
                if not self._busy:
                    self._wake()
                    return
                self._waiting += 1
                try:
                    await self._changed.wait()
                finally:
                    self._waiting -= 1
                continue
            if self._started < self._workers and not self._waiting:
                self.start(tasks)
            number, item = found
            children = await self._handle(item)
            del self._busy[number]
            if (children and self._push(children)) or not self._busy:
                self._wake()

    def _next(self) -> tuple[int, T] | None:
        while True:
            while self._stack:
                for item in self._stack[-1]:
                    self._taken += 1
                    self._busy[self._taken] = item
                    return self._taken, item
                self._stack.pop()
            if self._busy or not self._push(self._last()):
                return None

    def _push(self, children: Iterable[T]) -> bool:
        if isinstance(children, (tuple, list)) and not children:
            return False
        self._stack.append(iter(children))
        return True

    def _wake(self) -> None:
        if self._waiting:
            self._changed.set()
            self._changed = anyio.Event()
