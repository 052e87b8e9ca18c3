"""Collect the metrics of many jobs from many sources: the part of the library that most programs use."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
import attrs

from metricsbridge.accounting import count_jobs
from metricsbridge.asking import Ask
from metricsbridge.collection import Collection, Gathering
from metricsbridge.config import load_config
from metricsbridge.errors import ConfigurationError
from metricsbridge.model import Job, JobRef, JobSearch, check_source
from metricsbridge.observer import guarded
from metricsbridge.planning import Tally
from metricsbridge.protocols import SupportsEvaluations, SupportsJobSearch, SupportsJobTotals, TrainingJobMetrics
from metricsbridge.registry import open_provider

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from datetime import timedelta
    from types import TracebackType

    from metricsbridge.asking import Bound
    from metricsbridge.collection import Outcome
    from metricsbridge.model import Evaluation, JobTotals, Level, RelativeWindow, Window
    from metricsbridge.observer import Observer
    from metricsbridge.planning import Plan
    from metricsbridge.protocols import Clock
    from metricsbridge.runtime._limits import Quota
    from metricsbridge.runtime._run import Run

    Provider = TrainingJobMetrics | AbstractAsyncContextManager[TrainingJobMetrics]
    Jobs = Iterable[str | JobRef | Job] | str | JobRef | Job


class Collector:
    """Collects from several sources at once; use it as ``async with Collector(...) as collector``.

    Args:
        sources: Name to provider, as ``open_provider`` gives it; or what ``open_provider`` returns, not yet entered:
            then the collector opens and closes it.
        quota: Rate limits to share with other collectors; by default each provider keeps its own.
        concurrency: How many calls are under way at once, for each source.
        clock: By default the system's.
        observer: Is told of each call, and of each request of the providers that the collector opens, unless they were
            given an observer of their own.
    """

    def __init__(
        self,
        sources: Mapping[str, Provider] | None = None,
        *,
        quota: Quota | None = None,
        concurrency: int = 64,
        clock: Clock | None = None,
        observer: Observer | None = None,
    ) -> None:
        from metricsbridge.runtime._clock import SystemClock

        self._waiting: dict[str, AbstractAsyncContextManager[TrainingJobMetrics]] = {}
        self._sources: dict[str, TrainingJobMetrics] = {}
        self._owned: dict[str, AsyncExitStack] = {}
        self._quota = quota
        self._concurrency = concurrency
        self._clock: Clock = clock or SystemClock()
        self._observer = None if observer is None else guarded(observer)
        for name, provider in (sources or {}).items():
            check_source(name)
            if isinstance(provider, TrainingJobMetrics):
                self._sources[name] = provider
            else:
                self._waiting[name] = provider

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        sources: Iterable[str] | None = None,
        quota: Quota | None = None,
        concurrency: int = 64,
        clock: Clock | None = None,
        observer: Observer | None = None,
    ) -> Self:
        """Make a collector over configured sources, opened when it is entered; see ``metricsbridge.config``.

        Args:
            path: The TOML file; by default where ``load_config`` looks.
            sources: Only these of them. A name that is not configured and is that of an installed provider stands for
                that provider with what the environment gives it.
            quota: As for the class.
            concurrency: As for the class.
            clock: As for the class.
            observer: As for the class.

        Raises:
            ConfigurationError: The file is missing or malformed, or names no such source.
        """
        from metricsbridge.registry import providers

        configured = load_config(path)
        opened: dict[str, Provider] = {}
        for name in configured if sources is None else dict.fromkeys(sources):
            source = configured.get(name)
            if source is not None:
                opened[name] = open_provider(source.provider, clock=clock, **source.settings)
            elif name in providers():
                opened[name] = open_provider(name, clock=clock)
            else:
                known = ", ".join(sorted(configured)) or "none"
                raise ConfigurationError(
                    f"source {name!r} is not configured (there are: {known}): add a table [sources.{name}] for it"
                )
        return cls(opened, quota=quota, concurrency=concurrency, clock=clock, observer=observer)

    async def __aenter__(self) -> Self:
        try:
            for name in list(self._waiting):
                await self.add(name, self._waiting.pop(name))
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as stack:  # closes all of them, though one may fail
            for name in self._owned:
                stack.push_async_callback(self.drop, name)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(self._sources)

    async def add(self, name: str, provider: Provider, /) -> None:
        """Add a source; collections that are under way do not see it.

        Raises:
            ConfigurationError: There is a source of that name already.
        """
        check_source(name)
        if name in self._sources:
            raise ConfigurationError(f"there is a source {name!r} already: drop it first")
        if isinstance(provider, TrainingJobMetrics):
            self._sources[name] = provider
            return
        from metricsbridge.runtime._context import OPENING, Opening

        stack = AsyncExitStack()
        token = OPENING.set(Opening(name, self._observer))
        try:
            opened = await stack.enter_async_context(provider)
        finally:
            OPENING.reset(token)
        if name in self._sources:  # added while this one was being opened
            await stack.aclose()
            raise ConfigurationError(f"there is a source {name!r} already: drop it first")
        self._sources[name], self._owned[name] = opened, stack

    async def drop(self, name: str, /) -> None:
        """Drop a source, and close it if the collector opened it; calls of it under way then fail.

        Raises:
            ConfigurationError: There is no such source.
        """
        self._provider(name)
        del self._sources[name]
        stack = self._owned.pop(name, None)
        if stack is not None:
            await stack.aclose()

    def _provider(self, name: str) -> TrainingJobMetrics:
        provider = self._sources.get(name)
        if provider is None:
            known = ", ".join(sorted(self._sources)) or "none"
            raise ConfigurationError(f"there is no source {name!r}; sources are: {known}")
        return provider

    async def list_jobs(self, source: str, search: JobSearch | None = None, /) -> AsyncIterator[Job]:
        """Give the jobs of a source, the newest first.

        Raises:
            ConfigurationError: There is no such source, or its provider can't list jobs.
        """
        provider = self._provider(source)
        if not isinstance(provider, SupportsJobSearch):
            raise ConfigurationError(f"the provider of source {source!r} can't list jobs: name the jobs you want")
        async for job in provider.list_jobs(search or JobSearch()):
            yield attrs.evolve(job, source=source)

    async def job_totals(self, source: str, search: JobSearch | None = None, /) -> tuple[JobTotals, ...]:
        """Count the jobs of a source and their devices, one entry for each of the vendor's states that occurs.

        Raises:
            ConfigurationError: There is no such source, or its provider can neither count nor list jobs.
        """
        provider = self._provider(source)
        if isinstance(provider, SupportsJobTotals):
            return tuple(await provider.job_totals(search or JobSearch()))
        found = [job async for job in self.list_jobs(source, search)]
        if any(job.partial for job in found):
            raise ConfigurationError(f"source {source!r} does not say how many devices its jobs have: list its jobs")
        return count_jobs(found)

    async def evaluations(self, job: str | JobRef, /) -> tuple[Evaluation, ...]:
        """Give how good the model that a job trained is, as its source reports it: for each class, and in total.

        Raises:
            ConfigurationError: There is no such source, or its provider has no evaluations.
            ProviderError: ``NotFoundError`` where there is no such job.
        """
        ref = JobRef.parse(job) if isinstance(job, str) else job
        provider = self._provider(ref.source)
        if not isinstance(provider, SupportsEvaluations):
            raise ConfigurationError(f"the provider of source {ref.source!r} has no evaluations of models")
        return tuple(await provider.evaluations(ref.job_id))

    async def collect(
        self,
        jobs: Jobs,
        *,
        metrics: Iterable[str] | None = None,
        window: Window | RelativeWindow | None = None,
        step: str | int | timedelta | None = None,
        per: Level = "task",
        tasks: Iterable[str] | None = None,
        timeout: Bound | None = None,
        call_timeout: Bound | None = None,
        strict: bool = False,
        progress: Callable[[Outcome], None] | None = None,
    ) -> Collection:
        """Collect the metrics of jobs, all at once.

        Args:
            jobs: References such as ``"source/job-id"``, or jobs, which are not fetched again unless they are partial;
                one named twice counts once.
            metrics: Names of canonical metrics, or ``vendor.<provider>.<name>``; None is all canonical ones that the
                provider serves.
            window: None is each job's life.
            step: The coarsest resolution that is accepted; None is the finest.
            per: ``task``, ``device`` or ``job``.
            tasks: Ids of the tasks that are wanted; None is all.
            timeout: Bounds the whole call, in seconds or as ``"30s"``: what has arrived is returned, what has not is a
                failure.
            call_timeout: Bounds each call in the same way, its pages, retries and waits together, and each job's
                description; not the waiting in line, for its turn under a rate limit or for a free connection, which
                is up to the calls before it. Without it a source's own ``timeout`` bounds each request.
            strict: Raise at the first failure instead.
            progress: Is told of each part of the answer as it comes, in no particular order: a job's description, a
                batch of series, an absence, a failure. It is called on the event loop: it must not take long, or raise.

        Returns:
            The series in the order of the jobs, with an account of everything that was asked for.

        Raises:
            ValueError: A metric, step or level that does not exist.
            ExceptionGroup: ``strict`` was asked for and something failed.
        """
        from metricsbridge.runtime._threads import finished

        ask = self._ask(metrics, window, step, per, tasks, timeout, call_timeout, strict)
        gathering = Gathering(progress)
        hurry = None if progress is None else lambda: True
        await self._run(jobs, ask, emit=gathering.add, hurry=hurry).execute()
        return await finished(gathering, ask.window, self._clock)

    @asynccontextmanager
    async def stream(
        self,
        jobs: Jobs,
        *,
        metrics: Iterable[str] | None = None,
        window: Window | RelativeWindow | None = None,
        step: str | int | timedelta | None = None,
        per: Level = "task",
        tasks: Iterable[str] | None = None,
        timeout: Bound | None = None,
        call_timeout: Bound | None = None,
        strict: bool = False,
    ) -> AsyncIterator[AsyncIterator[Collection]]:
        """Collect as ``collect`` does, and give the answer in parts as they come, in no particular order.

        A slow consumer holds the work back, so memory stays bounded. Leaving the block ends the work.
        """
        from metricsbridge.runtime._parts import Parts

        ask = self._ask(metrics, window, step, per, tasks, timeout, call_timeout, strict)
        parts = Parts(ask.window, self._clock)
        run = self._run(jobs, ask, emit=parts.put, room=parts.room, hurry=parts.hurry)
        raised: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(parts.fill, run)
            try:
                yield parts
            except Exception as error:
                raised = error  # raised again outside of the group, which would wrap it
            group.cancel_scope.cancel()
        if raised is not None:
            raise raised

    async def plan(
        self,
        jobs: Jobs,
        *,
        metrics: Iterable[str] | None = None,
        window: Window | RelativeWindow | None = None,
        step: str | int | timedelta | None = None,
        per: Level = "task",
        tasks: Iterable[str] | None = None,
        timeout: Bound | None = None,
        call_timeout: Bound | None = None,
        strict: bool = False,
    ) -> Plan:
        """Say how many calls ``collect`` would make with these arguments, to whom, and how long the limits make them.

        Nothing is sent but what describing the jobs takes that are named and not given.

        Raises:
            ValueError: A metric, step or level that does not exist.
            ExceptionGroup: ``strict`` was asked for and a job could not be described or planned.
        """
        from metricsbridge.runtime._rates import limit_of

        ask = self._ask(metrics, window, step, per, tasks, timeout, call_timeout, strict)
        tally, sources = Tally(), dict(self._sources)
        await self._run(jobs, ask, emit=tally.add, planned=tally.count).execute()
        return tally.plan(lambda source, operation: limit_of(sources[source], operation, self._quota))

    def _run(self, jobs: Jobs, ask: Ask, **given: Any) -> Run:
        from metricsbridge.runtime._run import Run

        each = [jobs] if isinstance(jobs, (str, JobRef, Job)) else jobs
        return Run(
            dict(self._sources), each, ask, clock=self._clock, quota=self._quota, concurrency=self._concurrency,
            observer=self._observer, **given,
        )  # fmt: skip

    def _ask(
        self,
        metrics: Iterable[str] | None,
        window: Window | RelativeWindow | None,
        step: str | int | timedelta | None,
        per: Level,
        tasks: Iterable[str] | None,
        timeout: Bound | None,
        call_timeout: Bound | None,
        strict: bool,
    ) -> Ask:
        return Ask.check(
            self._clock.now_ms(), metrics=metrics, window=window, step=step, per=per, tasks=tasks, timeout=timeout,
            call_timeout=call_timeout, strict=strict,
        )  # fmt: skip
