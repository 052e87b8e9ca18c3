import math

import attrs
import numpy as np
import pytest
from rich.console import Console

from metricsbridge.cli._account import absent, failed
from metricsbridge.cli._render import print_collection, print_jobs
from metricsbridge.cli._table import make_groups, make_row, totals
from metricsbridge.collection import Collection
from metricsbridge.errors import ThrottledError
from metricsbridge.model import Absence, Accelerators, Failure, Job, JobStatus, Task, Window
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing, concat

MINUTE = 60_000
NOW = 1_000 * MINUTE + 30_000


def series(job: str, task: str, metric: str, minutes: list[int], values: list[float], unit: str = "1") -> SeriesBatch:
    return SeriesBatch(
        source="src",
        keys=(SeriesKey(job, task, "", metric),),
        unit=(unit,),
        interval_ms=(MINUTE,),
        timing=(Timing.REPORTED,),
        time_error_ms=(0,),
        statistic=(Statistic.MEAN,),
        offsets=np.array([0, len(minutes)], np.int64),
        times=np.array(minutes, np.int64) * MINUTE,
        values=np.array(values),
    )


def job(name: str, start: int | None, end: int | None = None, tasks: int = 1) -> Job:
    return Job(
        id=name,
        name=name,
        status=JobStatus.RUNNING,
        start_time_ms=None if start is None else start * MINUTE + 5,
        end_time_ms=None if end is None else end * MINUTE + 5,
        tasks=tuple([Task(id=f"w{n}") for n in range(tasks)]),
        source="src",
    )


def fleet(jobs: int, tasks: int, metrics: int = 2) -> Collection:
    batches = [
        series(f"j{j}", f"w{t}", f"vendor.x.m{m}", [990, 991], [1.0, 2.0], "W")
        for j in range(jobs)
        for t in range(tasks)
        for m in range(metrics)
    ]
    return Collection(
        series=concat(batches), jobs=tuple([job(f"j{j}", 990, tasks=tasks) for j in range(jobs)]), as_of_ms=NOW
    )


def test_a_row_sums_up_what_is_there_and_leaves_out_what_is_missing() -> None:
    row = make_row(series("j", "w0", "m", [996, 997, 999], [0.5, 1.5, math.nan]), 0, job("j", 996), None, NOW)
    assert (row.last, row.mean, row.max) == (1.5, 1.0, 1.5)
    assert row.observed == 0.5  # of the minutes 996 to 999, the last of which is complete


def test_the_sparkline_covers_the_life_of_the_job_and_shows_gaps() -> None:
    row = make_row(series("j", "w0", "m", [996, 997, 999], [0.0, 0.5, 1.0]), 0, job("j", 996), None, NOW)
    assert row.sparkline(30) == "▁▅ █"
    assert row.sparkline(2) == "▃█"


def test_a_fraction_is_drawn_against_all_of_it_and_anything_else_against_its_highest() -> None:
    fraction = series("j", "w0", "m", [998, 999], [0.1, 0.2])
    assert make_row(fraction, 0, job("j", 998), None, NOW).sparkline(9) == "▁▂"
    watts = attrs.evolve(fraction, unit=("W",))
    assert make_row(watts, 0, job("j", 998), None, NOW).sparkline(9) == "▅█"


def test_an_ended_job_could_be_observed_up_to_the_minute_it_ended_in() -> None:
    row = make_row(series("j", "w0", "m", [10, 12], [1.0, 1.0]), 0, job("j", 10, 12), None, NOW)
    assert row.observed == 2 / 3


def test_only_the_window_counts_as_observable() -> None:
    window = Window(997 * MINUTE + 1, NOW)
    row = make_row(series("j", "w0", "m", [998], [1.0]), 0, job("j", 10), window, NOW)
    assert row.observed == 0.5  # 998 and 999 begin in the window and are complete


def test_instants_are_spaced_as_they_come() -> None:
    batch = attrs.evolve(series("j", "w0", "m", [996, 997, 998, 999], [1.0] * 4), interval_ms=(0,))
    assert make_row(batch, 0, job("j", 996), None, NOW).observed == 1.0


def test_samples_before_the_job_s_start_do_not_break_the_sparkline() -> None:
    row = make_row(series("j", "w0", "m", [900, 999], [1.0, 1.0]), 0, job("j", 998), None, NOW)
    assert len(row.sparkline(5)) == 2


@pytest.mark.parametrize("rows", [1, 5, 12, 40, 1000])
def test_no_more_rows_are_shown_than_asked(rows: int) -> None:
    groups = make_groups(fleet(jobs=6, tasks=4), rows)
    shown = sum(len(group.shown) for group in groups)
    assert shown <= rows
    assert shown == min(rows, 48) or rows == 5


def test_every_job_is_represented_before_any_job_shows_more_tasks() -> None:
    assert [len(group.shown) for group in make_groups(fleet(jobs=6, tasks=4), 12)] == [2] * 6
    assert [len(group.shown) for group in make_groups(fleet(jobs=6, tasks=4), 6)] == [1] * 6


