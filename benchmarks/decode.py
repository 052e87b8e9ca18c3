"""From the bytes of an answer to keys, lengths, times and values with NaN for what is missing: each shape of answer."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.kernel import has_kernel, without_kernel
from benchmarks.measure import SPREAD, Gate, Table, interleave, peak_bytes, ratios
from benchmarks.shapes import modelarts_v1, modelarts_v2, pai_objects, pai_rows, prometheus
from benchmarks.shapes.shape import SIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.shapes.shape import Shape

OURS, FALLBACK = "metricsbridge", "metricsbridge, without the kernel"
SHAPES = (modelarts_v2.SHAPE, modelarts_v1.SHAPE, pai_objects.SHAPE, prometheus.SHAPE, pai_rows.SHAPE)
SMALL, DAY = 15, 1440
"""Points of each series: a quarter of an hour, and a day."""

_DECIMALS = {2: "two decimals", 15: "15 decimals"}
_LIMITS: Mapping[str, Callable[[bytes], object]] = {
    "limit: a copy of the body": bytearray,
    "limit: the largest of all bytes, numpy": lambda body: np.frombuffer(body, np.uint8).max(),
    "limit: count all commas": lambda body: body.count(b","),
}
"""What touches every byte once and makes nothing of it."""


def run(*, short: bool) -> list[Table]:
    """Measure each shape's bodies, after checking that all contestants give the same columns."""
    cases = [
        (shape, points, digits)
        for shape in SHAPES
        for points, digits in ((SMALL, 2), *[(DAY, digits) for digits in shape.digits])
    ]
    for shape, points, digits in cases:
        check(shape, points, digits)
    return [_measure(shape, points, digits, short=short) for shape, points, digits in cases]


def check(shape: Shape, points: int, digits: int) -> None:
    """Compare every contestant's columns with those of the slow twin, bit for bit; ours with and without the kernel.

    Raises:
        AssertionError: They are not the same; says whose.
    """
    body = shape.body(points, digits=digits)
    shape.check(body, OURS)
    if has_kernel():
        with without_kernel():
            shape.check(body, FALLBACK)


def _measure(shape: Shape, points: int, digits: int, *, short: bool) -> Table:
    body, count = shape.body(points, digits=digits), SIX * points
    ours = {OURS: shape.ours, **({FALLBACK: shape.ours} if has_kernel() else {})}
    more = {f"{OURS}, {name}": more.run for name, more in shape.more.items()}
    decoders = {**ours, **more, **shape.peers, "the slow twin, _reference": shape.reference, **_LIMITS}
    runs: dict[str, Callable[[], object]] = {name: partial(decode, body) for name, decode in decoders.items()}
    around = {FALLBACK: without_kernel}
    seconds = interleave(
        runs, rounds=1 if short else 21, at_least_s=0.0 if short else 0.02, around=around, clock=time.process_time
    )
    rows = [
        (
            name,
            *ratios(taken, seconds[OURS]),
            median(taken) / count * 1e9,
            len(body) / median(taken) / 1e6,
            None if short or name in shape.untraced else peak_bytes(runs[name], around.get(name)) / 1024,
        )
        for name, taken in seconds.items()
    ]
    size = f"{SIX} x {points:,} points".replace(",", " ")
    name = f"{shape.title}, {size}, {_DECIMALS[digits]}"
    gated = {} if short else shape.small_gates if points == SMALL else shape.gates
    return Table(
        title=f"decode: {name}, {len(body)} bytes",
        columns=("", "time, ours = 1", *SPREAD, "ns/point", "MB/s", "peak KiB"),
        rows=tuple(rows),
        gates=tuple([
            Gate(f"{name}, over {peer}", ratios(seconds[peer], seconds[OURS])[0], factor)
            for peer, factor in gated.items()
        ]),
    )  # fmt: skip
