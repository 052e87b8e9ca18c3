"""One credential, obtained once, renewed once, shown never."""

from __future__ import annotations

import anyio
import attrs
import pytest

from metricsbridge.errors import AuthenticationError, ServiceUnavailableError
from metricsbridge.http import Request, Response
from metricsbridge.protocols import Credential, Transport
from metricsbridge.runtime._credentials import AuthenticateTransport, CredentialStore
from metricsbridge.secret import Secret
from metricsbridge.testing import FakeClock

ASK = Request("GET", "http://host/x")
SECOND = 1000


@attrs.frozen(repr=False)
class Token(Credential):
    text: Secret


class Service:
    """A log-in and a service that takes only its newest tokens."""

    account = "me"

    def __init__(self, clock: FakeClock, life_s: int | None = None) -> None:
        self.clock = clock
        self.life_s = life_s
        self.logins = 0
        self.valid: set[str] = set()
        self.refuse: Exception | None = None
        self.gate: anyio.Event | None = None
        self.sent: list[str] = []
        self.slow: anyio.Event | None = None

    async def obtain(self, transport: Transport, now_ms: int, /) -> Token:
        self.logins += 1
        number = self.logins
        if self.gate is not None:
            await self.gate.wait()
        if self.refuse is not None:
            raise self.refuse
        self.valid.add(f"token-{number}")
        expires = None if self.life_s is None else now_ms + self.life_s * SECOND
        return Token(Secret(f"token-{number}"), expires_ms=expires)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        assert isinstance(credential, Token)
        assert len(nonce) == 32
        return attrs.evolve(request, headers={"X-Auth-Token": credential.text.reveal()})

    def rejected(self, response: Response, /) -> bool:
        return response.status == 401

    async def send(self, request: Request, /) -> Response:
        token = request.headers["X-Auth-Token"]
        self.sent.append(token)
        accepted = token in self.valid
        if self.slow is not None:
            await self.slow.wait()
        return Response(200 if accepted else 401)


def make(life_s: int | None = None) -> tuple[Service, AuthenticateTransport, CredentialStore, FakeClock]:
    clock = FakeClock()
    service = Service(clock, life_s)
    store = CredentialStore(service, service, clock)
    return service, AuthenticateTransport(service, service, store, clock), store, clock


async def send_many(transport: AuthenticateTransport, count: int) -> list[int]:
    found: list[int] = []

    async def one() -> None:
        found.append((await transport.send(ASK)).status)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    return found


async def test_a_thousand_calls_log_in_once() -> None:
    service, transport, _, _ = make()
    assert await send_many(transport, 1000) == [200] * 1000
    assert service.logins == 1


async def test_a_thousand_calls_with_an_expired_credential_renew_it_once_and_none_fails() -> None:
    service, transport, _, _ = make()
    await transport.send(ASK)
    service.valid.clear()
    assert await send_many(transport, 1000) == [200] * 1000
    assert service.logins == 2


async def test_even_where_the_first_credential_was_never_accepted() -> None:
    service, transport, store, _ = make()
    await store.current()
    service.valid.clear()
    assert await send_many(transport, 100) == [200] * 100
    assert service.logins == 2


