"""The data of CloudMonitor: JSON in a string, escaped once or oftener, to columns: pure.

The documents show the points of ``GetMetrics`` escaped twice, and do not say what their members are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from metricsbridge.provider_kit import DecodeError, Rows, SeriesBatch, SeriesKey, decode_rows, parse_json
from metricsbridge_pai._catalog import CARD_DIMENSIONS, JOB_DIMENSIONS, POD_DIMENSIONS, CloudMetric, Conversion
from metricsbridge_pai._columns import to_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS: Final = Rows(
    time="timestamp", values=("Value", "Average", "Maximum", "Minimum", "Sum"), numbered=frozenset(CARD_DIMENSIONS)
)
_MOST_ESCAPED: Final = 8
_SHARED: Final = frozenset({"userid", "regionid", "workspaceid", "workspace", *JOB_DIMENSIONS, *POD_DIMENSIONS})


@attrs.frozen(kw_only=True)
class Reading:
    """What one call asks of CloudMonitor: its payload.

    Attributes:
        pods: Ids of pods, earlier incarnations too; empty for a metric of the job as a whole.
        aliases: Id of an earlier incarnation to the task that it belongs to.
        by_device: Whether each device is wanted by itself; otherwise a metric of devices becomes the task's mean.
        shift_ms: What is taken from each time, so that it names the start of its interval.
    """

    metric: CloudMetric
    period_s: int
    pods: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    by_device: bool = False
    shift_ms: int = 0


def unescape(points: Any, /) -> bytes:
    """Give the JSON array that the member of an answer holds, however often it is escaped; ``[]`` for none.

    Raises:
        DecodeError: It is no JSON.
    """
    for _ in range(_MOST_ESCAPED):
        if points is None:
            return b"[]"
        if not isinstance(points, str):
            return msgspec.json.encode(points)
        text = points.strip()
        if not text:
            return b"[]"
        quote = text.find('"')
        if quote == 0:
            points = parse_json(text.encode())
        elif quote > 0 and text[quote - 1] == "\\":  # the array itself is escaped: the quotes about it are missing
            points = parse_json(f'"{text}"'.encode())
        else:
            return b"[]" if text == "null" else text.encode()
    raise DecodeError(f"the answer's data are escaped more than {_MOST_ESCAPED} times", path="$.DataPoints")


def read_points(
    points: Any, conversion: Conversion, reading: Reading, job_id: str, tasks: frozenset[str]
) -> SeriesBatch:
    """Give the points of one page as series, one for each device of a metric of devices.

    Args:
        points: The member that holds them.
        conversion: To the metric's unit.
        reading: What was asked.
        job_id: Of which job.
        tasks: Of which of its tasks; what stands for others is left out.

    Raises:
        DecodeError: The points are not as documented.
    """
    found = decode_rows(unescape(points), _ROWS)
    times, values = found.times - reading.shift_ms, conversion.apply(found.values)
    bounds, aliases = found.offsets.tolist(), dict(reading.aliases)
    keys, samples = [], []
    for index, pairs in enumerate(found.keys):
        members = {name.lower(): text for name, text in pairs}
        key = _key(members, reading, job_id, tasks, aliases)
        if key is not None:
            part = slice(bounds[index], bounds[index + 1])
            keys.append(key)
            samples.append((times[part], values[part]))
    return to_batch(
        keys, samples, unit=conversion.unit, interval_ms=reading.period_s * 1000, statistic=reading.metric.statistic
    )


def _key(
    members: Mapping[str, str], reading: Reading, job_id: str, tasks: frozenset[str], aliases: Mapping[str, str]
) -> SeriesKey | None:
    if _first(members, JOB_DIMENSIONS) not in ("", job_id):
        return None
    level, metric = reading.metric.level, reading.metric.metric
    if level == "job":
        return SeriesKey(job_id, "", "", metric)
    pod = _first(members, POD_DIMENSIONS)
    if not pod and len(tasks) > 1:
        raise DecodeError("the answer's points do not name their pod", path="$.DataPoints")
    task = aliases.get(pod, pod) if pod else next(iter(tasks))
    if task not in tasks:
        return None
    return SeriesKey(job_id, task, _device(members) if level == "device" else "", metric)


def _first(members: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((members[name] for name in names if members.get(name)), "")


def _device(members: Mapping[str, str]) -> str:
    """Give what tells cards of a pod apart: the member of a known name, else all that is left."""
    named = _first(members, CARD_DIMENSIONS)
    return named or "/".join([text for name, text in sorted(members.items()) if name not in _SHARED])
