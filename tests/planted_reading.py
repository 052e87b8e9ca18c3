"""Planted bugs in what is read: windows, values, gaps, order, columns."""

from __future__ import annotations

import attrs
import numpy as np
from msgspec.structs import replace

import reference_provider as right
from metricsbridge.provider_kit import Call, SeriesBatch, SeriesKey, Timing, Window
from planting import planted
from reference_provider import MOST_POINTS, REFERENCE, STEP_MS, Reference, SeriesItem

HALF_OPEN = "the_first_minute_of_a_window_belongs_to_it_and_the_last_does_not"
VALUES = "values_are_those_of_the_service_in_the_canonical_unit"
GAPS = "a_gap_is_no_value_and_never_zero"
WHOLE = "nothing_that_was_measured_is_missing"
COLUMNS = "columns_say_what_a_sample_is"
APART = "calls_stay_in_the_window_and_do_not_overlap"


@planted("the last step of a window is not asked for", HALF_OPEN)
class EndsEarly(Reference):
    def bounds(self, window):
        first, last = super().bounds(window)
        return first, last - 60


@planted("the first step of a window is not asked for", HALF_OPEN)
class BeginsLate(Reference):
    def bounds(self, window):
        first, last = super().bounds(window)
        return first + 60, last


@planted("the window is asked for in starts of minutes, the service stamps their ends", HALF_OPEN)
class AsksForStarts(Reference):
    def bounds(self, window):
        first, last = super().bounds(window)
        return first - 60, last - 60


@planted("a step is lost wherever a window is split", WHOLE)
class LosesSplits(Reference):
    def windows(self, window):
        for part in super().windows(window):
            yield part if part.start_ms == window.start_ms else Window(part.start_ms + STEP_MS, part.end_ms + STEP_MS)


@planted("a step is in two calls wherever a window is split", APART)
class OverlapsSplits(Reference):
    def windows(self, window):
        for part in super().windows(window):
            yield Window(max(window.start_ms, part.start_ms - STEP_MS), part.end_ms)


