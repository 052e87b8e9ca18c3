"""The data of CloudMonitor: JSON in a string, escaped once or oftener, to columns: pure.

The documents show the points of ``GetMetrics`` escaped twice, and do not say what their members are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from metricsbridge.provider_kit import DecodeError, Rows, SeriesBatch, SeriesKey, decode_rows, merge, parse_json
from metricsbridge_pai._catalog import CARD_DIMENSIONS, JOB_DIMENSIONS, POD_DIMENSIONS, CloudMetric, Conversion
from metricsbridge_pai._columns import is_wanted, mean_over_devices, to_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

_VALUES: Final = ("Value", "value", "Average", "average", "Maximum", "maximum", "Minimum", "minimum", "Sum", "sum")
_MOST_ESCAPED: Final = 8
_SHARED: Final = frozenset({"userid", "regionid", "workspaceid", "workspace", *JOB_DIMENSIONS, *POD_DIMENSIONS})


@attrs.frozen(kw_only=True)
class Reading:
    """What one call asks of CloudMonitor: its payload.

    Attributes:
        pods: Ids of pods, earlier incarnations too; empty for a metric of the job as a whole, and where the job does
            not name its pods.
        only: Where it does not, the ids that are wanted; None for all.
        aliases: Id of an earlier incarnation to the task that it belongs to.
        by_device: Whether each device is wanted by itself; otherwise a metric of devices becomes the task's mean.
        shift_ms: What is taken from each time, so that it names the start of its interval.
    """

    metric: CloudMetric
    period_s: int
    pods: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    by_device: bool = False
    shift_ms: int = 0

    @property
    def averaged(self) -> bool:
        """Whether what is wanted is the mean over devices."""
        return self.metric.level == "device" and not self.by_device


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


@attrs.frozen(eq=False)
class Pages:
    """The pages of one call, read one after the other.

    Attributes:
        reading: What was asked.
        conversion: To the metric's unit.
        job_id: Of which job.
        tasks: Of which of its tasks, "" for every pod that the points name; what stands for others is left out.
        batches: What was read of each page, one series for each device of a metric of devices.
    """

    reading: Reading
    conversion: Conversion
    job_id: str
    tasks: frozenset[str]
    batches: list[SeriesBatch] = attrs.field(init=False, factory=list)
    _unnamed: set[tuple[str, int]] = attrs.field(init=False, factory=set)

    def add(self, points: Any, /) -> int:
        """Read the member that holds a page's points; gives how many there are, those of others included.

        Raises:
            DecodeError: They are not as documented. Where they don't tell cards apart, no other page of the call does:
                none is kept.
        """
        reading, metric = self.reading, self.reading.metric
        numbered = frozenset({*CARD_DIMENSIONS, *metric.dimensions}) - _SHARED
        found = decode_rows(unescape(points), Rows(time="timestamp", values=_VALUES, numbered=numbered))
        times, values = found.times - reading.shift_ms, self.conversion.apply(found.values)
        bounds, aliases = found.offsets.tolist(), dict(reading.aliases)
        keys, samples = [], []
        for index, pairs in enumerate(found.keys):
            members = {name.lower(): text for name, text in pairs}
            key = self._key(members, aliases)
            if key is not None:
                part = slice(bounds[index], bounds[index + 1])
                keys.append(key)
                samples.append((times[part], values[part]))
                if metric.level == "device" and not key.device:
                    self._check_alone(_first(members, POD_DIMENSIONS), times[part].tolist())
        interval_ms, unit = reading.period_s * 1000, self.conversion.unit
        self.batches.append(to_batch(keys, samples, unit=unit, interval_ms=interval_ms, statistic=metric.statistic))
        return len(found.times)

    def joined(self, *, ended: bool = True) -> SeriesBatch:
        """Give all that was read as what was asked for.

        Args:
            ended: Whether the last page held points. Where a page that was announced holds none, the one before it
                may have been cut between the devices of one time: no mean is made of those on this side.
        """
        whole = merge(self.batches)
        return mean_over_devices(whole, of_all=not ended) if self.reading.averaged else whole

    def _key(self, members: Mapping[str, str], aliases: Mapping[str, str]) -> SeriesKey | None:
        if _first(members, JOB_DIMENSIONS) not in ("", self.job_id):
            return None
        metric, tasks = self.reading.metric, self.tasks
        if metric.level == "job":
            return SeriesKey(self.job_id, "", "", metric.metric)
        pod = _first(members, POD_DIMENSIONS)
        if not pod and (len(tasks) > 1 or "" in tasks):
            raise DecodeError("the answer's points do not name their pod", path="$.DataPoints")
        task = aliases.get(pod, pod) if pod else next(iter(tasks))
        if not is_wanted(task, tasks, self.reading.only):
            return None
        return SeriesKey(self.job_id, task, _device(members) if metric.level == "device" else "", metric.metric)

    def _check_alone(self, pod: str, times: list[int]) -> None:
        """Check that points without a card's name are of one card; of several, only the last would be kept."""
        before = len(self._unnamed)
        self._unnamed.update([(pod, time) for time in times])
        if len(self._unnamed) < before + len(times):
            self.batches.clear()
            raise DecodeError(
                f"the answer's points of {self.reading.metric.name} do not name their card: there are several of one "
                "pod at the same time",
                path="$.DataPoints",
            )


def _first(members: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((members[name] for name in names if members.get(name)), "")


def _device(members: Mapping[str, str]) -> str:
    """Give what tells cards of a pod apart: the member of a known name, else all that is left."""
    named = _first(members, CARD_DIMENSIONS)
    return named or "/".join([text for name, text in sorted(members.items()) if name not in _SHARED])
