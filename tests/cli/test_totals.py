"""``jobs SOURCE --totals``, and the table of what providers can do."""

import re

import pytest
from rich.console import Console

from metricsbridge.cli._providers import Described, families, markdown_table
from metricsbridge.cli._render import print_job_totals
from metricsbridge.cli._table import sort_totals
from metricsbridge.model import JobStatus, JobTotals
from metricsbridge.registry import ProviderInfo


@pytest.fixture
def config(emulated, tmp_path):
    return emulated.config(tmp_path)


def totals(status: JobStatus, word: str, jobs: int, gpus: int = 0, npus: int = 0) -> JobTotals:
    return JobTotals(status=status, vendor_status=word, jobs=jobs, gpus=gpus, npus=npus)


def test_totals_add_up_to_the_list(run, config) -> None:
    listed = run("jobs", "emu", "--config", config, "--json").json()["jobs"]
    ran = run("jobs", "emu", "--config", config, "--totals", "--json")
    found = ran.json()["totals"]
    assert ran.code == 0
    assert sum(each["jobs"] for each in found) == len(listed)
    for kind in ("gpu", "npu"):
        devices = [
            job["accelerators"]["count"] * len(job["tasks"])
            for job in listed
            if job["accelerators"] is not None and job["accelerators"]["kind"] == kind
        ]
        assert sum(each[f"{kind}s"] for each in found) == sum(devices) > 0
    assert {each["status"] for each in found} == {job["status"] for job in listed}


def test_totals_of_a_status_are_a_table_with_a_sum(run, config) -> None:
    ran = run("jobs", "emu", "--config", config, "--totals", "--status", "running", "--status", "failed")
    header, *rows, last = [re.split(r"  +", line.strip()) for line in ran.out.splitlines()]
    assert header == ["status", "the service's word", "jobs", "GPUs", "NPUs"]
    assert [row[0] for row in rows] == ["running", "failed", "failed"]
    assert last[0] == "all"
    assert [int(number) for number in last[1:]] == [sum(int(row[place]) for row in rows) for place in (2, 3, 4)]


def test_a_limit_makes_no_sense_with_totals(run, config) -> None:
    ran = run("jobs", "emu", "--config", config, "--totals", "--limit", "3")
    assert (ran.code, ran.out) == (2, "")
    assert "leave --limit out" in ran.err


def test_totals_stand_in_the_order_of_a_jobs_life_and_numbers_in_their_own() -> None:
    given = [
        totals(JobStatus.FAILED, "11", 1), totals(JobStatus.FAILED, "3", 1), totals(JobStatus.PENDING, "7", 1),
        totals(JobStatus.FAILED, "Abnormal", 1), totals(JobStatus.RUNNING, "8", 1),
    ]  # fmt: skip
    assert [each.vendor_status for each in sort_totals(given)] == ["7", "8", "Abnormal", "3", "11"]


def test_no_jobs_at_all_are_a_sum_of_zero(capsys) -> None:
    print_job_totals(Console(), [])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "0", "0", "0"]


def test_a_steering_word_of_the_service_is_shown_and_not_obeyed(capsys) -> None:
    print_job_totals(Console(), [totals(JobStatus.UNKNOWN, "\x1b[31m", 1)])
    assert "\x1b" not in capsys.readouterr().out


def test_families_name_each_once_in_order() -> None:
    names = ["container.cpu.utilization", "container.memory.utilization", "hw.gpu.utilization", "hw.gpu.memory.usage"]
    assert families(names) == "CPU, memory, GPU"
    assert families([]) == ""


def test_what_can_be_used_stands_in_the_markdown_table_and_nothing_else() -> None:
    info = [ProviderInfo(name=name, package="p", version="1", target="p:X") for name in ("a", "b")]
    made = markdown_table([
        Described(info=info[0], description="A service", serves={"job": ("hw.npu.utilization",)}, timing="reported"),
        Described(info=info[1], error="broken"),
    ])  # fmt: skip
    assert made.splitlines()[2:] == ["| `a` | A service | – | – | – | NPU | reported |"]
