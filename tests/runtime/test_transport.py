"""HTTP over real sockets: every way in which an answer can fail to arrive."""

from __future__ import annotations

import asyncio
import gc
import gzip
import ssl
import threading
import traceback
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from aioresponses import aioresponses

from metricsbridge.config import ConnectionSettings
from metricsbridge.errors import (
    ConfigurationError,
    InvalidRequestError,
    NotFoundError,
    ProviderError,
    ResponseTooLargeError,
    ServiceUnavailableError,
    TlsError,
    TransportError,
)
from metricsbridge.http import Request, Response, classify_by_status
from metricsbridge.runtime._answers import ClassifyTransport
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.runtime._transport import LARGE, HttpTransport, open_session
from servers import answers, http, read_request, tcp_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def transport(**settings: Any) -> AsyncIterator[HttpTransport]:
    connection = ConnectionSettings(**settings)
    async with open_session(connection) as session:
        yield HttpTransport(session, connection.max_body, SystemClock(), connection.bytes_in_flight)


async def failure_of(url: str, **settings: Any) -> ProviderError:
    async with transport(**settings) as http_transport:
        with pytest.raises(ProviderError) as caught:
            await http_transport.send(Request("GET", f"{url}/x", headers={"X-Auth-Token": "very-secret-token"}))
    assert "very-secret-token" not in repr(caught.value.__cause__) + str(caught.value)
    return caught.value


async def test_an_answer_arrives_whole() -> None:
    async with tcp_server(answers(http("200 OK", b"hello", "X-Thing: 1"))) as url, transport() as http_transport:
        response = await http_transport.send(Request("GET", f"{url}/x"))
    assert (response.status, response.body, response.headers["x-thing"]) == (200, b"hello", "1")
    assert response.received_ms > 1_700_000_000_000


async def test_what_goes_on_the_wire_is_exactly_the_request() -> None:
    seen = asyncio.get_running_loop().create_future()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(await read_request(reader))
        writer.write(http("200 OK"))

    async with tcp_server(handler) as url, transport() as http_transport:
        request = Request("POST", f"{url}/a%2Fb/~c%25", (("q", "1 +&=ü"), ("q", "")), {"X-One": "1"}, b"body")
        await http_transport.send(request)
    head, _, body = (await seen).partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /a%2Fb/~c%25?q=1%20%2B%26%3D%C3%BC&q= HTTP/1.1"
    assert b"X-One: 1" in head
    assert b"cookie" not in head.lower()
    assert b"content-type" not in head.lower()
    assert body == b"body"


async def test_a_large_answer_in_many_pieces_arrives_whole() -> None:
    body = bytes(range(256)) * 4096
    pieces = [body[i : i + 50_000] for i in range(0, len(body), 50_000)]
    async with tcp_server(answers(http("200 OK", length=len(body)), *pieces)) as url, transport() as http_transport:
        assert (await http_transport.send(Request("GET", url))).body == body


async def test_a_refused_connection_is_retried_and_says_what_to_check() -> None:
    async with tcp_server(answers()) as url:
        pass
    error = await failure_of(url)
    assert type(error) is TransportError
    assert error.retried
    assert "can't connect to 127.0.0.1" in str(error)
    assert "check the endpoint" in str(error)


async def test_a_name_that_does_not_resolve_is_a_transport_error() -> None:
    assert type(await failure_of("http://no-such-host.invalid")) is TransportError


