"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest


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
