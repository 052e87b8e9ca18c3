"""PAI-DLC and CloudMonitor, emulated over a simulated fleet: what the entry point ``metricsbridge.emulators`` names.

One application answers for both hosts: PAI-DLC by path, CloudMonitor by the action that the header ``x-acs-action``
names. It checks signatures as the vendor's gateway does and has the quirks of the real services, so that the vendor's
own clients work against it unchanged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import attrs
from aiohttp import web

from metricsbridge.testing.emulator import EMULATOR, Emulator
from metricsbridge.testing.faults import Faults, operation_of
from metricsbridge.testing.fleet import Fleet
from metricsbridge_pai._emulated import gateway as gate
from metricsbridge_pai._emulated.actions import Actions, no_data
from metricsbridge_pai._emulated.cloudmonitor import CANONICAL, CloudMonitor
from metricsbridge_pai._emulated.gateway import ApiError, Gateway, invalid, nonce_used
from metricsbridge_pai._emulated.jobs import event_texts, instant, job_document, spec_documents
from metricsbridge_pai._emulated.metrics import Range, metrics_document
from metricsbridge_pai._emulated.readings import Readings
from metricsbridge_pai._emulated.roster import is_general, job_ids, placed, pod_ids
from metricsbridge_pai._emulated.search import parse_instant, search_document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from metricsbridge_pai._emulated.roster import Placed

__all__ = ["create_app", "is_general", "job_ids", "pod_ids", "settings", "sts_settings"]

_BODY_LIMIT = 2**20
_WEEK_S = 604_800
_SHUFFLED = web.RequestKey("SHUFFLED", bool)
_POINTS = frozenset({"GetJobMetrics", "GetMetrics", "DescribeMetricList"})


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def create_app(
    *,
    fleet: Fleet | None = None,
    faults: Faults | None = None,
    now_ms: Callable[[], int] = _wall_clock_ms,
    **readings: Any,
) -> web.Application:
    """Make the emulator.

    Args:
        fleet: What it serves; by default the standard one, standing at the present.
        faults: What it injects; beside the kinds that every emulator knows, ``expired-token`` (the security token of
            the request is good no longer; requests without one pass), ``nonce-used``, and for metrics ``empty`` (no
            points) and ``shuffled`` (points in no order, some of them twice).
        now_ms: The service's clock, ms since the epoch.
        **readings: Attributes of ``Readings``: how it behaves where the documents leave it open.
    """
    fleet = Fleet(now_ms=now_ms()) if fleet is None else fleet
    faults = Faults() if faults is None else faults
    chosen = Readings(**readings)
    wait = {} if chosen.retry_after_ms is None else {"x-acs-retry-after": str(chosen.retry_after_ms)}
    throttled = ApiError(
        chosen.throttle_status, "Throttling.User", "Request was denied due to user flow control.", wait
    )
    gateway = Gateway(now_ms, chosen.security_token_expires_ms, chosen.calls_per_s, throttled, chosen.refused_in_body)
    service = _Service(
        fleet, now_ms, gateway, chosen, Actions(CloudMonitor(fleet, chosen.time_at, chosen.renamed), chosen)
    )
    unavailable = ApiError(503, "ServiceUnavailable", "The request has failed due to a temporary failure.")
    failed = ApiError(500, "InternalError", "The request processing has failed due to some unknown error.")
    shuffle = _Shuffle(faults)
    inject = faults.middleware(
        {
            "throttle": lambda request: gateway.refusal(request, throttled),
            "unavailable": lambda request: gateway.refusal(request, unavailable),
            "error": lambda request: gateway.refusal(request, failed),
            "expired-token": gateway.expire,
            "nonce-used": lambda request: gateway.refusal(request, nonce_used()),
            "empty": service.empty,
            "shuffled": shuffle.mark,
        }
    )
    app = web.Application(middlewares=[inject, gateway.middleware()], client_max_size=_BODY_LIMIT)
    app[EMULATOR] = Emulator(settings=settings, jobs=tuple(placed(fleet)), fleet=fleet, faults=faults)
    _add_routes(app.router, service)
    return app


def settings(url: str) -> dict[str, Any]:
    """Give what ``open_provider("pai-dlc", …)`` needs to reach the emulator at that base URL."""
    return {
        "region": gate.REGION,
        "endpoint": url,
        "cloudmonitor_endpoint": url,
        "access_key_id": gate.ACCESS_KEY_ID,
        "access_key_secret": gate.ACCESS_KEY_SECRET,
        "limits": {"*": "unlimited"},
        "cloudmonitor_metrics": dict(CANONICAL),
    }


def sts_settings(url: str, number: int = 0) -> dict[str, Any]:
    """Give ``settings`` with a temporary key and the security token of that number; each is good until it expires."""
    temporary = {
        "access_key_id": gate.TEMPORARY_ACCESS_KEY_ID,
        "access_key_secret": gate.TEMPORARY_ACCESS_KEY_SECRET,
        "security_token": gate.security_token(number),
    }
    return {**settings(url), **temporary}


class _Action(web.PlainResource):
    """The path "/" for one action of CloudMonitor."""

    def __init__(self, action: str) -> None:
        super().__init__("/", name=action)
        self._action = action

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        if request.headers.get("x-acs-action") != self._action:
            return None, set()
        return await super().resolve(request)


def _add_routes(router: web.UrlDispatcher, service: _Service) -> None:
    """Name every route after its operation."""
    job, pod = "/api/v1/jobs/{job_id}", "/api/v1/jobs/{job_id}/pods/{pod_id}"
    router.add_get("/api/v1/jobs", service.list_jobs, name="ListJobs")
    router.add_get(job, service.get_job, name="GetJob")
    router.add_get(f"{job}/metrics", service.get_job_metrics, name="GetJobMetrics")
    router.add_get(f"{job}/events", service.get_job_events, name="GetJobEvents")
    router.add_get(f"{pod}/events", service.get_pod_events, name="GetPodEvents")
    router.add_get(f"{pod}/logs", service.get_pod_logs, name="GetPodLogs")
    router.add_get("/api/v1/cms/metrics", service.get_metrics, name="GetMetrics")
    router.add_get("/api/v1/tokens", service.get_token, name="GetToken")
    router.add_get("/api/v1/ecsspecs", service.list_ecs_specs, name="ListEcsSpecs")
    actions: Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "DescribeMetricList": service.describe_metric_list,
        "DescribeMetricLast": service.describe_metric_last,
        "DescribeMetricData": service.describe_metric_data,
        "DescribeMetricMetaList": service.describe_metric_meta_list,
        "Cursor": service.cursor,
        "BatchExport": service.batch_export,
    }
    for action, handler in actions.items():
        resource = _Action(action)
        for method in ("GET", "POST"):
            resource.add_route(method, handler)
        router.register_resource(resource)


@attrs.frozen(eq=False)
class _Shuffle:
    """Lets the answers to marked requests come in no order."""

    faults: Faults

    def mark(self, request: web.Request) -> None:
        """Mark a request for points, and count the fault: the answer is made behind the gateway."""
        if operation_of(request) in _POINTS:
            request[_SHUFFLED] = True
            self.faults.injected["shuffled"] += 1


@attrs.define(eq=False)
class _Service:
    """The routes of both services, behind the gateway."""

    fleet: Fleet
    now_ms: Callable[[], int]
    gateway: Gateway
    readings: Readings
    actions: Actions

    async def list_jobs(self, request: web.Request) -> web.Response:
        found = search_document(self.fleet, request.query, self.now_ms(), readings=self.readings)
        return self.gateway.answer(found)

    async def get_job(self, request: web.Request) -> web.Response:
        detail = request.query.get("NeedDetail", "true").lower() != "false"
        document = job_document(self._job(request), self.now_ms(), detail=detail, renamed=self.readings.renamed)
        return self.gateway.answer(document)

    async def get_job_metrics(self, request: web.Request) -> web.Response:
        """Serve one metric of all pods; jobs on other than general computing resources have none here."""
        job, now_ms = self._job(request), self.now_ms()
        asked = Range.parse(request.query, now_ms)
        if not job.resource.general:
            if self.readings.uncovered == "error":
                raise invalid("The metrics of this job are read through CloudMonitor.")
            return self.gateway.answer({"JobId": job.id, "PodMetrics": []})
        shuffled = request.get(_SHUFFLED, False)
        document = metrics_document(self.fleet, job, asked, readings=self.readings, now_ms=now_ms, shuffled=shuffled)
        return self.gateway.answer(document)

    async def get_job_events(self, request: web.Request) -> web.Response:
        job = self._job(request)
        return self.gateway.answer({"JobId": job.id, "Events": _events(request, job)})

    async def get_pod_events(self, request: web.Request) -> web.Response:
        job, pod = self._pod(request)
        return self.gateway.answer({"JobId": job.id, "PodId": pod, "Events": _events(request, job)})

    async def get_pod_logs(self, request: web.Request) -> web.Response:
        job, pod = self._pod(request)
        start = job.job.start_time_ms
        lines = [] if start is None else [f"{instant(start)} {pod}: epoch {number}" for number in range(3)]
        most = _whole(request, "MaxLines", 1_000)
        return self.gateway.answer({"JobId": job.id, "PodId": pod, "Logs": lines[:most]})

    async def get_metrics(self, request: web.Request) -> web.Response:
        shuffled = request.get(_SHUFFLED, False)
        return self.gateway.answer(self.actions.proxied(request.query, self.now_ms(), shuffled=shuffled))

    async def get_token(self, request: web.Request) -> web.Response:
        """Give a token that stands for the signature where one job is asked about."""
        if request.query.get("TargetType", "job") != "job":
            raise invalid("TargetType must be job.")
        job_id = request.query.get("TargetId", "")
        if job_id:
            self._find(job_id)
        life_s = _whole(request, "ExpireTime", _WEEK_S)
        if life_s < 0:
            raise invalid("ExpireTime must be 0 at least.")
        return self.gateway.answer({"Token": self.gateway.share(job_id, life_s)})

    async def list_ecs_specs(self, request: web.Request) -> web.Response:
        kind = request.query.get("AcceleratorType") or None
        specs = [spec for spec in spec_documents(self.fleet) if kind in (None, spec["AcceleratorType"])]
        number, size = _whole(request, "PageNumber", 1), _whole(request, "PageSize", 10)
        page = specs[max(0, number - 1) * size :][:size]
        return self.gateway.answer({"EcsSpecs": page, "TotalCount": len(specs)})

    async def describe_metric_list(self, request: web.Request) -> web.Response:
        shuffled = request.get(_SHUFFLED, False)
        found = self.actions.metric_list(await _params(request), self.now_ms(), shuffled=shuffled)
        return self.gateway.answer(found)

    async def describe_metric_last(self, request: web.Request) -> web.Response:
        return self.gateway.answer(self.actions.newest(await _params(request), self.now_ms()))

    async def describe_metric_data(self, request: web.Request) -> web.Response:
        return self.gateway.answer(self.actions.metric_data(await _params(request), self.now_ms()))

    async def describe_metric_meta_list(self, request: web.Request) -> web.Response:
        return self.gateway.answer(self.actions.meta_list(await _params(request)))

    async def cursor(self, request: web.Request) -> web.Response:
        return self.gateway.answer(self.actions.cursor(await _params(request), self.now_ms()))

    async def batch_export(self, request: web.Request) -> web.Response:
        return self.gateway.answer(self.actions.export(await _params(request), self.now_ms()))

    def empty(self, request: web.Request) -> web.Response | None:
        """Give the answer without points; None where the request is for none."""
        operation = operation_of(request)
        if operation not in _POINTS:
            return None
        if operation == "GetJobMetrics":
            return self.gateway.answer({"JobId": request.match_info["job_id"], "PodMetrics": []})
        member = "DataPoints" if operation == "GetMetrics" else "Datapoints"
        return self.gateway.answer(no_data(request.query, member))

    def _find(self, job_id: str) -> Placed:
        job = placed(self.fleet).get(job_id)
        if job is None:
            raise ApiError(404, "NotFound", f"The job {job_id} is not found.")
        return job

    def _job(self, request: web.Request) -> Placed:
        return self._find(request.match_info["job_id"])

    def _pod(self, request: web.Request) -> tuple[Placed, str]:
        job, pod = self._job(request), request.match_info["pod_id"]
        if pod not in job.pods:
            raise ApiError(404, "NotFound", f"The pod {pod} is not found.")
        return job, pod


async def _params(request: web.Request) -> dict[str, str]:
    """Give the parameters of an action: those of the query, and of a form in the body."""
    form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    return {**request.query, **form}


def _events(request: web.Request, job: Placed) -> list[str]:
    query = request.query
    start = parse_instant(query["StartTime"], "StartTime") if query.get("StartTime") else 0
    end = parse_instant(query["EndTime"], "EndTime") if query.get("EndTime") else 2**62
    texts = [text for time_ms, text in event_texts(job) if start <= time_ms <= end]
    return texts[: _whole(request, "MaxEventsNum", 2_000)]


def _whole(request: web.Request, name: str, default: int) -> int:
    try:
        return int(request.query.get(name) or default)
    except ValueError as error:
        raise invalid(f"{name} is no whole number.") from error
