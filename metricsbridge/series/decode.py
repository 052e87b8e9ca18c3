"""From the bytes of an answer to columns: pure, described by a small schema and not by vendor."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import numpy as np

from metricsbridge.envelopes import json_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.errors import DecodeError
    from metricsbridge.series.columns import Float64, Int64


@attrs.frozen(kw_only=True, cache_hash=True)
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
    """Series as they stand in the document.

    Attributes:
        names: S names.
        lengths: S numbers of values.
        values: float64[N], the values of the series, one after the other.
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    values: Float64

    @property
    def offsets(self) -> Int64:
        """int64[S + 1]; series ``i`` holds the values ``offsets[i]:offsets[i + 1]``."""
        return _offsets(self.lengths)


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
    lengths = tuple([len(array) for array in arrays])
    values = np.fromiter(chain.from_iterable(arrays), np.float64, sum(lengths))
    if schema.missing is not None:
        values[values == schema.missing] = np.nan
    return NamedArrays(tuple([entry.name for entry in entries]), lengths, values)


@lru_cache(maxsize=64)
def _offsets(lengths: tuple[int, ...]) -> Int64:
    offsets = np.array([*accumulate(lengths, initial=0)], np.int64)
    offsets.flags.writeable = False  # it is shared
    return offsets


def _refusal(error: Exception, body: bytes) -> DecodeError:
    """Give the DecodeError; the parser leaves out the path where it is the document itself that is wrong."""
    result = json_error(error, body)
    if isinstance(error, msgspec.ValidationError):
        result.path = result.path or "$"
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


def regular_times(lengths: Sequence[int], first_ms: Sequence[int], interval_ms: int, /) -> Int64:
    """Give int64[N] times for series whose samples follow each other at a fixed interval; they can't be written to.

    The tasks of a job share their times, so the array is shared where the same one is asked for again.

    Args:
        lengths: S numbers of samples.
        first_ms: S times of the first sample, ms since the epoch.
        interval_ms: From one sample to the next.
    """
    return _regular_times(tuple(lengths), tuple(first_ms), interval_ms)


@lru_cache(maxsize=8)
def _regular_times(lengths: tuple[int, ...], first_ms: tuple[int, ...], interval_ms: int) -> Int64:
    grids = [
        np.arange(first, first + length * interval_ms, interval_ms, dtype=np.int64)
        for length, first in zip(lengths, first_ms, strict=True)
    ]
    times: Int64 = np.concatenate([np.empty(0, np.int64), *grids])
    times.flags.writeable = False
    return times


__all__ = ["NamedArrays", "NumberArrays", "decode_number_arrays", "regular_times"]
