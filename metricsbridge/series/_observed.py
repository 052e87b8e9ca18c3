"""Which series have a value at all. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricsbridge.series import _kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


def observed(offsets: NDArray[np.int64], values: NDArray[np.float64], /) -> NDArray[np.bool_]:
    """Give bool[S]: whether each series has a value that is not NaN.

    Args:
        offsets: int64[S + 1]; series ``i`` holds the values ``offsets[i]:offsets[i + 1]``. They do not fall.
        values: float64[N].
    """
    if _kernel.COMPILED is not None and values.flags.c_contiguous and offsets.flags.c_contiguous:
        found = np.empty(len(offsets) - 1, np.bool_)
        _kernel.COMPILED.observed(offsets, values, found.view(np.uint8))
        return found
    starts, ends = offsets[:-1], offsets[1:]
    if (ends > starts).all():  # an empty slice would make reduceat take the next one's first value
        first = values[starts]
        result: NDArray[np.bool_] = first == first  # mostly there is a value at once
        if not result.all():
            result = np.logical_or.reduceat(~np.isnan(values), starts)
        return result
    sums = np.concatenate(([0], np.cumsum(~np.isnan(values))))
    counted: NDArray[np.bool_] = sums[ends] > sums[starts]
    return counted
