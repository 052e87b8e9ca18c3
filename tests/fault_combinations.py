"""Random combinations of what can go wrong with what is asked, each by its seed alone, and what must hold all the same.

Whatever happens, each (job, task, metric) is accounted for once, no value is wrong, nothing outlasts the deadline, no
error tells a secret, no task is left; and once all is well again, the same collector gives the whole truth.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache, partial
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import attrs
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint

import metricsbridge as mb
from emulated_clouds import CLOUDS, RATES, UTILIZATIONS, Cloud
from fake_provider import account
from fleet_cases import KINDS, OF_CLOUDS, Case, opened
from in_process import URL, handler_of
from metricsbridge import accounting, registry
from metricsbridge.collection import assemble
from metricsbridge.runtime import _parts, _source, _stack, _threads
from metricsbridge.runtime._retry import RetryTransport
from metricsbridge.series import pile
from metricsbridge.testing import FakeClock, FakeTransport
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_modelarts import emulator, emulator_v1
from mishaps import MISHAPS, Mishaps
from wire_faults import MAX_BODY, TIMEOUT_S, WIRE_FAULTS, WireFault, gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from aiohttp import web

PASSWORDS: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "modelarts": emulator.password_settings,
    "modelarts-v1": emulator_v1.password_settings,
    "otc-modelarts": emulator_v1.otc_password_settings,
}
"""Clouds that can be logged in to, which gives a token that may expire."""

INSTALLED: Final = cache(entry_points)
SECRETS: Final = ("secret_key", "password", "access_key_secret", "security_token")
OPENERS: Final = ("bug", "foreign cancellation", "other document")
SIZES: Final[Mapping[tuple[Any, str], tuple[int, ...]]] = {
    (_source, "_ALONE"): (0, 8, 40), (_source, "_MOST_WAITING"): (1, 3),
    (_threads, "MANY"): (0, 20, 100), (_parts, "_BUFFER"): (1, 3), (_parts, "_BUFFERED_SAMPLES"): (1, 100),
    (accounting, "_MANY_CALLS"): (0, 2), (pile, "_WHOLE"): (1, 30), (pile, "_CHUNK"): (7, 64), (pile, "_FIRST"): (1, 4),
}  # fmt: skip
HOUR_S: Final = 3_600
LONGEST_S: Final = 60.0
"""In real seconds. A combination takes a tenth of one; whoever hangs shall not hold up the tests for ever."""


@attrs.frozen(kw_only=True)
class Combination:
    """One of them.

    Attributes:
        seed: It is drawn from.
        case: Jobs of a fleet at a cloud, what is asked of them, and the faults of the service.
        mishaps: What goes wrong on the way.
        login: Whether it logs in with a password in place of keys.
        skew_s: How far the service's clock is ahead of the caller's.
        timeout_s: The deadline of the collection, in seconds of the fake clock.
        strict: Whether the first failure ends it.
        cancelled_at: The collection is cancelled when so many requests have been sent.
        streamed: Whether it is read in parts, and how many are read before the reader leaves; 0 is all.
        call_timeout_s: The bound of each call, in seconds of the fake clock.
        sizes: What counts as large or many, by the constant's module and name: very little, so that it is met.
    """

    seed: int
    case: Case
    mishaps: Mishaps
    login: bool
    skew_s: int
    timeout_s: float | None
    strict: bool
    cancelled_at: int | None
    streamed: int | None
    call_timeout_s: float | None
    sizes: Mapping[tuple[Any, str], int]

    @classmethod
    def draw(cls, seed: int) -> Combination:
        dice = random.Random(f"combination/{seed}")
        cloud = dice.choice(CLOUDS)
        login = cloud.provider in PASSWORDS and dice.random() < 0.4
        in_a_row = dice.choice([1, 3, 20])
        kinds = dice.sample(list(MISHAPS), 3)
        rates = {kind: dice.choice([0.02, 0.05, 0.2]) for kind in kinds}
        return cls(
            seed=seed,
            case=_case(cloud, dice, seed, in_a_row, login=login),
            mishaps=Mishaps(rates=rates if dice.random() < 0.85 else {}, seed=seed, most_in_a_row=in_a_row),
            login=login,
            skew_s=dice.choice([0] * 14 + [90, HOUR_S]),
            timeout_s=dice.choice([None, None, 0.0, dice.uniform(0, 2), dice.uniform(0, 100)]),
            strict=dice.random() < 0.15,
            cancelled_at=dice.randrange(1, 12) if dice.random() < 0.15 else None,
            streamed=dice.choice([None, None, None, 0, 0, 1]),
            call_timeout_s=dice.choice([None, None, None, dice.uniform(0, 2), dice.uniform(0, 50)]),
            sizes=dice.choice([{}, {key: dice.choice(sizes) for key, sizes in SIZES.items()}]),
        )

    async def run(self, *, sockets: bool = False) -> str:
        """Live through it, in process or over sockets; gives in short what came of it.

        Raises:
            AssertionError: Something does not hold.
        """
        fleet, cloud = self.case.fleet, self.case.cloud
        clock = FakeClock(fleet.now_ms)
        self.case.faults.sleep = clock.sleep
        app = cloud.create(fleet=fleet, faults=self.case.faults, now_ms=lambda: clock.now_ms() + self.skew_s * 1000)
        # What breaks the caller's own code, and an answer that names no metrics, are the opener's to see.
        begun = {kind: rate for kind, rate in self.mishaps.rates.items() if kind not in OPENERS}
        self.mishaps.rates, later = begun, self.mishaps.rates
        with repeatable(self.seed, self.sizes):
            reached = self._over_sockets(app) if sockets else self._in_process(app, clock)
            async with asyncio.timeout(LONGEST_S), reached as (url, more):
                settings = (PASSWORDS[cloud.provider] if self.login else app[EMULATOR].settings)(url)
                provider = mb.open_provider(cloud.provider, clock=clock, **settings, **more)
                async with opened(provider, clock, unopened=(mb.ProviderError,)) as collector:
                    if collector is None:
                        return "not opened"
                    self.mishaps.rates = later
                    secrets = [str(settings[name]) for name in SECRETS if name in settings]
                    came = await self._collect(collector, clock, secrets, alone=not sockets)
                    await self._recover(collector, clock, surely=not sockets)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return came

    @asynccontextmanager
    async def _in_process(self, app: web.Application, clock: FakeClock) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        app.freeze()
        yield URL, {"transport": FakeTransport(self.mishaps.around(handler_of(app), clock), clock=clock)}

    @asynccontextmanager
    async def _over_sockets(self, app: web.Application) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Let what goes wrong on the way do so on the wire, byte by byte."""
        dice = random.Random(f"wire/{self.seed}")
        faults = dice.sample([fault for fault in WIRE_FAULTS if not fault.timeout], 3)
        if dice.random() < 0.1:
            faults.append(dice.choice([fault for fault in WIRE_FAULTS if fault.timeout]))
        rate = dice.choice([0.05, 0.2])

        def choose() -> WireFault | None:
            self.mishaps.before()
            if not self.mishaps.rates or dice.random() >= rate:
                return None
            fault = dice.choice(faults)
            self.mishaps.met[fault.name] += 1
            return fault

        timeout = TIMEOUT_S if any(fault.timeout for fault in faults) else LONGEST_S
        async with serve(app) as service, gate(service, choose) as url:
            yield url, {"timeout": timeout, "max_body": MAX_BODY}

    async def _collect(self, collector: mb.Collector, clock: FakeClock, secrets: list[str], *, alone: bool) -> str:
        """Collect, and hold what comes of it against the truth; ``alone`` is without servers in the same loop."""
        began, before_ms = clock.monotonic(), clock.now_ms()
        work = asyncio.ensure_future(self._answer(collector))
        sent = 0

        def count() -> None:
            nonlocal sent
            sent += 1
            if sent == self.cancelled_at:
                work.cancel()

        self.mishaps.before = count
        try:
            result = await work
        except asyncio.CancelledError:
            assert self.cancelled_at is not None
            assert sent >= self.cancelled_at
            return "cancelled"
        except ExceptionGroup as group:
            assert self.strict
            told(group.exceptions, secrets)
            return "raised"
        finally:
            self.mishaps.before = lambda: None
            assert not alone or asyncio.all_tasks() == {asyncio.current_task()}
            if self.timeout_s is not None:
                assert clock.monotonic() - began <= self.timeout_s + 1e-6
        if result is None:
            return "left"
        assert not self.strict or not result.failures
        told([failure.error for failure in result.failures], secrets)
        if self.mishaps.met["other document"]:  # a member that is left out may be an empty one
            self.case.faults.injected["empty"] += 1
        if self.mishaps.met:
            self.case.faults.injected["unreadable"] += 1
        self.case.check_result(result, before_ms)
        return digest(result, clock)

    async def _answer(self, collector: mb.Collector) -> mb.Collection | None:
        asked: dict[str, Any] = {
            "metrics": self.case.metrics, "per": self.case.per, "window": self.case.window,
            "timeout": self.timeout_s, "call_timeout": self.call_timeout_s, "strict": self.strict,
        }  # fmt: skip
        if self.streamed is None:
            whole = await collector.collect(self.case.references, **asked)
            for found in ([key.job for key in whole.series.keys], [job.id for job in whole.jobs]):
                places = [self.case.references.index(f"x/{job}") for job in found]
                assert places == sorted(places)
            return whole
        parts: list[mb.Collection] = []
        async with collector.stream(self.case.references, **asked) as stream:
            async for part in stream:
                parts.append(part)
                if len(parts) == self.streamed:
                    return None
        return joined(parts)

    async def _recover(self, collector: mb.Collector, clock: FakeClock, *, surely: bool) -> None:
        """Nothing of what went wrong lasts: neither a lock nor a slot nor a half-known answer."""
        self.mishaps.rates = {}
        self.case.faults.rates = {}
        self.case.faults.injected.clear()
        clock.advance(2 * HOUR_S)
        before_ms = clock.now_ms()
        result = await collector.collect(
            self.case.references, metrics=self.case.metrics, per=self.case.per, window=self.case.window, timeout=HOUR_S
        )
        if surely and self.skew_s < HOUR_S:
            assert result.failures == ()
        self.case.check_result(result, before_ms)


