"""The simulated fleet is pure and seeded, and has every sort of job and sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.metrics import METRICS
from metricsbridge.model import JobStatus
from metricsbridge.testing.fleet import MINUTE_MS, START_MS, Fleet

FLEET = Fleet()
KNOWN = {
    "container.cpu.utilization": 41.969,
    "container.cpu.usage": 26.86,
    "container.memory.utilization": 45.377,
    "container.memory.working_set": 124731347834.0,
    "container.disk.read.rate": 56879933.0,
    "container.disk.write.rate": 126566748.0,
    "container.network.receive.rate": 115725161.0,
    "container.network.transmit.rate": 2048436694.0,
    "hw.npu.utilization": 35.558,
    "hw.npu.memory.utilization": 38.525,
    "hw.power": 168.855,
}
STARTED = [job for job in FLEET.jobs if job.start_time_ms is not None]


def series(fleet, job, metric="container.cpu.utilization", task=None, device=None):
    return fleet.wire_values(job, task or job.tasks[0], metric, job.minutes(fleet.now_ms), device=device)


def long_series(**chosen):
    """All CPU series of a fleet with many jobs, end to end."""
    fleet = Fleet(size=36, **chosen)
    return np.concatenate([series(fleet, job, task=task) for job in fleet.jobs for task in job.tasks])


def test_equal_arguments_give_equal_jobs_and_numbers():
    assert Fleet(seed=3, size=30).jobs == Fleet(seed=3, size=30).jobs
    assert np.array_equal(long_series(seed=3), long_series(seed=3), equal_nan=True)


def test_numbers_do_not_change_between_releases():
    job = FLEET.jobs[0]
    assert job.id == "5513e3ea-bba6-4754-82c1-c34c7365c6fa"
    minute_ms = job.first_minute_ms + 100 * MINUTE_MS
    known = {name: FLEET.wire(job, "worker-3", name, minute_ms) for name in FLEET.metrics(job)}
    assert known == KNOWN


def test_other_seeds_give_other_jobs_and_numbers():
    other = Fleet(seed=1)
    assert {job.id for job in FLEET.jobs}.isdisjoint(job.id for job in other.jobs)
    assert not np.array_equal(series(FLEET, FLEET.jobs[1]), series(other, other.jobs[1]), equal_nan=True)


@given(st.data())
def test_one_minute_gives_the_same_bits_as_many(data):
    job = data.draw(st.sampled_from(STARTED))
    task = data.draw(st.sampled_from(job.tasks))
    metric = data.draw(st.sampled_from(list(METRICS)))
    device = data.draw(st.none() | st.integers(0, 8))
    minutes = data.draw(st.lists(st.integers(-3, 5_000), max_size=40))
    times = [job.first_minute_ms + minute * MINUTE_MS for minute in minutes]
    many = FLEET.wire_values(job, task, metric, times, device=device)
    one = [FLEET.wire(job, task, metric, time, device=device) for time in times]
    assert [None if value != value else value for value in many.tolist()] == one
    truths = FLEET.truth_values(job, task, metric, times, device=device)
    assert np.array_equal(truths, [FLEET.truth(job, task, metric, t, device=device) for t in times], equal_nan=True)


def test_truth_is_the_wire_number_truly_divided():
    job = FLEET.jobs[0]
    minute_ms = job.first_minute_ms + 100 * MINUTE_MS
    for metric in FLEET.metrics(job):
        wire = FLEET.wire(job, "worker-0", metric, minute_ms)
        assert FLEET.truth(job, "worker-0", metric, minute_ms) == (wire / 100 if METRICS[metric].unit == "1" else wire)


def test_default_fleet_has_every_sort_of_job():
    assert sum(len(job.tasks) for job in STARTED) >= 60
    assert {len(job.tasks) for job in FLEET.jobs} >= {1, 16}
    assert {job.device_kind for job in FLEET.jobs} == {"", "gpu", "npu"}
    never = {job.status for job in FLEET.jobs if job.start_time_ms is None}
    assert never == {JobStatus.PENDING, JobStatus.FAILED}
    counts = {job.minute_count(FLEET.now_ms) for job in STARTED if job.status is JobStatus.RUNNING}
    assert 0 in counts
    assert max(counts) > 3 * 24 * 60
    ended = {job.status for job in STARTED if job.end_time_ms is not None}
    assert ended == {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED}


def test_size_scales_to_thousands_of_tasks():
    fleet = Fleet(size=1_000)
    assert sum(len(job.tasks) for job in fleet.jobs if job.start_time_ms is not None) > 4_000
    assert len({job.id for job in fleet.jobs}) == 1_000
    assert all(1 <= len(job.tasks) <= 16 for job in fleet.jobs)


@given(st.integers(0, 2**40), st.integers(START_MS, START_MS + 10 * MINUTE_MS), st.integers(1, 3_000))
def test_times_are_in_order_and_off_the_minutes(seed, now_ms, longest):
    for job in Fleet(seed=seed, now_ms=now_ms, longest_minutes=longest).jobs:
        times = [time for time in (job.start_time_ms, job.end_time_ms) if time is not None]
        assert sorted([job.create_time_ms, *times, now_ms]) == [job.create_time_ms, *times, now_ms]
        assert all(time % MINUTE_MS for time in times) or now_ms % MINUTE_MS < 2
        assert job.minute_count(now_ms) <= longest + 2


def test_running_job_grows_by_whole_minutes_and_keeps_its_numbers():
    job = next(job for job in FLEET.jobs if job.minute_count(FLEET.now_ms) == 0 and job.start_time_ms is not None)
    end_ms = job.first_minute_ms + MINUTE_MS
    assert job.minute_count(end_ms - 1) == 0
    assert job.minute_count(end_ms) == 1
    early, late = job.minutes(end_ms + 9 * MINUTE_MS), job.minutes(end_ms + 99 * MINUTE_MS)
    assert np.array_equal(early, late[: len(early)])
    metric = "container.memory.utilization"
    values = FLEET.wire_values(job, "worker-0", metric, late)
    assert np.array_equal(FLEET.wire_values(job, "worker-0", metric, early), values[: len(early)], equal_nan=True)


def test_ended_job_has_the_minutes_it_started_and_ended_in():
    job = next(job for job in FLEET.jobs if job.status is JobStatus.SUCCEEDED)
    minutes = job.minutes(FLEET.now_ms)
    assert minutes[0] <= job.start_time_ms < minutes[1]
    assert minutes[-1] <= job.end_time_ms < minutes[-1] + MINUTE_MS
    after = [int(minutes[-1]) + MINUTE_MS, int(minutes[0]) - MINUTE_MS]
    assert np.isnan(FLEET.wire_values(job, "worker-0", "hw.gpu.utilization", after)).all()


def test_first_one_or_two_minutes_have_no_sample():
    leading = set()
    for job in STARTED:
        for task in job.tasks:
            if job.minute_count(FLEET.now_ms) > 5:
                present = ~np.isnan(series(FLEET, job, "container.memory.working_set", task))
                leading.add(int(np.argmax(present)))
    assert leading == {1, 2}


def test_gaps_are_rare_and_alone():
    job = FLEET.jobs[7]
    minutes = job.first_minute_ms + np.arange(2, 1_000_000) * MINUTE_MS
    lost = np.isnan(FLEET.wire_values(job, "worker-0", "container.cpu.utilization", minutes))
    assert 0 < lost.mean() < 0.01
    assert not np.any(lost[1:] & lost[:-1])


def test_percentages_have_three_decimals_and_every_sort_of_value():
    values = long_series()
    values = values[~np.isnan(values)]
    assert np.array_equal(values, np.rint(values * 1000) / 1000)
    assert values.min() == 0
    assert 100 < values.max() < 200
    assert 0.01 < np.mean(values == np.rint(values)) < 0.2


@pytest.mark.parametrize("metric", METRICS)
def test_values_are_in_their_range(metric):
    for job in STARTED:
        values = series(FLEET, job, metric)
        assert (metric in FLEET.metrics(job)) or np.isnan(values).all()
        values = values[~np.isnan(values)]
        top = {"1": 200, "{cpu}": 2 * job.cpus, "By": 2**40, "By/s": 2.5e9, "W": 450}[METRICS[metric].unit]
        assert np.all((values >= 0) & (values <= top))
        if METRICS[metric].unit in ("By", "By/s"):
            assert np.array_equal(values, np.rint(values))


def test_devices_have_series_of_their_own():
    job = FLEET.jobs[0]
    devices = [series(FLEET, job, "hw.npu.utilization", device=device) for device in range(job.devices)]
    assert len({values.tobytes() for values in devices}) == 8
    assert np.isnan(series(FLEET, job, "hw.npu.utilization", device=job.devices)).all()
    assert np.isnan(series(FLEET, job, "container.cpu.utilization", device=0)).all()


@pytest.mark.parametrize(
    ("task", "metric", "time_ms"),
    [("worker-99", "hw.power", 0), ("worker-0", "cpu", 0), ("worker-0", "hw.power", 1)],
)
def test_unknown_series_are_refused(task, metric, time_ms):
    with pytest.raises(ValueError, match="no metric"):
        FLEET.wire(FLEET.jobs[0], task, metric, time_ms)


def test_unknown_job_is_refused():
    assert FLEET.job(FLEET.jobs[3].id) is FLEET.jobs[3]
    with pytest.raises(KeyError):
        FLEET.job("2cd88daa-31a4-40a8-a58f-d186b0e93e4f")
