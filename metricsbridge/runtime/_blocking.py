"""Asynchronous work for those who wait for it: in an event loop of its own, wherever they are."""

from __future__ import annotations

from asyncio import get_running_loop
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


def run_blocking(work: Callable[[], Awaitable[T]], /) -> T:
    """Do the work to its end and give what it gives.

    In a thread in which a loop runs already (a notebook's), which can run no other, the work gets a thread of its own.
    Whatever ends the waiting (Ctrl-C) cancels the work, lets it clean up, and ends its thread.
    """
    try:
        get_running_loop()
    except RuntimeError:
        return anyio.run(work)
    with start_blocking_portal() as portal:
        return portal.start_task_soon(work).result()
