"""HTTP through aiohttp: requests to bytes, foreign errors to ours, in one place."""

from __future__ import annotations

import re
import ssl
from functools import partial
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiohttp
import anyio
import attrs
from yarl import URL

from metricsbridge.errors import (
    ConfigurationError,
    InvalidRequestError,
    ProviderError,
    ResponseTooLargeError,
    TlsError,
    TransportError,
)
from metricsbridge.http import Request, Response
from metricsbridge.runtime._context import SENDING
from metricsbridge.runtime._room import BytesInFlight, Slots
from metricsbridge.runtime._threads import in_thread
from metricsbridge.runtime._turns import Timeouts, next_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricsbridge.config import ConnectionSettings
    from metricsbridge.protocols import Clock

T = TypeVar("T")

LARGE: Final = 256 * 1024
"""Bytes from which on an answer is put together and decoded in a thread, where a slow decoder may take 10 ms for them;
going there and back takes a tenth of a millisecond."""

_THREADS: Final = 2
"""So many answers of a source are decoded at once; more would only wait for the interpreter's lock."""

_BUDGET: Final = 256 * 1024 * 1024

_NO_TYPE: Final = ("Content-Type",)

_CONNECT_S: Final = 10.0
"""Nobody waits longer for a connection, from looking up the name to the end of the handshake: who drops packets unseen
would hold up everything for a whole timeout."""

_COUNTED: Final = re.compile(r"received \d+ of \d+ bytes")
_QUOTED: Final = re.compile(r":?\s*b?['\"\n]")


class _NoCookies(aiohttp.DummyCookieJar):
    """Keeps no cookies, and does not even make an empty bag of them for each request."""

    def __init__(self) -> None:
        super().__init__()
        self._none: SimpleCookie = SimpleCookie()

    def filter_cookies(self, request_url: URL) -> SimpleCookie:
        """Give no cookies."""
        return self._none


def open_session(settings: ConnectionSettings, /) -> aiohttp.ClientSession:
    """Make the one session of a source: no cookies, no redirects, no proxy from the environment.

    Raises:
        ConfigurationError: A certificate or key file can't be read.
    """
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=settings.concurrency, ssl=_tls(settings)),
        cookie_jar=_NoCookies(),
        timeout=aiohttp.ClientTimeout(total=settings.timeout, connect=min(settings.timeout, _CONNECT_S)),
        proxy=settings.proxy,
    )
    # By default the session itself sends a request again when its connection breaks: a second signed request that
    # limits, retries and reports would know nothing of.
    session._retry_connection = False
    return session


def _tls(settings: ConnectionSettings) -> ssl.SSLContext | bool:
    """Give the TLS rules: the system's authorities, and a custom one where it is named; never none."""
    if settings.ca_file is None and settings.client_cert is None:
        return True
    context = ssl.create_default_context()
    try:
        if settings.ca_file is not None:
            context.load_verify_locations(settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"ca_file {str(settings.ca_file)!r} can't be used: {error}") from error
    try:
        if settings.client_cert is not None:
            context.load_cert_chain(settings.client_cert, settings.client_key)
    except (OSError, ssl.SSLError) as error:
        names = f"client_cert {str(settings.client_cert)!r} with client_key {str(settings.client_key)!r}"
        raise ConfigurationError(f"{names} can't be used: {error}") from error
    return context


