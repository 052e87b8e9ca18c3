"""What decoding means, in the plainest words: slow, obvious, and the oracle of tests and benchmarks.

The functions here take valid arguments only. What they refuse, the functions they specify refuse, and nothing else; how
that is said is up to those.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from metricsbridge.errors import DecodeError
from metricsbridge.series.decode import ManyArrays, NamedArrays, NumberArrays
from metricsbridge.series.matrices import LabelledLists, LabelledSamples
from metricsbridge.series.samples import KeyedSamples, NamedSamples, Rows, SampleLists

if TYPE_CHECKING:
    from collections.abc import Sequence


def decode_number_arrays_reference(body: bytes, schema: NumberArrays, /) -> NamedArrays:
    """Do what ``metricsbridge.series.decode.decode_number_arrays`` does, one number at a time."""
    names: list[str] = []
    lengths: list[int] = []
    values: list[float] = []
    doubtful: list[bool] = []
    decimals = False
    document = _parse(body)
    holder = _member(document, schema.series, (list, dict, type(None))) if schema.series else document
    for name, array in _named_arrays(holder, schema):
        nested = schema.text and any(isinstance(item, list) for item in array)
        for given in array if nested else [array]:
            numbers = _checked(_empty(given, schema), list, "a list among numbers")
            names.append(name)
            lengths.append(len(numbers))
            for number in numbers:
                value = _value(number, schema.text)
                values.append(math.nan if value == schema.missing else value)
                doubtful.append(number == schema.doubtful)
                decimals = decimals or (isinstance(number, str) and "." in number)
    interval = document.get(schema.interval) if schema.interval and isinstance(document, dict) else None
    return NamedArrays(
        tuple(names),
        tuple(lengths),
        np.array(values, np.float64),
        doubtful=np.array(doubtful, np.bool_) if schema.doubtful else None,
        decimals=decimals,
        interval=None if interval is None or math.isnan(_value(interval, True)) else _value(interval, True),
    )


def decode_all_number_arrays_reference(
    bodies: Sequence[bytes], schema: NumberArrays, /, *, empty: bool = True
) -> ManyArrays:
    """Do what ``metricsbridge.series.decode.decode_all_number_arrays`` does, one document at a time."""
    shapes = []
    values: list[float] = []
    for body in bodies:
        found = decode_number_arrays_reference(body, schema)
        names, lengths = list[str](), list[int]()
        for name, start, end in zip(found.names, found.offsets[:-1], found.offsets[1:], strict=True):
            numbers = found.values[start:end].tolist()
            if empty or not all(math.isnan(number) for number in numbers):
                names.append(name)
                lengths.append(len(numbers))
                values += numbers
        shapes.append((tuple(names), tuple(lengths)))
    return ManyArrays(tuple(shapes), np.array(values, np.float64))


def _empty(value: Any, schema: NumberArrays) -> Any:
    return [] if value is None and schema.text else value


def _named_arrays(holder: Any, schema: NumberArrays) -> list[tuple[str, list[Any]]]:
    if schema.name:
        entries = _checked(_empty(holder, schema), list, "the series are no list")
        arrays = [_empty(_member(entry, schema.values, (list, type(None))), schema) for entry in entries]
        return [
            (_member(entry, schema.name, str), _checked(array, list, "the values are no list"))
            for entry, array in zip(entries, arrays, strict=True)
        ]
    members = _checked(holder, dict, "the series are no object")
    return [(name, array) for name, array in members.items() if isinstance(array, list)]


def decode_sample_lists_reference(body: bytes, schema: SampleLists, /) -> NamedSamples:
    """Do what ``metricsbridge.series.samples.decode_sample_lists`` does, one sample at a time."""
    names: list[str] = []
    lengths: list[int] = []
    times: list[int] = []
    values: list[float] = []
    for one in _member(_parse(body), schema.series, (list, type(None)), default=None) or []:
        names.append(_member(one, schema.name, str))
        samples = _member(one, schema.samples, (list, type(None)), default=None) or []
        lengths.append(len(samples))
        for sample in samples:
            times.append(_int64(_member(sample, schema.time, _Int)))
            values.append(_value(sample.get(schema.value), False))
    return NamedSamples(tuple(names), tuple(lengths), np.array(times, np.int64), np.array(values, np.float64))


def decode_rows_reference(body: bytes, schema: Rows, /) -> KeyedSamples:
    """Do what ``metricsbridge.series.samples.decode_rows`` does, one row at a time."""
    groups: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = {}
    for row in _checked(_parse(body), list, "the document is no list"):
        texts = _checked(row, dict, "a row is no object")
        named = [name for name in schema.values if name in row]
        key = []
        for member, text in texts.items():
            if member in (schema.time, *schema.values):
                continue
            if isinstance(text, str):
                key.append((member, text))
            elif isinstance(text, _Int) and member.lower() in schema.numbered:
                key.append((member, str(_int64(text))))
        time = _member(row, schema.time, (_Int, str))
        if isinstance(time, str):
            if not _WHOLE.fullmatch(time):
                raise DecodeError(f"{time!r} is no whole number")
            time = _Int(time)
        value = row[named[0]] if named else None
        if value == "":
            raise DecodeError("an empty text is no number")
        groups.setdefault(tuple(sorted(key)), []).append((_int64(time), _value(value, True)))
    return KeyedSamples(
        tuple(groups),
        tuple([len(group) for group in groups.values()]),
        np.array([time for group in groups.values() for time, _ in group], np.int64),
        np.array([value for group in groups.values() for _, value in group], np.float64),
    )


_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def decode_labelled_lists_reference(body: bytes, schema: LabelledLists, /) -> LabelledSamples:
    """Do what ``metricsbridge.series.matrices.decode_labelled_lists`` does, one sample at a time."""
    document = _checked(_parse(body), dict, "the document is no object")
    holder = _member(document, schema.holder, (dict, type(None)), default=None) or {}
    labels: list[dict[str, str]] = []
    lengths: list[int] = []
    times: list[int] = []
    values: list[float] = []
    for one in _member(holder, schema.series, (list, type(None)), default=None) or []:
        texts = _member(one, schema.labels, dict)
        labels.append({name: _checked(text, str, "a label is no text") for name, text in texts.items()})
        found = _member(one, schema.samples, (list, type(None)), default=None)
        pairs = [] if found is None else [found] if schema.single else found
        lengths.append(len(pairs))
        for pair in pairs:
            if len(_checked(pair, list, "a sample is no pair")) != 2:
                raise DecodeError("a sample is no pair")
            milliseconds = _quantity(pair[0]) * 1000
            if not abs(milliseconds) < 2**63:
                raise DecodeError("a time is none that fits into int64")
            times.append(round(milliseconds))
            value = _quantity(pair[1])
            blank = schema.blank_from is not None and value >= schema.blank_from
            values.append(math.nan if blank or math.isinf(value) else value)
    warnings = _member(document, schema.warnings, (list, type(None)), default=None) if schema.warnings else None
    return LabelledSamples(
        tuple(labels), tuple(lengths), np.array(times, np.int64), np.array(values, np.float64),
        tuple([_checked(text, str, "a warning is no text") for text in warnings or ()]),
    )  # fmt: skip


def _quantity(value: Any) -> float:
    """Give a number that may stand in a string, where it may be NaN or infinite."""
    if isinstance(value, str) and _NO_NUMBER.fullmatch(value):
        return float(value)
    if value is None or value == "":
        raise DecodeError("there is no number")
    return _value(value, True)


class _Int(float):
    """A number that is written as a whole one; keeps its text, for times must be exact."""

    def __new__(cls, text: str) -> Self:
        self = super().__new__(cls, float(text) + 0.0)  # a whole number has no negative zero
        self.text = text
        return self

    text: str


def _parse(body: bytes) -> Any:
    """Give the document; a number larger than any float64 is infinite, and refused where it is read."""
    try:
        text = body.decode()
        document = json.loads(text, parse_int=_Int, parse_float=float, parse_constant=_no_constant)
        for string in re.findall(r'"(?:[^"\\]|\\.)*"', text):
            json.loads(string).encode()  # half of a surrogate pair is no character
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the answer is no JSON: {error}") from error
    return document


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_REAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _value(value: Any, text: bool) -> float:
    if value is None or (text and isinstance(value, str) and value.lower() in ("", "nan")):
        return math.nan
    if text and isinstance(value, str) and _REAL.fullmatch(value):
        value = _Int(value) if _WHOLE.fullmatch(value) else float(value)
    if not isinstance(value, float) or math.isinf(value):
        raise DecodeError(f"{value!r} is no finite number")
    return float(value)


def _int64(number: _Int) -> int:
    if math.isinf(number) or not -(2**63) <= int(number.text) < 2**63:
        raise DecodeError(f"{number.text} is no time that fits into int64")
    return int(number.text)


_ABSENT: Any = object()


def _member(value: Any, name: str, kind: type | tuple[type, ...], default: Any = _ABSENT) -> Any:
    found = _checked(value, dict, f"there is nothing to hold {name!r}").get(name, default)
    return _checked(found, kind, f"there is no {name!r} of the documented type")


def _checked(value: Any, kind: type | tuple[type, ...], problem: str) -> Any:
    if not isinstance(value, kind):
        raise DecodeError(problem)
    return value
