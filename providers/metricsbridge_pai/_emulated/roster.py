"""The emulated PAI-DLC's view of a simulated fleet: which ids, pods and resources its jobs have; pure.

The fleet's devices of kind ``gpu`` are GPUs; the vendor has no NPUs, so jobs with those look like jobs on CPUs alone.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.testing.fleet import Fleet, FleetJob

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 16
_RESTART_MS: Final = 600_000
_FOR_EVER_MS: Final = 2**62


@attrs.frozen
class Resource:
    """What kind of resource a job runs on, and what its documents say of it.

    Attributes:
        general: Whether it is general computing, paid as one goes: what GetJobMetrics serves.
        type: ``ResourceType``; None leaves the member out.
        quota: Whether it is out of a resource quota.
        spot: Whether it is lent while nobody else wants it.
    """

    general: bool
    type: str | None
    quota: bool = False
    spot: bool = False

    @property
    def payment(self) -> str:
        """What ``PaymentType`` calls it."""
        return "PrePaid" if self.quota else "Spot" if self.spot else "PostPaid"


_GENERAL: Final = Resource(general=True, type="ECS")
_OPEN_GENERAL: Final = Resource(general=True, type=None)
_OPEN: Final = Resource(general=False, type=None)
_QUOTA: Final = Resource(general=False, type="ECS", quota=True)
_LINGJUN: Final = Resource(general=False, type="Lingjun", quota=True)
_SPOT: Final = Resource(general=False, type="ECS", spot=True)
_LINGJUN_SPOT: Final = Resource(general=False, type="Lingjun", spot=True)
_RESOURCES: Final = (
    _LINGJUN,
    _GENERAL,
    _GENERAL,
    _GENERAL,
    _GENERAL,
    _QUOTA,
    _LINGJUN,
    _GENERAL,
    _OPEN_GENERAL,
    _SPOT,
    _OPEN,
    _LINGJUN_SPOT,
)
"""The fleet's jobs go round them; each further round begins one later, so that every kind of job comes to each."""

_STATUSES: Final[Mapping[JobStatus, str]] = {
    JobStatus.PENDING: "Queuing",
    JobStatus.RUNNING: "Running",
    JobStatus.STOPPING: "Stopping",
    JobStatus.SUCCEEDED: "Succeeded",
    JobStatus.FAILED: "Failed",
    JobStatus.STOPPED: "Stopped",
}


@attrs.frozen
class Placed:
    """A job of the fleet with what the emulated service calls it.

    Attributes:
        pods: Ids, in the order of the job's tasks.
        restarted: Whether its last pod has been restarted.
    """

    job: FleetJob
    id: str
    pods: tuple[str, ...]
    resource: Resource
    restarted: bool

    @property
    def type(self) -> str:
        """The framework."""
        return "PyTorchJob" if self.job.device_kind else "TFJob"

    @property
    def status(self) -> str:
        """The vendor's word."""
        return _STATUSES[self.job.status]

    @property
    def gpus(self) -> int:
        """GPUs of each pod."""
        return self.job.devices if self.job.device_kind == "gpu" else 0

    @property
    def restart_ms(self) -> int:
        """When the last pod of a restarted job was started again, ms since the epoch."""
        return (self.job.start_time_ms or 0) + _RESTART_MS

    def earlier_id(self, pod: str, /, *, renamed: bool) -> str:
        """Give the id that a restarted pod had before."""
        return f"{pod}-earlier" if renamed else pod

    def incarnations(self, pod: str, /, *, renamed: bool) -> tuple[tuple[str, int, int], ...]:
        """Give the ids under which a pod has points, each with the [start, end) of its points in ms."""
        if not (renamed and self.restarted and pod == self.pods[-1]):
            return ((pod, 0, _FOR_EVER_MS),)
        earlier = self.earlier_id(pod, renamed=True)
        return (earlier, 0, self.restart_ms), (pod, self.restart_ms, _FOR_EVER_MS)


@lru_cache(maxsize=16)
def placed(fleet: Fleet, /) -> Mapping[str, Placed]:
    """Give the fleet's jobs, in its order, by the ids that the emulated service gives them."""
    jobs = [_place(index, job) for index, job in enumerate(fleet.jobs)]
    return MappingProxyType({job.id: job for job in jobs})


def _place(index: int, job: FleetJob) -> Placed:
    number = int.from_bytes(hashlib.sha256(job.id.encode()).digest())
    letters = [_ALPHABET[number // len(_ALPHABET) ** place % len(_ALPHABET)] for place in range(_ID_LENGTH)]
    job_id = f"dlc{''.join(letters)}"
    first = "master" if job.device_kind else "chief"
    names = [f"{first}-0", *[f"worker-{number}" for number in range(len(job.tasks) - 1)]]
    ran_ms = (job.end_time_ms or _FOR_EVER_MS) - (job.start_time_ms or _FOR_EVER_MS)
    return Placed(
        job=job,
        id=job_id,
        pods=tuple([f"{job_id}-{name}" for name in names]),
        resource=_RESOURCES[(index + index // len(_RESOURCES)) % len(_RESOURCES)],
        restarted=len(names) > 1 and ran_ms > 3 * _RESTART_MS and index % 3 == 1,
    )


def job_ids(fleet: Fleet, /) -> dict[str, str]:
    """Give the emulated service's ids of jobs by the fleet's."""
    return {job.job.id: job.id for job in placed(fleet).values()}


def pod_ids(fleet: Fleet, job: FleetJob, /) -> tuple[str, ...]:
    """Give the ids of a job's pods, in the order of its tasks."""
    return placed(fleet)[job_ids(fleet)[job.id]].pods


def is_general(fleet: Fleet, job: FleetJob, /) -> bool:
    """Tell whether GetJobMetrics serves a job."""
    return placed(fleet)[job_ids(fleet)[job.id]].resource.general
