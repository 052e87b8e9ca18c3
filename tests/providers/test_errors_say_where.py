"""An error that decoding meets says whose answer it is about, as those of the transport do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Response
from metricsbridge.testing import FakeTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from metricsbridge.http import Request

WINDOW = mb.Window(0, 3_600_000)
LARGE = 2**18


@pytest.fixture(params=["small", "large"])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[mb.TrainingJobMetrics]:
    """One that is answered with a gateway's page, which comes to be decoded in a thread where it is large."""

    async def in_thread(work: Any) -> Any:
        return work()

    def answer(asked: Request) -> Response:
        page = b"<html>the gateway is not well</html>"
        return Response(200, {}, page, in_thread=in_thread if request.param == "large" else None)

    async with mb.open_provider(
        "modelarts", transport=FakeTransport(answer), region="cn-north-4", project_id="p", access_key="a",
        secret_key="s" * 20,
    ) as opened:  # fmt: skip
        yield opened


def job(job_id: str) -> mb.Job:
    return mb.Job(id=job_id, status=mb.JobStatus.RUNNING, start_time_ms=0, tasks=(mb.Task(id="worker-0"),))


async def test_of_a_fetch_that_nobody_stands_around(provider: mb.TrainingJobMetrics) -> None:
    (call,) = provider.plan(job("j"), mb.Query(window=WINDOW, metrics=None))
    with pytest.raises(mb.DecodeError) as caught:
        await provider.fetch(call)
    assert (caught.value.provider, caught.value.operation) == ("modelarts", "ShowTrainingJobMetrics")
    assert str(caught.value).endswith("[modelarts ShowTrainingJobMetrics]")


async def test_of_each_failure_of_a_collection(provider: mb.TrainingJobMetrics) -> None:
    collector = mb.Collector({"hw": provider})
    result = await collector.collect([job("j"), "hw/k"], window=WINDOW)
    found = [(type(each.error), each.error.provider, each.error.operation) for each in result.failures]  # type: ignore[attr-defined]
    assert found == [
        (mb.DecodeError, "modelarts", "ShowTrainingJobMetrics"),
        (mb.DecodeError, "modelarts", "get_job"),
    ]
