"""The frozen values that the contract is written in: jobs, windows, queries, calls, and what became of them."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Literal, Self

import attrs
import msgspec

from metricsbridge.durations import parse_duration, parse_instant, to_datetime
from metricsbridge.errors import ConfigurationError
from metricsbridge.http import check_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from metricsbridge.errors import MetricsBridgeError

Level = Literal["task", "device", "job"]
"""What one series stands for: a task's mean, each of its devices, or the job as a whole."""

Reason = Literal["no-data", "unsupported", "not-started", "outside-retention"]
"""Why something is absent: asked and empty, not offered, not begun, or no longer kept by the vendor."""

Target = tuple[str, str]
"""(job id, task id); a task id of "" is the job as a whole."""

_SOURCE = re.compile(r"[A-Za-z0-9_.-]+")


def check_source(name: str, /) -> str:
    """Give the name of a source back, else refuse it.

    Raises:
        ConfigurationError: It has other characters than letters, digits, ``_``, ``.`` and ``-``.
    """
    if not _SOURCE.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name for a source: use letters, digits, '_', '.' and '-'")
    return name


@attrs.frozen
class JobRef:
    """Which job of which source, written ``source/job-id``.

    Raises:
        ConfigurationError: The source's name has characters that it may not have.
        InvalidRequestError: The job id, or a part of it between slashes, is empty, ``.``, ``..`` or has control
            characters.
    """

    source: str
    job_id: str

    def __attrs_post_init__(self) -> None:
        check_source(self.source)
        for part in self.job_id.split("/"):
            check_id(part, "job id" if part == self.job_id else f"job id (a part of {self.job_id!r})")

    @classmethod
    def parse(cls, text: str, /) -> Self:
        """Read ``source/job-id``, split at the first slash: the job id may have more of them."""
        source, slash, job_id = text.partition("/")
        if not slash:
            raise ConfigurationError(f"{text!r} is no job reference: write it as source/job-id")
        return cls(source, job_id)

    def __str__(self) -> str:
        return f"{self.source}/{self.job_id}"


class JobStatus(enum.StrEnum):
    """The state of a job, the same words for every vendor."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    PAUSED = "paused"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended for good."""
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED)


@attrs.frozen(kw_only=True)
class Accelerators:
    """What each task computes on: how many devices of which kind (``gpu``, ``npu``) and model."""

    kind: str
    count: int
    model: str = ""


class Task(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One worker, pod or node of a job; ``role`` and times are the vendor's where it gives them."""

    id: str
    role: str = ""
    start_time_ms: int | None = None
    end_time_ms: int | None = None


@attrs.frozen(kw_only=True)
class Job:
    """One training job as the vendor describes it now.

    Attributes:
        id: The vendor's id: what a ``JobRef`` names behind its source.
        vendor_status: The vendor's own word for ``status``.
        start_time_ms: When it began to run, ms since the epoch; None where it never did.
        end_time_ms: When it ended, ms since the epoch; None where it has not.
        tasks: In the vendor's order.
        partial: Whether this is only what a listing tells: the collector then asks for the whole job before it plans.
        source: Stamped by the collector; "" from a provider.
        payload: The provider's own, picklable: what planning must know.
    """

    id: str
    name: str = ""
    status: JobStatus = JobStatus.UNKNOWN
    vendor_status: str = ""
    create_time_ms: int | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    accelerators: Accelerators | None = None
    tasks: tuple[Task, ...] = ()
    partial: bool = False
    source: str = ""
    payload: object = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class JobTotals:
    """How many jobs are in one of the vendor's states, and how many devices they have.

    Attributes:
        vendor_status: The vendor's own word or number for ``status``.
        gpus: Of all these jobs together.
        npus: Likewise.
    """

    status: JobStatus
    vendor_status: str
    jobs: int
    gpus: int
    npus: int


@attrs.frozen(kw_only=True)
class Evaluation:
    """How good a trained model is by its own evaluation, as the vendor reports it: for one class, or in total.

    Attributes:
        class_id: "" is the total over all classes.
        metrics: The vendor's name of the metric, such as ``recall``, to its value.
    """

    class_id: str = ""
    class_name: str = ""
    metrics: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen
class Window:
    """A stretch of time ``[start, end)``: the start belongs to it, the end does not.

    Args:
        start_ms: Milliseconds since the epoch, or an aware ``datetime``.
        end_ms: Likewise; later than the start.

    Raises:
        ValueError: The end is not later than the start, or a ``datetime`` has no time zone.
    """

    start_ms: int = attrs.field(converter=parse_instant)
    end_ms: int = attrs.field(converter=parse_instant)

    def __attrs_post_init__(self) -> None:
        if self.end_ms <= self.start_ms:
            raise ValueError(f"the window's end ({self.end_ms}) must be later than its start ({self.start_ms})")

    @staticmethod
    def last(duration: str | int | timedelta, /) -> RelativeWindow:
        """Give the window of that length which ends when it is resolved."""
        return RelativeWindow(duration)

    @property
    def start(self) -> datetime:
        """The start, in UTC."""
        return to_datetime(self.start_ms)

    @property
    def end(self) -> datetime:
        """The end, in UTC."""
        return to_datetime(self.end_ms)

    @property
    def duration_ms(self) -> int:
        """The length in milliseconds."""
        return self.end_ms - self.start_ms

    def resolve(self, now_ms: int, /) -> Window:
        """Give itself: it is absolute already."""
        return self

    def __contains__(self, time_ms: int) -> bool:
        return self.start_ms <= time_ms < self.end_ms


@attrs.frozen
class RelativeWindow:
    """The last stretch of time before whenever it is resolved: ``Window.last("1h")``."""

    duration_ms: int = attrs.field(converter=parse_duration)

    def resolve(self, now_ms: int, /) -> Window:
        """Give the absolute window that ends at ``now_ms``."""
        return Window(now_ms - self.duration_ms, now_ms)


def _statuses(given: Iterable[str] | None) -> frozenset[JobStatus] | None:
    return None if given is None else frozenset([JobStatus(word) for word in given])


@attrs.frozen(kw_only=True)
class JobSearch:
    """Which jobs to list; None asks for all.

    Attributes:
        status: Jobs in one of these states.
        name: Jobs whose name contains this.
        created: Jobs created in this window.
        limit: At most so many, the newest first.
    """

    status: frozenset[JobStatus] | None = attrs.field(default=None, converter=_statuses)
    name: str | None = None
    created: Window | None = None
    limit: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))


