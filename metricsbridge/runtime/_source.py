"""One source's share of a collection: its jobs are described and planned, its calls fetched and accounted for."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import chain, count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel
import attrs

from metricsbridge.accounting import Answer, Ledger, asked_targets, life_window
from metricsbridge.errors import DeadlineExceededError, MetricsBridgeError, NotFoundError, PartialDataError
from metricsbridge.http import NO_HEADERS, Response
from metricsbridge.model import Failure, Job, Query
from metricsbridge.protocols import SupportsBatchDecoding, SupportsBatchPlanning
from metricsbridge.runtime._context import CURRENT, Bound, CallContext
from metricsbridge.runtime._fanout import FanOut
from metricsbridge.runtime._guard import checked_job, let_go, ours
from metricsbridge.runtime._threads import aside
from metricsbridge.runtime._watch import WatchedProvider
from metricsbridge.series.columns import SeriesBatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence

    from metricsbridge.collection import Order
    from metricsbridge.model import Call, Target
    from metricsbridge.protocols import TrainingJobMetrics
    from metricsbridge.runtime._run import Run

T = TypeVar("T")

_MOST_WAITING: Final = 32
"""So many batches of a job are handed over at once, where the consumer is in no hurry."""

_ALONE: Final = 4096
"""So many samples are not copied to be looked at together with those of others."""

_NOTHING: Final = SeriesBatch.empty()

_MOST_READ: Final = 256
"""So many jobs are read on in one go, before others have their turn, where none of them is this source's."""


@attrs.define
class JobItem:
    """A job to describe and plan, and its place in the input."""

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


_Item = JobItem | _CallItem | None
"""None only lets others have their turn."""


