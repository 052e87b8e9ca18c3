"""Checks of planning: which calls answer a query."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, get_args

import attrs
import pytest

from metricsbridge.metrics import METRICS, VENDOR_PREFIX
from metricsbridge.model import Call, Level, Query, Window
from metricsbridge.protocols import SupportsBatchPlanning
from metricsbridge.testing._contract_hooks import ContractHooks
from metricsbridge.testing.fleet import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNKNOWN: Final = "vendor.nobody.knows"
_LEVELS: Final[tuple[Level, ...]] = get_args(Level)


def metrics_of(calls: Iterable[Call]) -> set[str]:
    """Give the metrics that calls answer for."""
    return {metric for call in calls for metric in call.metrics}


class PlanChecks(ContractHooks):
    """``plan``: pure, within what is asked, and as ``serves`` says."""

    def test_planning_sends_nothing_and_gives_the_same_again(self) -> None:
        """Equal arguments give equal calls, and no request is sent."""

        async def check() -> None:
            async with self.open() as bench:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    before = len(bench.wire.requests)
                    for level in _LEVELS:
                        query = Query(window=self.life(subject), per=level)
                        calls = self.plan(bench, job, query)
                        assert self.plan(bench, job, query) == calls, (
                            "planning the same again gives other calls: plan from the job and the query alone"
                        )
                    sent = bench.wire.requests[before:]
                    assert not sent, f"planning sent {sent}: find out in get_job, keep it in Job.payload"

        self.run(check)

    def test_calls_answer_for_pairs_of_the_job(self) -> None:
        """A call has an operation, targets of (job id, task id) and metrics."""

        async def check() -> None:
            async with self.open() as bench:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    tasks = {"", *(task.id for task in job.tasks)}
                    queries = [Query(window=self.life(subject), per=level) for level in _LEVELS]
                    for call in [call for query in queries for call in self.plan(bench, job, query)]:
                        assert isinstance(call, Call), f"plan gave {type(call).__name__}: give Calls"
                        assert call.operation, "a call has no operation: name the service's API call"
                        good = isinstance(call.targets, tuple) and call.targets and isinstance(call.metrics, tuple)
                        assert good, "targets and metrics must be tuples, and targets not empty"
                        for target in call.targets:
                            fits = isinstance(target, tuple) and len(target) == 2
                            assert fits, f"the target {target!r} is no pair: write (job.id, task.id)"
                            known = target[0] == job.id and target[1] in tasks
                            assert known, f"the target {target!r} is none of the job's: write (job.id, task.id)"
                        assert call.metrics, "a call answers for no metric: plan none where nothing of it is served"

        self.run(check)

    def test_calls_stay_in_the_window_and_do_not_overlap(self) -> None:
        """A call's window is a share of the query's; calls for the same share nothing."""

        async def check() -> None:
            async with self.open() as bench:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    whole = self.life(subject)
                    middle = Window(whole.start_ms + 3 * MINUTE_MS + 1, whole.end_ms - 3 * MINUTE_MS - 1)
                    for window in (whole, middle):
                        for level in _LEVELS:
                            shares: dict[tuple[object, ...], list[Window]] = {}
                            for call in self.plan(bench, job, Query(window=window, per=level)):
                                assert window.start_ms <= call.window.start_ms < call.window.end_ms <= window.end_ms, (
                                    f"the window of a call, {call.window}, leaves that of the query, {window}: "
                                    "ask the service for more where need be, but answer for no more"
                                )
                                for target in call.targets:
                                    for metric in call.metrics:
                                        shares.setdefault((target, metric), []).append(call.window)
                            _check_apart(shares)

        self.run(check)

    def test_what_is_not_served_is_not_planned(self) -> None:
        """Unknown metrics, levels and tasks give no call and no exception."""

        async def check() -> None:
            async with self.open() as bench:
                serves = self.the_spec().serves
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    query = Query(window=self.life(subject))
                    for level in _LEVELS:
                        asked = attrs.evolve(query, per=level)
                        nothing = self.plan(bench, job, attrs.evolve(asked, metrics=(_UNKNOWN,)))
                        assert _UNKNOWN not in metrics_of(nothing), f"a call answers for {_UNKNOWN}: leave it out"
                        assert not self.plan(bench, job, attrs.evolve(asked, metrics=())), (
                            "no metric is asked for and a call is planned: metrics=() is none, None is all"
                        )
                        stray = self.plan(bench, job, attrs.evolve(asked, tasks=("no-such-task",)))
                        named = {task for call in stray for _, task in call.targets if task}
                        assert not named, f"tasks=('no-such-task',) plans {named}: use Query.selects"
                        if level not in serves:
                            planned = self.plan(bench, job, asked)
                            assert not [*planned], f"per={level!r} is planned and not in serves: plan no call for it"

        self.run(check)

    def test_only_what_is_asked_is_planned(self) -> None:
        """One metric of one task gives calls for these and no others."""

        async def check() -> None:
            async with self.open() as bench:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    for level in self.levels():
                        query = Query(window=self.life(subject), per=level)
                        every = self.plan(bench, job, query)
                        for metric in sorted(metrics_of(every)):
                            one = self.plan(bench, job, attrs.evolve(query, metrics=(metric, _UNKNOWN)))
                            assert metrics_of(one) == {metric}, (
                                f"metrics=({metric!r}, …) plans {sorted(metrics_of(one))}: plan what is asked for"
                            )
                        tasks = [task for task in dict.fromkeys(t for call in every for _, t in call.targets) if task]
                        for task in tasks[-1:] if tasks else ():
                            one = self.plan(bench, job, attrs.evolve(query, tasks=(task,)))
                            found = {t for call in one for _, t in call.targets}
                            assert found == {task}, f"tasks=({task!r},) plans {sorted(found)}: use Query.selects"

        self.run(check)

    def test_serves_tells_the_truth(self) -> None:
        """What ``serves`` names is planned for some job, and nothing else is; ``provider`` is the class."""

        async def check() -> None:
            spec = self.the_spec()
            async with self.open() as bench:
                assert spec.provider is type(bench.provider), (
                    f"ProviderSpec.provider is {spec.provider}, connect makes {type(bench.provider)}: name that class"
                )
                unknown = {metric for served in spec.serves.values() for metric in served} - METRICS.keys()
                assert not unknown, f"serves names {sorted(unknown)}: only canonical metrics stand there"
                for level in _LEVELS:
                    planned: set[str] = set()
                    for subject in self.subjects():
                        job = await self.describe(bench, subject)
                        planned |= metrics_of(self.plan(bench, job, Query(window=self.life(subject), per=level)))
                    passed = {metric for metric in planned if metric.startswith(VENDOR_PREFIX)}
                    named = set(spec.serves.get(level, ()))
                    assert planned - passed <= named, (
                        f"per {level}, {sorted(planned - passed - named)} is planned and not in serves: add it there"
                    )
                    idle = named - planned
                    assert not idle, f"per {level}, serves names {sorted(idle)}, of which nothing is planned"
            assert spec.serves, "serves is empty: name the canonical metrics of each level"

        self.run(check)

    def test_jobs_that_are_planned_together_get_what_each_would_get(self) -> None:
        """``plan_jobs`` answers for what ``plan`` answers for, job by job, and one call may serve many."""

        async def check() -> None:
            async with self.open() as bench:
                provider = bench.provider
                if not isinstance(provider, SupportsBatchPlanning):
                    pytest.skip("the provider plans each job by itself")
                assert provider.max_jobs > 1, "max_jobs must be more than 1, else leave plan_jobs out"
                subjects = self.subjects()[: provider.max_jobs]
                jobs = [await self.describe(bench, subject) for subject in subjects]
                window = Window(
                    min(self.life(subject).start_ms for subject in subjects),
                    max(self.life(subject).end_ms for subject in subjects),
                )
                for level in self.levels():
                    query = Query(window=window, per=level)
                    together = _units(provider.plan_jobs(jobs, query))
                    alone = _units(call for job in jobs for call in self.plan(bench, job, query))
                    assert together == alone, (
                        f"{sorted(together ^ alone)[:3]} is planned together or alone, but not both: make them alike"
                    )

        self.run(check)

    def test_a_job_that_has_not_started_is_asked_nothing(self) -> None:
        """Of a job that waits, everything that is served is absent as ``not-started``, without a request for it."""

        async def check() -> None:
            waiting = [job for job in self.fleet.jobs if job.start_time_ms is None]
            if not waiting:
                pytest.skip("the fleet has no job that has not started")
            async with self.open() as bench:
                for job in waiting[:3]:
                    for level in self.levels():
                        described = await self.describe(bench, job)
                        before = len(bench.wire.requests)
                        window = Window(self.fleet.now_ms - 60 * MINUTE_MS, self.fleet.now_ms)
                        calls = self.plan(bench, described, Query(window=window, per=level))
                        assert len(bench.wire.requests) == before, "planning a job that waits sends requests"
                        result = await self.collect(bench, [job], per=level, metrics=self.the_spec().serves[level])
                        assert not result.failures, f"a job that waits fails: {result.failures[0].error}"
                        reasons = {absence.reason for absence in result.absences}
                        assert "not-started" in reasons, (
                            f"a job that waits is {sorted(reasons)}: for it, plan says what is served, or nothing;"
                            " its start_time_ms is None"
                        )
                        assert all(call.targets for call in calls), "a call for a job that waits has no targets"

        self.run(check)


def _units(calls: Iterable[Call]) -> set[tuple[str, str, str]]:
    return {(*target, metric) for call in calls for target in call.targets for metric in call.metrics}


def _check_apart(shares: dict[tuple[object, ...], list[Window]]) -> None:
    for unit, windows in shares.items():
        inner = sorted(windows, key=lambda window: window.start_ms)
        for left, right in pairwise(inner):
            assert left.end_ms <= right.start_ms, (
                f"two calls answer for {unit} in windows that overlap, {left} and {right}: windows are half-open, the "
                "next begins where the last ends"
            )
