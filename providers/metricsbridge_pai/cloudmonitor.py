"""The route through CloudMonitor: which metrics there are, what is asked, and how pages become series.

CloudMonitor has the metrics of all jobs but those on pay-as-you-go general computing resources, in its namespace
``acs_pai_dlc``. The names are not documented as a whole, so they are asked for when the provider is opened. The data
are read through PAI-DLC's ``GetMetrics`` or through CloudMonitor's own ``DescribeMetricList``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from metricsbridge.provider_kit import (
    Call,
    ConfigurationError,
    DecodeError,
    Failure,
    PartialDataError,
    ProviderError,
    Request,
    decode_json,
)
from metricsbridge_pai._catalog import NAMESPACE, Catalog, conversion_of
from metricsbridge_pai._datapoints import Pages, Reading
from metricsbridge_pai._jobs import is_last
from metricsbridge_pai._operations import DESCRIBE_METRIC_LIST, DESCRIBE_METRIC_META_LIST, GET_METRICS
from metricsbridge_pai._windows import LONGEST_QUERY_MS, iso, left_open, period, retention_ms, shifted, split, within
from metricsbridge_pai._wire import DataPage, MetaPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metricsbridge.provider_kit import Job, Query, SeriesBatch, Transport
    from metricsbridge_pai._catalog import CloudMetric, Conversion
    from metricsbridge_pai._jobs import Facts
    from metricsbridge_pai._settings import PaiSettings
    from metricsbridge_pai._wire import MetricMeta

_PAGE: Final = 1440
"""So many points a page may have (CloudMonitor API reference, DescribeMetricList)."""

_MOST_ROWS: Final = 50
"""So many instances a query may name (likewise)."""

_POINTS: Final = _MOST_ROWS * _PAGE
"""About so many points a call asks for: what is retried and reported as one is neither tiny nor endless."""

_MOST_ATTEMPTS: Final = 2
"""Opening a source does not wait long for names that it can do without."""

_MOST_PAGES: Final = 5_000
_MOST_EMPTY: Final = 100
"""So many pages in a row without a point, each naming another one, come from a service that never ends."""

_META_PAGE: Final = 100


class CloudMonitor:
    """Metrics in CloudMonitor, for the jobs of one account and region."""

    def __init__(self, transport: Transport, settings: PaiSettings, catalog: Catalog) -> None:
        self._transport = transport
        self._settings = settings
        self._catalog = catalog
        self._url = settings.service_url()
        self._own_url = settings.cloudmonitor_url()

    @classmethod
    async def connect(cls, settings: PaiSettings, transport: Transport, /) -> CloudMonitor:
        """Ask which metrics there are; where nobody tells, the names in the table can still be asked for.

        Raises:
            ConfigurationError: ``cloudmonitor_metrics`` names a metric that does not exist or can't be converted, or
                CloudMonitor is needed and its endpoint is not known.
        """
        if settings.cloudmonitor_url() is None:
            needs = "cloudmonitor_metrics" if settings.cloudmonitor_metrics else "metrics_api='DescribeMetricList'"
            if settings.cloudmonitor_metrics or settings.metrics_api == DESCRIBE_METRIC_LIST:
                raise ConfigurationError(f"{needs} needs CloudMonitor itself: set region or cloudmonitor_endpoint")
        try:
            told = await list_metrics(settings, transport)
        except ProviderError:  # an account that reads no CloudMonitor data needs no access to it
            told = None
        return cls(transport, settings, Catalog.of(told, settings.cloudmonitor_metrics))

    def plan(self, job: Job, facts: Facts, query: Query) -> Iterator[Call]:
        """Give one call for each metric, each fifty pods and each stretch of time."""
        asked = self._catalog.canonical(query.per) if query.metrics is None else query.metrics
        window = within(query.window, (job.start_time_ms, job.end_time_ms))
        groups = [((), ("",))] if query.per == "job" else [*_groups(job, facts, query)]
        for name in asked:
            metric = self._catalog.find(name, query.per)
            if metric is None:
                continue
            period_s = period(query.step_ms, metric.periods)
            step_ms = period_s * 1000
            for pods, tasks in groups:
                rows = len(pods) or (1 if query.per == "job" else _MOST_ROWS)
                most = min(LONGEST_QUERY_MS // step_ms - 1, max(_PAGE, _POINTS // rows))
                reading = Reading(
                    metric=metric, period_s=period_s, pods=pods, only=None if job.tasks else query.tasks,
                    aliases=facts.aliases, by_device=query.per == "device",
                    shift_ms=step_ms if self._settings.time_at == "end" else 0,
                )  # fmt: skip
                for part in split(window, step_ms, most):
                    yield Call(
                        operation=self._settings.metrics_api, targets=tuple([(job.id, task) for task in tasks]),
                        metrics=(name,), window=part, step_ms=step_ms, retention_ms=retention_ms(period_s),
                        payload=reading,
                    )  # fmt: skip

    async def fetch(self, call: Call, reading: Reading) -> SeriesBatch:
        """Read all pages of a call.

        Raises:
            PartialDataError: A page could not be read; what came before it is kept. Where the mean over devices is
                wanted nothing is, as the mean of some of them is another number: the page's own error is raised.
            ConfigurationError: The unit of a metric of ``cloudmonitor_metrics`` is not known or does not fit.
        """
        conversion = reading.metric.conversion or await self._conversion(reading.metric)
        pages = Pages(reading, conversion, call.targets[0][0], frozenset([task for _, task in call.targets]))
        try:
            ended = await self._read_pages(call, pages)
        except ProviderError as error:
            if reading.averaged or not pages.batches:
                raise
            lost = Failure(
                targets=call.targets, metrics=call.metrics, window=call.window, error=error, attempts=error.attempts
            )
            raise PartialDataError(
                f"page {len(pages.batches) + 1} of the data could not be read", series=pages.joined(), lost=[lost]
            ) from error
        return pages.joined(ended=ended)

    async def _read_pages(self, call: Call, pages: Pages) -> bool:
        """Add each page; tell whether the last one held points."""
        request = self._request(call, pages.reading)
        token, seen, empty = "", {""}, 0
        while True:
            params = (*request.params, ("NextToken", token)) if token else request.params
            response = await self._transport.send(
                Request(request.method, request.url, params, operation=request.operation)
            )
            page = decode_json(response.body, DataPage)
            points = page.DataPoints if page.DataPoints is not None else page.Datapoints
            empty = 0 if pages.add(points) else empty + 1
            token = page.NextToken or ""
            if not token:
                return empty == 0
            if token in seen or empty == _MOST_EMPTY or len(pages.batches) == _MOST_PAGES:
                raise DecodeError(
                    "the answer's NextToken leads back to a page that was read, or on without end", path="$.NextToken"
                )
            seen.add(token)

    def _request(self, call: Call, reading: Reading) -> Request:
        job_id = call.targets[0][0]
        rows = [{"jobId": job_id, "pod": pod} for pod in reading.pods] or [{"jobId": job_id}]
        start_ms, end_ms = left_open(shifted(call.window, reading.shift_ms))
        params = [
            ("Namespace", NAMESPACE),
            ("MetricName", reading.metric.name),
            ("Dimensions", json.dumps(rows, separators=(",", ":"))),
            ("StartTime", iso(start_ms)),
            ("EndTime", iso(end_ms)),
            ("Period", str(reading.period_s)),
            ("Length", str(_PAGE)),
        ]
        if call.operation == DESCRIBE_METRIC_LIST:
            return Request("POST", f"{self._own_url}/", tuple(params), operation=DESCRIBE_METRIC_LIST)
        params.append(("JobId", job_id))
        return Request("GET", f"{self._url}/api/v1/cms/metrics", tuple(params), operation=GET_METRICS)

    async def _conversion(self, metric: CloudMetric) -> Conversion:
        """Give the conversion from a unit that could not be asked for when the provider was opened.

        Whoever needs it first asks; the catalog is kept for the others.
        """
        if self._catalog.told is None:
            told = await list_metrics(self._settings, self._transport)
            self._catalog = Catalog.of(told, self._settings.cloudmonitor_metrics)
        meta = (self._catalog.told or {}).get(metric.name)
        if meta is None:
            raise ConfigurationError(f"cloudmonitor_metrics: the unit of {metric.name} is not known; leave it out")
        return conversion_of(meta, metric.metric)


async def list_metrics(settings: PaiSettings, transport: Transport) -> Mapping[str, MetricMeta] | None:
    """Ask CloudMonitor for the metrics of its namespace; None where no endpoint of it is known.

    Raises:
        ProviderError: It does not tell.
    """
    url = settings.cloudmonitor_url()
    if url is None:
        return None
    found: dict[str, MetricMeta] = {}
    page_number = 1
    while True:
        params = (("Namespace", NAMESPACE), ("PageNumber", str(page_number)), ("PageSize", str(_META_PAGE)))
        response = await transport.send(
            Request("POST", f"{url}/", params, operation=DESCRIBE_METRIC_META_LIST, most_attempts=_MOST_ATTEMPTS)
        )
        page = decode_json(response.body, MetaPage)
        metas = (page.Resources.Resource if page.Resources is not None else None) or ()
        before = len(found)
        found.update({meta.MetricName: meta for meta in metas})
        if is_last(len(found) - before, len(metas), _META_PAGE, len(found), page.TotalCount):
            return found
        page_number += 1


def _groups(job: Job, facts: Facts, query: Query) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Give (pods, tasks) of each call: as many tasks as fit, with their pods' earlier incarnations."""
    earlier: dict[str, list[str]] = {}
    for pod, task in facts.aliases:
        earlier.setdefault(task, []).append(pod)
    pods: list[str] = []
    tasks: list[str] = []
    for task in [one.id for one in query.selected(job.tasks)]:
        # Of a pod that was started again very often, the last incarnations.
        mine = [task, *earlier.get(task, ())[-_MOST_ROWS + 1 :]]
        if len(pods) + len(mine) > _MOST_ROWS:
            yield tuple(pods), tuple(tasks)
            pods, tasks = [], []
        pods += mine
        tasks.append(task)
    if pods:
        yield tuple(pods), tuple(tasks)
    elif not job.tasks:
        yield (), ("",)  # every pod that the answer names; before the job starts, what would be served
