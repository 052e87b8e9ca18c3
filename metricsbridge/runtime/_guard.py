"""What a provider gives and raises, made safe: its mistakes stay with the job or call that they break."""

from __future__ import annotations

import math
from traceback import clear_frames

import anyio

from metricsbridge.errors import MetricsBridgeError, ProviderError
from metricsbridge.model import Job
from metricsbridge.runtime._context import CURRENT, CallContext


def checked_job(job: Job) -> Job:
    """Give the job back if the run can work with it, else raise: then only this job fails."""
    if not isinstance(job, Job) or not isinstance(job.tasks, tuple):
        raise TypeError("get_job gave no Job with a tuple of tasks")
    for time_ms in (job.start_time_ms, job.end_time_ms):
        if time_ms is not None and not isinstance(time_ms, int):
            raise TypeError("a job's times must be whole milliseconds")
    return job


def let_go(error: BaseException, /) -> None:
    """Leave an error where it came from, but nothing that was worked on there.

    A failure outlives the answer that it is about, of which there may be very many, and very large ones; the frames of
    its traceback would hold them, and their bytes would count as in flight.
    """
    errors, seen = [error], set[int]()
    for each in errors:  # which grows meanwhile
        clear_frames(each.__traceback__)
        seen.add(id(each))
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        errors += [one for one in (each.__cause__, each.__context__, *inner) if one is not None and id(one) not in seen]


def ours(error: BaseException, operation: str, context: CallContext | None = None) -> MetricsBridgeError:
    """Give a library error as it is; anything else is the provider's bug, kept to the call it broke.

    A cancellation that this task was asked for goes on its way; one that came out of something the provider waited for
    (a shared task, a future) is an error like any other: let through, it would end the whole collection in silence.

    Args:
        error: What was raised.
        operation: The vendor's name of the call, where the error does not say it.
        context: What is known of the call; by default that which is under way.
    """
    if isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf:
        raise error
    let_go(error)
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # the first frame is the caller's, who goes on
    if not isinstance(error, MetricsBridgeError):
        wrapped = ProviderError(f"the provider broke with {type(error).__name__}: a bug in it, please report it")
        wrapped.__cause__ = error
        error = wrapped
    if isinstance(error, ProviderError):
        error.operation = error.operation or operation
        context = context or CURRENT.get()
        if context is not None:  # there is none once the deadline has ended the workers
            error.provider = error.provider or context.provider
            error.attempts = max(error.attempts, 1 + context.attempts)
    return error
