"""Raw requests to the emulated PAI-DLC and CloudMonitor: what several tests of the emulator share."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import aiohttp
import attrs

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_pai._emulated import gateway as gate
from metricsbridge_pai._signing import SigningKey, authorization, content_hash
from metricsbridge_pai.emulator import create_app, is_general, job_ids

if TYPE_CHECKING:
    from metricsbridge.testing.faults import Faults

FLEET = Fleet()
IDS = job_ids(FLEET)
GENERAL = next(job for job in FLEET.jobs if is_general(FLEET, job) and job.status is JobStatus.SUCCEEDED)
OTHER = next(job for job in FLEET.jobs if not is_general(FLEET, job) and job.end_time_ms)
KEYS = (gate.ACCESS_KEY_ID, gate.ACCESS_KEY_SECRET)
STS = (gate.TEMPORARY_ACCESS_KEY_ID, gate.TEMPORARY_ACCESS_KEY_SECRET)
LIST = "/api/v1/jobs"
METRICS = f"{LIST}/{IDS[GENERAL.id]}/metrics"
DIMENSIONS = json.dumps([{"jobId": IDS[GENERAL.id]}])
POINTS = {"Namespace": "acs_pai_dlc", "MetricName": "POD_CPU_UTIL", "Dimensions": DIMENSIONS}


def text(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@attrs.define
class Client:
    """Sends requests, signed unless told otherwise, and has the service's clock in its hand."""

    now_ms: int = FLEET.now_ms
    url: str = ""
    session: aiohttp.ClientSession | None = None
    faults: Faults | None = None
    nonces: int = 0

    async def call(
        self, action, path="/", params=None, *, method="GET", body=b"", keys=KEYS, token=None, ahead_s=0, **changed
    ):
        """Send a request; ``changed`` is sent in place of, or beside, what was signed."""
        params = {} if params is None else params
        self.nonces += 1
        signed = {
            "host": urlsplit(self.url).netloc,
            "x-acs-action": action,
            "x-acs-version": gate.CLOUDMONITOR_VERSION if path == "/" else gate.DLC_VERSION,
            "x-acs-date": text(self.now_ms + ahead_s * 1000),
            "x-acs-signature-nonce": f"nonce-{self.nonces}",
            "x-acs-content-sha256": content_hash(body),
        }
        if token is not None:
            signed |= {"x-acs-accesskey-id": keys[0], "x-acs-security-token": token}
        if body:
            signed["content-type"] = "application/x-www-form-urlencoded"
        if keys:
            signed["Authorization"] = authorization(SigningKey.of(*keys), method, path, params.items(), signed)
        headers = {**signed, **{name.replace("_", "-"): value for name, value in changed.items()}}
        headers = {name: value for name, value in headers.items() if value is not None}
        url = f"{self.url}{path}?{urlencode(params)}"
        async with self.session.request(method, url, data=body or None, headers=headers) as response:
            content = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(content) if is_json else content, response.headers

    async def points(self, **more):
        """Give the points of GetJobMetrics by pod."""
        given = {"MetricType": "CpuCoreUsage", "TimeStep": "1m", **life(GENERAL), **more}
        status, body, _ = await self.call("GetJobMetrics", METRICS, given)
        assert status == 200
        return {pod["PodId"]: [(p["Time"], p["Value"]) for p in pod["Metrics"]] for pod in body["PodMetrics"]}

    async def rows(self, **more):
        """Give the rows of DescribeMetricList."""
        status, body, _ = await self.call("DescribeMetricList", "/", {**POINTS, **life(GENERAL), **more})
        assert (status, body["Code"]) == (200, "200")
        return json.loads(body["Datapoints"])


def life(job):
    return {"StartTime": text(job.first_minute_ms - MINUTE_MS), "EndTime": text(job.end_time_ms + 2 * MINUTE_MS)}


@asynccontextmanager
async def emulator(**chosen):
    client = Client()
    app = create_app(fleet=FLEET, now_ms=lambda: client.now_ms, **chosen)
    client.faults = app[EMULATOR].faults
    async with serve(app) as client.url, aiohttp.ClientSession() as client.session:
        client.session._retry_connection = False  # else a GET that is cut is sent again, unseen
        yield client


def refused(answer, status, code):
    got, body, _ = answer
    assert (got, body["Code"], bool(body["Message"])) == (status, code, True)
    assert body["RequestId"]
    assert body["HostId"].startswith("127.0.0.1:")
    return body["Message"]
