"""Writing PromQL: quoting, and filling in what a query leaves open. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_META: Final = re.compile(r"([\\.+*?()|\[\]{}^$])")
"""Signs with a meaning in RE2, the syntax of Prometheus' regular expressions."""

_CONTROLS: Final[Mapping[str, str]] = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}

_OPEN: Final = re.compile(r"\$(pods|namespace|pod|range)(?![A-Za-z0-9_])")
"""What a query may leave open; ``$1`` and the like of ``label_replace`` stay as they are."""

_OVER_TIME: Final = re.compile(r"\b(?:rate|irate|increase|delta|idelta|deriv|changes|resets)\s*\(")


def text(value: str, /) -> str:
    """Escape a text for between double quotes."""
    return "".join([_CONTROLS.get(sign, sign) for sign in value])


def quoted(value: str, /) -> str:
    """Give a string literal."""
    return f'"{text(value)}"'


def one_of(values: Iterable[str], /) -> str:
    """Give the regular expression, not quoted, that matches exactly these texts; Prometheus anchors it."""
    return "|".join([_META.sub(r"\\\1", value) for value in values])


def matchers(pairs: Iterable[tuple[str, str, str]], /) -> str:
    """Write matchers, each given as label, operator and value."""
    return ",".join([f"{label}{operator}{quoted(value)}" for label, operator, value in pairs])


def duration(milliseconds: int, /) -> str:
    """Write a duration."""
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def seconds(milliseconds: int, /) -> str:
    """Write an instant or a step as the API takes it, in seconds; exact."""
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole}.{rest:03d}" if rest else str(whole)


def left_open(query: str, /) -> frozenset[str]:
    """Give the names that a query leaves open."""
    return frozenset(_OPEN.findall(query))


def reads_counters(query: str, /) -> bool:
    """Tell whether a query compares samples of a counter with each other, so that it needs several of them."""
    return _OVER_TIME.search(query) is not None


def fill(query: str, values: Mapping[str, str], /) -> str:
    """Give the query with ``$pods``, ``$namespace``, ``$pod`` and ``$range`` filled in."""
    return _OPEN.sub(lambda match: values[match[1]], query)