async def test_a_cancelled_leader_hands_over_to_the_next_waiter() -> None:
    service, transport, _, _ = make()
    service.gate = anyio.Event()
    found: list[int] = []

    async def one(scope: anyio.CancelScope) -> None:
        with scope:
            found.append((await transport.send(ASK)).status)

    leader = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one, leader)
        await anyio.wait_all_tasks_blocked()
        for _ in range(5):
            tasks.start_soon(one, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        leader.cancel()
        service.gate.set()
    assert found == [200] * 5
    assert service.logins == 2


async def test_a_rejection_that_arrives_after_the_renewal_causes_no_other() -> None:
    service, transport, store, _ = make()
    await transport.send(ASK)
    service.valid.clear()
    service.slow = anyio.Event()
    late: list[int] = []

    async def late_call() -> None:
        late.append((await transport.send(ASK)).status)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(late_call)
        await anyio.wait_all_tasks_blocked()
        old = await store.current()
        assert (await store.after_rejection(old))[1]
        service.slow.set()
    assert late == [200]
    assert service.logins == 2


async def test_renewals_that_are_rejected_too_are_not_repeated_for_ever() -> None:
    service, transport, _, clock = make()
    await transport.send(ASK)

    class Never(set[str]):
        def __contains__(self, item: object) -> bool:
            return False

    service.valid = Never()
    for _ in range(5):
        assert await send_many(transport, 50) == [401] * 50
    assert service.logins == 1 + 3
    await clock.sleep(61)
    assert (await transport.send(ASK)).status == 401
    assert service.logins == 1 + 4


async def test_one_call_causes_one_renewal_at_most() -> None:
    service, transport, _, _ = make()
    await transport.send(ASK)

    class Never(set[str]):
        def __contains__(self, item: object) -> bool:
            return False

    service.valid = Never()
    assert (await transport.send(ASK)).status == 401
    assert service.logins == 2
    assert service.sent == ["token-1", "token-1", "token-2"]


async def test_it_is_renewed_before_it_expires() -> None:
    service, transport, _, clock = make(life_s=3600)
    await transport.send(ASK)
    await clock.sleep(3200)
    assert (await transport.send(ASK)).status == 200
    assert service.logins == 1
    await clock.sleep(200)
    assert await send_many(transport, 100) == [200] * 100
    assert service.logins == 2
    assert service.sent[-1] == "token-2"


async def test_while_one_renews_the_others_go_on_with_what_is_still_valid() -> None:
    service, transport, _, clock = make(life_s=3600)
    await transport.send(ASK)
    await clock.sleep(3500)
    service.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.send, ASK)
        await anyio.wait_all_tasks_blocked()
        assert (await transport.send(ASK)).status == 200
        assert service.sent[-1] == "token-1"
        service.gate.set()


async def test_a_refused_log_in_is_told_to_all_and_not_repeated_for_a_minute() -> None:
    service, transport, _, clock = make()
    service.refuse = AuthenticationError("wrong password", status=401, code="X")
    for _ in range(20):
        with pytest.raises(AuthenticationError, match="wrong password"):
            await transport.send(ASK)
    assert service.logins == 1
    service.refuse = None
    await clock.sleep(61)
    assert (await transport.send(ASK)).status == 200


async def test_a_log_in_that_fails_in_passing_is_tried_again_by_the_next_call() -> None:
    service, transport, _, _ = make()
    service.refuse = ServiceUnavailableError("down")
    with pytest.raises(ServiceUnavailableError):
        await transport.send(ASK)
    service.refuse = None
    assert (await transport.send(ASK)).status == 200


async def test_secrets_and_what_looks_like_one_are_scrubbed() -> None:
    _, _, store, _ = make()
    credential = await store.current()
    signature = "0123456789abcdef" * 4
    assert store.scrub(f"bad token-1 with {signature} and {'A1b2' * 30}, request 0123456789abcdef") == (
        "bad *** with *** and ***, request 0123456789abcdef"
    )
    assert "token-1" not in repr(credential) + str(credential)


async def test_a_log_in_that_fails_for_many_is_tried_once_for_all_of_them() -> None:
    service, transport, _, _ = make()
    service.gate = anyio.Event()
    service.refuse = ServiceUnavailableError("down")
    failures: list[ServiceUnavailableError] = []

    async def one() -> None:
        try:
            await transport.send(ASK)
        except ServiceUnavailableError as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        service.gate.set()
    assert len(failures) == 50
    assert service.logins == 1
    assert not any(failure.retried for failure in failures)


async def test_while_it_cannot_be_renewed_early_a_valid_credential_goes_on() -> None:
    service, transport, _, clock = make(life_s=3600)
    await transport.send(ASK)
    await clock.sleep(3500)
    service.refuse = ServiceUnavailableError("down")
    assert (await transport.send(ASK)).status == 200
    await clock.sleep(200)
    with pytest.raises(ServiceUnavailableError):
        await transport.send(ASK)


async def test_a_short_lived_credential_is_used_for_most_of_its_life() -> None:
    service, transport, _, clock = make(life_s=100)
    for _ in range(70):
        await transport.send(ASK)
        await clock.sleep(1)
    assert service.logins == 1
