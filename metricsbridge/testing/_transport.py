"""A transport without a network: an ordinary function answers."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from msgspec.structs import replace

from metricsbridge.testing._clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from metricsbridge.http import Request, Response
    from metricsbridge.protocols import Clock


class FakeTransport:
    """Takes the place of the socket: ``open_provider(name, transport=FakeTransport(handler), …)``.

    Signing, classification, limits and retries stay on top of it, so the handler sees what would go on the wire.

    Args:
        handler: Gives the Response to a Request, or raises; may be a coroutine function. Where the Response does not
            say when it was received, the clock does.
        clock: What the layers above wait on; by default a FakeClock, on which waits are free.

    Attributes:
        requests: Every request that was sent, in order.
    """

    def __init__(
        self, handler: Callable[[Request], Response | Awaitable[Response]], *, clock: Clock | None = None
    ) -> None:
        self._handler = handler
        self.clock: Clock = FakeClock() if clock is None else clock
        self.requests: list[Request] = []

    async def send(self, request: Request, /) -> Response:
        """Ask the handler."""
        self.requests.append(request)
        answer = self._handler(request)
        response = await answer if inspect.isawaitable(answer) else answer
        return response if response.received_ms else replace(response, received_ms=self.clock.now_ms())
