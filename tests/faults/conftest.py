"""Fixtures of the fault matrix."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psutil
import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TURNS = 1_000
"""So many turns the event loop gets to close what is being closed."""


def _sockets() -> set[int]:
    return {connection.fd for connection in psutil.Process().net_connections("tcp")}


@pytest_asyncio.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """Hold that a test leaves no task and no socket."""
    before = _sockets()
    yield
    for _ in range(TURNS):
        if not _sockets() - before and len(asyncio.all_tasks()) == 1:
            break
        await asyncio.sleep(0)
    assert _sockets() - before == set()
    assert asyncio.all_tasks() == {asyncio.current_task()}
