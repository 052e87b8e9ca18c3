"""From the bytes of an answer whose samples bring their own times to columns: pure, described by a small schema."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    whole_number,
)
from metricsbridge.series.decode import shared_offsets

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
        DecodeError: The bytes are not JSON, or not of that shape; says at which byte and path.
    """
    found = _kernel.read(body, schema)
    if found is not None:
        names, lengths, times, values = found
        return NamedSamples(names, lengths, np.frombuffer(times, np.int64), np.frombuffer(values))
    try:
        series = _decoder(schema).decode(body).series or ()
    except JSON_ERRORS:
        return _decode_any(body, schema)
    if not body.isascii():
        require_utf8(body)
    samples = [one.samples or () for one in series]
    lengths = tuple([len(one) for one in samples])
    count = sum(lengths)
    return NamedSamples(
        tuple([one.name for one in series]),
        lengths,
        np.fromiter([sample.time for sample in chain.from_iterable(samples)], np.int64, count),
        np.array([sample.value for sample in chain.from_iterable(samples)], np.float64),  # None becomes NaN
    )


def _decode_any(body: bytes, schema: SampleLists) -> NamedSamples:
    """Decode what the decoder refuses: it may hold a member twice, of which only the last counts."""
    document = read_document(body)
    names: list[str] = []
    lengths: list[int] = []
    samples: list[tuple[int, float]] = []
    try:
        for steps, one in listed(document, schema.series, ()):
            names.append(checked(member(one, schema.name, steps), str, (*steps, schema.name), "expected text"))
            found = [
                (whole_number(member(sample, schema.time, at), (*at, schema.time)),
                 number(sample.get(schema.value), False, (*at, schema.value)))
                for at, sample in listed(one, schema.samples, steps)
            ]  # fmt: skip
            lengths.append(len(found))
            samples += found
    except MisfitError as error:
        raise misplaced(body, error) from None
    return NamedSamples(
        tuple(names),
        tuple(lengths),
        np.array([time for time, _ in samples], np.int64),
        np.array([value for _, value in samples], np.float64),
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
            index; these must fit into int64.
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
        DecodeError: The bytes are not JSON, or not of that shape; says at which byte and path.
    """
    found = _kernel.read(body, schema)
    if found is not None:
        keys, lengths, times, values = found
        return KeyedSamples(keys, lengths, np.frombuffer(times, np.int64), np.frombuffer(values))
    groups: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]] = {}
    document = read_document(body)
    try:
        for index, row in enumerate(checked(document, list, (), "expected a list")):
            key, sample = _row(checked(row, dict, (index,), "expected an object"), schema, index)
            groups.setdefault(key, []).append(sample)
    except MisfitError as error:
        raise misplaced(body, error) from None
    samples = [*chain.from_iterable(groups.values())]
    return KeyedSamples(
        tuple(groups),
        tuple([len(group) for group in groups.values()]),
        np.array([time for time, _ in samples], np.int64),
        np.array([value for _, value in samples], np.float64),
    )


def _row(row: dict[str, Any], schema: Rows, index: int) -> tuple[tuple[tuple[str, str], ...], tuple[int, float]]:
    """Give the key and the sample of a row."""
    key = []
    for name, value in row.items():
        if name == schema.time or name in schema.values:
            continue
        if type(value) is str:
            key.append((name, value))
        elif type(value) is int and name.lower() in schema.numbered:
            key.append((name, str(whole_number(value, (index, name)))))
    time = member(row, schema.time, (index,))
    if type(time) is str and _WHOLE.fullmatch(time):
        time = int(time)
    named = next((name for name in schema.values if name in row), "")
    value = row.get(named) if named else None
    if value == "":
        raise MisfitError((index, named), "expected a number")
    return tuple(sorted(key)), (
        whole_number(time, (index, schema.time)),
        number(value, True, (index, named)),
    )


_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
"""What may fit into int64."""
