"""Seeded noise and smooth waves over minutes: element-wise, so that one minute gives the same bits as many.

Only operations that IEEE 754 rounds correctly are used (no sine), since a vectorised sine may differ from a scalar one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricsbridge.series.columns import Float64, Int64

    UInt64 = NDArray[np.uint64]


def seed_of(*parts: object) -> int:
    """Give 64 bits that depend on all parts and their order."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def mix(seed: int, counters: Int64, /) -> UInt64:
    """Give 64 random bits for each counter (the SplitMix64 generator, by Steele, Lea and Flood, read at any place)."""
    bits = (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: UInt64 = bits ^ (bits >> np.uint64(31))
    return result


def uniform(seed: int, counters: Int64, /) -> Float64:
    """Give a number in [0, 1) for each counter."""
    return (mix(seed, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def wave(counters: Int64, period: int, shift: int, /) -> Float64:
    """Give a smooth wave between -1 and 1, made of parabolas."""
    phase = ((counters + shift) % period).astype(np.float64) / period
    half = phase * 2.0 % 1.0
    arch = 4.0 * half * (1.0 - half)
    return np.where(phase < 0.5, arch, -arch)
