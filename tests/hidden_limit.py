"""A service whose rate nobody knows and that changes, and what a collection gets out of it.

``python tests/hidden_limit.py`` prints the table that stands in benchmarks/README.md.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import attrs

from metricsbridge.http import Request, Response, classify_by_status
from metricsbridge.runtime._answers import ClassifyTransport
from metricsbridge.runtime._limits import LimitTransport, Quota
from metricsbridge.runtime._retry import RetryTransport
from metricsbridge.testing import FakeTransport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from metricsbridge.protocols import Clock

WORKERS = 64
LEFT_OUT_S = 10.0
"""After each change so much time is given to find out."""

PHASES = ((60.0, 20.0), (60.0, 5.0), (60.0, 50.0))
"""Seconds, and the requests per second that the service takes during them."""

_TICK_S = 0.01
"""Whoever sleeps reads the time so often."""

_TURNS = 15
"""So many turns of the event loop let everyone do what can be done at one moment."""


class SteppedClock:
    """Time that its driver moves on to the next who wakes; thousands of sleeps cost little."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, anyio.Event]] = []

    def now_ms(self) -> int:
        return round(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float, /) -> None:
        entry = (self._now + max(0.0, seconds), next(self._order), anyio.Event())
        heapq.heappush(self._sleepers, entry)
        await entry[2].wait()

    def deadline(self, seconds: float | None, /) -> AbstractContextManager[anyio.CancelScope]:
        return nullcontext(anyio.CancelScope())

    def move(self, scope: anyio.CancelScope, seconds: float | None, /) -> None:
        return None

    async def drive(self, until: float) -> None:
        """Let the time pass, as long as somebody sleeps."""
        while self._now < until:
            for _ in range(_TURNS):
                await anyio.lowlevel.checkpoint()
            if not self._sleepers:
                return
            self._now, _, event = heapq.heappop(self._sleepers)
            event.set()


class UnstalledClock:
    """The machine's time, but for what the machine keeps the program from running: service and client miss the same."""

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self._read = machine.monotonic()
        self._now = 0.0

    def now_ms(self) -> int:
        return round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        read = self._machine.monotonic()
        self._now += min(read - self._read, 2 * _TICK_S)
        self._read = read
        return self._now

    async def sleep(self, seconds: float, /) -> None:
        """Wait, and read the time so often that only a stall is longer than what is counted."""
        until = self.monotonic() + seconds
        while (left := until - self.monotonic()) > 0:
            await self._machine.sleep(min(left, _TICK_S))

    def deadline(self, seconds: float | None, /) -> AbstractContextManager[anyio.CancelScope]:
        return nullcontext(anyio.CancelScope())

    drive = sleep


class HiddenBucket:
    """A token bucket that keeps one second's worth, and whose rate changes.

    Args:
        phases: Seconds and rate, one after the other.
        begun: When the first begins.
    """

    def __init__(self, phases: Sequence[tuple[float, float]], begun: float) -> None:
        ends = itertools.accumulate((seconds for seconds, _ in phases), initial=begun)
        self.phases = [(start, start + seconds, rate) for start, (seconds, rate) in zip(ends, phases, strict=False)]
        self.answers: list[tuple[float, bool]] = []
        self._at = begun
        self._tokens = phases[0][1]

    def takes(self, now: float) -> bool:
        for start, end, rate in self.phases:
            if start < now and self._at < end:
                self._tokens = min(rate, self._tokens + rate * (min(now, end) - max(self._at, start)))
        self._at = now
        taken = self._tokens >= 1
        self._tokens -= taken
        self.answers.append((now, taken))
        return taken


class RandomRefusals:
    """A service that refuses a share of all requests, however fast or slowly they come."""

    def __init__(self, share: float) -> None:
        self.answers: list[tuple[float, bool]] = []
        self._share = share
        self._dice = random.Random(7)

    def takes(self, now: float) -> bool:
        self.answers.append((now, self._dice.random() >= self._share))
        return self.answers[-1][1]


@attrs.frozen
class Phase:
    """What came of one phase, its beginning left out."""

    rate: float
    calls: int
    refused: int
    throughput: float

    @property
    def good(self) -> bool:
        return self.throughput >= 0.9 and self.refused <= 0.02 * self.calls + 1


def transport(
    bucket: HiddenBucket | RandomRefusals, clock: Clock, *, latency_s: float, hint: str | None, seed: int
) -> RetryTransport:
    """Give the layers of a source over a service that answers after ``latency_s``, refusals with that Retry-After."""

    async def answer(request: Request) -> Response:
        await clock.sleep(latency_s / 2)
        taken = bucket.takes(clock.monotonic())
        await clock.sleep(latency_s / 2)
        return Response(200) if taken else Response(429, {} if hint is None else {"Retry-After": hint})

    service = ClassifyTransport(FakeTransport(answer, clock=clock), classify_by_status)
    limited = LimitTransport(service, "account", {}, Quota(), clock)
    return RetryTransport(limited, "hidden", clock, draw=random.Random(seed))


async def call_endlessly(sender: RetryTransport, workers: int = WORKERS) -> None:
    """Keep ``workers`` calls under way until cancelled."""

    async def work() -> None:
        while True:
            await sender.send(Request("GET", "http://hidden.test/", operation="Op"))

    async with anyio.create_task_group() as tasks:
        for _ in range(workers):
            tasks.start_soon(work)


async def measure(
    phases: Sequence[tuple[float, float]],
    *,
    latency_s: float,
    hint: str | None = None,
    seed: int = 1,
    clock: SteppedClock | UnstalledClock | None = None,
) -> list[Phase]:
    """Call for all of the phases, by default on a stepped clock, and give what came of each."""
    clock = clock or SteppedClock()
    bucket = HiddenBucket(phases, clock.monotonic())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call_endlessly, transport(bucket, clock, latency_s=latency_s, hint=hint, seed=seed))
        await clock.drive(sum(seconds for seconds, _ in phases))
        tasks.cancel_scope.cancel()
    return outcomes(bucket)


def outcomes(bucket: HiddenBucket) -> list[Phase]:
    """Count each phase, its beginning left out."""
    found = []
    for start, end, rate in bucket.phases:
        answers = [taken for at, taken in bucket.answers if start + LEFT_OUT_S <= at < end]
        ideal = rate * (end - start - LEFT_OUT_S)
        found.append(Phase(rate, len(answers), answers.count(False), answers.count(True) / ideal))
    return found


def main() -> None:
    """Print the table, for each latency with hints and without."""
    print("| answers after | hint | calls/s allowed | of the ideal | refused |", "|---|---|---|---|---|", sep="\n")
    for latency_s, hint in itertools.product((0.02, 0.2), (None, "1")):
        for phase in asyncio.run(measure(PHASES, latency_s=latency_s, hint=hint)):
            refused = f"{phase.refused} of {phase.calls} ({phase.refused / phase.calls:.1%})"
            print(
                f"| {latency_s * 1000:.0f} ms | {hint or '–'} | {phase.rate:g} | {phase.throughput:.1%} | {refused} |"
            )


if __name__ == "__main__":
    main()
