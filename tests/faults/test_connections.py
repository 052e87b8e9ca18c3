"""Where no connection comes about: refused, reset, not found, not trusted; what is said, and what is tried again."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import traceback
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
import trustme
from aiohttp.abc import AbstractResolver, ResolveResult

import metricsbridge as mb
from emulated_clouds import CLOUDS
from metricsbridge.runtime import _transport
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.fleet import Fleet
from servers import answers, http, tcp_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

FLEET: Final = Fleet(size=1)
APPS: Final = {cloud.provider: cloud.create(fleet=FLEET) for cloud in CLOUDS}
ATTEMPTS: Final = 7
WAIT_S: Final = 0.2
"""In real seconds; what is waited for never comes."""


async def failure_of(url: str, name: str = "modelarts", **more: Any) -> mb.ProviderError:
    """Give the error of a job that is to be read from there, without the provider's name for the place."""
    clock = FakeClock(FLEET.now_ms)
    settings = {**APPS[name][EMULATOR].settings(url), **more}
    async with mb.Collector({"x": mb.open_provider(name, clock=clock, **settings)}, clock=clock) as collector:
        result = await collector.collect(f"x/{APPS[name][EMULATOR].jobs[0]}", metrics=["hw.power"])
    [failure] = result.failures
    error = failure.error
    assert isinstance(error, mb.ProviderError)
    shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    secrets = [str(value) for key, value in settings.items() if "secret" in key]
    assert not any(secret in shown for secret in [*secrets, "Signature="])
    assert failure.attempts == (ATTEMPTS if error.retried else 1)
    return error


async def test_a_port_where_nobody_listens() -> None:
    async with tcp_server(answers()) as url:
        pass
    error = await failure_of(url)
    assert type(error) is mb.TransportError
    assert re.search(r"can't connect to 127\.0\.0\.1:\d+ \(.*\): check the endpoint and the network", str(error))


async def test_a_connection_that_is_reset_before_anyone_accepts_it() -> None:
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0), backlog=1)
    listening.setblocking(False)
    arrived = asyncio.Event()
    loop.add_reader(listening, arrived.set)
    port = listening.getsockname()[1]
    reading = asyncio.ensure_future(failure_of(f"http://127.0.0.1:{port}"))
    await arrived.wait()
    loop.remove_reader(listening)
    listening.close()  # what waits to be accepted is reset; whoever comes later is refused
    assert type(await reading) is mb.TransportError


class StubResolver(AbstractResolver):
    """Answers each name as the test says."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        found = self._answer()
        return await found if asyncio.iscoroutine(found) else found

    async def close(self) -> None:
        pass


def _fails(code: int, text: str) -> Callable[[], Any]:
    def answer() -> Any:
        raise OSError(None, text) from socket.gaierror(code, text)

    return answer


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (_fails(socket.EAI_NONAME, "Name or service not known"), r"Name or service not known"),
        (_fails(socket.EAI_AGAIN, "Temporary failure in name resolution"), "Temporary failure"),
        (lambda: asyncio.Event().wait(), rf"no connection to cloud\.example\.test within {WAIT_S} s"),
    ],
    ids=["no such name", "the name server fails", "no answer"],
)
async def test_a_name_that_does_not_resolve(
    answer: Callable[[], Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = StubResolver(answer)
    monkeypatch.setattr("aiohttp.connector.DefaultResolver", lambda *args, **more: resolver)
    monkeypatch.setattr(_transport, "_CONNECT_S", WAIT_S)
    error = await failure_of("http://cloud.example.test")
    assert type(error) is mb.TransportError
    assert re.search(says, str(error))
    assert "cloud.example.test" in str(error)
    assert "check the endpoint and the network" in str(error)
    assert set(resolver.asked) == {"cloud.example.test"}


@asynccontextmanager
async def tls_server(authority: trustme.CA, name: str = "127.0.0.1", **issued: Any) -> AsyncIterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name, **issued).configure_cert(context)
    async with tcp_server(answers(http("200 OK")), tls=context) as url:
        yield url


@pytest.mark.parametrize(
    ("trusted", "name", "issued", "says"),
    [
        (False, "127.0.0.1", {}, "not trusted .*: check the host, or set ca_file"),
        (True, "elsewhere.example.test", {}, "not trusted .*: check the host"),
        (True, "127.0.0.1", {"not_after": datetime(2020, 1, 2, tzinfo=UTC)}, "not trusted .*expired"),
    ],
    ids=["of an unknown authority", "of another host", "expired"],
)
async def test_a_certificate_that_is_not_to_be_trusted(
    trusted: bool, name: str, issued: dict[str, Any], says: str, tmp_path: Path
) -> None:
    authority = trustme.CA()
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with tls_server(authority, name, **issued) as url:
        error = await failure_of(url, ca_file=tmp_path / "ca.pem")
    assert type(error) is mb.TlsError
    assert re.search(says, str(error))


async def test_plain_http_where_tls_is_expected() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        writer.write(http("400 Bad Request"))

    async with tcp_server(handler) as url:
        error = await failure_of(url.replace("http:", "https:"))
    assert type(error) is mb.TlsError
    assert "check that it speaks TLS" in str(error)


async def test_tls_where_plain_http_is_expected() -> None:
    async with tls_server(trustme.CA()) as url:
        error = await failure_of(url.replace("https:", "http:"))
    assert type(error) is mb.TransportError


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
async def test_a_handshake_that_breaks_off_passes_and_is_tried_again(reset: bool) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(5)
        if reset:
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async with tcp_server(handler) as url:
        error = await failure_of(url.replace("http:", "https:"))
    assert type(error) is mb.TransportError


async def test_a_handshake_that_never_ends_is_not_waited_for_as_long_as_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_transport, "_CONNECT_S", WAIT_S)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with tcp_server(handler) as url:
        error = await failure_of(url.replace("http:", "https:"))
    assert type(error) is mb.TransportError
    assert f"within {WAIT_S} s: check the endpoint and the network" in str(error)


@pytest.mark.parametrize("name", sorted(APPS))
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_credentials_do_not_follow_a_redirect(name: str, status: int) -> None:
    visited: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visited.append(await reader.read(1))

    async with tcp_server(elsewhere) as other:
        moved = http(f"{status} Moved", b"", f"Location: {other}/x?Signature=abc")
        async with tcp_server(answers(moved)) as url:
            error = await failure_of(url, name)
    assert type(error) is mb.InvalidRequestError
    assert f"redirects to {other.removeprefix('http://')}, which is refused: set the endpoint" in str(error)
    assert visited == []
