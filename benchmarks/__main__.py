"""``python -m benchmarks [NAME …] [--short] [--json FILE] [--markdown FILE] …``; with no name, all of them."""

from __future__ import annotations

import argparse
import json
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import gates_markdown, machine

if TYPE_CHECKING:
    from benchmarks.measure import Table

NAMES = ("decode", "align", "threads", "fanout", "stalls", "scale", "throttle", "imports")


def main() -> int:
    """Run the benchmarks and give the exit code: 1 where a gate is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Reference, peers and ours in one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--short", action="store_true", help="small sizes, one round: checks results, gates nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, as README.md has them")
    parser.add_argument(
        "--without-nginx",
        action="store_true",
        help="serve from Python, which gates nothing; scale leaves out what needs it",
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    about = machine()
    print(f"{about['python']}, {about['system']}, {about['cores']} cores, {about['processor']}")
    print(", ".join(about["packages"]))
    print("the kernel is in use" if about["kernel"] else "without a kernel: none was compiled")
    tables: list[Table] = []
    for name in NAMES:
        if options.names and name not in options.names:
            continue
        run = partial(import_module(f"benchmarks.{name}").run, short=options.short)
        if name in ("fanout", "scale", "throttle"):
            run = partial(run, without_nginx=options.without_nginx)
        for table in run():
            print(table, flush=True)
            tables.append(table)
    if options.json is not None:
        figures = {"short": options.short, "machine": about, "tables": [table.to_json() for table in tables]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    if options.markdown is not None:
        parts = [*[table.to_markdown() for table in tables], gates_markdown(tables)]
        options.markdown.write_text("\n".join(parts), "utf-8")
    if options.short:
        print("\nShort mode: every result was checked; the times mean nothing.")
        return 0
    missed = [gate for table in tables for gate in table.gates if not gate.met]
    print(f"\n{len(missed)} of {sum(len(table.gates) for table in tables)} gates missed.")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
