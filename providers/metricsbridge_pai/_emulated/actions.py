"""The emulated actions of CloudMonitor, and GetMetrics of PAI-DLC: their parameters and answers.

Times without a zone are UTC, an unknown metric is not found, and a list of metrics has pages of 30: the documents leave
that open.
Source: CloudMonitor API reference, DescribeMetricList, DescribeMetricLast, DescribeMetricData, DescribeMetricMetaList,
Cursor, BatchExport; PAI-DLC API reference, GetMetrics.
"""

from __future__ import annotations

import base64
import hashlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import msgspec

from metricsbridge_pai._emulated.cloudmonitor import METRICS, NAMESPACE, PERIODS, Ask
from metricsbridge_pai._emulated.gateway import ApiError, invalid
from metricsbridge_pai._emulated.roster import placed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge_pai._emulated.cloudmonitor import CloudMonitor
    from metricsbridge_pai._emulated.readings import Readings

    Params = Mapping[str, str]
    Document = dict[str, Any]

T = TypeVar("T")

LENGTH: Final = 1_000
LONGEST: Final = 1_440
LONGEST_PROXIED: Final = 10_000
MOST_DIMENSIONS: Final = 50
META_PAGE: Final = 30

_HOUR_MS: Final = 3_600_000
_LONGEST_RANGE_MS: Final = 31 * 86_400_000
_FORMATS: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%MZ")
_STATISTICS: Final = {"Value": "Value", "Average": "Average,Minimum,Maximum"}


@attrs.frozen
class _Matcher:
    """One condition of Cursor."""

    Label: str
    Operator: str
    Value: str


@attrs.frozen
class _Place:
    """Where a batch export stands: what its cursor says."""

    metric: str
    period_s: int
    start_ms: int
    end_ms: int
    dimensions: tuple[dict[str, str], ...]
    given: int = 0


@attrs.frozen(eq=False)
class Actions:
    """What CloudMonitor answers; parameters come in the query or, as a form, in the body."""

    monitor: CloudMonitor
    readings: Readings

    def metric_list(self, params: Params, now_ms: int, /, *, shuffled: bool = False) -> Document:
        """Give one page of points, as DescribeMetricList."""
        return self._page(params, self._ask(params, now_ms), now_ms, LONGEST, "Datapoints", shuffled)

    def proxied(self, params: Params, now_ms: int, /, *, shuffled: bool = False) -> Document:
        """Give one page of points, as GetMetrics of PAI-DLC."""
        if not params.get("Dimensions"):
            raise invalid("Dimensions is mandatory for this action.")
        job_id = params.get("JobId") or None
        if job_id is not None and job_id not in placed(self.monitor.fleet):
            raise ApiError(404, "NotFound", f"The job {job_id} is not found.")
        ask = attrs.evolve(self._ask(params, now_ms), job_id=job_id)
        return self._page(params, ask, now_ms, LONGEST_PROXIED, "DataPoints", shuffled)

    def newest(self, params: Params, now_ms: int, /) -> Document:
        """Give the newest point of each series, as DescribeMetricLast."""
        points = self.monitor.points(self._ask(params, now_ms), now_ms).newest()
        return _data(self._text(points.rows(self.readings.value_key)), params, "Datapoints")

    def metric_data(self, params: Params, now_ms: int, /) -> Document:
        """Give the first points, as DescribeMetricData, which has no pages."""
        points = self.monitor.points(self._ask(params, now_ms), now_ms)
        chosen = points.select(slice(0, _length(params, LONGEST)))
        return _data(self._text(chosen.rows(self.readings.value_key)), params, "Datapoints")

    def meta_list(self, params: Params, /) -> Document:
        """Give one page of the metrics that there are, as DescribeMetricMetaList."""
        number, size = _whole(params, "PageNumber", 1), _whole(params, "PageSize", META_PAGE)
        if number < 1 or size < 1:
            raise invalid("PageNumber and PageSize must be 1 at least.")
        wanted = params.get("MetricName") or None
        served = params.get("Namespace") in (None, "", NAMESPACE)
        chosen = [name for name in METRICS if served and wanted in (None, name)]
        resources = [
            {
                "Namespace": NAMESPACE,
                "MetricName": name,
                "Description": name,
                "Unit": METRICS[name].unit,
                "Periods": ",".join(map(str, PERIODS)),
                "Statistics": _STATISTICS[self.readings.value_key],
                "Dimensions": METRICS[name].dimensions,
                "Labels": "[]",
            }
            for name in chosen[(number - 1) * size :][:size]
        ]
        return {"Code": "200", "Success": True, "TotalCount": str(len(chosen)), "Resources": {"Resource": resources}}

    def cursor(self, params: Params, now_ms: int, /) -> Document:
        """Begin a batch export, as Cursor."""
        try:
            matchers = msgspec.json.decode(params.get("Matchers") or "[]", type=list[_Matcher])
        except msgspec.DecodeError as error:
            raise invalid(f"Matchers is malformed: {error}") from error
        if any(matcher.Operator != "EQUALS" for matcher in matchers):
            raise invalid("The operator of a matcher must be EQUALS.")
        ask = self._ask({**params, "MetricName": params.get("Metric", ""), "Dimensions": ""}, now_ms)
        names = {matcher.Label: matcher.Value for matcher in matchers}
        place = _Place(ask.name, ask.period_s, ask.start_ms, ask.end_ms, (names,))
        return {"Code": 200, "Success": True, "Message": "success", "Cursor": _token(attrs.asdict(place))}

    def export(self, params: Params, now_ms: int, /) -> Document:
        """Give the next points of a batch export, as BatchExport; the last answer has no cursor."""
        place = _read_token(params.get("Cursor", ""), _Place, "Cursor")
        if params.get("Metric") not in (None, "", place.metric) or params.get("Namespace") not in (None, "", NAMESPACE):
            raise invalid("The cursor is another metric's.")
        length = _length(params, 10_000)
        try:
            wanted = msgspec.json.decode(params.get("Measurements") or "[]", type=list[str])
        except msgspec.DecodeError as error:
            raise invalid("Measurements is no JSON array.") from error
        ask = Ask(
            name=place.metric, start_ms=place.start_ms, end_ms=place.end_ms, period_s=place.period_s,
            dimensions=place.dimensions,
        )  # fmt: skip
        points = self.monitor.points(ask, now_ms)
        end = min(len(points), place.given + length)
        labels = METRICS[place.metric].dimensions.split(",")
        results = [
            {
                "Timestamp": row["timestamp"],
                "Measurements": {
                    name: value for name, value in row.items() if isinstance(value, float) and name in (wanted or row)
                },
                "Dimensions": [{"Label": label, "Value": row[label]} for label in labels],
                "Period": place.period_s,
                "LogTime": row["timestamp"] + place.period_s * 1000,
            }
            for row in points.select(slice(place.given, end)).rows(self.readings.value_key)
        ]
        more = end < len(points)
        return {
            "Code": 200,
            "Success": True,
            "Length": len(results),
            "DataResults": results,
            "HasNext": more,
            "Cursor": _token(attrs.asdict(attrs.evolve(place, given=end))) if more else None,
        }

    def _ask(self, params: Params, now_ms: int) -> Ask:
        name, namespace = params.get("MetricName", ""), params.get("Namespace", "")
        if not name or not namespace:
            raise ApiError(400, "MissingParameter", "Namespace and MetricName are mandatory for this action.")
        if namespace != NAMESPACE or name not in METRICS:
            raise ApiError(404, "ResourceNotFound", f"There is no metric {name} in the namespace {namespace}.")
        if params.get("Express"):
            raise invalid("This service is emulated without Express.")
        start = _instant(params["StartTime"]) if params.get("StartTime") else now_ms - _HOUR_MS
        end = _instant(params["EndTime"]) if params.get("EndTime") else now_ms
        if start >= end or end - start > _LONGEST_RANGE_MS:
            raise invalid("StartTime must be earlier than EndTime, by 31 days at most.")
        period_s = _whole(params, "Period", 60)
        if period_s not in PERIODS:
            raise invalid(f"Period must be one of {PERIODS}.")
        given = params.get("Dimensions")
        dimensions = _dimensions(given) if given else None
        return Ask(name=name, start_ms=start, end_ms=end, period_s=period_s, dimensions=dimensions)

    def _page(self, params: Params, ask: Ask, now_ms: int, longest: int, member: str, shuffled: bool) -> Document:
        asked = sorted([pair for pair in params.items() if pair[0] not in ("NextToken", "Length", "Token")])
        digest = hashlib.sha256(str(asked).encode()).hexdigest()[:16]
        length, given = _length(params, longest), 0
        if params.get("NextToken"):
            whose, given = _read_token(params["NextToken"], tuple[str, int], "NextToken")
            if whose != digest:
                raise invalid("NextToken is another query's.")
        points = self.monitor.points(ask, now_ms)
        rows = points.select(slice(given, given + length)).rows(self.readings.value_key)
        document = _data(self._text(_disordered(rows) if shuffled else rows), params, member)
        if given + length < len(points):
            document["NextToken"] = _token([digest, given + length])
        return document

    def _text(self, rows: list[Document]) -> str:
        text = msgspec.json.encode(rows).decode()
        for _ in range(self.readings.escaped - 1):
            text = msgspec.json.encode(text).decode()
        return text


