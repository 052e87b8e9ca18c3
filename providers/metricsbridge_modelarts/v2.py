"""The provider ``modelarts``: training jobs through ModelArts' API v2.

The service gives one task's metrics in one answer: one value a minute since the job began, without times, window or
paging. So a query is one call for each task, and the times are inferred: value ``i`` stands for minute ``i`` of the
job, counted from the calendar minute in which it started. (The documents name no anchor; a recorded job of the same
service has exactly one value for each calendar minute that it touched.)
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from metricsbridge.provider_kit import (
    Accelerators,
    Call,
    Job,
    JobStatus,
    NumberArrays,
    Request,
    SeriesBatch,
    SeriesKey,
    Statistic,
    Task,
    Timing,
    decode_json,
    decode_number_arrays,
    path_segment,
    regular_times,
    vendor_metric,
)
from metricsbridge_modelarts._catalog import V2, Entry
from metricsbridge_modelarts._projects import project_of
from metricsbridge_modelarts._time_axis import MINUTE_MS, RETENTION_MS, Anchoring, Life
from metricsbridge_modelarts._wire import JobPage, TrainingJob

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from metricsbridge.provider_kit import JobSearch, Level, Query, Transport
    from metricsbridge_modelarts._settings import Anchor, ModelArtsSettings

SHOW_METRICS: Final = "ShowTrainingJobMetrics"
SHOW_JOB: Final = "ShowTrainingJobDetails"
LIST_JOBS: Final = "ListTrainingJobs"
OPERATIONS: Final = (SHOW_METRICS, SHOW_JOB, LIST_JOBS)

SERVES: Final[Mapping[Level, tuple[str, ...]]] = {"task": tuple([entry.metric for entry in V2.values()])}

_PAGE_SIZE: Final = 50

_SCHEMA: Final = NumberArrays(series="metrics", name="metric", values="value", missing=-1.0)

PHASES: Final[Mapping[str, JobStatus]] = {
    "Creating": JobStatus.PENDING,
    "Pending": JobStatus.PENDING,
    "Running": JobStatus.RUNNING,
    "Terminating": JobStatus.STOPPING,
    "Completed": JobStatus.SUCCEEDED,
    "Failed": JobStatus.FAILED,
    "Abnormal": JobStatus.FAILED,
    "Terminated": JobStatus.STOPPED,
}
"""The vendor's ``status.phase`` to ours; anything else is unknown."""


async def connect(settings: ModelArtsSettings, transport: Transport) -> ModelArts:
    """Make the provider; where no project id is given, IAM is asked for the project named as the region.

    Raises:
        ConfigurationError: There is not exactly one such project, or no endpoint is known.
    """
    url = settings.service_url()
    return ModelArts(transport, url, await project_of(settings, transport), settings.anchor)


class ModelArts:
    """Training jobs of one project."""

    def __init__(self, transport: Transport, url: str, project_id: str, anchor: Anchor) -> None:
        self._transport = transport
        self._url = f"{url}/v2/{path_segment(project_id, 'project id')}"
        self._headers = {"X-Project-Id": project_id}
        self._anchor = anchor

    async def get_job(self, job_id: str, /) -> Job:
        """Describe a job.

        Raises:
            ProviderError: ``NotFoundError`` where there is no such job.
        """
        url = f"{self._url}/training-jobs/{path_segment(job_id, 'job id')}"
        response = await self._transport.send(Request("GET", url, headers=self._headers, operation=SHOW_JOB))
        return _job(decode_json(response.body, TrainingJob), response.received_ms)

    async def list_jobs(self, search: JobSearch, /) -> AsyncIterator[Job]:
        """Give the jobs that match, the newest first. The vendor's ``offset`` is a page number."""
        given = 0
        seen: set[str] = set()
        page_number = 0
        while True:
            page, now_ms = await self._search(search, page_number)
            items = page.items or ()
            new = False
            for item in items:
                job = _job(item, now_ms)
                # A job created between two pages moves others to the next one, where they come again.
                if job.id in seen:
                    continue
                new = True
                seen.add(job.id)
                if search.status is not None and job.status not in search.status:
                    continue
                yield job
                given += 1
                if given == search.limit:
                    return
            page_number += 1
            # A page that brings nothing new comes from a service that does not page: it would come for ever.
            if not new or (page.count is not None and len(seen) >= page.count):
                return

    async def _search(self, search: JobSearch, page_number: int) -> tuple[JobPage, int]:
        filters = []
        if search.name is not None:
            filters.append({"key": "name", "operator": "like", "value": [search.name]})
        if search.created is not None:
            times = [str(search.created.start_ms), str(search.created.end_ms - 1)]
            filters.append({"key": "create_time", "operator": "between", "value": times})
        phases = [phase for phase, status in PHASES.items() if search.status is not None and status in search.status]
        if phases and JobStatus.UNKNOWN not in (search.status or ()):
            filters.append({"key": "phase", "operator": "in", "value": phases})
        body = {
            "offset": page_number, "limit": _PAGE_SIZE, "sort_by": "create_time", "order": "desc", "filters": filters,
        }  # fmt: skip
        headers = {**self._headers, "Content-Type": "application/json"}
        request = Request(
            "POST", f"{self._url}/training-job-searches", headers=headers, body=json.dumps(body).encode(),
            operation=LIST_JOBS,
        )  # fmt: skip
        response = await self._transport.send(request)
        return decode_json(response.body, JobPage), response.received_ms

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        """Give one call for each task: the answer holds every metric, and only tasks have metrics."""
        if query.per != "task":
            return ()
        served = SERVES["task"]
        passed = vendor_metric("modelarts", "")
        asked = served if query.metrics is None else [m for m in query.metrics if m in served or m.startswith(passed)]
        if not asked:
            return ()
        payload = Anchoring.of(job, self._anchor, everything=query.metrics is None)
        return [
            Call(
                operation=SHOW_METRICS, targets=((job.id, task.id),), metrics=tuple(asked), window=query.window,
                step_ms=MINUTE_MS, retention_ms=RETENTION_MS, payload=payload,
            )
            for task in query.selected(job.tasks)
        ]  # fmt: skip

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Read one task's metrics; 204 or an empty body says that there are none yet."""
        job, task = call.targets[0]
        url = f"{self._url}/training-jobs/{path_segment(job, 'job id')}/metrics/{path_segment(task, 'task id')}"
        response = await self._transport.send(Request("GET", url, headers=self._headers, operation=SHOW_METRICS))
        if not response.body:
            return SeriesBatch.empty()
        return await response.decoded(to_batch, call, response.received_ms)


