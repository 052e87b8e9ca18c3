"""PAI-DLC's ``GetMetrics``: flat rows of all series, to be put together by their members.

Ours finds out from the rows what names a series; the peers are told.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson

from benchmarks.inputs import rows_body
from benchmarks.shapes.shape import Columns, Shape
from metricsbridge.series._reference_decode import decode_rows_reference
from metricsbridge.series.samples import Rows, decode_rows

if TYPE_CHECKING:
    from metricsbridge.series.samples import KeyedSamples

SCHEMA = Rows(time="timestamp", values=("Value", "Average", "Maximum", "Minimum", "Sum"), numbered=frozenset({"gpu"}))


def ours(body: bytes) -> KeyedSamples:
    return decode_rows(body, SCHEMA)


def columns(found: KeyedSamples) -> Columns:
    keys = tuple([tuple([dict(pairs)[name] for name in ("userId", "jobId", "pod")]) for pairs in found.keys])
    return Columns(keys, found.lengths, found.times, found.values)


class _Row(msgspec.Struct, gc=False):
    timestamp: int
    userId: str
    jobId: str
    pod: str
    Average: float


_DECODER = msgspec.json.Decoder(list[_Row])


def with_msgspec(body: bytes) -> tuple[Any, ...]:
    rows = _DECODER.decode(body)
    numbers: dict[tuple[str, ...], int] = {}
    of = [numbers.setdefault((row.userId, row.jobId, row.pod), len(numbers)) for row in rows]
    series = np.fromiter(of, np.int64, len(rows))
    order = np.argsort(series, kind="stable")
    times = np.fromiter([row.timestamp for row in rows], np.int64, len(rows))[order]
    values = np.fromiter([row.Average for row in rows], np.float64, len(rows))[order]
    return tuple(numbers), tuple(np.bincount(series).tolist()), times, values


def with_orjson(body: bytes) -> tuple[Any, ...]:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in orjson.loads(body):
        groups.setdefault((row["userId"], row["jobId"], row["pod"]), []).append(row)
    rows = [*chain.from_iterable(groups.values())]
    times = np.fromiter([row["timestamp"] for row in rows], np.int64, len(rows))
    values = np.fromiter([row["Average"] for row in rows], np.float64, len(rows))
    return tuple(groups), tuple([len(group) for group in groups.values()]), times, values


SHAPE = Shape(
    title="PAI-DLC, rows",
    body=rows_body,
    ours=ours,
    reference=lambda body: decode_rows_reference(body, SCHEMA),
    columns=columns,
    peers={"msgspec + numpy": with_msgspec, "orjson + numpy": with_orjson},
)
