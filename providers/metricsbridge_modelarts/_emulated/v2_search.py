"""The emulated search for training jobs. Source: ModelArts API reference, ListTrainingJobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import msgspec

from metricsbridge_modelarts._emulated.gateway import ApiError
from metricsbridge_modelarts._emulated.v2_jobs import job_document, phases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metricsbridge.testing.fleet import Fleet, FleetJob

PAGE_LIMIT: Final = 50


@attrs.frozen
class _Filter:
    key: str
    operator: str
    value: list[str]


@attrs.frozen
class _Search:
    """The request's body; ``offset`` is the number of a page."""

    offset: int = 0
    limit: int = PAGE_LIMIT
    sort_by: str = "create_time"
    order: Literal["asc", "desc"] = "desc"
    group_by: str = ""
    workspace_id: str = "0"
    train_type: str = "job"
    filters: list[_Filter] = attrs.field(factory=list)
    tags: list[Any] = attrs.field(factory=list)
    host_ips: list[str] = attrs.field(factory=list)


_FIELDS: Final[Mapping[str, Callable[[FleetJob], str]]] = {
    "name": lambda job: job.name,
    "create_time": lambda job: str(job.create_time_ms),
    "phase": lambda job: phases(job)[0],
    "kind": lambda job: "job",
    "algorithm_name": lambda job: "",
    "user_id": lambda job: "",
    "runtime_type": lambda job: "",
}


def search_document(fleet: Fleet, body: bytes, now_ms: int, /) -> dict[str, Any]:
    """Give one page of jobs.

    Raises:
        ApiError: The body is malformed, or asks for what the service does not know.
    """
    search = _parse(body)
    chosen = [job for job in fleet.jobs if all(_matches(job, condition) for condition in search.filters)]
    if search.workspace_id != "0" or search.train_type != "job":
        chosen = []
    chosen.sort(key=lambda job: (job.create_time_ms, job.id), reverse=search.order == "desc")
    page = chosen[search.offset * search.limit :][: search.limit]
    return {
        "total": len(fleet.jobs),
        "count": len(chosen),
        "limit": search.limit,
        "offset": search.offset,
        "sort_by": search.sort_by,
        "order": search.order,
        "group_by": search.group_by,
        "workspace_id": search.workspace_id,
        "ai_project": "default-ai-project",
        "items": [job_document(job, now_ms) for job in page],
    }


def _parse(body: bytes) -> _Search:
    try:
        search = msgspec.json.decode(body or b"{}", type=_Search)
    except msgspec.ValidationError as error:
        raise ApiError(400, "ModelArts.2788", f"Invalid parameter: {error}") from error
    except msgspec.DecodeError as error:
        raise ApiError(400, "ModelArts.2787", "The request body is not valid JSON.") from error
    if search.offset < 0 or not 1 <= search.limit <= PAGE_LIMIT:
        raise ApiError(400, "ModelArts.2788", f"Invalid parameter: offset from 0, limit from 1 to {PAGE_LIMIT}.")
    if search.tags or search.host_ips:
        raise ApiError(400, "ModelArts.2788", "Invalid parameter: this service is emulated without tags and host_ips.")
    if search.sort_by != "create_time":
        raise ApiError(400, "ModelArts.2790", f"Sorting by {search.sort_by} is not supported.")
    return search


def _matches(job: FleetJob, condition: _Filter) -> bool:
    if condition.key not in _FIELDS:
        raise ApiError(400, "ModelArts.2789", f"Filtering by {condition.key} is not supported.")
    field = _FIELDS[condition.key](job)
    values = [value for value in condition.value if value]
    if not values:
        return True
    match condition.operator:
        case "like":
            return any(value in field for value in values)
        case "in":
            return field in values
        case "not":
            return field not in values
        case "between":
            if len(values) != 2 or not all(value.isdecimal() for value in values) or not field.isdecimal():
                raise ApiError(400, "ModelArts.2809", f"The values {values} are no range of {condition.key}.")
            return int(values[0]) <= int(field) <= int(values[1])
    raise ApiError(400, "ModelArts.2808", f"The operator {condition.operator} is not supported.")
