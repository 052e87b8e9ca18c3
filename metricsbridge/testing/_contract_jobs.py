"""Checks of how jobs are described."""

from __future__ import annotations

import anyio.lowlevel
import pytest

from metricsbridge.errors import InvalidRequestError, NotFoundError, ProviderError
from metricsbridge.model import Job
from metricsbridge.protocols import SupportsEvaluations
from metricsbridge.testing._contract_hooks import ContractHooks
from metricsbridge.testing.fleet import Fleet

_NO_IDS = ("", ".", "..", "a\nb", "a\x00b")
_ODD_IDS = ("a?b=c", "a#b", "a b", "ä", "%2e", "..%2f..", "x;y", "../x", "x/../y", "*")


class JobChecks(ContractHooks):
    """``get_job``: what it tells, and which ids it takes."""

    def test_a_job_is_described_as_the_service_tells_it(self) -> None:
        """Id, status, times, tasks and devices are those of the service."""

        async def check() -> None:
            async with self.open() as bench:
                for wanted in self.fleet.jobs:
                    job = await self.describe(bench, wanted)
                    assert isinstance(job, Job), f"get_job gave {type(job).__name__}: give a Job"
                    assert not job.partial, "get_job gave a partial job: partial is for listings that tell less"
                    assert job.id == self.job_id(self.fleet, wanted), f"the id is {job.id!r}: give the one asked for"
                    assert not job.source, f"source is {job.source!r}: the collector stamps it"
                    name = self.job_name(self.fleet, wanted)
                    assert name is None or job.name in ("", name), (
                        f"the name is {job.name!r}: give the service's, {name!r}"
                    )
                    assert job.status is wanted.status, (
                        f"a job that is {wanted.status} on the service is {job.status}: mend the table of its states"
                    )
                    assert job.vendor_status, "vendor_status is empty: keep the service's own word"
                    for name in ("start_time_ms", "end_time_ms"):
                        self._check_time(name, getattr(job, name), getattr(wanted, name))
                    if job.create_time_ms is not None:
                        self._check_time("create_time_ms", job.create_time_ms, wanted.create_time_ms)
                    tasks = [task.id for task in job.tasks]
                    if tasks or wanted.start_time_ms is not None:
                        assert tasks == [*self.task_ids(self.fleet, wanted)], (
                            f"the tasks are {tasks}: give all of them, in the service's order"
                        )
                    devices = job.accelerators
                    if devices is not None:
                        assert (devices.kind, devices.count) == (wanted.device_kind, wanted.devices), (
                            f"{devices.count} {devices.kind!r} for a task with {wanted.devices} {wanted.device_kind!r}:"
                            " count the devices of one task"
                        )

        self.run(check)

    def _check_time(self, name: str, found: int | None, wanted: int | None) -> None:
        assert found is None or type(found) is int, f"{name} is {found!r}: give whole milliseconds, or None"
        fits = (found is None) == (wanted is None) and abs((found or 0) - (wanted or 0)) <= self.time_resolution_ms
        assert fits, f"{name} is {found}, the service's is {wanted}: give milliseconds since the epoch, None for never"

    def test_an_unknown_job_is_not_found(self) -> None:
        """A job that the service does not know is a ``NotFoundError``."""

        async def check() -> None:
            other = Fleet(seed=self.fleet.seed + 1000, now_ms=self.fleet.now_ms, size=1)
            unknown = self.job_id(other, other.jobs[0])
            async with self.open() as bench:
                try:
                    job = await bench.provider.get_job(unknown)
                except NotFoundError:
                    return
                except ProviderError as error:
                    pytest.fail(f"the unknown job {unknown!r} is {type(error).__name__}, not NotFoundError: {error}")
                pytest.fail(f"the unknown job {unknown!r} is described as {job!r}: raise NotFoundError")

        self.run(check)

    def test_an_id_that_can_be_none_is_refused_before_a_request(self) -> None:
        """Empty ids, dots and control characters are an ``InvalidRequestError``, and nothing is sent."""

        async def check() -> None:
            async with self.open() as bench:
                before = len(bench.wire.requests)
                for odd in _NO_IDS:
                    try:
                        await bench.provider.get_job(odd)
                    except InvalidRequestError:
                        pass
                    except ProviderError as error:
                        pytest.fail(f"get_job({odd!r}) is {type(error).__name__}: put ids through path_segment")
                    else:
                        pytest.fail(f"get_job({odd!r}) gives a job: put ids through path_segment")
                    sent = bench.wire.requests[before:]
                    assert not sent, f"get_job({odd!r}) sent {sent}: refuse such an id before a request"

        self.run(check)

    def test_an_odd_id_reaches_no_other_resource(self) -> None:
        """An id with signs that mean something in a URL stands in it encoded."""

        async def check() -> None:
            async with self.open() as bench:
                for odd in _ODD_IDS:
                    before = len(bench.wire.requests)
                    try:
                        job = await bench.provider.get_job(odd)
                    except (NotFoundError, InvalidRequestError):
                        pass
                    else:
                        assert job.id == odd, f"get_job({odd!r}) gives job {job.id!r}: put ids through path_segment"
                    for request in bench.wire.requests[before:]:
                        _check_url(request.url, odd)

        self.run(check)

    def test_evaluations_are_values_or_nothing(self) -> None:
        """Evaluations of a job are told, and those of an unknown one are not found."""

        async def check() -> None:
            async with self.open() as bench:
                if not isinstance(bench.provider, SupportsEvaluations):
                    pytest.skip("the provider has no evaluations")
                for job in self.subjects():
                    for each in await bench.provider.evaluations(self.job_id(self.fleet, job)):
                        numbers = all(type(value) is float for value in each.metrics.values())
                        assert numbers, f"the evaluation {each} has values that are no floats"
                other = Fleet(seed=self.fleet.seed + 1000, now_ms=self.fleet.now_ms, size=1)
                await anyio.lowlevel.checkpoint()
                with pytest.raises(NotFoundError):
                    await bench.provider.evaluations(self.job_id(other, other.jobs[0]))

        self.run(check)


def _check_url(url: str, id: str) -> None:
    rest = url.partition("://")[2]
    assert url.isascii(), f"the id {id!r} stands in {url!r} as it is: put ids through path_segment"
    assert not set(rest) & set("?# ;*"), f"the id {id!r} stands in {url!r} as it is: put ids through path_segment"
    segments = rest.split("/")
    assert not {".", "..", "%2e", "..%2f.."} & set(segments), f"the id {id!r} climbs in {url!r}: use path_segment"
