"""Which engine decodes and aligns: the compiled kernel where it was built, else numpy and msgspec.

Both give the same, bit for bit. The environment variable ``METRICSBRIDGE_KERNEL=off`` leaves the kernel alone, to
compare them or to rule it out.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from types import ModuleType

_INTERFACE: Final = 2
"""What this source expects of the kernel: one that was built of other source may be lying about."""


def _load() -> tuple[ModuleType | None, str]:
    """Give the kernel, or None, and what there is to say of it."""
    if os.environ.get("METRICSBRIDGE_KERNEL", "").lower() == "off":
        return None, "python (METRICSBRIDGE_KERNEL=off)"
    try:
        found = import_module("metricsbridge.series._kernels")
    except ImportError:
        return None, "python (the compiled kernel was not built: install again where there is a C compiler)"
    if getattr(found, "INTERFACE", None) != _INTERFACE:
        return None, "python (the compiled kernel is of another version: install again)"
    return found, "compiled"


COMPILED, ENGINE = _load()


def read(body: bytes, schema: Hashable, /) -> Any:
    """Give what the kernel makes of a document; None where there is no kernel, or it leaves the document alone."""
    if COMPILED is None or type(body) is not bytes:
        return None
    reader = _reader(schema)
    return None if reader is None else reader.read(body)


def read_all(bodies: Sequence[bytes], schema: Hashable, empty: bool, /) -> Any:
    """Give what the kernel makes of many documents; None as for one, and where it leaves any of them alone."""
    reader = None if COMPILED is None else _reader(schema)
    return None if reader is None else reader.read_all(bodies, empty)


@lru_cache(maxsize=64)
def _reader(schema: Any) -> Any:
    try:
        return getattr(COMPILED, f"{type(schema).__name__}Reader")(**attrs.asdict(schema, recurse=False))
    except ValueError:  # more names than it looks for
        return None
