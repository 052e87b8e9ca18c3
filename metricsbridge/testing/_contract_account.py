"""Checks of the account: whatever is asked for is delivered, absent or failed, and only one of these."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from metricsbridge.http import Response
from metricsbridge.metrics import METRICS
from metricsbridge.testing._contract_hooks import ContractHooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.collection import Collection
    from metricsbridge.http import Request
    from metricsbridge.model import Level
    from metricsbridge.testing.fleet import FleetJob

    Unit = tuple[str, str, str]

_SHARE: Final = 0.3
"""Of the requests of a collection so many fail for good."""


class AccountChecks(ContractHooks):
    """The conservation law, through a collector."""

    def test_whatever_is_asked_for_is_accounted_for(self) -> None:
        """Of the whole fleet each task and metric is delivered or absent, on every level."""

        async def check() -> None:
            jobs = [*self.subjects(), *[job for job in self.fleet.jobs if job.start_time_ms is None][:2]]
            async with self.open() as bench:
                for level in self.levels():
                    result = await self.collect(bench, jobs, per=level, metrics=[*METRICS])
                    assert not result.failures, f"without a fault something fails: {result.failures[0].error}"
                    self._check_account(result, jobs, level)

        self.run(check)

    def test_what_fails_is_named_and_costs_nothing_else(self) -> None:
        """Where requests fail for good, their units are failures; all others are as they were."""

        async def check() -> None:
            jobs = self.subjects()
            for level in self.levels():
                dice = random.Random(level)
                async with self.open() as bench:
                    for job in jobs:  # the credential is there, and what is found out once
                        await self.describe(bench, job)
                    usual = await self.collect(bench, jobs, per=level, metrics=[*METRICS])
                    lost: dict[str, bool] = {}

                    async def failing(
                        request: Request, lost: dict[str, bool] = lost, dice: random.Random = dice
                    ) -> Response:
                        what = f"{request.full_url} {request.body!r}"
                        if lost.setdefault(what, dice.random() < _SHARE):
                            return Response(500, {}, b"")
                        return await bench.wire.answer(request)

                    bench.wire.between = failing
                    result = await self.collect(bench, jobs, per=level, metrics=[*METRICS])
                    self._check_account(result, jobs, level)
                    extra = _delivered(result) - _delivered(usual)
                    assert not extra, f"with failures more is delivered than without, such as {sorted(extra)[0]}"
                    if any(lost.values()):
                        assert result.failures, "requests failed and nothing is named as failed: raise, catch nothing"
                    gone = _absent(result) - _absent(usual)
                    assert not gone, (
                        f"what failed is called absent, such as {sorted(gone)[0]}: raise the error, or PartialDataError"
                        " with what is lost, but never an empty batch in its place"
                    )

        self.run(check)

    def _check_account(self, result: Collection, jobs: Sequence[FleetJob], level: Level) -> None:
        described = {job.id: job for job in result.jobs}
        asked: set[Unit] = set()
        for job in jobs:
            id = self.job_id(self.fleet, job)
            known = described.get(id)
            tasks = [""] if known is None or level == "job" or not known.tasks else [task.id for task in known.tasks]
            asked |= {(id, task, metric) for task in tasks for metric in METRICS}
        delivered, absent, failed = _delivered(result), _absent(result), _failed(result) - _delivered(result)
        both = (delivered & absent) | (absent & failed)
        assert not both, f"{sorted(both)[0]} is delivered or failed, and absent too"
        strange = (delivered | absent | failed) - asked
        assert not strange, f"{sorted(strange)[0]} was not asked for: targets and keys name (job.id, task.id)"
        silent = asked - (delivered | absent | failed)
        assert not silent, f"{sorted(silent)[0]} was asked for and is nowhere"


def _delivered(result: Collection) -> set[Unit]:
    return {(key.job, key.task, key.metric) for key in result.series.keys}


def _absent(result: Collection) -> set[Unit]:
    return {(*target, metric) for each in result.absences for target in each.targets for metric in each.metrics}


def _failed(result: Collection) -> set[Unit]:
    return {(*target, metric) for each in result.failures for target in each.targets for metric in each.metrics}