@pytest.mark.parametrize(
    "sent",
    [b"", b"HTTP/1.1 200", http("200 OK", b"half", length=8), b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le"],
    ids=["nothing", "half a status line", "half a body", "not HTTP", "half a header"],
)
async def test_a_connection_that_breaks_is_a_transport_error(sent: bytes) -> None:
    async with tcp_server(answers(sent)) as url:
        error = await failure_of(url)
    assert type(error) is TransportError


async def test_a_broken_compression_is_a_transport_error() -> None:
    bad = http("200 OK", b"this is not gzip", "Content-Encoding: gzip")
    async with tcp_server(answers(bad)) as url:
        assert type(await failure_of(url)) is TransportError


async def test_an_answer_that_never_ends_is_cut_at_the_timeout() -> None:
    forever = asyncio.Event()
    async with tcp_server(answers(http("200 OK", b"x", length=9), wait=forever)) as url:
        error = await failure_of(url, timeout=0.05)
    assert type(error) is TransportError
    assert "within 0.05 s" in str(error)


@pytest.mark.parametrize("size", [101, 5_000_000])
async def test_more_bytes_than_allowed_are_refused(size: int) -> None:
    async with tcp_server(answers(http("200 OK", b"x" * size))) as url:
        error = await failure_of(url, max_body=100)
    assert type(error) is ResponseTooLargeError
    assert "100 bytes" in str(error)
    assert not error.retried


async def test_exactly_as_many_bytes_as_allowed_are_taken() -> None:
    async with tcp_server(answers(http("200 OK", b"x" * 100))) as url, transport(max_body=100) as http_transport:
        assert len((await http_transport.send(Request("GET", url))).body) == 100


async def test_a_bomb_is_refused_by_its_size_after_decompression() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with tcp_server(answers(http("200 OK", bomb, "Content-Encoding: gzip"))) as url:
        assert type(await failure_of(url, max_body=1_000_000)) is ResponseTooLargeError


async def test_compressed_answers_are_read() -> None:
    packed = gzip.compress(b"hello" * 100)
    async with (
        tcp_server(answers(http("200 OK", packed, "Content-Encoding: gzip"))) as url,
        transport() as http_transport,
    ):
        assert (await http_transport.send(Request("GET", url))).body == b"hello" * 100


def _server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_an_unknown_authority_is_refused_and_not_retried() -> None:
    async with tcp_server(answers(http("200 OK")), tls=_server_tls(trustme.CA())) as url:
        error = await failure_of(url)
    assert type(error) is TlsError
    assert not error.retried
    assert "ca_file" in str(error)


async def test_a_custom_authority_is_trusted(tmp_path: Any) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with (
        tcp_server(answers(http("200 OK", b"safe")), tls=_server_tls(authority)) as url,
        transport(ca_file=tmp_path / "ca.pem") as http_transport,
    ):
        assert (await http_transport.send(Request("GET", url))).body == b"safe"


async def test_a_client_certificate_is_shown(tmp_path: Any) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("client@example.test").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "me.pem"))
    context = _server_tls(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    settings = {"ca_file": tmp_path / "ca.pem", "client_cert": tmp_path / "me.pem"}
    async with (
        tcp_server(answers(http("200 OK", b"known")), tls=context) as url,
        transport(**settings) as http_transport,
    ):
        assert (await http_transport.send(Request("GET", url))).body == b"known"


@pytest.mark.parametrize("setting", ["ca_file", "client_cert"])
async def test_an_unreadable_certificate_is_a_configuration_error(setting: str, tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        open_session(ConnectionSettings(**{setting: tmp_path / "missing.pem"}))


async def test_a_redirect_is_refused_and_names_the_host() -> None:
    moved = http("302 Found", b"", "Location: https://elsewhere.example.test/login?x=secret")
    async with tcp_server(answers(moved)) as url, transport() as inner:
        with pytest.raises(InvalidRequestError, match=r"elsewhere\.example\.test") as caught:
            await ClassifyTransport(inner, classify_by_status).send(Request("GET", url))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("status", "kind"), [(404, NotFoundError), (503, ServiceUnavailableError)])
async def test_an_answer_that_says_failed_becomes_its_error(status: int, kind: type[ProviderError]) -> None:
    with aioresponses() as mocked:
        mocked.get("http://host.example.test/x", status=status, headers={"X-Request-Id": "r-1"})
        async with transport() as inner:
            with pytest.raises(kind) as caught:
                await ClassifyTransport(inner, classify_by_status).send(Request("GET", "http://host.example.test/x"))
    assert caught.value.request_id == "r-1"
    assert caught.value.status == status


async def test_an_error_of_the_vendor_does_not_repeat_a_signature() -> None:
    class Echo:
        async def send(self, request: Request, /) -> Response:
            return Response(403, {}, b"")

    class Store:
        def scrub(self, text: str) -> str:
            return text.replace("abc", "***")

    with pytest.raises(ProviderError) as caught:
        await ClassifyTransport(
            Echo(),
            lambda response: ProviderError("signature abc is wrong"),
            Store(),  # type: ignore[arg-type]
        ).send(Request("GET", "http://x"))
    assert str(caught.value) == "signature *** is wrong"


async def test_a_broken_connection_is_one_request_and_no_hidden_second() -> None:
    seen = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        await read_request(reader)
        seen += 1

    async with tcp_server(handler) as url:
        assert type(await failure_of(url)) is TransportError
    assert seen == 1


async def test_waiting_for_a_connection_is_not_part_of_a_requests_time() -> None:
    arrived, turn = asyncio.Event(), asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            arrived.set()
            await turn.wait()
            writer.write(http("200 OK", b"x"))

    async with tcp_server(handler) as url, transport(concurrency=1, timeout=30) as opened:
        first = asyncio.ensure_future(opened.send(Request("GET", url)))
        await arrived.wait()
        second = asyncio.ensure_future(opened.send(Request("GET", url)))
        await asyncio.sleep(0)
        assert len(opened._slots.waiting) == 1
        turn.set()
        assert (await first).body == (await second).body == b"x"


def secret_request(url: str) -> Request:
    return Request("GET", f"{url}/x", (("Signature", "s1gn4ture"),), {"X-Auth-Token": "t0ken"})


async def test_neither_text_nor_variables_of_a_traceback_show_what_the_request_held() -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n"
    async with tcp_server(answers(broken)) as url, transport() as opened:
        request = secret_request(url)
        try:
            await opened.send(request)
        except TransportError as error:
            text = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "TransportError" in text
    assert "t0ken" not in text
    assert "s1gn4ture" not in text


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 201 Created\r\nX-Subject-Token: very-secret-token\r\nContent-Le",
        b"very-secret-token\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX Bad very-secret-token\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Token: " + b"very-secret-token" * 1000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nvery-secret-token\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: very-secret-token\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 17\r\n\r\nvery-secret-token",
    ],
    ids=["half of the headers", "no HTTP", "no header", "a long header", "no chunk", "no length", "no gzip"],
)
async def test_an_answer_that_breaks_off_or_is_none_is_not_quoted(sent: bytes) -> None:
    async with tcp_server(answers(sent)) as url:
        error = await failure_of(url)
    assert type(error) is TransportError
    assert "\n" not in str(error)


