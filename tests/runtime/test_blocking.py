"""Collecting without an event loop of one's own: from scripts, and from notebooks, whose loop is running already."""

from __future__ import annotations

import inspect
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import pytest

import metricsbridge as mb
from fresh_interpreter import PROJECT, run_fresh
from metricsbridge.registry import open_spec
from metricsbridge.testing import FakeClock
from watched_service import WATCHED, WINDOW, Notes, Service, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from metricsbridge.http import Request

JOBS: Final = ["hw/job-1", "hw/job-0"]


def collect(**options: Any) -> tuple[mb.Collection, set[str]]:
    """Collect; gives the threads in which the service was asked."""
    threads = set()

    def script(request: Request) -> tuple[str, float]:
        threads.add(threading.current_thread().name)
        return "ok", 0.0

    service = Service(FakeClock(), script)
    sources = {"hw": opened(service)}
    return mb.collect_blocking(JOBS, sources=sources, **{"window": WINDOW, **options}), threads


def check(result: mb.Collection) -> None:
    assert [job.id for job in result.jobs] == ["job-1", "job-0"]
    assert [key.job for key in result.series.keys] == ["job-1", "job-1", "job-0", "job-0"]
    assert result.complete


def test_a_script_gets_what_collect_gives() -> None:
    result, threads = collect()
    check(result)
    assert threads == {threading.main_thread().name}


async def test_where_a_loop_runs_the_work_gets_a_thread_which_ends_with_it() -> None:
    before = set(threading.enumerate())
    result, threads = collect()
    check(result)
    assert threading.current_thread().name not in threads
    assert len(threads) == 1
    assert set(threading.enumerate()) == before


def test_errors_come_as_they_are() -> None:
    with pytest.raises(ValueError, match="'task', 'device' or 'job'"):
        collect(per="node")
    with pytest.raises(mb.ConfigurationError, match="password"):
        mb.collect_blocking(JOBS, sources={"hw": open_spec("watched", WATCHED)})


async def test_errors_come_out_of_the_thread_as_they_are() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="'task', 'device' or 'job'"):
        collect(per="node")
    assert set(threading.enumerate()) == before


def test_strict_raises_the_group_itself() -> None:
    service = Service(FakeClock(), lambda request: ("404", 0.0))
    sources = {"hw": opened(service)}
    with pytest.raises(ExceptionGroup) as caught:
        mb.collect_blocking(JOBS, sources=sources, strict=True)
    assert caught.group_contains(mb.NotFoundError)


CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


class Reading(Notes):
    """Keeps who the caller was, as tracing does."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: set[str] = set()

    def on_request(self, event: mb.RequestEvent, /) -> None:
        self.callers.add(CALLER.get())


def test_the_observer_is_in_the_caller_s_context() -> None:
    token, notes = CALLER.set("me"), Reading()
    collect(observer=notes)
    CALLER.reset(token)
    assert notes.callers == {"me"}
    assert len(notes.calls) == 6


async def test_the_observer_in_the_thread_is_in_the_caller_s_context() -> None:
    token, notes = CALLER.set("me"), Reading()
    collect(observer=notes)
    CALLER.reset(token)
    assert notes.callers == {"me"}


def test_a_configuration_and_a_mapping_of_sources_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(mb.ConfigurationError, match="not both"):
        collect(config=tmp_path / "metricsbridge.toml")


@pytest.mark.parametrize("names", ["hw", ["hw"]])
def test_sources_may_be_chosen_from_a_configuration_by_name(tmp_path: Path, names: Any) -> None:
    path = tmp_path / "metricsbridge.toml"
    path.write_text('[sources.pai]\nprovider = "no-such-provider"\n', "utf-8")
    with pytest.raises(mb.ConfigurationError, match=r"source 'hw' is not configured \(there are: pai\)"):
        mb.collect_blocking(JOBS, config=path, sources=names)
    with pytest.raises(mb.ProviderNotFoundError, match="no-such-provider"):
        mb.collect_blocking(JOBS, config=path)


@pytest.mark.parametrize("function", [mb.Collector.collect, mb.Collector.__init__])
def test_it_takes_every_argument_of_what_it_stands_for(function: Callable[..., Any]) -> None:
    taken = inspect.signature(mb.collect_blocking).parameters
    others = {**inspect.signature(function).parameters}
    for name in ("self", "clock", "jobs", "sources"):
        others.pop(name, None)
    assert {name: p.default for name, p in others.items()} == {name: taken[name].default for name in others}


_INTERRUPTED: Final = """
import asyncio, signal, threading
import anyio
import metricsbridge as mb
from metricsbridge.registry import open_spec
from metricsbridge.testing import FakeTransport
from watched_service import PASSWORD, WATCHED, WINDOW

async def answer(request):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    try:
        await anyio.sleep_forever()
    finally:
        print("cancelled")

def collect():
    sources = {"hw": open_spec("watched", WATCHED, transport=FakeTransport(answer), password=PASSWORD)}
    try:
        mb.collect_blocking("hw/j", sources=sources, window=WINDOW)
    except KeyboardInterrupt:
        print("interrupted")
    print(threading.active_count(), "thread")

async def notebook():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook's kernel has it
    collect()

asyncio.run(notebook()) if RUNNING else collect()
"""


@pytest.mark.parametrize("running", [False, True], ids=["no loop", "a loop runs"])
def test_ctrl_c_ends_the_work_and_leaves_no_thread(running: bool) -> None:
    code = f"RUNNING = {running}\n{_INTERRUPTED}"
    assert run_fresh(code, paths=[PROJECT / "tests"]).split("\n") == ["cancelled", "interrupted", "1 thread", ""]
