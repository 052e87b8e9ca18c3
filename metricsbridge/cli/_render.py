"""Prints for people, with rich; for programs there is JSON."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from metricsbridge.cli._account import absent, failed
from metricsbridge.cli._table import jobs_by_key, make_groups, make_row, totals
from metricsbridge.cli._text import (
    count,
    format_instant,
    format_share,
    format_span,
    format_value,
    printable,
    short_metric,
)
from metricsbridge.durations import to_datetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metricsbridge.cli._account import Entry
    from metricsbridge.cli._table import Group, Row
    from metricsbridge.collection import Collection
    from metricsbridge.model import Job, JobTotals

_PIPED_WIDTH: Final = 100
_WIDEST: Final = 140
_LONG_NAMES_FROM: Final = 98
"""So many columns leave room for whole metric names beside a sparkline."""

_GAP: Final = 2
_COLUMNS: Final = ("task", "metric", "last", "mean", "max", "over time", "observed")
_MOST: Final = (20, 44, 16, 16, 16)
"""How wide each of the first columns gets."""

_RIGHT: Final = frozenset({"last", "mean", "max", "observed"})
_MOST_ENTRIES: Final = 20

_STATUS_STYLES: Final[Mapping[str, str]] = {
    "running": "green",
    "succeeded": "blue",
    "failed": "red",
    "stopped": "yellow",
    "stopping": "yellow",
}


def make_console(*, stderr: bool = False) -> Console:
    """Give a console that takes text as it is; where there is no terminal, it has a width of its own."""
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    known = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    console.width = min(console.width, _WIDEST) if known else _PIPED_WIDTH
    return console


def print_error(message: str, *, word: str = "error") -> None:
    """Print one line to stderr."""
    print(f"{word}: {printable(' '.join(message.split()))}", file=sys.stderr)


def print_text(console: Console, text: str, indent: int = 0, *, style: str = "") -> None:
    """Print a paragraph; where it is indented, its further lines are indented more."""
    first, rest = " " * indent, " " * (indent and indent + 2)
    for line in textwrap.wrap(
        text, console.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    ):
        console.print(Text(line, style=style), no_wrap=True)


def print_collection(console: Console, collection: Collection, *, rows: int) -> None:
    """Print the table, what it leaves out, and what failed or is absent.

    Args:
        console: Where to.
        collection: What to show.
        rows: So many series at most; 0 is all.
    """
    groups = make_groups(collection, rows)
    name = str if console.width >= _LONG_NAMES_FROM else short_metric
    if collection.window is not None:
        window = collection.window
        console.print(f"From {format_instant(window.start_ms)} to {format_instant(window.end_ms)} UTC")
        console.print()
    _print_groups(console, collection, groups, name)
    hidden = len(collection.series) - sum(len(group.shown) for group in groups)
    if hidden > 0:
        console.print()
        console.print(Text(f"{hidden:,} more series are not shown: --rows 0 shows all {len(collection.series):,}"))
    names = {key: job.name for key, job in jobs_by_key(collection).items()}
    accounts = (
        ("Failed", failed(collection), "red"),
        ("Absent (asked for, and there is nothing)", absent(collection), "yellow"),
    )
    told = bool(groups)
    for title, entries, style in accounts:
        if entries:
            if told:
                console.print()
            _print_entries(console, title, entries, name, names, style)
            told = True


def _print_groups(
    console: Console, collection: Collection, groups: Sequence[Group], name: Callable[[str], str]
) -> None:
    rows = [
        [make_row(collection.series, i, group.job, collection.window, collection.as_of_ms) for i in group.shown]
        for group in groups
    ]
    lines = [[_line(row, name) for row in of_group] for of_group in rows]
    widths = _widths([line for of_group in lines for line in of_group], console.width)
    if any(rows):
        _print_lines(console, [_COLUMNS], widths, style="bold")
    several = len({group.job.source for group in groups}) > 1
    for group, of_group, texts in zip(groups, rows, lines, strict=True):
        headline = _headline(group, collection.as_of_ms, source=group.job.source if several else "")
        console.print(headline, no_wrap=True, overflow="ellipsis")
        above = ""
        for row, text in zip(of_group, texts, strict=True):
            text[-2] = row.sparkline(widths[-2])
            text[0], above = "" if text[0] == above else text[0], text[0]
        _print_lines(console, texts, widths)


def _line(row: Row, name: Callable[[str], str]) -> list[str]:
    """Give the texts of one row; the sparkline comes when it is known how wide it may be."""
    labels = ",".join([f"{label}={value}" for label, value in row.labels])
    metric = printable(name(row.metric) + (f" {labels}" if labels else ""))
    numbers = [format_value(value, row.unit) for value in (row.last, row.mean, row.max)]
    return [row.place, metric, *numbers, "", format_share(row.observed)]


def _widths(lines: Sequence[Sequence[str]], whole: int) -> list[int]:
    widths = [
        min(most, max([len(title), *[cell_len(line[place]) for line in lines]]))
        for place, (title, most) in enumerate(zip(_COLUMNS, _MOST, strict=False))
    ]
    last = len(_COLUMNS[-1])
    return [*widths, max(len(_COLUMNS[-2]), whole - sum(widths) - last - _GAP * len(_COLUMNS)), last]


def _print_lines(console: Console, lines: Iterable[Sequence[str]], widths: Sequence[int], *, style: str = "") -> None:
    for line in lines:
        text = Text("  ", style=style)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            fitted = set_cell_size(cell, width - 1) + "…" if cell_len(cell) > width else cell
            colour = "cyan" if _COLUMNS[place] == "over time" and not style else ""
            text.append(space + fitted if _COLUMNS[place] in _RIGHT else fitted + space, colour)
            text.append(" " * _GAP)
        text.rstrip()
        console.print(text, no_wrap=True, crop=False)


def _headline(group: Group, as_of_ms: int, *, source: str) -> Text:
    job = group.job
    line = Text(f"{source}  " if source else "", style="magenta")
    line.append(printable(job.name or job.id), style="not magenta bold")
    line.append("  ")
    line.append(str(job.status), style=_STATUS_STYLES.get(job.status, "dim"))
    rest = group.headline(as_of_ms)
    return line.append(f"  {rest}" if rest else "", style="not bold dim")


def _print_entries(
    console: Console,
    title: str,
    entries: Sequence[Entry],
    name: Callable[[str], str],
    names: Mapping[tuple[str, str], str],
    style: str,
) -> None:
    console.print(Text(title, style="bold"))
    above = ""
    for entry in entries[:_MOST_ENTRIES]:
        if entry.why != above:
            print_text(console, entry.why, 2, style=style)
        above = entry.why
        attempts = f", {count(entry.attempts, 'attempt')}" if entry.attempts > 1 else ""
        print_text(console, f"{entry.what(name)}{attempts} · {entry.where(names)}", 4)
    if len(entries) > _MOST_ENTRIES:
        console.print(f"  and {len(entries) - _MOST_ENTRIES} more kinds: --json has them all")


def print_totals(console: Console, collection: Collection) -> None:
    """Print how much was delivered, and when."""
    as_of = f"as of {to_datetime(collection.as_of_ms):%H:%M:%S} UTC"
    console.print()
    console.print(Text(f"{totals(collection)}, {as_of}", style="bold"))


def print_jobs(console: Console, jobs: Sequence[Job], now_ms: int) -> None:
    """Print a list of jobs; what ``collect`` takes stands beside each, or below it where there is no room."""
    titles = ("name", "status", "started (UTC)", "ran for", "tasks", "devices", "reference")
    lines = [_job_line(job, now_ms) for job in jobs]
    widths = [max(map(cell_len, column)) for column in zip(titles, *lines, strict=True)]
    beside = not console.is_terminal or sum(widths) + _GAP * len(widths) <= console.width
    shown = len(titles) if beside else len(titles) - 1
    console.width = max(console.width, sum(widths[:shown]) + _GAP * shown)
    for place, line in enumerate((titles, *lines)):
        text = Text(style="bold" if place == 0 else "")
        for column, (cell, width) in enumerate(zip(line[:shown], widths, strict=False)):
            style = _STATUS_STYLES.get(cell, "") if column == 1 else ""
            space = " " * (width - cell_len(cell))
            text.append(space + cell if column == 4 else cell + space, style).append(" " * _GAP)
        text.rstrip()
        console.print(text, no_wrap=True)
        if not beside and place:
            console.print(Text(f"  {line[-1]}", style="dim"), overflow="fold")


def _job_line(job: Job, now_ms: int) -> tuple[str, ...]:
    devices = job.accelerators
    ran = "" if job.start_time_ms is None else format_span(max(0, (job.end_time_ms or now_ms) - job.start_time_ms))
    return (
        printable(job.name),
        str(job.status),
        format_instant(job.start_time_ms),
        ran,
        "" if job.partial and not job.tasks else str(len(job.tasks)),
        printable(f"{devices.count} {devices.kind} {devices.model}".rstrip()) if devices is not None else "",
        printable(f"{job.source}/{job.id}"),
    )


def print_job_totals(console: Console, counted: Sequence[JobTotals]) -> None:
    """Print how many jobs and devices there are in each state, and the sum of all."""
    titles = ("status", "the service's word", "jobs", "GPUs", "NPUs")
    numbers = [(each.jobs, each.gpus, each.npus) for each in counted]
    lines = [
        (str(each.status), printable(each.vendor_status), *[f"{number:,}" for number in row])
        for each, row in zip(counted, numbers, strict=True)
    ]
    whole = ("all", "", *[f"{sum(column):,}" for column in zip((0, 0, 0), *numbers, strict=True)])
    widths = [max(map(cell_len, column)) for column in zip(titles, whole, *lines, strict=True)]
    for place, line in enumerate((titles, *lines, whole)):
        text = Text(style="bold" if place in (0, len(lines) + 1) else "")
        for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            style = _STATUS_STYLES.get(cell, "") if column == 0 else ""
            text.append(cell + space if column < 2 else space + cell, style).append(" " * _GAP)
        text.rstrip()
        console.print(text, no_wrap=True)