def _case(cloud: Cloud, dice: random.Random, seed: int, in_a_row: int, *, login: bool) -> Case:
    fleet = Fleet(seed=seed, longest_minutes=dice.choice([20, 60]), size=12)
    known = [*KINDS, *OF_CLOUDS.get(cloud.provider, ()), *(("expired-token",) if login else ())]
    kinds = dice.sample(known, dice.randrange(4))
    every = [*UTILIZATIONS, *RATES]
    start_ms = fleet.now_ms - dice.randrange(5, 70) * MINUTE_MS + dice.randrange(MINUTE_MS)
    return Case(
        cloud=cloud,
        fleet=fleet,
        jobs=tuple(dice.sample(fleet.jobs, dice.choice([1, 1, 2, 3]))),
        faults=Faults(
            rates={kind: dice.choice([0.02, 0.1, 0.25]) for kind in kinds}, seed=seed,
            retry_after_s=dice.choice([0, 1, 30, 400]), most_in_a_row=in_a_row,
        ),
        per=dice.choice(["task", "task", "device", "job"]),
        metrics=tuple(dice.sample(every, dice.choice([1, 2, 3, len(every)]))),
        window=dice.choice([None, mb.Window(start_ms, start_ms + dice.randrange(1, 60 * MINUTE_MS))]),
    )  # fmt: skip


