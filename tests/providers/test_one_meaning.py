"""One simulated job, served by every emulated cloud, is one set of series: per task, per device and as a whole.

Once with each service as its documents most likely mean it, and once for each other reading of what they leave open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest

import metricsbridge as mb
from emulated_clouds import CLOUDS, RATES, UTILIZATIONS, Cloud, read_as
from in_process import URL, in_process
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.fleet import MINUTE_MS, Fleet
from metricsbridge_pai.emulator import is_general

if TYPE_CHECKING:
    from metricsbridge.model import Level
    from metricsbridge.series.columns import Float64
    from metricsbridge.testing.fleet import FleetJob

FLEET: Final = Fleet(seed=11, longest_minutes=180)
ENDED: Final = [job for job in FLEET.jobs if job.end_time_ms is not None]
GPU_GENERAL, GPU_OTHER = (
    next(job for job in ENDED if job.device_kind == "gpu" and is_general(FLEET, job) is general)
    for general in (True, False)
)
CPU: Final = next(job for job in ENDED if not job.device_kind)
NPU: Final = next(job for job in ENDED if job.device_kind == "npu")

Found = dict[tuple[int, str, str], "Float64"]
"""(place of the task in the job, or -1 for the job; device; metric) to the values on the grid."""


@attrs.frozen
class Reading:
    """One cloud read in another way: what its emulator does, and the settings that say so."""

    provider: str
    emulated: dict[str, Any]
    settings: dict[str, Any] = attrs.field(factory=dict)
    per: Level = "task"

    def __str__(self) -> str:
        return (
            f"{self.provider}-{self.per}-{'-'.join(f'{k}={v}' for k, v in {**self.emulated, **self.settings}.items())}"
        )


V1_READINGS: Final = [
    *[Reading("modelarts-v1", {"device_names": shape}, per="device")
      for shape in ("underscore", "plain", "dash", "bracket", "repeated", "nested")],
    *[Reading("modelarts-v1", {"system_metrics": form}, per="job") for form in ("object", "string")],
    Reading("modelarts-v1", {"disk_rate_bytes": 1}, {"disk_rate_unit": 1}),
    Reading("modelarts-v1", {"network_rate_bytes": 1000}, {"network_rate_unit": 1000}),
    Reading("modelarts-v1", {"filler": None}),
    Reading("modelarts-v1", {"filler": ""}),
    Reading("modelarts-v1", {"failure_status": 200}),
    Reading("modelarts-v1", {"no_time": 0}),
    Reading("otc-modelarts", {"pod_metrics": False}, per="job"),
]  # fmt: skip
PAI_READINGS: Final = [
    Reading("pai-dlc", emulated, settings)
    for emulated, settings in [
        ({"uncovered": "error"}, {}), ({"offset_ms": 0}, {}), ({"offset_ms": 59_999}, {}),
        ({"time_at": "end"}, {"time_at": "end"}), ({"percent_of": "unit"}, {"percent_of": "unit"}),
        ({"megabyte": 2**20}, {"megabyte": 2**20}), ({"digits": 4}, {}), ({"escaped": 2}, {}),
        ({"value_key": "Average"}, {}), ({"list_pods": True}, {}), ({}, {"metrics_api": "DescribeMetricList"}),
        ({"refused_in_body": True}, {}),
    ]
]  # fmt: skip
ANCHORS: Final = [
    Reading(name, {"retention_minutes": 100}, {"anchor": "end"}) for name in ("modelarts", "modelarts-v1")
]


async def read(cloud: Cloud, job: FleetJob, per: Level, **settings: Any) -> Found:
    clock = FakeClock(FLEET.now_ms)
    app = cloud.create(fleet=FLEET, now_ms=clock.now_ms)
    known = {**app[EMULATOR].settings(URL), **settings}
    opened = mb.open_provider(cloud.provider, transport=in_process(app, clock), clock=clock, **known)
    async with mb.Collector({"x": opened}, clock=clock) as collector:
        ref = f"x/{cloud.job_ids(FLEET)[job.id]}"
        result = await collector.collect(ref, metrics=[*UTILIZATIONS, *RATES], per=per)
    result.raise_failures()
    assert job.first_minute_ms is not None
    assert job.end_time_ms is not None
    window = mb.Window(job.first_minute_ms, job.end_time_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS)
    frame = result.align("1m", window=window)
    tasks = list(cloud.task_ids(FLEET, job))
    return {
        (tasks.index(key.task) if key.task else -1, key.device, key.metric): values
        for key, values in zip(frame.keys, frame.values, strict=True)
    }


def written(metric: str, values: Float64) -> list[str]:
    """Give percent with the digits of the coarsest service; a gap is a gap."""
    assert metric in UTILIZATIONS
    return ["" if value != value else f"{round(value * 100, 3):.2f}" for value in values.tolist()]


def same(left: Found, right: Found, *, rate_digits: float = 1_010) -> int:
    """Hold what two clouds both have against each other; gives how many series that is.

    Both have rounded one number of bytes per second, each to a digit of its own: ``rate_digits`` is their sum.
    """
    both = left.keys() & right.keys()
    for key in both:
        place, _, metric = key
        if metric in UTILIZATIONS and place < 0:  # means over tasks are often just between two digits
            np.testing.assert_allclose(left[key], right[key], rtol=0, atol=0.51e-4, err_msg=str(key))
        elif metric in UTILIZATIONS:
            assert written(key[2], left[key]) == written(key[2], right[key]), key
        else:
            np.testing.assert_array_equal(np.isnan(left[key]), np.isnan(right[key]), str(key))
            np.testing.assert_allclose(left[key], right[key], rtol=0, atol=rate_digits / 2 + 0.01, err_msg=str(key))
    return len(both)


def check_truth(found: Found, cloud: Cloud, job: FleetJob) -> None:
    """Hold what a cloud gives per task or device against the fleet's own numbers, to the digits that it writes."""
    minutes = job.minutes(FLEET.now_ms)
    for (place, device, metric), values in found.items():
        served = cloud.served(FLEET, job, "device" if device else "task" if place >= 0 else "job")
        if place >= 0 and metric in served:
            number = int(device) if device else None
            truth = cloud.truth(FLEET, job, job.tasks[place], metric, minutes, device=number)
            np.testing.assert_allclose(values, truth, rtol=1e-12, atol=0, err_msg=f"{place} {device} {metric}")


