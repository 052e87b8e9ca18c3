"""Being watched: one small hook, told of every request and of every call that a collection makes.

An observer is told after the fact, on the event loop, by a plain function call: what takes long, it hands over to
another thread. What it raises is logged once, by the logger ``metricsbridge``, and breaks nothing.
"""

from __future__ import annotations

import inspect
import logging
from typing import Final, Protocol, runtime_checkable

import attrs

from metricsbridge.errors import ConfigurationError

_LOGGER: Final = logging.getLogger("metricsbridge")


@attrs.frozen(kw_only=True)
class RequestEvent:
    """One request that went out, and what came back; each attempt and each log-in is one of its own.

    It holds no header, body, query or user name, so no secret. How many points an answer has is known when the call
    has decoded it: see ``CallEvent``.

    Attributes:
        call_id: 16 random hex digits, the same for all requests of one call, and for those of a log-in that it caused.
            Outside of a collection, each request with its attempts is a call.
        source: The collector's name of the source; empty where no collector opened it or collects from it.
        provider: Name of the provider, as in its entry point.
        operation: The vendor's name of the API call.
        method: The HTTP method.
        url: Without user, query and fragment.
        attempt: 1 for the first time that this request is sent.
        status: HTTP status of the answer; None where there was none.
        bytes: Length of the answer's body, decompressed; None where no whole answer arrived.
        wait_s: Seconds before it was sent, since it was asked for or since the attempt before: for its turn under the
            limits, for a retry, for a credential, for a free connection.
        duration_s: Seconds from then until the whole answer was there, or it failed.
        started_ms: When it was sent, ms since the epoch.
        error: Name of the class of error that the answer means or that came instead; ``CancelledError`` where the
            caller gave up; empty for a success.
        code: The vendor's own error code, or "".
    """

    call_id: str
    source: str
    provider: str
    operation: str
    method: str
    url: str
    attempt: int
    status: int | None
    bytes: int | None
    wait_s: float
    duration_s: float
    started_ms: int
    error: str = ""
    code: str = ""


@attrs.frozen(kw_only=True)
class CallEvent:
    """One call of a collection, or the description of one job, with everything that it took.

    Attributes:
        call_id: That of its requests.
        source: The collector's name of the source.
        operation: The call's; ``get_job`` for the description of a job.
        targets: The call's pairs of job id and task id; the task is "" for a job as a whole.
        points: Samples that it brought, before they are clipped to its window; None where it failed, or only described
            a job.
        duration_s: Seconds that it took, all attempts and waits included.
        started_ms: When it began, ms since the epoch.
        error: Name of the class of error that it failed with, or "". ``PartialDataError`` brings points all the same;
            ``DeadlineExceededError`` says that a deadline cut it off, ``CancelledError`` that the caller gave up.
        code: The vendor's own error code, or "".
    """

    call_id: str
    source: str
    operation: str
    targets: tuple[tuple[str, str], ...]
    points: int | None
    duration_s: float
    started_ms: int
    error: str = ""
    code: str = ""


@runtime_checkable
class Observer(Protocol):
    """What can watch: ``open_provider(…, observer=…)``, ``Collector(…, observer=…)``.

    A class that inherits from this one overrides what it wants to be told. ``metricsbridge.sinks`` has some that are
    ready-made.
    """

    def on_request(self, event: RequestEvent, /) -> None:
        """Take note of a request; called once for each that was handed to the network."""

    def on_call(self, event: CallEvent, /) -> None:
        """Take note of a call of a collection; called once for each that was begun, after its requests."""


class Guarded:
    """An observer that never raises: the first thing that the one inside raises is logged, the rest is passed over."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._reported = False

    def on_request(self, event: RequestEvent, /) -> None:
        """Pass it on."""
        try:
            self._observer.on_request(event)
        except BaseException as error:
            self._report(error)

    def on_call(self, event: CallEvent, /) -> None:
        """Pass it on."""
        try:
            self._observer.on_call(event)
        except BaseException as error:
            self._report(error)

    def _report(self, error: BaseException) -> None:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error
        if not self._reported:  # even a cancellation: nothing was awaited, so nobody asked for it
            self._reported = True
            name = type(self._observer).__name__
            _LOGGER.warning("the observer %s raised; it is not said again", name, exc_info=error)


def guarded(observer: Observer, /) -> Guarded:
    """Give an observer that never raises.

    Raises:
        ConfigurationError: It can't be one: a method is missing or asynchronous, or it is a class.
    """
    if isinstance(observer, Guarded):
        return observer
    if isinstance(observer, type) or not isinstance(observer, Observer):
        what = f"the class {observer.__name__}" if isinstance(observer, type) else type(observer).__name__
        raise ConfigurationError(
            f"observer: {what} is no observer: pass an instance with the methods on_request and on_call"
        )
    for method in (observer.on_request, observer.on_call):
        if inspect.iscoroutinefunction(method):
            raise ConfigurationError(
                f"observer: {method.__name__} of {type(observer).__name__} is asynchronous: write a plain function"
            )
    return Guarded(observer)
