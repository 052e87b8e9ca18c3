"""From the bytes of an answer whose series are told apart by labels to columns: pure, described by a small schema."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from metricsbridge.series import _kernel
from metricsbridge.series.decode import JSON_ERRORS, refusal, shared_offsets, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metricsbridge.series.columns import Float64, Int64

_Pair = tuple[float, Any]


@attrs.frozen(kw_only=True, cache_hash=True)
class LabelledLists:
    """A document that holds a list of series, each an object of labels and a list of ``[time, value]`` pairs.

    For example ``{"data": {"result": [{"metric": {"pod": "a"}, "values": [[1616987726.587, "23.45"]]}]}}``. Times are
    seconds since the epoch, rounded to whole milliseconds; values may stand in strings. What is no quantity (``NaN``,
    ``+Inf``, ``-Inf``, a blank) is "no value".

    Attributes:
        holder: The member that holds the list of series in one of its members.
        series: That member.
        labels: The member of each series that holds its labels.
        samples: The member of each series that holds its pairs.
        single: Whether ``samples`` holds one pair, and not a list of them.
        warnings: The member of the document with the service's own words about what is missing; "" is none.
        blank_from: A value this large or larger is a blank; None where there is none.
    """

    holder: str
    series: str
    labels: str
    samples: str
    single: bool = False
    warnings: str = ""
    blank_from: float | None = None


@attrs.frozen(eq=False)
class LabelledSamples:
    """Series as they stand in the document: perhaps unsorted, with duplicates.

    Attributes:
        labels: S objects of label to text; they may recur.
        lengths: S numbers of samples.
        times: int64[N], ms since the epoch, the samples of the series one after the other.
        values: float64[N], NaN where there is no value.
        warnings: What the service says of its own answer.
    """

    labels: tuple[Mapping[str, str], ...]
    lengths: tuple[int, ...]
    times: Int64
    values: Float64
    warnings: tuple[str, ...] = ()

    @property
    def offsets(self) -> Int64:
        """int64[S + 1]; series ``i`` holds the samples ``offsets[i]:offsets[i + 1]``."""
        return shared_offsets(self.lengths)


def decode_labelled_lists(body: bytes, schema: LabelledLists, /) -> LabelledSamples:
    """Decode a document of labelled series; an absent or ``null`` list of series or of pairs is an empty one.

    Raises:
        DecodeError: The bytes are not JSON, or not of that shape; says where.
    """
    found = _kernel.read(body, schema)
    if found is not None:
        labels, counts, times, quantities, warnings = found
        return LabelledSamples(labels, counts, np.frombuffer(times, np.int64), np.frombuffer(quantities), warnings)
    numbers, texts = _decoders(schema)
    try:
        document = numbers.decode(body)
        pairs = _pairs(document, schema)
    except JSON_ERRORS:
        try:
            document = texts.decode(body)
        except JSON_ERRORS as error:
            raise refusal(error, body) from error
        pairs = [
            [(time, _number(value, schema, (place, index))) for index, (time, value) in enumerate(found)]
            for place, found in enumerate(_pairs(document, schema))
        ]
    lengths = tuple([len(found) for found in pairs])
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(pairs)), np.float64, 2 * sum(lengths)).reshape(-1, 2)
    values = flat[:, 1].copy()
    no_value = np.isinf(values) if schema.blank_from is None else np.isinf(values) | (values >= schema.blank_from)
    values[no_value] = np.nan
    series = _series(document)
    return LabelledSamples(
        tuple([one.labels for one in series]), lengths, _milliseconds(flat[:, 0], lengths, schema), values,
        tuple(getattr(document, "warnings", None) or ()),
    )  # fmt: skip


def _series(document: Any) -> Sequence[Any]:
    return (document.holder.series or ()) if document.holder is not None else ()


def _pairs(document: Any, schema: LabelledLists) -> list[Sequence[_Pair]]:
    if schema.single:
        return [(one.samples,) if one.samples is not None else () for one in _series(document)]
    return [one.samples or () for one in _series(document)]


_IN_TEXT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def _number(value: str | float, schema: LabelledLists, place: tuple[int, int]) -> float:
    if not isinstance(value, str):
        return value
    if _NO_NUMBER.fullmatch(value):
        return math.nan
    if not _IN_TEXT.fullmatch(value) or math.isinf(float(value)):
        raise wrong(_path(schema, *place, 1), "expected a number")
    return float(value)


def _milliseconds(seconds: Float64, lengths: Sequence[int], schema: LabelledLists) -> Int64:
    scaled = np.rint(seconds * 1000)
    good = np.abs(scaled) < 2.0**63  # false for NaN too
    if not good.all():
        first = int(np.flatnonzero(~good)[0])
        place = int(np.searchsorted(np.cumsum(lengths), first, side="right"))
        raise wrong(_path(schema, place, first - sum(lengths[:place]), 0), "expected seconds since the epoch")
    return scaled.astype(np.int64)


def _path(schema: LabelledLists, place: int, index: int, part: int) -> str:
    pair = "" if schema.single else f"[{index}]"
    return f"$.{schema.holder}.{schema.series}[{place}].{schema.samples}{pair}[{part}]"


@lru_cache(maxsize=16)
def _decoders(schema: LabelledLists) -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
    """Make the decoder of the usual answer, and of one with texts that the parser takes for no numbers."""
    return _decoder(schema, tuple[float, float]), _decoder(schema, tuple[float, str | float])


def _decoder(schema: LabelledLists, pair: Any) -> msgspec.json.Decoder[Any]:
    samples: Any = pair if schema.single else list[pair]
    one: Any = msgspec.defstruct(
        "Series", [("labels", dict[str, str]), ("samples", samples | None, None)],
        rename={"labels": schema.labels, "samples": schema.samples}, gc=False,
    )  # fmt: skip
    holder: Any = msgspec.defstruct("Holder", [("series", list[one] | None, None)], rename={"series": schema.series})
    fields: list[Any] = [("holder", holder | None, None), ("warnings", list[str] | None, None)]
    document = msgspec.defstruct(
        "Document", fields if schema.warnings else fields[:1],
        rename={"holder": schema.holder, "warnings": schema.warnings},
    )  # fmt: skip
    return msgspec.json.Decoder(document, strict=False)
