"""Means of one-minute series on a coarser grid: 1 000 series of a day."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl

from benchmarks.inputs import MINUTE_MS, minute_series
from benchmarks.kernel import has_kernel, without_kernel
from benchmarks.measure import SPREAD, Gate, Table, interleave, peak_bytes, ratios
from metricsbridge.series._reference import align_reference
from metricsbridge.series.align import align

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricsbridge.series.columns import SeriesBatch

OURS, FALLBACK = "metricsbridge", "metricsbridge, without the kernel"
BINCOUNT, POLARS = "numpy bincount", f"polars group_by, {pl.thread_pool_size()} threads"
GROUPER, FLOOR = "pandas groupby, pd.Grouper", "pandas groupby, floor"
GATES = {BINCOUNT: 4.0, POLARS: 15.0, GROUPER: 50.0, FLOOR: 10.0}
"""How many times faster ours must be, on each grid."""

_STEPS = {"5m": 5 * MINUTE_MS, "1m": MINUTE_MS}
_SLICE = 20
"""So many series are compared with the slow twin."""


class Peers:
    """The same samples as each library holds them; laying out tables is not timed, in the peers' favour."""

    def __init__(self, batch: SeriesBatch, step_ms: int) -> None:
        self.step_ms = step_ms
        self.times, self.values, self.offsets = batch.times, batch.values, batch.offsets
        self.row = np.repeat(np.arange(len(batch)), np.diff(batch.offsets))
        times = pd.to_datetime(self.times, unit="ms")
        self.long = pd.DataFrame({"series": self.row, "time": times, "value": self.values})
        self.wide = self.long.pivot(index="time", columns="series", values="value")
        self.lazy = (
            pl.DataFrame({"series": self.row, "time": self.times, "value": self.values})
            .with_columns(pl.from_epoch("time", time_unit="ms"), pl.col("value").fill_nan(None))
            .lazy()
        )

    def bincount(self, row: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Do it in eight lines of numpy: no sorting, no checks.

        Weights of zero for what is missing: faster than to copy times and values without it.

        Args:
            row: The series of each sample; None makes it from the offsets, as every new batch must.
        """
        series = len(self.offsets) - 1
        start_ms = int(self.times.min()) // self.step_ms * self.step_ms
        cells = (int(self.times.max()) - start_ms) // self.step_ms + 1
        row = np.repeat(np.arange(series), np.diff(self.offsets)) if row is None else row
        cell = row * cells + (self.times - start_ms) // self.step_ms
        kept = ~np.isnan(self.values)
        with np.errstate(invalid="ignore"):
            sums = np.bincount(cell, np.where(kept, self.values, 0.0), series * cells)
            return (sums / np.bincount(cell, kept, series * cells)).reshape(series, cells)

    def bincount_prepared(self) -> NDArray[np.float64]:
        """Start from samples that know their series."""
        return self.bincount(self.row)

    def pandas_grouper(self) -> pd.Series:
        """Group as pandas' own guide does by time."""
        return self.long.groupby(["series", pd.Grouper(key="time", freq=f"{self.step_ms}ms")])["value"].mean()

    def pandas_groupby(self) -> pd.Series:
        """Group by the floor of each time, which is faster."""
        cell = self.long["time"].dt.floor(f"{self.step_ms}ms")
        return self.long["value"].groupby([self.long["series"], cell]).mean()

    def pandas_resample(self) -> pd.DataFrame:
        """Start from a table that is one grid already: no series has times of its own, which ours allow for."""
        return self.wide.resample(f"{self.step_ms}ms").mean()

    def pandas_pivot_resample(self) -> pd.DataFrame:
        """Start from samples in columns, as ours."""
        return self.long.pivot(index="time", columns="series", values="value").resample(f"{self.step_ms}ms").mean()

    def polars_group_by(self) -> pl.DataFrame:
        cell = pl.col("time").dt.truncate(f"{self.step_ms}ms")
        return self.lazy.group_by("series", cell).agg(pl.col("value").mean()).collect()

    def check(self, expected: NDArray[np.float64]) -> None:
        """Compare the peers' means with ours: numpy's to the bit, others up to the order of their sums."""
        assert np.array_equal(self.bincount(), expected, equal_nan=True)
        assert np.array_equal(self.bincount_prepared(), expected, equal_nan=True)
        table = self.polars_group_by().sort("series", "time")["value"].fill_null(float("nan")).to_numpy()
        others = [
            self.pandas_groupby().to_numpy(),
            self.pandas_grouper().to_numpy(),
            self.pandas_resample().to_numpy().T,
            table,
        ]
        for means in others:
            np.testing.assert_allclose(means.reshape(expected.shape), expected, rtol=1e-12, atol=0, equal_nan=True)


def check(batch: SeriesBatch, step: str) -> None:
    """Compare some series with the slow twin, bit for bit, and all of them with the peers.

    Raises:
        AssertionError: They are not the same.
    """
    some = batch.select(range(0, len(batch), max(1, len(batch) // _SLICE)))
    frame, expected = align(some, step=step), align_reference(some, step=step)
    assert np.array_equal(frame.times, expected.times)
    assert np.array_equal(frame.values, expected.values, equal_nan=True)
    Peers(batch, _STEPS[step]).check(align(batch, step=step).values)


def run(*, short: bool) -> list[Table]:
    """Measure both grids, after checking that all give the same means."""
    series, points = (20, 240) if short else (1000, 1440)
    batch = minute_series(series, points)
    for step in _STEPS:
        check(batch, step)
        if has_kernel():
            with without_kernel():
                check(batch, step)
    return [_measure(batch, step, short=short) for step in _STEPS]


def _measure(batch: SeriesBatch, step: str, *, short: bool) -> Table:
    peers = Peers(batch, _STEPS[step])
    ours = partial(align, batch, step=step)
    runs: dict[str, Callable[[], object]] = {
        OURS: ours,
        **({FALLBACK: ours} if has_kernel() else {}),
        BINCOUNT: peers.bincount,
        f"{BINCOUNT}, each sample's row at hand": peers.bincount_prepared,
        POLARS: peers.polars_group_by,
        "pandas resample, on one grid already": peers.pandas_resample,
        "pandas pivot, resample": peers.pandas_pivot_resample,
        FLOOR: peers.pandas_groupby,
        GROUPER: peers.pandas_grouper,
        "limit: the sums of all times and all values": lambda: (batch.times.sum(), batch.values.sum()),
    }
    around = {FALLBACK: without_kernel}
    seconds = interleave(runs, rounds=1 if short else 11, at_least_s=0.0 if short else 0.02, around=around)
    rows = [
        (
            name,
            *ratios(taken, seconds[OURS]),
            median(taken) / len(batch.times) * 1e9,
            16 * len(batch.times) / median(taken) / 1e6,
            None if short or name == POLARS else peak_bytes(runs[name], around.get(name)) / 2**20,
        )
        for name, taken in seconds.items()
    ]
    gates = [
        Gate(f"mean onto {step}, over {peer}", ratios(seconds[peer], seconds[OURS])[0], needed)
        for peer, needed in ({} if short else GATES).items()
    ]
    return Table(
        title=f"align: {len(batch)} series x {len(batch.times) // len(batch)} points, mean onto {step}",
        columns=("", "time, ours = 1", *SPREAD, "ns/point", "MB/s", "peak MiB"),
        rows=tuple(rows),
        gates=tuple(gates),
        notes=(
            "The peers' tables are made before the clock starts; polars allocates where it can't be traced.",
            "MB/s is of the times and values that are read, 16 bytes a point.",
        ),
    )
