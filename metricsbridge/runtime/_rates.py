"""What is known of a provider's transport: read from the layers, which it keeps."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING, Final

from metricsbridge.protocols import Rate
from metricsbridge.runtime._limits import LimitTransport
from metricsbridge.runtime._retry import RetryTransport

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from metricsbridge.runtime._limits import Quota

_MOST_LOOKED_AT: Final = 500
"""So many objects around a provider are looked at, the nearest first."""


def limit_of(provider: object, operation: str, quota: Quota | None, /) -> tuple[Hashable, Rate] | None:
    """Give what an operation's limit is shared by, and the rate; None where there is none, or none is known.

    Args:
        provider: One that keeps its transport in an attribute, its own or that of an object which it keeps.
        operation: The vendor's name.
        quota: The collector's, where it takes the place of the provider's own.
    """
    limits = next((layer for layer in _layers(provider) if isinstance(layer, LimitTransport)), None)
    if limits is None:
        return None
    shared, per_second = limits.known(operation, quota)
    return None if math.isinf(per_second) else (shared, Rate(per_second))


def name_of(provider: object, /) -> str:
    """Give the name that a provider was opened by; "" where that is not to be found."""
    return next((layer.provider for layer in _layers(provider) if isinstance(layer, RetryTransport)), "")


def _layers(provider: object) -> Iterator[object]:
    """Give what a provider keeps: its transport's layers, too, keep those below them in an attribute."""
    found, seen = [provider], {id(provider)}
    for each in found:  # which grows meanwhile
        yield each
        slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
        for kept in [*getattr(each, "__dict__", {}).values(), *[getattr(each, name, None) for name in slots]]:
            if id(kept) not in seen and not isinstance(kept, (type, ModuleType)) and len(found) < _MOST_LOOKED_AT:
                seen.add(id(kept))
                found.append(kept)
