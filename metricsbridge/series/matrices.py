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
from metricsbridge.series._documents import (
    JSON_ERRORS,
    MisfitError,
    checked,
    listed,
    member,
    misplaced,
    number,
    read_document,
    require_utf8,
)
from metricsbridge.series.decode import shared_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metricsbridge.series._places import Steps
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
        DecodeError: The bytes are not JSON, or not of that shape; says at which byte and path.
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
            pairs = [[(time, _quantity(value, ())) for time, value in found] for found in _pairs(document, schema)]
        except (*JSON_ERRORS, MisfitError):
            return _decode_any(body, schema)
    if not body.isascii():
        require_utf8(body)
    lengths = tuple([len(found) for found in pairs])
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(pairs)), np.float64, 2 * sum(lengths)).reshape(-1, 2)
    with np.errstate(over="ignore"):  # what is infinite then is refused
        times = np.rint(flat[:, 0] * 1000)
    if not (np.abs(times) < 2.0**63).all():  # false for NaN too
        return _decode_any(body, schema)
    labels = tuple([one.labels for one in _series(document)])
    values = _quantities(flat[:, 1].copy(), schema)
    return LabelledSamples(labels, lengths, times.astype(np.int64), values, tuple(getattr(document, "warnings", ())))


def _series(document: Any) -> Sequence[Any]:
    return document.holder.series if document.holder is not None else ()


def _pairs(document: Any, schema: LabelledLists) -> list[Sequence[_Pair]]:
    if schema.single:
        return [(one.samples,) if one.samples is not None else () for one in _series(document)]
    return [one.samples for one in _series(document)]


def _quantities(values: Float64, schema: LabelledLists) -> Float64:
    """Make NaN of what is no quantity."""
    no_value = np.isinf(values) if schema.blank_from is None else np.isinf(values) | (values >= schema.blank_from)
    values[no_value] = np.nan
    return values


_NO_QUANTITY: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def _quantity(value: Any, steps: Steps) -> float:
    if value is None or value == "":
        raise MisfitError(steps, "expected a number")
    if type(value) is str and value[-1].isalpha() and _NO_QUANTITY.fullmatch(value):
        return math.nan
    return number(value, True, steps)


def _decode_any(body: bytes, schema: LabelledLists) -> LabelledSamples:
    """Decode what the decoders don't take: with ``null`` for a list or an object, with a member twice, or refused."""
    document = read_document(body)
    labels: list[dict[str, str]] = []
    lengths: list[int] = []
    times: list[int] = []
    values: list[float] = []
    try:
        held = checked(document, dict, (), "expected an object").get(schema.holder)
        for steps, one in listed({} if held is None else held, schema.series, (schema.holder,)):
            labels.append(_texts(member(one, schema.labels, steps), (*steps, schema.labels)))
            if schema.single:
                found = one.get(schema.samples)
                pairs = [] if found is None else [((*steps, schema.samples), found)]
            else:
                pairs = [*listed(one, schema.samples, steps)]
            lengths.append(len(pairs))
            for at, pair in pairs:
                if len(checked(pair, list, at, "expected a pair")) != 2:
                    raise MisfitError(at, "expected a pair")
                times.append(_milliseconds(pair[0], (*at, 0)))
                values.append(_quantity(pair[1], (*at, 1)))
        told = [*listed(document, schema.warnings, ())] if schema.warnings else []
        warnings = tuple([checked(text, str, at, "expected text") for at, text in told])
    except MisfitError as error:
        raise misplaced(body, error) from None
    columns = np.array(times, np.int64), _quantities(np.array(values, np.float64), schema)
    return LabelledSamples(tuple(labels), tuple(lengths), *columns, warnings)


def _texts(value: Any, steps: Steps) -> dict[str, str]:
    found = checked(value, dict, steps, "expected an object")
    return {name: checked(text, str, (*steps, name), "expected text") for name, text in found.items()}


def _milliseconds(seconds: Any, steps: Steps) -> int:
    scaled = _quantity(seconds, steps) * 1000
    if not abs(scaled) < 2.0**63:  # false for NaN too
        raise MisfitError(steps, "expected seconds since the epoch")
    return round(scaled)


@lru_cache(maxsize=16)
def _decoders(schema: LabelledLists) -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
    """Make the decoder of the usual answer, and of one with texts that the parser takes for no numbers.

    They are lax, for numbers in strings: so they must not know of ``null``, which they would take from a string too.
    """
    return _decoder(schema, tuple[float, float]), _decoder(schema, tuple[float, str | float])


def _decoder(schema: LabelledLists, pair: Any) -> msgspec.json.Decoder[Any]:
    samples: Any = ("samples", pair, None) if schema.single else ("samples", list[pair], ())
    one: Any = msgspec.defstruct(
        "Series", [("labels", dict[str, str]), samples],
        rename={"labels": schema.labels, "samples": schema.samples}, gc=False,
    )  # fmt: skip
    holder: Any = msgspec.defstruct("Holder", [("series", list[one], ())], rename={"series": schema.series})
    fields: list[Any] = [("holder", holder, None), ("warnings", list[str], ())]
    document = msgspec.defstruct(
        "Document", fields if schema.warnings else fields[:1],
        rename={"holder": schema.holder, "warnings": schema.warnings},
    )  # fmt: skip
    return msgspec.json.Decoder(document, strict=False)
