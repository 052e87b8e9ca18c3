"""Decoding in two threads against one: the kernel holds no lock while it reads, the others hold the interpreter's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.decode import DAY, FALLBACK, OURS, check
from benchmarks.kernel import has_kernel, without_kernel
from benchmarks.measure import SPREAD, Table, cores, interleave, ratios
from benchmarks.shapes import modelarts_v2, pai_objects
from benchmarks.shapes.shape import SIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.shapes.shape import Decode, Shape

THREADS = 2
SHAPES = ((modelarts_v2.SHAPE, modelarts_v2.MSGSPEC), (pai_objects.SHAPE, pai_objects.MSGSPEC))
"""What is decoded, and by which peer too."""

_BODIES = 64
"""Bodies that each thread decodes in a turn: long enough that starting it does not count."""


def run(*, short: bool) -> list[Table]:
    """Measure each shape, after checking that all contestants give the same columns."""
    for shape, _ in SHAPES:
        check(shape, DAY, 2)
    with ThreadPoolExecutor(THREADS) as threads:
        return [_measure(shape, peer, threads, short=short) for shape, peer in SHAPES]


def _measure(shape: Shape, peer: str, threads: ThreadPoolExecutor, *, short: bool) -> Table:
    body, bodies = shape.body(DAY, digits=2), 2 if short else _BODIES
    decoders = {OURS: shape.ours, **({FALLBACK: shape.ours} if has_kernel() else {}), peer: shape.peers[peer]}
    runs: dict[str, Callable[[], object]] = {}
    for name, decode in decoders.items():
        repeat = partial(_repeat, decode, body, bodies)
        runs[name] = partial(_side_by_side, threads, repeat, 1)
        runs[_both(name)] = partial(_side_by_side, threads, repeat, THREADS)
    around = {FALLBACK: without_kernel, _both(FALLBACK): without_kernel}
    seconds = interleave(runs, rounds=1 if short else 15, at_least_s=0.0, around=around)
    points = SIX * DAY * bodies
    rows = [
        (
            name,
            points / median(seconds[name]) / 1e6,
            THREADS * points / median(seconds[_both(name)]) / 1e6,
            *[THREADS * gain for gain in ratios(seconds[name], seconds[_both(name)])],
        )
        for name in decoders
    ]
    return Table(
        title=f"threads: {shape.title}, {SIX} x {DAY} points, each thread its own bodies",
        columns=("", "Mpoints/s, 1 thread", f"{THREADS} threads", "gain", *SPREAD),
        rows=tuple(rows),
        notes=(f"On {cores()} cores; more than that many is no gain to be had.",),
    )


def _both(name: str) -> str:
    return f"{name}, {THREADS} threads"


def _repeat(decode: Decode, body: bytes, times: int) -> None:
    for _ in range(times):
        decode(body)


def _side_by_side(threads: ThreadPoolExecutor, work: Callable[[], None], count: int) -> None:
    # One thread's turn goes through the pool too, so that both pay for it.
    for future in [threads.submit(work) for _ in range(count)]:
        future.result()
