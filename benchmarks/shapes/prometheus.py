"""Prometheus' range queries: series told apart by labels, pairs of seconds and a number in a string."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson

from benchmarks.inputs import matrix_body
from benchmarks.shapes.shape import Columns, Shape
from metricsbridge.series._reference_decode import decode_labelled_lists_reference
from metricsbridge.series.matrices import LabelledLists, decode_labelled_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from metricsbridge.series.matrices import LabelledSamples

_BLANK = 9.2e18
"""Exporters that measured nothing may report the largest int64."""

SCHEMA = LabelledLists(
    holder="data", series="result", labels="metric", samples="values", warnings="warnings", blank_from=_BLANK
)
MSGSPEC = "msgspec, structs + numpy"


def ours(body: bytes) -> LabelledSamples:
    return decode_labelled_lists(body, SCHEMA)


def columns(found: LabelledSamples) -> Columns:
    return Columns(found.labels, found.lengths, found.times, found.values)


def _finish(labels: Sequence[Any], lengths: Any, seconds: Any, values: NDArray[np.float64]) -> tuple[Any, ...]:
    np.putmask(values, np.isinf(values) | (values >= _BLANK), np.nan)
    return tuple(labels), lengths, np.rint(seconds * 1000).astype(np.int64), values


class _Pair(msgspec.Struct, array_like=True, gc=False):
    time: float
    value: float


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: list[_Pair]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Data


_DECODER = msgspec.json.Decoder(_Answer, strict=False)


def with_structs(body: bytes) -> tuple[Any, ...]:
    series = _DECODER.decode(body).data.result
    pairs = [*chain.from_iterable([one.values for one in series])]
    seconds = np.fromiter([pair.time for pair in pairs], np.float64, len(pairs))
    values = np.fromiter([pair.value for pair in pairs], np.float64, len(pairs))
    return _finish([one.metric for one in series], tuple([len(one.values) for one in series]), seconds, values)


class _Listed(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: list[tuple[float, float]]


class _ListedData(msgspec.Struct):
    result: list[_Listed]


class _ListedAnswer(msgspec.Struct):
    data: _ListedData


_LISTED = msgspec.json.Decoder(_ListedAnswer, strict=False)


def with_tuples(body: bytes) -> tuple[Any, ...]:
    series = _LISTED.decode(body).data.result
    lengths = tuple([len(one.values) for one in series])
    pairs = chain.from_iterable(chain.from_iterable([one.values for one in series]))
    flat = np.fromiter(pairs, np.float64, 2 * sum(lengths)).reshape(-1, 2)
    return _finish([one.metric for one in series], lengths, flat[:, 0], flat[:, 1].copy())


def with_orjson(body: bytes) -> tuple[Any, ...]:
    series = orjson.loads(body)["data"]["result"]
    lengths = tuple([len(one["values"]) for one in series])
    pairs = chain.from_iterable(chain.from_iterable([one["values"] for one in series]))
    flat = np.fromiter(map(float, pairs), np.float64, 2 * sum(lengths)).reshape(-1, 2)
    return _finish([one["metric"] for one in series], lengths, flat[:, 0], flat[:, 1].copy())


SHAPE = Shape(
    title="Prometheus, matrix",
    body=matrix_body,
    ours=ours,
    reference=lambda body: decode_labelled_lists_reference(body, SCHEMA),
    columns=columns,
    peers={MSGSPEC: with_structs, "msgspec, tuples + numpy": with_tuples, "orjson + numpy": with_orjson},
    digits=(2, 15),
    gates={MSGSPEC: 4.0},
    small_gates={MSGSPEC: 1.5},
)
