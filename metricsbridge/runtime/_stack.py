"""The layers of a source's transport, put together: retry ( limit ( authenticate and classify ( http ) ) )."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from metricsbridge.runtime._answers import ClassifyTransport
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.runtime._context import OPENING
from metricsbridge.runtime._credentials import AuthenticateTransport, CredentialStore, Scrubber
from metricsbridge.runtime._limits import LimitTransport, Quota
from metricsbridge.runtime._retry import ForOthersTransport, RetryTransport
from metricsbridge.runtime._transport import HttpTransport, open_session
from metricsbridge.runtime._watch import RequestWatch, SendWatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from metricsbridge.config import ConnectionSettings
    from metricsbridge.observer import Guarded
    from metricsbridge.protocols import Authenticator, Clock, ProviderSpec, Transport


@asynccontextmanager
async def open_stack(
    name: str,
    spec: ProviderSpec,
    settings: Any,
    connection: ConnectionSettings,
    *,
    transport: Transport | None,
    clock: Clock | None,
    authenticator: Authenticator | None,
    quota: Quota | None,
    observer: Guarded | None = None,
) -> AsyncIterator[Transport]:
    """Give the transport that the provider sends through.

    What the authenticator sends goes through the same layers but its own: nothing signs the log-in. Where there is an
    observer, the provider's or that of the collector that opens it, one more layer is outermost and one innermost.
    """
    clock = clock or getattr(transport, "clock", None) or SystemClock()
    authenticator = authenticator or spec.authenticator(settings)
    quota = quota or Quota()
    # "*" is every operation that is not named, so it takes the place of all documented limits.
    rates = {**({} if "*" in connection.limits else spec.limits), **connection.limits}

    opening = OPENING.get()
    observer = observer or (None if opening is None else opening.observer)
    source = "" if opening is None else opening.source

    def watched(http: Transport, store: CredentialStore | Scrubber) -> Transport:
        if observer is None:
            return http
        return RequestWatch(
            inner=http, observer=observer, provider=name, source=source, classify=spec.classify, store=store,
            clock=clock,
        )  # fmt: skip

    def layered(inner: Transport) -> Transport:
        limited = LimitTransport(inner, authenticator.account, rates, quota, clock)
        retrying = RetryTransport(limited, name, clock)
        return retrying if observer is None else SendWatch(retrying, clock)

    def complete(http: Transport) -> Transport:
        plain = Scrubber(settings)
        log_in = ForOthersTransport(layered(ClassifyTransport(watched(http, plain), spec.classify, plain)))
        store = CredentialStore(authenticator, log_in, clock)
        return layered(AuthenticateTransport(watched(http, store), authenticator, store, clock, spec.classify))

    if transport is not None:
        yield complete(transport)
        return
    async with open_session(connection) as session:
        http = HttpTransport(session, connection.max_body, clock, connection.bytes_in_flight)
        try:
            yield complete(http)
        finally:
            http.close()
