"""The fake transport: an ordinary function in place of the network."""

from __future__ import annotations

import pytest

from metricsbridge.errors import TransportError
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeClock, FakeTransport

ASK = Request("GET", "http://host/x")


async def test_a_function_answers() -> None:
    transport = FakeTransport(lambda request: Response(200, {"X-A": "b"}, request.url.encode()))
    response = await transport.send(ASK)
    assert (response.status, response.headers["x-a"], response.body) == (200, "b", b"http://host/x")
    assert transport.requests == [ASK]


async def test_a_coroutine_function_answers_on_the_clock() -> None:
    clock = FakeClock(5_000)

    async def handler(request: Request) -> Response:
        await clock.sleep(2)
        return Response(204)

    assert (await FakeTransport(handler, clock=clock).send(ASK)).received_ms == 7_000


async def test_an_answer_that_says_when_it_was_received_keeps_its_word() -> None:
    assert (await FakeTransport(lambda request: Response(200, {}, b"", 42)).send(ASK)).received_ms == 42


async def test_what_the_function_raises_is_raised() -> None:
    def handler(request: Request) -> Response:
        raise TransportError("cut")

    with pytest.raises(TransportError, match="cut"):
        await FakeTransport(handler).send(ASK)
