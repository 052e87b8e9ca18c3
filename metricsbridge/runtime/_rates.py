"""What a provider was opened as, and which limits hold for it: read from the transport that it keeps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from metricsbridge.runtime._limits import LimitTransport
from metricsbridge.runtime._retry import RetryTransport

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from metricsbridge.protocols import Rate
    from metricsbridge.runtime._limits import Quota

_MOST_LAYERS: Final = 8


def limit_of(provider: object, operation: str, quota: Quota | None, /) -> tuple[Hashable, Rate] | None:
    """Give what an operation's limit is shared by, and the rate; None where there is none, or none is to be found.

    Args:
        provider: One that keeps its transport in an attribute, as it must to send through it.
        operation: The vendor's name.
        quota: The collector's, where it takes the place of the provider's own.
    """
    limits = next((layer for layer in _layers(provider) if isinstance(layer, LimitTransport)), None)
    if limits is None:
        return None
    rate = limits.rates.get(operation) or limits.rates.get("*")
    if rate is None or math.isinf(rate.per_second):
        return None
    return (id(quota or limits.quota), limits.account, operation), rate


def name_of(provider: object, /) -> str:
    """Give the name that a provider was opened by; "" where that is not to be found."""
    return next((layer.provider for layer in _layers(provider) if isinstance(layer, RetryTransport)), "")


def _layers(provider: object) -> Iterator[object]:
    slots = [name for kind in type(provider).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in [*getattr(provider, "__dict__", ()), *slots]:
        layer = getattr(provider, name, None)
        for _ in range(_MOST_LAYERS):
            yield layer
            layer = getattr(layer, "inner", None)
