"""Planted bugs in jobs, listings and plans."""

from __future__ import annotations

import attrs
from msgspec.structs import replace

from metricsbridge.provider_kit import (
    Evaluation,
    Job,
    JobSearch,
    JobStatus,
    NotFoundError,
    Request,
    decode_json,
    encode,
)
from planting import planted
from reference_provider import JobItem, Reference

DESCRIBED = "a_job_is_described_as_the_service_tells_it"
ONCE = "a_listing_has_every_job_once_the_newest_first"
SEARCHED = "a_listing_gives_only_what_is_searched_for"
NOT_SERVED = "what_is_not_served_is_not_planned"


@planted("a state is missing in the table", DESCRIBED)
class ForgetsAState(Reference):
    def to_job(self, item):
        job = super().to_job(item)
        return attrs.evolve(job, status=JobStatus.UNKNOWN) if item.state == "HALTED" else job


@planted("a running job ended in 1970", DESCRIBED)
class EndsInTheSeventies(Reference):
    def to_job(self, item):
        return attrs.evolve(super().to_job(item), end_time_ms=item.ended_ms or 0)


@planted("a job that never started began when it was created", DESCRIBED)
class StartsWhenCreated(Reference):
    def to_job(self, item):
        return attrs.evolve(super().to_job(item), start_time_ms=item.started_ms or item.created_ms)