class Source:
    """One source's share of a run.

    Args:
        name: What its jobs are named by.
        provider: Describes, plans and fetches.
        run: The collection that it is a part of.
        workers: Items worked on at once, at most.
    """

    def __init__(self, name: str, provider: TrainingJobMetrics, run: Run, *, workers: int) -> None:
        self.name = name
        self.provider = provider
        if run.observer is not None:
            self.provider = WatchedProvider(provider, name, run.observer, run.clock)
        self.run = run
        self._queue: deque[JobItem] = deque()
        self._seen: set[str] = set()
        self._workers = workers
        self._fan: FanOut[_Item] | None = None
        self._ask: Callable[[Call], Awaitable[object]] = self.provider.fetch
        self._decode: Callable[[Sequence[tuple[Call, Response]]], SeriesBatch] | None = None
        if isinstance(self.provider, SupportsBatchDecoding):  # not while an observer is told of each call
            self._ask, self._decode = self.provider.send, self.provider.decode
        self._max_jobs = provider.max_jobs if isinstance(provider, SupportsBatchPlanning) else 1
        self._ready: list[tuple[int, Job]] = []

    @property
    def begun(self) -> bool:
        """Whether it has a job at all."""
        return self._fan is not None

    def add(self, item: JobItem) -> None:
        """Queue a job, unless it is there already; the first one starts the work."""
        if item.job_id in self._seen:
            return
        self._seen.add(item.job_id)
        self._queue.append(item)
        if self._fan is None:
            self._fan = FanOut(
                self._items(), self._handle, last=self._plan_rest, workers=self._workers,
                enter=lambda: self.run.enter(self.name),
            )  # fmt: skip
            if not self.run.over:
                self._fan.start(self.run.tasks)

    def _items(self) -> Iterator[_Item]:
        """Give the source's jobs, reading the input only as far as the next of them."""
        while True:
            for _ in range(_MOST_READ):
                while self._queue:
                    yield self._queue.popleft()
                if not self.run.advance():
                    return
            yield None

    def _handle(self, item: _Item) -> Awaitable[Iterable[_Item]]:
        if item is None:
            return _let_others_go_first()
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

    async def _within(self, limit_s: float, work: Awaitable[T]) -> T:
        """Wait for what a provider does, but not for ever; its waiting in line does not count.

        Raises:
            DeadlineExceededError: It took too long; the failure that it met before is the cause.
        """
        context, clock = CURRENT.get(), self.run.clock
        assert context is not None
        ends = clock.monotonic() + limit_s
        with clock.deadline(limit_s) as scope:
            context.bound = Bound(clock, scope, ends)
            try:
                done = await work
            finally:
                context.bound = None
        if scope.cancelled_caught:
            raise DeadlineExceededError(
                f"a call took more than the {limit_s} s that call_timeout allows: allow more, or ask for less at once"
            ) from context.last_error
        return done

    def _plan_rest(self) -> Iterable[_Item]:
        """Plan the jobs that wait for others to be planned with."""
        ready, self._ready = self._ready, []
        return self._plan(ready) if ready else ()

    async def _describe(self, item: JobItem) -> Iterable[_Item]:
        job = item.job
        if job is None:
            try:
                describing = self.provider.get_job(item.job_id)
                limit_s = self.run.ask.call_timeout_s
                job = checked_job(await (describing if limit_s is None else self._within(limit_s, describing)))
            except (Exception, anyio.get_cancelled_exc_class()) as error:
                self._fail_job(item, ours(error, "get_job"))
                return ()
        job = attrs.evolve(job, source=self.name)
        self.run.emit((item.place, -1), job)
        ask = self.run.ask
        if ask.tasks is not None and job.tasks and ask.per != "job":
            self._report_unknown_tasks(item.place, job, ask.tasks)
        if job.start_time_ms is None:
            return self._plan([(item.place, job)])
        self._ready.append((item.place, job))
        return self._plan_rest() if len(self._ready) >= self._max_jobs else ()

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
        ready = sorted(ready, key=itemgetter(0))
        place, jobs = ready[0][0], [job for _, job in ready]
        query = self._query(jobs)

        def targets() -> Iterable[Target]:
            return chain.from_iterable([asked_targets(job, query) for job in jobs])

        started = jobs[0].start_time_ms is not None
        ledger = Ledger(source=self.name, targets=targets, metrics=query.metrics or (), started=started)
        if len(ready) > 1 and self.run.hurry is None:
            ledger.places = {job.id: place for place, job in ready}
        provider: Any = self.provider
        try:
            ledger.plan(provider.plan_jobs(jobs, query) if self._max_jobs > 1 else provider.plan(jobs[0], query))
            if self.run.planned is not None and started:
                self.run.planned(self.name, ledger.calls)
                ledger.expect_all()
        except Exception as error:
            self._fail(
                (place, 0), targets=tuple(dict.fromkeys(targets())), metrics=query.metrics or (), window=query.window,
                error=ours(error, "plan"),
            )  # fmt: skip
            return ()
        if not ledger.calls or not started or self.run.planned is not None:
            self._settle((place, 0), ledger)
            return ()
        return map(_CallItem, repeat(place), count(), ledger.calls, repeat(ledger))

    async def _fetch(self, item: _CallItem) -> Iterable[_Item]:
        call, ledger, order = item.call, item.ledger, (item.place, item.number)
        lost: Sequence[Failure] = ()
        try:
            try:
                asking, limit_s = self._ask(call), self.run.ask.call_timeout_s
                found = await (asking if limit_s is None else self._within(limit_s, asking))
                if self._decode is not None and isinstance(found, Response):
                    if found.in_thread is None:
                        assert item.context is not None  # it was begun
                        found = Response(found.status, NO_HEADERS, found.body, found.received_ms)
                        ledger.put_by(item.number, found, item.context.attempts)
                        found = _NOTHING  # yet
                    else:
                        found = await found.in_thread(partial(self._decode, [(call, found)]))
            except PartialDataError as error:
                found, lost = error.series, error.lost
            if not isinstance(found, SeriesBatch):
                raise TypeError(f"fetch gave {type(found).__name__}, no SeriesBatch")
            # What is put by belongs in between: where answers are, nothing else is joined.
            if len(found.values) >= _ALONE or (found.keys and self._decode is not None):
                kept = await aside(partial(_observed, found, call), len(found.values))
                self._emit_alone(order, ledger, kept)
            elif found.keys:
                ledger.deliver(item.number, found)
            self._lose(order, ledger, lost)
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            found = _NOTHING  # the frames of a failure's traceback know this one, and all that is in it
            self._fail_call(item, ours(error, call.operation))
        ledger.open_calls -= 1
        if not ledger.open_calls:
            self._settle(order, ledger)
        elif ledger.is_full if self.run.hurry is None else ledger.waiting >= _MOST_WAITING or self.run.hurry():
            self._hand_over(order, ledger)
        return ()

    def _decode_together(self, place: int, ledger: Ledger, answers: list[Answer]) -> None:
        """Decode answers at once; where that fails, each by itself, so that one of them fails alone.

        None is left in the list then: the frames of a failure's traceback know their callers, with all that is in them.
        """
        first, failed = answers[0][0], answers[0][2]
        call = ledger.calls[first]
        lost: Sequence[Failure] = ()
        assert self._decode is not None  # else there are none
        try:
            try:
                batch = self._decode([(ledger.calls[number], response) for number, response, _ in answers])
            except PartialDataError as error:
                if len(answers) > 1:
                    raise
                batch, lost = error.series, error.lost
            if not isinstance(batch, SeriesBatch):
                raise TypeError(f"decode gave {type(batch).__name__}, no SeriesBatch")
            self._emit_alone((place, first), ledger, _observed(batch, call))
            self._lose((place, first), ledger, lost)
            return
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            if len(answers) == 1:
                answers.clear()
                context = self.run.context(self.name, attempts=failed)
                self._fail_call(_CallItem(place, first, call, ledger), ours(error, call.operation, context))
                return
        while answers:
            self._decode_together(place, ledger, [answers.pop(0)])

    def _lose(self, order: Order, ledger: Ledger, lost: Iterable[Failure]) -> None:
        for each in lost:
            failure = attrs.evolve(each, source=self.name)
            let_go(failure.error)
            ledger.fail(failure)
            self.run.fail(order, failure)

    def _emit_alone(self, order: Order, ledger: Ledger, batch: SeriesBatch) -> None:
        """Emit series that all have a value, and are not joined with those of other calls."""
        if batch.keys:
            self._emit(order, ledger, ledger.take_alone(order[1], batch))

    def _hand_over(self, order: Order, ledger: Ledger) -> None:
        waiting = ledger.take_answers()
        while waiting:
            self._decode_together(order[0], ledger, waiting.pop(0))
        numbers = ledger.numbers
        try:
            batches = ledger.take()
        except Exception as error:  # columns that do not fit each other
            for number in numbers:
                self._fail_call(_CallItem(order[0], number, ledger.calls[number], ledger), ours(error, "fetch"))
            return
        for number, batch in batches:
            if batch.keys:
                self._emit((order[0], number), ledger, batch)

    def _emit(self, order: Order, ledger: Ledger, batch: SeriesBatch) -> None:
        """Emit series; of jobs that were planned together, each one's at its own place."""
        batch, places = batch.with_source(self.name), ledger.places
        if not places:
            self.run.emit(order, batch)
            return
        found: dict[int, list[int]] = {}
        for index, key in enumerate(batch.keys):
            found.setdefault(places.get(key.job, order[0]), []).append(index)
        for place, indices in found.items():
            self.run.emit((place, order[1]), batch.select(indices))

    def _settle(self, order: Order, ledger: Ledger) -> None:
        self._hand_over(order, ledger)
        try:
            absences = tuple(ledger.absences(self.run.clock.now_ms()))
        except Exception as error:  # a call whose targets are no pairs
            targets = tuple(dict.fromkeys(ledger.targets()))
            self._fail(order, targets=targets, metrics=ledger.metrics, error=ours(error, "plan"))
            return
        for absence in absences:
            self.run.emit(order, absence)

    def _fail(self, order: Order, **fields: Any) -> Failure:
        fields.setdefault("window", self.run.ask.window)
        attempts = getattr(fields["error"], "attempts", 1)
        failure = Failure(**{"attempts": attempts, **fields}, source=self.name)
        self.run.fail(order, failure)
        return failure

    def _fail_job(self, item: JobItem, error: MetricsBridgeError) -> None:
        # Its tasks are not known unless they were asked for by name.
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
        for item in self._fan.unfinished() if self._fan is not None else ():
            if item is None:
                continue
            error = DeadlineExceededError(text)
            error.attempts = 0
            if item.context is not None:
                error.attempts = max(1, item.context.attempts)
                error.__cause__ = item.context.last_error
            if isinstance(item, JobItem):
                self._fail_job(item, error)
            else:
                self._fail_call(item, error)
                ledgers[id(item.ledger)] = ((item.place, item.number), item.ledger)
        for order, ledger in ledgers.values():
            self._settle(order, ledger)


def _observed(batch: SeriesBatch, call: Call) -> SeriesBatch:
    """Give the series that have a value in the call's window."""
    return batch.clip(call.window).only_observed()


async def _let_others_go_first() -> Iterable[_Item]:
    await anyio.lowlevel.checkpoint()
    return ()
