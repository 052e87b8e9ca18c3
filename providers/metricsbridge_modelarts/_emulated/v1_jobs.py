"""The training jobs of the emulated ModelArts v1: a simulated fleet as jobs with versions, and their documents; pure.

Ids are whole numbers, those of versions beyond 32 bits. Sources: ModelArts API reference, "Querying the Details About a
Training Job Version", "Job Statuses" and "获取训练作业日志的文件名" (names of log files).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.provider_kit import JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.testing.fleet import Fleet, FleetJob

Document = dict[str, Any]

_FIRST_JOB: Final = 101
_FIRST_VERSION: Final = 4_300_000_001
_MOST_VERSIONS: Final = 3
_GIB: Final = 2**30

_STATUSES: Final[Mapping[JobStatus, int]] = {
    JobStatus.RUNNING: 8,
    JobStatus.STOPPING: 9,
    JobStatus.SUCCEEDED: 10,
    JobStatus.FAILED: 11,
    JobStatus.STOPPED: 12,
}
_SUBMIT_FAILED: Final = 5
_WAITING: Final = (1, 7)
_ENGINES: Final[Mapping[str, tuple[int | None, int, str, str]]] = {
    "": (None, 500, "Scikit-learn", "0.22.1-python3.7"),
    "gpu": (1, 501, "PyTorch", "PyTorch-1.8.0-python3.7"),
    "npu": (13, 502, "Ascend-Powered-Engine", "TensorFlow-1.15.0"),
}
"""Device kind to type, id, name and version of the engine; the page prints a type without a value."""


@attrs.frozen(kw_only=True)
class Version:
    """One of the fleet's jobs, as a version of a v1 job.

    Attributes:
        number: Counted from 1 within its job.
        previous_id: The version before it, or None.
        job_name: The name of the job that it is a version of: that of its first version in the fleet.
    """

    job: FleetJob
    job_id: int
    version_id: int
    number: int
    previous_id: int | None
    job_name: str

    @property
    def id(self) -> str:
        """What a ``JobRef`` writes behind its source."""
        return f"{self.job_id}/{self.version_id}"

    @property
    def status(self) -> int:
        """The status as the service counts it."""
        if self.job.start_time_ms is None and self.job.status is JobStatus.FAILED:
            return _SUBMIT_FAILED
        return _STATUSES.get(self.job.status, _WAITING[self.version_id % 2])

    @property
    def pool_id(self) -> str | None:
        """The dedicated pool that it runs in, or None."""
        return f"pool{self.job.device_kind}0001" if self.job.devices else None

    @property
    def flavor(self) -> str:
        """The code of the resource specification."""
        return f"modelarts.emulated.{self.job.device_kind or 'cpu'}.{self.job.devices or self.job.cpus}"

    @property
    def pods(self) -> tuple[str, ...]:
        """The pods, named like the log files: alike in all versions of a job; one that never started has none."""
        tasks = self.job.tasks if self.job.start_time_ms is not None else ()
        return tuple([f"{self.job_name}.{number}" for number in range(len(tasks))])

    def duration_ms(self, now_ms: int, /) -> int:
        """Give how long it has run."""
        start, end = self.job.start_time_ms, self.job.end_time_ms
        return 0 if start is None else max(0, (now_ms if end is None else end) - start)


def versions_of(fleet: Fleet, /) -> tuple[Version, ...]:
    """Give the fleet's jobs, in its order, as versions of jobs that have one to three; equal fleets give equal ids."""
    dice = random.Random(f"{fleet.seed}/versions")
    made: list[Version] = []
    job_id, version_id, left = _FIRST_JOB, _FIRST_VERSION, 0
    for job in fleet.jobs:
        before = made[-1] if left else None
        if before is None:
            left = dice.randint(1, _MOST_VERSIONS)
            job_id += dice.randint(1, 9)
        version_id += dice.randint(1, 9)
        made.append(
            Version(
                job=job,
                job_id=job_id,
                version_id=version_id,
                number=1 if before is None else before.number + 1,
                previous_id=None if before is None else before.version_id,
                job_name=job.name if before is None else before.job_name,
            )
        )
        left -= 1
    return tuple(made)