def _job(item: TrainingJob, described_ms: int) -> Job:
    status = PHASES.get(item.status.phase, JobStatus.UNKNOWN)
    life = Life.of(status, item.status.start_time, item.status.duration, described_ms)
    return Job(
        id=item.metadata.id,
        name=item.metadata.name,
        status=status,
        vendor_status=item.status.phase,
        create_time_ms=item.metadata.create_time,
        start_time_ms=life.start_ms,
        end_time_ms=life.end_ms,
        accelerators=_accelerators(item),
        tasks=tuple([Task(id=name) for name in item.status.tasks or ()]),
        payload=life.progress,
    )


def to_batch(body: bytes, call: Call, received_ms: int, /) -> SeriesBatch:
    """Give an answer as canonical series with inferred times; metrics outside the catalog pass through.

    Raises:
        DecodeError: The answer is not as documented.
    """
    arrays = decode_number_arrays(body, _SCHEMA)
    job, task = call.targets[0]
    anchoring = call.payload
    assert isinstance(anchoring, Anchoring)
    layout = _layout(arrays.names)
    firsts, errors = anchoring.first_times(arrays.lengths, received_ms)
    values = arrays.values
    np.divide(values, layout.divide[0] if layout.even else np.repeat(layout.divide, arrays.lengths), out=values)
    batch = SeriesBatch(
        keys=SeriesKey.each(job, task, "", layout.metrics),
        unit=layout.units,
        interval_ms=layout.interval_ms,
        timing=layout.timing,
        time_error_ms=errors,
        statistic=layout.statistic,
        offsets=arrays.offsets,
        times=regular_times(arrays.lengths, firsts, MINUTE_MS),
        values=values,
    )
    if anchoring.everything:
        return batch
    return batch.select([index for index, metric in enumerate(layout.metrics) if metric in call.metrics])


@attrs.frozen
class _Layout:
    """What the columns of an answer are, but for its numbers: the same for every task, so it is made once."""

    metrics: tuple[str, ...]
    units: tuple[str, ...]
    divide: tuple[float, ...]
    even: bool
    interval_ms: tuple[int, ...]
    timing: tuple[Timing, ...]
    statistic: tuple[Statistic, ...]


@lru_cache(maxsize=64)
def _layout(names: tuple[str, ...]) -> _Layout:
    entries = [V2.get(name) or Entry(vendor_metric("modelarts", name), "", 1.0) for name in names]
    divide = tuple([entry.divide for entry in entries])
    return _Layout(
        metrics=tuple([entry.metric for entry in entries]),
        units=tuple([entry.unit for entry in entries]),
        divide=divide,
        even=len(set(divide)) == 1,
        interval_ms=(MINUTE_MS,) * len(names),
        timing=(Timing.INFERRED,) * len(names),
        statistic=(Statistic.MEAN,) * len(names),
    )


def _accelerators(item: TrainingJob) -> Accelerators | None:
    resource = item.spec.resource if item.spec is not None else None
    flavor = resource.flavor_detail if resource is not None else None
    info = flavor.flavor_info if flavor is not None else None
    for kind, device in (("gpu", info.gpu), ("npu", info.npu)) if info is not None else ():
        if device is not None and device.unit_num:
            return Accelerators(kind=kind, count=device.unit_num, model=device.product_name or "")
    return None
