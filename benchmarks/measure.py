"""What every benchmark here shares: interleaved rounds, ratios taken round by round, and tables."""

from __future__ import annotations

import gc
import os
import platform
import time
import tracemalloc
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.kernel import has_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    Surrounding = Callable[[], AbstractContextManager[object]]
    """What is entered before, and left after, a contestant's turn."""

PACKAGES = (
    "metricsbridge",
    "numpy",
    "msgspec",
    "aiohttp",
    "orjson",
    "pysimdjson",
    "pandas",
    "polars",
    "huaweicloudsdkmodelarts",
    "alibabacloud-pai-dlc20201203",
)
"""Whose versions are told beside the figures."""

SPREAD = ("from", "to")
"""The columns with the quartiles of the ratio before them: half of all rounds lie between."""


@attrs.frozen
class Gate:
    """A ratio that must be reached; checked in full runs only."""

    what: str
    reached: float
    needed: float

    @property
    def met(self) -> bool:
        return self.reached >= self.needed

    def __str__(self) -> str:
        return f"gate {'met' if self.met else 'MISSED'}: {self.what}: {self.reached:.2f}, at least {self.needed} needed"


@attrs.frozen(kw_only=True)
class Table:
    """The figures of one input: a row for each contestant."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    gates: tuple[Gate, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = [self.columns, *[tuple([cell(value) for value in row]) for row in self.rows]]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.columns))]
        lines = ["", self.title]
        for row in cells:
            first, *others = zip(row, widths, strict=True)
            lines.append("  ".join([first[0].ljust(first[1]), *[text.rjust(width) for text, width in others]]).rstrip())
        return "\n".join([*lines, *self.notes, *map(str, self.gates)])

    def to_markdown(self) -> str:
        """Give the figures as they stand in README.md: the spread of a ratio in brackets behind it, gates left out."""
        if SPREAD[0] not in self.columns:
            plain = [self.columns, ["---"] * len(self.columns), *[[cell(value) for value in row] for row in self.rows]]
            return "\n".join([f"**{self.title}**", "", *[f"| {' | '.join(line)} |" for line in plain], ""])
        spread = self.columns.index(SPREAD[0]) - 1
        columns = [name for name in self.columns if name not in SPREAD]
        lines = [columns, ["---"] * len(columns)]
        for row in self.rows:
            cells = [cell(value) for value in row]
            ratio, lower, upper = cells[spread : spread + 3]
            told = ratio if lower == upper else f"{ratio} ({lower}–{upper})"
            lines.append([*cells[:spread], told, *cells[spread + 3 :]])
        return "\n".join([f"**{self.title}**", "", *[f"| {' | '.join(line)} |" for line in lines], ""])

    def to_json(self) -> dict[str, Any]:
        """Give plain values, the figures unrounded."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        gates = [{**attrs.asdict(gate), "met": gate.met} for gate in self.gates]
        return {"title": self.title, "rows": rows, "gates": gates, "notes": list(self.notes)}


def gates_markdown(tables: Iterable[Table]) -> str:
    """Give every gate of the tables as one table in Markdown."""
    rows = [
        f"| {gate.what} | {cell(gate.needed)} | {gate.reached:.2f} | {'met' if gate.met else 'missed'} |"
        for table in tables
        for gate in table.gates
    ]
    return "\n".join(["| ours is faster | times at least | reached | |", "|---|---|---|---|", *rows, ""])


def cell(value: object) -> str:
    """Write a figure with three digits that count; None is a dash."""
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4}f}"


def interleave(
    contestants: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    at_least_s: float,
    around: Mapping[str, Surrounding] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Time contestants in turns, A B C A B C …: seconds of one run of each, for every round.

    Args:
        contestants: Name to what is timed.
        rounds: How many turns each has.
        at_least_s: A turn repeats a contestant until about so much time has passed.
        around: Name to the surroundings of its turns, which are not timed; none where a name is missing.
        clock: ``time.process_time`` leaves out what a busy machine made a contestant wait; it is for work that is done
            in one thread.
    """
    surroundings = [(around or {}).get(name, nullcontext) for name in contestants]
    gc.collect()
    gc.freeze()  # nobody pays for looking through the modules that the others have imported
    try:
        repeats = []
        for run, surrounding in zip(contestants.values(), surroundings, strict=True):
            with surrounding():
                repeats.append(_repeats(run, at_least_s))
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(rounds):
            for (name, run), surrounding, times in zip(contestants.items(), surroundings, repeats, strict=True):
                gc.collect()
                with surrounding():
                    run()  # finds its own memory and caches in place, whoever's turn it was before
                    begun = clock()
                    for _ in range(times):
                        run()
                    seconds[name].append((clock() - begun) / times)
    finally:
        gc.unfreeze()
    return seconds


def _repeats(run: Callable[[], object], at_least_s: float) -> int:
    run()
    begun = time.perf_counter()
    run()
    return max(1, round(at_least_s / (time.perf_counter() - begun)))


def ratios(over: Sequence[float], under: Sequence[float]) -> tuple[float, float, float]:
    """Give the median and the two quartiles of the ratios, each taken within a round."""
    found = [a / b for a, b in zip(over, under, strict=True)]
    lower, middle, upper = quantiles(found, n=4, method="inclusive") if len(found) > 1 else found * 3
    return middle, lower, upper


def peak_bytes(run: Callable[[], object], surrounding: Surrounding | None = None) -> int:
    """Give the most that Python and numpy held at once on top of the inputs, result included."""
    gc.collect()
    with (surrounding or nullcontext)():
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def named(package: str) -> str:
    """Give a package's name with its version."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} (not installed)"


def machine() -> dict[str, Any]:
    """Describe what the figures were measured on."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores(),
        "kernel": has_kernel(),
        "packages": [named(package) for package in PACKAGES],
    }


def cores() -> int | None:
    """Give how many processors this process may use; None where that is not known."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return platform.processor()