@contextmanager
def repeatable(seed: int, sizes: Mapping[tuple[Any, str], int] = MappingProxyType({})) -> Iterator[None]:
    """Let the waits between attempts depend on the seed, and how long a thread takes on nothing.

    What is installed is looked for once.
    """
    waits = random.Random(f"waits/{seed}")
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(_stack, "RetryTransport", partial(RetryTransport, draw=waits)))
        stack.enter_context(mock.patch.object(registry, "entry_points", INSTALLED))
        stack.enter_context(mock.patch.object(_threads, "in_thread", as_in_thread))
        for (module, name), size in sizes.items():
            stack.enter_context(mock.patch.object(module, name, size))
        yield


async def as_in_thread(work: Callable[[], Any], limiter: object = None, /) -> Any:
    """Work at once, but let others run before and after."""
    await checkpoint()
    done = work()
    await cancel_shielded_checkpoint()
    return done


def joined(parts: list[mb.Collection]) -> mb.Collection:
    """Give the parts of a stream as one collection."""
    outcomes = [
        ((0, 0), outcome)
        for part in parts
        for outcome in (*([part.series] if part.series.keys else []), *part.failures, *part.absences, *part.jobs)
    ]
    return assemble(outcomes, None, 0)


def told(errors: Any, secrets: list[str]) -> None:
    """Each error says what happened, of our own words, and tells no secret; its cause neither."""
    for error in errors:
        assert isinstance(error, mb.MetricsBridgeError)
        assert str(error)
        shown: BaseException | None = error
        while shown is not None:
            text = f"{shown} {shown!r}"
            assert not any(secret in text for secret in secrets), type(shown)
            shown = shown.__cause__


def digest(result: mb.Collection, clock: FakeClock) -> str:
    """Give in short what a collection came to, whatever the order in which it did."""
    found, absent, failed = account(result)
    errors = sorted(f"{type(failure.error).__name__} {failure.attempts}" for failure in result.failures)
    whole = repr((sorted(found), sorted(absent), sorted(failed), errors, clock.monotonic(), len(result.series.times)))
    state = "complete" if result.complete else "partial" if found else "nothing"
    return f"{state} {hashlib.blake2b(whole.encode(), digest_size=6).hexdigest()}"
