"""ModelArts' API v1: arrays of numbers in strings; ``""``, ``"NaN"`` and ``"-1"`` are no values.

Ours is called as its provider calls it: it also tells which values are written ``0``, which peers are spared.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson

from benchmarks.inputs import text_body
from benchmarks.shapes.shape import Columns, Shape
from metricsbridge.series._reference_decode import decode_number_arrays_reference
from metricsbridge.series.decode import NumberArrays, decode_number_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.series.decode import NamedArrays

SCHEMA = NumberArrays(
    series="metrics", name="metric", values="value", missing=-1.0, text=True, doubtful="0", interval="interval"
)
"""An answer of ``ShowPodMetricStatistic``."""

MSGSPEC = "msgspec, lax + numpy"
QUICKEST, ASTYPE = "orjson + numpy, np.array(texts, float)", "orjson + numpy, np.array(texts).astype(float)"


def ours(body: bytes) -> NamedArrays:
    return decode_number_arrays(body, SCHEMA)


def columns(found: NamedArrays) -> Columns:
    return Columns(found.names, found.lengths, None, found.values)


class _Entry(msgspec.Struct, gc=False):
    metric: str
    value: list[float]


class _Answer(msgspec.Struct):
    metrics: list[_Entry]
    interval: float | None = None


_DECODER = msgspec.json.Decoder(_Answer, strict=False)


def with_msgspec(body: bytes) -> tuple[Any, ...]:
    entries = _DECODER.decode(body).metrics
    arrays = [entry.value for entry in entries]
    lengths = tuple(map(len, arrays))
    values = np.fromiter(chain.from_iterable(arrays), np.float64, sum(lengths))
    np.putmask(values, values == -1.0, np.nan)
    return tuple([entry.metric for entry in entries]), lengths, None, values


def _texts(body: bytes) -> tuple[tuple[str, ...], tuple[int, ...], list[str]]:
    entries = orjson.loads(body)["metrics"]
    arrays: Sequence[list[str]] = [entry["value"] for entry in entries]
    return tuple([entry["metric"] for entry in entries]), tuple(map(len, arrays)), list(chain.from_iterable(arrays))


def with_orjson(body: bytes) -> tuple[Any, ...]:
    # The quickest of what a user would write: float() on each, or one array for each list, take longer.
    names, lengths, texts = _texts(body)
    values = np.array(texts, np.float64)
    np.putmask(values, values == -1.0, np.nan)
    return names, lengths, None, values


def with_orjson_astype(body: bytes) -> tuple[Any, ...]:
    names, lengths, texts = _texts(body)
    values = np.array(texts).astype(np.float64)
    np.putmask(values, values == -1.0, np.nan)
    return names, lengths, None, values


SHAPE = Shape(
    title="ModelArts v1, numbers in strings",
    body=text_body,
    ours=ours,
    reference=lambda body: decode_number_arrays_reference(body, SCHEMA),
    columns=columns,
    peers={MSGSPEC: with_msgspec, QUICKEST: with_orjson, ASTYPE: with_orjson_astype},
    digits=(2, 15),
    gates={MSGSPEC: 4.0, QUICKEST: 7.0, ASTYPE: 30.0},
    small_gates={MSGSPEC: 1.5},
)
