"""The provider ``modelarts``: training jobs through ModelArts' API v2.

The service gives one task's metrics in one answer: one value a minute since the job began, without times, window or
paging. So a query is one call for each task, and the times are inferred: value ``i`` stands for minute ``i`` of the
job, counted from the calendar minute in which it started. (The documents name no anchor; a recorded job of the same
service has exactly one value for each calendar minute that it touched.)
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Self, TypeVar

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
    Shape,
    Statistic,
    Task,
    Timing,
    decode_all_number_arrays,
    decode_json,
    path_segment,
    regular_times,
    vendor_metric,
)
from metricsbridge_modelarts._catalog import V2, Entry
from metricsbridge_modelarts._projects import project_of
from metricsbridge_modelarts._time_axis import MINUTE_MS, RETENTION_MS, Anchoring, Life
from metricsbridge_modelarts._wire import JobPage, TrainingJob

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from metricsbridge.provider_kit import JobSearch, Level, Query, Response, Transport
    from metricsbridge_modelarts._settings import Anchor, ModelArtsSettings

T = TypeVar("T")

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

    async def send(self, call: Call, /) -> Response:
        """Ask for one task's metrics."""
        job, task = call.targets[0]
        url = f"{self._url}/training-jobs/{path_segment(job, 'job id')}/metrics/{path_segment(task, 'task id')}"
        return await self._transport.send(Request("GET", url, headers=self._headers, operation=SHOW_METRICS))

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Read one task's metrics."""
        response = await self.send(call)
        return await response.decoded(lambda body: to_batch([(body, call, response.received_ms)]))

    def decode(self, answers: Sequence[tuple[Call, Response]], /) -> SeriesBatch:
        """Give what several tasks' answers say, but no series without any value."""
        return to_batch([(response.body, call, response.received_ms) for call, response in answers], empty=False)


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


def to_batch(answers: Iterable[tuple[bytes, Call, int]], /, *, empty: bool = True) -> SeriesBatch:
    """Give answers as canonical series with inferred times; metrics outside the catalog pass through.

    Args:
        answers: Bodies, each with its call and when it was received, ms since the epoch. 204 and an empty body say that
            there are no metrics yet.
        empty: Whether to give series without any value: those of devices that the node has not got.

    Raises:
        DecodeError: An answer is not as documented.
    """
    answers = [answer for answer in answers if answer[0]]
    arrays = decode_all_number_arrays([body for body, _, _ in answers], _SCHEMA, empty=empty)
    keys, parts, counts = list[SeriesKey](), list[_Part](), list[int]()
    part = None
    for (_, call, received_ms), shape in zip(answers, arrays.shapes, strict=True):
        if part is None or not part.holds_for(shape, call.payload, received_ms):
            part = _Part.of(shape, call.payload, received_ms)
            parts.append(part)
            counts.append(0)
        counts[-1] += 1
        keys += SeriesKey.each(*call.targets[0], "", part.layout.metrics)

    def column(of: Callable[[_Part], tuple[T, ...]]) -> tuple[T, ...]:
        return tuple(chain.from_iterable([of(part) * count for part, count in zip(parts, counts, strict=True)]))

    divide = column(attrgetter("layout.divide"))
    values = arrays.values
    np.divide(values, divide[0] if len(set(divide)) == 1 else np.repeat(divide, arrays.lengths), out=values)
    batch = SeriesBatch(
        keys=tuple(keys),
        unit=column(attrgetter("layout.units")),
        interval_ms=(MINUTE_MS,) * len(keys),
        timing=(Timing.INFERRED,) * len(keys),
        time_error_ms=column(attrgetter("error_ms")),
        statistic=(Statistic.MEAN,) * len(keys),
        offsets=arrays.offsets,
        times=regular_times(arrays.lengths, column(attrgetter("first_ms")), MINUTE_MS),
        values=values,
    )
    if not parts or parts[0].anchoring.everything:
        return batch
    wanted = answers[0][1].metrics  # all calls of a plan ask for the same
    return batch.select([index for index, key in enumerate(keys) if key.metric in wanted])


@attrs.frozen
class _Layout:
    """What the series of an answer are by their names: the same for every task, so it is made once."""

    metrics: tuple[str, ...]
    units: tuple[str, ...]
    divide: tuple[float, ...]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, names: tuple[str, ...], /) -> Self:
        entries = [V2.get(name) or Entry(vendor_metric("modelarts", name), "", 1.0) for name in names]
        return cls(
            tuple([entry.metric for entry in entries]),
            tuple([entry.unit for entry in entries]),
            tuple([entry.divide for entry in entries]),
        )


@attrs.frozen
class _Part:
    """What is said of an answer beside its values: mostly the same of the next one."""

    shape: Shape
    anchoring: Anchoring
    received_ms: int
    layout: _Layout
    first_ms: tuple[int, ...]
    error_ms: tuple[int, ...]

    @classmethod
    def of(cls, shape: Shape, anchoring: object, received_ms: int, /) -> Self:
        names, lengths = shape
        assert isinstance(anchoring, Anchoring)
        return cls(shape, anchoring, received_ms, _Layout.of(names), *anchoring.first_times(lengths, received_ms))

    def holds_for(self, shape: Shape, anchoring: object, received_ms: int, /) -> bool:
        return self.shape is shape and self.anchoring is anchoring and self.received_ms == received_ms


def _accelerators(item: TrainingJob) -> Accelerators | None:
    resource = item.spec.resource if item.spec is not None else None
    flavor = resource.flavor_detail if resource is not None else None
    info = flavor.flavor_info if flavor is not None else None
    for kind, device in (("gpu", info.gpu), ("npu", info.npu)) if info is not None else ():
        if device is not None and device.unit_num:
            return Accelerators(kind=kind, count=device.unit_num, model=device.product_name or "")
    return None
