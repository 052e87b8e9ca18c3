"""One credential per source: obtained once, shared, renewed before it expires and once after it is rejected."""

from __future__ import annotations

import random
import re
from copy import copy
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from metricsbridge.errors import AuthenticationError, PermissionDeniedError, ProviderError
from metricsbridge.runtime._answers import refusal
from metricsbridge.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricsbridge.http import Request, Response
    from metricsbridge.protocols import Authenticator, Clock, Credential, Transport

_MARGIN_MS: Final = 300_000
"""A credential is renewed so long before it expires; while one call renews it, the others go on with it."""

_LOCKOUT_MS: Final = 60_000
"""After a refusal nobody asks again for so long: repeated wrong log-ins lock accounts."""

_MOST_UNPROVEN: Final = 3
"""So many renewals in a row may be rejected, unused; then nobody asks again for ``_LOCKOUT_MS``."""

_MOST_SENT: Final = 4
"""So often a request is sent, at most, as long as each rejection finds a newer credential."""

_SHORTEST_SECRET: Final = 6
"""Shorter texts are no secrets of any vendor, and would be found everywhere."""

_LOOKS_SECRET = re.compile(r"[0-9a-fA-F]{64,}|[A-Za-z0-9+/=_~.-]{100,}")


class CredentialStore:
    """Keeps the credential of one source and renews it, one call at a time, however many wait.

    Attributes:
        unproven: So many credentials in a row were obtained in place of another one and not accepted (yet).
    """

    def __init__(self, authenticator: Authenticator, transport: Transport, clock: Clock) -> None:
        self._authenticator = authenticator
        self._transport = transport
        self._clock = clock
        self._lock = anyio.Lock()
        self._current: Credential | None = None
        self._refused: tuple[int, AuthenticationError | PermissionDeniedError] | None = None
        self._failures = 0
        self._failed: ProviderError | None = None
        self.unproven = 0
        self._renewed_ms = 0
        self._margin_ms = _MARGIN_MS

    def valid(self) -> Credential | None:
        """Give the credential if it can be used as it is."""
        credential = self._current
        if credential is None or credential.expires_ms is None:
            return credential
        left_ms = credential.expires_ms - self._clock.now_ms()
        return credential if left_ms > self._margin_ms or (left_ms > 0 and self._lock.locked()) else None

    async def current(self) -> Credential:
        """Give the credential, obtaining or renewing it where need be.

        Raises:
            AuthenticationError: There is none to be had; the same answer goes to all who wait, for some time.
        """
        found = self.valid()
        if found is not None:
            return found
        old = self._current
        try:
            return (await self._renew(old))[0]
        except ProviderError:
            # It was to be renewed before its time: it still holds.
            if old is None or old.expires_ms is None or old.expires_ms <= self._clock.now_ms():
                raise
            return old

    async def after_rejection(self, rejected: Credential, /) -> tuple[Credential | None, bool]:
        """Give another credential than the rejected one, and whether it was this caller who obtained it.

        There is none where asking for one would not help: the renewals before it were never accepted either, or the
        new one is the same.
        """
        recent = self._clock.now_ms() - self._renewed_ms < _LOCKOUT_MS
        if self._current is rejected and self.unproven >= _MOST_UNPROVEN and recent:
            return None, False
        renewed, obtained = await self._renew(rejected)
        return (None if renewed == rejected else renewed), obtained

    def accepted(self, credential: Credential, /) -> None:
        """Take note that the service accepts the credential."""
        if credential is self._current:
            self.unproven = 0

    async def _renew(self, stale: Credential | None) -> tuple[Credential, bool]:
        """Obtain a credential, unless another call has done it meanwhile; tells which.

        The lock is handed on when its holder is cancelled, so the next who waits obtains in its place. When the holder
        fails, all who waited with it fail with it; they would only fail one after the other.
        """
        failures = self._failures
        async with self._lock:
            if self._current is not None and self._current is not stale:
                return self._current, False
            now_ms = self._clock.now_ms()
            if self._refused is not None and now_ms - self._refused[0] < _LOCKOUT_MS:
                raise _copy(self._refused[1])
            if self._failed is not None and self._failures != failures:
                raise _copy(self._failed)
            try:
                self._current = await self._authenticator.obtain(self._transport, now_ms)
            except (AuthenticationError, PermissionDeniedError) as error:
                self._refused = (self._clock.now_ms(), error.with_traceback(None))
                raise
            except ProviderError as error:
                self._failures += 1
                error.retried = False  # type: ignore[misc]  # it has been tried again already: not again by each call
                self._failed = error.with_traceback(None)
                raise
            self._refused = self._failed = None
            if self._current.expires_ms is not None:
                self._margin_ms = min(_MARGIN_MS, max(0, self._current.expires_ms - now_ms) // 5)
            self.unproven += stale is not None
            self._renewed_ms = self._clock.now_ms()
            return self._current, True

    def scrub(self, text: str, /) -> str:
        """Give a text without the credential's secrets, and without what looks like a signature or token."""
        return Scrubber(self._current).scrub(text)


@attrs.frozen(repr=False)
class Scrubber:
    """Takes the secrets of settings, or of a credential, out of texts."""

    holder: Any

    def scrub(self, text: str, /) -> str:
        """Give a text without those secrets, and without what looks like a signature or token."""
        for field in attrs.fields(type(self.holder)) if attrs.has(type(self.holder)) else ():
            value = getattr(self.holder, field.name)
            if isinstance(value, Secret) and len(value) >= _SHORTEST_SECRET:
                text = text.replace(value.reveal(), "***")
        return _LOOKS_SECRET.sub("***", text)


def _copy(error: ProviderError) -> ProviderError:
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied


@attrs.frozen
class AuthenticateTransport:
    """Signs each attempt; after a rejection it renews the credential and sends once more.

    It classifies the answer too, as ``ClassifyTransport`` does: a layer of its own would cost every call a frame.
    """

    inner: Transport
    authenticator: Authenticator
    store: CredentialStore
    clock: Clock
    classify: Callable[[Response], ProviderError | None] = lambda response: None
    draw: random.Random = attrs.field(factory=random.Random)  # a nonce must be new, not secret

    async def send(self, request: Request, /) -> Response:
        """Send the request signed; it causes one renewal at most, and makes use of those that others cause.

        Raises:
            ProviderError: What the answer means.
        """
        store, authenticator = self.store, self.authenticator
        credential = store.valid() or await store.current()
        may_obtain = True
        for _ in range(_MOST_SENT):
            nonce = f"{self.draw.getrandbits(128):032x}"
            signed = authenticator.sign(request, credential, self.clock.now_ms(), nonce)
            response = await self.inner.send(signed)
            if not authenticator.rejected(response):
                if store.unproven:
                    store.accepted(credential)
                break
            newer = store.valid()
            if newer is None or newer is credential:
                newer, obtained = await store.after_rejection(credential) if may_obtain else (None, False)
                may_obtain = may_obtain and not obtained
            if newer is None:
                break
            credential = newer
        error = self.classify(response)
        if error is None and not 300 <= response.status < 400:
            return response
        raise refusal(error, request, response, store)
