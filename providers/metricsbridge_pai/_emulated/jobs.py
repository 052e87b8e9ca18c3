"""The emulated PAI-DLC: the vendor's documents about the jobs of a simulated fleet; pure.

Source: PAI-DLC API reference, GetJob, ListJobs, GetJobEvents, GetPodEvents, ListEcsSpecs.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from metricsbridge.provider_kit import JobStatus
from metricsbridge_pai._emulated.gateway import USER_ID, USER_NAME
from metricsbridge_pai._emulated.roster import placed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.testing.fleet import Fleet, FleetJob
    from metricsbridge_pai._emulated.roster import Placed

Document = dict[str, Any]

WORKSPACE_ID: Final = "268"
QUOTA_ID: Final = "quota-emulated"
QUOTA_NAME: Final = "emulated-quota"

_GIB: Final = 2**30

_REASONS: Final[Mapping[JobStatus, tuple[str, str]]] = {
    JobStatus.PENDING: ("JobEnqueued", "The job waits for resources."),
    JobStatus.RUNNING: ("JobRunning", "The job is running."),
    JobStatus.STOPPING: ("JobStopping", "The job is being stopped."),
    JobStatus.SUCCEEDED: ("JobSucceeded", "The job succeeded."),
    JobStatus.FAILED: ("JobFailed", "A container of the job failed."),
    JobStatus.STOPPED: ("JobStoppedByUser", "The job was stopped by its user."),
}
_END_TIMES: Final[Mapping[JobStatus, str]] = {
    JobStatus.SUCCEEDED: "GmtSuccessedTime",
    JobStatus.FAILED: "GmtFailedTime",
    JobStatus.STOPPED: "GmtStoppedTime",
}
_POD_STATUSES: Final[Mapping[JobStatus, str]] = {
    JobStatus.PENDING: "Pending",
    JobStatus.RUNNING: "Running",
    JobStatus.STOPPING: "Running",
    JobStatus.SUCCEEDED: "Succeeded",
    JobStatus.FAILED: "Failed",
    JobStatus.STOPPED: "Unknown",
}


def instant(time_ms: int, /) -> str:
    """Write a time as the service does, to the second."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def job_document(job: Placed, now_ms: int, /, *, detail: bool, renamed: bool) -> Document:
    """Give a job as GetJob does; without detail the pods are left out."""
    requested = _requested(job)
    document = {
        **_summary(job, now_ms),
        "RequestCPU": int(requested["CPU"]),
        "RequestGPU": requested["GPU"],
        "RequestMemory": requested["Memory"],
        "StatusHistory": _history(job),
        "RestartRecord": _restarts(job),
        "supportedProfilingTypes": "",
    }
    return {**document, "Pods": pod_documents(job, now_ms, renamed=renamed)} if detail else document


def item_document(job: Placed, now_ms: int, /, *, pods: bool, renamed: bool) -> Document:
    """Give a job as an item of ListJobs: the same amounts are text here."""
    requested = _requested(job)
    document = {
        **_summary(job, now_ms),
        "RequestCPU": int(requested["CPU"]),
        "RequestGPU": f"{requested['GPU']:g}",
        "RequestMemory": f"{requested['Memory']:g}",
        "NodeCount": str(len(job.pods)),
        "ResourceQuotaName": QUOTA_NAME if job.resource.quota else "",
        "ResourceName": QUOTA_NAME if job.resource.quota else "",
        "Username": USER_NAME,
        "IsDeleted": False,
    }
    return {**document, "Pods": pod_documents(job, now_ms, renamed=renamed)} if pods else document


def _requested(job: Placed) -> dict[str, float]:
    """Give what all pods ask for together: cores, devices, GiB."""
    count = len(job.pods)
    memory = job.job.memory_bytes / _GIB
    return {"CPU": float(job.job.cpus * count), "GPU": float(job.gpus * count), "Memory": memory * count}


def _summary(job: Placed, now_ms: int) -> Document:
    truth = job.job
    code, message = _REASONS[truth.status]
    start, end = truth.start_time_ms, truth.end_time_ms
    document = {
        "JobId": job.id,
        "DisplayName": truth.name,
        "JobType": job.type,
        "Status": job.status,
        "SubStatus": "",
        "ReasonCode": code,
        "ReasonMessage": message,
        "WorkspaceId": WORKSPACE_ID,
        "WorkspaceName": "emulated-workspace",
        "UserId": USER_ID,
        "ResourceLevel": "L0",
        "ResourceId": QUOTA_ID if job.resource.quota else "",
        "Priority": 1,
        "JobSpecs": _specs(job),
        "RestartTimes": f"{int(job.restarted)}/10",
        "Duration": 0 if start is None else max(0, (now_ms if end is None else end) - start) // 1000,
        "GmtCreateTime": instant(truth.create_time_ms),
        "GmtSubmittedTime": instant(truth.create_time_ms + 1_000),
        "UserCommand": "python train.py",
    }
    if job.resource.type is not None:
        document["ResourceType"] = job.resource.type
    if start is not None:
        document["GmtRunningTime"] = instant(start)
    ended = _ended_ms(truth)
    if ended is not None:
        document |= {_END_TIMES[truth.status]: instant(ended), "GmtFinishTime": instant(ended)}
    return document


def _ended_ms(job: FleetJob) -> int | None:
    """Give when a job ended; one that failed before it ran did so soon after it was created."""
    if job.end_time_ms is None and job.status.terminal:
        return job.create_time_ms + 4_000
    return job.end_time_ms


