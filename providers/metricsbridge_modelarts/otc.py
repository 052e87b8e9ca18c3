"""The provider ``otc-modelarts``: API v1 as Open Telekom Cloud serves it, with a count of all jobs and their devices.

That cloud's reference still has the list of all versions, which Huawei Cloud's has not; it tells of each version the
state, the times and the devices, but not the job that it belongs to. So it can count jobs and not find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from metricsbridge.provider_kit import (
    ConfigurationError,
    InvalidRequestError,
    JobStatus,
    JobTotals,
    ServiceUnavailableError,
    check_id,
    decode_json,
)
from metricsbridge_modelarts import v1
from metricsbridge_modelarts._otc_credentials import completed
from metricsbridge_modelarts._projects import look_up_project
from metricsbridge_modelarts._wire_v1 import STATUSES, CountedPage, CountedVersion, status_of, word_of
from metricsbridge_modelarts.v1 import ModelArtsV1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.provider_kit import JobSearch, Transport
    from metricsbridge_modelarts._otc_settings import OtcModelArtsSettings

LIST_ALL_VERSIONS: Final = "ListAllTrainingJobVersions"
_PAGE_SIZE: Final = 1000
"""Of a service that does not give everything at once."""

OPERATIONS: Final = (*v1.OPERATIONS, LIST_ALL_VERSIONS)


async def connect(settings: OtcModelArtsSettings, transport: Transport) -> OtcModelArts:
    """Make the provider; where no project id is found, IAM is asked for the project of that name.

    Raises:
        ConfigurationError: There is not exactly one such project, or no endpoint is known.
    """
    found = completed(settings)
    url, name = found.service_url(), found.project_name or found.region
    if not found.project_id and name is None:
        raise ConfigurationError("set project_id, or project_name or region so that the project can be looked up")
    project = found.project_id or await look_up_project(found.iam_url(), name or "", transport)
    return OtcModelArts(transport, url, check_id(project, "project id"), found)


class OtcModelArts(ModelArtsV1):
    """Versions of training jobs of one project of Open Telekom Cloud."""

    _provider = "otc-modelarts"

    def __init__(self, transport: Transport, url: str, project_id: str, settings: OtcModelArtsSettings) -> None:
        super().__init__(transport, url, project_id, settings)
        self._pool = () if settings.pool_id is None else (("pool_id", settings.pool_id),)

    async def job_totals(self, search: JobSearch, /) -> Sequence[JobTotals]:
        """Count the versions that match, and their devices; ``name`` and ``created`` are filtered here."""
        found = [row for row in await self._counted(search) if _matches(row, search)]
        newest = sorted(found, key=lambda row: row.create_time or 0, reverse=True)[: search.limit]
        groups: dict[str, list[CountedVersion]] = {}
        for row in newest:
            groups.setdefault(word_of(row.status), []).append(row)
        return [
            JobTotals(
                status=status_of(rows[0].status),
                vendor_status=word,
                jobs=len(rows),
                gpus=sum([row.gpu_num or 0 for row in rows]),
                npus=sum([row.npu_num or 0 for row in rows]),
            )
            for word, rows in groups.items()
        ]

    async def _counted(self, search: JobSearch) -> list[CountedVersion]:
        """Give all rows: a limit of 0 asks for everything, and where that was not all, pages bring the rest.

        Raises:
            ServiceUnavailableError: The service says that there are more and does not give them.
        """
        filters = (("sort_by", "create_time"), ("order", "desc"), *self._pool, *self._workspace)
        if search.status is not None and JobStatus.UNKNOWN not in search.status:
            numbers = [str(number) for number, status in STATUSES.items() if status in search.status]
            if not numbers:  # such as paused, which no job of this service is
                return []
            filters = (*filters, ("status", ",".join(numbers)))
        rows: dict[tuple[int, int | None], CountedVersion] = {}
        size, total = 0, None
        while True:
            params = (*filters, ("offset", str(len(rows))), ("limit", str(size)))
            try:
                response = await self._get(LIST_ALL_VERSIONS, "/versions", params)
            except InvalidRequestError:
                if size:
                    raise
                size = _PAGE_SIZE  # a service that does not know 0
                continue
            page = decode_json(response.body, CountedPage)
            found = {(row.version_id, row.create_time): row for row in page.versions or ()}
            new, total = len(found.keys() - rows.keys()), page.total_count
            rows = found | rows  # of a row that comes again, what was read first
            if total is None or len(rows) >= total:
                return [*rows.values()]
            if not new and size:
                # The count may be that of all versions, matching or not, or of all that were ever created.
                if rows or len(filters) > 2:
                    return [*rows.values()]
                raise ServiceUnavailableError(f"the service tells of {total} versions of jobs and gives none")
            size = size or len(rows) or _PAGE_SIZE


def _matches(row: CountedVersion, search: JobSearch) -> bool:
    if search.status is not None and status_of(row.status) not in search.status:
        return False
    if search.name is not None and search.name not in (row.version_name or ""):
        return False
    return search.created is None or (row.create_time is not None and row.create_time in search.created)
