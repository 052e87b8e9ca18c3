"""One collection under way: jobs to calls to batches, each failure kept to what it touches."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import attrs

from metricsbridge.accounting import Ledger, asked_targets, life_window
from metricsbridge.errors import (
    ConfigurationError,
    DeadlineExceededError,
    MetricsBridgeError,
    NotFoundError,
    PartialDataError,
)
from metricsbridge.model import Absence, Failure, Job, JobRef, Query, Window
from metricsbridge.protocols import SupportsBatchPlanning
from metricsbridge.runtime._context import CURRENT, CallContext
from metricsbridge.runtime._fanout import FanOut
from metricsbridge.runtime._guard import checked_job, ours
from metricsbridge.runtime._watch import WatchedProvider
from metricsbridge.series.columns import SeriesBatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from anyio.abc import TaskGroup

    from metricsbridge.model import Call, Level
    from metricsbridge.observer import Guarded
    from metricsbridge.protocols import Clock, TrainingJobMetrics
    from metricsbridge.runtime._limits import Quota

_MOST_WAITING = 32
"""So many batches of a job are handed over at once, where the consumer is in no hurry."""

Outcome = SeriesBatch | Failure | Absence | Job
Order = tuple[int, int]
"""(place of the job in the input, place of the call in its plan)."""


@attrs.frozen(kw_only=True)
class Ask:
    """What a collection asks of every job; ``window`` None is each job's life."""

    metrics: tuple[str, ...] | None
    window: Window | None
    step_ms: int | None
    per: Level
    tasks: tuple[str, ...] | None
    timeout_s: float | None
    strict: bool


@attrs.define
class _JobItem:
    place: int
    job_id: str
    job: Job | None
    context: CallContext | None = None


@attrs.define
class _CallItem:
    place: int
    number: int
    call: Call
    ledger: Ledger
    context: CallContext | None = None


_Item = _JobItem | _CallItem


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
        hurry: Tells whether a batch is waited for; otherwise a job's batches are emitted some at once, or all at once
            where this is None.
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
        observer: Guarded | None = None,
    ) -> None:
        self._jobs = enumerate(jobs)
        self.observer = observer
        self.clock = clock
        self._sources = {name: _Source(name, provider, self) for name, provider in sources.items()}
        self._seen: set[tuple[str, str]] = set()
        self.ask = ask
        self.room = room
        self.hurry = hurry
        self._quota = quota
        self._concurrency = concurrency
        self._emit = emit
        self._deadline: float | None = None
        self._tasks: TaskGroup
        self._scope: anyio.CancelScope
        self._input_error: Exception | None = None
        self._failures: list[Failure] = []
        self._over = False

    async def execute(self) -> None:
        """Do all of it, up to the deadline; what the deadline cuts off is emitted as failures.

        Raises:
            ExceptionGroup: ``strict`` was asked for and something failed.
            Exception: What the iterable of jobs itself raised.
        """
        if self.ask.timeout_s is not None:
            self._deadline = self.clock.monotonic() + self.ask.timeout_s
        with self.clock.deadline(self.ask.timeout_s) as self._scope:
            async with anyio.create_task_group() as self._tasks:
                # The first job that has a source starts that source's workers, which read on.
                while self.advance() and not any(source.fan for source in self._sources.values()):
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
        key = (source.name, item.job_id)
        if key not in self._seen:
            self._seen.add(key)
            source.queue.append(item)
            if source.fan is None:
                source.fan = FanOut(
                    source.items(), source.handle, last=source.last, workers=self._concurrency,
                    enter=lambda: self._enter(source.name),
                )  # fmt: skip
                if not self._over:
                    source.fan.start(self._tasks)
        return True

    def _route(self, place: int, given: str | JobRef | Job) -> tuple[_Source, _JobItem]:
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
        return source, _JobItem(place, ref.job_id, job)

    def _enter(self, source: str) -> None:
        CURRENT.set(CallContext(self._quota, self.clock, self._deadline, source=source))

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
        self._over = True
        text = f"the collection's deadline of {self.ask.timeout_s} s passed first: allow more time, or ask less"
        while self.advance():
            pass
        for source in self._sources.values():
            source.report_unfinished(text)


