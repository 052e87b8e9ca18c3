"""The vendor's own clients of PAI-DLC and CloudMonitor in front of an emulator: what several tests of it share."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from alibabacloud_cms20190101.client import Client as CmsClient
from alibabacloud_pai_dlc20201203.client import Client as DlcClient
from alibabacloud_tea_openapi.utils_models import Config
from darabonba.core import DaraCore

from metricsbridge.model import JobStatus
from metricsbridge.testing.emulator import serve
from metricsbridge.testing.fleet import MINUTE_MS
from metricsbridge_pai._emulated import gateway as gate
from metricsbridge_pai.emulator import is_general, job_ids

NAMESPACE = "acs_pai_dlc"


@asynccontextmanager
async def vendor_clients(app, *, keys=(gate.ACCESS_KEY_ID, gate.ACCESS_KEY_SECRET), token=None, retry=None):
    """Serve the emulator, and give a function that calls either of the vendor's clients in a thread."""
    async with serve(app) as url:
        config = Config(
            access_key_id=keys[0], access_key_secret=keys[1], security_token=token, protocol="http",
            endpoint=url.removeprefix("http://"), region_id=gate.REGION, retry_options=retry,
        )  # fmt: skip
        clients = (DlcClient(config), CmsClient(config))

        async def call(name, *arguments):
            client = clients[0] if hasattr(clients[0], name) else clients[1]
            return (await asyncio.to_thread(getattr(client, name), *arguments)).body

        try:
            yield call
        finally:
            while DaraCore._sessions:  # the vendor's client never closes them
                DaraCore._sessions.popitem()[1].close()


def text(time_ms):
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first(fleet, chosen):
    """Give the first job that is so, with its id in the emulated service."""
    job = next(job for job in fleet.jobs if chosen(job))
    return job, job_ids(fleet)[job.id]


def general_ended(fleet):
    return first(
        fleet, lambda job: is_general(fleet, job) and job.status is JobStatus.SUCCEEDED and job.device_kind == "gpu"
    )


def quota_ended(fleet):
    return first(fleet, lambda job: not is_general(fleet, job) and job.end_time_ms and job.device_kind == "gpu")


def life(job):
    """Give the ends of a range that holds all points of an ended job."""
    return {"start_time": text(job.first_minute_ms), "end_time": text(job.end_time_ms + 2 * MINUTE_MS)}


def monitored(name, job, of, **more):
    """Give the parameters of a query to CloudMonitor for all points of an ended job; its range is left-open."""
    given = {"start_time": text(job.first_minute_ms - 1000), "end_time": text(job.end_time_ms + 2 * MINUTE_MS)}
    dimensions = json.dumps([{"jobId": of}])
    return {"namespace": NAMESPACE, "metric_name": name, "dimensions": dimensions, "period": "60", **given, **more}


def truth(fleet, job, task, metric, device=None):
    """Give the fleet's numbers by the starts of minutes, without what is missing."""
    minutes = job.minutes(fleet.now_ms)
    values = fleet.wire_values(job, task, metric, minutes, device=device)
    return {time: value for time, value in zip(minutes.tolist(), values.tolist(), strict=True) if value == value}
