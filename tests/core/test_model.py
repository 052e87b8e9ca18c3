import pickle
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.errors import ConfigurationError, InvalidRequestError, NotFoundError
from metricsbridge.model import (
    Absence,
    Call,
    Failure,
    Job,
    JobRef,
    JobSearch,
    JobStatus,
    Query,
    RelativeWindow,
    Task,
    Window,
    check_source,
)

instants = st.integers(-(2**53), 2**53)

# References to jobs


@pytest.mark.parametrize(
    ("text", "source", "job_id"),
    [
        ("hw-prod/2cd88daa-31a4", "hw-prod", "2cd88daa-31a4"),
        ("v1-prod/10/10", "v1-prod", "10/10"),
        ("k8s/team/job/attempt", "k8s", "team/job/attempt"),
        ("a.b_C-1/x", "a.b_C-1", "x"),
        ("hw/job with spaces", "hw", "job with spaces"),
        ("hw/任务%2F..a", "hw", "任务%2F..a"),
        ("hw/...", "hw", "..."),
    ],
)
def test_a_reference_is_split_at_the_first_slash(text, source, job_id):
    reference = JobRef.parse(text)
    assert (reference.source, reference.job_id) == (source, job_id)
    assert reference == JobRef(source, job_id)
    assert str(reference) == text


@given(st.from_regex(r"[A-Za-z0-9_.-]+", fullmatch=True), st.from_regex(r"[a-z0-9]+(/[a-z0-9]+){0,3}", fullmatch=True))
def test_what_a_reference_is_written_as_reads_as_itself(source, job_id):
    assert JobRef.parse(str(JobRef(source, job_id))) == JobRef(source, job_id)


@pytest.mark.parametrize(
    "job_id",
    [
        "",
        ".",
        "..",
        "../10",
        "10/..",
        "10/./10",
        "10//10",
        "/10",
        "10/",
        "a\nb",
        "a\x00b",
        "a\x7fb",
        "\x1b[2J",
        "10/\t",
    ],
)
def test_a_job_id_that_could_name_another_resource_is_refused(job_id):
    for make in (lambda: JobRef("hw", job_id), lambda: JobRef.parse(f"hw/{job_id}")):
        with pytest.raises(InvalidRequestError, match=r"may not be empty, '\.', '\.\.' or have control characters"):
            make()


@pytest.mark.parametrize("text", ["", "job", "hw-prod"])
def test_text_without_a_slash_is_no_reference(text):
    with pytest.raises(ConfigurationError, match="write it as source/job-id"):
        JobRef.parse(text)


@pytest.mark.parametrize("source", ["", "hw prod", "hw:prod", "hw/prod", "hw\n", "ü", "hw@1"])
def test_a_source_name_with_other_characters_is_refused(source):
    with pytest.raises(ConfigurationError, match=r"use letters, digits, '_', '\.' and '-'"):
        check_source(source)
    with pytest.raises(ConfigurationError, match="is no name for a source"):
        JobRef(source, "10")


def test_references_are_values():
    assert len({JobRef("hw", "1"), JobRef.parse("hw/1"), JobRef("hw", "2")}) == 2
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        JobRef("hw", "1").source = "other"


# States


def test_a_job_that_succeeded_failed_or_was_stopped_has_ended_for_good():
    assert {status for status in JobStatus if status.terminal} == {
        JobStatus.SUCCEEDED,
        JobStatus.FAILED,
        JobStatus.STOPPED,
    }


@pytest.mark.parametrize("status", JobStatus)
def test_a_status_is_its_word(status):
    assert JobStatus(status.value) is status
    assert str(status) == status.value == status.name.lower()


# Windows


@given(start=instants, length=st.integers(1, 2**40), time=instants)
def test_a_window_is_half_open(start, length, time):
    window = Window(start, start + length)
    assert window.start_ms in window
    assert window.end_ms not in window
    assert window.end_ms - 1 in window
    assert window.start_ms - 1 not in window
    assert (time in window) == (window.start_ms <= time < window.end_ms)
    assert window.duration_ms == length


