"""A process that really trains, scraped by a real server and read back by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pytest

from fresh_interpreter import PROJECT
from prometheus_server import require_binaries, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRAPES: Final = 13
STEP: Final = 2_000
REACH: Final = 4_000
PODS: Final = ("train-master-0", "train-worker-0")
CPUS: Final = dict(zip(PODS, (1.5, 2.0), strict=True))
"""The master's is the quota in force, the worker's what was asked for: it has no quota."""


@attrs.frozen
class Trained:
    """What the command line said while the training ran and after it, and what was measured at each scrape."""

    readings: list[dict[str, Any]]
    during: dict[str, Any]
    after: dict[str, Any]
    listed: Any
    table: str

    def series(self, document: dict[str, Any], metric: str, pod: str) -> tuple[list[int], list[float]]:
        [found] = [one for one in document["series"] if (one["metric"], one["task"]) == (metric, pod)]
        return found["times"], found["values"]

    def measured(self, pod: str, what: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        found = [(one["time_ms"], one["pods"][pod][what]) for one in self.readings if one["pods"]]
        times, values = zip(*found, strict=True)
        return np.array(times), np.array(values)


def command_line(configuration: Path, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("METRICSBRIDGE", "COLUMNS"))}
    command = [sys.executable, "-m", "metricsbridge.cli", *arguments, "--config", str(configuration)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    require_binaries()
    folder = tmp_path_factory.mktemp("scraped")
    program = [sys.executable, str(PROJECT / "tests" / "training_exporter.py"), str(SCRAPES)]
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as exporter:
        guard = threading.Timer(120, exporter.kill)  # then the lines below end, and so does the test
        guard.start()
        try:
            yield _run(folder, exporter)
        finally:
            guard.cancel()
            exporter.communicate(timeout=60)
    assert exporter.returncode == 0


def _run(folder: Path, exporter: subprocess.Popen[str]) -> Trained:
    assert exporter.stdout is not None
    port = int(exporter.stdout.readline())
    targets = f"static_configs: [{{targets: ['127.0.0.1:{port}']}}]"
    target = f"scrape_configs: [{{job_name: cluster, honor_labels: true, {targets}}}]"
    readings: list[dict[str, Any]] = []

    def scraped(ended: bool) -> None:
        assert exporter.stdout is not None
        readings.append(json.loads(exporter.stdout.readline()))
        assert (readings[-1]["ended"] is not None) == ended

    with running(folder, target) as url:
        configuration = folder / "metricsbridge.toml"
        configuration.write_text(
            f'[sources.cluster]\nprovider = "prometheus"\nurl = "{url}"\nscrape_interval = "1s"\n', "utf-8"
        )
        for _ in range(9):
            scraped(ended=False)
        collect = ("collect", "cluster/research/train", "--step", f"{STEP}ms")
        during = json.loads(command_line(configuration, *collect, "--json"))
        while len(readings) < SCRAPES:
            scraped(ended=False)
        for _ in range(5):
            scraped(ended=True)
        after = json.loads(command_line(configuration, *collect, "--json"))
        listed = json.loads(command_line(configuration, "jobs", "cluster", "--json"))
        table = command_line(configuration, *collect) + command_line(configuration, "jobs", "cluster")
    return Trained(readings, during, after, listed, table)


def test_a_job_that_trains_is_running_and_one_that_is_done_has_ended(trained: Trained) -> None:
    [during], [after] = trained.during["jobs"], trained.after["jobs"]
    assert (during["status"], during["end_time_ms"]) == ("running", None)
    assert (after["status"], after["end_time_ms"]) == ("succeeded", trained.readings[-1]["ended"] * 1000)
    assert [(task["id"], task["role"]) for task in after["tasks"]] == [(PODS[0], "master/0"), (PODS[1], "worker/0")]
    assert [task["end_time_ms"] for task in after["tasks"]] == [after["end_time_ms"]] * 2


def test_the_list_of_jobs_has_what_trains_and_nothing_else(trained: Trained) -> None:
    assert [job["id"] for job in trained.listed["jobs"]] == ["research/train"]
    assert trained.listed["jobs"][0]["tasks"] == trained.after["jobs"][0]["tasks"]
    assert "research/train" in trained.table


def test_memory_is_what_was_measured(trained: Trained) -> None:
    for pod in PODS:
        at, measured = trained.measured(pod, "memory")
        times, values = trained.series(trained.after, "container.memory.working_set", pod)
        assert len(times) >= SCRAPES * 1000 // STEP - 2
        for time, value in zip(times, values, strict=True):
            near = measured[(at > time - 1_000) & (at < time + STEP + 1_000)]
            assert near.min() <= value <= near.max()
        shares = trained.series(trained.after, "container.memory.utilization", pod)
        assert shares[0] == times
        np.testing.assert_allclose(np.array(shares[1]) * 4 * 2**30, values, rtol=1e-12)


@pytest.mark.parametrize(("metric", "what"), [("container.cpu.usage", "cpu"), ("container.disk.write.rate", "written")])
def test_a_rate_is_what_was_measured(trained: Trained, metric: str, what: str) -> None:
    for pod in PODS:
        at, measured = trained.measured(pod, what)
        slopes = np.diff(measured) / np.diff(at) * 1000
        times, values = trained.series(trained.after, metric, pod)
        inside = [(t, v) for t, v in zip(times, values, strict=True) if t > at[0] and t + REACH < at[-1]]
        assert len(inside) >= 2
        for time, value in inside:
            near = [slope for (a, b), slope in zip(pairwise(at), slopes, strict=True) if b > time and a < time + REACH]
            assert 0.8 * min(near) <= value <= 1.2 * max(near)
        assert sum([value for _, value in inside]) > 0


def test_the_share_of_the_cpu_is_of_the_limit_in_force_else_of_the_one_asked_for(trained: Trained) -> None:
    for pod in PODS:
        used = trained.series(trained.after, "container.cpu.usage", pod)
        shares = trained.series(trained.after, "container.cpu.utilization", pod)
        assert shares[0] == used[0]
        np.testing.assert_allclose(np.array(shares[1]) * CPUS[pod], used[1], rtol=1e-12)


def test_a_pod_that_ended_has_no_value_after_its_end(trained: Trained) -> None:
    end = trained.after["jobs"][0]["end_time_ms"]
    assert trained.readings[-1]["time_ms"] > end + STEP  # the server was asked about later times too
    assert trained.after["series"]
    for one in trained.after["series"]:
        assert max(one["times"]) < end


def test_what_nobody_exports_is_absent_and_nothing_failed(trained: Trained) -> None:
    assert trained.after["failures"] == []
    absent = {metric for absence in trained.after["absences"] for metric in absence["metrics"]}
    assert {absence["reason"] for absence in trained.after["absences"]} == {"no-data"}
    assert absent == {
        "container.disk.read.rate", "container.network.receive.rate", "container.network.transmit.rate",
        "hw.gpu.utilization", "hw.gpu.memory.utilization", "hw.gpu.memory.usage", "hw.npu.utilization",
        "hw.npu.memory.utilization", "hw.power",
    }  # fmt: skip
