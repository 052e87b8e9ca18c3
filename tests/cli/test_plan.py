"""``collect --plan``: what would be sent, for people and for programs."""

import pytest


@pytest.fixture
def config(emulated, tmp_path) -> str:
    return emulated.config(tmp_path)


def test_a_plan_is_one_document(run, config, emulated) -> None:
    ran = run("collect", "emu", "--plan", "--json", "--config", config)
    plan = ran.json()
    assert ran.code == 0
    assert {job["id"] for job in plan["jobs"]} == set(emulated.line["jobs"])
    assert plan["calls"] == sum(each["calls"] for each in plan["operations"]) > 0
    started = [job for job in plan["jobs"] if job["start_time_ms"] is not None]
    assert plan["operations"][0]["jobs"] == len(started)
    assert plan["operations"][0]["targets"] == sum(len(job["tasks"]) for job in started)
    assert {absence["reason"] for absence in plan["absences"]} >= {"not-started"}


def test_a_plan_is_a_table_with_its_limits(run, emulated, tmp_path) -> None:
    config = emulated.config(tmp_path)
    with open(config, encoding="utf-8") as file:
        text = file.read()
    head, _, _ = text.partition("[sources.emu.limits]")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f'{head}[sources.emu.limits]\n"ShowTrainingJobMetrics" = "2/s"\n')
    document = run("collect", "emu", "--plan", "--json", "--config", config).json()
    ran = run("collect", "emu", "--plan", "--config", config)
    titles, line = ran.out.splitlines()[:2]
    assert titles.split() == ["source", "operation", "calls", "jobs", "tasks", "limit", "takes"]
    calls = document["calls"]
    assert line.split()[:5] == [
        "emu", "ShowTrainingJobMetrics", str(calls), str(document["operations"][0]["jobs"]), str(calls),
    ]  # fmt: skip
    assert line.split()[5] == "2/s"
    assert document["seconds"] == calls / 2
    assert "none of them was made" in ran.out
    assert "not started, in whole or in part" in ran.out


def test_a_job_that_can_t_be_planned_is_named_and_the_exit_code_says_so(run, config, emulated) -> None:
    known = emulated.line["jobs"][0]
    some = run("collect", f"emu/{known}", "emu/none", "--plan", "--config", config)
    assert some.code == 3
    assert "1 job or source can't be planned; the first: NotFoundError" in some.err
    assert run("collect", "emu/none", "--plan", "--config", config).code == 1


def test_a_plan_writes_no_file(run, config) -> None:
    ran = run("collect", "emu", "--plan", "-o", "x.csv", "--config", config)
    assert ran.code == 2
    assert "--plan collects nothing" in ran.err
