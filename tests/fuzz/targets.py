"""All targets by name: each takes an input, tells whether the kernel took it, and raises where it went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fuzz.documents import READERS
from fuzz.grids import alignment, raw_alignment
from fuzz.numbers import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TARGETS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    **READERS,
    "numbers": numbers,
    "align": alignment,
    "align-raw": raw_alignment,
}
