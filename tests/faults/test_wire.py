"""Each fault of the wire, byte by byte: what becomes of the call, what is said, what is tried again, what is left."""

from __future__ import annotations

import logging
import re
import traceback
import tracemalloc
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import metricsbridge as mb
from emulated_clouds import CLOUDS, minute_of
from fake_provider import account
from metricsbridge.config import ConnectionSettings
from metricsbridge.http import Request
from metricsbridge.runtime._transport import HttpTransport, open_session
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR, serve
from metricsbridge.testing.fleet import Fleet
from servers import http, read_request, tcp_server
from wire_faults import MAX_BODY, TIMEOUT_S, WIRE_FAULTS, WireFault, gate

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

CPU: Final = "container.cpu.utilization"
FLEET: Final = Fleet(longest_minutes=60)
JOB, TASK = FLEET.jobs[0], FLEET.jobs[0].tasks[0]
[CLOUD] = [cloud for cloud in CLOUDS if cloud.provider == "modelarts"]
ATTEMPTS: Final = 7
SLACK: Final = 16 * 2**20
"""What a body that is refused for its size may take beside, in bytes: what the library below unpacks at once."""

secrets: Final = CLOUD.create(fleet=FLEET)[EMULATOR].settings("")["secret_key"]
faults = pytest.mark.parametrize("fault", WIRE_FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))


async def read(choose: Callable[[], WireFault | None], *, timeout: float = 60.0) -> mb.Collection:
    """Describe the job, all well; then collect one unit of it, which is one request, through a gate."""
    clock = FakeClock(FLEET.now_ms)
    app = CLOUD.create(fleet=FLEET, now_ms=clock.now_ms)
    settings = app[EMULATOR].settings
    async with serve(app) as service, gate(service, choose) as url:
        async with mb.open_provider(CLOUD.provider, clock=clock, **settings(service)) as provider:
            job = await provider.get_job(JOB.id)
        limited = {**settings(url), "timeout": timeout, "max_body": MAX_BODY}
        async with (
            mb.open_provider(CLOUD.provider, clock=clock, **limited) as provider,
            mb.Collector({"x": provider}, clock=clock) as collector,
        ):
            return await collector.collect(job, metrics=[CPU], tasks=[TASK])


def always(fault: WireFault) -> Callable[[], WireFault | None]:
    return lambda: fault


def once(fault: WireFault) -> Callable[[], WireFault | None]:
    met = iter([fault])
    return lambda: next(met, None)


@faults
async def test_a_call_that_always_meets_it_fails_alone_with_its_class_and_advice(
    fault: WireFault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    result = await read(always(fault), timeout=TIMEOUT_S if fault.timeout else 60.0)
    unit = ("x", JOB.id, TASK, CPU)
    if fault.error is None:
        assert account(result) == ({unit}, set(), set())
        return
    assert account(result) == (set(), set(), {unit})
    [failure] = result.failures
    error = failure.error
    assert type(error) is fault.error
    assert re.search(fault.says, str(error))
    assert error.operation == "ShowTrainingJobMetrics"
    assert failure.attempts == (ATTEMPTS if error.retried else 1)
    shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    for text in (shown, repr(error), repr(result), caplog.text):
        assert secrets not in text
        assert "Signature=" not in text
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@faults
async def test_a_call_that_meets_it_once_is_tried_again_where_that_may_help(fault: WireFault) -> None:
    result = await read(once(fault), timeout=2.0 if fault.timeout else 60.0)
    if fault.error is None or fault.error.retried:
        assert result.complete
        [(_, times, values)] = result.series
        times = minute_of(times)
        np.testing.assert_array_equal(values, CLOUD.truth(FLEET, JOB, TASK, CPU, times))
    else:
        assert [type(failure.error) for failure in result.failures] == [fault.error]


@pytest.mark.parametrize("name", ["a body without end", "a gigabyte", "a gzip bomb"])
async def test_a_body_that_is_too_large_takes_no_more_memory_than_is_allowed(name: str) -> None:
    [fault] = [fault for fault in WIRE_FAULTS if fault.name == name]
    tracemalloc.start()
    try:
        await read(always(fault))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_BODY + SLACK


async def test_what_comes_unasked_is_not_the_answer_to_the_next_request() -> None:
    asked = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while True:
            await read_request(reader)
            asked += 1
            unasked = http("200 OK", b"unasked") if asked == 1 else b""
            writer.write(http("200 OK", b"%d" % asked) + unasked)

    async with tcp_server(handler) as url, open_session(ConnectionSettings()) as session:
        transport = HttpTransport(session, MAX_BODY, FakeClock())
        assert [(await transport.send(Request("GET", url))).body for _ in range(3)] == [b"1", b"2", b"3"]