@pytest.mark.parametrize("job", [GPU_GENERAL, GPU_OTHER, CPU, NPU], ids=lambda job: job.name)
@pytest.mark.parametrize("per", ["task", "device", "job"])
async def test_a_job_is_the_same_wherever_it_runs(job: FleetJob, per: Level) -> None:
    found = {cloud.provider: await read(cloud, job, per) for cloud in CLOUDS}
    for cloud in CLOUDS:
        check_truth(found[cloud.provider], cloud, job)
    shared = 0
    for cloud in CLOUDS:
        for other in CLOUDS:
            if cloud.provider < other.provider:
                shared += same(_of_tasks(cloud, job, found), _of_tasks(other, job, found))
    expected = {"task": len(job.tasks) * 2, "device": job.devices * len(job.tasks) * 2, "job": 2}[per]
    assert shared >= (0 if per == "device" and job.device_kind != "gpu" else expected)


def _of_tasks(cloud: Cloud, job: FleetJob, found: dict[str, Found]) -> Found:
    """Leave out what a cloud makes from a task's cards: their mean is not the task's own number in this fleet."""
    return {
        key: values for key, values in found[cloud.provider].items()
        if key[0] < 0 or key[1] or not cloud.of_cards(FLEET, job, key[2])
    }  # fmt: skip


@pytest.mark.parametrize("reading", [*V1_READINGS, *PAI_READINGS], ids=str)
@pytest.mark.parametrize("job", [GPU_GENERAL, GPU_OTHER], ids=lambda job: job.name)
async def test_a_job_is_the_same_whichever_reading_is_right(job: FleetJob, reading: Reading) -> None:
    cloud = next(cloud for cloud in CLOUDS if cloud.provider == reading.provider)
    usual = await read(cloud, job, reading.per)
    other = await read(read_as(cloud, **reading.emulated), job, reading.per, **reading.settings)
    assert other.keys() == usual.keys()
    megabyte = reading.emulated.get("megabyte", 10**6)
    assert same(usual, other, rate_digits=1_000 + megabyte / 1000) == len(usual) > 0


@pytest.mark.parametrize("reading", ANCHORS, ids=str)
async def test_a_job_of_which_only_the_end_is_kept_is_the_same_there(reading: Reading) -> None:
    cloud = next(cloud for cloud in CLOUDS if cloud.provider == reading.provider)
    job = max(ENDED, key=lambda job: job.end_time_ms or 0)
    usual = await read(cloud, job, "task")
    kept = await read(read_as(cloud, **reading.emulated), job, "task", **reading.settings)
    assert kept.keys() == usual.keys()
    for key, values in kept.items():
        there = ~np.isnan(values)
        assert 0 < np.count_nonzero(there) <= np.count_nonzero(~np.isnan(usual[key]))
        assert values[there].tolist() == usual[key][there].tolist()


@pytest.mark.parametrize("job", [GPU_GENERAL, CPU, NPU], ids=lambda job: job.name)
async def test_whole_numbers_tell_the_same_but_for_their_digits(job: FleetJob) -> None:
    """Written without decimals, a zero in one metric alone can't be told from a gap: those minutes are left out."""
    cloud = next(cloud for cloud in CLOUDS if cloud.provider == "modelarts-v1")
    usual = await read(cloud, job, "task")
    whole = await read(read_as(cloud, decimals=False), job, "task")
    assert whole.keys() == usual.keys()
    for place in range(len(job.tasks)):
        keys = [key for key in usual if key[0] == place]
        gaps = np.isnan([usual[key] for key in keys])
        plain = gaps.all(axis=0) | ~gaps.any(axis=0)
        assert np.count_nonzero(gaps.all(axis=0)) > 0
        for key in keys:
            half_digit = 0.5e-2 + 0.5e-4 if key[2] in UTILIZATIONS else 505
            np.testing.assert_allclose(whole[key][plain], usual[key][plain], rtol=0, atol=half_digit, err_msg=str(key))