def no_data(params: Params, member: str, /) -> Document:
    """Give the answer without points."""
    return _data("[]", params, member)


def _data(text: str, params: Params, member: str) -> Document:
    return {"Code": "200", "Success": True, "Period": params.get("Period") or "60", member: text}


def _disordered(rows: list[Document]) -> list[Document]:
    """Give the rows in no order, every fifth twice: first with a wrong value, later with its own."""
    mixed = [*rows]
    random.Random(len(rows)).shuffle(mixed)
    wrong = [{name: value + 1.0 if isinstance(value, float) else value for name, value in row.items()} for row in rows]
    return [*wrong[::5], *mixed]


def _instant(text: str) -> int:
    if text.isdecimal():
        return int(text)
    for form in _FORMATS:
        try:
            return round(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            continue
    raise invalid(f"{text!r} is no time: give milliseconds, or write it as 2019-01-30 00:00:00.")


def _dimensions(text: str) -> tuple[dict[str, str], ...]:
    kind = dict[str, str | int]
    try:
        given = msgspec.json.decode(text, type=list[kind] | kind)
    except msgspec.DecodeError as error:
        raise invalid(f"Dimensions is malformed: {error}") from error
    rows = given if isinstance(given, list) else [given]
    if not 1 <= len(rows) <= MOST_DIMENSIONS:
        raise invalid(f"Dimensions must have 1 to {MOST_DIMENSIONS} members.")
    return tuple([{name: str(value) for name, value in row.items()} for row in rows])


def _length(params: Params, longest: int) -> int:
    length = _whole(params, "Length", LENGTH)
    if not 1 <= length <= longest:
        raise invalid(f"Length must be from 1 to {longest}.")
    return length


def _whole(params: Params, name: str, default: int) -> int:
    try:
        return int(params.get(name) or default)
    except ValueError as error:
        raise invalid(f"{name} is no whole number.") from error


def _token(content: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode()


def _read_token(text: str, kind: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise invalid(f"{name} is not one that was given out.") from error
