"""Work that would hold up the event loop, done in a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio.to_thread

from metricsbridge.collection import assemble
from metricsbridge.series.columns import SeriesBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metricsbridge.collection import Collection, Gathering, Order, Outcome
    from metricsbridge.model import Window
    from metricsbridge.protocols import Clock

T = TypeVar("T")

MANY: Final = 32_768
"""Samples from which on they are worked on in a thread: where memory is new, that takes some milliseconds."""


async def in_thread(work: Callable[[], T], limiter: anyio.CapacityLimiter | None = None, /) -> T:
    """Give what the work gives; cancelled meanwhile, it is waited for all the same.

    Args:
        work: Pure; what takes long in it should let go of the interpreter's lock, as NumPy and the kernel do.
        limiter: Says how many at once; by default that of all threads of the loop.
    """
    return await anyio.to_thread.run_sync(work, limiter=limiter)


async def aside(work: Callable[[], T], samples: int, /) -> T:
    """Give what the work gives, done in a thread where it is about very many samples."""
    return work() if samples < MANY else await in_thread(work)


async def assembled(outcomes: Sequence[tuple[Order, Outcome]], window: Window | None, clock: Clock, /) -> Collection:
    """Put a collection together, in a thread where it is large: all of its samples are copied."""
    samples = sum([len(outcome.values) for _, outcome in outcomes if isinstance(outcome, SeriesBatch)])
    return await aside(partial(assemble, outcomes, window, clock.now_ms()), samples)


async def finished(gathering: Gathering, window: Window | None, clock: Clock, /) -> Collection:
    """Put all that was gathered in order, in the same way."""
    return await aside(partial(gathering.finish, window, clock.now_ms()), gathering.samples)
