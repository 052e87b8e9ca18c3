"""Jobs that a provider answers for together, in one call, are planned together."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, FakeProvider, batch
from metricsbridge.runtime import _source
from metricsbridge.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS = {f"job-{i}": [f"worker-{t}" for t in range(i % 3 + 1)] for i in range(7)}
REFS = [f"x/{job}" for job in JOBS]


def collector(provider: FakeProvider, *, clock: FakeClock | None = None) -> mb.Collector:
    return mb.Collector({"x": provider}, clock=clock or FakeClock(10 * MINUTE))


class Batching(FakeProvider):
    """Answers for many jobs in one call."""

    max_jobs = 3

    def plan_jobs(self, jobs: Sequence[mb.Job], query: mb.Query, /) -> list[mb.Call]:
        assert 1 <= len(jobs) <= self.max_jobs
        targets = tuple([(job.id, task.id) for job in jobs for task in job.tasks])
        return [mb.Call(operation="ReadMany", targets=targets, metrics=(A,), window=query.window)]

    @staticmethod
    def default_answer(call: mb.Call) -> mb.SeriesBatch:
        return mb.concat([batch(job, task, A, [(call.window.start_ms, 1.0)]) for job, task in call.targets])


@pytest.mark.parametrize("window", [WINDOW, None])
async def test_jobs_are_planned_together_where_the_provider_can(window: Any) -> None:
    provider = Batching(JOBS)
    assert isinstance(provider, mb.SupportsBatchPlanning)
    result = await collector(provider).collect(REFS, window=window, metrics=[A])
    assert len(provider.fetched) == 3
    assert result.complete
    assert {(key.job, key.task) for key in result.series.keys} == {(j, t) for j, tasks in JOBS.items() for t in tasks}


@pytest.mark.parametrize("alone", [1, 4096])
async def test_jobs_that_are_planned_together_keep_their_places(alone: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are described first are planned together, wherever they stand in the input."""
    monkeypatch.setattr(_source, "_ALONE", alone)
    clock, dice = FakeClock(10 * MINUTE), random.Random(6)

    class Slow(Batching):
        async def get_job(self, job_id: str, /) -> mb.Job:
            await clock.sleep(dice.random())
            return await super().get_job(job_id)

    order = dice.sample(REFS, len(REFS))
    result = await collector(Slow(JOBS), clock=clock).collect(order, window=WINDOW, metrics=[A])
    assert result.complete
    assert list(dict.fromkeys(f"x/{key.job}" for key in result.series.keys)) == order
    assert len(result.series) == sum(len(tasks) for tasks in JOBS.values())