def _specs(job: Placed) -> list[Document]:
    roles = [_role(pod) for pod in job.pods]
    amounts: Document = {"EcsSpec": _spec_name(job)}
    if not (job.resource.general or job.resource.type is None):
        amounts = {
            "ResourceConfig": {
                "CPU": str(job.job.cpus),
                "GPU": str(job.gpus),
                "GPUType": "GU-emulated" if job.gpus else "",
                "Memory": f"{job.job.memory_bytes // _GIB}Gi",
                "SharedMemory": "8Gi",
            }
        }
    if job.resource.spot:
        amounts |= {"UseSpotInstance": True, "SpotSpec": {"SpotStrategy": "SpotAsPriceGo"}}
    return [
        {"Type": role, "PodCount": roles.count(role), "Image": "emulated/pytorch:latest", **amounts}
        for role in dict.fromkeys(roles)
    ]


def _role(pod: str) -> str:
    return pod.split("-")[1].capitalize()


def _spec_name(job: Placed) -> str:
    kind = f"gn{job.gpus}" if job.gpus else "g"
    return f"ecs.{kind}-emulated-c{job.job.cpus}.large"


def _history(job: Placed) -> list[Document]:
    truth = job.job
    entered = [("Creating", truth.create_time_ms)]
    if truth.start_time_ms is not None:
        entered += [("EnvPreparing", truth.create_time_ms + 2_000), ("Running", truth.start_time_ms)]
    if job.restarted:
        entered += [("Restarting", job.restart_ms - 20_000), ("Running", job.restart_ms)]
    ended = _ended_ms(truth)
    if entered[-1][0] != job.status:
        entered.append((job.status, ended if ended is not None else truth.create_time_ms + 1_000))
    ends = [instant(time_ms) for _, time_ms in entered[1:]] + [""]
    return [
        {"Status": status, "StartTime": instant(time_ms), "EndTime": end, "ReasonCode": "", "ReasonMessage": ""}
        for (status, time_ms), end in zip(entered, ends, strict=True)
    ]


def _restarts(job: Placed) -> list[Document]:
    if not job.restarted:
        return []
    return [
        {
            "JobRestartCount": 1,
            "OccurPhase": "Running",
            "OccurTime": instant(job.restart_ms - 20_000),
            "Reason": "NodeUnhealthy",
            "RestartDurationInSec": 20,
            "RestartStatus": "Succeeded",
        }
    ]


def pod_documents(job: Placed, now_ms: int, /, *, renamed: bool) -> list[Document]:
    """Give the pods; one that was restarted has its earlier incarnation under it."""
    truth = job.job
    status = _POD_STATUSES[truth.status]
    documents = [
        _pod(job, number, status, truth.start_time_ms, truth.end_time_ms, now_ms) for number in range(len(job.pods))
    ]
    if job.restarted:
        last = len(job.pods) - 1
        earlier = _pod(job, last, "Failed", truth.start_time_ms, job.restart_ms - 20_000, now_ms, incarnation=0)
        now = _pod(job, last, status, job.restart_ms, truth.end_time_ms, now_ms)
        name = job.earlier_id(job.pods[last], renamed=renamed)
        documents[last] = {**now, "HistoryPods": [{**earlier, "PodId": name, "SubStatus": "Evicted"}]}
    return documents


def _pod(
    job: Placed, number: int, status: str, start: int | None, end: int | None, now_ms: int, incarnation: int = 1
) -> Document:
    pod = job.pods[number]
    uid = hashlib.sha256(f"{pod}/{incarnation}".encode()).hexdigest()
    document: Document = {
        "PodId": pod,
        "PodUid": f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:32]}",
        "Type": _role(pod),
        "Status": status,
        "SubStatus": "Normal",
        "GmtCreateTime": instant(job.job.create_time_ms + 2_000),
    }
    if start is not None:
        address = f"10.0.{number // 200}.{number % 200 + 2}"
        document |= {
            "Ip": address,
            "PodIps": [{"Ip": address, "NetworkInterface": "eth0"}],
            "NodeName": f"node-{number}",
            "GmtStartTime": instant(start),
            "Duration": float(max(0, (now_ms if end is None else end) - start) // 1000),
        }
    if end is not None:
        document["GmtFinishTime"] = instant(end)
    if job.resource.type is not None:
        document["ResourceType"] = job.resource.type
    return document


def event_texts(job: Placed, /) -> list[tuple[int, str]]:
    """Give what happened to a job, with times in ms since the epoch, the oldest first."""
    truth = job.job
    events = [(truth.create_time_ms, "the job was created")]
    if truth.start_time_ms is not None:
        events.append((truth.start_time_ms, "the job began to run"))
    ended = _ended_ms(truth)
    if ended is not None:
        events.append((ended, f"the job ended: {job.status}"))
    return [(time_ms, f"{instant(time_ms)} [Normal] {text}") for time_ms, text in events]


def spec_documents(fleet: Fleet, /) -> list[Document]:
    """Give the ECS specifications that the fleet's jobs run on, as ListEcsSpecs."""
    every = {_spec_name(job): job for job in placed(fleet).values()}
    return [
        {
            "InstanceType": name,
            "AcceleratorType": "GPU" if job.gpus else "CPU",
            "Cpu": job.job.cpus,
            "Memory": job.job.memory_bytes // _GIB,
            "Gpu": job.gpus,
            "GpuType": "GU-emulated" if job.gpus else "",
            "GpuMemory": job.job.device_memory_bytes // _GIB if job.gpus else 0,
            "IsAvailable": True,
            "PaymentTypes": ["PostPaid"],
            "ResourceType": "ECS",
        }
        for name, job in sorted(every.items())
    ]
