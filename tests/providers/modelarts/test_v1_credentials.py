"""Tokens under load, of both providers of API v1: one log-in serves all, one renewal mends all, and nobody fails."""

from __future__ import annotations

import json
import traceback
from typing import Any

import anyio
import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeClock, FakeTransport

PASSWORD = "pa55word-never-shown"
USER = {"project_id": "p0", "username": "me", "password": PASSWORD, "domain_name": "account"}
OPEN = {"limits": {"*": "unlimited"}, **USER}
REGIONS = {"modelarts-v1": "cn-north-4", "otc-modelarts": "eu-de"}
BOTH = pytest.mark.parametrize("name", REGIONS)


class Cloud:
    """IAM and a service that takes only the newest token; both can be held up."""

    def __init__(self, *, life_s: int = 86_400, refusal: tuple[int, dict[str, Any]] | None = None) -> None:
        self.clock = FakeClock()
        self.life_s = life_s
        self.refusal = refusal or (401, {"error_code": "APIGW.0307", "error_msg": "The token must be updated."})
        self.logins = 0
        self.valid = ""
        self.login_gate: anyio.Event | None = None
        self.slow: anyio.Event | None = None
        self.transport = FakeTransport(self.answer, clock=self.clock)

    async def answer(self, request: Request) -> Response:
        if request.url.endswith("/v3/auth/tokens"):
            return await self.log_in(request)
        accepted = request.headers["X-Auth-Token"] == self.valid
        if self.slow is not None:
            await self.slow.wait()
        if not accepted:
            status, refusal = self.refusal
            return Response(status, {}, json.dumps(refusal).encode())
        return Response(200, {}, b'{"is_success": true, "version_id": 2, "status": 7}')

    async def log_in(self, request: Request) -> Response:
        assert json.loads(request.body)["auth"]["identity"]["password"]["user"]["password"] == PASSWORD
        self.logins += 1
        token = f"token-number-{self.logins}"
        if self.login_gate is not None:
            await self.login_gate.wait()
        self.valid = token
        expires = mb.Window(0, self.clock.now_ms() + self.life_s * 1000).end.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return Response(201, {"X-Subject-Token": token}, json.dumps({"token": {"expires_at": expires}}).encode())


async def ask_many(provider: mb.TrainingJobMetrics, count: int) -> int:
    found = []

    async def one() -> None:
        found.append(await provider.get_job("1/2"))

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    return len(found)


REFUSALS: list[tuple[int, dict[str, Any]]] = [
    (401, {"error_code": "APIGW.0307", "error_msg": "The token must be updated."}),
    (401, {"error_code": "ModelArts.0203", "error_msg": "The token has expired."}),
    (403, {"error_code": "ModelArts.2784", "error_msg": "Bad token."}),
    (200, {"is_success": False, "error_code": "ModelArts.0202", "error_message": "The token has expired."}),
]


@BOTH
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_thousand_calls_with_an_expired_token_cause_one_log_in_and_none_fails(
    name: str, refusal: tuple[int, dict[str, Any]]
) -> None:
    cloud = Cloud(refusal=refusal)
    async with mb.open_provider(name, transport=cloud.transport, region=REGIONS[name], **OPEN) as provider:
        assert await ask_many(provider, 1000) == 1000
        assert cloud.logins == 1
        cloud.valid = ""
        assert await ask_many(provider, 1000) == 1000
    assert cloud.logins == 2


@BOTH
async def test_a_token_is_renewed_before_its_time_without_a_refusal(name: str) -> None:
    cloud = Cloud(life_s=3600)
    async with mb.open_provider(name, transport=cloud.transport, region=REGIONS[name], **OPEN) as provider:
        await provider.get_job("1/2")
        await cloud.clock.sleep(3400)
        assert await ask_many(provider, 1000) == 1000
    assert cloud.logins == 2
    assert len(cloud.transport.requests) == 1 + 1001 + 1


@BOTH
async def test_who_logs_in_and_is_cancelled_hands_over(name: str) -> None:
    cloud = Cloud()
    cloud.login_gate = anyio.Event()
    leader = anyio.CancelScope()
    async with mb.open_provider(name, transport=cloud.transport, region=REGIONS[name], **OPEN) as provider:

        async def lead() -> None:
            with leader:
                await provider.get_job("1/2")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lead)
            await anyio.wait_all_tasks_blocked()
            found: list[int] = []

            async def follow() -> None:
                found.append(await ask_many(provider, 999))

            tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            leader.cancel()
            cloud.login_gate.set()
    assert found == [999]
    assert cloud.logins == 2


@BOTH
async def test_a_refusal_that_arrives_after_the_renewal_causes_no_other(name: str) -> None:
    cloud = Cloud()
    async with mb.open_provider(name, transport=cloud.transport, region=REGIONS[name], **OPEN) as provider:
        await provider.get_job("1/2")
        cloud.valid = ""
        cloud.slow = late = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_many, provider, 500)
            await anyio.wait_all_tasks_blocked()
            cloud.slow = None
            assert await ask_many(provider, 500) == 500
            assert cloud.logins == 2
            late.set()
    assert cloud.logins == 2


@BOTH
async def test_a_refused_log_in_fails_all_who_wait_once_and_shows_no_password(name: str) -> None:
    refusal = {"error": {"code": 401, "message": f"wrong: {PASSWORD}", "title": "Unauthorized"}}
    transport = FakeTransport(lambda request: Response(401, {}, json.dumps(refusal).encode()))
    failures: list[mb.AuthenticationError] = []
    async with mb.open_provider(name, transport=transport, region=REGIONS[name], **OPEN) as provider:

        async def one() -> None:
            with pytest.raises(mb.AuthenticationError) as caught:
                await provider.get_job("1/2")
            failures.append(caught.value)

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(one)
    assert len(transport.requests) == 1
    assert len(failures) == 100
    assert PASSWORD not in "".join([str(error) + repr(vars(error)) for error in failures])


@pytest.mark.parametrize("status", [200, 401])
async def test_a_ready_token_that_is_refused_is_not_asked_for_again_where_there_is_no_newer(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    cloud = Cloud(refusal=(status, {"is_success": False, "error_code": "ModelArts.0202", "error_message": "expired"}))
    cloud.valid = "ready-token"
    known = {"region": "eu-de", "project_id": "p0", "limits": {"*": "unlimited"}}
    monkeypatch.setenv("OS_TOKEN", "ready-token")
    async with mb.open_provider("otc-modelarts", transport=cloud.transport, **known) as provider:
        assert await ask_many(provider, 10) == 10
        cloud.valid = "newer-token"
        with pytest.raises(mb.AuthenticationError):
            await provider.get_job("1/2")
        monkeypatch.setenv("OS_TOKEN", "newer-token")
        assert await ask_many(provider, 10) == 10
    assert cloud.logins == 0


async def test_a_token_whose_end_can_t_be_read_stands_in_no_frame_of_the_traceback() -> None:
    def handler(request: Request) -> Response:
        return Response(201, {"X-Subject-Token": "live-token-0123456789"}, b'{"token": {"expires_at": "tomorrow"}}')

    settings = {"region": "cn-north-4", "project_id": "p0", "username": "me", "password": "x" * 9, "domain_name": "d"}
    async with mb.open_provider("modelarts-v1", transport=FakeTransport(handler), **settings) as provider:
        with pytest.raises(mb.DecodeError, match="expires_at") as caught:
            await provider.get_job("1/2")
    text = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "expires_at" in text
    assert "live-token" not in text.replace(repr(handler), "")
