"""From the bytes of a ModelArts v2 answer to names, offsets and fractions with NaN for what is missing."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from huaweicloudsdkmodelarts.v1 import ModelArtsClient

from benchmarks.inputs import MINUTE_MS, SCHEMA, START_MS, metrics_body
from benchmarks.measure import Table, interleave, named, peak_bytes, ratios
from metricsbridge.model import Call, Window
from metricsbridge.series._reference_decode import decode_number_arrays_reference
from metricsbridge.series.decode import decode_number_arrays
from metricsbridge_modelarts.v2 import Anchoring, to_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from metricsbridge.series.columns import SeriesBatch

    Columns = tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.float64]]

OURS = "metricsbridge"
_CALL = Call(
    operation="ShowTrainingJobMetrics",
    targets=(("job", "worker-0"),),
    metrics=(),
    window=Window(START_MS, START_MS + 2 * 24 * 60 * MINUTE_MS),
    payload=Anchoring(START_MS, START_MS + MINUTE_MS, "start"),
)


def ours(body: bytes) -> Columns:
    arrays = decode_number_arrays(body, SCHEMA)
    return arrays.names, arrays.offsets, arrays.values / 100.0


def ours_whole(body: bytes) -> SeriesBatch:
    """Do all that a fetch does after the bytes are there: times, keys and units too."""
    return to_batch(decode_number_arrays(body, SCHEMA), _CALL, START_MS)


def with_orjson(body: bytes) -> Columns:
    entries = orjson.loads(body)["metrics"]
    return _columns([entry["metric"] for entry in entries], [entry["value"] for entry in entries])


def with_json(body: bytes) -> Columns:
    entries = json.loads(body)["metrics"]
    return _columns([entry["metric"] for entry in entries], [entry["value"] for entry in entries])


def _columns(names: Sequence[str], arrays: Sequence[list[float]]) -> Columns:
    # One array from the chained lists: faster than one array for each list and a concatenation.
    values = np.array(list(chain.from_iterable(arrays)), np.float64)
    values[values == -1.0] = np.nan
    offsets = np.cumsum([0, *map(len, arrays)])
    return tuple(names), offsets, values / 100.0


def with_reference(body: bytes) -> Columns:
    arrays = decode_number_arrays_reference(body, SCHEMA)
    return arrays.names, arrays.offsets, arrays.values / 100.0


class _Answer:
    """What the vendor's client reads of an HTTP answer."""

    headers: dict[str, str] = {"Content-Type": "application/json"}  # noqa: RUF012  # as the vendor's own

    def __init__(self, body: bytes) -> None:
        self.text = body.decode()


def with_sdk(client: Any, body: bytes) -> Columns:
    metrics = client.deserialize(_Answer(body), "ShowTrainingJobMetricsResponse", None).metrics
    return _columns([entry.metric for entry in metrics], [entry.value for entry in metrics])


def contestants() -> dict[str, Callable[[bytes], object]]:
    """Give name to decoder; the first is ours."""
    return {
        OURS: ours,
        f"{OURS}, whole batch": ours_whole,
        f"{named('orjson')} + {named('numpy')}": with_orjson,
        f"json + {named('numpy')}": with_json,
        f"{named('huaweicloudsdkmodelarts')} + numpy": partial(with_sdk, ModelArtsClient()),
        "the slow twin, _reference": with_reference,
    }


def check(body: bytes) -> None:
    """Compare every contestant's result with the reference's, bit for bit."""
    names, offsets, values = with_reference(body)
    for contestant, decode in contestants().items():
        found: Any = decode(body)
        if contestant == f"{OURS}, whole batch":
            assert len(found) == len(names), contestant
            found = names, found.offsets, found.values
        assert found[0] == names, contestant
        assert np.array_equal(found[1], offsets), contestant
        assert np.array_equal(found[2], values, equal_nan=True), contestant


def run(*, short: bool) -> list[Table]:
    """Measure each body, after checking that all give the same columns."""
    bodies = [
        ("6 x 60 points, two decimals", metrics_body(60)),
        ("6 x 1 440 points, two decimals", metrics_body(1440)),
        ("6 x 1 440 points, 15 decimals", metrics_body(1440, digits=15)),
    ]
    for _, body in bodies:
        check(body)
    return [_measure(title, body, short=short) for title, body in bodies]


def _measure(title: str, body: bytes, *, short: bool) -> Table:
    points = len(with_json(body)[2])
    runs: dict[str, Callable[[], object]] = {name: partial(run, body) for name, run in contestants().items()}
    seconds = interleave(runs, rounds=1 if short else 9, at_least_s=0.0 if short else 0.1)
    rows = [
        (
            name,
            *ratios(taken, seconds[OURS]),
            median(taken) / points * 1e9,
            len(body) / median(taken) / 1e6,
            peak_bytes(runs[name]) / 1024,
        )
        for name, taken in seconds.items()
    ]
    return Table(
        title=f"decode: {title}, {len(body)} bytes",
        columns=("", "time, ours = 1", "lowest", "highest", "ns/point", "MB/s", "peak KiB"),
        rows=tuple(rows),
    )
