"""Collect from scripts and notebooks: for people who have no event loop, or whose loop is busy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from metricsbridge.collector import Collector
from metricsbridge.errors import ConfigurationError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from metricsbridge.asking import Bound
    from metricsbridge.collection import Collection, Outcome
    from metricsbridge.collector import Jobs, Provider
    from metricsbridge.model import Level, RelativeWindow, Window
    from metricsbridge.observer import Observer
    from metricsbridge.runtime._limits import Quota


def collect_blocking(
    jobs: Jobs,
    *,
    config: str | os.PathLike[str] | None = None,
    sources: Mapping[str, Provider] | Iterable[str] | None = None,
    quota: Quota | None = None,
    concurrency: int = 64,
    observer: Observer | None = None,
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
    """Open sources, collect from them, close them, and return what was collected.

    It runs an event loop of its own, in a thread of its own where one runs in this thread already, as in a notebook:
    ``jobs`` is then read, and ``observer`` and ``progress`` told, in that thread. Ctrl-C ends the work and leaves no
    thread behind.

    Args:
        jobs: As in ``Collector.collect``, and so are all arguments from ``metrics`` on.
        config: The file that configures the sources; by default where ``load_config`` looks.
        sources: Name to what ``open_provider`` returns, not yet entered, instead of a configuration; or the names of
            those configured sources that are to be opened, by default all.
        quota: As for ``Collector``.
        concurrency: As for ``Collector``.
        observer: As for ``Collector``.
        metrics: Which metrics.
        window: Which window.
        step: Which resolution.
        per: Which level.
        tasks: Which tasks.
        timeout: Bounds the collecting; not the opening of the sources, each request of which has a timeout of its own.
        call_timeout: Bounds each call, its waiting in line aside.
        strict: Raise at the first failure instead.
        progress: Is told of each part of the answer as it comes.

    Raises:
        ConfigurationError: The sources are misconfigured, or given twice.
        ValueError: A metric, step or level that does not exist.
        ExceptionGroup: ``strict`` was asked for and something failed.
    """
    from metricsbridge.runtime._blocking import run_blocking

    if config is not None and isinstance(sources, Mapping):
        raise ConfigurationError("pass either config or a mapping of sources, not both: a configuration names its own")

    async def work() -> Collection:
        async with _collector(config, sources, quota, concurrency, observer) as collector:
            return await collector.collect(
                jobs, metrics=metrics, window=window, step=step, per=per, tasks=tasks, timeout=timeout,
                call_timeout=call_timeout, strict=strict, progress=progress,
            )  # fmt: skip

    return run_blocking(work)


def _collector(
    config: str | os.PathLike[str] | None,
    sources: Mapping[str, Provider] | Iterable[str] | None,
    quota: Quota | None,
    concurrency: int,
    observer: Observer | None,
) -> Collector:
    if isinstance(sources, Mapping):
        return Collector(sources, quota=quota, concurrency=concurrency, observer=observer)
    names = [sources] if isinstance(sources, str) else sources
    return Collector.from_config(config, sources=names, quota=quota, concurrency=concurrency, observer=observer)