@attrs.frozen(kw_only=True)
class Query:
    """What is asked of a job, with an absolute window.

    Attributes:
        window: The collector has resolved it; a provider may ask its vendor for more, the rest is clipped away.
        metrics: Names of metrics; None asks for all canonical ones that the provider serves.
        step_ms: The coarsest resolution that is accepted; None asks for the finest.
        per: The level asked for; a provider that has not got it plans no call.
        tasks: Ids of the tasks asked for; None asks for all.
    """

    window: Window
    metrics: tuple[str, ...] | None = None
    step_ms: int | None = None
    per: Level = "task"
    tasks: tuple[str, ...] | None = None

    def selects(self, task: Task, /) -> bool:
        """Tell whether a task is asked for."""
        return self.tasks is None or task.id in self.tasks

    def selected(self, tasks: tuple[Task, ...], /) -> tuple[Task, ...]:
        """Give those of a job's tasks that are asked for."""
        return tasks if self.tasks is None else tuple([task for task in tasks if task.id in self.tasks])


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One piece of work that is retried, limited, failed and reported on its own.

    It answers for ``targets`` × ``metrics`` in ``window``. What a query asks for and no call answers for is
    unsupported.

    Attributes:
        operation: The vendor's name of the API call: what limits and reports go by.
        window: Absolute; this call's share of the query's window.
        step_ms: The resolution that is asked for, where the vendor lets one ask.
        retention_ms: How long the vendor keeps what this call asks for, where that is known: an empty answer for a
            window that ended longer ago is ``outside-retention``, not ``no-data``.
        payload: The provider's own, picklable: what fetching and decoding must know.
    """

    operation: str
    targets: tuple[Target, ...]
    metrics: tuple[str, ...]
    window: Window
    step_ms: int | None = None
    retention_ms: int | None = None
    payload: object = None

    def __repr__(self) -> str:  # a payload is the provider's own business
        shown = ("operation", "targets", "metrics", "window", "step_ms", "retention_ms")
        return f"Call({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"


@attrs.frozen(kw_only=True)
class Failure:
    """What was asked and not answered, and why: all of ``targets`` × ``metrics`` in ``window``.

    Attributes:
        targets: A task id of "" stands for all of a job's tasks where the job itself could not be read.
        metrics: What was asked; empty where all metrics were, and the job could not be read.
        window: None where the job, whose life the window would have been, could not be read.
        attempts: How often it was tried.
        source: Which source; "" from a provider.
    """

    targets: tuple[Target, ...]
    metrics: tuple[str, ...]
    window: Window | None
    error: MetricsBridgeError
    attempts: int = 1
    source: str = ""


@attrs.frozen(kw_only=True)
class Absence:
    """What was asked and answered with nothing, or is not offered: all of ``targets`` × ``metrics``."""

    targets: tuple[Target, ...]
    metrics: tuple[str, ...]
    reason: Reason
    source: str = ""
