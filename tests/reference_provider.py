"""A small, right provider for a service that does not exist: what the contract's own tests break on purpose."""

# Annotations are read at run time here, to decode answers and check settings.

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from metricsbridge.provider_kit import (
    Accelerators,
    Call,
    Credential,
    Job,
    JobSearch,
    JobStatus,
    JobTotals,
    Level,
    ProviderError,
    ProviderSpec,
    Query,
    Rate,
    Request,
    Response,
    Secret,
    SeriesBatch,
    SeriesKey,
    Statistic,
    Task,
    Timing,
    Transport,
    Window,
    check_url,
    classify_by_status,
    decode_json,
    path_segment,
    sort_samples,
)

STEP_MS: Final = 60_000
MOST_POINTS: Final = 30
"""So many points the service gives in one answer, for each series."""

PAGE_SIZE: Final = 20
SENTINEL: Final = -1.0
STATES: Final[Mapping[str, JobStatus]] = {
    "QUEUED": JobStatus.PENDING,
    "ACTIVE": JobStatus.RUNNING,
    "DONE": JobStatus.SUCCEEDED,
    "BROKEN": JobStatus.FAILED,
    "HALTED": JobStatus.STOPPED,
}


@attrs.frozen
class Entry:
    """One of the service's metrics: its name there, and what its numbers are multiplied and divided by."""

    name: str
    multiply: float = 1.0
    divide: float = 1.0
    unit: str = "1"


CATALOG: Final[Mapping[str, Entry]] = {
    "container.cpu.utilization": Entry("cpu_percent", divide=100.0),
    "hw.gpu.utilization": Entry("gpu_percent", divide=100.0),
    "hw.npu.utilization": Entry("npu_percent", divide=100.0),
    "container.network.receive.rate": Entry("net_rx_kib", multiply=1024.0, unit="By/s"),
}
SERVES: Final[Mapping[Level, tuple[str, ...]]] = {
    "task": tuple(CATALOG),
    "device": ("hw.gpu.utilization", "hw.npu.utilization"),
    "job": ("container.cpu.utilization",),
}


@attrs.frozen(kw_only=True)
class Settings:
    """Where the service is, and who asks."""

    endpoint: str = attrs.field(converter=lambda url: check_url("endpoint", url))
    token: Secret


@attrs.frozen(repr=False)
class Token(Credential):
    text: Secret = attrs.field(kw_only=True)


@attrs.frozen
class Bearer:
    """Signs with the token from the settings."""

    token: Secret
    account: str = "account"

    async def obtain(self, transport: Transport, now_ms: int, /) -> Credential:
        return Token(text=self.token)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        assert isinstance(credential, Token)
        return attrs.evolve(request, headers={**request.headers, "Authorization": f"Bearer {credential.text.reveal()}"})

    def rejected(self, response: Response, /) -> bool:
        return response.status == 401


@attrs.frozen
class Devices:
    kind: str
    count: int


def _in_range(_: object, attribute: object, value: int | None) -> None:
    if value is not None and abs(value) > 2**60:
        raise ValueError("no time")


@attrs.frozen
class JobItem:
    id: str
    name: str
    state: str
    workers: tuple[str, ...]
    created_ms: int = attrs.field(validator=_in_range)
    started_ms: int | None = attrs.field(default=None, validator=_in_range)
    ended_ms: int | None = attrs.field(default=None, validator=_in_range)
    devices: Devices | None = None


@attrs.frozen
class JobPage:
    total: int
    jobs: tuple[JobItem, ...]


@attrs.frozen
class Point:
    t: int = attrs.field(validator=_in_range)
    v: float


@attrs.frozen
class SeriesItem:
    points: tuple[Point, ...]
    worker: str = ""
    device: int | None = None


@attrs.frozen
class Answer:
    interval: int
    series: tuple[SeriesItem, ...]


@attrs.frozen(kw_only=True)
class Ask:
    """What a call asks of the service: its payload."""

    name: str
    level: Level


