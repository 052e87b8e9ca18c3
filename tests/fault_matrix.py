"""The fault matrix in full: ``python tests/fault_matrix.py`` runs 10 000 combinations in process, 300 over sockets.

Each is made by its seed alone: ``--first N`` begins elsewhere, ``--first N --in-process 1 --sockets 0`` repeats one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from fault_combinations import Combination

SHOWN = 20
"""So many of those that went wrong are shown."""


def outcome(seed: int, *, sockets: bool) -> tuple[int, str, str]:
    """Run one; gives its seed, what came of it, and what went wrong or ""."""
    try:
        return seed, asyncio.run(Combination.draw(seed).run(sockets=sockets)), ""
    except Exception:
        return seed, "", traceback.format_exc(limit=-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-process", type=int, default=10_000, metavar="N", help="so many on the fake clock")
    parser.add_argument("--sockets", type=int, default=300, metavar="N", help="so many over loopback")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    options = parser.parse_args()
    came: Counter[str] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for sockets, count in ((False, options.in_process), (True, options.sockets)):
            seeds = range(options.first, options.first + count)
            for seed, text, trace in pool.map(partial(outcome, sockets=sockets), seeds, chunksize=25):
                came[text.partition(" ")[0] or "wrong"] += 1
                if trace:
                    wrong.append(f"seed {seed}{' over sockets' if sockets else ''}\n{trace}")
    print(", ".join(f"{count} {what}" for what, count in came.most_common()))
    if wrong:
        raise SystemExit("\n".join([f"{len(wrong)} went wrong", *wrong[:SHOWN]]))


if __name__ == "__main__":
    main()
