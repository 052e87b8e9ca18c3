"""The routes of the emulated ModelArts v1. Sources: as the documents that they serve; failures, "Error Codes"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
from aiohttp import web

from metricsbridge.testing.faults import operation_of
from metricsbridge_modelarts._emulated.gateway import ApiError, json_answer
from metricsbridge_modelarts._emulated.v1_jobs import description_document, evaluation_document, versions_of
from metricsbridge_modelarts._emulated.v1_lists import all_versions_document, jobs_document, versions_page
from metricsbridge_modelarts._emulated.v1_metrics import (
    asked_metrics,
    pod_body,
    served_minutes,
    system_metrics_body,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler, Middleware

    from metricsbridge.testing.fleet import Fleet
    from metricsbridge_modelarts._emulated.gateway import Gateway
    from metricsbridge_modelarts._emulated.v1_jobs import Version
    from metricsbridge_modelarts._emulated.v1_metrics import Readings

POD_METRICS: Final = "ShowPodMetricStatistic"
"""The operation whose refusals are worded in a way of their own."""

_BODIES_KEPT: Final = 512


@attrs.define(eq=False)
class Service:
    """The routes of ModelArts v1, behind the gateway.

    Args:
        fleet: What is served.
        gateway: Whose clock and request ids are used.
        readings: How the vendor's documents are read.

    Attributes:
        versions: The fleet's jobs, in its order.
    """

    fleet: Fleet
    gateway: Gateway
    readings: Readings
    versions: tuple[Version, ...] = attrs.field(init=False)
    _by_job: dict[int, list[Version]] = attrs.field(init=False, factory=dict)
    _bodies: dict[tuple[Any, ...], tuple[tuple[int, int], bytes]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.versions = versions_of(self.fleet)
        for version in self.versions:
            self._by_job.setdefault(version.job_id, []).append(version)

    def middleware(self) -> Middleware:
        """Give the middleware that words the service's refusals; IAM's stay as they are."""

        @web.middleware
        async def word(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await handler(request)
            except ApiError as error:
                if not error.code:
                    raise
                status = self.readings.failure_status or error.status
                return self.refusal(request, attrs.evolve(error, status=status))

        return word

    def refusal(self, request: web.Request, error: ApiError) -> web.Response:
        """Give the answer that says so: the route for one pod has words of its own."""
        content: dict[str, Any] = {"is_success": False, "error_message": error.message, "error_code": error.code}
        if operation_of(request) == POD_METRICS:
            content = {"error_msg": error.message, "error_code": error.code}
        return json_answer(content, error.status, {"X-Request-Id": self.gateway.new_request_id()})

    async def list_jobs(self, request: web.Request) -> web.Response:
        """Serve a page of jobs."""
        return json_answer(jobs_document(self.versions, request.query, self.gateway.now_ms()))

    async def list_versions(self, request: web.Request) -> web.Response:
        """Serve a job's versions: their metrics are JSON in a string."""
        versions = self._job(request)
        rows = [self._describe(version, text=True) for version in versions_page(versions, request.query)]
        job = {"job_id": versions[0].job_id, "job_name": versions[0].job_name, "job_desc": ""}
        return json_answer({"is_success": True, **job, "version_count": len(versions), "versions": rows})

    async def list_all_versions(self, request: web.Request) -> web.Response:
        """Serve versions of all jobs."""
        body, now_ms = await request.read(), self.gateway.now_ms()
        no_time = self.readings.no_time
        return json_answer(all_versions_document(self.versions, request.query, body, now_ms=now_ms, no_time=no_time))

    async def show_version(self, request: web.Request) -> web.Response:
        """Serve the details of a version, with the job's averages."""
        version = self._version(request)
        job = {"job_id": version.job_id, "job_name": version.job_name, "job_desc": ""}
        return json_answer({"is_success": True, **job, **self._describe(version, text=False)})

    async def list_log_files(self, request: web.Request) -> web.Response:
        """Serve the names of a version's log files, which are its pods."""
        return json_answer({"is_success": True, "log_file_list": self._version(request).pods})

    async def show_pod_metrics(self, request: web.Request) -> web.Response:
        """Serve the metrics of one pod."""
        version, pod = self._version(request), request.match_info["pod_name"]
        if pod not in version.pods:
            raise ApiError(400, self.readings.unknown_pod_code, f"Invalid parameter: the version has no pod {pod}.")
        names = tuple(asked_metrics(request.query.get("metrics", "")))
        statistic = request.query.get("statistic_type") or "all"
        if statistic not in ("all", "each"):
            raise ApiError(400, "ModelArts.0104", "Invalid parameter statistic_type: it must be all or each.")
        job, readings = version.job, self.readings
        task, minutes = job.tasks[version.pods.index(pod)], served_minutes(job, self.gateway.now_ms(), readings)
        body = self._kept(
            (job.id, task, names, statistic),
            (len(minutes), int(minutes[0]) if len(minutes) else 0),
            lambda: pod_body(
                self.fleet, job, task, names, each=statistic == "each", minutes=minutes, readings=readings
            ),
        )
        return web.Response(body=body, content_type="application/json")

    def _describe(self, version: Version, *, text: bool) -> dict[str, Any]:
        """Give a version with its metrics; those of one that never started are "" or null."""
        job, readings, now_ms = version.job, self.readings, self.gateway.now_ms()
        evaluation: Any = evaluation_document(self.fleet, version)
        if readings.model_metrics == "string":
            evaluation = "" if evaluation is None else msgspec.json.encode(evaluation).decode()
        metrics: Any = "" if version.version_id % 2 else None
        if job.start_time_ms is not None:
            minutes = served_minutes(job, now_ms, readings)
            body = self._kept(
                (job.id,),
                (len(minutes), int(minutes[0]) if len(minutes) else 0),
                lambda: system_metrics_body(self.fleet, job, minutes, readings),
            )
            metrics = body.decode() if text or readings.system_metrics == "string" else msgspec.Raw(body)
        described = description_document(version, now_ms, readings.no_time)
        return {**described, "model_metric_list": evaluation, "system_metric_list": metrics}

    def _kept(self, key: tuple[Any, ...], served: tuple[int, int], make: Callable[[], bytes]) -> bytes:
        """Give the body that was made last for the key, or make it where other minutes are served by now."""
        before, body = self._bodies.get(key, ((-1, -1), b""))
        if before != served:
            body = make()
            while len(self._bodies) >= _BODIES_KEPT:
                del self._bodies[next(iter(self._bodies))]
            self._bodies[key] = served, body
        return body

    def _job(self, request: web.Request) -> list[Version]:
        versions = self._by_job.get(_id(request, "job_id"))
        if versions is None:
            raise self._not_found()
        return versions

    def _version(self, request: web.Request) -> Version:
        version_id = _id(request, "version_id")
        for version in self._job(request):
            if version.version_id == version_id:
                return version
        raise self._not_found()

    def _not_found(self) -> ApiError:
        return ApiError(400, self.readings.unknown_job_code, "The training job was not found.")


def _id(request: web.Request, name: str) -> int:
    text = request.match_info[name]
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise ApiError(400, "ModelArts.0104", f"Invalid parameter {name}: it must be a whole number.")
    return int(text)
