"""All planted bugs, and the table of them in the documentation: ``python tests/planted_bugs.py`` writes it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import planted_conduct
import planted_decoding
import planted_failures
import planted_jobs
import planted_reading
from fresh_interpreter import PROJECT
from planting import BUGS, PlantedBug, outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

PLANTED: Final[Sequence[PlantedBug]] = BUGS
GROUPS: Final = (planted_reading, planted_decoding, planted_jobs, planted_failures, planted_conduct)
DOCUMENT: Final = PROJECT / "providers" / "README.md"
BEGIN: Final = "<!-- planted bugs: written by `python tests/planted_bugs.py` -->"
END: Final = "<!-- end of planted bugs -->"


def table() -> str:
    """Give the table: check, and the mistakes that it is known to catch."""
    ordered = sorted(PLANTED, key=lambda bug: bug.caught_by)
    lines = ["| check | catches, for example |", "|---|---|"]
    for check, bugs in groupby(ordered, key=lambda bug: bug.caught_by):
        lines.append(f"| `{check}` | {'; '.join([bug.mistake for bug in bugs])} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Give a document with the table in its place."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} … {END} in {DOCUMENT.name}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    missed = [bug.mistake for bug in PLANTED if not outcome(bug)]
    if missed:
        raise SystemExit(f"not caught: {'; '.join(missed)}")
    DOCUMENT.write_text(with_table(DOCUMENT.read_text("utf-8")), "utf-8")
    print(f"{len(PLANTED)} planted bugs, all caught: the table is in {DOCUMENT.name}")
