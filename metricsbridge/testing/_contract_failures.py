"""Checks of what a provider makes of refusals, of broken answers, and of being cancelled."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import attrs
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from metricsbridge.errors import (
    AuthenticationError,
    DecodeError,
    InvalidRequestError,
    MetricsBridgeError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    ServiceUnavailableError,
    TransportError,
)
from metricsbridge.http import Response
from metricsbridge.model import Job, JobSearch
from metricsbridge.protocols import SupportsJobSearch
from metricsbridge.series.columns import SeriesBatch
from metricsbridge.testing import strategies
from metricsbridge.testing._contract_hooks import Bench, ContractHooks
from metricsbridge.testing._contract_series import same_series

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from metricsbridge.http import Request

    Operation = Callable[[], Awaitable[Any]]

REFUSALS: Final[Mapping[int, type[ProviderError]]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
}
_BODIES: Final = (b"", strategies.PAGE, b'{"message": "refused"}', b"[]", b"null", b'{"error": 1}', b"\xff\xfe")
_WAIT_S: Final = 7
_MOST_ATTEMPTS: Final = 7
"""So often the library sends one request."""

_DRAWN: Final = hypothesis.settings(
    max_examples=6, deadline=None, derandomize=True, database=None, phases=(hypothesis.Phase.generate,)
)
"""The same bodies each time; they are short of nothing that shrinking would add."""

_BODIES_DRAWN: Final = 15


class FailureChecks(ContractHooks):
    """What goes wrong is retried, or raised as what it is; nothing else happens."""

    async def operations(self, bench: Bench) -> dict[str, Operation]:
        """Give what a provider does over its transport, by name; the credential is there already."""
        subject = self.subjects()[0]
        provider, id = bench.provider, self.job_id(bench.fleet, subject)
        calls = [call for level in self.levels() for call in (await self.calls_of(bench, subject, level))[:1]]
        assert calls, "nothing is planned for a job of the fleet: plan what is served"

        async def fetch_first() -> Any:
            return await provider.fetch(calls[0])

        async def describe() -> Any:
            return await provider.get_job(id)

        found: dict[str, Operation] = {"get_job": describe, "fetch": fetch_first}
        if isinstance(provider, SupportsJobSearch):

            async def search() -> Any:
                async with aclosing(provider.list_jobs(JobSearch(limit=3))) as jobs:  # type: ignore[type-var]  # a generator
                    return [job async for job in jobs]

            found["list_jobs"] = search
        return found

    def test_a_throttled_request_is_tried_again_after_the_wait(self) -> None:
        """HTTP 429 with ``Retry-After`` costs that wait and nothing else."""
        self._check_passing(lambda: Response(429, {"Retry-After": str(_WAIT_S)}, b""), wait_s=_WAIT_S)

    def test_a_service_that_fails_for_a_while_is_tried_again(self) -> None:
        """HTTP 503, 500 and a cut connection cost nothing but time."""
        self._check_passing(lambda: Response(503, {"Retry-After": str(_WAIT_S)}, strategies.PAGE), wait_s=_WAIT_S)
        self._check_passing(lambda: Response(500, {}, b""))

        def cut() -> Response:
            raise TransportError("the connection was cut")

        self._check_passing(cut)

    def _check_passing(self, fail: Callable[[], Response], wait_s: float = 0.0) -> None:
        async def check() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():
                    usual = await operation()
                    failed: list[Request] = []

                    async def once(request: Request, failed: list[Request] = failed) -> Response:
                        failed.append(request)
                        return fail() if len(failed) == 1 else await bench.wire.answer(request)

                    before, bench.wire.between = bench.clock.monotonic(), once
                    try:
                        found = await operation()
                    except ProviderError as error:
                        pytest.fail(
                            f"{name} gives up at once ({type(error).__name__}: {error}): classify 429 as "
                            "ThrottledError and 5xx as ServiceUnavailableError, both by make_error, and catch neither"
                        )
                    finally:
                        bench.wire.between = None
                    waited = bench.clock.monotonic() - before
                    assert waited >= wait_s, f"{name} waited {waited} s of {wait_s}: keep Retry-After, by make_error"
                    assert _same(found, usual), f"{name} gives something else after a failure that passed"

        self.run(check)

    def test_only_the_library_tries_again(self) -> None:
        """A service that fails for good is asked as often as the library asks, and its error is raised."""

        async def check() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():
                    before = len(bench.wire.requests)

                    async def fail(request: Request) -> Response:
                        return Response(503, {}, b"")

                    bench.wire.between = fail
                    try:
                        found = await operation()
                    except ServiceUnavailableError:
                        sent = len(bench.wire.requests) - before
                        if sent > _MOST_ATTEMPTS:
                            pytest.fail(
                                f"{name} sends {sent} requests to a service that fails: leave it to the library"
                            )
                    except ProviderError as error:
                        pytest.fail(f"{name}: HTTP 503 is {type(error).__name__}, not ServiceUnavailableError")
                    else:
                        pytest.fail(f"{name}: a service that fails for good gives {found!r}: let the error pass")
                    bench.wire.between = None

        self.run(check)

    def test_a_refusal_is_an_error_of_its_class(self) -> None:
        """HTTP 400, 401, 403 and 404 are raised as the errors that they are, from every operation."""

        async def check() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():
                    for status, wanted in {**REFUSALS, **self.refusals}.items():

                        async def refuse(request: Request, status: int = status) -> Response:
                            return Response(status, {}, b"")

                        bench.wire.between = refuse
                        try:
                            found = await operation()
                        except wanted:
                            pass
                        except ProviderError as error:
                            pytest.fail(f"{name}: HTTP {status} is {type(error).__name__}, not {wanted.__name__}")
                        else:
                            pytest.fail(f"{name}: HTTP {status} gives {found!r}: raise {wanted.__name__}")
                        bench.wire.between = None

        self.run(check)

    def test_whatever_stands_in_a_refusal_it_is_classified(self) -> None:
        """``classify`` reads the body of an error, and copes with any; a success is none."""
        classify = self.the_spec().classify
        for status, wanted in {**REFUSALS, **self.refusals}.items():
            for body in _BODIES:
                try:
                    error = classify(Response(status, {}, body))
                except Exception as crash:
                    pytest.fail(f"classify breaks at HTTP {status} with {body[:30]!r}: {type(crash).__name__}: {crash}")
                assert isinstance(error, wanted), f"classify makes {error!r} of HTTP {status}, not {wanted.__name__}"
        for body in _BODIES:
            assert classify(Response(502, {}, body)) is not None, "classify makes a success of HTTP 502"

    def test_a_page_in_place_of_an_answer_is_a_decode_error(self) -> None:
        """A gateway's HTML with HTTP 200, or JSON that is cut off, is a ``DecodeError``."""

        async def check() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():
                    for kind in ("page", "cut"):

                        async def broken(request: Request, kind: str = kind) -> Response:
                            body = (await bench.wire.answer(request)).body
                            cut = body[: len(body) // 2] if strategies.is_json(body) and len(body) > 2 else b"<"
                            return Response(200, {}, strategies.PAGE if kind == "page" else cut)

                        bench.wire.between = broken
                        try:
                            found = await operation()
                        except DecodeError:
                            pass
                        except Exception as error:
                            pytest.fail(
                                f"{name}: a broken body is {type(error).__name__}: {error}; decode with decode_json or "
                                "one of the decoders of series, which raise DecodeError"
                            )
                        else:
                            pytest.fail(f"{name}: a broken body gives {found!r}: raise DecodeError")
                        bench.wire.between = None

        self.run(check)

    def test_no_broken_answer_crashes(self) -> None:
        """Bodies cut off, with bits turned over or values of another type give a library error or sound values."""
        bodies: dict[str, bytes] = {}

        async def keep() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():

                    async def keeping(request: Request, name: str = name) -> Response:
                        response = await bench.wire.answer(request)
                        bodies.setdefault(name, response.body)
                        return response

                    bench.wire.between = keeping
                    await operation()

        self.run(keep)
        for name, body in bodies.items():
            self._check_broken(name, body)

    def _check_broken(self, name: str, body: bytes) -> None:
        @_DRAWN
        @hypothesis.given(st.lists(strategies.broken_payloads(body), min_size=_BODIES_DRAWN, max_size=_BODIES_DRAWN))
        def check(payloads: list[bytes]) -> None:
            async def survive() -> None:
                async with self.open() as bench:
                    operation = (await self.operations(bench))[name]
                    for payload in payloads:
                        await _survive(bench, name, operation, payload)

            self.run(survive)

        check()

    def test_cancellation_passes_at_every_send(self) -> None:
        """A cancelled operation ends at once, wherever it is, and the next one works as ever."""

        async def check() -> None:
            async with self.open() as bench:
                for name, operation in (await self.operations(bench)).items():
                    before, usual = len(bench.wire.requests), await operation()
                    for place in range(len(bench.wire.requests) - before):
                        await self._cancel(bench, name, operation, place)
                        assert _same(await operation(), usual), (
                            f"{name} gives something else after it was cancelled: keep no state between calls"
                        )

        self.run(check)

    async def _cancel(self, bench: Bench, name: str, operation: Operation, place: int) -> None:
        begun = len(bench.wire.requests)
        scope = anyio.CancelScope()

        async def cancelling(request: Request) -> Response:
            if len(bench.wire.requests) - begun == place + 1:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
            return await bench.wire.answer(request)

        bench.wire.between = cancelling
        with scope:
            try:
                await operation()
            except Exception as error:
                pytest.fail(f"{name} turns a cancellation into {type(error).__name__}: let it pass")
        bench.wire.between = None
        assert scope.cancelled_caught, f"{name} swallows a cancellation: let it pass, and catch Exception at the most"


async def _survive(bench: Bench, name: str, operation: Operation, payload: bytes) -> None:
    """Answer the first request of an operation with a body, and look at what comes of it."""

    async def broken(request: Request) -> Response:
        bench.wire.between = None
        return Response(200, {}, payload)

    bench.wire.between = broken
    try:
        found = await operation()
    except MetricsBridgeError:
        return
    except Exception as error:
        pytest.fail(
            f"{name} breaks with {type(error).__name__}: {error}, where the answer is {payload[:300]!r}; say what you "
            "expect with attrs classes and decode_json, or with a decoder of series"
        )
    finally:
        bench.wire.between = None
    _check_sound(found)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, SeriesBatch) and isinstance(right, SeriesBatch):
        return same_series(left, right)
    return bool(_without_payload(left) == _without_payload(right))


def _without_payload(found: Any) -> Any:
    """Give jobs without the provider's own, in which it may have noted when they were described."""
    if isinstance(found, list):
        return [_without_payload(each) for each in found]
    return attrs.evolve(found, payload=None) if isinstance(found, Job) else found


def _check_sound(found: Any) -> None:
    """Hold what came of a broken answer against what the library can work with."""
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, Job):
            times = (each.create_time_ms, each.start_time_ms, each.end_time_ms)
            assert isinstance(each.id, str), f"a broken answer gives a job with the id {each.id!r}"
            assert isinstance(each.tasks, tuple), "a broken answer gives a job without a tuple of tasks"
            assert all(time is None or type(time) is int for time in times), f"a broken answer gives the times {times}"
            assert all(isinstance(task.id, str) for task in each.tasks), "a broken answer gives a task without an id"
        else:
            assert isinstance(each, SeriesBatch), f"a broken answer gives {type(each).__name__}"
            assert bool((np.diff(each.offsets) >= 0).all()), "a broken answer gives a batch whose offsets fall"
            assert all(isinstance(key.task, str) for key in each.keys), "a broken answer gives a task without an id"