def job_ids(fleet: Fleet, /) -> dict[str, str]:
    """Give id of each of the fleet's jobs to what a ``JobRef`` to the emulator writes: ``job_id/version_id``."""
    return {version.job.id: version.id for version in versions_of(fleet)}


def pod_names(fleet: Fleet, job: FleetJob, /) -> tuple[str, ...]:
    """Give the names of a job's pods, in the order of its tasks; none where it never started."""
    return next(version.pods for version in versions_of(fleet) if version.job.id == job.id)


def description_document(version: Version, now_ms: int, no_time: int | None, /) -> Document:
    """Give what the details and the list of versions tell alike, but for the metrics."""
    job = version.job
    engine_type, engine_id, engine_name, engine_version = _ENGINES[job.device_kind]
    gpus = job.devices if job.device_kind == "gpu" else 0
    return {
        "version_id": version.version_id,
        "version_name": f"V{version.number:04}",
        "pre_version_id": version.previous_id,
        "engine_type": engine_type,
        "engine_name": engine_name,
        "engine_id": engine_id,
        "engine_version": engine_version,
        "status": version.status,
        "app_url": "/emulated/code/",
        "boot_file_url": "/emulated/code/train.py",
        "create_time": job.create_time_ms,
        "parameter": [{"label": "learning_rate", "value": 0.01}, {"label": "optimizer", "value": "adam"}],
        "duration": version.duration_ms(now_ms),
        "spec_id": 1 + job.devices,
        "core": job.cpus,
        "cpu": job.memory_bytes // _GIB,
        "memory_unit": "GB",
        "gpu_num": gpus,
        "gpu_type": "GP-Vnt1" if gpus else None,
        "worker_server_num": len(job.tasks),
        "data_url": "/emulated/data/",
        "train_url": "/emulated/output/",
        "log_url": "/emulated/log/",
        "dataset_version_id": None,
        "dataset_id": None,
        "data_source": [{"type": "obs", "data_url": "/emulated/data/"}],
        "user_image_url": None,
        "user_command": None,
        "model_id": None,
        "resource_id": f"job{version.version_id:x}",
        "dataset_name": None,
        "dataset_version_name": None,
        "spec_code": version.flavor if version.pool_id is None else None,
        "start_time": no_time if job.start_time_ms is None else job.start_time_ms,
        "volumes": None,
        "pool_id": version.pool_id,
        "pool_name": version.pool_id,
        "npu_info": _device_document(job, "npu"),
        "flavor_code": version.flavor,
        "flavor_info": {
            "cpu": str(job.cpus),
            "ram": str(job.memory_bytes // _GIB),
            "gpu": _device_document(job, "gpu"),
            "npu": _device_document(job, "npu"),
        },
        "nas_mount_path": None,
        "nas_share_addr": None,
        "nas_type": "nfs",
    }


def _device_document(job: FleetJob, kind: str) -> Document | None:
    """Give the devices of one worker; None where it has none of that kind."""
    if job.device_kind != kind:
        return None
    product = {"gpu": "GP-Vnt1", "npu": "Snt9b"}[kind]
    memory = str(job.device_memory_bytes // _GIB)
    return {"unit_num": job.devices, "product_name": product, "memory": memory, "unit": "GB"}


def evaluation_document(fleet: Fleet, version: Version, /) -> Document | None:
    """Give how good the model of a finished job is: in total, and for two or three classes; else None."""
    if version.job.status is not JobStatus.SUCCEEDED:
        return None
    dice = random.Random(f"{fleet.seed}/{version.job.id}/evaluation")

    def values() -> Document:
        return {name: round(dice.random(), 6) for name in ("recall", "precision", "accuracy")}

    classes = [
        {
            "metric_values": values(),
            "reserved_data": {},
            "metric_meta": {"class_name": number if number == 0 else f"class-{number}", "class_id": number},
        }
        for number in range(dice.randint(2, 3))
    ]
    total = {"total_metric_meta": {}, "total_reserved_data": {}, "total_metric_values": {"id": 0, **values()}}
    return {"metric": classes, "total_metric": total}