class Reference:
    """The jobs of one account."""

    def __init__(self, transport: Transport, settings: Settings) -> None:
        self._transport = transport
        self._url = f"{settings.endpoint}/v1/jobs"

    async def get_job(self, job_id: str, /) -> Job:
        url = f"{self._url}/{path_segment(job_id, 'job id')}"
        response = await self._transport.send(Request("GET", url, operation="ShowJob"))
        return self.to_job(decode_json(response.body, JobItem))

    def to_job(self, item: JobItem) -> Job:
        devices = item.devices
        return Job(
            id=item.id, name=item.name, status=STATES.get(item.state, JobStatus.UNKNOWN), vendor_status=item.state,
            create_time_ms=item.created_ms, start_time_ms=item.started_ms, end_time_ms=item.ended_ms,
            accelerators=None if devices is None else Accelerators(kind=devices.kind, count=devices.count),
            tasks=tuple([Task(id=worker) for worker in item.workers]),
        )  # fmt: skip

    async def list_jobs(self, search: JobSearch, /) -> AsyncIterator[Job]:
        seen: set[str] = set()
        given = 0
        page_number = 1
        while True:
            page = await self.page(search, page_number)
            new = [item for item in page.jobs if item.id not in seen]
            seen.update([item.id for item in page.jobs])
            for job in [self.to_job(item) for item in new]:
                if self.matches(job, search):
                    yield job
                    given += 1
                    if given == search.limit:
                        return
            if not new or len(seen) >= page.total:
                return
            page_number += 1

    async def page(self, search: JobSearch, number: int) -> JobPage:
        params = [("page", str(number)), ("size", str(PAGE_SIZE)), ("order", "newest")]
        if search.created is not None:  # the service's "until" belongs to what it gives
            params += [("since", str(search.created.start_ms)), ("until", str(search.created.end_ms))]
        response = await self._transport.send(Request("GET", self._url, tuple(params), operation="ListJobs"))
        return decode_json(response.body, JobPage)

    def matches(self, job: Job, search: JobSearch) -> bool:
        return (
            (search.status is None or job.status in search.status)
            and (search.name is None or search.name in job.name)
            and (search.created is None or (job.create_time_ms or 0) in search.created)
        )

    async def job_totals(self, search: JobSearch, /) -> Sequence[JobTotals]:
        counts: dict[tuple[JobStatus, str], int] = {}
        async for job in self.list_jobs(search):
            counts[job.status, job.vendor_status] = counts.get((job.status, job.vendor_status), 0) + 1
        return [JobTotals(status=s, vendor_status=word, jobs=n, gpus=0, npus=0) for (s, word), n in counts.items()]

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        tasks = [""] if query.per == "job" else [task.id for task in job.tasks if query.selects(task)]
        targets = tuple([(job.id, task) for task in tasks])
        metrics = [m for m in SERVES.get(query.per, ()) if query.metrics is None or m in query.metrics]
        return [
            Call(
                operation="ShowMetric", targets=targets, metrics=(metric,), window=window, step_ms=STEP_MS,
                payload=Ask(name=CATALOG[metric].name, level=query.per),
            )
            for metric in metrics if targets
            for window in self.windows(query.window)
        ]  # fmt: skip

    def windows(self, window: Window) -> Iterator[Window]:
        """Split where the service's limit of points in one answer is reached, on whole steps."""
        start = window.start_ms
        while start < window.end_ms:
            end = min(window.end_ms, start // STEP_MS * STEP_MS + (MOST_POINTS - 1) * STEP_MS)
            yield Window(start, end)
            start = end

    def bounds(self, window: Window) -> tuple[int, int]:
        """Give the service's first and last second: it stamps the ends of minutes, and both belong to its answer."""
        first = -(-window.start_ms // STEP_MS) * STEP_MS
        last = (window.end_ms - 1) // STEP_MS * STEP_MS
        return (first + STEP_MS) // 1000, (last + STEP_MS) // 1000

    async def fetch(self, call: Call, /) -> SeriesBatch:
        first, last = self.bounds(call.window)
        if last < first:
            return SeriesBatch.empty()
        response = await self._transport.send(self.request(call))
        return self.to_batch(decode_json(response.body, Answer), call)

    def request(self, call: Call) -> Request:
        ask = call.payload
        assert isinstance(ask, Ask)
        first, last = self.bounds(call.window)
        params = [("from", str(first)), ("to", str(last)), ("of", ask.level)]
        if ask.level != "job":
            params.append(("workers", ",".join(task for _, task in call.targets)))
        url = f"{self._url}/{path_segment(call.targets[0][0], 'job id')}/metrics/{ask.name}"
        return Request("GET", url, tuple(params), operation="ShowMetric")

    def to_batch(self, answer: Answer, call: Call) -> SeriesBatch:
        metric, entry = call.metrics[0], CATALOG[call.metrics[0]]
        keys, parts = [], []
        for item in answer.series:
            if (call.targets[0][0], item.worker) in call.targets:
                device = "" if item.device is None else str(item.device)
                keys.append(SeriesKey(call.targets[0][0], item.worker, device, metric))
                parts.append(self.samples(item, entry))
        count = len(keys)
        return SeriesBatch(
            keys=tuple(keys), unit=(entry.unit,) * count, interval_ms=(STEP_MS,) * count,
            timing=(Timing.REPORTED,) * count, time_error_ms=(0,) * count, statistic=(Statistic.MEAN,) * count,
            offsets=np.cumsum([0, *[len(times) for times, _ in parts]], dtype=np.int64),
            times=np.concatenate([np.empty(0, np.int64), *[times for times, _ in parts]]),
            values=np.concatenate([np.empty(0), *[values for _, values in parts]]),
        )  # fmt: skip

    def samples(self, item: SeriesItem, entry: Entry) -> tuple[np.ndarray, np.ndarray]:
        times = np.array([point.t for point in item.points], np.int64) * 1000 - STEP_MS
        values = np.array([point.v for point in item.points], np.float64)
        values[values == SENTINEL] = np.nan
        return sort_samples(times, values * entry.multiply / entry.divide)


async def connect(settings: Settings, transport: Transport) -> Reference:
    return Reference(transport, settings)


def classify(response: Response) -> ProviderError | None:
    return classify_by_status(response)


REFERENCE: Final = ProviderSpec(
    settings=Settings,
    connect=connect,
    authenticator=lambda settings: Bearer(settings.token),
    limits={"ShowMetric": Rate(50.0)},
    classify=classify,
    description="a service that does not exist",
    provider=Reference,
    serves=SERVES,
    timing=Timing.REPORTED,
)
