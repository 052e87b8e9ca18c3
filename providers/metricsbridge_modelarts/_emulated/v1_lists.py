"""The lists of the emulated ModelArts v1: jobs, versions of one job, and versions of all jobs; pure.

Sources: ModelArts API reference, "Querying a Training Job List" and "Querying the List of Training Job Versions"; Open
Telekom Cloud's API reference, "Querying the Statuses and GPU Quantity of All Job Versions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from metricsbridge_modelarts._emulated.gateway import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metricsbridge_modelarts._emulated.v1_jobs import Version

Document = dict[str, Any]

_PAGE: Final = 10
_MOST: Final = 1_000
_LAST_PAGE: Final = 65_535
_LONGEST_TEXT: Final = 64
_ALL_VERSIONS_PAGE: Final = 20


def jobs_document(versions: Sequence[Version], query: Mapping[str, str], now_ms: int, /) -> Document:
    """Give one page of jobs; a job stands there as its latest version, the one created last.

    Raises:
        ApiError: A parameter is none or out of range.
    """
    size, page = _number(query, "per_page", _PAGE, 1, _MOST), _number(query, "page", 1, 1, _LAST_PAGE)
    text = query.get("search_content", "")
    if len(text) > _LONGEST_TEXT:
        raise _refused("search_content", f"at most {_LONGEST_TEXT} characters")
    groups: dict[int, list[Version]] = {}
    for version in versions:
        groups.setdefault(version.job_id, []).append(version)
    counts = {job_id: len(group) for job_id, group in groups.items()}
    latest = [max(group, key=lambda version: version.job.create_time_ms) for group in groups.values()]
    chosen = _filtered(latest, query)
    chosen = [version for version in chosen if text in version.job_name]
    fields = {**_sort_fields(now_ms), "version_count": lambda version: counts[version.job_id]}
    chosen = _sorted(chosen, fields, query.get("sortBy") or "job_name", query.get("order") or "asc")
    rows = [
        {
            "job_id": version.job_id,
            "job_name": version.job_name,
            "version_id": version.version_id,
            "status": version.status,
            "create_time": version.job.create_time_ms,
            "duration": version.duration_ms(now_ms),
            "job_desc": "",
            "version_count": counts[version.job_id],
        }
        for version in chosen[(page - 1) * size :][:size]
    ]
    return {"is_success": True, "job_total_count": len(chosen), "job_count_limit": 2_000, "quotas": 2_000, "jobs": rows}


def versions_page(versions: Sequence[Version], query: Mapping[str, str], /) -> Sequence[Version]:
    """Give one page of a job's versions, the newest first; page 0, the default, is all of them.

    Raises:
        ApiError: A parameter is none or out of range.
    """
    size, page = _number(query, "per_page", _PAGE, 1, _MOST), _number(query, "page", 0, 0, _LAST_PAGE)
    newest_first = versions[::-1]
    return newest_first if page == 0 else newest_first[(page - 1) * size :][:size]


def all_versions_document(
    versions: Sequence[Version], query: Mapping[str, str], body: bytes, *, now_ms: int, no_time: int | None
) -> Document:
    """Give versions of all jobs; rows do not say of which job they are.

    Args:
        versions: All of them.
        query: Parameters are taken from here, or else from the body.
        body: JSON; the page describes the parameters as the body of a GET.
        now_ms: Milliseconds since the epoch.
        no_time: Stands for a time that there is not.

    Raises:
        ApiError: A parameter is none or out of range, or the body is no JSON object.
    """
    given = {**_parameters(body), **query}
    limit = _number(given, "limit", _ALL_VERSIONS_PAGE, 0, _MOST)
    offset = _number(given, "offset", 0, 0, 2**31)
    chosen = _filtered(versions, given)
    if pool := given.get("pool_id"):
        chosen = [version for version in chosen if version.pool_id == pool]
    order, sort_by = given.get("order") or "desc", given.get("sort_by") or "create_time"
    chosen = _sorted(chosen, _sort_fields(now_ms), sort_by, order)
    rows = [_row(version, now_ms, no_time) for version in (chosen[offset:][:limit] if limit else chosen[offset:])]
    return {"versions": rows, "offset": offset, "limit": limit, "total_count": len(chosen), "is_success": True}


def _row(version: Version, now_ms: int, no_time: int | None) -> Document:
    job = version.job
    devices = job.devices * len(job.tasks)
    return {
        "version_id": version.version_id,
        "version_name": version.job_name,
        "status": version.status,
        "create_time": job.create_time_ms,
        "start_time": no_time if job.start_time_ms is None else job.start_time_ms,
        "end_time": no_time if job.end_time_ms is None else job.end_time_ms,
        "duration": version.duration_ms(now_ms),
        "version_desc": None,
        "pool_id": version.pool_id,
        "flavor_code": version.flavor,
        "npu_num": devices if job.device_kind == "npu" else 0,
        "gpu_num": devices if job.device_kind == "gpu" else 0,
    }


def _parameters(body: bytes) -> dict[str, str]:
    if not body:
        return {}
    try:
        given = msgspec.json.decode(body, type=dict[str, str | int | None])
    except msgspec.DecodeError as error:
        raise ApiError(400, "ModelArts.0101", "The request body is not a JSON object of parameters.") from error
    return {name: str(value) for name, value in given.items() if value is not None}


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise _refused(name, f"a number from {least} to {most}")
    return int(text)


def _refused(name: str, expected: str) -> ApiError:
    return ApiError(400, "ModelArts.0104", f"Invalid parameter {name}: it must be {expected}.")


def _filtered(versions: Sequence[Version], query: Mapping[str, str]) -> list[Version]:
    """Give those in one of the statuses, numbers with commas between them, and in the workspace."""
    statuses = [text.strip() for text in query.get("status", "").split(",") if text.strip()]
    if not all(text.isascii() and text.isdecimal() for text in statuses):
        raise _refused("status", "numbers with commas between them")
    wanted = {int(text) for text in statuses}
    here = (query.get("workspace_id") or "0") == "0"
    return [version for version in versions if here and (not wanted or version.status in wanted)]


def _sort_fields(now_ms: int) -> dict[str, Callable[[Version], Any]]:
    return {
        "job_name": lambda version: version.job_name,
        "job_desc": lambda version: "",
        "status": lambda version: version.status,
        "duration": lambda version: version.duration_ms(now_ms),
        "create_time": lambda version: version.job.create_time_ms,
    }


def _sorted(
    versions: Sequence[Version], fields: Mapping[str, Callable[[Version], Any]], name: str, order: str
) -> list[Version]:
    if name not in fields:
        raise _refused("for sorting", f"one of {', '.join(fields)}")
    if order not in ("asc", "desc"):
        raise _refused("order", "asc or desc")
    field = fields[name]
    return sorted(versions, key=lambda version: (field(version), version.version_id), reverse=order == "desc")