class HttpTransport:
    """The network: one request, one whole answer, bounded in bytes and time.

    Args:
        session: Of ``open_session``.
        max_body: Bytes that one answer may have.
        clock: Says when an answer was received.
        budget: Bytes of large answers that may be in flight at once.
    """

    def __init__(self, session: aiohttp.ClientSession, max_body: int, clock: Clock, budget: int = _BUDGET) -> None:
        self.session = session
        self._max_body = max_body
        self._at_once = min(max_body, LARGE - 1)
        self._clock = clock
        # Waiting inside of the session would count as the request's time.
        self._slots = Slots(getattr(session.connector, "limit", 0) or 1_000_000)
        self._bytes = BytesInFlight(budget)
        # What was read. Each is let go of when another request is about to be made: what is freed and made by turns
        # stays in the caches, and the garbage collector, which counts what was made since it ran, is not called for it.
        self._spent: list[aiohttp.ClientResponse] = []
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._timeouts = Timeouts(session.timeout.total)
        self._timeout = attrs.evolve(session.timeout, total=None)

    def close(self) -> None:
        """Leave nothing behind in the event loop; the session is for whoever opened it to close."""
        self._timeouts.close()
        self._spent.clear()

    async def send(self, request: Request, /) -> Response:
        """Send the request, once there is a connection for it, exactly as it is.

        Raises:
            TransportError: No whole answer arrived.
            ResponseTooLargeError: The answer is larger than ``max_body``.
        """
        failure: ProviderError
        slots = self._slots
        if slots.free:
            slots.free -= 1
        else:
            await slots.enter()
            sending = SENDING.get()
            if sending is not None:
                sending.began = self._clock.monotonic()  # what passed until now was waiting
        task = self._timeouts.begin()
        try:
            await next_turn()
            if self._spent:
                self._spent.pop()  # its memory is used at once
            response = await self.session.request(
                request.method,
                # No name holds the whole URL: its query may have a signature, and a traceback would show it.
                URL(request.full_url if request.params else request.url, encoded=True),
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
                skip_auto_headers=_NO_TYPE if request.body else None,
                timeout=self._timeout,
            )
            content = response.content
            try:
                body = await content.readany()
                if not content.at_eof() or len(body) > self._at_once:
                    return await self._read_on(body, response, request)
            except BaseException:
                response.close()  # read to its end, it has given its connection back by itself
                raise
            self._spent.append(response)
            return Response(response.status, response.headers, body, self._clock.now_ms())
        except ProviderError:
            raise
        except Exception as error:
            failure = self._map(error, request)
            failure.__cause__ = _without_headers(error)
        except BaseException:
            if not self._timeouts.is_up(task):
                raise
            failure = self._map(TimeoutError(), request)
        finally:
            self._timeouts.end(task)
            if slots.waiting:
                slots.leave()
            else:
                slots.free += 1
        raise failure  # outside of the block: its ``__context__`` would keep the request's headers

    async def _read_on(self, begun: bytes, response: aiohttp.ClientResponse, request: Request) -> Response:
        """Read what did not come at once; a large answer as the budget allows."""
        chunks, size = [begun], len(begun)
        expected = response.content_length or 0  # bytes as sent, perhaps compressed
        while size < LARGE and expected < LARGE and size <= self._max_body:
            chunk = await response.content.readany()
            if not chunk:
                return Response(response.status, response.headers, b"".join(chunks), self._clock.now_ms())
            chunks.append(chunk)
            size += len(chunk)
        reader, counted = object(), 0
        answer: Callable[..., Any] | None = None
        try:
            while size <= self._max_body:
                if max(size, expected) > counted:
                    more = min(max(size, expected), self._max_body) - counted
                    await self._bytes.take(reader, more)
                    counted += more
                chunk = await response.content.readany()
                if not chunk:
                    body = await self._in_thread(partial(b"".join, chunks))
                    answer = partial(self._in_thread)  # each answer has its own
                    return Response(response.status, response.headers, body, self._clock.now_ms(), answer)
                chunks.append(chunk)
                size += len(chunk)
        finally:
            self._bytes.end(reader, answer)
        raise ResponseTooLargeError(
            f"the answer of {request.host} has more than {self._max_body} bytes: ask for less, or raise max_body",
            status=response.status,
        )

    async def _in_thread(self, work: Callable[[], T], /) -> T:
        return await in_thread(work, self._threads)

    def _map(self, error: Exception, request: Request) -> ProviderError:
        """Give our error for a foreign one. ``TimeoutError`` is an ``OSError``."""
        host = request.host
        if self.session.closed:
            return ProviderError(f"the connection to {host} is closed: its source was dropped")
        if isinstance(error, (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)):
            return TlsError(
                f"the certificate of {host} is not trusted ({_reason(error)}): check the host, or set ca_file"
            )
        if isinstance(error, aiohttp.ClientSSLError):
            return TlsError(f"no secure connection to {host} ({_reason(error)}): check that it speaks TLS")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return TransportError(
                f"no connection to {host} within {self.session.timeout.connect} s: check the endpoint and the network"
            )
        if isinstance(error, TimeoutError):
            total = self.session.timeout.total
            return TransportError(f"no whole answer from {host} within {total} s: raise timeout, or check the network")
        if isinstance(error, aiohttp.ClientConnectorError):
            return TransportError(f"can't connect to {host} ({_reason(error)}): check the endpoint and the network")
        if isinstance(error, (aiohttp.InvalidURL, ValueError)):
            return InvalidRequestError(
                f"{request.operation or 'the request'} to {host} can't be sent: {_reason(error)}"
            )
        if isinstance(error, (aiohttp.ClientError, OSError)):
            return TransportError(
                f"the connection to {host} broke ({_reason(error)}): check the network, and what is on the way"
            )
        return ProviderError(f"{request.operation or 'the request'} to {host} can't be sent ({type(error).__name__})")


def _reason(error: BaseException) -> str:
    """Give why, in words that quote nothing: foreign texts repeat what was received and, from there, what was sent."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed it before there was a whole answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        counted = _COUNTED.search(str(error))
        return (
            f"its answer broke off: {counted[0]}" if counted else "its answer broke off, or is not encoded as it says"
        )
    if isinstance(error, aiohttp.ClientResponseError):
        return _QUOTED.split(error.message, maxsplit=1)[0]  # its text has the whole URL too, with a signature
    if isinstance(error, aiohttp.InvalidURL):
        return error.description or "its URL is malformed"
    inner = getattr(error, "os_error", None) or error
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _without_headers(error: Exception) -> Exception | None:
    """Give the cause to show: not one that holds headers of the request or the answer, nor frames that do."""
    holds = isinstance(
        error, (aiohttp.ClientResponseError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)
    )
    return None if holds else error.with_traceback(None)
