"""From the vendor's description of a job to ours, and by which route its metrics are read: pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

import attrs

from metricsbridge.provider_kit import Accelerators, DecodeError, Job, JobStatus, Task, parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metricsbridge_pai._wire import DlcJob, JobSpec, Pod

Route = Literal["GetJobMetrics", "CloudMonitor"]

STATUSES: Final[Mapping[str, JobStatus]] = {
    "Creating": JobStatus.PENDING,
    "Queuing": JobStatus.PENDING,
    "Bidding": JobStatus.PENDING,
    "EnvPreparing": JobStatus.PENDING,
    "SanityChecking": JobStatus.PENDING,
    "Running": JobStatus.RUNNING,
    "Restarting": JobStatus.RUNNING,
    "Stopping": JobStatus.STOPPING,
    "SucceededReserving": JobStatus.SUCCEEDED,  # ended; its pods are kept for debugging
    "FailedReserving": JobStatus.FAILED,
    "Succeeded": JobStatus.SUCCEEDED,
    "Failed": JobStatus.FAILED,
    "Stopped": JobStatus.STOPPED,
    "Deleted": JobStatus.STOPPED,
}
"""The vendor's ``Status`` to ours; anything else is unknown."""

_FIRST_YEAR: Final = 2009
"""The vendor is not older: an earlier instant, such as 0001-01-01, stands for none."""

_ENDS: Final[Mapping[JobStatus, str]] = {
    JobStatus.SUCCEEDED: "GmtSuccessedTime",
    JobStatus.FAILED: "GmtFailedTime",
    JobStatus.STOPPED: "GmtStoppedTime",
}


@attrs.frozen
class Facts:
    """What planning must know of a job besides what every job has: its ``payload``.

    Attributes:
        route: Which API has its metrics; None where that is not known yet.
        aliases: Id of an earlier incarnation of a pod, where it differs, to the task that it belongs to.
        cpus: Role in lower case to the CPUs of each of its pods, where the job says so.
        gpus: Likewise, accelerators.
        requested_gpus: Accelerators of all its pods together, perhaps parts of them.
    """

    route: Route | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    cpus: tuple[tuple[str, float], ...] = ()
    gpus: tuple[tuple[str, float], ...] = ()
    requested_gpus: float = 0.0


