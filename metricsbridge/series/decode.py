"""From the bytes of an answer to columns: pure, described by a small schema and not by vendor."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import numpy as np

from metricsbridge.series import _kernel
from metricsbridge.series._documents import (
    JSON_ERRORS,
    MisfitError,
    checked,
    member,
    misplaced,
    number,
    read_document,
    require_utf8,
)
from metricsbridge.series._observed import observed
from metricsbridge.series._places import Steps
from metricsbridge.series._shared_times import regular_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from metricsbridge.series.columns import Float64, Int64


@attrs.frozen(kw_only=True, cache_hash=True)
class NumberArrays:
    """A document that holds series, each a name and an array of numbers.

    For example ``{"metrics": [{"metric": "cpuUsage", "value": [-1, 2.43]}]}``, or with ``name=""`` an object of arrays:
    ``{"cpuUsage": ["0", "3.10"], "interval": 1}``.

    Attributes:
        series: The member that holds the series; "" is the document itself.
        name: The member of each entry that names the series; "" says that the arrays stand in one object, each under
            its name (members that are no arrays are passed over).
        values: The member of each entry that holds the numbers.
        missing: The number that means "no value"; None where there is none. ``null`` always means it.
        text: Whether numbers may stand in strings, where ``""`` and ``"NaN"`` mean "no value" too; then an array of
            arrays stands for several series of one name, and ``null`` for an empty array.
        doubtful: With ``text``, a string that is a number or means "no value", which only the reader can tell: where it
            stands, ``NamedArrays.doubtful`` says so.
        interval: A member of the document with one number for all series; "" is none.
    """

    series: str = ""
    name: str = ""
    values: str = ""
    missing: float | None = None
    text: bool = False
    doubtful: str = ""
    interval: str = ""

    @property
    def plain(self) -> bool:
        """Whether it is a list of arrays of plain numbers: what is decoded fastest without the kernel."""
        return bool(self.series and self.name) and not (self.text or self.doubtful or self.interval)


@attrs.frozen(eq=False)
class NamedArrays:
    """Series as they stand in the document.

    Attributes:
        names: S names.
        lengths: S numbers of values.
        values: float64[N], the values of the series, one after the other.
        doubtful: bool[N], whether a value's text is the doubtful one of the schema; None where that has none.
        decimals: Whether any number in a string has a decimal point.
        interval: The document's own, in its unit; None where it or the schema has none.
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    values: Float64
    doubtful: NDArray[np.bool_] | None = None
    decimals: bool = False
    interval: float | None = None

    @property
    def offsets(self) -> Int64:
        """int64[S + 1]; series ``i`` holds the values ``offsets[i]:offsets[i + 1]``."""
        return shared_offsets(self.lengths)


def decode_number_arrays(body: bytes, schema: NumberArrays, /) -> NamedArrays:
    """Decode a document of number arrays; each value is ``float(text)`` of the number's text, or NaN where missing.

    Like all decoders of this package it takes JSON as RFC 8259 has it, in UTF-8, and refuses the rest, also within what
    is passed over; half a pair of surrogates it refuses too. Of members with one name only the last counts. A number
    larger than any float64 is refused where it is read. ``-0`` is a whole number, which has no negative zero: 0.0.

    Raises:
        DecodeError: The bytes are not JSON, or not of that shape; says at which byte and path.
    """
    found = _kernel.read(body, schema)
    if found is not None:
        names, lengths, numbers, doubtful, decimals, interval = found
        marks = None if doubtful is None else np.frombuffer(doubtful, np.bool_)
        return NamedArrays(names, lengths, np.frombuffer(numbers), marks, decimals, interval)
    if not schema.plain:
        return _decode_any(body, schema)
    decoder, nullable = _decoders(schema)
    try:
        entries = decoder.decode(body).series
        arrays = [entry.values for entry in entries]
    except JSON_ERRORS:
        try:
            entries = nullable.decode(body).series
        except JSON_ERRORS:
            return _decode_any(body, schema)
        arrays = [[np.nan if value is None else value for value in entry.values] for entry in entries]
    if not body.isascii():
        require_utf8(body)
    lengths = tuple([len(array) for array in arrays])
    values = np.fromiter(chain.from_iterable(arrays), np.float64, sum(lengths))
    if schema.missing is not None:
        values[values == schema.missing] = np.nan
    return NamedArrays(tuple([entry.name for entry in entries]), lengths, values)


