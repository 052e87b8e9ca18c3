"""The provider ``pai-dlc``: training jobs of Alibaba Cloud PAI-DLC.

Two APIs have the metrics of jobs: ``GetJobMetrics`` those of pay-as-you-go jobs on general computing resources,
CloudMonitor those of all others. Which one it is, is settled when a job is described.

``GetJobMetrics`` gives one metric of all pods in one answer, with times that are on no grid. An answer without points
says that there are none, or that the job is one of the others; never that something was 0.

A started job that does not name its pods is asked about as a whole. Every pod that an answer names is then a task, and
is delivered; the job itself, which stands for the tasks that nobody knew of before, is reported as absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import (
    Call,
    InvalidRequestError,
    JobTotals,
    NotFoundError,
    PermissionDeniedError,
    Request,
    SampleLists,
    SeriesBatch,
    SeriesKey,
    decode_json,
    decode_sample_lists,
    parse_duration,
    path_segment,
)
from metricsbridge_pai._catalog import JOB_METRICS, PERCENT, Conversion
from metricsbridge_pai._columns import is_wanted, to_batch
from metricsbridge_pai._datapoints import Reading
from metricsbridge_pai._jobs import STATUSES, Facts, instant, is_last, to_job, units_of
from metricsbridge_pai._operations import GET_JOB, GET_JOB_METRICS, LIST_JOBS
from metricsbridge_pai._windows import MOST_STEPS, TIME_STEPS, iso, shifted, split, time_step, whole_steps, within
from metricsbridge_pai._wire import DlcJob, JobPage
from metricsbridge_pai.cloudmonitor import CloudMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from metricsbridge.provider_kit import Job, JobSearch, JobStatus, Query, Response, Transport
    from metricsbridge_pai._jobs import Route
    from metricsbridge_pai._settings import PaiSettings

_PAGE_SIZE: Final = 100
"""The largest page of ``ListJobs`` is not documented."""

_SINCE_MS: Final = 1_577_836_800_000
"""2020-01-01: no job is older than the API. Without a start the service lists those of the last seven days."""

_PROBE_MS: Final = 3_600_000
_PROBE_STEP_MS: Final = 300_000
"""The documented default of ``TimeStep``: no service refuses it."""

_SCHEMA: Final = SampleLists(series="PodMetrics", name="PodId", samples="Metrics", time="Time", value="Value")


@attrs.frozen(kw_only=True)
class PodReading:
    """What one call asks of ``GetJobMetrics``: its payload.

    Attributes:
        type: The ``MetricType``.
        step_ms: From one point to the next.
        conversion: To the metric's unit.
        units: Task to what its values are divided by besides, where 100 % is one unit of several; "" is every other.
        only: Where the job does not name its pods, the ids that are wanted; None for all.
        aliases: Id of an earlier incarnation of a pod to the task that it belongs to.
        shift_ms: What is taken from each time, so that it names the start of its interval.
    """

    type: str
    step_ms: int
    conversion: Conversion
    units: tuple[tuple[str, float], ...] = ()
    only: tuple[str, ...] | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    shift_ms: int = 0


async def connect(settings: PaiSettings, transport: Transport) -> PaiDlc:
    """Make the provider; CloudMonitor is asked which metrics it has.

    Raises:
        ConfigurationError: No endpoint is known, or ``cloudmonitor_metrics`` names what can't be read.
    """
    settings.service_url()
    return PaiDlc(transport, settings, await CloudMonitor.connect(settings, transport))


class PaiDlc:
    """Training jobs of one account and region."""

    def __init__(self, transport: Transport, settings: PaiSettings, cloudmonitor: CloudMonitor) -> None:
        self._transport = transport
        self._settings = settings
        self._cloudmonitor = cloudmonitor
        self._url = f"{settings.service_url()}/api/v1/jobs"
        within_ = settings.created_within
        self._within_ms = None if within_ is None else parse_duration(within_)

    async def get_job(self, job_id: str, /) -> Job:
        """Describe a job; where its fields leave open which API has its metrics, ``GetJobMetrics`` is tried once.

        Raises:
            ProviderError: ``NotFoundError`` where there is no such job.
        """
        url = f"{self._url}/{path_segment(job_id, 'job id')}"
        response = await self._transport.send(Request("GET", url, (("NeedDetail", "true"),), operation=GET_JOB))
        job = to_job(decode_json(response.body, DlcJob))
        facts = job.payload
        assert isinstance(facts, Facts)
        if facts.route is not None or job.start_time_ms is None:
            return job
        return attrs.evolve(job, payload=attrs.evolve(facts, route=await self._probe(job, response.received_ms)))

    async def _probe(self, job: Job, now_ms: int) -> Route:
        """Ask for the last hour of a job's CPU: who has points of it, has all of its metrics."""
        step_ms = _PROBE_STEP_MS
        last_ms = -(-(now_ms if job.end_time_ms is None else job.end_time_ms) // step_ms) * step_ms
        first_ms = min(last_ms - step_ms, max(last_ms - _PROBE_MS, (job.start_time_ms or 0) // step_ms * step_ms))
        try:
            response = await self._read(job.id, "CpuCoreUsage", first_ms, last_ms + step_ms, step_ms)
        except (InvalidRequestError, NotFoundError, PermissionDeniedError):
            return "CloudMonitor"
        return "GetJobMetrics" if sum(decode_sample_lists(response.body, _SCHEMA).lengths) else "CloudMonitor"

    async def list_jobs(self, search: JobSearch, /) -> AsyncIterator[Job]:
        """Give the jobs that match, the newest first.

        The start of the search is always sent: by itself the service leaves out jobs older than seven days.
        """
        given = 0
        seen: set[str] = set()
        page_number = 1
        while True:
            page, now_ms = await self._search(search, page_number)
            before = len(seen)
            for item in page.Jobs or ():
                # A job created between two pages moves others to the next one, where they come again.
                if item.JobId in seen:
                    continue
                seen.add(item.JobId)
                created = instant(item.GmtCreateTime, "GmtCreateTime")
                if created is not None and search.created is None and self._too_old(created, now_ms):
                    return
                job = to_job(item, listed=True)
                if not _matches(job, search):
                    continue
                yield job
                given += 1
                if given == search.limit:
                    return
            if is_last(len(seen) - before, len(page.Jobs or ()), _PAGE_SIZE, len(seen), page.TotalCount):
                return
            page_number += 1

    async def job_totals(self, search: JobSearch, /) -> Sequence[JobTotals]:
        """Count the jobs that match and the accelerators that they asked for; the items of a list tell both."""
        counts: dict[tuple[JobStatus, str], list[float]] = {}
        async for job in self.list_jobs(search):
            gpus = job.payload.requested_gpus if isinstance(job.payload, Facts) else 0.0
            counts.setdefault((job.status, job.vendor_status), []).append(gpus)
        return [
            JobTotals(status=status, vendor_status=word, jobs=len(gpus), gpus=round(sum(gpus)), npus=0)
            for (status, word), gpus in counts.items()
        ]

    def _too_old(self, created_ms: int, now_ms: int) -> bool:
        return self._within_ms is not None and created_ms < now_ms - self._within_ms

    async def _search(self, search: JobSearch, page_number: int) -> tuple[JobPage, int]:
        start_ms = _SINCE_MS if search.created is None else search.created.start_ms
        params = [
            ("PageNumber", str(page_number)), ("PageSize", str(_PAGE_SIZE)), ("SortBy", "GmtCreateTime"),
            ("Order", "desc"), ("StartTime", iso(start_ms)),
        ]  # fmt: skip
        if search.created is not None:
            params.append(("EndTime", iso(search.created.end_ms + 999)))
        if search.name is not None:
            params.append(("DisplayName", search.name))
        if self._settings.workspace_id is not None:
            params.append(("WorkspaceId", self._settings.workspace_id))
        words = [word for word, status in STATUSES.items() if search.status is not None and status in search.status]
        if len(words) == 1 and len(search.status or ()) == 1:  # the service takes one
            params.append(("Status", words[0]))
        response = await self._transport.send(Request("GET", self._url, tuple(params), operation=LIST_JOBS))
        return decode_json(response.body, JobPage), response.received_ms

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        """Give the calls of the API that has the job's metrics; only CloudMonitor has those of devices and jobs.

        A call of ``GetJobMetrics`` is one metric of all pods in a stretch of time. Where a job does not name its pods,
        the target is the job, and what is fetched are tasks.
        """
        facts = job.payload if isinstance(job.payload, Facts) else Facts()
        if facts.route == "CloudMonitor":
            return [*self._cloudmonitor.plan(job, facts, query)]
        return [*self._plan_pods(job, facts, query)] if query.per == "task" else ()

    def _plan_pods(self, job: Job, facts: Facts, query: Query) -> Iterator[Call]:
        window = within(query.window, (job.start_time_ms, job.end_time_ms))
        step_ms = time_step(query.step_ms)
        windows = split(window, step_ms, MOST_STEPS)
        waiting = job.start_time_ms is None and not job.tasks  # what would be served; nothing is asked
        known = [(task.id, task.role) for task in query.selected(job.tasks)] if job.tasks else [("", "")]
        for name, entry in JOB_METRICS.items():
            if query.metrics is not None and entry.metric not in query.metrics:
                continue
            tasks = [task for task, _ in known]
            units: tuple[tuple[str, float], ...] = ()
            if entry.share and self._settings.percent_of == "unit":
                counts = facts.cpus if entry.share == "cpu" else facts.gpus
                found = [(task, units_of(counts, role)) for task, role in known]
                units = tuple([(task, count) for task, count in found if count is not None])
                tasks = [task for task in tasks if waiting or task in dict(units)]
            reading = PodReading(
                type=name, step_ms=step_ms, units=units, only=None if job.tasks else query.tasks, aliases=facts.aliases,
                conversion=Conversion("By/s", multiply=float(self._settings.megabyte)) if entry.megabytes else PERCENT,
                shift_ms=step_ms if self._settings.time_at == "end" else 0,
            )  # fmt: skip
            if tasks:
                targets = tuple([(job.id, task) for task in tasks])
                for part in windows:
                    yield Call(
                        operation=GET_JOB_METRICS, targets=targets, metrics=(entry.metric,), window=part,
                        step_ms=step_ms, payload=reading,
                    )  # fmt: skip

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Make one call and decode its answer."""
        reading = call.payload
        if isinstance(reading, Reading):
            return await self._cloudmonitor.fetch(call, reading)
        assert isinstance(reading, PodReading)
        start_ms, end_ms = whole_steps(shifted(call.window, reading.shift_ms), reading.step_ms)
        response = await self._read(call.targets[0][0], reading.type, start_ms, end_ms, reading.step_ms)
        return await response.decoded(pods_to_batch, call, reading)

    async def _read(self, job_id: str, metric_type: str, start_ms: int, end_ms: int, step_ms: int) -> Response:
        url = f"{self._url}/{path_segment(job_id, 'job id')}/metrics"
        params = (
            ("MetricType", metric_type), ("StartTime", iso(start_ms)), ("EndTime", iso(end_ms)),
            ("TimeStep", TIME_STEPS[step_ms]),
        )  # fmt: skip
        return await self._transport.send(Request("GET", url, params, operation=GET_JOB_METRICS))


def _matches(job: Job, search: JobSearch) -> bool:
    """Tell whether a job is one that was searched for: the service matches names and times more loosely."""
    created = job.create_time_ms
    return (
        (search.status is None or job.status in search.status)
        and (search.name is None or search.name in job.name)
        and (search.created is None or (created is not None and created in search.created))
    )


def pods_to_batch(body: bytes, call: Call, reading: PodReading, /) -> SeriesBatch:
    """Give an answer's pods as series of the call's tasks; pods that it does not ask for are left out.

    Raises:
        DecodeError: The answer is not as documented.
    """
    samples = decode_sample_lists(body, _SCHEMA)
    aliases, units = dict(reading.aliases), dict(reading.units)
    tasks = {task for _, task in call.targets}
    times, values = samples.times - reading.shift_ms, reading.conversion.apply(samples.values)
    bounds = samples.offsets.tolist()
    keys, parts = [], []
    for index, pod in enumerate(samples.names):
        task = aliases.get(pod, pod)
        if is_wanted(task, tasks, reading.only):
            part = slice(bounds[index], bounds[index + 1])
            count = units.get(task, units.get(""))
            keys.append(SeriesKey(call.targets[0][0], task, "", call.metrics[0]))
            parts.append((times[part], values[part] if count is None else values[part] / count))
    return to_batch(keys, parts, unit=reading.conversion.unit, interval_ms=reading.step_ms)
