"""What decoding and alignment mean, in the plainest words: slow, obvious, and the oracle of tests and benchmarks.

The functions here take valid arguments only; what is refused, and how, is up to the functions they specify.
"""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from metricsbridge.durations import parse_duration
from metricsbridge.errors import DecodeError
from metricsbridge.model import Window
from metricsbridge.series.align import Fill, Frame, How
from metricsbridge.series.decode import NamedArrays, NumberArrays
from metricsbridge.series.matrices import LabelledLists, LabelledSamples
from metricsbridge.series.samples import KeyedSamples, NamedSamples, Rows, SampleLists

if TYPE_CHECKING:
    from datetime import timedelta

    from metricsbridge.series.columns import SeriesBatch


def align_reference(
    batch: SeriesBatch,
    /,
    *,
    step: str | int | timedelta,
    how: How = "mean",
    window: Window | None = None,
    fill: Fill | None = None,
    max_gap: str | int | timedelta | None = None,
) -> Frame:
    """Do what ``metricsbridge.series.align.align`` does, one sample at a time."""
    step_ms = parse_duration(step)
    if window is None and len(batch.times):
        window = Window(min(batch.times.tolist()), max(batch.times.tolist()) + 1)
    starts = cell_starts(window, step_ms)

    rows = []
    for index in range(len(batch)):
        times, values = batch.samples(index)
        samples = distinct_samples(times.tolist(), values.tolist())
        row = []
        for start in starts:
            inside = []
            for time, value in samples:
                if window is not None and time in window and start <= time < start + step_ms:
                    inside.append(value)
            row.append(summary(inside, how))
        if how != "count" and fill is not None:
            gap_ms = max(batch.interval_ms[index], step_ms) if max_gap is None else parse_duration(max_gap)
            row = previous(row, step_ms, gap_ms) if fill == "previous" else linear(row, step_ms, gap_ms)
        rows.append(row)

    return Frame(
        source=batch.source,
        keys=batch.keys,
        unit=tuple("{sample}" for _ in batch.keys) if how == "count" else batch.unit,
        interval_ms=batch.interval_ms,
        timing=batch.timing,
        time_error_ms=batch.time_error_ms,
        statistic=batch.statistic,
        times=np.array(starts, np.int64),
        values=np.array(rows, np.float64).reshape(len(batch), len(starts)),
        step_ms=step_ms,
        how=how,
        window=window,
    )


def cell_starts(window: Window | None, step_ms: int) -> list[int]:
    """Give the starts of the cells: from the multiple of the step at or before the window until it is covered."""
    starts: list[int] = []
    if window is not None:
        start = window.start_ms // step_ms * step_ms
        while start < window.end_ms:
            starts.append(start)
            start += step_ms
    return starts


def distinct_samples(times: list[int], values: list[float]) -> list[tuple[int, float]]:
    """Give the samples in time order: of equal times the last one given, and if that one is NaN, none."""
    latest = dict(zip(times, values, strict=True))
    return [(time, latest[time]) for time in sorted(latest) if not math.isnan(latest[time])]


def summary(values: list[float], how: How) -> float:
    """Say what a cell says of its values, which are in time order."""
    if how == "count":
        return float(len(values))
    if not values:
        return math.nan
    if how == "first":
        return values[0]
    if how == "last":
        return values[-1]
    if how == "max":
        return max(values) + 0.0  # of zeros, the positive one
    if how == "min":
        return min(values) + 0.0
    total = 0.0
    for value in values:
        total += value
    return total if how == "sum" else total / len(values)


def previous(row: list[float], step_ms: int, gap_ms: int) -> list[float]:
    """Carry each value forward, to the cells that start at most the gap after its own cell's start."""
    filled = list(row)
    known = None
    for cell, value in enumerate(row):
        if not math.isnan(value):
            known = cell
        elif known is not None and (cell - known) * step_ms <= gap_ms:
            filled[cell] = row[known]
    return filled


def linear(row: list[float], step_ms: int, gap_ms: int) -> list[float]:
    """Draw a straight line over each run of cells without a value, if the run is no longer than the gap."""
    filled = list(row)
    known = [cell for cell, value in enumerate(row) if not math.isnan(value)]
    for left, right in pairwise(known):
        if (right - left - 1) * step_ms <= gap_ms:
            for cell in range(left + 1, right):
                filled[cell] = row[left] + (row[right] - row[left]) * ((cell - left) / (right - left))
    return filled


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
            times.append(_time(_member(sample, schema.time, _Int)))
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
            whole = isinstance(text, _Int) and member.lower() in schema.numbered
            if (isinstance(text, str) or whole) and member not in (schema.time, *schema.values):
                key.append((member, str(int(text.text)) if whole else text))
        time = _member(row, schema.time, (_Int, str))
        if isinstance(time, str):
            if not re.fullmatch(r"-?(0|[1-9][0-9]*)", time):
                raise DecodeError(f"{time!r} is no whole number")
            time = _Int(time)
        value = row[named[0]] if named else None
        if value == "":
            raise DecodeError("an empty text is no number")
        groups.setdefault(tuple(sorted(key)), []).append((_time(time), _value(value, True)))
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
        self = super().__new__(cls, text)
        self.text = text
        if math.isinf(self):
            raise ValueError(f"{text} is larger than any float64")
        return self

    text: str


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_int=_Int, parse_float=_number, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the answer is no JSON: {error}") from error


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is larger than any float64")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


_IN_STRING = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|[nN][aA][nN]|")


def _value(value: Any, text: bool) -> float:
    if value is None:
        return math.nan
    if text and isinstance(value, str) and _IN_STRING.fullmatch(value) and not math.isinf(float(value or "nan")):
        return float(value or "nan")
    if not isinstance(value, float):
        raise DecodeError(f"{value!r} is no number")
    return float(value)


def _time(number: _Int) -> int:
    if not -(2**63) <= int(number.text) < 2**63:
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
