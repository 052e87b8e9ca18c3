"""What goes wrong between a service and its caller, in process: networks, proxies, gateways, bugs.

Faults of a service itself are those that its emulator injects. Here is what may happen to anyone's requests, as the
library's HTTP transport gives it to the layers above.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

import attrs
from msgspec.structs import replace

from metricsbridge.errors import ResponseTooLargeError, TlsError, TransportError
from metricsbridge.http import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from metricsbridge.http import Request
    from metricsbridge.testing import FakeClock

    Handler = Callable[[Request], Awaitable[Response]]


@attrs.frozen(kw_only=True)
class Exchange:
    """One request that meets a mishap: what a mishap is made of."""

    request: Request
    handler: Handler
    clock: FakeClock
    dice: random.Random

    async def answer(self) -> Response:
        return await self.handler(self.request)


async def _refused(exchange: Exchange) -> Response:
    raise TransportError("can't connect: check the endpoint and the network")


async def _lost(exchange: Exchange) -> Response:
    await exchange.answer()
    raise TransportError("the connection broke")


async def _distrusted(exchange: Exchange) -> Response:
    raise TlsError("the certificate is not trusted: set ca_file")


async def _hanging(exchange: Exchange) -> Response:
    await exchange.clock.sleep(60)
    raise TransportError("no whole answer within 60 s: raise timeout")


async def _late(exchange: Exchange) -> Response:
    await exchange.clock.sleep(exchange.dice.uniform(0.1, 40))
    return await exchange.answer()


async def _cut(exchange: Exchange) -> Response:
    """Lose the end of the body under a length that fits, as a cache does that kept half an answer."""
    answer = await exchange.answer()
    return replace(answer, body=answer.body[: exchange.dice.randrange(max(1, len(answer.body)))])


async def _too_large(exchange: Exchange) -> Response:
    raise ResponseTooLargeError("the answer is too large: raise max_body", status=200)


async def _throttled(exchange: Exchange) -> Response:
    """Ask to wait in each of the forms there are, and in some that are none."""
    at = formatdate(exchange.clock.now_ms() / 1000 + exchange.dice.uniform(-5, 100), usegmt=True)
    wait = exchange.dice.choice(["0", "1", "7.5", "200", "301", "5000", "-1", "soon", "", at])
    return Response(429, {"Retry-After": wait}, b"slow down")


async def _caught_exception(exchange: Exchange) -> Response:
    raise ValueError("a bug somewhere below")


async def _foreign_cancellation(exchange: Exchange) -> Response:
    raise asyncio.CancelledError


def _always(status: int, body: bytes = b"", **headers: str) -> Callable[[Exchange], Awaitable[Response]]:
    async def answer(exchange: Exchange) -> Response:
        return Response(status, headers, body)

    return answer


_PAGE: Final = b"<html><head><title>Sign in</title></head><body>proxy</body></html>"

MISHAPS: Final[Mapping[str, Callable[[Exchange], Awaitable[Response]]]] = {
    "refused": _refused,
    "lost": _lost,
    "distrusted": _distrusted,
    "hanging": _hanging,
    "late": _late,
    "cut": _cut,
    "too large": _too_large,
    "throttled": _throttled,
    "bug": _caught_exception,
    "foreign cancellation": _foreign_cancellation,
    "unauthorized": _always(401, b"{}"),
    "forbidden": _always(403, b"{}"),
    "redirected": _always(302, Location="https://elsewhere.example.test/login"),
    "proxy page": _always(200, _PAGE, **{"Content-Type": "text/html"}),
    "proxy failure": _always(502, _PAGE, **{"Content-Type": "text/html"}),
    "proxy sign-in": _always(407, _PAGE),
    "nested": _always(200, b"[" * 20_000 + b"]" * 20_000),
    "blank": _always(200, b" \r\n"),
    "other document": _always(200, b'{"hello": ["world", null, 1e308]}'),
    "no object": _always(200, b"null"),
}


@attrs.define(kw_only=True, eq=False)
class Mishaps:
    """Which requests meet which mishap: the n-th of an operation to a path is drawn by the seed alone.

    Attributes:
        rates: Mishap to the share of requests that meet it; empty, nothing happens.
        seed: What the draws depend on.
        most_in_a_row: After so many on one operation and path the next request passes.
        before: Called before each request.
        met: Mishap to how often it happened.
    """

    rates: Mapping[str, float]
    seed: int
    most_in_a_row: int
    before: Callable[[], None] = attrs.field(default=lambda: None)
    met: Counter[str] = attrs.field(init=False, factory=Counter)
    _seen: Counter[tuple[str, str]] = attrs.field(init=False, factory=Counter)
    _in_a_row: Counter[tuple[str, str]] = attrs.field(init=False, factory=Counter)

    def around(self, handler: Handler, clock: FakeClock) -> Handler:
        """Give a handler that has them."""

        async def handle(request: Request) -> Response:
            self.before()
            where = (request.operation, request.url)
            self._seen[where] += 1
            dice = random.Random(f"{self.seed}/{where}/{self._seen[where]}")
            kind = self._draw(dice.random())
            if not kind or self._in_a_row[where] >= self.most_in_a_row:
                self._in_a_row[where] = 0
                return await handler(request)
            self._in_a_row[where] += 1
            self.met[kind] += 1
            return await MISHAPS[kind](Exchange(request=request, handler=handler, clock=clock, dice=dice))

        return handle

    def _draw(self, point: float) -> str:
        for kind, rate in self.rates.items():
            point -= rate
            if point < 0:
                return kind
        return ""
