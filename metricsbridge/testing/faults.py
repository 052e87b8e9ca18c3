"""Faults that a simulated service injects: what networks, proxies and gateways do to anyone's API.

``throttle`` (429 with ``Retry-After``), ``unavailable`` (503), ``error`` (500), ``html`` (200 with a proxy's page),
``reset`` (the connection is cut before a byte is sent), ``truncated`` (cut after half of the body), ``slow`` (the body
trickles). What a vendor words its own way, and kinds that only a vendor has, an emulator adds as a table of responders.
"""

from __future__ import annotations

import hashlib
import socket
import struct
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
import attrs
from aiohttp import hdrs, web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from aiohttp.typedefs import Handler, Middleware

    Responder = Callable[[web.Request], web.StreamResponse | None]
    """Gives the answer of a fault, or None where the fault makes no sense for that request."""

KINDS: Final = frozenset({"throttle", "unavailable", "error", "html", "reset", "truncated", "slow"})

_PAGE: Final = "<!DOCTYPE html><html><head><title>Proxy</title></head><body><h1>Please sign in</h1></body></html>"
_PIECES: Final = 4


def operation_of(request: web.Request, /) -> str:
    """Give the name of the route that serves a request: emulators name their routes after operations."""
    return request.match_info.route.name or ""


def _kept(rates: Mapping[str, float]) -> dict[str, float]:
    if any(rate < 0 for rate in rates.values()) or sum(rates.values()) > 1:
        raise ValueError(f"the rates of faults must be at least 0 and add up to 1 at most: {dict(rates)}")
    return dict(rates)


@attrs.define(eq=False)
class Faults:
    """Which requests to an emulator meet which fault.

    The n-th request of an operation to a path is drawn by the seed alone, so that the order in which concurrent
    requests arrive changes nothing.

    Args:
        rates: Kind to the share of requests that meet it.
        seed: What the draws depend on.
        operations: Only requests of these operations draw; None is all. What is scripted goes to any.
        most_in_a_row: After so many drawn faults on one operation and path the next request is answered.
        retry_after_s: What a throttled client is told to wait.
        pause_s: The wait before each piece of a slow body.
        sleep: How it waits.

    Attributes:
        injected: Kind to how often it happened.
    """

    rates: Mapping[str, float] = attrs.field(factory=dict, converter=_kept, kw_only=True)
    seed: int = attrs.field(default=0, kw_only=True)
    operations: frozenset[str] | None = attrs.field(
        default=None, kw_only=True, converter=attrs.converters.optional(frozenset)
    )
    most_in_a_row: int = attrs.field(default=3, kw_only=True)
    retry_after_s: int = attrs.field(default=1, kw_only=True)
    pause_s: float = attrs.field(default=0.002, kw_only=True)
    sleep: Callable[[float], Awaitable[None]] = attrs.field(default=anyio.sleep, kw_only=True)
    injected: Counter[str] = attrs.field(init=False, factory=Counter)
    _scripted: deque[str] = attrs.field(init=False, factory=deque)
    _seen: Counter[tuple[str, str]] = attrs.field(init=False, factory=Counter)
    _in_a_row: Counter[tuple[str, str]] = attrs.field(init=False, factory=Counter)

    def script(self, *kinds: str) -> None:
        """Let the next requests meet these faults, one each; "" lets one pass."""
        self._scripted.extend(kinds)

    def middleware(self, responders: Mapping[str, Responder] | None = None) -> Middleware:
        """Give the middleware that injects these faults; it belongs before all others.

        Args:
            responders: Kind to who makes the answer: the vendor's own kinds, and its own wording of the others.

        Raises:
            ValueError: A kind in ``rates`` is known neither here nor there.
        """
        table = {**self._responders(), **(responders or {})}
        self._check(self.rates, table)

        @web.middleware
        async def inject(request: web.Request, handler: Handler) -> web.StreamResponse:
            kind = self._scripted.popleft() if self._scripted else self._draw(request)
            if not kind:
                return await handler(request)
            self._check([kind], table)
            answer = await self._meet(kind, request, handler, table)
            if answer is None:
                return await handler(request)
            self.injected[kind] += 1
            return answer

        return inject

    async def _meet(
        self, kind: str, request: web.Request, handler: Handler, table: Mapping[str, Responder]
    ) -> web.StreamResponse | None:
        if kind in table:
            return table[kind](request)
        if kind == "reset":
            return _reset(request)
        answer = await handler(request)
        body = answer.body if isinstance(answer, web.Response) else None
        if not isinstance(body, bytes) or not body:
            return _reset(request) if kind == "truncated" else None
        return await self._damage(kind, request, answer, body)

    async def _damage(
        self, kind: str, request: web.Request, answer: web.StreamResponse, body: bytes
    ) -> web.StreamResponse:
        """Send the body in pieces; of a truncated one only the first half, then cut the connection."""
        headers = answer.headers.copy()
        headers[hdrs.CONTENT_LENGTH] = str(len(body))
        damaged = web.StreamResponse(status=answer.status, headers=headers)
        await damaged.prepare(request)
        if kind == "truncated":
            await damaged.write(body[: len(body) // 2])
            if request.transport is not None:
                request.transport.close()
            return damaged
        size = -(-len(body) // _PIECES)
        with suppress(ConnectionError):  # the client may have gone meanwhile
            for start in range(0, len(body), size):
                await self.sleep(self.pause_s)
                await damaged.write(body[start : start + size])
            await damaged.write_eof()
        return damaged

    def _draw(self, request: web.Request) -> str:
        operation = operation_of(request)
        if not self.rates or (self.operations is not None and operation not in self.operations):
            return ""
        where = (operation, request.path)
        self._seen[where] += 1
        draw = hashlib.blake2b(f"{self.seed}/{where}/{self._seen[where]}".encode(), digest_size=8).digest()
        point = int.from_bytes(draw) / 2**64
        for kind, rate in self.rates.items():
            point -= rate
            if point < 0 and self._in_a_row[where] < self.most_in_a_row:
                self._in_a_row[where] += 1
                return kind
            if point < 0:
                break
        self._in_a_row[where] = 0
        return ""

    def _responders(self) -> dict[str, Responder]:
        wait = {hdrs.RETRY_AFTER: str(self.retry_after_s)}
        return {
            "throttle": lambda request: web.Response(status=429, headers=wait, text="too many requests"),
            "unavailable": lambda request: web.Response(status=503, text="service unavailable"),
            "error": lambda request: web.Response(status=500, text="internal error"),
            "html": lambda request: web.Response(text=_PAGE, content_type="text/html"),
        }

    def _check(self, kinds: Iterable[str], table: Mapping[str, Responder]) -> None:
        unknown = set(kinds) - KINDS - set(table)
        if unknown:
            raise ValueError(f"there is no fault {sorted(unknown)}; there are {sorted(KINDS | set(table))}")


def _reset(request: web.Request) -> web.StreamResponse:
    """Cut the connection so that the client sees a reset, and give the answer that nobody gets."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        if connection is not None:  # no lingering: what is unsent is dropped, and the peer told so
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response()
