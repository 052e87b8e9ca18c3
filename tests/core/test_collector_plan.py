"""A plan says what a collection would send, and sends nothing but what describing jobs takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, B, C, FakeProvider
from metricsbridge.testing import FakeClock, FakeTransport

if TYPE_CHECKING:
    from metricsbridge.http import Response

JOBS = {f"job-{i}": [f"worker-{t}" for t in range(i + 1)] for i in range(4)}
REFS = [f"x/{job}" for job in JOBS]


def collector(**providers: Any) -> mb.Collector:
    return mb.Collector(providers, clock=FakeClock(10 * MINUTE))


async def test_a_plan_counts_the_calls_that_collecting_then_makes() -> None:
    provider = FakeProvider(JOBS)
    c = collector(x=provider)
    plan = await c.plan(REFS, window=WINDOW)
    assert provider.fetched == []
    (calls,) = plan.operations
    assert (calls.source, calls.operation, calls.jobs, calls.targets) == ("x", "Read", 4, 10)
    assert (calls.rate, calls.seconds, plan.seconds) == (None, None, None)
    assert [job.id for job in plan.jobs] == list(JOBS)
    await c.collect(plan.jobs, window=WINDOW)
    assert plan.calls == calls.calls == len(provider.fetched) == 40
    assert len(provider.described) == 4


async def test_a_plan_takes_what_collect_takes() -> None:
    c = collector(x=FakeProvider(JOBS, halves=1))
    assert (await c.plan("x/job-3", window=WINDOW, metrics=[A], tasks=["worker-1"])).calls == 1
    with pytest.raises(ValueError, match="per="):
        await c.plan(REFS, per="node")  # type: ignore[arg-type]
    with pytest.raises(ExceptionGroup):
        await c.plan("x/none", strict=True)


async def test_what_is_missing_already_is_said_and_nothing_else() -> None:
    class Pending(FakeProvider):
        async def get_job(self, job_id: str, /) -> mb.Job:
            job = await super().get_job(job_id)
            return attrs.evolve(job, start_time_ms=None) if job_id == "job-1" else job

    c = collector(x=Pending(JOBS))
    plan = await c.plan(["x/job-0", "x/job-1", "x/none", "y/z"], window=WINDOW, metrics=[A, C])
    told = {(absence.targets, absence.metrics, absence.reason) for absence in plan.absences}
    waiting = (("job-1", "worker-0"), ("job-1", "worker-1"))
    assert told == {
        ((("job-0", "worker-0"),), (C,), "unsupported"), (waiting, (A,), "not-started"), (waiting, (C,), "unsupported"),
    }  # fmt: skip
    assert [type(failure.error) for failure in plan.failures] == [mb.NotFoundError, mb.ConfigurationError]
    assert plan.calls == 2


async def test_operations_and_sources_are_told_apart() -> None:
    class Two(FakeProvider):
        def plan(self, job: mb.Job, query: mb.Query, /) -> Any:
            return [
                attrs.evolve(call, operation="Odd" if call.metrics == (B,) else "Even")
                for call in super().plan(job, query)
            ]

    plan = await collector(x=Two(JOBS), y=FakeProvider(JOBS)).plan(["y/job-0", *REFS], window=WINDOW)
    assert [(each.source, each.operation, each.calls, each.jobs) for each in plan.operations] == [
        ("y", "Read", 4, 1), ("x", "Even", 20, 4), ("x", "Odd", 20, 4),
    ]  # fmt: skip


def opening(transport: FakeTransport, **settings: Any) -> Any:
    return mb.open_provider(
        "modelarts", transport=transport, region="cn-north-4", project_id="p", access_key="a", secret_key="s" * 20,
        **settings,
    )  # fmt: skip


@pytest.fixture
def silent() -> FakeTransport:
    def answer(request: Any) -> Response:
        raise AssertionError("nothing is to be sent")

    return FakeTransport(answer)


def known(job_id: str, tasks: int) -> mb.Job:
    return mb.Job(
        id=job_id,
        status=mb.JobStatus.RUNNING,
        start_time_ms=0,
        tasks=tuple([mb.Task(id=f"w{i}") for i in range(tasks)]),
    )


@pytest.mark.parametrize(
    ("limits", "rate", "seconds"),
    [
        ({"ShowTrainingJobMetrics": "5/s"}, 5.0, 24.0), ({"*": "10/m"}, 1 / 6, 720.0),
        ({"ShowTrainingJobMetrics": "unlimited"}, None, None),
    ],
)  # fmt: skip
async def test_the_limits_say_how_long_it_takes(silent, limits, rate, seconds) -> None:
    async with mb.Collector({"hw": opening(silent, limits=limits)}, clock=FakeClock(10 * MINUTE)) as c:
        plan = await c.plan([known("j", 100), known("k", 20)], window=WINDOW)
    (calls,) = plan.operations
    assert (calls.calls, calls.jobs, calls.targets) == (120, 2, 120)
    assert calls.rate == (rate and mb.Rate(rate))
    assert calls.seconds == plan.seconds == pytest.approx(seconds)
    assert silent.requests == []


async def test_sources_that_share_an_account_s_limit_take_turns_and_others_do_not(silent) -> None:
    limits = {"*": "1/s"}
    jobs = [attrs.evolve(known("j", 10), source=source) for source in ("a", "b")]
    shared = mb.Quota()
    for quota, seconds in ((shared, 20.0), (None, 10.0)):
        sources = {name: opening(silent, limits=limits) for name in ("a", "b")}
        async with mb.Collector(sources, quota=quota, clock=FakeClock(10 * MINUTE)) as c:
            plan = await c.plan(jobs, window=WINDOW)
        assert [each.seconds for each in plan.operations] == [10.0, 10.0]
        assert plan.seconds == seconds
