"""Every emulated cloud over one fleet, and what must be read from each: the truth that cross-cloud tests compare with.

A truth is made from the fleet's numbers and the digits that a service writes, and from nothing of a provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

import metricsbridge_modelarts.emulator as modelarts
import metricsbridge_modelarts.emulator_v1 as modelarts_v1
import metricsbridge_pai.emulator as pai
from metricsbridge.metrics import METRICS
from metricsbridge.testing.fleet import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiohttp import web

    from metricsbridge.model import Level
    from metricsbridge.series.columns import Float64, Int64
    from metricsbridge.testing.fleet import Fleet, FleetJob

UTILIZATIONS: Final = tuple([name for name in METRICS if name.endswith("utilization")])
RATES: Final = tuple([name for name in METRICS if name.endswith(".rate")])
CARDS: Final = ("hw.gpu.utilization", "hw.gpu.memory.utilization")


@attrs.frozen(kw_only=True)
class Digits:
    """How exactly a service writes: so many digits behind the point, of percent and of this many bytes per second."""

    percent: int
    disk: tuple[int, float]
    network: tuple[int, float]

    def write(self, metric: str, wire: Float64) -> Float64:
        """Give what is read of the fleet's numbers once they have been written with these digits."""
        if METRICS[metric].unit == "1":
            return np.array([round(value, self.percent) if value == value else value for value in wire.tolist()]) / 100
        digits, unit = self.disk if ".disk." in metric else self.network
        values = [round(value / unit, digits) if value == value else value for value in wire.tolist()]
        return np.array(values, np.float64) * unit


EXACT: Final = Digits(percent=3, disk=(0, 1), network=(0, 1))
V1: Final = Digits(percent=2, disk=(2, 1000), network=(2, 1))
PAI: Final = Digits(percent=2, disk=(3, 1e6), network=(3, 1e6))


@attrs.frozen(kw_only=True)
class Cloud:
    """One emulated cloud.

    Attributes:
        provider: The provider that reads it.
        create: Makes the emulator.
        job_ids: The fleet's ids to the cloud's.
        task_ids: The ids of a job's tasks, in the fleet's order.
        served: What it serves of a job on a level.
        digits: How exactly it writes what there is of a job.
        of_cards: Whether it has a metric for each card alone, so that a task's is their mean.
        other_digits: How exactly where another of its routes is taken, as when the answer to a probe was lost.
    """

    provider: str
    create: Callable[..., web.Application]
    job_ids: Callable[[Fleet], Mapping[str, str]]
    task_ids: Callable[[Fleet, FleetJob], Sequence[str]]
    served: Callable[[Fleet, FleetJob, Level], Sequence[str]]
    digits: Callable[[Fleet, FleetJob], Digits]
    of_cards: Callable[[Fleet, FleetJob, str], bool] = lambda fleet, job, metric: False
    other_digits: Digits | None = None

    def truth(
        self, fleet: Fleet, job: FleetJob, task: str, metric: str, minutes: Int64, *, device: int | None = None
    ) -> Float64:
        """Give float64[N], what must be read of a task or one of its devices at those minutes."""
        if device is None and self.of_cards(fleet, job, metric):
            cards = [self.truth(fleet, job, task, metric, minutes, device=card) for card in range(job.devices)]
            return mean(cards) if cards else np.full(len(minutes), np.nan)
        return self.digits(fleet, job).write(metric, fleet.wire_values(job, task, metric, minutes, device=device))

    def truth_of_job(self, fleet: Fleet, job: FleetJob, metric: str, minutes: Int64) -> Float64:
        """Give float64[N], what must be read of a job as a whole: the mean over its tasks that were measured."""
        return self.digits(fleet, job).write(
            metric, mean([fleet.wire_values(job, task, metric, minutes) for task in job.tasks])
        )

    def measured_minutes(self, job: FleetJob, now_ms: int) -> Int64:
        """Give int64[N], the starts of the minutes that are complete at ``now_ms``."""
        return job.minutes(now_ms)


def mean(rows: Sequence[Float64]) -> Float64:
    """Give the mean over those rows that have a value, summed in their order."""
    count = np.count_nonzero(~np.isnan(rows), axis=0)
    total = np.zeros(len(rows[0]))
    for row in rows:
        total = total + np.where(np.isnan(row), 0.0, row)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _v2_served(fleet: Fleet, job: FleetJob, level: Level) -> Sequence[str]:
    return UTILIZATIONS if level == "task" else ()


def _v1_served(fleet: Fleet, job: FleetJob, level: Level) -> Sequence[str]:
    every = [name for name in (*UTILIZATIONS, *RATES) if not name.startswith("hw.npu.")]
    return CARDS if level == "device" else every


def _pai_served(fleet: Fleet, job: FleetJob, level: Level) -> Sequence[str]:
    """Give what GetJobMetrics serves, or CloudMonitor."""
    every = [name for name in (*UTILIZATIONS, *RATES) if not name.startswith("hw.npu.")]
    if pai.is_general(fleet, job):
        return every if level == "task" else ()
    return every if level == "task" else ("hw.gpu.utilization",)


CLOUDS: Final = (
    Cloud(
        provider="modelarts",
        create=modelarts.create_app,
        job_ids=lambda fleet: {job.id: job.id for job in fleet.jobs},
        task_ids=lambda fleet, job: job.tasks,
        served=_v2_served,
        digits=lambda fleet, job: EXACT,
    ),
    Cloud(
        provider="modelarts-v1",
        create=modelarts_v1.create_app,
        job_ids=modelarts_v1.job_ids,
        task_ids=modelarts_v1.pod_names,
        served=_v1_served,
        digits=lambda fleet, job: V1,
    ),
    Cloud(
        provider="otc-modelarts",
        create=modelarts_v1.create_otc_app,
        job_ids=modelarts_v1.job_ids,
        task_ids=modelarts_v1.pod_names,
        served=_v1_served,
        digits=lambda fleet, job: V1,
    ),
    Cloud(
        provider="pai-dlc",
        create=pai.create_app,
        job_ids=pai.job_ids,
        task_ids=pai.pod_ids,
        served=_pai_served,
        digits=lambda fleet, job: PAI if pai.is_general(fleet, job) else EXACT,
        of_cards=lambda fleet, job, metric: metric == "hw.gpu.utilization" and not pai.is_general(fleet, job),
        other_digits=EXACT,
    ),
)
"""All that are installed."""


def minute_of(times: Int64) -> Int64:
    """Give the starts of the minutes in which times lie."""
    return times // MINUTE_MS * MINUTE_MS


def read_as(cloud: Cloud, **readings: Any) -> Cloud:
    """Give a cloud whose emulator reads the vendor's documents in another way."""
    return attrs.evolve(cloud, create=lambda **more: cloud.create(**more, **readings))
