"""Checks of windows: half-open, to the very sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from metricsbridge.model import Window
from metricsbridge.series.columns import SeriesKey
from metricsbridge.testing import strategies
from metricsbridge.testing._contract_hooks import ContractHooks
from metricsbridge.testing.fleet import MINUTE_MS

if TYPE_CHECKING:
    from metricsbridge.model import Level
    from metricsbridge.series.columns import Float64, Int64
    from metricsbridge.testing.fleet import FleetJob

_DRAWN: Final = hypothesis.settings(
    max_examples=5, deadline=None, derandomize=True, database=None, phases=(hypothesis.Phase.generate,)
)
"""The same windows each time: a check that passes today passes tomorrow."""


class WindowChecks(ContractHooks):
    """What a window brings, held against the fleet minute by minute."""

    def _ended(self) -> FleetJob:
        """Give an ended job with many minutes."""
        ended = [job for job in self.subjects() if job.end_time_ms is not None]
        if not ended:
            pytest.skip("the fleet has no job that ended")
        return max(ended, key=lambda job: len(self.minutes(self.fleet, job)))

    async def _check_windows(self, job: FleetJob, windows: list[Window]) -> None:
        async with self.open() as bench:
            for level in self.levels():
                for window in windows:
                    metrics = self.the_spec().serves[level][:2]
                    result = await self.collect(bench, [job], per=level, metrics=metrics, window=window)
                    if result.failures:
                        pytest.fail(f"{window} fails: {result.failures[0].error}")
                    for key, times, values in result.series:
                        inside = (times >= window.start_ms) & (times < window.end_ms)
                        assert inside.all(), f"{window} brings samples outside of it: its end does not belong to it"
                        minutes = self.minutes(self.fleet, job)
                        truth = self.truth(self.fleet, job, key, minutes)
                        if truth is None:
                            continue
                        # A sample may stand anywhere in its minute, so only minutes that lie wholly inside must come.
                        whole = (minutes >= window.start_ms) & (minutes + MINUTE_MS <= window.end_ms)
                        wanted = set(minutes[whole & ~np.isnan(truth)].tolist())
                        found = set((times[~np.isnan(values)] // MINUTE_MS * MINUTE_MS).tolist())
                        lost, touched = wanted - found, _minutes_of(window)
                        assert not lost, (
                            f"{window} lacks the samples of {sorted(lost)[:3]} of {key.metric}: the window's start "
                            "belongs to it; ask the service so that its first and last sample are there"
                        )
                        assert all(touched[0] <= minute <= touched[1] for minute in found), f"{window} brings others"
                        self._check_values(job, key, times, values)
                    self._check_there(job, level, window, {(key.task, key.metric) for key in result.series.keys})

    def _check_values(self, job: FleetJob, key: SeriesKey, times: Int64, values: Float64) -> None:
        truth = self.truth(self.fleet, job, key, times // MINUTE_MS * MINUTE_MS)
        if truth is not None:
            off = np.abs(values - truth) > self.difference(key.metric, truth)
            assert not off.any(), "a narrow window brings other values than a wide one: times are off by a step"

    def _check_there(self, job: FleetJob, level: Level, window: Window, found: set[tuple[str, str]]) -> None:
        minutes = self.minutes(self.fleet, job)
        minutes = minutes[(minutes >= window.start_ms) & (minutes + MINUTE_MS <= window.end_ms)]
        for task in self.task_ids(self.fleet, job) if level == "task" else ():
            for metric in self.the_spec().serves["task"][:2]:
                if (task, metric) not in found:
                    truth = self.truth(
                        self.fleet, job, SeriesKey(self.job_id(self.fleet, job), task, "", metric), minutes
                    )
                    gone = f"{window} brings nothing of {metric} of task {task!r}, and it is there"
                    assert truth is None or np.isnan(truth).all(), gone

    def test_the_first_minute_of_a_window_belongs_to_it_and_the_last_does_not(self) -> None:
        """Windows of one minute and more, on whole minutes, bring exactly the samples of these."""

        async def check() -> None:
            job = self._ended()
            minutes = self.minutes(self.fleet, job)
            at = len(minutes) // 2
            ends = [
                (at, at + 1),
                (at, at + 2),
                (at - 3, at + 4),
                (2, len(minutes) - 2),
                (len(minutes) - 3, len(minutes)),
            ]
            await self._check_windows(job, [
                Window(int(minutes[first]), int(minutes[last - 1]) + MINUTE_MS) for first, last in ends
            ])  # fmt: skip

        self.run(check)

    def test_any_window_brings_what_lies_in_it(self) -> None:
        """Windows that begin and end anywhere bring all samples that lie in them."""
        job = self._ended()
        minutes = self.minutes(self.fleet, job)
        stretch = (int(minutes[0]) - 5 * MINUTE_MS, int(minutes[-1]) + 5 * MINUTE_MS)

        @_DRAWN
        @hypothesis.given(st.lists(strategies.windows(*stretch), min_size=5, max_size=5))
        def check(windows: list[Window]) -> None:
            async def windows_are_kept() -> None:
                await self._check_windows(job, windows)

            self.run(windows_are_kept)

        check()

    def test_a_window_outside_of_a_job_s_life_brings_nothing(self) -> None:
        """Before a job's start and long after its end there is nothing, and it is no failure."""

        async def check() -> None:
            job = self._ended()
            minutes = self.minutes(self.fleet, job)
            day_ms = 24 * 60 * MINUTE_MS
            before = Window(int(minutes[0]) - day_ms, int(minutes[0]) - 60 * MINUTE_MS)
            after = Window(int(minutes[-1]) + 61 * MINUTE_MS, int(minutes[-1]) + day_ms)
            async with self.open() as bench:
                for level in self.levels():
                    for window in (before, after):
                        metrics = self.the_spec().serves[level]
                        result = await self.collect(bench, [job], per=level, metrics=metrics, window=window)
                        if result.failures:
                            pytest.fail(f"{window}, outside of the job's life, fails: {result.failures[0].error}")
                        assert not len(result.series), (
                            f"{window} brings samples: a service may go on with the last value of a job that ended"
                        )

        self.run(check)


def _minutes_of(window: Window) -> tuple[int, int]:
    """Give the first and the last minute that a window touches."""
    return window.start_ms // MINUTE_MS * MINUTE_MS, (window.end_ms - 1) // MINUTE_MS * MINUTE_MS
