"""Samples as CSV in long form: one row for each."""

from __future__ import annotations

import csv
import json
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from metricsbridge.collection import Collection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metricsbridge.series.columns import SeriesBatch

COLUMNS: Final = ("source", "job", "task", "device", "labels", "metric", "unit", "time", "value")
"""The header. ``labels`` is a JSON object, or empty; ``time`` is ISO 8601 in UTC; no value is an empty field."""

_BLOCK: Final = 65_536


def csv_rows(collected: Collection | SeriesBatch, /) -> Iterator[tuple[str, ...]]:
    """Give a row for each sample, in the order of the series; a value reads back as the same float."""
    batch = collected.series if isinstance(collected, Collection) else collected
    for index, (key, times, values) in enumerate(batch):
        labels = json.dumps(dict(key.labels), ensure_ascii=False) if key.labels else ""
        identity = (batch.source_of(index), key.job, key.task, key.device, labels, key.metric, batch.unit[index])
        for start in range(0, len(times), _BLOCK):
            written = np.datetime_as_string(times[start : start + _BLOCK].astype("datetime64[ms]"), timezone="UTC")
            for time, value in zip(written.tolist(), values[start : start + _BLOCK].tolist(), strict=True):
                yield (*identity, time, repr(value) if value == value else "")


def dump_csv(collected: Collection | SeriesBatch, file: IO[str], /) -> None:
    """Write the header and the rows."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(csv_rows(collected))
