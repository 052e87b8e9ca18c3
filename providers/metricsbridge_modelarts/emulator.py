"""ModelArts v2 and IAM, emulated over a simulated fleet: what the entry point ``metricsbridge.emulators`` names.

It checks signatures and tokens as the gateway does and has the quirks of the real service, so that the vendor's own
client works against it unchanged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from aiohttp import web

from metricsbridge.testing.emulator import EMULATOR, Emulator
from metricsbridge.testing.faults import Faults, operation_of
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_modelarts._emulated import gateway as gate
from metricsbridge_modelarts._emulated.gateway import ApiError, Gateway, json_answer
from metricsbridge_modelarts._emulated.v2_jobs import (
    events,
    flavors_document,
    job_document,
    metrics_body,
    stages_document,
    tasks_document,
)
from metricsbridge_modelarts._emulated.v2_search import search_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricsbridge.testing.fleet import FleetJob

_BODY_LIMIT = 12 * 2**20
_BODIES_KEPT = 2_048


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def create_app(
    *,
    fleet: Fleet | None = None,
    faults: Faults | None = None,
    now_ms: Callable[[], int] = _wall_clock_ms,
    retention_minutes: int | None = None,
    unknown_task_code: str = "ModelArts.2788",
    token_life_ms: int = 24 * 3_600_000,
) -> web.Application:
    """Make the emulator.

    Args:
        fleet: What it serves; by default the standard one, standing at the present.
        faults: What it injects; beside the kinds that every emulator knows, ``expired-token`` (the token of the request
            is good no longer; requests without one pass) and ``not-ready`` (no metrics yet: 204).
        now_ms: The service's clock, ms since the epoch.
        retention_minutes: Only the last so many minutes before now are served (204 where that leaves none); None serves
            whole series.
        unknown_task_code: Answered, with HTTP 400, for a task that the job lacks; the vendor does not document it.
        token_life_ms: How long an IAM token is valid.
    """
    fleet = Fleet(now_ms=now_ms()) if fleet is None else fleet
    faults = Faults() if faults is None else faults
    gateway = Gateway(now_ms, token_life_ms)
    service = _Service(fleet, now_ms, retention_minutes, unknown_task_code)
    throttled = ApiError(429, "APIGW.0308", "The throttling threshold has been reached: policy user over ratelimit")
    wait = {"Retry-After": str(faults.retry_after_s)}
    inject = faults.middleware(
        {
            "throttle": lambda request: gateway.refusal(throttled, **wait),
            "unavailable": lambda request: gateway.refusal(ApiError(503, "APIGW.0613", "Backend unavailable")),
            "error": lambda request: gateway.refusal(ApiError(500, "ModelArts.0010", "Internal error.")),
            "expired-token": gateway.expire,
            "not-ready": _not_ready,
        }
    )
    app = web.Application(middlewares=[inject, gateway.middleware()], client_max_size=_BODY_LIMIT)
    app[EMULATOR] = Emulator(settings=settings, jobs=tuple([job.id for job in fleet.jobs]), fleet=fleet, faults=faults)
    jobs = "/v2/{project_id}/training-jobs/{job_id}"
    app.router.add_post("/v3/auth/tokens", gateway.create_token, name="KeystoneCreateUserTokenByPassword")
    app.router.add_get("/v3/projects", gateway.list_projects, name="KeystoneListProjects")
    app.router.add_post("/v2/{project_id}/training-job-searches", service.list_jobs, name="ListTrainingJobs")
    app.router.add_get("/v2/{project_id}/training-job-flavors", service.list_flavors, name="ShowTrainingJobFlavors")
    app.router.add_get(jobs, service.show_job, name="ShowTrainingJobDetails")
    app.router.add_get(f"{jobs}/metrics/{{task_id}}", service.show_metrics, name="ShowTrainingJobMetrics")
    app.router.add_get(f"{jobs}/tasks", service.list_tasks, name="ListTrainingJobTasks")
    app.router.add_get(f"{jobs}/stages", service.list_stages, name="ListTrainingJobStages")
    app.router.add_get(f"{jobs}/events", service.list_events, name="ListTrainingJobEvents")
    return app


def settings(url: str) -> dict[str, Any]:
    """Give what ``open_provider("modelarts", …)`` needs to reach the emulator at that base URL."""
    return {
        "region": gate.REGION,
        "endpoint": url,
        "iam_endpoint": url,
        "project_id": gate.PROJECT_ID,
        "access_key": gate.ACCESS_KEY,
        "secret_key": gate.SECRET_KEY,
        "limits": {"*": "unlimited"},
    }


def password_settings(url: str) -> dict[str, Any]:
    """Give ``settings`` with a user and password, for IAM tokens, in place of the keys."""
    named = {key: value for key, value in settings(url).items() if key not in ("access_key", "secret_key")}
    return {**named, "username": gate.USER, "password": gate.PASSWORD, "domain_name": gate.DOMAIN}


def _not_ready(request: web.Request) -> web.Response | None:
    return web.Response(status=204) if operation_of(request) == "ShowTrainingJobMetrics" else None


@attrs.define(eq=False)
class _Service:
    """The routes of ModelArts, behind the gateway."""

    fleet: Fleet
    now_ms: Callable[[], int]
    retention_minutes: int | None
    unknown_task_code: str
    _bodies: dict[tuple[str, str], tuple[tuple[int, int], bytes]] = attrs.field(init=False, factory=dict)

    async def list_jobs(self, request: web.Request) -> web.Response:
        return json_answer(search_document(self.fleet, await request.read(), self.now_ms()))

    async def show_job(self, request: web.Request) -> web.Response:
        return json_answer(job_document(self._job(request), self.now_ms()))

    async def list_tasks(self, request: web.Request) -> web.Response:
        return json_answer(tasks_document(self._job(request)))

    async def list_stages(self, request: web.Request) -> web.Response:
        return json_answer(stages_document(self._job(request)))

    async def list_flavors(self, request: web.Request) -> web.Response:
        return json_answer(flavors_document(self.fleet, request.query.get("flavor_type") or None))

    async def list_events(self, request: web.Request) -> web.Response:
        """Serve a page of events; ``offset`` is its number."""
        query = request.query
        try:
            offset, limit = int(query.get("offset", 0)), int(query.get("limit", 50))
            start, end = int(query.get("start_time", 0)), int(query.get("end_time", 2**62))
        except ValueError as error:
            raise ApiError(400, "ModelArts.2764", "Invalid query parameter.") from error
        if offset < 0 or not 1 <= limit <= 100 or ("start_time" in query) != ("end_time" in query):
            raise ApiError(400, "ModelArts.2764", "Invalid query parameter.")
        level, pattern, order = query.get("level"), query.get("pattern", ""), query.get("order", "desc")
        chosen = [
            event
            for time_ms, event in events(self._job(request))
            if start <= time_ms <= end and level in (None, event["level"]) and pattern in event["message"]
        ]
        page = (chosen if order == "asc" else chosen[::-1])[offset * limit :][:limit]
        return json_answer({"total": len(chosen), "limit": limit, "offset": offset, "order": order, "events": page})

    async def show_metrics(self, request: web.Request) -> web.Response:
        """Serve all metrics of one task: 204 without a body before the first minute."""
        job, task = self._job(request), request.match_info["task_id"]
        if task not in job.tasks:
            raise ApiError(400, self.unknown_task_code, f"Invalid parameter: the job has no task {task}.")
        first, count = self._served(job)
        if count == 0:
            return web.Response(status=204)
        return web.Response(body=self._body(job, task, first, count), content_type="application/json")

    def _served(self, job: FleetJob) -> tuple[int, int]:
        """Give the first minute that is served, ms since the epoch, and how many."""
        first, count, now_ms = job.first_minute_ms or 0, job.minute_count(self.now_ms()), self.now_ms()
        if self.retention_minutes is None:
            return first, count
        oldest = (now_ms // MINUTE_MS - self.retention_minutes) * MINUTE_MS
        dropped = min(count, max(0, (oldest - first) // MINUTE_MS))
        return first + dropped * MINUTE_MS, count - dropped

    def _body(self, job: FleetJob, task: str, first: int, count: int) -> bytes:
        served, body = self._bodies.get((job.id, task), ((0, 0), b""))
        if served != (first, count):
            body = metrics_body(self.fleet, job, task, first + np.arange(count, dtype=np.int64) * MINUTE_MS)
            while len(self._bodies) >= _BODIES_KEPT:
                del self._bodies[next(iter(self._bodies))]
            self._bodies[job.id, task] = (first, count), body
        return body

    def _job(self, request: web.Request) -> FleetJob:
        try:
            return self.fleet.job(request.match_info["job_id"])
        except KeyError:
            raise ApiError(400, "ModelArts.2775", "The training job was not found.") from None