@given(one=instants, other=instants)
def test_windows_side_by_side_share_no_instant(one, other):
    start, middle = min(one, other), max(one, other) + 1
    left, right = Window(start, middle), Window(middle, middle + 1)
    assert all((time in left) != (time in right) for time in (start, middle - 1, middle))


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 0), (5, -5)])
def test_a_window_that_does_not_last_is_refused(start, end):
    with pytest.raises(ValueError, match=rf"end \({end}\) must be later than its start \({start}\)"):
        Window(start, end)


def test_a_window_is_made_of_aware_datetimes_as_well():
    start = datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC)
    window = Window(start, start + timedelta(hours=1))
    assert window == Window(1_750_000_000_000, 1_750_003_600_000)
    assert (window.start, window.end) == (start, start + timedelta(hours=1))


def test_a_window_of_naive_datetimes_is_refused():
    with pytest.raises(ValueError, match="has no time zone"):
        Window(datetime(2025, 1, 1), datetime(2025, 1, 2, tzinfo=UTC))


@given(duration=st.integers(1, 2**40), now=instants)
def test_a_relative_window_ends_when_it_is_resolved(duration, now):
    relative = Window.last(duration)
    assert isinstance(relative, RelativeWindow)
    assert relative.resolve(now) == Window(now - duration, now)


@pytest.mark.parametrize("duration", ["1h", "60m", 3_600_000, timedelta(hours=1)])
def test_a_relative_window_takes_any_duration(duration):
    assert Window.last(duration) == RelativeWindow("1h")
    assert Window.last(duration).duration_ms == 3_600_000


@pytest.mark.parametrize("duration", ["soon", 0, "-1h"])
def test_a_relative_window_of_no_duration_is_refused(duration):
    with pytest.raises(ValueError, match="duration"):
        Window.last(duration)


def test_an_absolute_window_resolves_to_itself():
    window = Window(0, 1)
    assert window.resolve(1_750_000_000_000) is window


# Queries and what becomes of them


def test_a_search_takes_states_as_words():
    search = JobSearch(status=["running", JobStatus.FAILED])
    assert search.status == {JobStatus.RUNNING, JobStatus.FAILED}
    assert JobSearch().status is None


def test_a_search_for_a_state_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'done' is not a valid JobStatus"):
        JobSearch(status=["done"])


@pytest.mark.parametrize("limit", [0, -1])
def test_a_search_for_fewer_than_one_job_is_refused(limit):
    with pytest.raises(ValueError, match="limit"):
        JobSearch(limit=limit)
    assert JobSearch(limit=1).limit == 1


def test_a_query_selects_all_tasks_unless_it_names_some():
    window = Window(0, 1)
    assert Query(window=window).selects(Task(id="worker-0"))
    assert Query(window=window, tasks=("worker-0",)).selects(Task(id="worker-0"))
    assert not Query(window=window, tasks=("worker-0",)).selects(Task(id="worker-1"))
    assert not Query(window=window, tasks=()).selects(Task(id="worker-0"))


@pytest.mark.parametrize("cls", [Job, Call])
def test_a_payload_is_left_out_of_the_representation(cls):
    required = {"id": "1"} if cls is Job else {"operation": "o", "targets": (), "metrics": (), "window": Window(0, 1)}
    assert "the-payload" not in repr(cls(**required, payload="the-payload"))


@pytest.mark.parametrize(
    "value",
    [
        JobRef("hw", "1"),
        Job(id="1", tasks=(Task(id="worker-0", role="worker"),), payload={"route": "v2"}),
        JobSearch(status=["running"], created=Window(0, 1)),
        Query(window=Window(0, 1), metrics=("hw.power",)),
        Call(operation="o", targets=(("1", ""),), metrics=("hw.power",), window=Window(0, 1), payload=(1, 2)),
        Absence(targets=(("1", ""),), metrics=("hw.power",), reason="no-data"),
        Window.last("1h"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_survive_pickling(value):
    assert pickle.loads(pickle.dumps(value)) == value


def test_a_failure_survives_pickling_with_its_error():
    failure = Failure(targets=(("1", ""),), metrics=("m",), window=None, error=NotFoundError("gone", status=404))
    copy = pickle.loads(pickle.dumps(failure))
    assert (copy.targets, copy.metrics, copy.window, copy.attempts) == (failure.targets, ("m",), None, 1)
    assert (str(copy.error), copy.error.status) == (str(failure.error), 404)
