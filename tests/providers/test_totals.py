"""The jobs and devices of one fleet, counted through every cloud."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import metricsbridge as mb
from emulated_clouds import CLOUDS, Cloud
from in_process import URL, in_process
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metricsbridge.testing.fleet import FleetJob

FLEET = Fleet(seed=4, size=30)


def counted(jobs: Iterable[FleetJob], *, npus: bool) -> dict[mb.JobStatus, tuple[int, int, int]]:
    """Count the fleet's jobs, GPUs and NPUs by status."""
    counts: dict[mb.JobStatus, Counter[str]] = {}
    for job in jobs:
        counts.setdefault(job.status, Counter()).update({"jobs": 1, job.device_kind: job.devices * len(job.tasks)})
    return {status: (n["jobs"], n["gpu"], n["npu"] if npus else 0) for status, n in counts.items()}


@pytest.mark.parametrize("search", [
    mb.JobSearch(), mb.JobSearch(status=["running", "failed"]), mb.JobSearch(name="gpu"),
    mb.JobSearch(created=mb.Window(FLEET.now_ms - 90_000_000, FLEET.now_ms)), mb.JobSearch(status=["paused"]),
], ids=["all", "by status", "by name", "by time", "none"])  # fmt: skip
@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
async def test_jobs_and_devices_are_counted_as_the_fleet_has_them(cloud: Cloud, search: mb.JobSearch) -> None:
    clock = FakeClock(FLEET.now_ms)
    app = cloud.create(fleet=FLEET, now_ms=clock.now_ms)
    provider = mb.open_provider(
        cloud.provider, transport=in_process(app, clock), clock=clock, **app[EMULATOR].settings(URL)
    )
    async with mb.Collector({"x": provider}, clock=clock) as collector:
        totals = await collector.job_totals("x", search)
        listed = [job async for job in collector.list_jobs("x", search)]
    found: dict[mb.JobStatus, tuple[int, int, int]] = {}
    for each in totals:
        jobs, gpus, npus = found.get(each.status, (0, 0, 0))
        found[each.status] = jobs + each.jobs, gpus + each.gpus, npus + each.npus
    ids = {job.id for job in listed}
    chosen = [job for job in FLEET.jobs if cloud.job_ids(FLEET)[job.id] in ids]
    if search.name is None:  # versions of a job share its name, which is that of one of them
        assert chosen == [
            job for job in FLEET.jobs
            if (search.status is None or job.status in search.status)
            and (search.created is None or job.create_time_ms in search.created)
        ]  # fmt: skip
    assert found == counted(chosen, npus=cloud.provider != "pai-dlc")
    assert bool(found) is (search.status != frozenset({mb.JobStatus.PAUSED}))