def test_tasks_stand_in_the_order_of_the_job_and_known_metrics_in_that_of_their_table() -> None:
    names = ("vendor.x.m", "hw.gpu.utilization", "container.cpu.utilization")
    came = [series("j", task, name, [990], [1.0]) for name in names for task in ("w2", "", "w0", "w1")]
    some = Collection(series=concat(came), jobs=(job("j", 990, tasks=3),), as_of_ms=NOW)
    for rows, tasks in ((0, ["w0", "w1", "w2", ""]), (6, ["w0", "w1"])):
        (group,) = make_groups(some, rows)
        shown = [some.series.keys[index] for index in group.shown]
        assert [(key.task, key.metric) for key in shown] == [(task, name) for task in tasks for name in names[::-1]]


def test_zero_rows_is_all() -> None:
    assert sum(len(group.shown) for group in make_groups(fleet(jobs=6, tasks=4), 0)) == 48


def test_jobs_without_series_are_listed_last() -> None:
    some = fleet(jobs=1, tasks=1)
    some = attrs.evolve(some, jobs=(job("idle", None), *some.jobs))
    groups = make_groups(some, 40)
    assert [group.job.id for group in groups] == ["j0", "idle"]
    assert groups[1].headline(NOW) == "1 task · not started"


def account() -> Collection:
    error = ThrottledError("too many", operation="Show", status=429, request_id="1")
    other = ThrottledError("too many", operation="Show", status=429, request_id="2")
    return Collection(
        series=series("a", "w0", "hw.power", [999], [1.0], "W"),
        failures=(
            Failure(targets=(("a", "w1"),), metrics=("hw.power",), window=None, error=error, attempts=7, source="src"),
            Failure(targets=(("b", "w0"),), metrics=("hw.power",), window=None, error=other, source="src"),
        ),
        absences=(
            Absence(targets=(("a", "w0"),), metrics=("hw.npu.utilization",), reason="no-data", source="src"),
            Absence(
                targets=(("b", "w0"), ("b", "w1")), metrics=("hw.npu.utilization",), reason="no-data", source="src"
            ),
            Absence(targets=(("c", "w0"),), metrics=(), reason="not-started", source="src"),
        ),
        jobs=(job("a", 998, tasks=2), job("b", 998, tasks=2), job("c", None)),
        as_of_ms=NOW,
    )


def test_absences_are_grouped_by_reason_and_metrics() -> None:
    names = {("src", name): f"name-{name}" for name in "abc"}
    not_started, no_data = absent(account())
    assert not_started.where(names) == "1 task of 1 job: name-c (w0)"
    assert not_started.what(str) == "everything"
    assert no_data.where(names) == "3 tasks of 2 jobs: name-a (1), name-b (2)"


def test_failures_are_grouped_by_what_went_wrong() -> None:
    [entry] = failed(account())
    assert entry.why == "ThrottledError: too many [Show, HTTP 429, request 1]"
    assert entry.attempts == 7
    assert entry.where({}) == "2 tasks of 2 jobs: a (1), b (1)"


@pytest.mark.parametrize("width", [80, 100, 120, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    console = Console(width=width, record=True, file=open("/dev/null", "w"), markup=False, highlight=False)  # noqa: SIM115
    with console.file:
        whole = fleet(jobs=3, tasks=2)
        named = attrs.evolve(account(), series=concat([whole.series, account().series]))
        print_collection(console, attrs.evolve(named, jobs=whole.jobs + named.jobs), rows=4)
        text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "9 more series" in text or "more series are not shown" in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_long_list_of_jobs_keeps_its_references_whole() -> None:
    long = attrs.evolve(job("j" * 60, 5), accelerators=Accelerators(kind="gpu", count=8, model="M" * 20))
    with open("/dev/null", "w") as sink:
        console = Console(width=80, record=True, file=sink, force_terminal=True, markup=False, highlight=False)
        print_jobs(console, [long], NOW)
        text = console.export_text()
    assert f"src/{'j' * 60}" in text.split()


def test_several_sources_are_named_and_each_has_an_everything_of_its_own(capsys) -> None:
    one, other = fleet(jobs=1, tasks=1), attrs.evolve(fleet(jobs=1, tasks=1).jobs[0], source="b")
    more = attrs.evolve(series("j0", "w0", "hw.power", [990], [1.0], "W"), source="b")
    both = Collection(
        series=concat([one.series, more]), jobs=(*one.jobs, other), as_of_ms=NOW,
        absences=(Absence(targets=(("j0", "w1"),), metrics=("hw.power",), reason="no-data", source="b"),),
    )  # fmt: skip
    print_collection(Console(width=100), both, rows=0)
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines() if "running" in line] == ["src", "b"]
    assert "everything · 1 task of 1 job: j0 (w1)" in out
    print_collection(Console(width=100), one, rows=0)
    assert "src" not in capsys.readouterr().out


@pytest.mark.parametrize(("task", "said"), [("w0", "1 series of 1 task in 1 job"), ("", "1 series of 1 job")])
def test_the_totals_count_tasks_where_there_are_any(task: str, said: str) -> None:
    one = Collection(series=series("j", task, "hw.power", [990], [1.0], "W"), jobs=(job("j", 990),), as_of_ms=NOW)
    assert totals(one) == f"{said}, 1 sample"
