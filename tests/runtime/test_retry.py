"""What passes is tried again, at the right time; what does not, never."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge import errors
from metricsbridge.http import Request, Response
from metricsbridge.runtime._context import CURRENT, CallContext
from metricsbridge.runtime._retry import RetryPolicy, RetryTransport
from metricsbridge.testing import FakeClock

ASK = Request("GET", "http://host/x", operation="Op")
PASSING = [errors.ThrottledError, errors.ServiceUnavailableError, errors.TransportError]
LASTING = [
    errors.AuthenticationError,
    errors.PermissionDeniedError,
    errors.NotFoundError,
    errors.InvalidRequestError,
    errors.TlsError,
    errors.ResponseTooLargeError,
    errors.DecodeError,
    errors.DeadlineExceededError,
]


class Failing:
    """Fails with each of these in turn, then answers."""

    def __init__(self, *failures: errors.ProviderError) -> None:
        self.failures = list(failures)
        self.sent = 0

    async def send(self, request: Request, /) -> Response:
        self.sent += 1
        if self.failures:
            raise self.failures.pop(0)
        return Response(200)


def retrying(inner: Failing, clock: FakeClock, **policy: float) -> RetryTransport:
    return RetryTransport(inner, "acme", clock, RetryPolicy(**policy), random.Random(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PASSING)
async def test_what_passes_is_tried_again(kind: type[errors.ProviderError]) -> None:
    inner, clock = Failing(kind("no"), kind("no")), FakeClock()
    assert (await retrying(inner, clock).send(ASK)).status == 200
    assert inner.sent == 3
    assert clock.monotonic() <= 0.5 + 1.0


@pytest.mark.parametrize("most", [1, 2])
async def test_what_one_can_do_without_is_not_tried_oftener_than_it_says(most: int) -> None:
    inner, clock = Failing(*[errors.TransportError("no")] * 5), FakeClock()
    with pytest.raises(errors.TransportError) as caught:
        await retrying(inner, clock).send(attrs.evolve(ASK, most_attempts=most))
    assert (inner.sent, caught.value.attempts) == (most, most)


@pytest.mark.parametrize("kind", LASTING)
async def test_what_lasts_is_not(kind: type[errors.ProviderError]) -> None:
    inner, clock = Failing(kind("no")), FakeClock()
    with pytest.raises(kind) as caught:
        await retrying(inner, clock).send(ASK)
    assert (inner.sent, clock.monotonic()) == (1, 0)
    assert (caught.value.provider, caught.value.operation, caught.value.attempts) == ("acme", "Op", 1)


async def test_the_last_failure_is_raised_with_the_number_of_attempts() -> None:
    inner = Failing(*[errors.TransportError(str(i)) for i in range(9)])
    with pytest.raises(errors.TransportError, match="6") as caught:
        await retrying(inner, FakeClock()).send(ASK)
    assert caught.value.attempts == inner.sent == 7
    assert "7 attempts" in str(caught.value)


@pytest.mark.parametrize("kind", [errors.ThrottledError, errors.ServiceUnavailableError])
async def test_the_servers_wait_is_honoured(kind: type[errors.ThrottledError]) -> None:
    clock = FakeClock()
    await retrying(Failing(kind("no", retry_after_s=17.5)), clock).send(ASK)
    assert clock.monotonic() == 17.5


async def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    inner, clock = Failing(errors.ThrottledError("no", retry_after_s=3600)), FakeClock()
    with pytest.raises(errors.ThrottledError):
        await retrying(inner, clock).send(ASK)
    assert clock.monotonic() == 0


@given(st.integers(1, 30), st.integers())
def test_waits_are_drawn_below_a_bound_that_doubles_up_to_the_cap(attempt: int, seed: int) -> None:
    policy = RetryPolicy(attempts=100, base_s=0.5, cap_s=20)
    wait = policy.wait_s(errors.TransportError("no"), attempt, random.Random(seed))
    assert wait is not None
    assert 0 <= wait <= min(20, 0.5 * 2 ** (attempt - 1))


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    clock = FakeClock()
    inner = Failing(errors.ThrottledError("no", retry_after_s=30))
    token = CURRENT.set(CallContext(None, clock, deadline=20.0))
    try:
        with pytest.raises(errors.ThrottledError):
            await retrying(inner, clock).send(ASK)
    finally:
        CURRENT.reset(token)
    assert clock.monotonic() == 0


async def test_the_frames_that_hold_signed_headers_stay_out_of_the_traceback() -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        await retrying(Failing(errors.NotFoundError("no")), FakeClock()).send(ASK)
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "send"
    assert names.count("send") == 1
