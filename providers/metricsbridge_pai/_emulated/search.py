"""The emulated list of jobs. Source: PAI-DLC API reference, ListJobs.

The default and the largest size of a page are not documented: 10 and 100 here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from metricsbridge_pai._emulated.gateway import USER_ID, USER_NAME, invalid
from metricsbridge_pai._emulated.jobs import QUOTA_ID, QUOTA_NAME, WORKSPACE_ID, item_document
from metricsbridge_pai._emulated.roster import placed
from metricsbridge_pai._signing import DATE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metricsbridge.testing.fleet import Fleet
    from metricsbridge_pai._emulated.readings import Readings
    from metricsbridge_pai._emulated.roster import Placed

PAGE_SIZE: Final = 10
LARGEST_PAGE: Final = 100

_WEEK_MS: Final = 7 * 86_400_000

_FILTERS: Final[Mapping[str, Callable[[Placed, str], bool]]] = {
    "Status": lambda job, text: job.status == text,
    "DisplayName": lambda job, text: text.lower() in job.job.name.lower(),
    "JobType": lambda job, text: job.type == text,
    "WorkspaceId": lambda job, text: text == WORKSPACE_ID,
    "ResourceId": lambda job, text: job.resource.quota and text == QUOTA_ID,
    "ResourceQuotaName": lambda job, text: job.resource.quota and text in QUOTA_NAME,
    "PaymentType": lambda job, text: job.resource.payment == text,
    "UserIdForFilter": lambda job, text: text == USER_ID,
    "Username": lambda job, text: text in USER_NAME,
    "Tags": lambda job, text: not _tags(text),  # no job has any
}
_SORTS: Final[Mapping[str, Callable[[Placed], str]]] = {
    "DisplayName": lambda job: job.job.name,
    "JobType": lambda job: job.type,
    "Status": lambda job: job.status,
    "GmtCreateTime": lambda job: f"{job.job.create_time_ms:020}",
    "GmtFinishTime": lambda job: f"{job.job.end_time_ms or 0:020}",
}
_TIMES: Final[Mapping[str, Callable[[Placed], int | None]]] = {
    "GmtCreateTime": lambda job: job.job.create_time_ms,
    "GmtRunningTime": lambda job: job.job.start_time_ms,
    "GmtFinishTime": lambda job: job.job.end_time_ms,
}


def parse_instant(text: str, name: str, /) -> int:
    """Read a time in the one form that PAI-DLC takes; gives ms since the epoch.

    Raises:
        ApiError: It is written otherwise.
    """
    try:
        return round(datetime.strptime(text, DATE_FORMAT).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError as error:
        raise invalid(f"{name} is no time such as 2020-11-08T16:00:00Z.") from error


def search_document(fleet: Fleet, query: Mapping[str, str], now_ms: int, /, *, readings: Readings) -> dict[str, Any]:
    """Give one page of jobs, as ListJobs; what it asks for by default are the jobs created in the last seven days.

    Raises:
        ApiError: A parameter is malformed.
    """
    number, size = _whole(query, "PageNumber", 1), _whole(query, "PageSize", PAGE_SIZE)
    if number < 1 or not 1 <= size <= LARGEST_PAGE:
        raise invalid(f"PageNumber must be 1 at least, and PageSize from 1 to {LARGEST_PAGE}.")
    sort_by, order = query.get("SortBy", "GmtCreateTime"), query.get("Order", "desc")
    if sort_by not in _SORTS or order not in ("asc", "desc"):
        raise invalid(f"SortBy {sort_by} or Order {order} is not supported.")
    if _flag(query, "FromAllWorkspaces") and not _flag(query, "ShowOwn"):
        raise invalid("FromAllWorkspaces must be used together with ShowOwn=true.")
    key = _SORTS[sort_by]
    chosen = [job for job in placed(fleet).values() if _matches(job, query, now_ms)]
    chosen.sort(key=lambda job: (key(job), job.id), reverse=order == "desc")
    page = chosen[(number - 1) * size :][:size]
    items = [item_document(job, now_ms, pods=readings.list_pods, renamed=readings.renamed) for job in page]
    return {"Jobs": items, "TotalCount": len(chosen)}


def _matches(job: Placed, query: Mapping[str, str], now_ms: int) -> bool:
    field = query.get("TimeRangeField") or "GmtCreateTime"
    if field not in _TIMES:
        raise invalid(f"TimeRangeField {field} is not supported.")
    start = parse_instant(query["StartTime"], "StartTime") if query.get("StartTime") else now_ms - _WEEK_MS
    end = parse_instant(query["EndTime"], "EndTime") if query.get("EndTime") else now_ms
    time_ms = _TIMES[field](job)
    if time_ms is None or not start <= time_ms <= end:
        return False
    if query.get("JobId"):
        if job.id != query["JobId"].lower():
            return False
    elif query.get("JobIds") and job.id not in query["JobIds"].split(","):
        return False
    return all(check(job, query[name]) for name, check in _FILTERS.items() if query.get(name))


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(query.get(name) or default)
    except ValueError as error:
        raise invalid(f"{name} is no whole number.") from error


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _tags(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise invalid("Tags is no JSON object.") from error
