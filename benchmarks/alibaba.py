"""The other vendor's own client as a contestant of the fan-out: one metric of six pods for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
from alibabacloud_pai_dlc20201203.client import Client
from alibabacloud_pai_dlc20201203.models import GetJobMetricsRequest
from alibabacloud_tea_openapi.utils_models import Config
from darabonba.core import DaraCore

from benchmarks.inputs import objects_body
from benchmarks.shapes.pai_objects import SCHEMA
from metricsbridge.series._reference_decode import decode_sample_lists_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

START, END = "2023-11-14T22:00:00Z", "2023-11-15T22:00:00Z"


class AlibabaAsync:
    """The vendor's asynchronous methods, as many at once; it opens a connection for each call."""

    def __init__(self, url: str, at_once: int) -> None:
        self._client = Client(
            Config(
                access_key_id="EXAMPLEACCESSKEY0000", access_key_secret="example-secret-of-no-account", protocol="http",
                endpoint=url.removeprefix("http://"), region_id="cn-hangzhou",
                connect_timeout=60_000, read_timeout=60_000,
            )
        )  # fmt: skip
        self._at_once = at_once

    async def read(self, jobs: int, tasks: int) -> list[Any]:
        """Read one metric of as many jobs as the others read tasks."""
        answers: list[Any] = []
        job_ids = (f"dlc{number}" for number in range(jobs * tasks))
        async with anyio.create_task_group() as group:
            for _ in range(self._at_once):
                group.start_soon(self._work, job_ids, answers)
        return answers

    async def _work(self, job_ids: Iterator[str], answers: list[Any]) -> None:
        request = GetJobMetricsRequest(metric_type="CpuCoreUsage", start_time=START, end_time=END, time_step="1m")
        for job_id in job_ids:
            answer = await self._client.get_job_metrics_async(job_id, request)
            answers.append(answer.body)

    def check(self, answers: list[Any], jobs: int, tasks: int, points: int) -> None:
        found = decode_sample_lists_reference(objects_body(points), SCHEMA)
        assert len(answers) == jobs * tasks
        for answer in answers:
            assert tuple(pod.pod_id for pod in answer.pod_metrics) == found.names
            values = [sample.value for pod in answer.pod_metrics for sample in pod.metrics]
            assert np.array_equal(np.array(values, np.float64), found.values)

    def close(self) -> None:
        """Close what the client itself never closes."""
        while DaraCore._sessions:
            DaraCore._sessions.popitem()[1].close()
