"""The emulated ModelArts: the vendor's documents about the jobs of a simulated fleet; pure.

Source: ModelArts API reference, ShowTrainingJobDetails, ListTrainingJobs, ShowTrainingJobMetrics, ListTrainingJobTasks,
ListTrainingJobStages, ListTrainingJobEvents, ShowTrainingJobFlavors.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from metricsbridge.provider_kit import JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metricsbridge.testing.fleet import Fleet, FleetJob

Document = dict[str, Any]

_METRICS: Final = {
    "cpuUsage": "container.cpu.utilization",
    "memUsage": "container.memory.utilization",
    "gpuUtil": "hw.gpu.utilization",
    "gpuMemUsage": "hw.gpu.memory.utilization",
    "npuUtil": "hw.npu.utilization",
    "npuMemUsage": "hw.npu.memory.utilization",
}
_PHASES: Final[Mapping[JobStatus, tuple[str, str]]] = {
    JobStatus.PENDING: ("Pending", "Queuing"),
    JobStatus.RUNNING: ("Running", "Running"),
    JobStatus.STOPPING: ("Terminating", "Terminating"),
    JobStatus.SUCCEEDED: ("Completed", "Completed"),
    JobStatus.FAILED: ("Failed", "Failed"),
    JobStatus.STOPPED: ("Terminated", "Terminated"),
}
_ENDS: Final[Mapping[JobStatus, tuple[int, str]]] = {
    JobStatus.SUCCEEDED: (0, ""),
    JobStatus.FAILED: (137, "the container was killed: out of memory"),
    JobStatus.STOPPED: (143, "the job was terminated by its user"),
}
_TYPES: Final = {"": "CPU", "gpu": "GPU", "npu": "Ascend"}
_GIB: Final = 2**30


def phases(job: FleetJob, /) -> tuple[str, str]:
    """Give a job's phase and secondary phase."""
    if job.status is JobStatus.FAILED and job.start_time_ms is None:
        return "Abnormal", "CreateFailed"
    return _PHASES[job.status]


def job_document(job: FleetJob, now_ms: int, /) -> Document:
    """Give the details of a job, as ShowTrainingJobDetails and each item of ListTrainingJobs."""
    flavor = flavor_document(job)
    resource = {
        "policy": "regular",
        "flavor_id": flavor["flavor_id"],
        "flavor_name": flavor["flavor_name"],
        "node_count": len(job.tasks),
        "flavor_detail": {name: flavor[name] for name in ("flavor_type", "billing", "flavor_info")},
    }
    return {
        "kind": "job",
        "metadata": {
            "id": job.id,
            "name": job.name,
            "description": "",
            "create_time": job.create_time_ms,
            "workspace_id": "0",
            "ai_project": "default-ai-project",
            "user_name": "",
            "annotations": {"job_template": "Template DL", "key_task": "worker"},
        },
        "status": _status(job, now_ms),
        "algorithm": {"name": "", "code_dir": "/emulated/code/", "boot_file": "/emulated/code/train.py"},
        "spec": {"resource": resource, "log_export_path": {}},
    }


