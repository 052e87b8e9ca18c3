"""From an answer of API v1 to columns: which zeros are values, which card a series belongs to, what its unit is. Pure.

Numbers stand in strings. A minute for which nothing was measured has ``"0"``, while a recorded job's measured zeros are
written ``"0.00"``; and how the series of single cards are named is documented nowhere, so every likely form is read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from metricsbridge.provider_kit import (
    DecodeError,
    NumberArrays,
    SeriesBatch,
    SeriesKey,
    Statistic,
    Timing,
    decode_number_arrays,
    parse_json,
    regular_times,
    vendor_metric,
)
from metricsbridge_modelarts._catalog import V1, V1_DEVICES, Entry
from metricsbridge_modelarts._time_axis import MINUTE_MS, Anchoring

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from metricsbridge.provider_kit import Call, Level, NamedArrays

_FILLER: Final = "0"
_JOB: Final = NumberArrays(series="system_metric_list", missing=-1.0, text=True, doubtful=_FILLER, interval="interval")
_POD: Final = attrs.evolve(_JOB, series="metrics", name="metric", values="value")
"""What the service's newer API writes for a gap, -1, is no number here either."""

_LONGEST_INTERVAL: Final = 24 * 60
"""In minutes; a longer interval is none."""

_NUMBERED: Final = re.compile(r"(.+?)(?:([_-]?)(\d{1,4})|\[(\d{1,4})\])")
"""``gpuUtil0``, ``gpuUtil_0``, ``gpuUtil-0`` and ``gpuUtil[0]``."""


@attrs.frozen
class Reading:
    """What decoding must know of a job: kept in ``Call.payload``.

    Attributes:
        per: The level that is read.
        cards: The GPUs of each pod; 0 where that is not known.
    """

    anchoring: Anchoring
    per: Level
    cards: int = 0


@attrs.frozen
class Dialect:
    """What differs between the clouds that serve this API, and what a user may set.

    Attributes:
        provider: What metrics outside the catalog are named after.
        disk: Bytes per second that one unit of a disk's rate stands for.
        network: Likewise, of the network's.
    """

    provider: str
    disk: float
    network: float


def decode_pod(body: bytes, /) -> NamedArrays:
    """Decode the answer of ``ShowPodMetricStatistic``.

    Raises:
        DecodeError: It is not as documented; says where.
    """
    return decode_number_arrays(body, _POD)


def decode_job(body: bytes, /) -> NamedArrays | None:
    """Decode the ``system_metric_list`` of a version; None where there is none (yet).

    It is an object, or text that holds one (sample of the list of versions); ``interval`` stands among its series.

    Raises:
        DecodeError: It is not as documented; says where.
    """
    found = member_of(body, "system_metric_list")
    if found is None:
        return None
    interval = found.get("interval") if isinstance(found, dict) else None
    return decode_number_arrays(msgspec.json.encode({_JOB.series: found, "interval": interval}), _JOB)


def member_of(body: bytes, name: str, /) -> Any:
    """Give a member of a document: what is text may hold JSON; None where it is absent, null or empty text.

    Raises:
        DecodeError: The document, or the text, is not JSON.
    """
    document = parse_json(body)
    if not isinstance(document, dict):
        raise DecodeError("the answer's $ is not as documented: expected an object", path="$")
    value = document.get(name)
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return parse_json(value.encode())
    except DecodeError as error:
        path = f"$.{name}"
        problem = "expected text that holds JSON"
        raise DecodeError(f"the answer's {path} is not as documented: {problem}", path=path) from error


