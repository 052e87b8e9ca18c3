"""What the documents of API v1 and its answers give in different types is read without complaint."""

from __future__ import annotations

import json
from typing import Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport
from metricsbridge_modelarts._wire_v1 import evaluations_of, names_of, status_of, word_of

SETTINGS = {"region": "cn-north-4", "project_id": "p0", "access_key": "AK", "secret_key": "S3CRET-key-never-shown"}


async def described(files: Any = None, **fields: Any) -> mb.Job:
    def handler(request: Request) -> Response:
        if request.url.endswith("/file-names"):
            return Response(200, {}, json.dumps(files or {"log_file_list": []}).encode())
        return Response(200, {}, json.dumps({"is_success": True, "version_id": 2, **fields}).encode())

    async with mb.open_provider("modelarts-v1", transport=FakeTransport(handler), **SETTINGS) as provider:
        return await provider.get_job("1/2")


@pytest.mark.parametrize(
    ("status", "neutral", "word"),
    [
        (8, "running", "8"), ("8", "running", "8"), ("JOBSTAT_RUNNING", "unknown", "JOBSTAT_RUNNING"),
        ("", "unknown", ""),
        (None, "unknown", ""), (22, "unknown", "22"), (-1, "unknown", "-1"), ({}, "unknown", ""),
        ("８", "unknown", "８"),
    ],
)  # fmt: skip
async def test_a_status_that_is_not_known_is_unknown_and_never_an_error(status: Any, neutral: str, word: str) -> None:
    job = await described(status=status)
    assert (job.status, job.vendor_status) == (mb.JobStatus(neutral), word)
    assert (status_of(status), word_of(status)) == (mb.JobStatus(neutral), word)


async def test_an_empty_text_for_a_time_is_no_time() -> None:
    job = await described(status=8, start_time="", duration="", create_time="5")
    assert (job.start_time_ms, job.end_time_ms, job.create_time_ms) == (None, None, 5)
    job = await described(status=10, start_time="1705300000123", duration="1000")
    assert (job.start_time_ms, job.end_time_ms) == (1_705_300_000_123, 1_705_300_001_123)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["a.0", "a.1"], ("a.0", "a.1")), ('["a.0", "a.1"]', ("a.0", "a.1")), ("a.0", ("a.0",)), ('"a.0"', ("a.0",)),
        ("a.0, a.1", ("a.0", "a.1")), ("[a.0, a.1]", ("a.0", "a.1")), ("", ()), (None, ()), (7, ()),
        ([None, "x"], ("x",)),
    ],
)  # fmt: skip
def test_names_of_log_files_are_read_in_every_form(given: Any, names: tuple[str, ...]) -> None:
    assert names_of(given) == names


async def test_log_files_that_are_refused_leave_the_job_its_own_means() -> None:
    refused = {"is_success": False, "error_code": "ModelArts.0105", "error_message": "no"}
    job = await described(refused, status=10, start_time=1_705_300_000_123, duration=1000)
    assert job.tasks == ()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"total_metric": {"total_metric_values": {"recall": "0.5", "id": 0}}}, [("", {"recall": 0.5})]),
        ({"metric": {"metric_values": {"recall": 0.5}, "metric_meta": {"class_id": 3}}}, [("3", {"recall": 0.5})]),
        ({"total_metric": {"total_metric_values": {"recall": 10**400, "accuracy": "NaN", "precision": "x"}}}, []),
        ({"total_metric": {"total_metric_values": {"recall": True, "accuracy": 1}}}, [("", {"accuracy": 1.0})]),
    ],
)  # fmt: skip
def test_evaluations_are_read_in_every_form(document: Any, expected: list[Any]) -> None:
    assert [(found.class_id, dict(found.metrics)) for found in evaluations_of(document)] == expected
