"""The parts of a stream: what has come about, handed to whoever reads it, with backpressure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import anyio

from metricsbridge.runtime._threads import assembled
from metricsbridge.series.columns import SeriesBatch

if TYPE_CHECKING:
    from metricsbridge.collection import Collection, Order, Outcome
    from metricsbridge.model import Window
    from metricsbridge.protocols import Clock
    from metricsbridge.runtime._run import Run

_BUFFER: Final = 128
"""So many outcomes wait for a slow consumer before the work waits too."""

_BUFFERED_SAMPLES: Final = 2**20
"""So many samples, likewise: 16 MiB."""


class Parts:
    """What a stream gives: whatever has come about since the last part was taken."""

    def __init__(self, window: Window | None, clock: Clock) -> None:
        self._window = window
        self._clock = clock
        self._outcomes: list[tuple[Order, Outcome]] = []
        self._samples = 0
        self._done = False
        self._hungry = False
        self._error: Exception | None = None
        self._filled = anyio.Event()
        self._taken = anyio.Event()

    def put(self, order: Order, outcome: Outcome) -> None:
        """Add an outcome to the next part."""
        self._outcomes.append((order, outcome))
        if isinstance(outcome, SeriesBatch):
            self._samples += len(outcome.times)
        self._filled.set()

    def hurry(self) -> bool:
        """Tell whether the consumer waits for something to take."""
        return self._hungry and not self._outcomes

    async def room(self) -> None:
        """Wait while the consumer is behind."""
        while len(self._outcomes) >= _BUFFER or self._samples >= _BUFFERED_SAMPLES:
            await self._taken.wait()

    async def fill(self, run: Run) -> None:
        """Run the collection; what it raises, the consumer gets."""
        try:
            await run.execute()
        except Exception as error:
            self._error = error
        self._done = True
        self._filled.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Collection:
        while not self._outcomes:
            if self._done:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            if self._filled.is_set():  # others may wait for the same one
                self._filled = anyio.Event()
            self._hungry = True
            try:
                await self._filled.wait()
            finally:
                self._hungry = False
        outcomes, samples, self._outcomes, self._samples = self._outcomes, self._samples, [], 0
        self._taken.set()
        self._taken = anyio.Event()
        try:
            return await assembled(outcomes, self._window, self._clock)
        except BaseException:
            self._outcomes = outcomes + self._outcomes  # cancelled meanwhile: whoever asks again gets them
            self._samples += samples
            self._filled.set()
            raise
