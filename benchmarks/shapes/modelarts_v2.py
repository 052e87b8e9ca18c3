"""ModelArts' API v2: arrays of numbers, ``-1`` for no value."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson
import simdjson
from huaweicloudsdkmodelarts.v1 import ModelArtsClient

from benchmarks.inputs import MINUTE_MS, SCHEMA, START_MS, metrics_body
from benchmarks.measure import named
from benchmarks.shapes.shape import Columns, More, Shape
from metricsbridge.model import Call, Window
from metricsbridge.series._reference_decode import decode_number_arrays_reference
from metricsbridge.series.decode import decode_number_arrays
from metricsbridge_modelarts.v2 import Anchoring, to_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.series.columns import SeriesBatch
    from metricsbridge.series.decode import NamedArrays

ORJSON, SIMDJSON, JSON, MSGSPEC = "orjson + numpy", "pysimdjson, as_buffer + numpy", "json + numpy", "msgspec + numpy"
_CALL = Call(
    operation="ShowTrainingJobMetrics",
    targets=(("job", "worker-0"),),
    metrics=(),
    window=Window(START_MS, START_MS + 2 * 24 * 60 * MINUTE_MS),
    payload=Anchoring(START_MS, START_MS + MINUTE_MS, "start"),
)


def ours(body: bytes) -> NamedArrays:
    return decode_number_arrays(body, SCHEMA)


def ours_whole(body: bytes) -> SeriesBatch:
    """Do all that a fetch does after the bytes are there: times, keys and units too."""
    return to_batch([(body, _CALL, START_MS)])


def check_whole(found: SeriesBatch, expected: Columns) -> None:
    values = expected.values / 100.0
    Columns(expected.keys, tuple(np.diff(found.offsets).tolist()), None, found.values).check(
        Columns(expected.keys, expected.lengths, None, values), "the whole batch"
    )


def columns(found: NamedArrays) -> Columns:
    return Columns(found.names, found.lengths, None, found.values)


def _flat(names: Sequence[str], arrays: Sequence[Sequence[float]]) -> tuple[Any, ...]:
    # Straight from the lists into one array: faster than through one list, or one array for each and a concatenation.
    lengths = tuple(map(len, arrays))
    values = np.fromiter(chain.from_iterable(arrays), np.float64, sum(lengths))
    np.putmask(values, values == -1.0, np.nan)
    return tuple(names), lengths, None, values


def with_orjson(body: bytes) -> tuple[Any, ...]:
    entries = orjson.loads(body)["metrics"]
    return _flat([entry["metric"] for entry in entries], [entry["value"] for entry in entries])


def with_json(body: bytes) -> tuple[Any, ...]:
    entries = json.loads(body)["metrics"]
    return _flat([entry["metric"] for entry in entries], [entry["value"] for entry in entries])


class _Entry(msgspec.Struct, gc=False):
    metric: str
    value: list[float]


class _Answer(msgspec.Struct):
    metrics: list[_Entry]


_DECODER = msgspec.json.Decoder(_Answer)


def with_msgspec(body: bytes) -> tuple[Any, ...]:
    entries = _DECODER.decode(body).metrics
    return _flat([entry.metric for entry in entries], [entry.value for entry in entries])


_PARSER = simdjson.Parser()


def with_simdjson(body: bytes) -> tuple[Any, ...]:
    names, arrays = [], []
    for entry in _PARSER.parse(body)["metrics"]:
        names.append(entry["metric"])
        arrays.append(np.frombuffer(entry["value"].as_buffer(of_type="d")))
    values = np.concatenate(arrays)
    np.putmask(values, values == -1.0, np.nan)
    return tuple(names), tuple(map(len, arrays)), None, values


class _Response:
    """What the vendor's client reads of an HTTP answer."""

    headers: dict[str, str] = {"Content-Type": "application/json"}  # noqa: RUF012  # as the vendor's own

    def __init__(self, body: bytes) -> None:
        self.text = body.decode()


def with_sdk(client: Any, body: bytes) -> tuple[Any, ...]:
    metrics = client.deserialize(_Response(body), "ShowTrainingJobMetricsResponse", None).metrics
    return _flat([entry.metric for entry in metrics], [entry.value for entry in metrics])


SHAPE = Shape(
    title="ModelArts v2, numbers",
    body=metrics_body,
    ours=ours,
    reference=lambda body: decode_number_arrays_reference(body, SCHEMA),
    columns=columns,
    peers={
        SIMDJSON: with_simdjson,
        ORJSON: with_orjson,
        MSGSPEC: with_msgspec,
        JSON: with_json,
        f"{named('huaweicloudsdkmodelarts')} + numpy": partial(with_sdk, ModelArtsClient()),
    },
    more={"whole batch": More(ours_whole, check_whole)},
    untraced=frozenset({SIMDJSON}),
    digits=(2, 15),
    gates={ORJSON: 4.0, SIMDJSON: 1.5, JSON: 20.0},
    small_gates={MSGSPEC: 1.5},
)
