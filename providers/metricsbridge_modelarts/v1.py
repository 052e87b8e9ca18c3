"""The provider ``modelarts-v1``: training jobs of the old version, through ModelArts' API v1.

What runs is one version of a job, so a job's id is written ``job_id/version_id``. The service gives one pod's metrics
in one answer, without times or window: a query is one call for each pod. A version's own means stand in its details.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import (
    Call,
    InvalidRequestError,
    Job,
    JobTotals,
    NotFoundError,
    PermissionDeniedError,
    Request,
    SeriesBatch,
    Task,
    decode_json,
    path_segment,
    vendor_metric,
)
from metricsbridge_modelarts._catalog import V1_DEVICES, V1_KNOWN, V1_SERVED
from metricsbridge_modelarts._projects import project_of
from metricsbridge_modelarts._series_v1 import Dialect, Reading, decode_job, decode_pod, member_of, to_batch
from metricsbridge_modelarts._time_axis import MINUTE_MS, RETENTION_MS, Anchoring, Life
from metricsbridge_modelarts._wire_v1 import (
    JobPage,
    JobRow,
    LogFiles,
    Version,
    VersionPage,
    accelerators_of,
    evaluations_of,
    names_of,
    status_of,
    word_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    from metricsbridge.provider_kit import Evaluation, JobSearch, JobStatus, Level, Query, Response, Transport
    from metricsbridge_modelarts._settings import ModelArtsV1Settings

LIST_JOBS: Final = "ListTrainingJobsV1"
LIST_VERSIONS: Final = "ListTrainingJobVersions"
SHOW_VERSION: Final = "ShowTrainingJobVersion"
LIST_LOG_FILES: Final = "ListTrainingJobLogFiles"
SHOW_POD: Final = "ShowPodMetricStatistic"
OPERATIONS: Final = (LIST_JOBS, LIST_VERSIONS, SHOW_VERSION, LIST_LOG_FILES, SHOW_POD)

SERVES: Final[Mapping[Level, tuple[str, ...]]] = {"task": V1_SERVED, "device": V1_DEVICES, "job": V1_SERVED}

_PAGE_SIZE: Final = 1000

_Listed = tuple["Job", int]
"""A version as a list tells of it, and its number of pods."""

_ID: Final = re.compile(r"[0-9]{1,19}/[0-9]{1,19}")


async def connect(settings: ModelArtsV1Settings, transport: Transport) -> ModelArtsV1:
    """Make the provider; where no project id is given, IAM is asked for the project named as the region.

    Raises:
        ConfigurationError: There is not exactly one such project, or no endpoint is known.
    """
    url = settings.service_url()
    return ModelArtsV1(transport, url, await project_of(settings, transport), settings)


class ModelArtsV1:
    """Versions of training jobs of one project."""

    _provider = "modelarts-v1"

    def __init__(self, transport: Transport, url: str, project_id: str, settings: ModelArtsV1Settings) -> None:
        self._transport = transport
        self._url = f"{url}/v1/{path_segment(project_id, 'project id')}/training-jobs"
        self._headers = {"X-Project-Id": project_id}
        self._anchor = settings.anchor
        self._pod_metrics = settings.pod_metrics
        self._workspace = () if settings.workspace_id is None else (("workspace_id", settings.workspace_id),)
        self._dialect = Dialect(self._provider, settings.disk_rate_unit, settings.network_rate_unit)

    async def _get(self, operation: str, path: str, params: tuple[tuple[str, str], ...] = ()) -> Response:
        return await self._transport.send(Request("GET", f"{self._url}{path}", params, self._headers, b"", operation))

    async def get_job(self, job_id: str, /) -> Job:
        """Describe a version; its pods are its tasks, where they are named and served.

        Raises:
            ProviderError: ``NotFoundError`` where there is no such job or version, ``InvalidRequestError`` where the id
                is not written ``job_id/version_id``.
        """
        path = _path(job_id)
        response = await self._get(SHOW_VERSION, path)
        version = decode_json(response.body, Version)
        pods = await self._pods(path) if version.start_time and self._pod_metrics != "no" else ()
        job = _job(job_id, version, response.received_ms)
        return attrs.evolve(job, tasks=tuple([Task(id=pod) for pod in pods]))

    async def _pods(self, path: str) -> tuple[str, ...]:
        """Give the pods whose metrics are served; a pod is named as its log file."""
        try:
            body = (await self._get(LIST_LOG_FILES, f"{path}/log/file-names")).body
        except (NotFoundError, InvalidRequestError):
            return ()
        pods = names_of(decode_json(body, LogFiles).log_file_list) if body else ()
        if not pods or self._pod_metrics == "yes":
            return pods
        try:
            await self._get(SHOW_POD, _pod_path(path, pods[0]), (("metrics", "CpuUsage"),))
        except (NotFoundError, InvalidRequestError, PermissionDeniedError):
            return ()
        return pods

    async def list_jobs(self, search: JobSearch, /) -> AsyncIterator[Job]:
        """Give the versions that match, the newest first, as far as the service says which job has the newest."""
        async with aclosing(self._listed(search)) as jobs:
            async for job, _ in jobs:
                yield job

    async def _listed(self, search: JobSearch) -> AsyncGenerator[_Listed]:
        """Give the versions that match, each with its number of pods."""
        given = 0
        waiting: list[_Listed] = []  # the newest last
        async with aclosing(self._rows()) as rows:
            async for row in rows:
                # A job stands in the list as its newest version, so no version to come is newer than this one.
                while waiting and _created(waiting[-1]) >= (row.create_time or 0):
                    yield waiting.pop()
                    given += 1
                    if given == search.limit:
                        return
                if _may_match(row, search):
                    waiting = sorted([*await self._versions(row, search), *waiting], key=_created)
        for listed in waiting[::-1][: None if search.limit is None else search.limit - given]:
            yield listed

    async def _rows(self) -> AsyncGenerator[JobRow]:
        """Give the jobs of all pages, each once."""
        seen: set[int] = set()
        number, total = 0, None
        while total is None or len(seen) < total:
            number += 1
            page = await self._page_of_jobs(number)
            total = page.job_total_count
            rows = {row.job_id: row for row in page.jobs or () if row.job_id not in seen}
            # A page that brings nothing new comes from a service that does not page: it would come for ever.
            if not rows:
                return
            for row in rows.values():
                seen.add(row.job_id)
                yield row

    async def _page_of_jobs(self, number: int) -> JobPage:
        params = (
            ("sortBy", "create_time"), ("order", "desc"), ("per_page", str(_PAGE_SIZE)), ("page", str(number)),
            *self._workspace,
        )  # fmt: skip
        return decode_json((await self._get(LIST_JOBS, "", params)).body, JobPage)

    async def _versions(self, row: JobRow, search: JobSearch) -> list[_Listed]:
        """Give the matching versions of a job; none where it was deleted meanwhile."""
        found: dict[int, _Listed] = {}
        number, total = 0, None
        while total is None or len(found) < total:
            number += 1
            params = (("per_page", str(_PAGE_SIZE)), ("page", str(number)))
            try:
                response = await self._get(LIST_VERSIONS, f"/{row.job_id}/versions", params)
            except NotFoundError:
                break
            page = decode_json(response.body, VersionPage)
            total = page.version_count
            versions = [version for version in page.versions or () if version.version_id not in found]
            if not versions:
                break
            for version in versions:
                name = version.job_name or page.job_name or row.job_name or ""
                job = _job(f"{row.job_id}/{version.version_id}", version, response.received_ms, name=name)
                found[version.version_id] = attrs.evolve(job, partial=True), version.worker_server_num or 1
        return [listed for listed in found.values() if _matches(listed[0], search)]

    async def job_totals(self, search: JobSearch, /) -> Sequence[JobTotals]:
        """Count the versions that match, and the devices of all their pods."""
        counts: dict[tuple[JobStatus, str], Counter[str]] = {}
        async with aclosing(self._listed(search)) as jobs:
            async for job, pods in jobs:
                count = counts.setdefault((job.status, job.vendor_status), Counter())
                count["jobs"] += 1
                if job.accelerators is not None:
                    count[job.accelerators.kind] += job.accelerators.count * pods
        return [
            JobTotals(status=status, vendor_status=word, jobs=count["jobs"], gpus=count["gpu"], npus=count["npu"])
            for (status, word), count in counts.items()
        ]

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        """Give one call for each pod; for a job as a whole, or one whose pods are not served, the one for its means.

        Every call asks for all metrics: whether a zero is a value can only be told from all of them.
        """
        passed = vendor_metric(self._provider, "")
        served = SERVES[query.per]
        known = served if query.per == "device" else V1_KNOWN
        asked = served if query.metrics is None else [m for m in query.metrics if m in known or m.startswith(passed)]
        if not asked:
            return ()
        whole = query.per == "job" or (query.per == "task" and not job.tasks and query.tasks is None)
        tasks = [""] if whole else [task.id for task in query.selected(job.tasks)]
        gpus = job.accelerators.count if job.accelerators is not None and job.accelerators.kind == "gpu" else 0
        anchoring = Anchoring.of(job, self._anchor, everything=query.metrics is None)
        payload = Reading(anchoring, "job" if whole else query.per, gpus)
        return [
            Call(
                operation=SHOW_VERSION if whole else SHOW_POD, targets=((job.id, task),), metrics=tuple(asked),
                window=query.window, step_ms=MINUTE_MS, retention_ms=RETENTION_MS, payload=payload,
            )
            for task in tasks
        ]  # fmt: skip

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Read one pod's metrics, or a version's own means; nothing where there are none yet."""
        job_id, pod = call.targets[0]
        reading, path = call.payload, _path(job_id)
        assert isinstance(reading, Reading)
        if reading.per == "job":
            response = await self._get(SHOW_VERSION, path)
        else:
            kind = "each" if reading.per == "device" else "all"
            try:
                response = await self._get(SHOW_POD, _pod_path(path, pod), (("statistic_type", kind),))
            except NotFoundError as error:
                error.args = (f"{error.message}; where pods are not served, set pod_metrics to 'probe' or 'no'",)
                raise
        return await response.decoded(_series, call, reading, response.received_ms, self._dialect)

    async def evaluations(self, job_id: str, /) -> Sequence[Evaluation]:
        """Give what ``model_metric_list`` says: an object, or text that holds one.

        Raises:
            ProviderError: ``NotFoundError`` where there is no such job or version.
        """
        return evaluations_of(member_of((await self._get(SHOW_VERSION, _path(job_id))).body, "model_metric_list"))


