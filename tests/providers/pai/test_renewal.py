"""What happens when a temporary key expires, is rotated, or is refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_pai._credentials import KeyAuthenticator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN")
JOB = b'{"JobId":"dlc1","Status":"Queuing"}'


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give an empty home directory, and no variables."""
    for name in (*NAMES, "PROFILE", "CLI_PROFILE_DISABLED", "CREDENTIALS_FILE"):
        monkeypatch.delenv(f"ALIBABA_CLOUD_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def set_environment(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    for name, value in zip(NAMES, values, strict=False):
        monkeypatch.setenv(f"ALIBABA_CLOUD_{name}", value)


class Service:
    """Answers GetJob where the security token is the one that is good now."""

    def __init__(self) -> None:
        self.good = "token-0"
        self.rejections = 0
        self.hold: dict[str, anyio.Event] = {}

    async def __call__(self, request: Request) -> Response:
        good = request.headers["x-acs-security-token"] == self.good
        event = self.hold.pop(request.url.rpartition("/")[2], None)
        if event is not None:
            await event.wait()
        await anyio.lowlevel.checkpoint()
        if good:
            return Response(200, {}, JOB)
        self.rejections += 1
        return Response(400, {}, b'{"Code":"InvalidSecurityToken.Expired","Message":"expired"}')


@pytest.fixture
def obtained(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count how often a key is looked for."""
    times: list[int] = []
    original = KeyAuthenticator.obtain

    async def count(self: KeyAuthenticator, transport: Any, now_ms: int, /) -> Any:
        times.append(now_ms)
        await anyio.lowlevel.checkpoint()
        return await original(self, transport, now_ms)

    monkeypatch.setattr(KeyAuthenticator, "obtain", count)
    return times


async def test_a_thousand_calls_with_an_expired_token_cause_one_renewal_and_none_fails(
    monkeypatch: pytest.MonkeyPatch, obtained: list[int]
) -> None:
    service, done = Service(), []
    set_environment(monkeypatch, "AK", "s", "token-0")
    at_once = {"*": "unlimited"}
    async with mb.open_provider("pai-dlc", transport=FakeTransport(service), region="cn-x", limits=at_once) as provider:
        await provider.get_job("dlc1")
        service.good = "token-1"
        set_environment(monkeypatch, "AK", "s", "token-1")

        async def one() -> None:
            done.append(await provider.get_job("dlc1"))

        async with anyio.create_task_group() as group:
            for _ in range(1000):
                group.start_soon(one)
    assert len(done) == 1000
    assert len(obtained) == 2
    assert service.rejections == 1000


async def test_an_expired_token_that_is_told_under_200_is_renewed(
    monkeypatch: pytest.MonkeyPatch, obtained: list[int]
) -> None:
    def handler(request: Request) -> Response:
        if request.headers["x-acs-security-token"] == "token-1":
            return Response(200, {}, JOB)
        if request.operation != "GetJob":
            return Response(403, {}, b'{"Code":"NoPermission","Message":"no"}')
        return Response(200, {}, b'{"Code":"InvalidSecurityToken.Expired","Message":"expired","Success":false}')

    set_environment(monkeypatch, "AK", "s", "token-0")
    async with mb.open_provider("pai-dlc", transport=FakeTransport(handler), region="cn-x") as provider:
        before = len(obtained)
        set_environment(monkeypatch, "AK", "s", "token-1")
        assert (await provider.get_job("dlc1")).id == "dlc1"
    assert len(obtained) == before + 1


async def test_where_the_call_that_renews_is_cancelled_another_one_renews(monkeypatch: pytest.MonkeyPatch) -> None:
    service, begun, stuck = Service(), anyio.Event(), anyio.Event()
    set_environment(monkeypatch, "AK", "s", "token-0")
    original, times = KeyAuthenticator.obtain, []

    async def obtain(self: KeyAuthenticator, transport: Any, now_ms: int, /) -> Any:
        times.append(now_ms)
        if len(times) == 2:
            begun.set()
            await stuck.wait()
        return await original(self, transport, now_ms)

    monkeypatch.setattr(KeyAuthenticator, "obtain", obtain)
    done: list[mb.Job] = []
    async with mb.open_provider("pai-dlc", transport=FakeTransport(service), region="cn-x") as provider:
        await provider.get_job("dlc1")
        service.good = "token-1"
        set_environment(monkeypatch, "AK", "s", "token-1")
        leader = anyio.CancelScope()

        async def one(scope: anyio.CancelScope) -> None:
            with scope:
                done.append(await provider.get_job("dlc1"))

        async with anyio.create_task_group() as group:
            group.start_soon(one, leader)
            await begun.wait()
            for _ in range(50):
                group.start_soon(one, anyio.CancelScope())
            await anyio.wait_all_tasks_blocked()
            leader.cancel()
    assert len(done) == 50
    assert len(times) == 3


async def test_a_late_rejection_of_an_old_token_causes_no_other_renewal(
    monkeypatch: pytest.MonkeyPatch, obtained: list[int]
) -> None:
    service, late = Service(), anyio.Event()
    set_environment(monkeypatch, "AK", "s", "token-0")
    async with mb.open_provider("pai-dlc", transport=FakeTransport(service), region="cn-x") as provider:
        await provider.get_job("dlc1")
        service.good, service.hold = "token-1", {"late": late}
        set_environment(monkeypatch, "AK", "s", "token-1")
        async with anyio.create_task_group() as group:
            group.start_soon(provider.get_job, "late")
            await anyio.wait_all_tasks_blocked()
            await provider.get_job("dlc1")
            assert len(obtained) == 2
            late.set()
    assert len(obtained) == 2
    assert service.rejections == 2


async def test_a_key_that_is_refused_and_the_same_as_before_is_not_tried_for_ever(obtained: list[int]) -> None:
    service = Service()
    service.good = "another"
    settings = {"access_key_id": "AK", "access_key_secret": "S3CRET-of-mine", "security_token": "token-0"}
    transport = FakeTransport(service)
    async with mb.open_provider("pai-dlc", transport=transport, region="cn-x", **settings) as provider:
        before = len(transport.requests)
        with pytest.raises(mb.AuthenticationError, match="check access_key_id"):
            await provider.get_job("dlc1")
    assert len(transport.requests) == before + 1


async def test_a_nonce_that_was_used_is_sent_again_with_another_one() -> None:
    nonces: list[str] = []

    def handler(used: int, request: Request) -> Response:
        nonces.append(request.headers["x-acs-signature-nonce"])
        if request.operation == "GetJob" and sum(1 for _ in nonces) <= used + 1:
            return Response(400, {}, b'{"Code":"SignatureNonceUsed","Message":"Specified signature nonce was used."}')
        return Response(200, {}, JOB)

    transport = FakeTransport(partial(handler, 2))
    settings = {"region": "cn-x", "access_key_id": "AK", "access_key_secret": "s"}
    async with mb.open_provider("pai-dlc", transport=transport, **settings) as provider:
        assert (await provider.get_job("dlc1")).id == "dlc1"
    assert len(set(nonces)) == len(nonces) == 4