@planted("the times of jobs are in seconds", DESCRIBED)
class TimesInSeconds(Reference):
    def to_job(self, item):
        job = super().to_job(item)
        return job if job.start_time_ms is None else attrs.evolve(job, start_time_ms=job.start_time_ms // 1000)


@planted("the devices of all tasks are taken for those of one", DESCRIBED)
class CountsAllDevices(Reference):
    def to_job(self, item):
        job = super().to_job(item)
        if job.accelerators is None:
            return job
        total = job.accelerators.count * (len(job.tasks) + 1)
        return attrs.evolve(job, accelerators=attrs.evolve(job.accelerators, count=total))


@planted("an unknown job is one without tasks", "an_unknown_job_is_not_found")
class MakesJobsUp(Reference):
    async def get_job(self, job_id, /):
        try:
            return await super().get_job(job_id)
        except NotFoundError:
            return Job(id=job_id)


@planted("ids stand in URLs as they are", "an_odd_id_reaches_no_other_resource")
class TrustsIds(Reference):
    async def get_job(self, job_id, /):
        response = await self._transport.send(Request("GET", f"{self._url}/{job_id}", operation="ShowJob"))
        return self.to_job(decode_json(response.body, JobItem))


@planted("an empty id asks for something else", "an_id_that_can_be_none_is_refused_before_a_request")
class OnlyEncodesIds(Reference):
    async def get_job(self, job_id, /):
        response = await self._transport.send(Request("GET", f"{self._url}/{encode(job_id)}", operation="ShowJob"))
        return self.to_job(decode_json(response.body, JobItem))


@planted("only the first page is read", ONCE)
class ReadsOnePage(Reference):
    async def page(self, search, number):
        page = await super().page(search, number)
        return attrs.evolve(page, total=len(page.jobs))


@planted("pages are counted from 0", ONCE)
class CountsPagesFromZero(Reference):
    async def page(self, search, number):
        return await super().page(search, number - 1)


@planted("the oldest jobs come first", ONCE)
class OldestFirst(Reference):
    async def list_jobs(self, search, /):
        for job in reversed([job async for job in super().list_jobs(search)]):
            yield job


@planted("a page that comes again is asked for again", "a_service_that_repeats_a_page_is_not_asked_for_ever")
class AsksForEver(Reference):
    async def list_jobs(self, search, /):
        given, number = 0, 1
        seen = set()
        while given < (search.limit or 10**9):
            page = await self.page(search, number)
            for item in page.jobs:
                if item.id not in seen:
                    seen.add(item.id)
                    given += 1
                    yield self.to_job(item)
            number += 1
            if len(seen) >= page.total:
                return


@planted("a job that moves to the next page is listed twice", "a_job_created_between_two_pages_makes_none_come_twice")
class ListsTwice(Reference):
    async def list_jobs(self, search, /):
        number = 1
        while True:
            page = await self.page(search, number)
            for item in page.jobs:
                yield self.to_job(item)
            if not page.jobs or number * 20 >= page.total:
                return
            number += 1


@planted("the limit is passed by one", "a_listing_ends_at_the_limit")
class PassesTheLimit(Reference):
    async def list_jobs(self, search, /):
        limit = None if search.limit is None else search.limit + 1
        async for job in super().list_jobs(attrs.evolve(search, limit=limit)):
            yield job


@planted("the status is not searched for", SEARCHED)
class IgnoresStatus(Reference):
    def matches(self, job, search):
        return super().matches(job, attrs.evolve(search, status=None))


@planted("the end of a window of creation belongs to it", SEARCHED)
class TakesTheEnd(Reference):
    def matches(self, job, search: JobSearch) -> bool:
        return super().matches(job, attrs.evolve(search, created=None))


@planted("a listed job has no tasks and is not partial", "a_listed_job_is_the_job_that_is_described")
class ListsHalf(Reference):
    async def list_jobs(self, search, /):
        async for job in super().list_jobs(search):
            yield attrs.evolve(job, tasks=())


@planted("only a page of jobs is counted", "totals_count_every_job_in_its_state")
class CountsAPage(Reference):
    async def job_totals(self, search, /):
        return await super().job_totals(attrs.evolve(search, limit=20))


@planted("a call is planned for tasks that are not asked for", "only_what_is_asked_is_planned")
class IgnoresTasks(Reference):
    def plan(self, job, query, /):
        return super().plan(job, attrs.evolve(query, tasks=None))


@planted("a call is planned for metrics that are not asked for", "only_what_is_asked_is_planned")
class IgnoresMetrics(Reference):
    def plan(self, job, query, /):
        return super().plan(job, attrs.evolve(query, metrics=None if query.metrics else query.metrics))


@planted("no metric asked for is all of them", NOT_SERVED)
class NoneIsAll(Reference):
    def plan(self, job, query, /):
        return super().plan(job, attrs.evolve(query, metrics=query.metrics or None))


@planted("an unknown metric is an exception", NOT_SERVED)
class BreaksAtMetrics(Reference):
    def plan(self, job, query, /):
        for metric in query.metrics or ():
            assert metric.split(".")[0] in ("container", "hw"), metric
        return super().plan(job, query)


@planted("planning the same again gives other calls", "planning_sends_nothing_and_gives_the_same_again")
class NumbersItsCalls(Reference):
    planned = 0

    def plan(self, job, query, /):
        NumbersItsCalls.planned += 1
        return [replace(call, step_ms=NumbersItsCalls.planned) for call in super().plan(job, query)]


@planted("a target is a job and not a pair", "calls_answer_for_pairs_of_the_job")
class TargetsJobs(Reference):
    def plan(self, job, query, /):
        return [replace(call, targets=(job.id,)) for call in super().plan(job, query)]


@planted("a job that has not started breaks planning", "a_job_that_has_not_started_is_asked_nothing")
class NeedsAStart(Reference):
    def plan(self, job, query, /):
        assert job.start_time_ms is not None
        return super().plan(job, query)


@planted("calls answer for tasks that the job has not got", "whatever_is_asked_for_is_accounted_for")
class NamesOtherTasks(Reference):
    def plan(self, job, query, /):
        calls = super().plan(job, query)
        return [replace(call, targets=tuple([(j, f"{t}-0") for j, t in call.targets])) for call in calls]


@planted("a job that does not exist has an evaluation", "evaluations_are_values_or_nothing")
class EvaluatesAnything(Reference):
    async def evaluations(self, job_id, /):
        return [Evaluation(metrics={"recall": 0.5})]


@planted(
    "of jobs that are planned together only the first gets calls",
    "jobs_that_are_planned_together_get_what_each_would_get",
)
class PlansTheFirst(Reference):
    max_jobs = 10

    def plan_jobs(self, jobs, query, /):
        return self.plan(jobs[0], query)


@planted("what only some jobs have is planned for none of them", "nothing_that_was_measured_is_missing")
class LeavesDevicesOut(Reference):
    def plan(self, job, query, /):
        few = job.accelerators is None or job.accelerators.count < 8
        return [call for call in super().plan(job, query) if few or not call.metrics[0].startswith("hw.")]


@planted("the id stands for the name", DESCRIBED)
class NamesJobsById(Reference):
    def to_job(self, item):
        return attrs.evolve(super().to_job(item), name=item.id)
