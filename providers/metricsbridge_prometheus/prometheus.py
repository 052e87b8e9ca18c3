"""The provider ``prometheus``: training jobs on Kubernetes, seen through Prometheus or anything with its API.

A query becomes one range query for each metric, for all pods of a job together, cut where the server's cap or the size
of the answer asks for it. Gauges are averaged over each step, counters become rates over several scrapes, and each
value stands at the start of the stretch that it summarises: a plain range query would repeat the last sample of a pod
that has ended for five minutes, and see of each step its last sample only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import (
    Call,
    Failure,
    InvalidRequestError,
    NotFoundError,
    PartialDataError,
    Request,
    ServiceUnavailableError,
    check_id,
    decode_labelled_lists,
    encode_query,
)
from metricsbridge_prometheus._catalog import (
    CATALOG,
    SERVED,
    SERVED_OF_DEVICES,
    SERVED_OF_JOBS,
    at_level,
    parts_of,
    unit_of,
    users_at_level,
)
from metricsbridge_prometheus._discovery import (
    RESOLUTION_MS,
    all_pods,
    endings,
    facts_of,
    in_groups,
    pods_in,
    pods_of,
    present,
    selector,
)
from metricsbridge_prometheus._errors import shown
from metricsbridge_prometheus._jobs import Doubts, Facts, facts_in, to_job
from metricsbridge_prometheus._promql import duration, fill, one_of, reads_counters, seconds, text
from metricsbridge_prometheus._ranges import MOST_PODS, SCRAPES, groups_of, instants_of, reach_of, step_of, windows_of
from metricsbridge_prometheus._series import Reading, to_batch
from metricsbridge_prometheus._settings import PASSED
from metricsbridge_prometheus._wire import MATRIX, Rows, decode_rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from metricsbridge.provider_kit import Job, JobSearch, Level, Query, Response, SeriesBatch, Transport, Window
    from metricsbridge_prometheus._discovery import Pod
    from metricsbridge_prometheus._settings import PrometheusSettings

QUERY: Final = "query"
QUERY_RANGE: Final = "query_range"

SERVES: Final[Mapping[Level, tuple[str, ...]]] = {
    "task": SERVED, "device": SERVED_OF_DEVICES, "job": SERVED_OF_JOBS,
}  # fmt: skip

_DEVICES: Final = 8
"""So many devices a pod is taken to have, where it is not known."""


async def connect(settings: PrometheusSettings, transport: Transport) -> Prometheus:
    """Make the provider; nothing is asked.

    Raises:
        ConfigurationError: ``url`` is none.
    """
    return Prometheus(transport, settings)


class Prometheus:
    """Training jobs whose pods one server knows."""

    def __init__(self, transport: Transport, settings: PrometheusSettings) -> None:
        self._transport = transport
        self._settings = settings
        self._url = settings.api_url()
        self._headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if settings.tenant is not None:
            self._headers[settings.tenant_header] = settings.tenant

    async def get_job(self, job_id: str, /) -> Job:
        """Describe the job ``namespace/name``; it may have ended, up to ``lookback`` ago.

        Raises:
            ProviderError: ``NotFoundError`` where no pod belongs to it, ``InvalidRequestError`` for another form of id.
        """
        namespace, name = _split(job_id)
        if self._settings.namespace not in (None, namespace):
            raise NotFoundError(
                f"job {job_id!r} is outside of the namespace {self._settings.namespace!r}, the only one that is read"
            )
        found = await self._ask(pods_of(self._settings, namespace, name))
        pods = pods_in(found.rows)
        own = [pod for pod in pods if pod.job == name and pod.namespace == namespace]
        if own:
            facts, warnings = await self._facts(own)
            return to_job(own, facts, tuple(dict.fromkeys(found.warnings + warnings)))
        if found.warnings:
            raise ServiceUnavailableError(
                f"no pod of job {job_id!r} is found, and the server answered in part only: {shown(found.warnings[0])}"
            )
        others = sorted({f"{pod.namespace}/{pod.job}" for pod in pods})
        advice = f"its pods belong to {', '.join(others[:5])}" if others else (
            f"no pod of it was seen in the last {self._settings.lookback}: check the name and namespace, lookback, and "
            "that kube-state-metrics is scraped (kube_pod_owner, or kube_pod_labels with the job's label allowed)"
        )  # fmt: skip
        raise NotFoundError(f"there is no job {job_id!r}; {advice}")

    async def list_jobs(self, search: JobSearch, /) -> AsyncIterator[Job]:
        """Give the jobs that match, the newest first."""
        found = await self._ask(all_pods(self._settings))
        pods = [pod for pod in pods_in(found.rows) if search.name is None or search.name in pod.job]
        facts, warnings = await self._facts(pods)
        warnings = tuple(dict.fromkeys(found.warnings + warnings))
        groups: dict[tuple[str, str], list[Pod]] = {}
        for pod in pods:
            groups.setdefault((pod.namespace, pod.job), []).append(pod)
        jobs = [to_job(members, facts, warnings) for members in groups.values()]
        jobs = [job for job in jobs if _matches(job, search)]
        jobs.sort(key=lambda job: (-(job.create_time_ms or 0), job.id))
        for job in jobs[: search.limit]:
            yield job

    async def _facts(self, pods: Sequence[Pod]) -> tuple[Facts, tuple[str, ...]]:
        """Ask what is known of pods; where one has ended and not said when, that is looked for."""
        settings = self._settings
        known, now = Rows(), Rows()
        for some in in_groups(pods, MOST_PODS):
            known += await self._ask(facts_of(settings, some))
            now += await self._ask(present(settings, some))
        facts = facts_in(known.rows)
        facts.present = {
            (row.labels.get("namespace", ""), row.labels["pod"]) for row in now.rows if "pod" in row.labels
        }
        facts.reported = any("pod" not in row.labels for row in now.rows)
        warnings = known.warnings + now.warnings
        for some in in_groups([pod for pod in pods if facts.open(pod.place)], MOST_PODS):
            gone = [pod for pod in some if facts.gone(pod.place)]
            ended = [pod for pod in some if not facts.gone(pod.place)]
            found = await self._ask(endings(settings, ended, gone))
            facts.ends |= {
                place: row.time_ms + (RESOLUTION_MS if facts.gone(place) else 0)
                for row in found.rows
                if (place := (row.labels.get("namespace", ""), row.labels.get("pod", "")))
            }
            warnings += found.warnings
        return facts, tuple(dict.fromkeys(warnings))

    def plan(self, job: Job, query: Query, /) -> Sequence[Call]:
        """Give one call for each metric, for all pods together; more where the answer would be too large."""
        served = SERVES[query.per]
        own = [metric for metric in self._settings.queries if metric.startswith(PASSED)]
        metrics = served if query.metrics is None else [m for m in query.metrics if m in served or m in own]
        return [call for metric in metrics for call in self._plan(job, query, metric)]

    def _plan(self, job: Job, query: Query, metric: str) -> Iterator[Call]:
        users = self._settings.queries.get(metric)
        counter = CATALOG[metric].counter if users is None else reads_counters(users)
        scrape_ms = self._settings.scrape_ms
        step_ms = step_of(query.step_ms, scrape_ms)
        lives = tuple([(task.id, task.start_time_ms, task.end_time_ms) for task in job.tasks])
        reading = Reading(
            query=users if users is not None else "",
            per=query.per,
            unit=unit_of(metric),
            divide=1.0 if users is not None else CATALOG[metric].divide,
            step_ms=step_ms,
            reach_ms=reach_of(step_ms, scrape_ms, counter=counter),
            least_ms=SCRAPES * scrape_ms if counter and users is None else 0,
            pods=tuple([task.id for task in job.tasks]),
            lives=lives,
            warnings=job.payload.warnings if isinstance(job.payload, Doubts) else (),
        )
        if query.per == "job":
            whole = attrs.evolve(reading, lives=(("", job.start_time_ms, job.end_time_ms),))
            yield from _calls(job, metric, query, whole, ("",))
            return
        pods = [task.id for task in query.selected(job.tasks)] if job.tasks else [""]
        count = job.accelerators.count if job.accelerators is not None else _DEVICES
        for window in windows_of(query.window, step_ms):
            per_pod = count if query.per == "device" else 1
            for group in groups_of(pods, window, step_ms, devices=per_pod):
                members = frozenset(group)
                part = attrs.evolve(reading, pods=group, lives=tuple([life for life in lives if life[0] in members]))
                yield _call(job, metric, window, part, group)

    async def fetch(self, call: Call, /) -> SeriesBatch:
        """Make one range query and decode its answer.

        Raises:
            ProviderError: ``PartialDataError`` where the server says that its answer is not whole.
        """
        reading = call.payload
        assert isinstance(reading, Reading)
        first_ms, last_ms = instants_of(call.window, reading.step_ms, reading.reach_ms)
        params = (
            ("query", self._query(call, reading)), ("start", seconds(first_ms)), ("end", seconds(last_ms)),
            ("step", seconds(reading.step_ms)),
        )  # fmt: skip
        response = await self._send(QUERY_RANGE, params)
        batch, told = await response.decoded(_series, call, reading, response.received_ms)
        warnings = dict.fromkeys(reading.warnings + told)
        if not warnings:
            return batch
        said = "; ".join([shown(warning) for warning in [*warnings][:3]])
        error = ServiceUnavailableError(f"the server answered in part only: {said}", operation=QUERY_RANGE)
        lost = Failure(targets=call.targets, metrics=call.metrics, window=call.window, error=error)
        raise PartialDataError(error.message, series=batch, lost=(lost,))

    def _query(self, call: Call, reading: Reading) -> str:
        """Write the PromQL of one call."""
        namespace = _split(call.targets[0][0])[0]
        pods = one_of(reading.pods)
        level = "device" if reading.per == "device" else "task"

        def filled(query: str, namespace_label: str = "namespace", pod_label: str = "pod") -> str:
            where = selector(self._settings, (namespace_label, "=", namespace), (pod_label, "=~", pods))
            values = {"pods": where, "namespace": text(namespace), "pod": text(pods)}
            return fill(query, {**values, "range": duration(reading.reach_ms)})

        if reading.query:
            query = users_at_level(filled(reading.query), level)
        else:
            parts = parts_of(call.metrics[0])
            query = " or ".join([
                at_level(filled(part, place.namespace, place.pod), place, level) for place, part in parts
            ])  # fmt: skip
        return f"avg({query})" if reading.per == "job" else query

    async def _ask(self, query: str) -> Rows:
        return decode_rows((await self._send(QUERY, (("query", query),))).body)

    async def _send(self, operation: str, params: tuple[tuple[str, str], ...]) -> Response:
        body = encode_query(params).encode()
        request = Request("POST", f"{self._url}/{operation}", headers=self._headers, body=body, operation=operation)
        return await self._transport.send(request)


def _series(body: bytes, call: Call, reading: Reading, received_ms: int) -> tuple[SeriesBatch, tuple[str, ...]]:
    """Give the series of an answer, and its warnings."""
    samples = decode_labelled_lists(body, MATRIX)
    return to_batch(samples, call, reading, received_ms), samples.warnings


def _call(job: Job, metric: str, window: Window, reading: Reading, pods: Sequence[str]) -> Call:
    targets = tuple([(job.id, pod) for pod in pods])
    return Call(
        operation=QUERY_RANGE, targets=targets, metrics=(metric,), window=window,
        step_ms=reading.step_ms, payload=reading,
    )  # fmt: skip


def _calls(job: Job, metric: str, query: Query, reading: Reading, pods: Sequence[str]) -> Iterator[Call]:
    for window in windows_of(query.window, reading.step_ms):
        yield _call(job, metric, window, reading, pods)


def _split(job_id: str) -> tuple[str, str]:
    """Give the namespace and the name that a job id is made of.

    Raises:
        InvalidRequestError: It is made of other parts.
    """
    parts = job_id.split("/")
    if len(parts) != 2:
        raise InvalidRequestError(f"{job_id!r} is no job id: write namespace/name")
    return check_id(parts[0], "namespace"), check_id(parts[1], "name of a job")


def _matches(job: Job, search: JobSearch) -> bool:
    created = job.create_time_ms
    return (search.status is None or job.status in search.status) and (
        search.created is None or (created is not None and created in search.created)
    )
