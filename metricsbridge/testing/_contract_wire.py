"""What stands between a provider and its simulated service, and what watches for ways around it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from metricsbridge.http import Request, Response

Simulator: TypeAlias = "Callable[[Request], Response | Awaitable[Response]]"
"""A simulated service: from a Request to a Response; it may be a coroutine function."""

_AT_WORK: ContextVar[bool] = ContextVar("metricsbridge_simulator_at_work", default=False)
"""Whether the simulated service is at work: what happens meanwhile is its doing."""


class Wire:
    """The simulated service, with whatever a check puts before it.

    Attributes:
        requests: What was sent, in order.
        senders: The ids of the tasks that sent it.
        between: Answers in place of the service; None lets the service answer.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.requests: list[Request] = []
        self.senders: list[int] = []
        self.between: Callable[[Request], Awaitable[Response]] | None = None

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self.requests.append(request)
        self.senders.append(anyio.get_current_task().id)
        return await (self.answer(request) if self.between is None else self.between(request))

    async def answer(self, request: Request) -> Response:
        """Let the service answer."""
        token = _AT_WORK.set(True)
        try:
            answer: Any = self._simulator(request)
            response: Response = await answer if hasattr(answer, "__await__") else answer
            return response
        finally:
            _AT_WORK.reset(token)


_FORBIDDEN: Final = {
    "socket.socket.connect": "opens a connection",
    "socket.socket.connect_ex": "opens a connection",
    "socket.getaddrinfo": "looks up a host",
    "aiohttp.ClientSession.__init__": "makes an HTTP session",
    "threading.Thread.start": "starts a thread",
    "subprocess.Popen.__init__": "starts a process",
    "asyncio.base_events.BaseEventLoop.create_task": "starts a task",
}
"""What no provider does, whoever does it for it."""

_NOT_BY_ITSELF: Final = {
    "time.sleep": "sleeps",
    "asyncio.sleep": "sleeps",
    "anyio.sleep": "sleeps",
    "time.time": "reads the clock",
    "time.time_ns": "reads the clock",
    "time.monotonic": "reads the clock",
}
"""What the provider's own code does not call."""


@contextmanager
def watched(package: str) -> Iterator[list[str]]:
    """Note down what a provider in that top-level package does that only the library may do.

    What the simulated service does is not noted.
    """
    noted: list[str] = []

    def by_package() -> bool:
        frame = sys._getframe(2)
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] == package

    def watch(patch: pytest.MonkeyPatch, target: str, what: str, *, anyone: bool) -> None:
        original = resolve_name(target)

        def noting(*args: Any, **kwargs: Any) -> Any:
            if not _AT_WORK.get() and (anyone or by_package()):
                noted.append(f"{what} ({target})")
            return original(*args, **kwargs)

        patch.setattr(target, noting)

    with pytest.MonkeyPatch.context() as patch:
        for target, what in _FORBIDDEN.items():
            watch(patch, target, what, anyone=True)
        for target, what in _NOT_BY_ITSELF.items():
            watch(patch, target, what, anyone=False)
        yield noted