def fillers(
    bare: NDArray[np.bool_],
    lengths: Sequence[int],
    *,
    decimals: bool,
    lived: Sequence[tuple[int, int]],
    gaps: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Tell which bare zeros stand for "nothing was measured".

    They do where any number of the answer has decimals, as then a measured zero has them too; where every series that
    has something at that place has one; and outside of the job's life.

    Args:
        bare: bool[N], whether a value is written ``0``.
        lengths: S numbers of values.
        decimals: Whether any number of the answer has decimals.
        lived: S ranges ``[first, last)`` of places that touch the job's life.
        gaps: bool[N], which values are missing whatever the zeros are.

    Returns:
        bool[N]; never true for what is not a bare zero.
    """
    if decimals or not bare.any():
        return bare
    places = np.concatenate([np.arange(length) for length in lengths])
    something = places if gaps is None else places[~gaps]
    everywhere = np.bincount(places[bare], minlength=max(lengths)) == np.bincount(something, minlength=max(lengths))
    first, last = (np.repeat([bounds[side] for bounds in lived], lengths) for side in (0, 1))
    result: NDArray[np.bool_] = bare & (everywhere[places] | (places < first) | (places >= last))
    return result


def to_batch(arrays: NamedArrays, call: Call, received_ms: int, /, *, dialect: Dialect) -> SeriesBatch:
    """Give an answer's arrays as canonical series with inferred times; metrics outside the catalog pass through."""
    job, task = call.targets[0]
    reading = call.payload
    assert isinstance(reading, Reading)
    layout = _layout(arrays.names, reading.per, reading.cards, dialect)
    interval_ms = _interval_ms(arrays.interval)
    anchoring, lengths, count = reading.anchoring, arrays.lengths, len(arrays.names)
    starts = {length: anchoring.first_ms(length, received_ms, interval_ms=interval_ms) for length in set(lengths)}
    first_ms = [starts[length][0] for length in lengths]
    values = arrays.values * np.repeat(layout.scale, lengths) / np.repeat(layout.divide, lengths)
    if arrays.doubtful is not None:
        lived = [
            anchoring.lived(first, length, interval_ms=interval_ms)
            for first, length in zip(first_ms, lengths, strict=True)
        ]
        gaps = np.isnan(values)
        values[fillers(arrays.doubtful, lengths, decimals=arrays.decimals, lived=lived, gaps=gaps)] = np.nan
        if not reading.cards:
            _drop_idle(values, arrays.doubtful, arrays.offsets.tolist(), layout.metrics)
    batch = SeriesBatch(
        keys=tuple([
            SeriesKey(job, task, device, metric)
            for device, metric in zip(layout.devices, layout.metrics, strict=True)
        ]),
        unit=layout.units,
        interval_ms=(interval_ms,) * count,
        timing=(Timing.INFERRED,) * count,
        time_error_ms=tuple([starts[length][1] for length in lengths]),
        statistic=(Statistic.MEAN,) * count,
        offsets=arrays.offsets,
        times=regular_times(lengths, first_ms, interval_ms),
        values=values,
    )  # fmt: skip
    if not anchoring.everything or len(layout.kept) < count:
        batch = batch.select([i for i in layout.kept if anchoring.everything or layout.metrics[i] in call.metrics])
    return batch if reading.per == "device" else _means_of_cards(batch)


def _means_of_cards(batch: SeriesBatch) -> SeriesBatch:
    """Give one series for each metric: where the service gives one for each card unasked, their mean.

    Cards of which some have more values than others have no mean: which of them belong together is not known.
    """
    if len(set(batch.keys)) == len(batch):
        return batch
    groups: dict[SeriesKey, list[int]] = {}
    for index, key in enumerate(batch.keys):
        groups.setdefault(key, []).append(index)
    values, kept = batch.values.copy(), []
    for indices in groups.values():
        cards = [batch.samples(index)[1] for index in indices]
        if len({len(card) for card in cards}) == 1:
            present = ~np.isnan(cards)
            counts = np.count_nonzero(present, axis=0)
            sums = np.sum(np.where(present, cards, 0.0), axis=0)
            first = batch.offsets[indices[0]]
            means = np.full(len(counts), np.nan)
            values[first : first + len(counts)] = np.divide(sums, counts, out=means, where=counts > 0)
            kept.append(indices[0])
    return attrs.evolve(batch, values=values).select(kept)


def _drop_idle(
    values: NDArray[np.float64], bare: NDArray[np.bool_], bounds: Sequence[int], metrics: Sequence[str]
) -> None:
    """Take away series of GPUs that are bare zeros throughout, of a job that is not known to have any."""
    for index, metric in enumerate(metrics):
        part = slice(bounds[index], bounds[index + 1])
        if metric in V1_DEVICES and (bare[part] | np.isnan(values[part])).all():
            values[part] = np.nan


def _interval_ms(minutes: float | None) -> int:
    """Give the interval in ms: a minute where the answer names none, or none that makes sense."""
    sensible = minutes is not None and 0 < minutes <= _LONGEST_INTERVAL
    return max(1, round(minutes * MINUTE_MS)) if minutes is not None and sensible else MINUTE_MS


@attrs.frozen
class _Layout:
    """What the columns of an answer are, but for its numbers: the same for every pod, so it is made once.

    Attributes:
        kept: Which of them are series of the level that is read.
    """

    metrics: tuple[str, ...]
    devices: tuple[str, ...]
    units: tuple[str, ...]
    divide: tuple[float, ...]
    scale: tuple[float, ...]
    kept: tuple[int, ...]


@lru_cache(maxsize=64)
def _layout(names: tuple[str, ...], per: Level, cards: int, dialect: Dialect) -> _Layout:
    owners = _cards(names, cards) if per == "device" else _wholes(names)
    named = [owners.get(index, (name, "")) for index, name in enumerate(names)]
    entries = [_entry(name, dialect.provider) for name, _ in named]
    units = {"": 1.0, "disk": dialect.disk, "network": dialect.network}
    return _Layout(
        metrics=tuple([entry.metric for entry in entries]),
        devices=tuple([device for _, device in named]),
        units=tuple([entry.unit for entry in entries]),
        divide=tuple([entry.divide for entry in entries]),
        scale=tuple([units[entry.rated] for entry in entries]),
        kept=tuple(owners),
    )


def _entry(name: str, provider: str) -> Entry:
    return V1.get(_lower(name)) or Entry(vendor_metric(provider, name), "", 1.0)


def _lower(name: str) -> str:
    """Give a metric's name as in the catalog: the documents write its first letter both ways."""
    return name[:1].lower() + name[1:]


def _cards(names: Sequence[str], cards: int) -> Mapping[int, tuple[str, str]]:
    """Give the series that are one card's, as index to (the metric's name, the card).

    Where no series of a metric is numbered, they are the cards in their order; but a single one, of a pod with several
    cards, is their mean and no card's.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for index, name in enumerate(names):
        metric, card = _split(name)
        groups.setdefault(_lower(metric), []).append((index, card))
    found: dict[int, tuple[str, str]] = {}
    for metric, series in groups.items():
        numbered = [(index, card) for index, card in series if card]
        entry = V1.get(_lower(metric))
        if numbered:
            found.update({index: (metric, card) for index, card in numbered})
        elif entry is not None and entry.metric in V1_DEVICES and (len(series) > 1 or cards <= 1):
            found.update({index: (metric, str(card)) for card, (index, _) in enumerate(series)})
    return dict(sorted(found.items()))


def _wholes(names: Sequence[str]) -> Mapping[int, tuple[str, str]]:
    """Give the series of a pod or job as a whole, as index to (the metric's name, "").

    A card's series under a name of its own counts for the mean over all cards, unless that stands beside it.
    """
    plain = {_lower(name) for name in names}
    found = {}
    for index, name in enumerate(names):
        metric, card = _split(name)
        entry = V1.get(_lower(metric)) if card else None
        if entry is None or entry.metric not in V1_DEVICES:
            found[index] = name, ""
        elif _lower(metric) not in plain:
            found[index] = metric, ""
    return found


def _split(name: str) -> tuple[str, str]:
    """Give a name without the card's number at its end, and that number; "" where it has none.

    A digit that follows a name unknown here without any sign may be part of that name.
    """
    match = None if _lower(name) in V1 else _NUMBERED.fullmatch(name)
    if match is None:
        return name, ""
    metric, sign, plain, bracketed = match.groups()
    entry = V1.get(_lower(metric))
    if entry is None and not (sign or bracketed):
        return name, ""
    return metric, str(int(bracketed or plain))
