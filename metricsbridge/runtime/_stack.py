"""The layers of a source's transport, put together: retry ( limit ( authenticate and classify ( http ) ) )."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from metricsbridge.runtime._answers import ClassifyTransport
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.runtime._credentials import AuthenticateTransport, CredentialStore, Scrubber
from metricsbridge.runtime._limits import LimitTransport, Quota
from metricsbridge.runtime._retry import RetryTransport
from metricsbridge.runtime._transport import HttpTransport, open_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from metricsbridge.config import ConnectionSettings
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
) -> AsyncIterator[Transport]:
    """Give the transport that the provider sends through.

    What the authenticator sends goes through the same layers but its own: nothing signs the log-in.
    """
    clock = clock or getattr(transport, "clock", None) or SystemClock()
    authenticator = authenticator or spec.authenticator(settings)
    quota = quota or Quota()
    # "*" is every operation that is not named, so it takes the place of all documented limits.
    rates = {**({} if "*" in connection.limits else spec.limits), **connection.limits}

    def layered(inner: Transport) -> Transport:
        return RetryTransport(LimitTransport(inner, authenticator.account, rates, quota, clock), name, clock)

    def complete(http: Transport) -> Transport:
        log_in = layered(ClassifyTransport(http, spec.classify, Scrubber(settings)))
        store = CredentialStore(authenticator, log_in, clock)
        return layered(AuthenticateTransport(http, authenticator, store, clock, spec.classify))

    if transport is not None:
        yield complete(transport)
        return
    async with open_session(connection) as session:
        yield complete(HttpTransport(session, connection.max_body, clock, connection.bytes_in_flight))
