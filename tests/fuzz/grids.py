"""What is fuzzed of alignment: the kernel, numpy and the slow twin lay the same grid, and no argument leads astray."""

from __future__ import annotations

import struct
from typing import Any, Final, get_args

import numpy as np

from core.series_strategies import make_batch, same_bits
from metricsbridge.model import Window
from metricsbridge.series import _kernel
from metricsbridge.series._reference import align_reference
from metricsbridge.series.align import Fill, How, align

_HOWS: Final = get_args(How)
_FILLS: Final = (None, *get_args(Fill))
_AROUND: Final = (0, 1_750_000_000_000, -1_000_000, 2**62 - 2**20, -(2**62) + 2**20, 2**31)
_STEPS: Final = (1, 7, 10, 60, 1000, 60_000)
_SCALES: Final = (1, 5, 10, 997)
_VALUES: Final = (
    0.0, -0.0, 1.0, -1.0, 0.1, 0.2, 0.3, 1e16, -1e16, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"),
    2.0**53 + 2,
)  # fmt: skip
_MOST_CELLS: Final = 60
_MOST_SAMPLES: Final = 60
_MOST_SERIES: Final = 6

_HEAD: Final = struct.Struct("<BBBBhH")
_SAMPLE: Final = struct.Struct("<bB")


def input_of(
    series: list[list[tuple[int, int]]], *, how: int = 0, fill: int = 0, around: int = 0, step: int = 0, gap: int = 0,
    window: tuple[int, int] = (0, 0), scale: int = 0,
) -> bytes:  # fmt: skip
    """Give the input that stands for samples, each a time and the place of a value; arguments are places in tables."""
    body = bytearray(_HEAD.pack(how, fill, around, step | scale << 4, *window))
    body.append(gap)
    for one in series:
        for time, value in one:
            body += _SAMPLE.pack(time, value)
        body += _SAMPLE.pack(0, 255)  # here ends a series
    return bytes(body)


def alignment(data: bytes) -> bool:
    """Align what an input stands for, in all three ways; tells whether there was anything to align.

    Raises:
        AssertionError: They differ.
    """
    if len(data) <= _HEAD.size:
        return False
    how, fill, around, pace, start, length = _HEAD.unpack_from(data)
    base = _AROUND[around % len(_AROUND)]
    step = _STEPS[(pace & 15) % len(_STEPS)]
    scale = _SCALES[(pace >> 4) % len(_SCALES)]
    gap = data[_HEAD.size]
    series: list[list[tuple[int, float]]] = [[]]
    body = data[_HEAD.size + 1 :]
    for time, value in _SAMPLE.iter_unpack(body[: len(body) // 2 * 2]):
        if value == 255:
            series.append([])
        else:
            series[-1].append((base + time * scale, _VALUES[value & 15]))
    arguments: dict[str, Any] = {
        "step": step,
        "how": _HOWS[how % len(_HOWS)],
        "fill": _FILLS[fill % len(_FILLS)],
        "window": Window(base + start, base + start + length) if length else None,
        "max_gap": gap * step // 2 or None,
    }
    times = [time for one in series for time, _ in one]
    span = length or max(times, default=0) - min(times, default=0)
    if span > _MOST_CELLS * step or len(times) > _MOST_SAMPLES or len(series) > _MOST_SERIES:  # the twin is slow
        return False
    batch = make_batch(series, interval_ms=[index * step for index in range(len(series))])
    found = align(batch, **arguments)
    for name, wanted in (
        ("the slow twin", align_reference(batch, **arguments)),
        ("numpy", _without_kernel(batch, arguments)),
    ):
        assert same_bits(found.times, wanted.times), (name, arguments, series, found.times, wanted.times)
        assert same_bits(found.values, wanted.values), (name, arguments, series, found.values, wanted.values)
    return True


def _without_kernel(batch: Any, arguments: dict[str, Any]) -> Any:
    kept, _kernel.COMPILED = _kernel.COMPILED, None
    try:
        return align(batch, **arguments)
    finally:
        _kernel.COMPILED = kept


_RAW: Final = struct.Struct("<BBBBqqqq")
_UNWRITTEN: Final = np.int64(0x7FF8_0000_0BAD_CE11)
"""The bits of a NaN that no cell gets."""


def raw_input_of(
    rows: int, cells: int, grid: tuple[int, int, int, int], columns: bytes, *, how: int, fill: int
) -> bytes:
    """Give the input that stands for arguments of the kernel's own function.

    Args:
        rows: How many series.
        cells: Of each.
        grid: The window's start and end, the first cell's start, and the step.
        columns: int64, one after the other: offsets, the longest gaps, times and values.
        how: A place in a table.
        fill: Likewise.
    """
    return _RAW.pack(how, fill, rows, cells, *grid) + columns


def raw_alignment(data: bytes) -> bool:
    """Call the kernel with any arguments at all: it refuses them, or writes each cell of ``out`` and nothing else."""
    kernel: Any = _kernel.COMPILED
    if len(data) < _RAW.size:
        return False
    how, fill, rows, cells, first, end, start, step = _RAW.unpack_from(data)
    rows, cells = rows % 8, cells % 32
    columns = np.frombuffer(data[_RAW.size : _RAW.size + (len(data) - _RAW.size) // 8 * 8], np.int64)
    offsets, reach, samples = columns[: rows + 1], columns[rows + 1 : 2 * rows + 1], columns[2 * rows + 1 :]
    times, values = samples[: len(samples) // 2], samples[len(samples) // 2 : len(samples) // 2 * 2]
    # Each array is a block of memory of its own, so that one item too far is seen.
    given = [np.array(offsets), np.array(times), np.array(values).view(np.float64)]
    out = np.full((rows, cells), _UNWRITTEN).view(np.float64)
    try:
        late = kernel.align(
            *given, (first, end), start, step, _HOWS[how % len(_HOWS)], _FILLS[fill % len(_FILLS)], np.array(reach), out
        )
    except (ValueError, OverflowError):
        return False
    unwritten = (out.view(np.int64) == _UNWRITTEN).any(axis=1)
    assert {*np.flatnonzero(unwritten).tolist()} <= {*late}, (late, unwritten)
    return True
