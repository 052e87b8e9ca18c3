"""An emulator called as a function: the same application, middlewares and faults, without a socket.

What a fault does to the connection shows as the error that the library's HTTP transport makes of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest import mock

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from metricsbridge.errors import TransportError
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from metricsbridge.testing import FakeClock

URL = "http://emulated.test"
"""Where the emulator seems to be."""


class _Writer(AbstractStreamWriter):
    """Keeps what is written to a streamed answer."""

    def __init__(self) -> None:
        self.body = b""

    async def write(self, chunk: Any) -> None:
        self.body += bytes(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.body += chunk

    async def write_headers(self, status_line: str, headers: Any) -> None:
        pass

    async def drain(self) -> None:
        pass

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        pass

    def enable_chunking(self) -> None:
        pass

    def send_headers(self) -> None:
        pass


def in_process(app: web.Application, clock: FakeClock) -> FakeTransport:
    """Give the transport that reaches an emulator at ``URL``; waits are free."""
    app.freeze()
    return FakeTransport(handler_of(app), clock=clock)


def handler_of(app: web.Application) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        reader = StreamReader(mock.Mock(_reading_paused=False), 2**16, loop=asyncio.get_running_loop())
        reader.feed_data(request.body)
        reader.feed_eof()
        wire, writer = mock.Mock(), _Writer()
        wire.get_extra_info.return_value = None
        path = request.full_url.removeprefix(URL)
        headers = {"Host": request.host, **request.headers}
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        given = make_mocked_request(
            request.method, path, headers, payload=reader, writer=writer, transport=wire, app=app, client_max_size=2**24
        )
        answer = await app._handle(given)
        if wire.abort.called or wire.close.called:
            raise TransportError("the connection was cut")
        whole = answer.body if isinstance(answer, web.Response) else writer.body
        return Response(answer.status, dict(answer.headers), bytes(whole or b""))

    return handle
