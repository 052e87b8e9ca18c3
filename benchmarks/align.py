"""Means of one-minute series on a coarser grid: 1 000 series of a day."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl

from benchmarks.inputs import MINUTE_MS, minute_series
from benchmarks.measure import Table, interleave, named, peak_bytes, ratios
from metricsbridge.series._reference import align_reference
from metricsbridge.series.align import align

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricsbridge.series.columns import SeriesBatch

OURS = "metricsbridge"
_STEPS = {"5m": 5 * MINUTE_MS, "1m": MINUTE_MS}
_SLICE = 20
"""So many series are compared with the slow twin."""


class Peers:
    """The same samples as each library holds them; laying them out is not timed, in the peers' favour."""

    def __init__(self, batch: SeriesBatch, step_ms: int) -> None:
        self.step_ms = step_ms
        self.times, self.values, self.series = batch.times, batch.values, len(batch)
        self.row = np.repeat(np.arange(len(batch)), np.diff(batch.offsets))
        self.start_ms = int(batch.times.min()) // step_ms * step_ms
        self.cells = (int(batch.times.max()) - self.start_ms) // step_ms + 1
        times = pd.to_datetime(self.times, unit="ms")
        self.long = pd.DataFrame({"series": self.row, "time": times, "value": self.values})
        self.wide = self.long.pivot(index="time", columns="series", values="value")
        self.lazy = (
            pl.DataFrame({"series": self.row, "time": self.times, "value": self.values})
            .with_columns(pl.from_epoch("time", time_unit="ms"), pl.col("value").fill_nan(None))
            .lazy()
        )

    def bincount(self) -> NDArray[np.float64]:
        """Do it in four lines of numpy: no blocks, no sorting, no checks."""
        kept = ~np.isnan(self.values)
        cell = (self.row * self.cells + (self.times - self.start_ms) // self.step_ms)[kept]
        size = self.series * self.cells
        with np.errstate(invalid="ignore"):
            means = np.bincount(cell, self.values[kept], size) / np.bincount(cell, minlength=size)
        return means.reshape(self.series, self.cells)

    def pandas_groupby(self) -> pd.Series:
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
        table = self.polars_group_by().sort("series", "time")["value"].fill_null(float("nan")).to_numpy()
        others = [self.pandas_groupby().to_numpy(), self.pandas_resample().to_numpy().T, table]
        for means in others:
            np.testing.assert_allclose(means.reshape(expected.shape), expected, rtol=1e-12, atol=0, equal_nan=True)


def check(batch: SeriesBatch, step: str) -> None:
    """Compare some series with the slow twin, bit for bit, and all of them with the peers."""
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
    return [_measure(batch, step, short=short) for step in _STEPS]


def _measure(batch: SeriesBatch, step: str, *, short: bool) -> Table:
    peers = Peers(batch, _STEPS[step])
    runs: dict[str, Callable[[], object]] = {
        OURS: partial(align, batch, step=step),
        f"{named('numpy')} bincount": peers.bincount,
        f"{named('polars')} group_by, {pl.thread_pool_size()} threads": peers.polars_group_by,
        f"{named('pandas')} resample, on one grid already": peers.pandas_resample,
        f"{named('pandas')} pivot, resample": peers.pandas_pivot_resample,
        f"{named('pandas')} groupby": peers.pandas_groupby,
    }
    seconds = interleave(runs, rounds=1 if short else 9, at_least_s=0.0 if short else 0.1)
    rows = [
        (
            name,
            *ratios(taken, seconds[OURS]),
            median(taken) / len(batch.times) * 1e9,
            None if "polars" in name else peak_bytes(runs[name]) / 2**20,
        )
        for name, taken in seconds.items()
    ]
    return Table(
        title=f"align: {len(batch)} series x {len(batch.times) // len(batch)} points, mean onto {step}",
        columns=("", "time, ours = 1", "lowest", "highest", "ns/point", "peak MiB"),
        rows=tuple(rows),
        notes=("The peers' tables are made before the clock starts; polars allocates where it can't be traced.",),
    )
