"""What an observer is told is what happened: every request, every call, with the times of the clock in force."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metricsbridge as mb
from metricsbridge.http import Request, Response, classify_by_status
from metricsbridge.observer import guarded
from metricsbridge.protocols import NoAuthentication
from metricsbridge.registry import open_spec
from metricsbridge.runtime._credentials import Scrubber
from metricsbridge.runtime._transport import HttpTransport
from metricsbridge.runtime._watch import RequestWatch, SendWatch
from metricsbridge.testing import FakeClock, FakeTransport
from watched_service import FAULTS, JOBS, OK, PASSWORD, URL, WATCHED, WINDOW, Notes, Seen, Service, Watched, opened


async def collected(
    service: Service,
    notes: Notes,
    jobs: list[str] = JOBS,
    *,
    timeout: float | None = None,
    call_timeout: float | None = None,
    **options: Any,
) -> tuple[mb.Collection, list[tuple[str, str]]]:
    sources = {"hw": opened(service)}
    collector = mb.Collector(sources, clock=service.clock, observer=notes, **options)
    async with collector:
        result = await collector.collect(jobs, window=WINDOW, timeout=timeout, call_timeout=call_timeout)
        provider = collector._sources["hw"]
        assert isinstance(provider, Watched)
        return result, provider.asked


def as_seen(event: mb.RequestEvent) -> Seen:
    return Seen(event.operation, event.duration_s, event.status, event.error)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32), timeout=st.sampled_from([None, None, 3.0, 40.0]),
    call_timeout=st.sampled_from([None, None, 0.5, 20.0]), concurrency=st.integers(1, 5),
)  # fmt: skip
async def test_each_request_and_each_call_is_told_of_once_whatever_happens(
    seed: int, timeout: float | None, call_timeout: float | None, concurrency: int
) -> None:
    clock, notes, dice = FakeClock(), Notes(), random.Random(seed)
    service = Service(clock, lambda request: (dice.choice(FAULTS), dice.choice([0.0, 0.25, 1.0, 30.0])))
    result, asked = await collected(service, notes, timeout=timeout, call_timeout=call_timeout, concurrency=concurrency)
    assert len(service.transport.requests) == len(service.seen) == len(notes.requests)
    assert Counter(map(as_seen, notes.requests)) == Counter(service.seen)
    described = [(event.operation, event.targets[0][0]) for event in notes.calls]
    assert Counter(described) == Counter(asked)
    assert {event.source for event in (*notes.requests, *notes.calls)} <= {"hw"}
    assert sum(event.points or 0 for event in notes.calls) >= sum(len(v) for _, _, v in result.series)
    check_order(notes)
    failed = {target for failure in result.failures for target in failure.targets if target[1]}
    told = {target for event in notes.calls for target in event.targets if event.error and target[1]}
    assert told <= failed
    assert "CancelledError" not in {event.error for event in notes.calls}


def check_order(notes: Notes) -> None:
    """Hold the events of each call against each other."""
    for call in notes.calls:
        own = [e for e in notes.requests if e.call_id == call.call_id and e.operation != "Login"]
        for before, event in zip([None, *own], own, strict=False):
            assert event.attempt == 1 or (before is not None and event.attempt == before.attempt + 1)
            assert event.wait_s >= 0
        spent = sum(event.wait_s + event.duration_s for event in own)
        if call.error:
            assert spent <= call.duration_s + 1e-6
        else:
            assert spent == pytest.approx(call.duration_s)
            assert own[-1].error == ""
            assert call.points == (6 if call.operation == "Read" else None)


async def test_waits_and_durations_are_those_of_the_clock() -> None:
    clock, notes = FakeClock(), Notes()
    service = Service(clock, lambda request: OK)
    began_ms = clock.now_ms()
    await collected(service, notes, JOBS[:1], concurrency=1)
    assert [(e.operation, e.attempt, e.wait_s, e.duration_s) for e in notes.requests] == [
        ("Login", 1, 0.0, 0.25),
        ("ShowJob", 1, 0.25, 0.25),  # it waited for the log-in
        ("Read", 1, 0.0, 0.25),
        *[("Read", 1, 0.0, 0.25)] * 3,
    ]
    assert [e.started_ms - began_ms for e in notes.requests] == [0, 250, 500, 750, 1000, 1250]
    assert [(e.operation, e.duration_s, e.points) for e in notes.calls] == [
        ("get_job", 0.5, None),
        ("Read", 0.5, 6),
        ("Read", 0.5, 6),
    ]
    assert [e.started_ms - began_ms for e in notes.calls] == [0, 500, 1000]


async def test_the_wait_for_a_turn_and_for_a_retry_stands_in_the_next_event() -> None:
    clock, notes = FakeClock(), Notes()
    statuses, sent_at = iter([200, 429, 200]), []

    def answer(request: Request) -> Response:
        sent_at.append(clock.monotonic())
        return Response(next(statuses), {"Retry-After": "90"}, b"{}")

    unsigned = attrs.evolve(WATCHED, authenticator=lambda settings: NoAuthentication())
    transport = FakeTransport(answer, clock=clock)
    async with open_spec(
        "watched", unsigned, transport=transport, observer=notes, password=PASSWORD, limits={"ShowJob": "1/m"}
    ) as provider:
        await provider.get_job("first")
        await provider.get_job("second")
    first, second, third = sent_at
    assert second - first >= 59
    assert third - second >= 90
    assert [(e.attempt, e.status, e.wait_s, e.error) for e in notes.requests] == [
        (1, 200, 0.0, ""),
        (1, 429, second - first, "ThrottledError"),
        (2, 200, third - second, ""),
    ]
    assert len({e.call_id for e in notes.requests}) == 2
    assert {e.source for e in notes.requests} == {""}


async def test_a_renewed_credential_is_one_more_request_and_a_log_in_of_the_same_call() -> None:
    clock, notes = FakeClock(), Notes()
    faults = iter(["ok", "expired"])
    service = Service(clock, lambda request: (next(faults, "ok"), 0.0))
    await collected(service, notes, JOBS[:1])
    first = [(e.operation, e.attempt, e.status, e.error) for e in notes.requests[:4]]
    assert first == [
        ("Login", 1, 200, ""),
        ("ShowJob", 1, 401, "AuthenticationError"),
        ("Login", 1, 200, ""),
        ("ShowJob", 2, 200, ""),
    ]
    assert len({e.call_id for e in notes.requests[:4]}) == 1


@pytest.mark.parametrize("bounds", [{"timeout": 10}, {"call_timeout": 8}, {"timeout": 10, "call_timeout": 9}])
async def test_a_call_that_is_cut_off_is_told_of_with_the_request_that_was_under_way(bounds: Any) -> None:
    clock, notes = FakeClock(), Notes()
    service = Service(clock, lambda request: ("ok", 1000.0 if request.operation == "Read" else 1.0))
    result, _ = await collected(service, notes, JOBS[:1], **bounds)
    assert {(e.operation, e.error, e.status, e.duration_s) for e in notes.requests if e.operation == "Read"} == {
        ("Read", "CancelledError", None, 8.0)
    }
    assert {(e.operation, e.error, e.points) for e in notes.calls} == {
        ("get_job", "", None),
        ("Read", "DeadlineExceededError", None),
    }
    assert {type(failure.error) for failure in result.failures} == {mb.DeadlineExceededError}


async def test_a_call_that_the_caller_gives_up_was_cancelled() -> None:
    clock, notes = FakeClock(), Notes()
    service = Service(clock, lambda request: OK)
    async with (
        mb.Collector({"hw": opened(service)}, clock=clock, observer=notes) as collector,
        collector.stream(JOBS[:1], window=WINDOW, timeout=60, call_timeout=60) as parts,
    ):
        await anext(parts)
    assert {(e.operation, e.error) for e in notes.calls} == {("get_job", ""), ("Read", "CancelledError")}


async def test_a_partial_answer_is_told_of_with_its_error_and_its_points() -> None:
    clock, notes = FakeClock(), Notes()
    service = Service(
        clock, lambda request: ("404" if dict(request.params).get("page") == "1" else "ok", 0.0)
    )  # fmt: skip
    await collected(service, notes, JOBS[:1])
    assert {(e.operation, e.error, e.points) for e in notes.calls} == {
        ("get_job", "", None),
        ("Read", "PartialDataError", 3),
    }


class Broken:
    """A provider that gives what it may not."""

    async def get_job(self, job_id: str, /) -> Any:
        return None if job_id == "none" else mb.Job(id=job_id, status=mb.JobStatus.RUNNING, start_time_ms=0)

    def plan(self, job: mb.Job, query: mb.Query, /) -> list[mb.Call]:
        return [mb.Call(operation="Read", targets=((job.id, ""),), metrics=("hw.power",), window=query.window)]

    async def fetch(self, call: mb.Call, /) -> Any:
        if call.targets[0][0] == "bug":
            raise KeyError("oops")
        return []


async def test_what_a_provider_breaks_with_is_told() -> None:
    notes = Notes()
    broken: Any = Broken()
    await mb.Collector({"x": broken}, observer=notes, concurrency=1).collect(["x/none", "x/list", "x/bug"])
    assert [(e.targets[0][0], e.operation, e.error, e.points) for e in notes.calls] == [
        ("none", "get_job", "TypeError", None),
        ("list", "get_job", "", None),
        ("list", "Read", "TypeError", None),
        ("bug", "get_job", "", None),
        ("bug", "Read", "KeyError", None),
    ]


class Batching(Watched):
    """Answers for two jobs in one call."""

    max_jobs = 2

    def plan_jobs(self, jobs: Any, query: mb.Query, /) -> list[mb.Call]:
        targets = tuple([(job.id, "a") for job in jobs])
        return [mb.Call(operation="Read", targets=targets, metrics=("hw.power",), window=query.window)]


async def test_jobs_are_planned_together_as_well_when_someone_watches() -> None:
    notes = Notes()
    service = Service(FakeClock(), lambda request: OK)
    async with opened(service) as provider:
        batching = Batching(provider.transport, pages=1)
        await mb.Collector({"hw": batching}, clock=service.clock, observer=notes).collect(JOBS, window=WINDOW)
    assert [len(e.targets) for e in notes.calls if e.operation == "Read"] == [2, 2]
    assert notes.requests == []  # nobody watches the provider


async def test_outside_of_a_collection_a_log_in_still_belongs_to_the_request_that_causes_it() -> None:
    notes = Notes()
    service = Service(FakeClock(), lambda request: OK)
    async with opened(service, observer=notes) as provider:
        for job in ("i", "j"):
            await provider.get_job(job)
    login, first, second = [e.call_id for e in notes.requests]
    assert login == first != second
    assert notes.calls == []


async def test_a_source_is_named_as_the_collector_names_it_whoever_opened_it() -> None:
    own, outer = Notes(), Notes()
    service = Service(FakeClock(), lambda request: OK)
    async with opened(service, observer=own) as provider:
        await provider.get_job("j")
        await mb.Collector({"east": provider}, clock=service.clock).collect("east/j", window=WINDOW)
    assert [e.source for e in own.requests] == ["", "", "east", *["east"] * 4]
    async with mb.Collector({"west": opened(service)}, clock=service.clock, observer=outer) as collector:
        await collector._sources["west"].get_job("j")
    assert [e.source for e in outer.requests] == ["west", "west"]


async def test_a_redirect_is_told_as_the_error_that_it_becomes() -> None:
    notes = Notes()
    lenient = attrs.evolve(WATCHED, classify=lambda response: None)
    service = Service(FakeClock(), lambda request: ("302" if request.operation == "ShowJob" else "ok", 0.0))
    async with open_spec(
        "watched", lenient, transport=service.transport, observer=notes, password=PASSWORD
    ) as provider:
        with pytest.raises(mb.InvalidRequestError):
            await provider.get_job("j")
    assert [(e.status, e.error) for e in notes.requests] == [(200, ""), (302, "InvalidRequestError")]


async def test_a_vendor_s_code_is_told_and_no_secret_is() -> None:
    clock, notes = FakeClock(), Notes()
    leaking = attrs.evolve(
        WATCHED, classify=lambda r: mb.ThrottledError("no", code=f"C token-1-{PASSWORD}") if r.status == 400 else None
    )
    faults = iter(["code", "ok", "ok", "code"])
    service = Service(clock, lambda request: (next(faults, "ok"), 0.0))
    async with open_spec(
        "watched", leaking, transport=service.transport, observer=notes, password=PASSWORD
    ) as provider:
        job = await provider.get_job("j")
        await provider.fetch(provider.plan(job, mb.Query(window=WINDOW))[0])
    # A log-in knows the settings, whatever follows it the credential.
    assert [(e.operation, e.code) for e in notes.requests if e.code] == [("Login", "C token-1-***"), ("Read", "C ***")]
    assert PASSWORD not in repr(notes.requests)
    assert {e.url for e in notes.requests} == {f"{URL}/login", f"{URL}/jobs/j", f"{URL}/data"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@host:8443/a/b?sign=secret#secret", "https://host:8443/a/b"),
        ("https://host/a@b", "https://host/a@b"),
        ("https://host?secret", "https://host"),
    ],
)
async def test_a_url_is_shown_without_user_and_query(url: str, shown: str) -> None:
    notes = Notes()
    transport = watched(FakeTransport(lambda request: Response(200)), notes, FakeClock())
    await transport.send(Request("GET", url))
    assert notes.requests[0].url == shown


def watched(inner: Any, observer: Any, clock: FakeClock) -> SendWatch:
    inside = RequestWatch(
        inner=inner, observer=guarded(observer), provider="p", source="s", classify=classify_by_status,
        store=Scrubber(None), clock=clock,
    )  # fmt: skip
    return SendWatch(inside, clock)


async def test_the_wait_for_a_free_connection_is_no_part_of_the_duration() -> None:
    clock, notes = FakeClock(), Notes()

    class Session:
        connector = SimpleNamespace(limit=1)
        timeout = aiohttp.ClientTimeout()
        closed = False

        async def request(self, *args: Any, **options: Any) -> Any:
            await clock.sleep(5)

            async def readany() -> bytes:
                return b"body"

            content = SimpleNamespace(readany=readany, at_eof=lambda: True)
            return SimpleNamespace(status=200, headers={}, content=content)

    session: Any = Session()
    transport = watched(HttpTransport(session, 1000, clock), notes, clock)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(transport.send, Request("GET", "http://host/x"))
    assert [(e.wait_s, e.duration_s, e.bytes) for e in notes.requests] == [(0, 5, 4), (5, 5, 4), (10, 5, 4)]


async def test_the_observer_of_a_provider_comes_before_that_of_its_collector() -> None:
    own, outer = Notes(), Notes()
    service = Service(FakeClock(), lambda request: OK)
    async with mb.Collector(
        {"hw": opened(service, observer=own)}, clock=service.clock, observer=outer
    ) as collector:  # fmt: skip
        await collector.collect(JOBS[0], window=WINDOW)
    assert (len(own.requests), len(own.calls)) == (len(service.seen), 0)
    assert (len(outer.requests), len(outer.calls)) == (0, 3)
    assert {e.source for e in own.requests} == {"hw"}


async def test_a_stream_is_watched_as_well() -> None:
    notes = Notes()
    service = Service(FakeClock(), lambda request: OK)
    async with (
        mb.Collector({"hw": opened(service)}, clock=service.clock, observer=notes) as collector,
        collector.stream(JOBS, window=WINDOW) as parts,
    ):
        async for _ in parts:
            pass
    assert len(notes.requests) == len(service.seen)
    assert len(notes.calls) == len(JOBS) * 3
