"""A service with a log-in, pages and every kind of fault, and a provider for it: what an observer is told is held
against what the service has seen.
"""

# Annotations are read at run time here, to check settings.

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import attrs
import numpy as np

import metricsbridge as mb
from metricsbridge.http import Request, Response, classify_by_status
from metricsbridge.protocols import Credential, ProviderSpec, Transport
from metricsbridge.registry import open_spec
from metricsbridge.testing import FakeClock, FakeTransport

URL: Final = "http://watched.test"
PASSWORD: Final = "correct-horse-battery"
METRIC: Final = "hw.power"
MINUTE: Final = 60_000
WINDOW: Final = mb.Window(0, 4 * MINUTE)


@attrs.frozen
class Seen:
    """One request as the service saw it."""

    operation: str
    duration_s: float
    status: int | None
    error: str


class Service:
    """Answers after some time, or fails, as the script says for each request.

    Attributes:
        seen: Every request, when it was over.
        tokens: Those that are valid.
    """

    def __init__(self, clock: FakeClock, script: Callable[[Request], tuple[str, float]]) -> None:
        self.clock = clock
        self.script = script
        self.seen: list[Seen] = []
        self.tokens: set[str] = set()
        self.issued = 0
        self.transport = FakeTransport(self.answer, clock=clock)

    async def answer(self, request: Request) -> Response:
        began = self.clock.monotonic()
        status, error = None, ""
        try:
            fault, seconds = self.script(request)
            if seconds:
                await self.clock.sleep(seconds)
            response = self._respond(request, fault)
            status, error = response.status, ERRORS.get(response.status, "")
            if b'"slow down"' in response.body:
                error = "ThrottledError"
            return response
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self.seen.append(Seen(request.operation, self.clock.monotonic() - began, status, error))

    def _respond(self, request: Request, fault: str) -> Response:
        if fault == "broken":
            raise mb.TransportError("the connection was cut")
        if fault == "expired":
            self.tokens.clear()
        if fault.isdigit():
            return Response(int(fault), {"Location": "http://elsewhere.test/x"}, b"{}")
        if fault == "code":
            return Response(400, {}, b'{"code": "slow down"}')
        if request.operation == "Login":
            self.issued += 1
            self.tokens.add(f"token-{self.issued}-{PASSWORD}")
            return Response(200, {}, json.dumps({"token": f"token-{self.issued}-{PASSWORD}"}).encode())
        if request.headers.get("X-Token") not in self.tokens:
            return Response(401, {}, b"{}")
        return Response(200, {}, json.dumps({"points": 3, "path": request.url}).encode())


ERRORS: Final = {
    302: "InvalidRequestError", 400: "InvalidRequestError", 401: "AuthenticationError", 404: "NotFoundError",
    429: "ThrottledError", 500: "ServiceUnavailableError",
}  # fmt: skip
FAULTS: Final = ["ok", "ok", "ok", "ok", "302", "404", "429", "500", "broken", "code", "expired"]


@attrs.frozen(kw_only=True)
class Settings:
    password: mb.Secret
    pages: int = 2


@attrs.frozen(repr=False)
class Token(Credential):
    text: mb.Secret


@attrs.frozen
class Login:
    password: mb.Secret
    account: str = "me"

    async def obtain(self, transport: Transport, now_ms: int, /) -> Token:
        body = json.dumps({"password": self.password.reveal()}).encode()
        response = await transport.send(Request("POST", f"{URL}/login", body=body, operation="Login"))
        return Token(mb.Secret(json.loads(response.body)["token"]), expires_ms=now_ms + 3_600_000)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        assert isinstance(credential, Token)
        return attrs.evolve(request, headers={"X-Token": credential.text.reveal()})

    def rejected(self, response: Response, /) -> bool:
        return response.status == 401


class Watched:
    """Each job has two tasks, each task one call of some pages; what its last page loses, it says."""

    def __init__(self, transport: Transport, pages: int) -> None:
        self.transport = transport
        self.pages = pages
        self.asked: list[tuple[str, str]] = []

    async def get_job(self, job_id: str, /) -> mb.Job:
        self.asked.append(("get_job", job_id))
        await self.transport.send(Request("GET", f"{URL}/jobs/{job_id}", operation="ShowJob"))
        return mb.Job(id=job_id, status=mb.JobStatus.RUNNING, start_time_ms=0, tasks=(mb.Task(id="a"), mb.Task(id="b")))

    def plan(self, job: mb.Job, query: mb.Query, /) -> Sequence[mb.Call]:
        return [
            mb.Call(operation="Read", targets=((job.id, task.id),), metrics=(METRIC,), window=query.window)
            for task in job.tasks
        ]

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        self.asked.append((call.operation, call.targets[0][0]))
        found: list[Any] = []
        for page in range(self.pages):
            params = (("page", str(page)), ("token", "in-the-query"))
            try:
                response = await self.transport.send(Request("GET", f"{URL}/data", params, operation="Read"))
            except mb.NotFoundError as error:
                lost = mb.Failure(targets=call.targets, metrics=call.metrics, window=call.window, error=error)
                raise mb.PartialDataError("a page is gone", series=points(call, len(found)), lost=[lost]) from error
            found += range(json.loads(response.body)["points"])
        return points(call, len(found))


def points(call: mb.Call, count: int) -> mb.SeriesBatch:
    (job, task), (metric,) = call.targets[0], call.metrics
    return mb.SeriesBatch(
        keys=(mb.SeriesKey(job, task, "", metric),), unit=("W",), interval_ms=(0,), timing=(mb.Timing.REPORTED,),
        time_error_ms=(0,), statistic=(mb.Statistic.LAST,), offsets=np.array([0, count]),
        times=np.arange(count, dtype=np.int64) * 1000, values=np.ones(count),
    )  # fmt: skip


def classify(response: Response) -> mb.ProviderError | None:
    """Give the error of an answer; one with HTTP 400 says in its body that it throttles."""
    if response.status == 400 and b"slow down" in response.body:
        return mb.ThrottledError("too many", status=400, code="slow down")
    return classify_by_status(response)


async def connect(settings: Settings, transport: Transport) -> Watched:
    return Watched(transport, settings.pages)


WATCHED: Final = ProviderSpec(
    settings=Settings,
    connect=connect,
    authenticator=lambda settings: Login(settings.password),
    limits={"Read": mb.Rate(4.0)},
    classify=classify,
    provider=Watched,
)


JOBS: Final = [f"hw/job-{number}" for number in range(4)]
OK: Final = ("ok", 0.25)


def opened(service: Service, **options: Any) -> AbstractAsyncContextManager[Any]:
    """Open a provider for the service, without limits unless they are given."""
    given = {"limits": {"*": "unlimited"}, "password": PASSWORD, **options}
    return open_spec("watched", WATCHED, transport=service.transport, **given)


class Notes(mb.Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.requests: list[mb.RequestEvent] = []
        self.calls: list[mb.CallEvent] = []

    def on_request(self, event: mb.RequestEvent, /) -> None:
        self.requests.append(event)

    def on_call(self, event: mb.CallEvent, /) -> None:
        self.calls.append(event)
