"""The contestants of the fan-out: each reads the metrics of many tasks, 64 at once."""

from __future__ import annotations

import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
import anyio
import numpy as np
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.http.http_config import HttpConfig
from huaweicloudsdkmodelarts.v1 import ModelArtsAsyncClient, ModelArtsClient, ShowTrainingJobMetricsRequest

from benchmarks.alibaba import AlibabaAsync
from benchmarks.inputs import SCHEMA, metrics_body
from benchmarks.kernel import has_kernel, without_kernel
from metricsbridge.collector import Collector
from metricsbridge.registry import open_provider
from metricsbridge.series._reference_decode import decode_number_arrays_reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from metricsbridge.collection import Collection

CONCURRENCY = 64
_PROJECT = "0123456789abcdef0123456789abcdef"
_ACCESS_KEY, _SECRET_KEY = "EXAMPLEACCESSKEY0000", "example-secret-key-of-no-account"


class Contestant(Protocol):
    """Something that reads tasks' metrics."""

    async def read(self, jobs: int, tasks: int) -> Any:
        """Read the metrics of ``jobs`` x ``tasks`` tasks."""
        ...

    def check(self, answers: Any, jobs: int, tasks: int, points: int) -> None:
        """See that every answer arrived and says what the slow twin reads in the body."""
        ...


class Ours:
    """The collector over the provider: details of each job, signatures, decoding, accounting, one merged result."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def read(self, jobs: int, tasks: int) -> Collection:
        return await self._collector.collect([f"hw/job-{index}" for index in range(jobs)])

    def check(self, answers: Collection, jobs: int, tasks: int, points: int) -> None:
        arrays = decode_number_arrays_reference(metrics_body(points), SCHEMA)
        parts = [arrays.values[a:b] / 100 for a, b in zip(arrays.offsets[:-1], arrays.offsets[1:], strict=True)]
        live = [part for part in parts if not np.isnan(part).all()]
        answers.raise_failures()
        assert len(answers.jobs) == jobs
        assert len(answers.series) == jobs * tasks * len(live)
        assert len({(key.job, key.task, key.metric) for key in answers.series.keys}) == len(
            answers.series
        )  # not a mapping
        assert np.array_equal(answers.series.values, np.tile(np.concatenate(live), jobs * tasks), equal_nan=True)
        assert sum(len(absence.metrics) * len(absence.targets) for absence in answers.absences) == jobs * tasks * (
            len(parts) - len(live)
        )


class OursWithoutKernel(Ours):
    """The same collector, with its connections, while the kernel is switched off."""

    async def read(self, jobs: int, tasks: int) -> Collection:
        with without_kernel():
            return await super().read(jobs, tasks)


class PlainAiohttp:
    """Nothing but the bytes: no signature, no decoding, no errors, no account; workers pull from one iterator."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def read(self, jobs: int, tasks: int) -> list[bytes]:
        urls = (self._url + path for path in _paths(jobs, tasks))
        bodies: list[bytes] = []

        async def work() -> None:
            for url in urls:
                async with self._session.get(url) as response:
                    bodies.append(await response.read())

        async with anyio.create_task_group() as group:
            for _ in range(CONCURRENCY):
                group.start_soon(work)
        return bodies

    def check(self, answers: list[bytes], jobs: int, tasks: int, points: int) -> None:
        assert answers == [metrics_body(points)] * (jobs * tasks)


class _Sdk:
    def check(self, answers: list[Any], jobs: int, tasks: int, points: int) -> None:
        arrays = decode_number_arrays_reference(metrics_body(points), SCHEMA)
        assert len(answers) == jobs * tasks
        for answer in answers:
            assert tuple(entry.metric for entry in answer.metrics) == arrays.names
            values = np.array([value for entry in answer.metrics for value in entry.value])
            values[values == -1] = np.nan
            assert np.array_equal(values, arrays.values, equal_nan=True)


class SdkAsync(_Sdk):
    """The vendor's asynchronous client, with as many futures under way; it has 8 threads of its own."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def read(self, jobs: int, tasks: int) -> list[Any]:
        under_way: deque[Any] = deque()
        answers = []
        for request in _requests(jobs, tasks):
            if len(under_way) == CONCURRENCY:
                answers.append(under_way.popleft().result())
            under_way.append(self._client.show_training_job_metrics_async(request))
        return answers + [future.result() for future in under_way]


class SdkThreads(_Sdk):
    """The vendor's synchronous client on as many threads."""

    def __init__(self, client: Any, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    async def read(self, jobs: int, tasks: int) -> list[Any]:
        return list(self._threads.map(self._client.show_training_job_metrics, _requests(jobs, tasks)))


def _paths(jobs: int, tasks: int) -> Iterator[str]:
    for job in range(jobs):
        for task in range(tasks):
            yield f"/v2/{_PROJECT}/training-jobs/job-{job}/metrics/worker-{task}"


def _requests(jobs: int, tasks: int) -> Iterator[Any]:
    for job in range(jobs):
        for task in range(tasks):
            yield ShowTrainingJobMetricsRequest(training_job_id=f"job-{job}", task_id=f"worker-{task}")


def _sdk_client(kind: Any, url: str) -> Any:
    # As many kept connections as calls at once: with its default of 10 it opens one for most calls.
    config = HttpConfig(pool_connections=CONCURRENCY, pool_maxsize=CONCURRENCY)
    credentials = BasicCredentials(_ACCESS_KEY, _SECRET_KEY, _PROJECT)
    return kind.new_builder().with_http_config(config).with_credentials(credentials).with_endpoint(url).build()


def _close(client: Any) -> None:
    client.close()
    client.get_http_client().executor.shutdown()


@asynccontextmanager
async def open_ours(url: str) -> AsyncIterator[dict[str, Contestant]]:
    """Open the provider as a user would, with its documented limits lifted; both of ours, where there is a kernel."""
    provider = open_provider(
        "modelarts", endpoint=url, project_id=_PROJECT, access_key=_ACCESS_KEY, secret_key=_SECRET_KEY,
        limits=dict.fromkeys(("*", "ShowTrainingJobMetrics", "ShowTrainingJobDetails"), "unlimited"),
    )  # fmt: skip
    async with Collector({"hw": provider}, concurrency=CONCURRENCY) as collector:
        ours: dict[str, Contestant] = {"ours": Ours(collector)}
        if has_kernel():
            ours["fallback"] = OursWithoutKernel(collector)
        yield ours


@asynccontextmanager
async def open_contestants(url: str) -> AsyncIterator[dict[str, Contestant]]:
    """Open every client once; connections are kept from round to round."""
    asynchronous, synchronous = _sdk_client(ModelArtsAsyncClient, url), _sdk_client(ModelArtsClient, url)
    alibaba = AlibabaAsync(url, CONCURRENCY)
    try:
        async with (
            open_ours(url) as ours,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session,
        ):
            with ThreadPoolExecutor(CONCURRENCY) as threads:
                yield {
                    **ours,
                    "plain": PlainAiohttp(session, url),
                    "sdk async": SdkAsync(asynchronous),
                    "sdk threads": SdkThreads(synchronous, threads),
                    "sdk alibaba": alibaba,
                }
    finally:
        alibaba.close()
        _close(asynchronous)
        _close(synchronous)


async def python_calls(contestant: Contestant, jobs: int, tasks: int) -> float:
    """Count the Python functions called per task read; noise does not touch it."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    await contestant.read(jobs, tasks)
    sys.setprofile(note)
    try:
        await contestant.read(jobs, tasks)
    finally:
        sys.setprofile(None)
    return count / (jobs * tasks)
