"""HTTP through aiohttp: requests to bytes, foreign errors to ours, in one place."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricsbridge.config import ConnectionSettings
    from metricsbridge.protocols import Clock, Transport
    from metricsbridge.runtime._credentials import CredentialStore, Scrubber


_CONNECT_S: Final = 10.0
"""Nobody waits longer for a connection, from looking up the name to the end of the handshake: who drops packets unseen
would hold up everything for a whole timeout."""

_COUNTED: Final = re.compile(r"received \d+ of \d+ bytes")
_QUOTED: Final = re.compile(r":?\s*b?['\"\n]")


def open_session(settings: ConnectionSettings, /) -> aiohttp.ClientSession:
    """Make the one session of a source: no cookies, no redirects, no proxy from the environment.

    Raises:
        ConfigurationError: A certificate or key file can't be read.
    """
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=settings.concurrency, ssl=_tls(settings)),
        cookie_jar=aiohttp.DummyCookieJar(),
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


@attrs.frozen
class HttpTransport:
    """The network: one request, one whole answer, bounded in bytes and time."""

    session: aiohttp.ClientSession
    max_body: int
    clock: Clock
    _slots: anyio.Semaphore = attrs.field(init=False)  # waiting inside of the session would count as the request's time

    @_slots.default
    def _as_many_as_connections(self) -> anyio.Semaphore:
        return anyio.Semaphore(getattr(self.session.connector, "limit", 0) or 1_000_000, fast_acquire=True)

    async def send(self, request: Request, /) -> Response:
        """Send the request, once there is a connection for it, exactly as it is.

        Raises:
            TransportError: No whole answer arrived.
            ResponseTooLargeError: The answer is larger than ``max_body``.
        """
        failure: ProviderError
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            await self._slots.acquire()
            sending = SENDING.get()
            if sending is not None:
                sending.began = self.clock.monotonic()  # what passed until now was waiting
        try:
            response = await self.session.request(
                request.method,
                URL(request.full_url if request.params else request.url, encoded=True),
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",) if request.body else None,
            )
            content = response.content
            try:
                body = await content.readany()
                if not content.at_eof() or len(body) > self.max_body:
                    body = await self._read_on(body, response, request)
            except BaseException:
                response.close()  # read to its end, it has given its connection back by itself
                raise
            return Response(response.status, response.headers, body, self.clock.now_ms())
        except ProviderError:
            raise
        except Exception as error:
            failure = self._map(error, request)
            failure.__cause__ = _without_headers(error)
        finally:
            self._slots.release()
        raise failure  # outside of the block: its ``__context__`` would keep the request's headers

    async def _read_on(self, begun: bytes, response: aiohttp.ClientResponse, request: Request) -> bytes:
        chunks, size = [begun], len(begun)
        while size <= self.max_body:
            chunk = await response.content.readany()
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
            size += len(chunk)
        raise ResponseTooLargeError(
            f"the answer of {request.host} has more than {self.max_body} bytes: ask for less, or raise max_body",
            status=response.status,
        )

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


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


@attrs.frozen
class ClassifyTransport:
    """Turns an answer that says "failed" into an error."""

    inner: Transport
    classify: Callable[[Response], ProviderError | None]
    store: CredentialStore | Scrubber | None = None

    async def send(self, request: Request, /) -> Response:
        """Send, and raise what the answer means."""
        response = await self.inner.send(request)
        error = self.classify(response)
        if 300 <= response.status < 400:
            host = _host(response.headers.get("Location", "")) or "an unnamed place"
            text = (
                f"{request.host} redirects to {host}, which is refused: set the endpoint to where the service really is"
            )
            error = InvalidRequestError(text, status=response.status)
        if error is None:
            return response
        error.request_id = error.request_id or response.headers.get("X-Request-Id", "")
        if self.store is not None:
            error.args = (self.store.scrub(error.message), *error.args[1:])
            error.code, error.request_id = self.store.scrub(error.code), self.store.scrub(error.request_id)
        raise error
