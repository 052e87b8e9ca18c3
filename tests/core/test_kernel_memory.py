"""The kernel gives back all memory that it takes, whatever it is given."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from fuzz.documents import READERS
from fuzz.seeds import seeds
from metricsbridge.series import _kernel

pytestmark = pytest.mark.skipif(_kernel.COMPILED is None, reason=_kernel.ENGINE)

_TIMES = 40
_NOISE = 12 * _TIMES
"""Bytes: the smallest column is larger, each time that it is left behind."""


def _kept_by(work) -> int:
    """Give how many bytes stay allocated when it is done again and again; each of the kernel's is counted."""
    tracemalloc.start(1)
    try:
        gc.collect()
        work()  # so that what Python keeps for later use is there
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(_TIMES):
            work()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("target", READERS)
def test_documents_leave_no_memory_behind_whether_they_are_taken_or_not(target):
    reader = READERS[target]
    given = [reader.split(seed) for seed in seeds(target) if len(seed) < 600][::3]
    given += [(body[: len(body) * 2 // 3], schema) for body, schema in given]
    results = [_kernel.read(body, schema) is None for body, schema in given]
    assert 10 < sum(results) < len(results) - 10
    assert _kept_by(lambda: [_kernel.read(body, schema) for body, schema in given] and None) < _NOISE


@pytest.mark.parametrize("late", [False, True])
def test_a_grid_leaves_no_memory_behind_whether_samples_are_in_order_or_not(late):
    times = np.array([5, 1, 9] if late else [1, 5, 9], np.int64)
    out = np.empty((3, 2))
    given = (np.array([0, 3, 3, 3], np.int64), times, np.ones(3), (0, 10), 0, 5, "mean", "linear", np.ones(3, np.int64))
    assert list(_kernel.COMPILED.align(*given, out)) == ([0] if late else [])
    assert _kept_by(lambda: _kernel.COMPILED.align(*given, out)) < _NOISE


def test_memory_that_is_kept_is_noticed():
    kept = []
    assert _kept_by(lambda: kept.append(bytearray(16))) > _NOISE
