"""Time is read and waited for in one module, and tasks are born in task groups: else neither is under control."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

import pytest

from fresh_interpreter import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLOCK: Final = "metricsbridge/runtime/_clock.py"
TASK_GROUPS: Final = {
    "metricsbridge/runtime/_run.py",  # the workers of one collection, lent to runtime/_fanout.py
    "metricsbridge/collector.py",  # the collection behind a stream
}
# An emulated service has a clock of its own, which its creator may replace; it only reads it.
SERVICE_CLOCKS: Final = {
    "providers/metricsbridge_modelarts/emulator.py": {"time.time_ns"},
    "providers/metricsbridge_modelarts/emulator_v1.py": {"time.time_ns"},
    "providers/metricsbridge_pai/emulator.py": {"time.time_ns"},
}
LOOPS: Final = {
    # Who blocks asks one thing of the loop: whether it is there, for then the work needs a thread of its own.
    "metricsbridge/runtime/_blocking.py": {"asyncio.get_running_loop"},
    # The HTTP library would set a timer for each request; this one does for all.
    "metricsbridge/runtime/_turns.py": {
        ".call_at", ".call_later", "asyncio.Task", "asyncio.TimerHandle", "asyncio.current_task",
        "asyncio.get_running_loop",
    },
}  # fmt: skip
# Threads: a notebook's own loop holds its thread while someone there waits for a collection.
THREADS: Final = {
    "metricsbridge/runtime/_blocking.py",  # a loop for those who have none
    "metricsbridge/runtime/_threads.py",  # work that would hold up the loop
}

TIME_READS: Final = {f"{owner}.{name}" for owner in ("datetime", "date") for name in ("now", "utcnow", "today")}
TASKS: Final = {"create_task", "ensure_future", "run_coroutine_threadsafe", "run_in_executor", "call_later", "call_at"}
SLEEPS: Final = {"anyio.sleep", "anyio.sleep_until", "anyio.sleep_forever", "anyio.current_time"}


def _sources() -> dict[str, Path]:
    folders = (PROJECT / "metricsbridge", PROJECT / "providers")
    return {path.relative_to(PROJECT).as_posix(): path for folder in folders for path in sorted(folder.rglob("*.py"))}


def _dotted(node: ast.AST) -> str:
    """Give "a.b.c" of an attribute access, or ""."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def _used(source: str) -> Iterator[str]:
    """Give whatever the source names from modules: dotted accesses, and imported members."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (f"import {alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield _dotted(node)
            yield f".{node.attr}"


def _offences(source: str) -> set[str]:
    found = set()
    for name in _used(source):
        reads = name.startswith("time.") or any(name == read or name.endswith(f".{read}") for read in TIME_READS)
        runs = name.startswith("asyncio.") or name == "import asyncio" or name.removeprefix(".") in TASKS
        if reads or runs or name in SLEEPS:
            found.add(name)
    return found


@pytest.mark.parametrize("name", _sources())
def test_no_module_but_the_clock_reads_time_waits_or_makes_tasks(name):
    found = _offences(_sources()[name].read_text("utf-8"))
    if name == CLOCK:
        assert found == {"time.monotonic", "time.time_ns", "anyio.sleep"}
    else:
        # A default that the creator may replace is handed over, not called.
        injected = {"anyio.sleep"} if name == "metricsbridge/testing/faults.py" else set()
        assert found == SERVICE_CLOCKS.get(name, set()) | LOOPS.get(name, set()) | injected


def test_task_groups_are_opened_where_the_fan_out_is():
    opened = {name for name, path in _sources().items() if "create_task_group" in path.read_text("utf-8")}
    assert opened == TASK_GROUPS


def test_threads_are_started_where_the_table_says():
    assert {name for name, path in _sources().items() if _starts_threads(path.read_text("utf-8"))} == THREADS


def _starts_threads(source: str) -> bool:
    return any(re.search(r"\b(from_thread|to_thread|threading|concurrent|to_process)\b", u) for u in _used(source))


@pytest.mark.parametrize(
    "line",
    [
        "import asyncio",
        "from asyncio import gather",
        "asyncio.gather(a, b)",
        "loop.create_task(work())",
        "asyncio.ensure_future(work())",
        "import time\ntime.sleep(1)",
        "from time import time",
        "time.time_ns()",
        "time.perf_counter()",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "date.today()",
        "await anyio.sleep(1)",
    ],
)
def test_each_way_around_is_found(line):
    assert _offences(f"async def work():\n    {line.replace(chr(10), chr(10) + '    ')}")
