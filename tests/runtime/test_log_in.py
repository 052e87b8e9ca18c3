"""A log-in that many wait for is given up by nobody on behalf of the others."""

from __future__ import annotations

import anyio
import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.registry import open_spec
from metricsbridge.testing import FakeClock, FakeTransport
from watched_service import PASSWORD, WATCHED, WINDOW

TOKEN = b'{"token": "an example"}'


@pytest.mark.parametrize("hurried", [{"timeout": 20}, {"call_timeout": 20}])
@pytest.mark.parametrize("status", [503, 429])
async def test_who_has_more_time_does_not_fail_with_who_has_too_little(hurried: dict[str, float], status: int) -> None:
    """The service asks the log-in to come back in 30 s; whoever began it can't wait for that, the others can."""
    clock, log_ins = FakeClock(), 0

    def answer(request: Request) -> Response:
        nonlocal log_ins
        if request.operation != "Login":
            return Response(200, {}, b'{"points": 3, "path": "/"}')
        log_ins += 1
        return Response(200, {}, TOKEN) if log_ins > 1 else Response(status, {"Retry-After": "30"}, b"{}")

    found: list[mb.Collection] = []
    async with open_spec(
        "watched", WATCHED, transport=FakeTransport(answer, clock=clock), password=PASSWORD
    ) as provider:

        async def collect(**bounds: float) -> None:
            found.append(await mb.Collector({"hw": provider}, clock=clock).collect("hw/j", window=WINDOW, **bounds))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: collect(**hurried))
            tasks.start_soon(collect)
    first, second = found
    (failure,) = first.failures
    assert isinstance(failure.error, mb.DeadlineExceededError)
    assert isinstance(failure.error.__cause__, (mb.ThrottledError, mb.ServiceUnavailableError))
    assert clock.monotonic() < 32
    assert second.complete
    assert len(second.series)
    assert log_ins == 2
