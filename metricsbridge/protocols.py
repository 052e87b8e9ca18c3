"""The written contract between the library and its providers.

A provider is small on purpose: it says which calls answer a query, sends each through the transport it was given, and
decodes the bytes. It owns no connection, retry, limit, clock, task or lock. A new ability is a new small protocol
beside ``TrainingJobMetrics``, which is never extended: providers that lack it need not know of it.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

import attrs

from metricsbridge.http import Request, Response, classify_by_status
from metricsbridge.series.columns import Timing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import anyio

    from metricsbridge.errors import ProviderError
    from metricsbridge.model import Call, Evaluation, Job, JobSearch, JobTotals, Level, Query
    from metricsbridge.series.columns import SeriesBatch

API_VERSION: Final = 1
"""The version of this contract: what ``ProviderSpec.api`` is compared with."""


@runtime_checkable
class TrainingJobMetrics(Protocol):
    """What every provider can do: describe a job, plan the calls that answer a query, and make one such call."""

    async def get_job(self, job_id: str, /) -> Job:
        """Describe a job: status, times, accelerators, tasks; decide which of the vendor's routes serves it.

        Raises:
            ProviderError: ``NotFoundError`` where there is no such job, ``InvalidRequestError`` for an id that can't be
                one.
        """
        ...

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        """Give the fewest calls that answer the query; pure, no I/O.

        For a job that has not started it says what would be served; no such call is made.

        What the provider can't serve (a metric, a level, a task) it leaves out: whatever no call answers for is
        reported as unsupported. Each (target, metric) may be answered for by several calls with different windows.
        """
        ...

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Make one call and decode the answer; samples outside ``call.window`` are clipped away by the runtime.

        An answer without data is an empty batch, not an error.

        Raises:
            ProviderError: ``PartialDataError`` where some of the data arrived.
        """
        ...


@runtime_checkable
class SupportsJobSearch(Protocol):
    """A provider that can list jobs."""

    def list_jobs(self, search: JobSearch, /) -> AsyncIterator[Job]:
        """Give the jobs that match, the newest first; holds no scope across a yield."""
        ...


@runtime_checkable
class SupportsJobTotals(Protocol):
    """A provider that can count jobs and their devices without listing them one by one."""

    async def job_totals(self, search: JobSearch, /) -> Sequence[JobTotals]:
        """Count the jobs that match, one entry for each of the vendor's states that occurs."""
        ...


@runtime_checkable
class SupportsEvaluations(Protocol):
    """A provider whose jobs report how good the trained model is."""

    async def evaluations(self, job_id: str, /) -> Sequence[Evaluation]:
        """Give the evaluation of each class and the total; nothing where there is none (yet).

        Raises:
            ProviderError: ``NotFoundError`` where there is no such job.
        """
        ...


@runtime_checkable
class SupportsBatchPlanning(Protocol):
    """A provider one of whose calls may answer for many jobs."""

    max_jobs: int
    """So many jobs are planned together, at most."""

    def plan_jobs(self, jobs: Sequence[Job], query: Query, /) -> Iterable[Call]:
        """As ``TrainingJobMetrics.plan``, for several jobs at once."""
        ...


@runtime_checkable
class SupportsBatchDecoding(Protocol):
    """A provider that can decode many answers at once, which takes less than one by one; each call is one request."""

    async def send(self, call: Call, /) -> Response:
        """Send a call's one request.

        Raises:
            ProviderError: As ``TrainingJobMetrics.fetch``.
        """
        ...

    def decode(self, answers: Sequence[tuple[Call, Response]], /) -> SeriesBatch:
        """Give what ``fetch`` gives of each call, one after the other, as one batch; pure.

        The answers may come without their headers, which take as much memory as a small body does.

        Series without any value may be left out. All of the calls are of one plan.

        Raises:
            ProviderError: One of the answers can't be decoded. Each of them is then decoded by itself.
        """
        ...


class Transport(Protocol):
    """What carries a request; the one seam between pure code and the network."""

    async def send(self, request: Request, /) -> Response:
        """Send a request and give the whole answer.

        Raises:
            ProviderError: There is no answer, or (from the transport that a provider is given) it says "failed".
        """
        ...