class _Source:
    """One source's share of a run."""

    def __init__(self, name: str, provider: TrainingJobMetrics, run: Run) -> None:
        self.name = name
        self.provider = provider
        if run.observer is not None:
            self.provider = WatchedProvider(provider, name, run.observer, run.clock)
        self.run = run
        self.queue: deque[_JobItem] = deque()
        self.fan: FanOut[_Item] | None = None
        self._max_jobs = provider.max_jobs if isinstance(provider, SupportsBatchPlanning) else 1
        self._ready: list[tuple[int, Job]] = []

    def items(self) -> Iterator[_Item]:
        """Give the source's jobs, reading the input only as far as the next of them."""
        while True:
            while self.queue:
                yield self.queue.popleft()
            if not self.run.advance():
                return

    def handle(self, item: _Item) -> Awaitable[Iterable[_Item]]:
        """Do one item."""
        context = CURRENT.get()
        assert context is not None  # every worker enters with one
        context.begin()
        item.context = context
        work = self._fetch(item) if isinstance(item, _CallItem) else self._describe(item)
        return work if self.run.room is None else self._when_there_is_room(self.run.room, work)

    async def _when_there_is_room(
        self, room: Callable[[], Awaitable[None]], work: Coroutine[Any, Any, Iterable[_Item]]
    ) -> Iterable[_Item]:
        try:
            await room()
        except BaseException:
            work.close()
            raise
        return await work

    def last(self) -> Iterable[_Item]:
        """Plan the jobs that wait for others to be planned with."""
        ready, self._ready = self._ready, []
        return self._plan(ready) if ready else ()

    async def _describe(self, item: _JobItem) -> Iterable[_Item]:
        job = item.job
        if job is None:
            try:
                job = checked_job(await self.provider.get_job(item.job_id))
            except (Exception, anyio.get_cancelled_exc_class()) as error:
                self.fail_job(item, ours(error, "get_job"))
                return ()
        job = attrs.evolve(job, source=self.name)
        self.run.emit((item.place, -1), job)
        ask = self.run.ask
        if ask.tasks is not None and job.tasks and ask.per != "job":
            self._report_unknown_tasks(item.place, job, ask.tasks)
        if job.start_time_ms is None:
            return self._plan([(item.place, job)])
        self._ready.append((item.place, job))
        return self.last() if len(self._ready) >= self._max_jobs else ()

    def _report_unknown_tasks(self, place: int, job: Job, tasks: Sequence[str]) -> None:
        known = {task.id for task in job.tasks}
        missing = tuple([(job.id, task) for task in tasks if task not in known])
        if missing:
            names = ", ".join(repr(task) for _, task in missing)
            error = NotFoundError(f"job {job.id!r} has no task {names}; it has {', '.join(sorted(known)[:20])}")
            self._fail((place, 0), targets=missing, metrics=self.run.ask.metrics or (), error=error)

    def _query(self, jobs: Sequence[Job]) -> Query:
        ask = self.run.ask
        window = ask.window or life_window(jobs, self.run.clock.now_ms())
        return Query(window=window, metrics=ask.metrics, step_ms=ask.step_ms, per=ask.per, tasks=ask.tasks)

    def _plan(self, ready: Sequence[tuple[int, Job]]) -> Iterable[_Item]:
        place, jobs = ready[0][0], [job for _, job in ready]
        query = self._query(jobs)
        asked = {target: query.metrics or () for job in jobs for target in asked_targets(job, query)}
        ledger = Ledger(source=self.name, asked=asked, started=jobs[0].start_time_ms is not None)
        provider: Any = self.provider
        try:
            ledger.plan(provider.plan_jobs(jobs, query) if self._max_jobs > 1 else provider.plan(jobs[0], query))
        except Exception as error:
            self._fail(
                (place, 0), targets=tuple(asked), metrics=query.metrics or (), window=query.window,
                error=ours(error, "plan"),
            )  # fmt: skip
            return ()
        if not ledger.calls or not ledger.started:
            self._settle((place, 0), ledger)
            return ()
        return (_CallItem(place, number, call, ledger) for number, call in enumerate(ledger.calls))

    async def _fetch(self, item: _CallItem) -> Iterable[_Item]:
        call, ledger, order = item.call, item.ledger, (item.place, item.number)
        try:
            try:
                batch = await self.provider.fetch(call)
            except PartialDataError as partial:
                batch = partial.series
                for lost in partial.lost:
                    failure = attrs.evolve(lost, source=self.name)
                    ledger.fail(failure)
                    self.run.fail(order, failure)
            if not isinstance(batch, SeriesBatch):
                raise TypeError(f"fetch gave {type(batch).__name__}, no SeriesBatch")
            if batch.keys:
                ledger.deliver(item.number, batch)
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            self._fail_call(item, ours(error, call.operation))
        ledger.open_calls -= 1
        if not ledger.open_calls:
            self._settle(order, ledger)
        elif self.run.hurry is not None and (len(ledger.waiting) >= _MOST_WAITING or self.run.hurry()):
            self._hand_over(order, ledger)
        return ()

    def _hand_over(self, order: Order, ledger: Ledger) -> None:
        numbers = ledger.waiting
        try:
            batch = ledger.take()
        except Exception as error:  # columns that do not fit each other
            for number in numbers:
                self._fail_call(_CallItem(order[0], number, ledger.calls[number], ledger), ours(error, "fetch"))
            return
        if len(batch):
            self.run.emit(order, batch.with_source(self.name))

    def _settle(self, order: Order, ledger: Ledger) -> None:
        self._hand_over(order, ledger)
        try:
            absences = tuple(ledger.absences(self.run.clock.now_ms()))
        except Exception as error:  # a call whose targets are no pairs
            targets, metrics = tuple(ledger.asked), self.run.ask.metrics or ()
            self._fail(order, targets=targets, metrics=metrics, error=ours(error, "plan"))
            return
        for absence in absences:
            self.run.emit(order, absence)

    def _fail(self, order: Order, **fields: Any) -> Failure:
        fields.setdefault("window", self.run.ask.window)
        attempts = getattr(fields["error"], "attempts", 1)
        failure = Failure(**{"attempts": attempts, **fields}, source=self.name)
        self.run.fail(order, failure)
        return failure

    def fail_job(self, item: _JobItem, error: MetricsBridgeError) -> None:
        """Report a job that could not be read: its tasks are not known unless they were asked for by name."""
        tasks = self.run.ask.tasks if self.run.ask.per != "job" else None
        targets = tuple([(item.job_id, task) for task in tasks or ("",)])
        self._fail((item.place, 0), targets=targets, metrics=self.run.ask.metrics or (), error=error)

    def _fail_call(self, item: _CallItem, error: MetricsBridgeError) -> None:
        call = item.call
        order = (item.place, item.number)
        item.ledger.fail(self._fail(order, targets=call.targets, metrics=call.metrics, window=call.window, error=error))

    def report_unfinished(self, text: str) -> None:
        """Report what was begun or queued and not done."""
        ledgers: dict[int, tuple[Order, Ledger]] = {}
        for item in self.fan.unfinished() if self.fan is not None else ():
            error = DeadlineExceededError(text)
            error.attempts = 0
            if item.context is not None:
                error.attempts = max(1, item.context.attempts)
                error.__cause__ = item.context.last_error
            if isinstance(item, _JobItem):
                self.fail_job(item, error)
            else:
                self._fail_call(item, error)
                ledgers[id(item.ledger)] = ((item.place, item.number), item.ledger)
        for order, ledger in ledgers.values():
            self._settle(order, ledger)
