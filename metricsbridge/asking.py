"""What a collection asks of every job, read from what programs write and checked. Pure."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

import attrs

from metricsbridge.durations import parse_duration
from metricsbridge.metrics import METRICS, is_metric_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from metricsbridge.model import Level, RelativeWindow, Window

    Bound = float | str | timedelta


@attrs.frozen(kw_only=True)
class Ask:
    """What a collection asks of every job.

    Attributes:
        window: None is each job's life.
        timeout_s: Bounds all of it; None for no bound.
        call_timeout_s: Bounds the description of a job, and each call; None for no bound.
    """

    metrics: tuple[str, ...] | None
    window: Window | None
    step_ms: int | None
    per: Level
    tasks: tuple[str, ...] | None
    timeout_s: float | None
    call_timeout_s: float | None
    strict: bool

    @classmethod
    def check(
        cls,
        now_ms: int,
        /,
        *,
        metrics: Iterable[str] | None,
        window: Window | RelativeWindow | None,
        step: str | int | timedelta | None,
        per: Level,
        tasks: Iterable[str] | None,
        timeout: Bound | None,
        call_timeout: Bound | None,
        strict: bool,
    ) -> Self:
        """Read the arguments of ``Collector.collect``.

        Raises:
            ValueError: A metric, step, level or bound that does not exist.
        """
        if per not in ("task", "device", "job"):
            raise ValueError(f"per={per!r} does not exist: write 'task', 'device' or 'job'")
        return cls(
            metrics=_metric_names(metrics),
            window=None if window is None else window.resolve(now_ms),
            step_ms=None if step is None else parse_duration(step),
            per=per,
            tasks=None if tasks is None else tuple(dict.fromkeys([tasks] if isinstance(tasks, str) else tasks)),
            timeout_s=_seconds(timeout),
            call_timeout_s=_seconds(call_timeout),
            strict=strict,
        )


def _seconds(bound: Bound | None) -> float | None:
    return bound if bound is None or isinstance(bound, (int, float)) else parse_duration(bound) / 1000


def _metric_names(metrics: Iterable[str] | None) -> tuple[str, ...] | None:
    if metrics is None:
        return None
    names = tuple(dict.fromkeys([metrics] if isinstance(metrics, str) else metrics))
    for name in names:
        if not is_metric_name(name):
            endings = {known.split(".", cut)[cut]: known for known in METRICS for cut in (1, 0)}
            close = get_close_matches(name, endings, n=1)
            hint = f"did you mean {endings[close[0]]!r}?" if close else f"there are {', '.join(METRICS)}"
            raise ValueError(f"there is no metric {name!r}: {hint}")
    return names
