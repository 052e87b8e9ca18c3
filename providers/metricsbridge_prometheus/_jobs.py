"""From what is known of pods to jobs: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import Accelerators, Job, JobStatus, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metricsbridge_prometheus._discovery import Pod
    from metricsbridge_prometheus._wire import Row

PHASES: Final[Mapping[str, JobStatus]] = {
    "Pending": JobStatus.PENDING,
    "Unknown": JobStatus.UNKNOWN,
    "Running": JobStatus.RUNNING,
    "Failed": JobStatus.FAILED,
    "Succeeded": JobStatus.SUCCEEDED,
}
"""A pod's phase to a status, in the order in which a pod goes through them: of two that were reported last, by two
instances of the exporter, the later one holds."""

_ORDER: Final = tuple(PHASES)
_LEADERS: Final = frozenset({"master", "chief", "launcher"})
"""Roles whose success is that of the job."""

_KINDS: Final[Mapping[str, str]] = {"nvidia": "gpu", "huawei": "npu"}


@attrs.frozen
class Doubts:
    """What the server said is missing from its answers about a job: the job's payload."""

    warnings: tuple[str, ...] = ()


@attrs.define
class Life:
    """One incarnation of a pod, as far as it is known."""

    phase: str = ""
    created_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    devices: dict[tuple[str, str], float] = attrs.field(factory=dict)

    @property
    def over(self) -> bool:
        """Whether it has ended by its own account."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def begun_ms(self) -> int | None:
        """When it began to run; a pod that waits has a start time too."""
        return self.started_ms if self.phase not in ("", "Pending") else None


@attrs.define
class Facts:
    """What is known of pods and plain Jobs, by namespace and name.

    Attributes:
        lives: Of each pod, the oldest first.
        jobs: Of each plain Job, the last value of each fact.
        present: The pods that there are now.
        reported: Whether anybody reports pods now.
        ends: When a pod ended that has told of no end, in ms.
    """

    lives: dict[tuple[str, str], list[Life]] = attrs.field(factory=dict)
    jobs: dict[tuple[str, str], dict[str, int]] = attrs.field(factory=dict)
    present: set[tuple[str, str]] = attrs.field(factory=set)
    reported: bool = False
    ends: dict[tuple[str, str], int] = attrs.field(factory=dict)

    def gone(self, place: tuple[str, str], /) -> bool:
        """Tell whether a pod that had not ended is there no more."""
        lives = self.lives.get(place)
        return self.reported and place not in self.present and not (lives and lives[-1].over)

    def open(self, place: tuple[str, str], /) -> bool:
        """Tell whether a pod has ended without saying when."""
        lives = self.lives.get(place)
        return self.gone(place) or bool(lives and lives[-1].over and lives[-1].ended_ms is None)


def facts_in(rows: Iterable[Row], /) -> Facts:
    """Read what rows say of pods and plain Jobs."""
    found = Facts()
    lives: dict[tuple[str, str], dict[str, Life]] = {}
    for row in rows:
        namespace = row.labels.get("namespace", "")
        if row.name.startswith("kube_job_"):
            if row.labels.get("condition", "true") == "true":
                fact = found.jobs.setdefault((namespace, row.labels.get("job_name", "")), {})
                fact[row.name] = max(fact.get(row.name, 0), row.time_ms)
        else:
            place = (namespace, row.labels.get("pod", ""))
            _read(row, lives.setdefault(place, {}).setdefault(row.labels.get("uid", ""), Life()))
    for place, each in lives.items():
        found.lives[place] = sorted(each.values(), key=lambda life: life.created_ms or life.started_ms or 0)
    return found


def _read(row: Row, life: Life) -> None:
    if row.name == "kube_pod_status_phase":
        phase = row.labels.get("phase", "")
        if row.value == 1 and phase in _ORDER and (not life.phase or _ORDER.index(phase) > _ORDER.index(life.phase)):
            life.phase = phase
    elif row.name == "kube_pod_created":
        life.created_ms = row.time_ms
    elif row.name == "kube_pod_start_time":
        life.started_ms = row.time_ms
    elif row.name == "kube_pod_completion_time":
        life.ended_ms = max(row.time_ms, life.ended_ms or 0)
    elif row.name == "kube_pod_container_resource_requests":
        part = (row.labels.get("container", ""), row.labels.get("resource", ""))
        life.devices[part] = max(row.value, life.devices.get(part, 0.0))


def to_job(pods: Sequence[Pod], facts: Facts, /, warnings: tuple[str, ...] = ()) -> Job:
    """Describe the job that pods make up."""
    tasks = tuple([_task(pod, facts) for pod in pods])
    stated = _of_this_life(facts.jobs.get((pods[0].namespace, pods[0].job), {})) if pods[0].plain else {}
    status, word = _status(pods, facts, stated)
    lives = [life for pod in pods for life in facts.lives.get(pod.place, ())]
    starts = [task.start_time_ms for task in tasks if task.start_time_ms is not None]
    ends = [task.end_time_ms for task in tasks]
    known = [end for end in ends if end is not None]
    end = stated.get("kube_job_status_completion_time") or (max(known) if len(known) == len(ends) else None)
    created = [life.created_ms for life in lives if life.created_ms is not None]
    return Job(
        id=f"{pods[0].namespace}/{pods[0].job}",
        name=pods[0].job,
        status=status,
        vendor_status=word,
        create_time_ms=stated.get("kube_job_created") or min(created, default=min(starts, default=None)),
        start_time_ms=min(starts, default=None),
        end_time_ms=end if starts and status.terminal else None,
        accelerators=_accelerators(lives),
        tasks=tasks,
        payload=Doubts(warnings) if warnings else None,
    )


def _of_this_life(stated: Mapping[str, int]) -> Mapping[str, int]:
    """Leave out what was said of an earlier Job of the same name, which ended before this one began."""
    begun = max(stated.get("kube_job_created", 0), stated.get("kube_job_status_start_time", 0))
    ended = stated.get("kube_job_status_completion_time")
    if ended is None or ended >= begun:
        return stated
    left_out = ("kube_job_complete", "kube_job_status_completion_time")
    return {name: value for name, value in stated.items() if name not in left_out}


def _task(pod: Pod, facts: Facts) -> Task:
    """Describe a pod; it began with the first of its incarnations and ends with the present one."""
    place = pod.place
    lives = facts.lives.get(place, [])
    starts = [life.begun_ms for life in lives if life.begun_ms is not None]
    end: int | None = None
    if lives and lives[-1].over:
        end = lives[-1].ended_ms or facts.ends.get(place)
    elif facts.gone(place):
        end = facts.ends.get(place)
    return Task(id=pod.name, role="/".join(pod.role), start_time_ms=min(starts, default=None), end_time_ms=end)


def _status(pods: Sequence[Pod], facts: Facts, stated: Mapping[str, int]) -> tuple[JobStatus, str]:
    """Give the status, and the word it comes from: the Job's own account, else what its pods tell."""
    if stated.get("kube_job_complete"):
        return JobStatus.SUCCEEDED, "Complete"
    if stated.get("kube_job_failed"):
        return JobStatus.FAILED, "Failed"
    places = [pod.place for pod in pods]
    phases = {place: lives[-1].phase if (lives := facts.lives.get(place)) else "" for place in places}
    waiting = [
        phase for place, phase in phases.items() if phase not in ("Succeeded", "Failed") and not facts.gone(place)
    ]
    if waiting:
        word = "Running" if "Running" in waiting else waiting[0]
        return (PHASES.get(word, JobStatus.UNKNOWN) if facts.reported else JobStatus.UNKNOWN), word
    deciding = [pod for pod in pods if pod.role and pod.role[0] in _LEADERS] or pods
    latest: dict[tuple[str, ...], tuple[int, str]] = {}
    for pod in deciding:  # one that was tried again counts by its last try
        place = pod.place
        lives = facts.lives.get(place)
        slot = pod.role or (() if pod.plain else (pod.name,))
        latest[slot] = max(latest.get(slot, (-1, "")), ((lives[-1].created_ms or 0) if lives else 0, phases[place]))
    words = {phase for _, phase in latest.values()}
    if words == {"Succeeded"}:
        return JobStatus.SUCCEEDED, "Succeeded"
    if "Failed" in words:
        return JobStatus.FAILED, "Failed"
    return JobStatus.STOPPED, "deleted"


def _accelerators(lives: Sequence[Life]) -> Accelerators | None:
    most: tuple[float, str] = (0.0, "")
    for life in lives:
        for resource in {name for _, name in life.devices}:
            count = sum([value for (_, name), value in life.devices.items() if name == resource])
            most = max(most, (count, resource))
    count, resource = most
    kind = _KINDS.get(resource.partition("_")[0])
    if kind is None or count < 1:
        return None
    model = resource.partition("_com_")[2]
    return Accelerators(kind=kind, count=int(count), model="" if model == "gpu" else model)
