"""From the bytes of an answer whose samples bring their own times to columns: pure, described by a small schema."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import msgspec
import numpy as np

from metricsbridge.envelopes import parse_json
from metricsbridge.series import _kernel
from metricsbridge.series.decode import JSON_ERRORS, refusal, shared_offsets, wrong

if TYPE_CHECKING:
    from metricsbridge.series.columns import Float64, Int64


_Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What fits into int64."""


@attrs.frozen(kw_only=True, cache_hash=True)
class SampleLists:
    """A document that holds a list of series, each a name and a list of samples, each a time and a value.

    For example ``{"PodMetrics": [{"PodId": "a", "Metrics": [{"Time": 1616987726587, "Value": 23.45}]}]}``. Times are
    whole milliseconds since the epoch; ``null`` or no value at all is "no value".

    Attributes:
        series: The member that holds the list of series.
        name: The member of each series that names it.
        samples: The member of each series that holds its samples.
        time: The member of each sample that holds its time.
        value: The member of each sample that holds its value.
    """

    series: str
    name: str
    samples: str
    time: str
    value: str


@attrs.frozen(eq=False)
class NamedSamples:
    """Series as they stand in the document: perhaps unsorted, with duplicates.

    Attributes:
        names: S names; they may recur.
        lengths: S numbers of samples.
        times: int64[N], ms since the epoch, the samples of the series one after the other.
        values: float64[N].
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    times: Int64
    values: Float64

    @property
    def offsets(self) -> Int64:
        """int64[S + 1]; series ``i`` holds the samples ``offsets[i]:offsets[i + 1]``."""
        return shared_offsets(self.lengths)


def decode_sample_lists(body: bytes, schema: SampleLists, /) -> NamedSamples:
    """Decode a document of sample lists; an absent or ``null`` list of series or of samples is an empty one.

    Raises:
        DecodeError: The bytes are not JSON, or not of that shape; says where.
    """
    found = _kernel.read(body, schema)
    if found is not None:
        names, lengths, times, values = found
        return NamedSamples(names, lengths, np.frombuffer(times, np.int64), np.frombuffer(values))
    try:
        series = _decoder(schema).decode(body).series or ()
    except JSON_ERRORS as error:
        raise refusal(error, body) from error
    samples = [one.samples or () for one in series]
    lengths = tuple([len(one) for one in samples])
    count = sum(lengths)
    return NamedSamples(
        tuple([one.name for one in series]),
        lengths,
        np.fromiter([sample.time for sample in chain.from_iterable(samples)], np.int64, count),
        np.array([sample.value for sample in chain.from_iterable(samples)], np.float64),  # None becomes NaN
    )


@lru_cache(maxsize=16)
def _decoder(schema: SampleLists) -> msgspec.json.Decoder[Any]:
    sample: Any = msgspec.defstruct(
        "Sample", [("time", _Time), ("value", float | None, None)],
        rename={"time": schema.time, "value": schema.value}, gc=False,
    )  # fmt: skip
    one: Any = msgspec.defstruct(
        "Series", [("name", str), ("samples", list[sample] | None, None)],
        rename={"name": schema.name, "samples": schema.samples}, gc=False,
    )  # fmt: skip
    document = msgspec.defstruct("Document", [("series", list[one] | None, None)], rename={"series": schema.series})
    return msgspec.json.Decoder(document)


@attrs.frozen(kw_only=True, cache_hash=True)
class Rows:
    """A document that is a list of flat objects, each one sample of the series that its text members name.

    For example ``[{"timestamp": 1616987700000, "jobId": "a", "pod": "a-worker-0", "Average": 23.45}]``.

    Attributes:
        time: The member that holds the time, in whole milliseconds since the epoch; these and values may be written in
            strings.
        values: Members that may hold the value; the first that a row has counts.
        numbered: Members, in lower case, that name the series even where they are whole numbers, such as a card's
            index.
    """

    time: str
    values: tuple[str, ...]
    numbered: frozenset[str] = frozenset()


@attrs.frozen(eq=False)
class KeyedSamples:
    """Rows put together to series, in the order in which their first rows stand.

    Attributes:
        keys: S keys, each the text and numbered members of its rows but time and values, as pairs of name and text
            sorted by name.
        lengths: S numbers of samples.
        times: int64[N], ms since the epoch, the samples of the series one after the other, as they stood.
        values: float64[N].
    """

    keys: tuple[tuple[tuple[str, str], ...], ...]
    lengths: tuple[int, ...]
    times: Int64
    values: Float64

    @property
    def offsets(self) -> Int64:
        """int64[S + 1]; series ``i`` holds the samples ``offsets[i]:offsets[i + 1]``."""
        return shared_offsets(self.lengths)


def decode_rows(body: bytes, schema: Rows, /) -> KeyedSamples:
    """Decode a document of rows; a row whose value is ``null``, or that has none, is a sample without a value.

    Raises:
        DecodeError: The bytes are not JSON, or not of that shape; says where.
    """
    found = _kernel.read(body, schema)
    if found is not None:
        keys, lengths, times, values = found
        return KeyedSamples(keys, lengths, np.frombuffer(times, np.int64), np.frombuffer(values))
    document = parse_json(body)
    if not isinstance(document, list):
        raise wrong("$", "expected a list")
    groups: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = {}
    numbers = {schema.time, *schema.values}
    for index, row in enumerate(document):
        if not isinstance(row, dict):
            raise wrong(f"$[{index}]", "expected an object")
        key = tuple(sorted([(name, str(text)) for name, text in row.items() if _names(name, text, numbers, schema)]))
        if schema.time not in row:
            raise wrong(f"$[{index}]", f"there is no member {schema.time!r}")
        name = next((name for name in schema.values if name in row), "")
        value = _convert(row.get(name), float | None, f"$[{index}].{name}")
        time = _convert(row[schema.time], _Time, f"$[{index}].{schema.time}")
        groups.setdefault(key, []).append((time, np.nan if value is None else value))
    samples = [*chain.from_iterable(groups.values())]
    return KeyedSamples(
        tuple(groups),
        tuple([len(group) for group in groups.values()]),
        np.array([time for time, _ in samples], np.int64),
        np.array([value for _, value in samples], np.float64),
    )


def _names(name: str, value: Any, numbers: set[str], schema: Rows) -> bool:
    """Tell whether a member says which series a row belongs to."""
    if type(value) is int and name.lower() in schema.numbered:
        return name not in numbers
    return type(value) is str and name not in numbers


def _convert(value: Any, kind: Any, path: str) -> Any:
    try:
        # As they stand in JSON, numbers with a point are no whole ones; in strings too.
        found = msgspec.convert(value, kind, strict=type(value) is not str)
    except msgspec.ValidationError:
        raise wrong(path, "expected a whole number" if kind is _Time else "expected a number") from None
    if isinstance(found, float) and np.isinf(found):
        raise wrong(path, "expected a finite number")
    return found