@planted("a call answers for more than the window of the query", APART)
class WidensWindows(Reference):
    def windows(self, window):
        return super().windows(Window(window.start_ms // 3_600_000 * 3_600_000, window.end_ms))


@planted("one point too many is asked for in one request", WHOLE)
class AsksTooMuch(Reference):
    def windows(self, window):
        start = window.start_ms
        while start < window.end_ms:
            end = min(window.end_ms, start + (MOST_POINTS + 1) * STEP_MS)
            yield Window(start, end)
            start = end


@planted("samples are stamped with the ends of their minutes", VALUES)
class StampsEnds(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times + STEP_MS, values


@planted("times in seconds are taken for milliseconds", VALUES)
class TakesSeconds(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times // 1000, values


@planted("percent are not made fractions", VALUES)
class KeepsPercent(Reference):
    def samples(self, item, entry):
        return super().samples(item, attrs.evolve(entry, divide=1.0))


@planted("KiB are taken for 1000 bytes", VALUES)
class TakesKilobytes(Reference):
    def samples(self, item, entry):
        return super().samples(item, attrs.evolve(entry, multiply=1000.0 if entry.multiply > 1 else 1.0))


@planted("values are rounded to two digits", VALUES)
class Rounds(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times, np.round(values, 2)


@planted("utilisations above 1 are cut off", VALUES)
class CutsBursts(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times, np.minimum(values, 1.0) if entry.unit == "1" else values


@planted("values go through 32 bits", VALUES)
class Narrows(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times, values.astype(np.float32).astype(np.float64)


@planted("devices are counted from 1", VALUES)
class CountsFromOne(Reference):
    def samples(self, item, entry):
        return super().samples(item, entry)

    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        keys = [SeriesKey(k.job, k.task, str(int(k.device) + 1) if k.device else "", k.metric) for k in batch.keys]
        return attrs.evolve(batch, keys=tuple(keys))


@planted("the unit is the service's, not the canonical one", VALUES)
class NamesItsUnit(Reference):
    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        return attrs.evolve(batch, unit=("%",) * len(batch))


@planted("the service's sentinel is taken for a value", GAPS)
class KeepsSentinels(Reference):
    def samples(self, item, entry):
        return super().samples(attrs.evolve(item, points=tuple(map(_close_to_it, item.points))), entry)


def _close_to_it(point: right.Point) -> right.Point:
    return attrs.evolve(point, v=-1.0000001) if point.v == -1.0 else point


@planted("a gap is a zero", GAPS)
class ZeroForGaps(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times, np.nan_to_num(values)


@planted("the last value stands for a gap", GAPS)
class CarriesOn(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        for index in range(1, len(values)):
            if np.isnan(values[index]):
                values[index] = values[index - 1]
        return times, values


@planted("the last value goes on after the job's end", GAPS)
class GoesOn(Reference):
    def samples(self, item: SeriesItem, entry):
        times, values = super().samples(item, entry)
        if 0 < len(times) < MOST_POINTS - 1:
            times, values = np.append(times, times[-1] + STEP_MS), np.append(values, values[-1])
        return times, values


@planted("a value of 0 is taken for none", WHOLE)
class DropsZeros(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times, np.where(values == 0, np.nan, values)


@planted("only the first series of an answer is read", WHOLE)
class ReadsOne(Reference):
    def to_batch(self, answer, call):
        return super().to_batch(attrs.evolve(answer, series=answer.series[:1]), call)


@planted("samples stay in the order in which they come", "samples_in_any_order_are_sorted")
class KeepsOrder(Reference):
    def samples(self, item, entry):
        times = np.array([point.t for point in item.points], np.int64) * 1000 - STEP_MS
        values = np.array([point.v for point in item.points], np.float64)
        values[values == -1] = np.nan
        return times, values * entry.multiply / entry.divide


@planted("the newest sample comes first", "times_rise_and_none_comes_twice")
class NewestFirst(Reference):
    def samples(self, item, entry):
        times, values = super().samples(item, entry)
        return times[::-1], values[::-1]


@planted("the series of devices all have one key", "times_rise_and_none_comes_twice")
class LosesDevices(Reference):
    def to_batch(self, answer, call):
        return super().to_batch(attrs.evolve(answer, series=tuple(map(_without_device, answer.series))), call)


def _without_device(item: SeriesItem) -> SeriesItem:
    return attrs.evolve(item, device=None)


@planted("the series of a job as a whole is that of its first task", "keys_name_what_the_call_answers_for")
class NamesAnyTask(Reference):
    def to_batch(self, answer, call: Call) -> SeriesBatch:
        batch = super().to_batch(answer, call)
        keys = [SeriesKey(key.job, key.task or "worker-0", key.device, key.metric) for key in batch.keys]
        return attrs.evolve(batch, keys=tuple(keys))


@planted("the interval is in seconds", COLUMNS)
class IntervalInSeconds(Reference):
    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        return attrs.evolve(batch, interval_ms=(answer.interval,) * len(batch))


@planted("times that are reported are called inferred", COLUMNS)
class CallsItInferred(Reference):
    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        return attrs.evolve(batch, timing=(Timing.INFERRED,) * len(batch))


@planted("a reported time has an error", COLUMNS)
class DoubtsTimes(Reference):
    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        return attrs.evolve(batch, time_error_ms=(STEP_MS,) * len(batch))


@planted("serves leaves out a level", "serves_tells_the_truth")
def hides_a_level():
    return attrs.evolve(REFERENCE, serves={level: names for level, names in REFERENCE.serves.items() if level != "job"})


@planted("serves names a metric that is never planned", "serves_tells_the_truth")
def promises_power():
    return attrs.evolve(REFERENCE, serves={**REFERENCE.serves, "job": (*REFERENCE.serves["job"], "hw.power")})


@planted("a window outside of the job's life is an error", "a_window_outside_of_a_job_s_life_brings_nothing")
class FailsOutside(Reference):
    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        assert len(batch.times), "no samples"
        return batch


@planted("a window that begins within a minute loses the next one too", "any_window_brings_what_lies_in_it")
class RoundsTwice(Reference):
    def bounds(self, window):
        first, last = super().bounds(window)
        return (first + 60 if window.start_ms % STEP_MS else first), last


@planted("a step that is accepted is taken for one to be doubled", "a_coarser_step_is_never_exceeded")
class Doubles(Reference):
    def plan(self, job, query, /):
        return [replace(call, step_ms=(query.step_ms or 30_000) * 2) for call in super().plan(job, query)]

    def to_batch(self, answer, call):
        batch = super().to_batch(answer, call)
        return attrs.evolve(batch, interval_ms=(call.step_ms,) * len(batch))
