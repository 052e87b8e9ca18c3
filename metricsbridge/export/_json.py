"""A collection as one JSON document: the series, and the account of everything that was asked for."""

from __future__ import annotations

import json
import math
from typing import IO, TYPE_CHECKING, Any

from metricsbridge.collection import Collection
from metricsbridge.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metricsbridge.errors import MetricsBridgeError
    from metricsbridge.model import Absence, Failure, Job, Target, Window
    from metricsbridge.planning import Plan
    from metricsbridge.series.columns import SeriesBatch


def json_document(collected: Collection | SeriesBatch, /) -> dict[str, Any]:
    """Give the document: plain values that any JSON writer takes.

    Times are integers, ms since the epoch, UTC. A missing value is null; an infinite one is the string ``"Infinity"``
    or ``"-Infinity"``, as JSON has no number for it.
    """
    if not isinstance(collected, Collection):
        return {"series": list(_series(collected))}
    return {
        "as_of_ms": collected.as_of_ms,
        "window": _window(collected.window),
        "jobs": [job_document(job) for job in collected.jobs],
        "series": list(_series(collected.series)),
        "failures": [_failure(failure) for failure in collected.failures],
        "absences": [_absence(absence) for absence in collected.absences],
    }


def job_document(job: Job, /) -> dict[str, Any]:
    """Give one job; ``ref`` is what a collection takes, ``partial`` says that only a listing's part of it is told."""
    devices = job.accelerators
    return {
        "ref": f"{job.source}/{job.id}" if job.source else job.id,
        "source": job.source,
        "id": job.id,
        "name": job.name,
        "status": str(job.status),
        "vendor_status": job.vendor_status,
        "partial": job.partial,
        "create_time_ms": job.create_time_ms,
        "start_time_ms": job.start_time_ms,
        "end_time_ms": job.end_time_ms,
        "accelerators": devices and {"kind": devices.kind, "count": devices.count, "model": devices.model},
        "tasks": [
            {"id": task.id, "role": task.role, "start_time_ms": task.start_time_ms, "end_time_ms": task.end_time_ms}
            for task in job.tasks
        ],
    }


def plan_document(plan: Plan, /) -> dict[str, Any]:
    """Give what a collection would send: calls by source and operation, and what is known to be missing already."""
    return {
        "calls": plan.calls,
        "seconds": plan.seconds,
        "operations": [
            {
                "source": each.source,
                "operation": each.operation,
                "calls": each.calls,
                "jobs": each.jobs,
                "targets": each.targets,
                "calls_per_second": each.rate and each.rate.per_second,
                "seconds": each.seconds,
            }
            for each in plan.operations
        ],
        "jobs": [job_document(job) for job in plan.jobs],
        "failures": [_failure(failure) for failure in plan.failures],
        "absences": [_absence(absence) for absence in plan.absences],
    }


def encode_json(document: Any, /) -> str:
    """Give a document as strict JSON on one line."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def dump_json(collected: Collection | SeriesBatch, file: IO[str], /) -> None:
    """Write the document and a line's end."""
    file.write(encode_json(json_document(collected)))
    file.write("\n")


def _series(batch: SeriesBatch) -> Iterator[dict[str, Any]]:
    for index, (key, times, values) in enumerate(batch):
        yield {
            "source": batch.source_of(index),
            "job": key.job,
            "task": key.task,
            "device": key.device,
            "labels": dict(key.labels),
            "metric": key.metric,
            "unit": batch.unit[index],
            "interval_ms": batch.interval_ms[index],
            "timing": str(batch.timing[index]),
            "time_error_ms": batch.time_error_ms[index],
            "statistic": str(batch.statistic[index]),
            "times": times.tolist(),
            "values": [value if math.isfinite(value) else _not_finite(value) for value in values.tolist()],
        }


def _not_finite(value: float) -> str | None:
    if math.isnan(value):
        return None
    return "Infinity" if value > 0 else "-Infinity"


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "source": failure.source,
        "targets": _targets(failure.targets),
        "metrics": list(failure.metrics),
        "window": _window(failure.window),
        "error": _error(failure.error),
        "attempts": failure.attempts,
    }


def _error(error: MetricsBridgeError) -> dict[str, Any]:
    document: dict[str, Any] = {"class": type(error).__name__, "message": str(error)}
    if isinstance(error, ProviderError):
        document |= {
            "operation": error.operation,
            "status": error.status,
            "code": error.code,
            "request_id": error.request_id,
        }
    return document


def _absence(absence: Absence) -> dict[str, Any]:
    return {
        "source": absence.source,
        "targets": _targets(absence.targets),
        "metrics": list(absence.metrics),
        "reason": absence.reason,
    }


def _targets(targets: Iterable[Target]) -> list[dict[str, str]]:
    return [{"job": job, "task": task} for job, task in targets]


def _window(window: Window | None) -> dict[str, int] | None:
    return None if window is None else {"start_ms": window.start_ms, "end_ms": window.end_ms}