def _series(body: bytes, call: Call, reading: Reading, received_ms: int, dialect: Dialect) -> SeriesBatch:
    arrays = decode_job(body) if reading.per == "job" else decode_pod(body) if body else None
    return SeriesBatch.empty() if arrays is None else to_batch(arrays, call, received_ms, dialect=dialect)


def _path(job_id: str) -> str:
    if not _ID.fullmatch(job_id):
        raise InvalidRequestError(
            f"{job_id!r} is no job of this API: write job_id/version_id, two numbers such as 10/10 "
            "(in a reference: source/10/10)"
        )
    job, _, version = job_id.partition("/")
    return f"/{job}/versions/{version}"


def _pod_path(path: str, pod: str) -> str:
    return f"{path}/pod/{path_segment(pod, 'pod name')}/metric-statistic"


def _job(job_id: str, version: Version, described_ms: int, *, name: str = "") -> Job:
    status = status_of(version.status)
    life = Life.of(status, version.start_time, version.duration, described_ms)
    return Job(
        id=job_id,
        name=" ".join([word for word in (version.job_name or name, version.version_name) if word]),
        status=status,
        vendor_status=word_of(version.status),
        create_time_ms=version.create_time,
        start_time_ms=life.start_ms,
        end_time_ms=life.end_ms,
        accelerators=accelerators_of(version),
        payload=life.progress,
    )


def _created(listed: _Listed) -> int:
    return listed[0].create_time_ms or 0


def _may_match(row: JobRow, search: JobSearch) -> bool:
    """Tell whether a version of a job may match; a job of one version is that version."""
    if row.version_count != 1 or row.status is None or search.status is None:
        return True
    return status_of(row.status) in search.status


def _matches(job: Job, search: JobSearch) -> bool:
    """Tell whether a version matches; the service's own filters know a job by its newest version only."""
    if search.status is not None and job.status not in search.status:
        return False
    if search.name is not None and search.name not in job.name:
        return False
    created = job.create_time_ms
    return search.created is None or (created is not None and created in search.created)
