"""Checks of what is read: values, units, gaps, order and columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest
from msgspec.structs import replace

from metricsbridge.metrics import METRICS, VENDOR_PREFIX
from metricsbridge.model import Query
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Timing
from metricsbridge.testing._contract_hooks import Bench, ContractHooks
from metricsbridge.testing.fleet import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from metricsbridge.collection import Collection
    from metricsbridge.http import Request, Response
    from metricsbridge.model import Call, Level
    from metricsbridge.series.columns import Float64, Int64
    from metricsbridge.testing.fleet import FleetJob

_COARSE_MS: Final = 5 * MINUTE_MS


@attrs.frozen(eq=False)
class Read:
    """One series of a job as it was collected."""

    job: FleetJob
    key: SeriesKey
    unit: str
    minutes: Int64
    values: Float64

    def __str__(self) -> str:
        where = f"{self.key.metric} of task {self.key.task!r} of job {self.key.job}"
        return f"{where}, device {self.key.device!r}" if self.key.device else where


class SeriesChecks(ContractHooks):
    """What ``fetch`` gives, whole lives of jobs at a time."""

    async def read(self, bench: Bench) -> AsyncIterator[tuple[FleetJob, Level, Collection]]:
        """Collect the subjects, one job and level at a time."""
        for level in self.levels():
            for job in self.subjects():
                result = await self.collect(
                    bench, [job], per=level, window=self.life(job), metrics=self.the_spec().serves[level]
                )
                if result.failures:
                    pytest.fail(f"reading a job per {level} fails: {result.failures[0].error}")
                yield job, level, result

    async def each_series(self, bench: Bench) -> AsyncIterator[Read]:
        """Give every series of the subjects."""
        count = 0
        async for job, _, result in self.read(bench):
            for index, key in enumerate(result.series.keys):
                times, values = result.series.samples(index)
                count += 1
                yield Read(job, key, result.series.unit[index], times // MINUTE_MS * MINUTE_MS, values)
        assert count, "nothing is delivered of any job: plan calls, and give their samples"

    def test_values_are_those_of_the_service_in_the_canonical_unit(self) -> None:
        """Every value is the fleet's, to the digits that the service writes: a fraction for percent, bytes for KiB."""

        async def check() -> None:
            async with self.open() as bench:
                async for read in self.each_series(bench):
                    unit = METRICS[read.key.metric].unit
                    assert read.unit == unit, f"{read}: the unit is {read.unit!r}, the canonical one is {unit!r}"
                    truth = self.truth(self.fleet, read.job, read.key, read.minutes)
                    if truth is None:
                        continue
                    off = np.abs(read.values - truth) > self.difference(read.key.metric, truth)
                    if off.any():
                        at = int(np.flatnonzero(off)[0])
                        pytest.fail(
                            f"{read}: at {read.minutes[at]} it is {read.values[at]}, not {truth[at]} in the "
                            "canonical unit: check factor, series and times (a sample's time is its interval's start)"
                        )

        self.run(check)

    def test_a_gap_is_no_value_and_never_zero(self) -> None:
        """Where the service has no value there is none: NaN or no sample, whatever the service writes there."""

        async def check() -> None:
            async with self.open() as bench:
                async for read in self.each_series(bench):
                    truth = self.truth(self.fleet, read.job, read.key, read.minutes)
                    if truth is not None:
                        invented = np.isnan(truth) & ~np.isnan(read.values)
                        assert not invented.any(), (
                            f"{read}: {read.values[invented][0]} stands where the service has no value: give NaN for "
                            "the service's sentinel, and nothing before a job's start and after its end"
                        )

        self.run(check)

    def test_nothing_that_was_measured_is_missing(self) -> None:
        """Every sample of the job's life is delivered, and every series that has one."""

        async def check() -> None:
            async with self.open() as bench:
                async for job, level, result in self.read(bench):
                    seen = set()
                    for index, key in enumerate(result.series.keys):
                        self._check_whole(result, index, job)
                        seen.add((key.task, key.metric))
                    for absence in result.absences:
                        for _, task in absence.targets:
                            for metric in absence.metrics:
                                if (task, metric) not in seen:
                                    self._check_absent(job, level, task, metric)

        self.run(check)

    def _check_whole(self, result: Collection, index: int, job: FleetJob) -> None:
        key = result.series.keys[index]
        times, values = result.series.samples(index)
        minutes = self.minutes(self.fleet, job)
        truth = self.truth(self.fleet, job, key, minutes)
        if truth is not None:
            there = set(minutes[~np.isnan(truth)].tolist())
            missing = there - set((times[~np.isnan(values)] // MINUTE_MS * MINUTE_MS).tolist())
            assert not missing, (
                f"{len(missing)} of {len(there)} samples of {key.metric} of task {key.task!r} of {key.job} are missing,"
                f" the first at {min(missing)}: check first and last windows, split points and page ends"
            )

    def _check_absent(self, job: FleetJob, level: Level, task: str, metric: str) -> None:
        minutes = self.minutes(self.fleet, job)
        for device in self.device_ids(self.fleet, job) if level == "device" else [""]:
            truth = self.truth(self.fleet, job, SeriesKey(self.job_id(self.fleet, job), task, device, metric), minutes)
            assert truth is None or np.isnan(truth).all(), (
                f"{metric} of task {task!r}, per {level}, is absent and the service has it: plan what is served, and "
                "read the whole answer"
            )

    def test_times_rise_and_none_comes_twice(self) -> None:
        """In each batch keys are unique, and the times of a series rise strictly."""

        async def check() -> None:
            async with self.open() as bench:
                for call in await self.some_calls(bench):
                    _check_order(await bench.provider.fetch(call))

        self.run(check)

    def test_samples_in_any_order_are_sorted(self) -> None:
        """Lists that come turned round and doubled give the same series."""
        if not self.samples_in_any_order:
            pytest.skip("the service sends samples in order")

        async def check() -> None:
            async with self.open() as bench:
                for call in await self.some_calls(bench):
                    usual = await bench.provider.fetch(call)

                    async def turned(request: Request) -> Response:
                        response = await bench.wire.answer(request)
                        return replace(response, body=json.dumps(_turned(json.loads(response.body))).encode())

                    bench.wire.between = turned
                    batch = await bench.provider.fetch(call)
                    bench.wire.between = None
                    _check_order(batch)
                    assert same_series(batch, usual), "samples in another order give other series: use sort_samples"

        self.run(check)

    def test_keys_name_what_the_call_answers_for(self) -> None:
        """Job, task and metric of a series are the call's; a device is named on that level alone."""

        async def check() -> None:
            async with self.open() as bench:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    for level in self.levels():
                        calls = [*bench.provider.plan(job, Query(window=self.life(subject), per=level))]
                        for call in calls[:2]:
                            batch = await bench.provider.fetch(call)
                            for key in batch.keys:
                                _check_key(key, call, level)

        self.run(check)

    def test_columns_say_what_a_sample_is(self) -> None:
        """Timing is as the spec says, a reported time has no error, and the interval is that of the service."""

        async def check() -> None:
            spec = self.the_spec()
            async with self.open() as bench:
                for call in await self.some_calls(bench):
                    batch = await bench.provider.fetch(call)
                    assert set(batch.timing) <= {spec.timing}, (
                        f"timing is {sorted(set(batch.timing))}, ProviderSpec.timing is {spec.timing}: make them agree"
                    )
                    errors = set(batch.time_error_ms)
                    if spec.timing is Timing.REPORTED:
                        assert errors <= {0}, f"time_error_ms is {sorted(errors)}: it is 0 where times are reported"
                    assert min(errors, default=0) >= 0, f"time_error_ms is {sorted(errors)}: it bounds an error"
                    intervals = set(batch.interval_ms)
                    assert intervals <= {self.interval_ms}, (
                        f"interval_ms is {sorted(intervals)}, the service's is {self.interval_ms}: write milliseconds"
                    )

        self.run(check)

    def test_a_coarser_step_is_never_exceeded(self) -> None:
        """Where five minutes are accepted, samples summarise five minutes at the most."""

        async def check() -> None:
            async with self.open() as bench:
                for level in self.levels():
                    job = self.subjects()[0]
                    ask = {"per": level, "window": self.life(job), "metrics": self.the_spec().serves[level]}
                    finest = await self.collect(bench, [job], **ask)
                    coarse = await self.collect(bench, [job], step=_COARSE_MS, **ask)
                    assert not coarse.failures, f"a step of five minutes fails: {coarse.failures[0].error}"
                    assert set(coarse.series.keys) == set(finest.series.keys), "a coarser step brings other series"
                    longest = max(coarse.series.interval_ms, default=0)
                    assert longest <= max(_COARSE_MS, self.interval_ms), (
                        f"a sample summarises {longest} ms, {_COARSE_MS} are accepted: step_ms is the coarsest"
                    )

        self.run(check)


def same_series(left: SeriesBatch, right: SeriesBatch) -> bool:
    """Tell whether two batches hold the same series, in whatever order; any NaN is like another."""
    return _by_key(left) == _by_key(right)


def _by_key(batch: SeriesBatch) -> dict[SeriesKey, Any]:
    found = {}
    for index, (key, times, values) in enumerate(batch):
        numbers = ["nan" if value != value else value for value in values.tolist()]
        found[key] = (batch.unit[index], batch.interval_ms[index], times.tolist(), numbers)
    return found


def _check_order(batch: SeriesBatch) -> None:
    assert isinstance(batch, SeriesBatch), f"fetch gave {type(batch).__name__}: give a SeriesBatch"
    assert not batch.source, f"source is {batch.source!r}: the collector stamps it"
    assert len(set(batch.keys)) == len(batch), "a batch has a key twice: join them with merge"
    for key, times, _ in batch:
        rising = bool((np.diff(times) > 0).all())
        assert rising, f"the times of {key.metric} of task {key.task!r} do not rise strictly: use sort_samples"


def _check_key(key: SeriesKey, call: Call, level: Level) -> None:
    assert (key.job, key.task) in call.targets, (
        f"a series of {(key.job, key.task)} comes from a call for {call.targets}: leave out what is not asked for"
    )
    asked = key.metric in call.metrics or key.metric.startswith(VENDOR_PREFIX)
    assert asked, f"a series of {key.metric} comes from a call for {call.metrics}: leave out what is not asked for"
    assert bool(key.device) == (level == "device"), (
        f"per {level}, the device of a series is {key.device!r}: '' is the mean over a task's devices"
    )


def _turned(document: Any) -> Any:
    """Give a JSON document with its lists of objects and of lists turned round and doubled."""
    if isinstance(document, dict):
        return {name: _turned(value) for name, value in document.items()}
    if isinstance(document, list) and document and all(isinstance(item, (dict, list)) for item in document):
        turned = [_turned(item) for item in reversed(document)]
        leaves = all(not isinstance(value, (dict, list)) for item in document for value in _members(item))
        return turned + turned if leaves else turned
    return document


def _members(item: Any) -> list[Any]:
    return [*item.values()] if isinstance(item, dict) else item
