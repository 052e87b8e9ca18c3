import re
from itertools import groupby

import metricsbridge.cli._demo as demo


def test_the_demo_reads_a_fleet_through_faults(run) -> None:
    ran = run("demo", "--json")
    document = ran.json()
    assert (ran.code, ran.err) == (0, "")
    assert set(document["sources"]) == {"modelarts", "modelarts-v1", "otc-modelarts", "pai-dlc"}
    assert {series["source"] for series in document["series"]} == set(document["sources"])
    assert document["tasks"] >= 120
    assert document["samples"] > 10_000
    assert document["failures"] == []
    assert {absence["reason"] for absence in document["absences"]} >= {"not-started", "no-data"}
    assert document["requests"] > document["tasks"]
    assert set(document["faults"]) == set(demo.FAULTS)
    assert sum(document["faults"].values()) >= 5
    assert all(0 <= series["observed"] <= 1 for series in document["series"])


def test_the_demo_shows_every_started_job_and_what_it_leaves_out(run) -> None:
    ran = run("demo", "--rows", "20", "--seed", "1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert not any(line != line.rstrip() for line in lines)
    shown = [line for line in lines if ".utilization  " in line]
    assert len(shown) <= 20
    for number in (0, 1, 5, 6, 7):
        assert any(line.startswith("modelarts  ") and line.split("  ")[1].endswith(f"-{number}") for line in lines)
    headlines = [line.split("  ") for line in lines if re.match(r"[a-z-]+(-v1)?  \S", line)]
    assert [name for name, _ in groupby(line[0] for line in headlines[:20])] == [
        "modelarts", "modelarts-v1", "otc-modelarts", "pai-dlc",
    ]  # fmt: skip
    assert "--rows 0 shows all" in ran.out
    assert re.search(r"series of 1\d\d tasks in 32 jobs", ran.out)
    assert "\x1b" not in ran.out


def test_all_rows_are_shown_when_asked(run) -> None:
    lines = run("demo", "--rows", "0").out.splitlines()
    assert sum(".utilization  " in line for line in lines) > 200
    assert not any("more series" in line for line in lines)
