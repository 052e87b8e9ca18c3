"""Retries: what passes is tried again, after the wait that the server asks for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs

from metricsbridge.errors import ProviderError, ServiceUnavailableError, ThrottledError
from metricsbridge.http import ANSWERED
from metricsbridge.runtime._context import CURRENT
from metricsbridge.runtime._limits import LONGEST_PAUSE_S

if TYPE_CHECKING:
    from metricsbridge.http import Request, Response
    from metricsbridge.protocols import Clock, Transport


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often and how long.

    Attributes:
        attempts: At most so many in all.
        base_s: The first wait is drawn from 0 to this, the next ones from 0 to twice the bound before ("full jitter").
        cap_s: No drawn wait is longer.
        longest_hint_s: A server that asks for a longer wait than this is not waited for.
    """

    attempts: int = 7
    base_s: float = 0.5
    cap_s: float = 20.0
    longest_hint_s: float = LONGEST_PAUSE_S

    def wait_s(self, error: ProviderError, attempt: int, draw: random.Random, /) -> float | None:
        """Give the seconds to wait after a failed attempt, or None to give up."""
        if not error.retried or attempt >= self.attempts:
            return None
        hint = error.retry_after_s if isinstance(error, (ThrottledError, ServiceUnavailableError)) else None
        if hint is None:
            return draw.uniform(0, min(self.cap_s, self.base_s * 2 ** (attempt - 1)))
        return hint if hint <= self.longest_hint_s else None


@attrs.frozen
class RetryTransport:
    """Tries again; the outermost layer, so it also says in each error what failed where."""

    inner: Transport
    provider: str
    clock: Clock
    policy: RetryPolicy = RetryPolicy()
    draw: random.Random = attrs.field(factory=random.Random)

    async def send(self, request: Request, /) -> Response:
        """Send, and again after each failure that passes, until the policy or the caller's deadline says no."""
        attempt = 1
        while True:
            try:
                response = await self.inner.send(request)
            except ProviderError as error:
                error.provider = error.provider or self.provider
                error.operation = error.operation or request.operation
                error.attempts = max(error.attempts, attempt)
                enough = request.most_attempts is not None and attempt >= request.most_attempts
                wait = None if enough else self.policy.wait_s(error, attempt, self.draw)
                context = CURRENT.get()
                if wait is None or (context is not None and context.outlasts(wait, self.clock)):
                    # The frames below hold signed headers in their locals; they stay out of every traceback.
                    raise error.with_traceback(None) from error.__cause__
                if context is not None:
                    context.attempts = attempt
                    context.last_error = error.with_traceback(None)
            else:
                if ANSWERED.get() != (self.provider, request.operation):  # setting it takes longer
                    ANSWERED.set((self.provider, request.operation))
                return response
            await self.clock.sleep(wait)
            attempt += 1


@attrs.frozen
class ForOthersTransport:
    """The outermost layer of a log-in, for which others may wait: whoever has too little time does not give it up.

    A deadline still cuts it off; then the next who waits goes on with it.
    """

    inner: Transport

    async def send(self, request: Request, /) -> Response:
        """Send, however long it takes."""
        context = CURRENT.get()
        if context is None:
            return await self.inner.send(request)
        context.for_others = True
        try:
            return await self.inner.send(request)
        finally:
            context.for_others = False