Shape = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and lengths of the series of a document."""


@attrs.frozen(eq=False)
class ManyArrays:
    """The series of many documents.

    Attributes:
        shapes: Of each document; documents of one shape that follow each other mostly share the object.
        values: float64[N], the values of the series, document by document.
        lengths: S numbers of values.
    """

    shapes: tuple[Shape, ...]
    values: Float64
    lengths: tuple[int, ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        lengths = tuple(chain.from_iterable([lengths for _, lengths in self.shapes]))
        object.__setattr__(self, "lengths", lengths)

    @property
    def offsets(self) -> Int64:
        """int64[S + 1]; series ``i`` holds the values ``offsets[i]:offsets[i + 1]``."""
        return shared_offsets(self.lengths)


def decode_all_number_arrays(bodies: Sequence[bytes], schema: NumberArrays, /, *, empty: bool = True) -> ManyArrays:
    """Decode many documents as ``decode_number_arrays`` does one, each value going to its place at once.

    Args:
        bodies: The documents.
        schema: Of all of them: a list of arrays of plain numbers, without ``text`` or ``interval``.
        empty: Whether series without any value are given too.

    Raises:
        DecodeError: One of them is not JSON, or not of that shape.
        ValueError: The schema is of another kind.
    """
    if not schema.plain:
        raise ValueError("many documents are decoded at once only where they are lists of arrays of plain numbers")
    found = _kernel.read_all(bodies, schema, empty)
    if found is not None:
        shapes, numbers = found
        return ManyArrays(shapes, np.frombuffer(numbers))
    each = [decode_number_arrays(body, schema) for body in bodies]
    values = np.concatenate([np.empty(0), *[arrays.values for arrays in each]])
    offsets = np.array([*accumulate(chain.from_iterable([arrays.lengths for arrays in each]), initial=0)], np.int64)
    kept = np.ones(len(offsets) - 1, np.bool_) if empty else observed(offsets, values)
    if not kept.all():
        values = values[np.repeat(kept, offsets[1:] - offsets[:-1])]
    shapes, marks = list[Shape](), iter(kept.tolist())
    for arrays in each:
        left = [entry for entry in zip(arrays.names, arrays.lengths, strict=True) if next(marks)]
        shape = tuple([name for name, _ in left]), tuple([length for _, length in left])
        shapes.append(shapes[-1] if shapes and shapes[-1] == shape else shape)
    return ManyArrays(tuple(shapes), values)


def _decode_any(body: bytes, schema: NumberArrays) -> NamedArrays:
    """Decode what is not plain, or not as usual: the document's outer shape first, then each array."""
    document = read_document(body)
    try:
        return _of_document(document, schema)
    except MisfitError as error:
        raise misplaced(body, error) from None


def _of_document(document: Any, schema: NumberArrays) -> NamedArrays:
    place: Steps = (schema.series,) if schema.series else ()
    found = member(document, schema.series, ()) if schema.series else document
    arrays = [
        array
        for name, values, steps in (_keyed(found, place) if not schema.name else _listed(found, schema, place))
        for array in _split(name, values, steps, nested=schema.text)
    ]
    numbers = [_numbers(array, schema, steps) for _, array, steps in arrays]
    lengths = tuple([len(values) for values in numbers])
    values: Float64 = np.concatenate([np.empty(0), *numbers])
    if schema.missing is not None:
        values[values == schema.missing] = np.nan
    items = [*chain.from_iterable([array for _, array, _ in arrays])]
    return NamedArrays(
        tuple([name for name, _, _ in arrays]),
        lengths,
        values,
        doubtful=np.array([item == schema.doubtful for item in items], np.bool_) if schema.doubtful else None,
        decimals=any("." in item for item in items if type(item) is str),
        interval=_interval(document, schema.interval),
    )


_Array = tuple[str, list[Any], Steps]
"""A series' name, its values as they stand in the document, and their place."""


def _keyed(found: Any, place: Steps) -> Iterator[_Array]:
    if not isinstance(found, dict):
        raise MisfitError(place, "expected an object of arrays")
    return ((name, values, (*place, name)) for name, values in found.items() if isinstance(values, list))


def _listed(found: Any, schema: NumberArrays, place: Steps) -> Iterator[_Array]:
    if found is None and schema.text:
        return
    for index, entry in enumerate(checked(found, list, place, "expected a list")):
        steps = (*place, index, schema.values)
        name = checked(member(entry, schema.name, steps[:-1]), str, (*place, index, schema.name), "expected text")
        values = member(entry, schema.values, steps[:-1])
        yield name, checked([] if values is None and schema.text else values, list, steps, "expected a list"), steps


def _split(name: str, values: list[Any], steps: Steps, *, nested: bool) -> Iterator[_Array]:
    """Give an array, or where it is an array of arrays each of those."""
    if nested and any(isinstance(value, list) for value in values):
        for index, value in enumerate(values):
            if value is not None and not isinstance(value, list):
                raise MisfitError((*steps, index), "expected a list, as its neighbours are")
            yield name, value or [], (*steps, index)
    else:
        yield name, values, steps


def _numbers(array: list[Any], schema: NumberArrays, steps: Steps) -> Float64:
    with suppress(msgspec.ValidationError):
        result = np.array(msgspec.convert(array, list[float], strict=not schema.text), np.float64)
        # The parser takes more texts than ours for numbers that are not finite.
        if all(str(array[index]).lower() == "nan" for index in np.flatnonzero(~np.isfinite(result))):
            return result
    return np.array([number(value, schema.text, (*steps, index)) for index, value in enumerate(array)], np.float64)


def _interval(document: Any, name: str) -> float | None:
    if not name or not isinstance(document, dict):
        return None
    value = number(document.get(name), True, (name,))
    return None if math.isnan(value) else value


@lru_cache(maxsize=64)
def shared_offsets(lengths: tuple[int, ...]) -> Int64:
    """Give int64[S + 1] offsets for series of those lengths; they can't be written to."""
    offsets = np.array([*accumulate(lengths, initial=0)], np.int64)
    offsets.flags.writeable = False  # it is shared
    return offsets


@lru_cache(maxsize=64)
def _decoders(schema: NumberArrays) -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
    """Make the decoder of the usual answer, and of one with ``null`` among its numbers."""
    return _decoder(schema, list[float]), _decoder(schema, list[float | None])


def _decoder(schema: NumberArrays, values: Any) -> msgspec.json.Decoder[Any]:
    entry = msgspec.defstruct(
        "Entry", [("name", str), ("values", values)], rename={"name": schema.name, "values": schema.values}, gc=False
    )
    document = msgspec.defstruct("Document", [("series", list[entry])], rename={"series": schema.series})  # type: ignore[valid-type]  # known at run time only
    return msgspec.json.Decoder(document)


__all__ = ["NamedArrays", "NumberArrays", "decode_number_arrays", "regular_times"]
