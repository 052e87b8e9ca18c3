"""From the bytes of an answer to columns: pure, described by a small schema and not by vendor."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import numpy as np

from metricsbridge.envelopes import json_error

if TYPE_CHECKING:
    from metricsbridge.errors import DecodeError
    from metricsbridge.series.columns import Float64, Int64


@attrs.frozen(kw_only=True)
class NumberArrays:
    """A document that holds a list of series, each a name and an array of numbers.

    For example ``{"metrics": [{"metric": "cpuUsage", "value": [-1, 2.43]}]}``.

    Attributes:
        series: The member that holds the list.
        name: The member of each entry that names the series.
        values: The member of each entry that holds the numbers.
        missing: The number that means "no value"; None where there is none. ``null`` always means it.
    """

    series: str
    name: str
    values: str
    missing: float | None = None


@attrs.frozen(eq=False)
class NamedArrays:
    """Series as they stand in the document: S names, and the values of series ``i`` in ``offsets[i]:offsets[i+1]``."""

    names: tuple[str, ...]
    offsets: Int64
    values: Float64


def decode_number_arrays(body: bytes, schema: NumberArrays, /) -> NamedArrays:
    """Decode a document of number arrays; each value is ``float(text)`` of the number's text, or NaN where missing.

    Raises:
        DecodeError: The bytes are not JSON, or not of that shape; says where.
    """
    decoder, nullable = _decoders(schema)
    try:
        entries = decoder.decode(body).series
        arrays = [entry.values for entry in entries]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            entries = nullable.decode(body).series
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(error, body) from error
        arrays = [[np.nan if value is None else value for value in entry.values] for entry in entries]
    values = np.array([*chain.from_iterable(arrays)], np.float64)
    if schema.missing is not None:
        values[values == schema.missing] = np.nan
    offsets = np.zeros(len(arrays) + 1, np.int64)
    if arrays:
        offsets[1:] = [len(array) for array in arrays]
        offsets = offsets.cumsum()
    return NamedArrays(tuple([entry.name for entry in entries]), offsets, values)


def _refusal(error: Exception, body: bytes) -> DecodeError:
    """Give the DecodeError, with a path or an offset also where the parser tells neither."""
    result = json_error(error, body)
    if result.path or result.offset is not None:
        return result
    if isinstance(error, msgspec.ValidationError):
        result.path = "$"
    elif isinstance(error, msgspec.DecodeError):
        result.offset = len(body)  # it breaks off
    else:
        try:
            body.decode()
        except UnicodeDecodeError as invalid:
            result.offset = invalid.start
    return result


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


def regular_times(offsets: Int64, first_ms: list[int], interval_ms: int, /) -> Int64:
    """Give int64[N] times for series whose samples follow each other at a fixed interval.

    Args:
        offsets: int64[S + 1].
        first_ms: S times of the first sample, ms since the epoch.
        interval_ms: From one sample to the next.
    """
    lengths = np.diff(offsets)
    position = np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], lengths)
    times: Int64 = np.repeat(np.array(first_ms, np.int64), lengths) + position * interval_ms
    return times


__all__ = ["NamedArrays", "NumberArrays", "decode_number_arrays", "regular_times"]
