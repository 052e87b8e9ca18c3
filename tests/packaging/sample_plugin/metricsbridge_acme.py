"""Training jobs of Acme, for metricsbridge."""

import attrs

from metricsbridge import provider_kit as kit

METRICS = {"cpu_percent": "container.cpu.utilization", "memory_percent": "container.memory.utilization"}
STATES = {
    "queued": kit.JobStatus.PENDING, "running": kit.JobStatus.RUNNING, "done": kit.JobStatus.SUCCEEDED,
    "failed": kit.JobStatus.FAILED, "stopped": kit.JobStatus.STOPPED,
}  # fmt: skip
SAMPLES = kit.SampleLists(series="series", name="metric", samples="samples", time="time_ms", value="value")


@attrs.frozen(kw_only=True)
class Settings:
    endpoint: str = attrs.field(converter=lambda url: kit.check_url("endpoint", url))


@attrs.frozen
class JobAnswer:
    id: str
    state: str
    tasks: tuple[str, ...]
    started_ms: int | None = None
    ended_ms: int | None = None


class Acme:
    def __init__(self, transport, settings):
        self._transport, self._url = transport, f"{settings.endpoint}/jobs"

    async def get_job(self, job_id, /):
        url = f"{self._url}/{kit.path_segment(job_id, 'job id')}"
        response = await self._transport.send(kit.Request("GET", url, operation="ShowJob"))
        found = kit.decode_json(response.body, JobAnswer)
        return kit.Job(
            id=found.id, status=STATES.get(found.state, kit.JobStatus.UNKNOWN), vendor_status=found.state,
            start_time_ms=found.started_ms, end_time_ms=found.ended_ms,
            tasks=tuple([kit.Task(id=name) for name in found.tasks]),
        )  # fmt: skip

    def plan(self, job, query, /):
        asked = tuple([m for m in METRICS.values() if query.metrics is None or m in query.metrics])
        tasks = [task.id for task in job.tasks if query.selects(task)] if asked and query.per == "task" else []
        return [
            kit.Call(operation="ShowMetrics", targets=((job.id, task),), metrics=asked, window=query.window)
            for task in tasks
        ]

    async def fetch(self, call, /):
        (job, task), window = call.targets[0], call.window
        url = f"{self._url}/{kit.path_segment(job, 'job id')}/tasks/{kit.path_segment(task, 'task id')}/metrics"
        params = (("from_ms", str(window.start_ms)), ("until_ms", str(window.end_ms)))
        response = await self._transport.send(kit.Request("GET", url, params, operation="ShowMetrics"))
        found = kit.decode_sample_lists(response.body, SAMPLES)
        names = [METRICS.get(name, "") for name in found.names]
        batch = kit.SeriesBatch(
            keys=tuple([kit.SeriesKey(job, task, "", name) for name in names]), unit=("1",) * len(names),
            interval_ms=(60_000,) * len(names), timing=(kit.Timing.REPORTED,) * len(names),
            time_error_ms=(0,) * len(names), statistic=(kit.Statistic.MEAN,) * len(names),
            offsets=found.offsets, times=found.times, values=found.values / 100,
        )  # fmt: skip
        return batch.select([index for index, name in enumerate(names) if name in call.metrics])


async def connect(settings, transport):
    return Acme(transport, settings)


SPEC = kit.ProviderSpec(
    settings=Settings, connect=connect, provider=Acme, description="Acme training jobs",
    serves={"task": tuple(METRICS.values())},
)  # fmt: skip
