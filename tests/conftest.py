"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import inspect
import signal
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code. Under CI the examples are the same in every run.
settings.register_profile(
    "unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip
settings.load_profile("unhurried")

# What a shell starts in the background ignores Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _mocked_responses_fit_the_http_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give aiohttp's response the arguments that it asks for and that aioresponses does not pass yet."""
    needed = inspect.signature(aiohttp.ClientResponse.__init__).parameters
    if "stream_writer" in needed:
        original = aiohttp.ClientResponse.__init__

        def patched(self: aiohttp.ClientResponse, *args: Any, **kwargs: Any) -> None:
            kwargs.setdefault("stream_writer", SimpleNamespace(output_size=0))
            original(self, *args, **kwargs)

        monkeypatch.setattr(aiohttp.ClientResponse, "__init__", patched)