class Clock(Protocol):
    """The one source of time and of waiting."""

    def now_ms(self) -> int:
        """Give the wall-clock time in milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Give seconds that never go backwards."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""
        ...

    def deadline(self, seconds: float | None, /) -> AbstractContextManager[anyio.CancelScope]:
        """Give a scope that is cancelled when so many seconds have passed; None never cancels it."""
        ...

    def move(self, scope: anyio.CancelScope, seconds: float | None, /) -> None:
        """Let a scope that ``deadline`` gave be cancelled when so many seconds have passed from now."""
        ...


@attrs.frozen(repr=False)
class Credential:
    """What requests are signed with. Providers subclass it with fields of type ``Secret``; it never shows itself.

    Attributes:
        expires_ms: When it stops being valid, ms since the epoch; None for never. It is renewed some time before.
    """

    expires_ms: int | None = attrs.field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class Authenticator(Protocol):
    """How one account proves who it is. The runtime decides when to obtain, keeps the credential and shares it."""

    @property
    def account(self) -> str:
        """What quotas count against, such as a project id; never a secret."""
        ...

    async def obtain(self, transport: Transport, now_ms: int, /) -> Credential:
        """Get a credential; the runtime runs one at a time, however many calls wait.

        Raises:
            AuthenticationError: There is none to be had.
        """
        ...

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Give the request with its proof, over exactly what goes on the wire; pure, once per attempt."""
        ...

    def rejected(self, response: Response, /) -> bool:
        """Tell whether this answer says that the credential is no longer valid, so that a new one may help."""
        ...


@attrs.frozen
class NoAuthentication:
    """The authenticator of services that ask for none."""

    account: str = "anonymous"

    async def obtain(self, transport: Transport, now_ms: int, /) -> Credential:
        """Give the empty credential."""
        return Credential()

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Give the request as it is."""
        return request

    def rejected(self, response: Response, /) -> bool:
        """Tell no: there is nothing to renew."""
        return False


_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h)")
_PERIOD_S = {"s": 1, "m": 60, "h": 3600}


@attrs.frozen
class Rate:
    """So many requests per second, at most; ``float("inf")`` is no limit."""

    per_second: float = attrs.field(validator=attrs.validators.gt(0))

    @classmethod
    def parse(cls, text: str, /) -> Self:
        """Read ``"50/s"``, ``"10/m"``, ``"1000/h"`` or ``"unlimited"``.

        Raises:
            ValueError: The text is none of these.
        """
        if text == "unlimited":
            return cls(float("inf"))
        match = _RATE.fullmatch(text)
        if match is None or float(match[1]) == 0:
            raise ValueError(f"{text!r} is not a rate: write for example '50/s', '10/m' or 'unlimited'")
        return cls(float(match[1]) / _PERIOD_S[match[2]])


def _read_only(table: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(dict(table))


def _no_authentication(settings: object) -> Authenticator:
    return NoAuthentication()


@attrs.frozen(kw_only=True)
class ProviderSpec:
    """What an entry point in the group ``metricsbridge.providers`` names; importing it does no I/O.

    Attributes:
        api: The version of the contract that the provider is written for.
        settings: An attrs class; what a user may set, in the vendor's own terms. Fields of type ``Secret`` are never
            shown. Converters and validators raise ``ConfigurationError`` for what the user is to read; the texts of
            other errors, which often quote the value, are left out.
        connect: Makes the provider from checked settings and the transport; the one place for I/O at opening.
        authenticator: Makes the authenticator from the settings.
        limits: Operation to the limit that the vendor documents; it is never exceeded, unless a user sets another.
            Leave out what is not documented: it is learned.
        classify: Gives the error that an answer means, or None for a success; also for a 200 that says "failed".
        description: One line for people: which service this is.
        provider: The class that ``connect`` makes: which of the ``Supports…`` protocols it has is read from it.
        serves: Level to the canonical metrics that there are on it; a level that is not served is left out.
        timing: Whether the service sends the times of its samples, or the provider infers them.
    """

    api: int = API_VERSION
    settings: type
    connect: Callable[[Any, Transport], Awaitable[TrainingJobMetrics]]
    authenticator: Callable[[Any], Authenticator] = _no_authentication
    limits: Mapping[str, Rate] = attrs.field(factory=dict, converter=_read_only)
    classify: Callable[[Response], ProviderError | None] = classify_by_status
    description: str = ""
    provider: type | None = None
    serves: Mapping[Level, tuple[str, ...]] = attrs.field(factory=dict, converter=_read_only)
    timing: Timing = Timing.REPORTED
