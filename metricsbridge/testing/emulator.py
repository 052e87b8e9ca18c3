"""What every emulated service carries, and how one is served."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from metricsbridge.testing.faults import Faults
    from metricsbridge.testing.fleet import Fleet


@attrs.frozen(kw_only=True, eq=False)
class Emulator:
    """What an application that emulates a service tells about itself, under ``app[EMULATOR]``.

    Attributes:
        settings: Gives what ``open_provider`` needs to reach it at a base URL, fake credentials included; plain values
            that JSON can carry.
        jobs: Ids of the jobs that it serves, as a ``JobRef`` writes them behind its source.
        fleet: The truth behind what it serves.
        faults: What it injects.
    """

    settings: Callable[[str], Mapping[str, Any]]
    jobs: tuple[str, ...]
    fleet: Fleet
    faults: Faults


EMULATOR: Final = web.AppKey("EMULATOR", Emulator)

_SHUTDOWN_S = 1.0


@asynccontextmanager
async def serve(app: web.Application, /, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an application and give its base URL; leaving the block ends every connection.

    Args:
        app: What an entry point in ``metricsbridge.emulators`` makes, or any other.
        host: Where to listen.
        port: 0 takes a free one.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        name, number = runner.addresses[0][:2]
        yield f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"
    finally:
        await runner.cleanup()
