"""What a collector passes on to providers that can do more: totals, evaluations, partial listings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

import metricsbridge as mb
from fake_provider import FakeProvider
from metricsbridge.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

JOBS = {"job-1": ["worker-0", "worker-1"], "job-2": ["worker-0"]}
WINDOW = mb.Window(0, 10**12)


class Listing(FakeProvider):
    """Lists its jobs; whole, or only what a listing tells."""

    def __init__(self, *, partial: bool = False, kind: str = "gpu") -> None:
        super().__init__(JOBS)
        self.partial = partial
        self.kind = kind

    async def list_jobs(self, search: mb.JobSearch, /) -> AsyncIterator[mb.Job]:
        for name in JOBS:
            job = await FakeProvider(JOBS).get_job(name)
            tasks = () if self.partial else job.tasks
            yield attrs.evolve(
                job, tasks=tasks, partial=self.partial, accelerators=mb.Accelerators(kind=self.kind, count=8)
            )


class Counting(Listing):
    """Counts its jobs itself."""

    async def job_totals(self, search: mb.JobSearch, /) -> Sequence[mb.JobTotals]:
        return [mb.JobTotals(status=mb.JobStatus.FAILED, vendor_status="11", jobs=search.limit or 0, gpus=1, npus=2)]


class Evaluating(FakeProvider):
    """Knows how good a model is."""

    async def evaluations(self, job_id: str, /) -> Sequence[mb.Evaluation]:
        return [mb.Evaluation(metrics={"recall": len(job_id) / 10})]


def collector(provider: FakeProvider) -> mb.Collector:
    return mb.Collector({"x": provider}, clock=FakeClock(10**12))


async def test_a_partial_job_is_described_before_it_is_planned() -> None:
    provider = Listing(partial=True)
    async with collector(provider) as opened:
        jobs = [job async for job in opened.list_jobs("x")]
        assert {job.partial for job in jobs} == {True}
        result = await opened.collect(jobs, window=WINDOW)
    assert provider.described == list(JOBS)
    assert {(key.job, key.task) for key in result.series.keys} == {(job, task) for job in JOBS for task in JOBS[job]}


@pytest.mark.parametrize("kind", ["gpu", "npu"])
async def test_jobs_are_counted_by_listing_where_the_provider_cannot_count(kind: str) -> None:
    async with collector(Listing(kind=kind)) as opened:
        (totals,) = await opened.job_totals("x")
    assert (totals.status, totals.jobs) == (mb.JobStatus.RUNNING, 2)
    assert (totals.gpus, totals.npus) == ((24, 0) if kind == "gpu" else (0, 24))


async def test_a_listing_that_lacks_the_devices_is_not_counted_as_zero() -> None:
    async with collector(Listing(partial=True)) as opened:
        with pytest.raises(mb.ConfigurationError, match="list its jobs"):
            await opened.job_totals("x")


async def test_a_provider_that_counts_is_asked() -> None:
    async with collector(Counting()) as opened:
        (totals,) = await opened.job_totals("x", mb.JobSearch(limit=7))
    assert (totals.vendor_status, totals.jobs, totals.npus) == ("11", 7, 2)


async def test_evaluations_are_those_of_the_job() -> None:
    async with collector(Evaluating(JOBS)) as opened:
        assert [found.metrics for found in await opened.evaluations("x/10/3")] == [{"recall": 0.4}]
        assert await opened.evaluations(mb.JobRef("x", "ab")) == (mb.Evaluation(metrics={"recall": 0.2}),)


async def test_a_source_without_evaluations_says_so() -> None:
    async with collector(FakeProvider(JOBS)) as opened:
        with pytest.raises(mb.ConfigurationError, match="evaluations"):
            await opened.evaluations("x/job-1")
        with pytest.raises(mb.ConfigurationError, match="no source"):
            await opened.evaluations("y/job-1")
