"""A plan says what a collection would send, and sends nothing but what describing jobs takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from msgspec.structs import replace

import metricsbridge as mb
from fake_provider import MINUTE, WINDOW, A, B, C, FakeProvider
from metricsbridge.runtime._limits import LimitTransport
from metricsbridge.runtime._retry import RetryTransport
from metricsbridge.runtime._watch import SendWatch
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
                replace(call, operation="Odd" if call.metrics == (B,) else "Even") for call in super().plan(job, query)
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


class Kept(FakeProvider):
    """Keeps its transport where its author likes to."""

    def __init__(self, client: object) -> None:
        super().__init__({"j": ["w0", "w1", "w2", "w3"]}, halves=1)
        self._client = client


class Inside:
    __slots__ = ("transport",)

    def __init__(self, transport: object) -> None:
        self.transport = transport


def layers(quota: mb.Quota, *, watched: bool = False, **limits: str) -> Any:
    rates = {operation: mb.Rate.parse(text) for operation, text in limits.items()}
    clock = FakeClock()
    retrying = RetryTransport(
        LimitTransport(FakeTransport(lambda request: None), "me", rates, quota, clock), "p", clock
    )
    return SendWatch(retrying, clock) if watched else retrying


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 4])
async def test_the_limits_are_found_wherever_a_provider_keeps_its_transport(depth: int, watched: bool) -> None:
    client = layers(mb.Quota(), watched=watched, Read="2/s")
    for _ in range(depth):
        client = Inside(client)
    plan = await collector(x=Kept(client)).plan("x/j", window=WINDOW, metrics=[A])
    assert (plan.calls, plan.operations[0].rate, plan.seconds) == (4, mb.Rate(2), 2.0)


async def test_a_provider_around_which_there_is_no_end_of_objects_has_no_known_limit() -> None:
    class Endless:
        def __getattr__(self, name: str) -> Any:
            return {"next": Endless()} if name == "__dict__" else None

    ring = Inside(None)
    ring.transport = ring
    for client in (ring, Endless(), pytest, FakeClock):
        plan = await collector(x=Kept(client)).plan("x/j", window=WINDOW)
        assert (plan.operations[0].rate, plan.seconds) == (None, None)


@pytest.mark.parametrize(
    ("limits", "rate"), [({}, 20.0), ({"Read": "unlimited"}, 20.0), ({"Read": "8/s"}, 4.0), ({"Read": "16/h"}, None)]
)
@pytest.mark.parametrize("shared", [True, False])
async def test_what_was_learned_counts(limits: dict[str, str], rate: float | None, shared: bool) -> None:
    """A refusal: of the rate where none was known the beginning is left, else half; but the slowest is a slow one."""
    own, quota = mb.Quota(), mb.Quota() if shared else None
    c = mb.Collector({"x": Kept(layers(own, **limits))}, quota=quota, clock=FakeClock(10 * MINUTE))
    told = [mb.Rate.parse(text) for text in limits.values() if text != "unlimited"]
    before = (await c.plan("x/j", window=WINDOW)).operations[0]
    assert before.rate == (told[0] if told else None)
    asked = (quota or own).controller("me", "Read", told[0].per_second if told else None)
    asked.throttle.refused(1.0, 0.5, None)
    after = await c.plan("x/j", window=WINDOW)
    assert after.operations[0].rate == (mb.Rate(rate) if rate else told[0])
    assert after.operations[0].rate is not None
    assert after.seconds == pytest.approx(after.calls / after.operations[0].rate.per_second)


async def test_a_plan_leaves_the_quota_as_it_is() -> None:
    """Another collector may be held to more; what is only planned slows it down by nothing."""
    quota = mb.Quota()
    other = quota.controller("me", "Read", 50.0)
    c = mb.Collector({"x": Kept(layers(mb.Quota(), Read="2/s"))}, quota=quota, clock=FakeClock(10 * MINUTE))
    assert (await c.plan("x/j", window=WINDOW)).operations[0].rate == mb.Rate(2)
    assert other.throttle.sustained_per_second == 50