def instant(text: str | None, member: str, /) -> int | None:
    """Give an ISO 8601 instant in ms since the epoch, UTC where it names no zone; None where there is none.

    Raises:
        DecodeError: It is no instant; names the member.
    """
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.year < _FIRST_YEAR:
            return None
        return parse_instant(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise DecodeError(f"the job's {member} is no time in ISO 8601", path=f"$.{member}") from error


def number(value: object, /) -> float | None:
    """Give a number that may be written as text, as these are in lists; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def is_last(new: int, items: int, size: int, known: int, total: object, /) -> bool:
    """Tell whether a page of a list is its last one.

    A full page is followed by another whatever the total says, but one that brings nothing new comes from a service
    that does not page: it would come for ever. A page that is not full may be all that the service gives at a time.

    Args:
        new: How many of its items were not on the pages before.
        items: How many it has.
        size: How many were asked for.
        known: How many different items all pages up to it have.
        total: The answer's ``TotalCount``, which may be missing or an empty text.
    """
    count = number(total)
    return not new or (items < size and count is not None and known >= count)


def to_job(wire: DlcJob, /, *, listed: bool = False) -> Job:
    """Describe a job.

    Args:
        wire: As the vendor describes it.
        listed: Whether this is an item of a list, which may lack pods and resources.

    Raises:
        DecodeError: A time is none.
    """
    status = STATUSES.get(wire.Status or "", JobStatus.UNKNOWN)
    pods = [(pod.PodId, pod) for pod in wire.Pods or () if pod.PodId]
    tasks = tuple([_task(pod_id, pod) for pod_id, pod in pods])
    # After a restart the job's own time may be that of the restart, or be missing.
    starts = [instant(wire.GmtRunningTime, "GmtRunningTime"), *[task.start_time_ms for task in tasks]]
    start_ms = min([start for start in starts if start is not None], default=None)
    present = {pod_id for pod_id, _ in pods}
    facts = Facts(
        route=route_of(wire),
        aliases=tuple([(old, pod_id) for pod_id, pod in pods for old in _earlier(pod) if old not in present]),
        cpus=_units(wire, "CPU"),
        gpus=_units(wire, "GPU"),
        requested_gpus=_requested_gpus(wire),
    )
    # Pods that a list leaves out may tell of a start that it does not.
    may_have_begun = start_ms is not None or (status is not JobStatus.PENDING and not tasks)
    return Job(
        id=wire.JobId,
        name=wire.DisplayName or "",
        status=status,
        vendor_status=wire.Status or "",
        create_time_ms=instant(wire.GmtCreateTime, "GmtCreateTime"),
        start_time_ms=start_ms,
        end_time_ms=_end(wire, status) if start_ms is not None else None,
        accelerators=_accelerators(wire, facts),
        tasks=tasks,
        partial=listed and may_have_begun and (not tasks or facts.route is None),
        payload=facts,
    )


def _end(wire: DlcJob, status: JobStatus) -> int | None:
    """Give the end of an ended job; the state has a time of its own where ``GmtFinishTime`` is missing."""
    if not status.terminal:
        return None
    ended = instant(wire.GmtFinishTime, "GmtFinishTime")
    return ended if ended is not None else instant(getattr(wire, _ENDS[status]), _ENDS[status])


def _earlier(pod: Pod) -> tuple[str, ...]:
    """Give the ids that a pod had before, each once."""
    return tuple(dict.fromkeys([old.PodId for old in pod.HistoryPods or () if old.PodId]))


def _task(pod_id: str, pod: Pod) -> Task:
    """Describe a pod; it began with the first of its incarnations and ends with the present one."""
    texts = [pod.GmtStartTime, *[old.GmtStartTime for old in pod.HistoryPods or ()]]
    starts = [instant(text, "Pods.GmtStartTime") for text in texts]
    return Task(
        id=pod_id,
        role=pod.Type or "",
        start_time_ms=min([start for start in starts if start is not None], default=None),
        end_time_ms=instant(pod.GmtFinishTime, "Pods.GmtFinishTime"),
    )


def route_of(wire: DlcJob, /) -> Route | None:
    """Tell which API has a job's metrics; None where the job's fields leave it open.

    ``GetJobMetrics`` has those of pay-as-you-go jobs on general computing resources only (PAI-DLC API reference,
    GetJobMetrics); whatever runs in a resource quota, on other resources or on spot instances is in CloudMonitor.
    """
    specs = wire.JobSpecs
    if wire.ResourceId or wire.ResourceQuotaName or wire.ResourceType not in (None, "", "ECS"):
        return "CloudMonitor"
    if any(_is_spot(spec) or spec.QuotaId for spec in specs or ()):
        return "CloudMonitor"
    return "GetJobMetrics" if wire.ResourceType == "ECS" and specs is not None else None


def _is_spot(spec: JobSpec) -> bool:
    strategy = spec.SpotSpec.get("SpotStrategy") if isinstance(spec.SpotSpec, dict) else None
    return bool(spec.UseSpotInstance) or strategy not in (None, "", "NoSpot")


def _units(wire: DlcJob, kind: Literal["CPU", "GPU"]) -> tuple[tuple[str, float], ...]:
    """Give how many CPUs or accelerators each pod of a role has; "" stands for every role that is not named.

    Roles that are alike need no name: where there is no master, the service makes one of the first worker. A role whose
    specs differ is left out: nothing tells which of its pods has how many.
    """
    specs = wire.JobSpecs or ()
    counts: dict[str, set[float | None]] = {}
    for spec in specs:
        counts.setdefault((spec.Type or "").lower(), set()).add(number(getattr(spec.ResourceConfig, kind, None)))
    found = {role: next(iter(known)) if len(known) == 1 else None for role, known in counts.items()}
    if len({spec.EcsSpec for spec in specs}) == 1 and not any(set().union(*counts.values())):
        total, pods = number(getattr(wire, f"Request{kind}")), sum([spec.PodCount or 0 for spec in specs])
        found = {"": total / pods if total is not None and pods else None}
    elif len(found) == 1:
        found = {"": next(iter(found.values()))}
    return tuple([(role, count) for role, count in found.items() if count])


def _requested_gpus(wire: DlcJob) -> float:
    """Give the accelerators of all pods together, from the specs where the job does not sum them up."""
    total = number(wire.RequestGPU)
    if total is not None:
        return total
    each = [(spec.PodCount or 0, number(getattr(spec.ResourceConfig, "GPU", None))) for spec in wire.JobSpecs or ()]
    return math.fsum([pods * gpus for pods, gpus in each if gpus is not None])


def _accelerators(wire: DlcJob, facts: Facts) -> Accelerators | None:
    count = int(max([count for _, count in facts.gpus], default=0))
    models = [spec.ResourceConfig.GPUType for spec in wire.JobSpecs or () if spec.ResourceConfig is not None]
    return Accelerators(kind="gpu", count=count, model=next(filter(None, models), "")) if count else None


def units_of(counts: Iterable[tuple[str, float]], role: str, /) -> float | None:
    """Give how many units a pod of that role has, or None where the job does not say."""
    known = dict(counts)
    return known.get(role.lower(), known.get(""))