async def test_a_session_that_was_closed_says_so_and_is_not_retried() -> None:
    async with transport() as opened:
        pass
    with pytest.raises(ProviderError, match="its source was dropped") as caught:
        await opened.send(Request("GET", "http://127.0.0.1:9/"))
    assert not caught.value.retried


@pytest.mark.parametrize("place", ["http://[bad", "//", "", "http://me:pw@elsewhere.example.test/"])
async def test_a_redirect_to_anywhere_is_refused(place: str) -> None:
    moved = http("302 Found", b"", f"Location: {place}")
    async with tcp_server(answers(moved)) as url, transport() as inner:
        with pytest.raises(InvalidRequestError, match="redirects to") as caught:
            await ClassifyTransport(inner, classify_by_status).send(Request("GET", url))
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(("timeout", "connect"), [(60.0, 10.0), (3.0, 3.0)])
async def test_a_connection_is_not_waited_for_as_long_as_an_answer(timeout: float, connect: float) -> None:
    async with open_session(ConnectionSettings(timeout=timeout)) as session:
        assert (session.timeout.total, session.timeout.connect) == (timeout, connect)


async def decode_thread(body: bytes, **settings: Any) -> int:
    async with tcp_server(answers(http("200 OK", body))) as url, transport(**settings) as opened:
        response = await opened.send(Request("GET", url))
        assert response.body == body
        return await response.decoded(lambda given: threading.get_ident() if given == body else -1)


async def test_a_large_answer_is_decoded_in_a_thread_and_a_small_one_at_once() -> None:
    assert await decode_thread(b"x" * 1000) == threading.get_ident()
    assert await decode_thread(b"x" * (LARGE - 1)) == threading.get_ident()
    assert await decode_thread(b"x" * LARGE) not in (threading.get_ident(), -1)


async def test_an_answer_larger_than_the_budget_arrives_all_the_same() -> None:
    assert await decode_thread(b"x" * 2 * LARGE, bytes_in_flight=1000) not in (threading.get_ident(), -1)


async def test_large_answers_are_counted_until_nobody_holds_them() -> None:
    body = b"x" * LARGE
    async with tcp_server(answers(http("200 OK", body))) as url, transport() as opened:
        response = await opened.send(Request("GET", url))
        assert opened._bytes.held == LARGE
        del response
        gc.collect()
        assert opened._bytes.held == 0
        with pytest.raises(ResponseTooLargeError):
            opened._max_body = LARGE - 1
            await opened.send(Request("GET", url))
        assert opened._bytes.held == 0


async def test_a_compressed_answer_is_counted_as_it_unfolds() -> None:
    body = b"x" * 3 * LARGE
    packed = http("200 OK", gzip.compress(body), "Content-Encoding: gzip")
    async with tcp_server(answers(packed)) as url, transport() as opened:
        response = await opened.send(Request("GET", url))
        assert (len(response.body), opened._bytes.held) == (len(body), len(body))
