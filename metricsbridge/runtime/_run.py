"""One collection under way: jobs to calls to batches, each failure kept to what it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from metricsbridge.errors import ConfigurationError, MetricsBridgeError
from metricsbridge.model import Failure, Job, JobRef
from metricsbridge.runtime._context import CURRENT, CallContext
from metricsbridge.runtime._rates import name_of
from metricsbridge.runtime._source import JobItem, Source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from anyio.abc import TaskGroup

    from metricsbridge.asking import Ask
    from metricsbridge.collection import Order, Outcome
    from metricsbridge.model import Call
    from metricsbridge.observer import Guarded
    from metricsbridge.protocols import Clock, TrainingJobMetrics
    from metricsbridge.runtime._limits import Quota


class Run:
    """One collection under way.

    Args:
        sources: Name to provider.
        jobs: Read lazily; what can't be a job reference becomes a failure.
        ask: What is asked.
        clock: Deadlines and "now" are read from it.
        quota: Takes the place of the providers' own; None leaves those in force.
        concurrency: Items worked on at once, for each source.
        emit: Takes each outcome as it comes about.
        room: Waits until more may be emitted.
        hurry: Tells whether a batch is waited for; otherwise a job's batches are emitted some at once. Where this is
            None, they are emitted all at once, or one by one where they are very many.
        planned: Takes the calls of each plan, of the source that is named: then none of them is made.
        observer: Is told of each call.
    """

    def __init__(
        self,
        sources: Mapping[str, TrainingJobMetrics],
        jobs: Iterable[str | JobRef | Job],
        ask: Ask,
        *,
        clock: Clock,
        quota: Quota | None,
        concurrency: int,
        emit: Callable[[Order, Outcome], None],
        room: Callable[[], Awaitable[None]] | None = None,
        hurry: Callable[[], bool] | None = None,
        planned: Callable[[str, Sequence[Call]], None] | None = None,
        observer: Guarded | None = None,
    ) -> None:
        self.ask = ask
        self.clock = clock
        self.room = room
        self.hurry = hurry
        self.planned = planned
        self.observer = observer
        self.tasks: TaskGroup
        self.deadline: float | None = None
        self.over = False
        self._jobs = enumerate(jobs)
        self._sources = {name: Source(name, provider, self, workers=concurrency) for name, provider in sources.items()}
        self._names = {name: name_of(provider) for name, provider in sources.items()}
        self._quota = quota
        self._emit = emit
        self._scope: anyio.CancelScope
        self._input_error: Exception | None = None
        self._failures: list[Failure] = []

    async def execute(self) -> None:
        """Do all of it, up to the deadline; what the deadline cuts off is emitted as failures.

        Raises:
            ExceptionGroup: ``strict`` was asked for and something failed.
            Exception: What the iterable of jobs itself raised.
        """
        if self.ask.timeout_s is not None:
            self.deadline = self.clock.monotonic() + self.ask.timeout_s
        with self.clock.deadline(self.ask.timeout_s) as self._scope:
            async with anyio.create_task_group() as self.tasks:
                # The first job that has a source starts that source's workers, which read on.
                while self.advance() and not any(source.begun for source in self._sources.values()):
                    pass
        if self._scope.cancelled_caught and not self._failures and self._input_error is None:
            self._report_unfinished()
        if self._input_error is not None:
            raise self._input_error
        if self.ask.strict and self._failures:
            raise ExceptionGroup("the collection is strict", [failure.error for failure in self._failures])

    def advance(self) -> bool:
        """Read one more job and queue it at its source; False when there is none."""
        try:
            place, given = next(self._jobs)
        except StopIteration:
            return False
        except Exception as error:
            self._input_error = error
            self._scope.cancel()
            return False
        try:
            source, item = self._route(place, given)
        except MetricsBridgeError as error:
            self.fail((place, 0), Failure(
                targets=((given.id if isinstance(given, Job) else str(given), ""),), metrics=self.ask.metrics or (),
                window=self.ask.window, error=error,
            ))  # fmt: skip
            return True
        source.add(item)
        return True

    def _route(self, place: int, given: str | JobRef | Job) -> tuple[Source, JobItem]:
        if isinstance(given, Job):
            name = given.source or (next(iter(self._sources)) if len(self._sources) == 1 else "")
            ref, job = JobRef(name, given.id), None if given.partial else given
        elif isinstance(given, (str, JobRef)):
            ref, job = (JobRef.parse(given) if isinstance(given, str) else given), None
        else:
            raise ConfigurationError(f"{given!r} is no job: pass 'source/job-id', a JobRef or a Job")
        source = self._sources.get(ref.source)
        if source is None:
            known = ", ".join(sorted(self._sources)) or "none"
            raise ConfigurationError(f"there is no source {ref.source!r} for job {ref.job_id!r}; sources are: {known}")
        return source, JobItem(place, ref.job_id, job)

    def enter(self, source: str) -> None:
        """Let the calls of a source's worker know of this collection."""
        CURRENT.set(self.context(source))

    def context(self, source: str, *, attempts: int = 0) -> CallContext:
        """Make what is known of a source's call, of which so many attempts have failed."""
        provider = self._names[source]
        return CallContext(self._quota, self.clock, self.deadline, attempts, source=source, provider=provider)

    def emit(self, order: Order, outcome: Outcome) -> None:
        """Give an outcome to whoever collects them."""
        self._emit(order, outcome)

    def fail(self, order: Order, failure: Failure) -> None:
        """Emit a failure; where the collection is strict, it ends everything."""
        self._emit(order, failure)
        if self.ask.strict:
            self._failures.append(failure)
            self._scope.cancel()

    def _report_unfinished(self) -> None:
        self.over = True
        text = f"the collection's deadline of {self.ask.timeout_s} s passed first: allow more time, or ask less"
        while self.advance():
            pass
        for source in self._sources.values():
            source.report_unfinished(text)
