"""What a collection would send, printed for people."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from metricsbridge.cli._account import REASONS
from metricsbridge.cli._text import count, format_span, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from metricsbridge.planning import Plan, PlannedCalls

_TITLES: Final = ("source", "operation", "calls", "jobs", "tasks", "limit", "takes")
_LEFT: Final = 2
"""So many columns are texts; the others are numbers, aligned right."""

_GAP: Final = 2


def print_plan(console: Console, plan: Plan) -> None:
    """Print the calls by source and operation, and below what it comes to."""
    lines = [_line(each) for each in plan.operations]
    if lines:
        _print_table(console, [_TITLES, *lines])
        console.print()
    takes = "" if plan.seconds is None else f", at least {_span(plan.seconds)} under the limits"
    jobs = count(len(plan.jobs), "job")
    console.print(Text(f"{count(plan.calls, 'call')} for {jobs}{takes}; none of them was made", style="bold"))
    known = Counter[str]()
    for absence in plan.absences:
        known[REASONS[absence.reason]] += len(absence.targets)
    for why in REASONS.values():
        if known[why]:
            console.print(Text(f"{why}, in whole or in part: {count(known[why], 'task')}", style="yellow"))


def _line(each: PlannedCalls) -> tuple[str, ...]:
    numbers = [f"{number:,}" for number in (each.calls, each.jobs, each.targets)]
    limit = "" if each.rate is None else f"{each.rate.per_second:.4g}/s"
    return (
        printable(each.source), printable(each.operation), *numbers, limit,
        "" if each.seconds is None else _span(each.seconds),
    )  # fmt: skip


def _span(seconds: float) -> str:
    return format_span(math.ceil(seconds) * 1000)


def _print_table(console: Console, lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for place, line in enumerate(lines):
        text = Text(style="" if place else "bold")
        for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            text.append(cell + space if column < _LEFT else space + cell).append(" " * _GAP)
        text.rstrip()
        console.print(text, no_wrap=True, crop=False)