def _status(job: FleetJob, now_ms: int) -> Document:
    phase, secondary = phases(job)
    start, end = job.start_time_ms, job.end_time_ms
    common = {"phase": phase, "secondary_phase": secondary, "tasks": job.tasks}
    if start is None:
        return {**common, "start_time": 0, "duration": 0, "node_count_metrics": None}
    code, message = _ENDS.get(job.status, (0, ""))
    record = {"start_at": start // 1000, "start_type": "init_or_rescheduled"}
    return {
        **common,
        "start_time": start,
        "duration": max(0, (now_ms if end is None else end) - start),
        "node_count_metrics": [[start, len(job.tasks)], [now_ms if end is None else end, 0 if end else len(job.tasks)]],
        "task_statuses": [{"task": task, "exit_code": code, "message": message} for task in job.tasks] if end else [],
        "running_records": [record if end is None else {**record, "end_at": end // 1000}],
    }


def flavor_document(job: FleetJob, /) -> Document:
    """Give the flavour that a job runs on; what has no such device lacks that member."""
    kind, devices = job.device_kind, job.devices
    info: Document = {
        "max_num": 16,
        "cpu": {"arch": "arm64" if kind == "npu" else "x86", "core_num": job.cpus},
        "memory": {"size": job.memory_bytes // _GIB, "unit": "GB"},
        "disk": {"size": 500, "unit": "GB"},
    }
    memory = f"{job.device_memory_bytes // _GIB}GB"
    if kind == "gpu":
        info["gpu"] = {"unit_num": devices, "product_name": "GP-Vnt1", "memory": memory}
    elif kind == "npu":
        info["npu"] = {"unit_num": str(devices), "product_name": "Snt9b", "memory": memory}
    name = f"modelarts.emulated.{kind or 'cpu'}.{devices or job.cpus}"
    return {
        "flavor_id": name,
        "flavor_name": name,
        "max_num": 16,
        "flavor_type": _TYPES[kind],
        "billing": {"code": name, "unit_num": 1},
        "flavor_info": info,
        "attributes": {},
    }


def flavors_document(fleet: Fleet, flavor_type: str | None, /) -> Document:
    """Give the flavours, as ShowTrainingJobFlavors; None is of every type."""
    every = {flavor["flavor_id"]: flavor for flavor in map(flavor_document, fleet.jobs)}
    chosen = [flavor for flavor in every.values() if flavor_type in (None, flavor["flavor_type"])]
    return {"total_count": len(chosen), "flavors": chosen}


def tasks_document(job: FleetJob, /) -> list[Document]:
    """Give the tasks' places, as ListTrainingJobTasks: a list at the top level."""
    return [
        {"task": task, "ip": f"172.16.0.{number + 2}", "host_ip": f"192.168.0.{number + 2}", "schedule_count": 1}
        for number, task in enumerate(job.tasks)
    ]


def _stages(job: FleetJob) -> list[tuple[str, int]]:
    """Give the stages that a job has entered, and when."""
    stages = [("scheduling", job.create_time_ms)]
    if job.start_time_ms is not None:
        stages += [("preparing", job.create_time_ms + 4_000), ("running", job.start_time_ms)]
    if job.end_time_ms is not None:
        stages.append(("end", job.end_time_ms))
    return stages


def stages_document(job: FleetJob, /) -> Document:
    """Give the stages, as ListTrainingJobStages: times are text."""
    entered = _stages(job)
    ends = [str(following) for _, (_, following) in pairwise(entered)] + [""]
    stages = [
        {
            "job_id": job.id, "name": name, "en_message": f"The job is in the stage {name}.", "zh_message": "",
            "start_time": str(start), "end_time": end, "stage_order": order, "sub_stages": [],
        }
        for order, ((name, start), end) in enumerate(zip(entered, ends, strict=True), 1)
    ]  # fmt: skip
    return {"total_count": 1, "running_records": [{"record_order": 1, "stages": stages}]}


def events(job: FleetJob, /) -> list[tuple[int, Document]]:
    """Give the events with their times in ms, the oldest first, as ListTrainingJobEvents lists them."""
    known = [(time_ms, "Info", f"[{name}] The job entered the stage {name}.") for name, time_ms in _stages(job)]
    if phases(job)[0] in ("Abnormal", "Failed"):
        known.append((job.end_time_ms or job.create_time_ms, "Error", "The job failed."))
    return [
        (time_ms, {"message": message, "level": level, "time": _instant(time_ms), "source": "platform"})
        for time_ms, level, message in known
    ]


def _instant(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metrics_body(fleet: Fleet, job: FleetJob, task: str, minutes: np.ndarray[Any, np.dtype[np.int64]], /) -> bytes:
    """Give the body of ShowTrainingJobMetrics.

    Every metric has a number for every minute: -1 where nothing was measured, all of them for devices that the node
    lacks; whole numbers are written without a decimal point.
    """
    present = fleet.metrics(job)
    entries = []
    for name, metric in _METRICS.items():
        if metric in present:
            values = np.nan_to_num(fleet.wire_values(job, task, metric, minutes), nan=-1.0)
            array: Sequence[float] = [int(value) if value.is_integer() else value for value in values.tolist()]
        else:
            array = [-1] * len(minutes)
        entries.append({"metric": name, "value": array})
    return msgspec.json.encode({"metrics": entries})
