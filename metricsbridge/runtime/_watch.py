"""The layers that tell an observer what is going on. Without an observer none of them is there.

The inner one stands next to the network and sees what the network sees: each attempt and each log-in, signed. The outer
one stands around the retries and knows what belongs together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import attrs

from metricsbridge.errors import DeadlineExceededError, InvalidRequestError, PartialDataError, ProviderError
from metricsbridge.model import Job
from metricsbridge.observer import CallEvent, RequestEvent
from metricsbridge.runtime._context import CURRENT, SENDING, Sending, new_call_id
from metricsbridge.series.columns import SeriesBatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from metricsbridge.http import Request, Response
    from metricsbridge.model import Call, Query, Target
    from metricsbridge.observer import Guarded
    from metricsbridge.protocols import Clock, TrainingJobMetrics, Transport
    from metricsbridge.runtime._credentials import CredentialStore, Scrubber

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@attrs.frozen
class SendWatch:
    """The outer layer: says which call the attempts below belong to, and counts them."""

    inner: Transport
    clock: Clock

    async def send(self, request: Request, /) -> Response:
        """Send; a log-in belongs to the call that causes it."""
        outer, context = SENDING.get(), CURRENT.get()
        known = outer.call_id if outer is not None else context.identify() if context is not None else None
        SENDING.set(Sending(known or new_call_id(), self.clock.monotonic()))
        try:
            return await self.inner.send(request)
        finally:
            SENDING.set(outer)  # a reset fails where a coroutine that nobody awaits any more is closed


@attrs.frozen(kw_only=True)
class RequestWatch:
    """The inner layer: tells of each request, whatever becomes of it.

    Attributes:
        observer: Who is told.
        provider: Name of the provider.
        source: The collector's name of the source, where one opened it.
        classify: Gives the error that an answer means.
        store: Takes secrets out of the vendor's codes.
    """

    inner: Transport
    observer: Guarded
    provider: str
    source: str
    classify: Callable[[Response], ProviderError | None]
    store: CredentialStore | Scrubber
    clock: Clock

    async def send(self, request: Request, /) -> Response:
        """Send, and tell of it."""
        sending = SENDING.get()
        assert sending is not None  # the outer layer is around this one
        sending.attempts += 1
        sending.began = self.clock.monotonic()
        try:
            response = await self.inner.send(request)
        except BaseException as error:
            failure = error  # told of outside of the block: what an observer raises is not to show these frames
        else:
            self._tell(request, sending, response, self._meaning(response))
            return response
        try:
            self._tell(request, sending, None, failure)
            raise failure
        finally:
            del failure  # its traceback has this frame

    def _meaning(self, response: Response) -> BaseException | None:
        if 300 <= response.status < 400:
            return InvalidRequestError("a redirect")
        try:
            return self.classify(response)
        except Exception as error:  # the layer that asks again fails with it
            return error

    def _tell(self, request: Request, sending: Sending, response: Response | None, error: BaseException | None) -> None:
        ended = self.clock.monotonic()
        known = error if isinstance(error, ProviderError) else None
        context = CURRENT.get()
        event = RequestEvent(
            call_id=sending.call_id,
            source=self.source if context is None else context.source,
            provider=self.provider,
            operation=request.operation,
            method=request.method,
            url=_without_secrets(request.url),
            attempt=sending.attempts,
            status=response.status if response is not None else None if known is None else known.status,
            bytes=None if response is None else len(response.body),
            wait_s=sending.began - sending.since,
            duration_s=ended - sending.began,
            started_ms=self.clock.now_ms() - round((ended - sending.began) * 1000),
            error="" if error is None else type(error).__name__,
            code="" if known is None else self.store.scrub(known.code),
        )
        sending.since = ended
        self.observer.on_request(event)


def _without_secrets(url: str) -> str:
    scheme, mark, rest = url.partition("#")[0].partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


@attrs.frozen
class WatchedProvider:
    """A provider whose calls an observer is told of: the one that a collection asks in its place."""

    inner: TrainingJobMetrics
    source: str
    observer: Guarded
    clock: Clock

    async def get_job(self, job_id: str, /) -> Job:
        """Describe a job."""
        return await self._told("get_job", ((job_id, ""),), self.inner.get_job, job_id, Job)

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        """Plan; nothing is told of it."""
        return self.inner.plan(job, query)

    def plan_jobs(self, jobs: Sequence[Job], query: Query, /) -> Iterable[Call]:
        """Plan several jobs; asked only where the provider can."""
        inner: Any = self.inner
        planned: Iterable[Call] = inner.plan_jobs(jobs, query)
        return planned

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Make one call."""
        return await self._told(call.operation, call.targets, self.inner.fetch, call, SeriesBatch)

    async def _told(
        self,
        operation: str,
        targets: tuple[Target, ...],
        ask: Callable[[Asked], Awaitable[Answer]],
        asked: Asked,
        kind: type[Answer],
    ) -> Answer:
        context = CURRENT.get()
        assert context is not None  # every worker of a collection has one
        began = self.clock.monotonic()
        try:
            found = await ask(asked)
        except BaseException as error:
            failure = error
        else:
            wrong = None if isinstance(found, kind) else TypeError()  # the collection will refuse it
            self._tell(context.identify(), operation, targets, began, found, wrong)
            return found
        try:
            batch = failure.series if isinstance(failure, PartialDataError) else None
            cut_off = isinstance(failure, anyio.get_cancelled_exc_class()) and context.outlasts(0, self.clock)
            told = DeadlineExceededError("as its Failure will say") if cut_off else failure
            self._tell(context.identify(), operation, targets, began, batch, told)
            raise failure
        finally:
            del failure

    def _tell(
        self,
        call_id: str,
        operation: str,
        targets: tuple[Target, ...],
        began: float,
        found: object,
        error: BaseException | None,
    ) -> None:
        duration_s = self.clock.monotonic() - began
        event = CallEvent(
            call_id=call_id,
            source=self.source,
            operation=operation,
            targets=targets,
            points=int(found.times.size) if isinstance(found, SeriesBatch) else None,
            duration_s=duration_s,
            started_ms=self.clock.now_ms() - round(duration_s * 1000),
            error="" if error is None else type(error).__name__,
            code=error.code if isinstance(error, ProviderError) else "",
        )
        self.observer.on_call(event)
