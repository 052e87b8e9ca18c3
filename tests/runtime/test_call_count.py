"""What a fetched body costs in Python functions called: a measure that no noise of the machine touches."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from metricsbridge import Collector, open_provider
from static_service import serve_static

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

MOST: Final = 1.25
"""Times the calls of plain aiohttp, which reads the same bodies and throws them away."""

JOBS, TASKS, POINTS, AT_ONCE = 20, 50, 60, 16
START_MS: Final = 1_700_000_040_000
METRICS: Final = ("cpuUsage", "memUsage", "npuUtil", "npuMemUsage", "gpuUtil", "gpuMemUsage")
BODY: Final = json.dumps({
    "metrics": [{"metric": name, "value": [index + 0.25] * POINTS} for index, name in enumerate(METRICS)]
}).encode()  # fmt: skip
LIMITS: Final = dict.fromkeys(("*", "ShowTrainingJobMetrics", "ShowTrainingJobDetails"), "unlimited")


def answer(path: str) -> bytes:
    if "/metrics/" in path:
        return BODY
    status = {
        "phase": "Completed", "start_time": START_MS, "duration": POINTS * 60_000 - 30_000,
        "tasks": [f"worker-{index}" for index in range(TASKS)],
    }  # fmt: skip
    metadata = {"id": path.rpartition("/")[2], "name": "static", "create_time": START_MS}
    return json.dumps({"kind": "job", "metadata": metadata, "status": status, "spec": {}}).encode()


async def calls_of(read: Callable[[], Awaitable[object]]) -> float:
    """Count the Python functions that are called for each body, connections being open."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    await read()
    sys.setprofile(note)
    try:
        await read()
    finally:
        sys.setprofile(None)
    return count / (JOBS * TASKS)


async def ours(url: str) -> float:
    provider = open_provider(
        "modelarts", endpoint=url, project_id="p", access_key="AK", secret_key="an example of a key", limits=LIMITS
    )
    async with Collector({"hw": provider}, concurrency=AT_ONCE) as collector:

        async def read() -> None:
            result: Any = await collector.collect([f"hw/job-{index}" for index in range(JOBS)])
            assert len(result.series) == JOBS * TASKS * len(METRICS)
            assert not result.failures

        return await calls_of(read)


async def plain(url: str) -> float:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def work(paths: Iterator[str]) -> None:
            for path in paths:
                async with session.get(url + path) as response:
                    assert await response.read() == BODY

        async def read() -> None:
            paths = (
                f"/v2/p/training-jobs/job-{job}/metrics/worker-{task}" for job in range(JOBS) for task in range(TASKS)
            )
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(work(paths))

        return await calls_of(read)


async def test_a_fetched_body_costs_little_more_calls_than_reading_it_with_plain_aiohttp() -> None:
    with serve_static(answer) as url:
        reference, found = await plain(url), await ours(url)
    assert found <= MOST * reference, f"{found:.1f} calls against {reference:.1f}: {found / reference:.3f}"
    assert reference > 100  # they were counted
    print(f"{found:.1f} calls against {reference:.1f}: {found / reference:.3f}")
