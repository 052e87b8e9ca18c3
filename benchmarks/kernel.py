"""This library's compiled kernel, and how to do without it for a while, so that both take part in one run."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    _door: Any = import_module("metricsbridge.series._kernel")
except ModuleNotFoundError:
    _door = None


def has_kernel() -> bool:
    """Tell whether there is a kernel: the library may have been installed without a compiler."""
    return getattr(_door, "COMPILED", None) is not None


@contextmanager
def without_kernel() -> Iterator[None]:
    """Let the library do all of its work in numpy and msgspec meanwhile."""
    compiled = _door.COMPILED
    _door.COMPILED = None
    try:
        yield
    finally:
        _door.COMPILED = compiled
