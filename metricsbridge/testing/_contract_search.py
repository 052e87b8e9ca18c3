"""Checks of how jobs are listed and counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from metricsbridge.model import Job, JobSearch, Window
from metricsbridge.protocols import SupportsJobSearch, SupportsJobTotals
from metricsbridge.testing._contract_hooks import Bench, ContractHooks
from metricsbridge.testing.fleet import Fleet

if TYPE_CHECKING:
    from metricsbridge.http import Request, Response

_MOST_REQUESTS: Final = 300
"""A listing of the fleet that sends more would never end."""


async def listed(bench: Bench, search: JobSearch) -> list[Job]:
    """Give what a listing gives; fails where it sends more requests than there can be pages."""
    assert isinstance(bench.provider, SupportsJobSearch)
    before = len(bench.wire.requests)
    between = bench.wire.between

    async def counted(request: Request) -> Response:
        sent = len(bench.wire.requests) - before
        assert sent <= _MOST_REQUESTS, (
            f"a listing sent {sent} requests: end it at a page that brings no job that was not there before"
        )
        return await (bench.wire.answer(request) if between is None else between(request))

    bench.wire.between = counted
    try:
        return [job async for job in bench.provider.list_jobs(search)]
    finally:
        bench.wire.between = between


class SearchChecks(ContractHooks):
    """``list_jobs`` and ``job_totals``, where the provider has them."""

    def _skip_unless_listed(self) -> None:
        provider = self.the_spec().provider
        if provider is None or not issubclass(provider, SupportsJobSearch):
            pytest.skip("the provider does not list jobs")

    def test_a_listing_has_every_job_once_the_newest_first(self) -> None:
        """All pages are read, and the jobs come in the order of their creation, backwards."""
        self._skip_unless_listed()

        async def check() -> None:
            async with self.open(self.search_fleet) as bench:
                jobs = await listed(bench, JobSearch())
            _check_once(jobs)
            wanted = {self.job_id(self.search_fleet, job) for job in self.search_fleet.jobs}
            found = {job.id for job in jobs}
            assert found == wanted, (
                f"of {len(wanted)} jobs {len(wanted - found)} are not listed: read every page, and count pages and "
                "offsets as the service does"
            )
            times = [job.create_time_ms for job in jobs if job.create_time_ms is not None]
            assert times == sorted(times, reverse=True), "ask the service for the newest first, or sort"

        self.run(check)

    def test_a_listing_ends_at_the_limit(self) -> None:
        """A limit gives the newest jobs, and reads no more pages than it needs."""
        self._skip_unless_listed()

        async def check() -> None:
            async with self.open(self.search_fleet) as bench:
                every = [job.id for job in await listed(bench, JobSearch())]
                whole = len(bench.wire.requests)
                for limit in (1, 3, len(every) - 1):
                    before = len(bench.wire.requests)
                    found = [job.id for job in await listed(bench, JobSearch(limit=limit))]
                    assert found == every[:limit], f"limit={limit} gave {len(found)} jobs: give the newest {limit}"
                    assert len(bench.wire.requests) - before <= whole, "a limit costs more requests than none"

        self.run(check)

    def test_a_listing_gives_only_what_is_searched_for(self) -> None:
        """Status, part of the name and half-open window of creation are matched exactly."""
        self._skip_unless_listed()

        async def check() -> None:
            async with self.open(self.search_fleet) as bench:
                every = await listed(bench, JobSearch())
                statuses = sorted({job.status for job in every})
                searches = [JobSearch(status=(status,)) for status in statuses]
                searches += [JobSearch(status=statuses[:2]), JobSearch(name=every[0].name[:5])]
                created = [job.create_time_ms for job in every if job.create_time_ms is not None]
                if created:
                    first, last = min(created), max(created)
                    middle = sorted(created)[len(created) // 2]
                    searches += [JobSearch(created=Window(*ends)) for ends in ((first, middle), (middle, last + 1))]
                for search in searches:
                    found = [job.id for job in await listed(bench, search)]
                    wanted = [job.id for job in every if _matches(job, search)]
                    assert sorted(found) == sorted(wanted), (
                        f"{search} gave {len(found)} jobs, not {len(wanted)}: hold each job against the search where "
                        "the service matches more loosely; a window's end does not belong to it"
                    )

        self.run(check)

    def test_a_service_that_repeats_a_page_is_not_asked_for_ever(self) -> None:
        """A listing ends at a page that brings nothing new, and gives no job twice."""
        self._skip_unless_listed()

        async def check() -> None:
            async with self.open(self.search_fleet) as bench:
                pages: dict[str, Response] = {}

                async def first_page(request: Request) -> Response:
                    if request.operation not in pages:
                        pages[request.operation] = await bench.wire.answer(request)
                    return pages[request.operation]

                bench.wire.between = first_page
                _check_once(await listed(bench, JobSearch()))

        self.run(check)

    def test_a_job_created_between_two_pages_makes_none_come_twice(self) -> None:
        """The last job of one page, moved to the next, is given once."""
        self._skip_unless_listed()

        async def check() -> None:
            fleet = self.search_fleet
            grown = Fleet(
                seed=fleet.seed, now_ms=fleet.now_ms, size=fleet.size + 1, longest_minutes=fleet.longest_minutes
            )
            async with self.open(fleet) as bench, self.open(grown) as later:
                sent = 0

                async def growing(request: Request) -> Response:
                    nonlocal sent
                    sent += 1
                    return await (bench if sent == 1 else later).wire.answer(request)

                bench.wire.between = growing
                _check_once(await listed(bench, JobSearch()))

        self.run(check)

    def test_a_listed_job_is_the_job_that_is_described(self) -> None:
        """Unless it is partial, a listed job tells what ``get_job`` tells."""
        self._skip_unless_listed()

        async def check() -> None:
            async with self.open() as bench:
                for job in await listed(bench, JobSearch()):
                    named = await bench.provider.get_job(job.id)
                    columns = ("id", "name", "status", "start_time_ms", "end_time_ms")
                    waits = job.start_time_ms is None  # its tasks may not be known yet
                    for column in (*columns, *(() if job.partial or waits else ("tasks", "accelerators", "payload"))):
                        there, here = getattr(named, column), getattr(job, column)
                        assert there == here, (
                            f"{column} of a job is {here!r} where it is listed and {there!r} where it is named: "
                            "make them alike, or mark listed jobs as partial"
                        )

        self.run(check)

    def test_totals_count_every_job_in_its_state(self) -> None:
        """Totals agree with the fleet, one entry for each of the service's states."""

        async def check() -> None:
            async with self.open(self.search_fleet) as bench:
                if not isinstance(bench.provider, SupportsJobTotals):
                    pytest.skip("the provider does not count jobs")
                totals = await bench.provider.job_totals(JobSearch())
                states = Counter(each.vendor_status for each in totals)
                assert set(states.values()) <= {1}, f"{states.most_common(1)} has several entries: give one for each"
                counted: Counter[str] = Counter()
                for each in totals:
                    counted[each.status] += each.jobs
                wanted = Counter(str(job.status) for job in self.search_fleet.jobs)
                assert counted == wanted, f"counted {dict(counted)}, there are {dict(wanted)}: count every page"

        self.run(check)


def _check_once(jobs: list[Job]) -> None:
    twice = [id for id, count in Counter(job.id for job in jobs).items() if count > 1]
    assert not twice, f"{len(twice)} jobs are listed more than once, such as {twice[0]!r}: remember which were given"


def _matches(job: Job, search: JobSearch) -> bool:
    return (
        (search.status is None or job.status in search.status)
        and (search.name is None or search.name in job.name)
        and (search.created is None or (job.create_time_ms is not None and job.create_time_ms in search.created))
    )
