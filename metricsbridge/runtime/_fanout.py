"""Bounded, fair fan-out over one lazy list of work, in which work may bring forth more work."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import anyio
import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from anyio.abc import TaskGroup

T = TypeVar("T")


@attrs.define(eq=False)
class _Branch(Generic[T]):
    """The list itself, or one item's children: what is left of it, and how many of it are being worked on."""

    items: Iterator[T]
    busy: int = 0


_BUSY: Final = attrgetter("busy")


class FanOut(Generic[T]):
    """Workers that pull from one list.

    An item's children come before the next item of the list, and older children before younger ones, so the list is
    read only as fast as the work gets done and few items are half done. But nothing takes all places: while there is
    other work, the oldest item's children have half of the places at most, the next one's half of those that the older
    ones leave, and so on; if they hang, the others go on. Where there is nothing else, they take whatever is free. No
    worker waits for another's children.

    Args:
        items: The work, read lazily.
        handle: Does one item and gives its children; raises only to end everything.
        last: Gives what is left to do once the list's own items are done and nothing else is left to begin; asked until
            it gives nothing.
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
        self._list = _Branch(items)
        self._branches = [self._list]  # the oldest first; the list itself stays behind them until it is read
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
        while self._branches or self._push(self._last()):
            branches, self._branches = self._branches, []
            yield from chain.from_iterable([branch.items for branch in branches])

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
            branch, number, item = found
            children = await self._handle(item)
            branch.busy -= 1
            del self._busy[number]
            if (children and self._push(children)) or not self._busy:
                self._wake()

    def _next(self) -> tuple[_Branch[T], int, T] | None:
        while True:
            while self._branches:
                left = self._workers - len(self._busy) + sum(map(_BUSY, self._branches))
                for branch in self._branches:
                    if 2 * branch.busy < left:
                        break
                    left -= branch.busy
                else:
                    branch = min(self._branches, key=_BUSY)
                for item in branch.items:
                    self._taken += 1
                    self._busy[self._taken] = item
                    branch.busy += 1
                    return branch, self._taken, item
                self._branches.remove(branch)
            if self._list.busy or not self._push(self._last()):
                return None

    def _push(self, children: Iterable[T]) -> bool:
        if isinstance(children, (tuple, list)) and not children:
            return False
        behind = bool(self._branches) and self._branches[-1] is self._list
        self._branches.insert(len(self._branches) - behind, _Branch(iter(children)))
        return True

    def _wake(self) -> None:
        if self._waiting:
            self._changed.set()
            self._changed = anyio.Event()
