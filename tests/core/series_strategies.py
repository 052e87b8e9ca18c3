"""Hypothesis strategies for series, and what it means that two results are the same."""

import numpy as np
from hypothesis import strategies as st

from metricsbridge.model import Window
from metricsbridge.series.align import align
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing
from metricsbridge.testing.strategies import values

NOW_MS = 1_750_000_000_000

keys = st.builds(
    SeriesKey,
    st.sampled_from(["job", "other"]),
    st.sampled_from(["", "worker-0"]),
    st.sampled_from(["", "0"]),
    st.sampled_from(["hw.gpu.utilization", "hw.power"]),
    st.sampled_from([(), (("interface", "eth0"),)]),
)
steps = st.integers(1, 70)


def times(around: int) -> st.SearchStrategy[int]:
    """Times near one instant, before and after it: few enough that some are equal."""
    return st.integers(around - 150, around + 150)


def samples(around: int) -> st.SearchStrategy[list[tuple[int, float]]]:
    """Samples of one series, half of the time as they ought to be, half of the time in any order."""
    given = st.lists(st.tuples(times(around), values), max_size=25)
    return st.one_of(given, given.map(lambda pairs: sorted(dict(pairs).items())))


@st.composite
def batches(draw: st.DrawFn, *, around: int = 0, source: str = "", max_series: int = 4) -> SeriesBatch:
    """Batches of a few series around one instant."""
    series = draw(st.lists(samples(around), max_size=max_series))
    return make_batch(
        series,
        source=source,
        keys=[draw(keys) for _ in series],
        unit=[draw(st.sampled_from(["1", "W"])) for _ in series],
        interval_ms=[draw(st.sampled_from([0, 1, 10, 60, 200])) for _ in series],
        timing=[draw(st.sampled_from(Timing)) for _ in series],
        time_error_ms=[draw(st.integers(0, 60)) for _ in series],
        statistic=[draw(st.sampled_from(Statistic)) for _ in series],
    )


@st.composite
def windows(draw: st.DrawFn, *, around: int = 0) -> Window:
    """Windows near one instant: they hold all, some or none of the samples there."""
    start = draw(st.integers(around - 200, around + 200))
    return Window(start, start + draw(st.integers(1, 250)))


def make_batch(series: list[list[tuple[int, float]]], *, source: str = "", **columns: list) -> SeriesBatch:
    """Make a batch of (time, value) pairs; columns that are not given are plain."""
    count = len(series)
    pairs = [pair for one in series for pair in one]
    plain = {
        "keys": [SeriesKey("job", f"worker-{index}", "", "hw.power") for index in range(count)],
        "unit": ["W"] * count,
        "interval_ms": [0] * count,
        "timing": [Timing.REPORTED] * count,
        "time_error_ms": [0] * count,
        "statistic": [Statistic.LAST] * count,
    }
    return SeriesBatch(
        source=source,
        **{name: tuple(column) for name, column in {**plain, **columns}.items()},
        offsets=np.cumsum([0] + [len(one) for one in series], dtype=np.int64),
        times=np.array([time for time, _ in pairs], np.int64),
        values=np.array([value for _, value in pairs], np.float64),
    )


def row(*pairs: tuple[int, float], step: int = 10, interval_ms: int = 0, **arguments) -> np.ndarray:
    """Align one series of (time, value) pairs and give its cells."""
    return align(make_batch([list(pairs)], interval_ms=[interval_ms]), step=step, **arguments).values[0]


def equal(left, right) -> bool:
    """Tell whether two arrays hold the same numbers, any NaN being like another."""
    return np.array_equal(left, right, equal_nan=True)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Tell whether two arrays are the same bit for bit, any NaN being like another."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return left.tobytes() == right.tobytes()
    return np.where(np.isnan(left), np.nan, left).tobytes() == np.where(np.isnan(right), np.nan, right).tobytes()


COLUMNS = ("keys", "unit", "interval_ms", "timing", "time_error_ms", "statistic")


def same_batch(left: SeriesBatch, right: SeriesBatch) -> bool:
    """Tell whether two batches say the same, in the same order, bit for bit."""
    return (
        left.source == right.source
        and all(getattr(left, name) == getattr(right, name) for name in COLUMNS)
        and all(same_bits(getattr(left, name), getattr(right, name)) for name in ("offsets", "times", "values"))
    )
