"""PAI-DLC's ``GetJobMetrics``: an object with a time and a value for each sample."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import orjson
from alibabacloud_pai_dlc20201203.models import GetJobMetricsResponseBody

from benchmarks.inputs import objects_body
from benchmarks.measure import named
from benchmarks.shapes.shape import Columns, Shape
from metricsbridge.series._reference_decode import decode_sample_lists_reference
from metricsbridge.series.samples import SampleLists, decode_sample_lists

if TYPE_CHECKING:
    from metricsbridge.series.samples import NamedSamples

SCHEMA = SampleLists(series="PodMetrics", name="PodId", samples="Metrics", time="Time", value="Value")
MSGSPEC, SDK = "msgspec + numpy", f"{named('alibabacloud-pai-dlc20201203')} + numpy"


def ours(body: bytes) -> NamedSamples:
    return decode_sample_lists(body, SCHEMA)


def columns(found: NamedSamples) -> Columns:
    return Columns(found.names, found.lengths, found.times, found.values)


class _Sample(msgspec.Struct, gc=False):
    Time: int
    Value: float


class _Pod(msgspec.Struct, gc=False):
    PodId: str
    Metrics: list[_Sample]


class _Answer(msgspec.Struct):
    PodMetrics: list[_Pod]


_DECODER = msgspec.json.Decoder(_Answer)


def with_msgspec(body: bytes) -> tuple[Any, ...]:
    pods = _DECODER.decode(body).PodMetrics
    samples = [*chain.from_iterable([pod.Metrics for pod in pods])]
    times = np.fromiter([sample.Time for sample in samples], np.int64, len(samples))
    values = np.fromiter([sample.Value for sample in samples], np.float64, len(samples))
    return tuple([pod.PodId for pod in pods]), tuple([len(pod.Metrics) for pod in pods]), times, values


def with_orjson(body: bytes) -> tuple[Any, ...]:
    pods = orjson.loads(body)["PodMetrics"]
    samples = [*chain.from_iterable([pod["Metrics"] for pod in pods])]
    times = np.fromiter([sample["Time"] for sample in samples], np.int64, len(samples))
    values = np.fromiter([sample["Value"] for sample in samples], np.float64, len(samples))
    return tuple([pod["PodId"] for pod in pods]), tuple([len(pod["Metrics"]) for pod in pods]), times, values


def with_sdk(body: bytes) -> tuple[Any, ...]:
    # What the vendor's client does with an answer: json, then its model.
    pods = GetJobMetricsResponseBody().from_map(json.loads(body)).pod_metrics
    samples = [*chain.from_iterable([pod.metrics for pod in pods])]
    times = np.fromiter([sample.time for sample in samples], np.int64, len(samples))
    values = np.fromiter([sample.value for sample in samples], np.float64, len(samples))
    return tuple([pod.pod_id for pod in pods]), tuple([len(pod.metrics) for pod in pods]), times, values


SHAPE = Shape(
    title="PAI-DLC, objects",
    body=objects_body,
    ours=ours,
    reference=lambda body: decode_sample_lists_reference(body, SCHEMA),
    columns=columns,
    peers={MSGSPEC: with_msgspec, "orjson + numpy": with_orjson, SDK: with_sdk},
    gates={MSGSPEC: 6.0, SDK: 25.0},
    small_gates={MSGSPEC: 1.5},
)
