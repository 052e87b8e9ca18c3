"""The simulated service of the reference provider: it answers from the request, over the fleet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np

from metricsbridge.http import Request, Response
from metricsbridge.metrics import METRICS
from metricsbridge.model import JobStatus
from metricsbridge.testing.fleet import MINUTE_MS, Fleet, FleetJob
from reference_provider import CATALOG, MOST_POINTS

if TYPE_CHECKING:
    from metricsbridge.testing import FakeClock

TOKEN: Final = "made-up-token-0815"
URL: Final = "https://reference.test"
_STATES: Final = {
    JobStatus.PENDING: "QUEUED",
    JobStatus.RUNNING: "ACTIVE",
    JobStatus.SUCCEEDED: "DONE",
    JobStatus.FAILED: "BROKEN",
    JobStatus.STOPPED: "HALTED",
}
_METRICS: Final = {entry.name: metric for metric, entry in CATALOG.items()}


def _answer(document: Any, status: int = 200) -> Response:
    return Response(status, {"Content-Type": "application/json"}, json.dumps(document).encode())


def _refuse(status: int, code: str) -> Response:
    return _answer({"error": {"code": code, "message": f"{code}: refused"}}, status)


class SimulatedReference:
    def __init__(self, fleet: Fleet, clock: FakeClock) -> None:
        self.fleet = fleet
        self.clock = clock
        self.jobs = sorted(fleet.jobs, key=lambda job: -job.create_time_ms)

    def __call__(self, request: Request) -> Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _refuse(401, "BadToken")
        path = [unquote(part) for part in request.url.removeprefix(f"{URL}/v1/").split("/")]
        params = dict(request.params)
        if path == ["jobs"]:
            return self.list_jobs(params)
        job = next((job for job in self.jobs if path[0] == "jobs" and job.id == path[1]), None)
        if job is None:
            return _refuse(404, "NoSuchJob")
        if len(path) == 2:
            return _answer(self.item(job))
        return self.metric(job, path[3], params)

    def list_jobs(self, params: dict[str, str]) -> Response:
        number, size = int(params["page"]), int(params["size"])
        found = [
            job for job in self.jobs
            if int(params.get("since", 0)) <= job.create_time_ms <= int(params.get("until", 2**62))
        ]  # fmt: skip
        if params.get("order") != "newest":
            found.reverse()
        page = found[(number - 1) * size : number * size]
        return _answer({"total": len(found), "jobs": [self.item(job) for job in page]})

    def item(self, job: FleetJob) -> dict[str, Any]:
        devices = {"kind": job.device_kind, "count": job.devices} if job.devices else None
        return {
            "id": job.id, "name": job.name, "state": _STATES[job.status], "workers": list(job.tasks),
            "created_ms": job.create_time_ms, "started_ms": job.start_time_ms, "ended_ms": job.end_time_ms,
            "devices": devices,
        }  # fmt: skip

    def metric(self, job: FleetJob, name: str, params: dict[str, str]) -> Response:
        metric = _METRICS.get(name)
        first, last = int(params["from"]) * 1000, int(params["to"]) * 1000
        if metric is None or last < first or (last - first) // MINUTE_MS >= MOST_POINTS:
            return _refuse(400, "BadRange")
        minutes = job.minutes(self.clock.now_ms())
        ends = minutes + MINUTE_MS
        minutes = minutes[(ends >= first) & (ends <= last)]
        series: list[dict[str, Any]] = []
        if params["of"] == "job":
            rows = np.array([self.fleet.wire_values(job, task, metric, minutes) for task in job.tasks])
            count = np.count_nonzero(~np.isnan(rows), axis=0)
            mean = np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)
            series.append({"points": self.points(metric, minutes, mean)})
        for worker in [task for task in job.tasks if task in params.get("workers", "").split(",")]:
            for device in range(job.devices) if params["of"] == "device" else [None]:
                values = self.fleet.wire_values(job, worker, metric, minutes, device=device)
                series.append({"worker": worker, "device": device, "points": self.points(metric, minutes, values)})
        return _answer({"interval": MINUTE_MS // 1000, "series": series})

    def points(self, metric: str, minutes: Any, values: Any) -> list[dict[str, Any]]:
        """Give the points, stamped with the ends of their minutes, -1 where there is no value."""
        if METRICS[metric].unit == "By/s":
            values = values / 1024
        return [
            {"t": (minute + MINUTE_MS) // 1000, "v": -1 if value != value else str(value)}
            for minute, value in zip(minutes.tolist(), values.tolist(), strict=True)
        ]
