"""Every provider of the project passes the contract, its emulator standing in for the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from emulated_clouds import CLOUDS, Cloud
from in_process import URL, handler_of
from metricsbridge.testing.contract import ProviderContract
from metricsbridge.testing.emulator import EMULATOR
from metricsbridge.testing.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.series.columns import Float64, Int64, SeriesKey
    from metricsbridge.testing import FakeClock
    from metricsbridge.testing.fleet import FleetJob

BY_NAME: Final = {cloud.provider: cloud for cloud in CLOUDS}


class EmulatedContract(ProviderContract):
    """The hooks, from what the tests know of every emulated cloud."""

    cloud: ClassVar[Cloud]

    def __init_subclass__(cls) -> None:
        app = cls.cloud.create(fleet=Fleet(size=1))
        cls.spec = cls.cloud.provider
        cls.settings = {name: value for name, value in app[EMULATOR].settings(URL).items() if name != "limits"}

    def simulate(self, fleet: Fleet, clock: FakeClock):
        app = self.cloud.create(fleet=fleet, now_ms=clock.now_ms)
        app.freeze()
        return handler_of(app)

    def job_id(self, fleet: Fleet, job: FleetJob) -> str:
        return self.cloud.job_ids(fleet)[job.id]

    def task_ids(self, fleet: Fleet, job: FleetJob) -> Sequence[str]:
        return self.cloud.task_ids(fleet, job)

    def minutes(self, fleet: Fleet, job: FleetJob) -> Int64:
        return self.cloud.measured_minutes(job, fleet.now_ms)

    def truth(self, fleet: Fleet, job: FleetJob, key: SeriesKey, minutes: Int64) -> Float64 | None:
        level = "device" if key.device else "task" if key.task else "job"
        if key.metric not in self.cloud.served(fleet, job, level):
            return None
        if not key.task:
            return self.cloud.truth_of_job(fleet, job, key.metric, minutes)
        task = job.tasks[list(self.task_ids(fleet, job)).index(key.task)]
        device = int(key.device) if key.device else None
        return self.cloud.truth(fleet, job, task, key.metric, minutes, device=device)


class TestModelArts(EmulatedContract):
    cloud = BY_NAME["modelarts"]


class TestModelArtsV1(EmulatedContract):
    cloud = BY_NAME["modelarts-v1"]

    def job_name(self, fleet: Fleet, job: FleetJob) -> None:
        """Versions of one job share its name."""


class TestOtcModelArts(TestModelArtsV1):
    cloud = BY_NAME["otc-modelarts"]


class TestPaiDlc(EmulatedContract):
    cloud = BY_NAME["pai-dlc"]
