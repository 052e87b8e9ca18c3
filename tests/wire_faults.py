"""What can go wrong on a wire, byte by byte: a gate before a service that lets requests through or spoils the exchange.

Each fault is a function of one exchange; the table says what the library must make of it. Over loopback only.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import zlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.errors import (
    DecodeError,
    InvalidRequestError,
    ResponseTooLargeError,
    ServiceUnavailableError,
    TransportError,
)
from servers import http, read_request, tcp_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from metricsbridge.errors import ProviderError

TIMEOUT_S: Final = 0.25
"""What a source is given for one request where a fault lets it run into that: no whole answer ever comes."""

MAX_BODY: Final = 1_000_000
PIECE: Final = b'{"a": [' + b"1," * 32_768

PAGE: Final = b"<!DOCTYPE html><html><body><h1>Please sign in</h1></body></html>"


@attrs.frozen(kw_only=True)
class Exchange:
    """One request of which a byte has arrived, and the service behind the gate."""

    begun: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    service: str

    async def answer(self) -> bytes:
        """Read the request, and give the service's whole answer."""
        request = await read_request(self.reader, begun=self.begun)
        host, port = self.service.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            return head + await reader.readexactly(length)
        finally:
            writer.close()

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    def reset(self) -> None:
        """Cut the connection with a reset, no bytes lingering."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def _head(answer: bytes) -> bytes:
    return answer[: answer.index(b"\r\n\r\n") + 4]


def _body(answer: bytes) -> bytes:
    return answer[len(_head(answer)) :]


def _until(stage: Callable[[bytes], int], *, reset: bool) -> Callable[[Exchange], Awaitable[None]]:
    """Send the answer up to a stage, then cut: with a reset, or with an end that looks orderly."""

    async def spoil(exchange: Exchange) -> None:
        answer = await exchange.answer()
        await exchange.send(answer[: stage(answer)])
        if reset:
            exchange.reset()

    return spoil


STAGES: Final[Mapping[str, Callable[[bytes], int]]] = {
    "before the answer": lambda answer: 0,
    "in the status line": lambda answer: 9,
    "within the headers": lambda answer: len(_head(answer)) - 5,
    "after the headers": lambda answer: len(_head(answer)),
    "in the middle of the body": lambda answer: len(_head(answer)) + len(_body(answer)) // 2,
    "before the last byte": lambda answer: len(answer) - 1,
}


async def _reset_in_the_request(exchange: Exchange) -> None:
    exchange.reset()


async def _silence(exchange: Exchange) -> None:
    await exchange.answer()
    await asyncio.Event().wait()


async def _byte_by_byte(exchange: Exchange) -> None:
    answer = await exchange.answer()
    for place in range(len(answer)):  # far longer than the timeout, whatever the machine's pace
        await exchange.send(answer[place : place + 1])
        await asyncio.sleep(TIMEOUT_S / 10)


async def _endless(exchange: Exchange) -> None:
    await exchange.answer()
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await exchange.send(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))


async def _endless_drip(exchange: Exchange) -> None:
    await exchange.answer()
    await exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await exchange.send(b"1\r\n[\r\n")
        await asyncio.sleep(TIMEOUT_S / 10)


async def _gigabyte(exchange: Exchange) -> None:
    await exchange.answer()
    await exchange.send(http("200 OK", b"", "Content-Type: application/json", length=2**30))
    for _ in range(2**30 // len(PIECE) + 1):
        await exchange.send(PIECE)


async def _bomb(exchange: Exchange) -> None:
    await exchange.answer()
    await exchange.send(http("200 OK", b"", "Content-Encoding: gzip", length=2**30))
    packer = zlib.compressobj(9, wbits=31)
    while True:
        packed = packer.compress(bytes(2**22))
        await exchange.send(packed)
        await asyncio.sleep(0)


def _instead(*parts: bytes) -> Callable[[Exchange], Awaitable[None]]:
    """Send these bytes in place of the answer, and close."""

    async def spoil(exchange: Exchange) -> None:
        await exchange.answer()
        await exchange.send(*parts)

    return spoil


def _changed(change: Callable[[bytes], bytes]) -> Callable[[Exchange], Awaitable[None]]:
    async def spoil(exchange: Exchange) -> None:
        await exchange.send(change(await exchange.answer()))

    return spoil


def _with_length(answer: bytes, more: int) -> bytes:
    body = _body(answer)
    return http("200 OK", body, length=len(body) + more)


def _packed(answer: bytes) -> bytes:
    return gzip.compress(_body(answer))


@attrs.frozen(kw_only=True)
class WireFault:
    """One row of the table.

    Attributes:
        name: What happens.
        spoil: Does it.
        error: What becomes of a call that meets it each time; None where it is delivered all the same.
        says: What the message says.
        timeout: Whether it runs into the timeout of a request.
    """

    name: str
    spoil: Any
    error: type[ProviderError] | None
    says: str = ""
    timeout: bool = False


BROKE: Final = "the connection to 127.0.0.1"
LATE: Final = "no whole answer from 127.0.0.1"
LARGE: Final = f"more than {MAX_BODY} bytes: ask for less, or raise max_body"

WIRE_FAULTS: Final = (
    *[
        WireFault(name=f"{how} {stage}", spoil=_until(at, reset=how == "reset"), error=TransportError, says=BROKE)
        for stage, at in STAGES.items()
        for how in ("reset", "closed")
    ],
    WireFault(name="reset in the request", spoil=_reset_in_the_request, error=TransportError, says=BROKE),
    WireFault(name="silence", spoil=_silence, error=TransportError, says=LATE, timeout=True),
    WireFault(name="byte by byte", spoil=_byte_by_byte, error=TransportError, says=LATE, timeout=True),
    WireFault(name="a drip without end", spoil=_endless_drip, error=TransportError, says=LATE, timeout=True),
    WireFault(name="a body without end", spoil=_endless, error=ResponseTooLargeError, says=LARGE),
    WireFault(name="a gigabyte", spoil=_gigabyte, error=ResponseTooLargeError, says=LARGE),
    WireFault(name="a gzip bomb", spoil=_bomb, error=ResponseTooLargeError, says=LARGE),
    WireFault(name="no HTTP", spoil=_instead(b"SSH-2.0-OpenSSH_9.6\r\n"), error=TransportError, says=BROKE),
    WireFault(
        name="a body cut under a length that fits",
        spoil=_changed(lambda answer: http("200 OK", _body(answer)[:-7])), error=DecodeError,
    ),
    WireFault(
        name="a length too large", spoil=_changed(lambda answer: _with_length(answer, 7)),
        error=TransportError, says=BROKE,
    ),
    WireFault(
        name="a length that is none", spoil=_instead(b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n{}"),
        error=TransportError, says=BROKE,
    ),
    WireFault(
        name="garbage for chunks", spoil=_instead(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
        error=TransportError, says=BROKE,
    ),
    WireFault(
        name="a chunk that is cut",
        spoil=_instead(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}"),
        error=TransportError, says=BROKE,
    ),
    WireFault(
        name="a header beyond limits", spoil=_instead(http("200 OK", b"{}", "X-Long: " + "x" * 100_000)),
        error=TransportError, says=BROKE,
    ),
    WireFault(
        name="broken compression", spoil=_instead(http("200 OK", b"no gzip at all", "Content-Encoding: gzip")),
        error=TransportError, says=BROKE,
    ),
    WireFault(
        name="half of a compressed body",
        spoil=_changed(lambda answer: http("200 OK", _packed(answer)[:-20], "Content-Encoding: gzip")),
        error=DecodeError,
    ),
    WireFault(
        name="a proxy's page", spoil=_instead(http("200 OK", PAGE, "Content-Type: text/html")), error=DecodeError
    ),
    WireFault(
        name="a proxy's failure", spoil=_instead(http("502 Bad Gateway", PAGE, "Content-Type: text/html")),
        error=ServiceUnavailableError, says="HTTP 502",
    ),
    WireFault(
        name="a redirect", spoil=_instead(http("307 Temporary Redirect", b"", "Location: http://localhost:9/x?t=1")),
        error=InvalidRequestError, says="redirects to localhost:9, which is refused: set the endpoint",
    ),
    WireFault(name="deep nesting", spoil=_instead(http("200 OK", b"[" * 450_000 + b"]" * 450_000)), error=DecodeError),
    WireFault(
        name="another content type",
        spoil=_changed(lambda answer: http("200 OK", _body(answer), "Content-Type: text/plain; charset=utf-16")),
        error=None,
    ),
    WireFault(
        name="HTTP/1.0 without a length", spoil=_changed(lambda answer: b"HTTP/1.0 200 OK\r\n\r\n" + _body(answer)),
        error=None,
    ),
    WireFault(
        name="HTTP/1.0 without a length, cut",
        spoil=_changed(lambda answer: b"HTTP/1.0 200 OK\r\n\r\n" + _body(answer)[:-9]), error=DecodeError,
    ),
    WireFault(
        name="answers of class 1xx before it",
        spoil=_changed(
            lambda answer: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer
        ),
        error=None,
    ),
    WireFault(
        name="compression", spoil=_changed(lambda answer: http("200 OK", _packed(answer), "Content-Encoding: gzip")),
        error=None,
    ),
    WireFault(name="more than was asked for", spoil=_changed(lambda answer: answer + answer), error=None),
)  # fmt: skip
"""Every fault. What is delivered all the same is one too: it looks odd, and is legal."""


@asynccontextmanager
async def gate(service: str, choose: Callable[[], WireFault | None]) -> AsyncIterator[str]:
    """Stand before the service at that URL; each request meets the fault that is chosen for it, or passes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            begun = await reader.readexactly(1)
            fault = choose()
            exchange = Exchange(begun=begun, reader=reader, writer=writer, service=service)
            if fault is not None:
                await fault.spoil(exchange)
                return
            await exchange.send(await exchange.answer())

    async with tcp_server(handle) as url:
        yield url
