"""The API's JSON, described for the decoder, and what becomes of instant answers.

Source: Prometheus' HTTP API, "Range queries" and "Instant queries".
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import LabelledLists, decode_labelled_lists

if TYPE_CHECKING:
    from collections.abc import Mapping

BLANK: Final = 9.2e18
"""Exporters that measured nothing may report the largest int64."""

MATRIX: Final = LabelledLists(
    holder="data", series="result", labels="metric", samples="values", warnings="warnings", blank_from=BLANK
)
VECTOR: Final = attrs.evolve(MATRIX, samples="value", single=True)


@attrs.frozen
class Row:
    """One series of an instant answer that has a value."""

    labels: Mapping[str, str]
    value: float

    @property
    def name(self) -> str:
        """The metric's name; "" where a function has dropped it."""
        return self.labels.get("__name__", "")

    @property
    def time_ms(self) -> int:
        """The value as an instant: these metrics are in seconds since the epoch."""
        return round(self.value * 1000)


@attrs.frozen
class Rows:
    """An instant answer, and what the server says is missing from it."""

    rows: tuple[Row, ...] = ()
    warnings: tuple[str, ...] = ()

    def __add__(self, other: Rows) -> Rows:
        """Put two answers together."""
        return Rows(self.rows + other.rows, tuple(dict.fromkeys(self.warnings + other.warnings)))


def decode_rows(body: bytes, /) -> Rows:
    """Decode an instant answer.

    Raises:
        DecodeError: It is none.
    """
    found = decode_labelled_lists(body, VECTOR)
    values = iter(found.values.tolist())
    rows = [Row(labels, next(values)) for labels, length in zip(found.labels, found.lengths, strict=True) if length]
    return Rows(tuple([row for row in rows if not isnan(row.value)]), found.warnings)
