"""Checks of how a provider behaves: it keeps no state between calls, and owns nothing that the library owns."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, TypeVar

import anyio
import pytest

from metricsbridge.model import Query
from metricsbridge.testing._contract_failures import FailureChecks
from metricsbridge.testing._contract_series import same_series
from metricsbridge.testing._contract_wire import watched

if TYPE_CHECKING:
    from metricsbridge.http import Request, Response
    from metricsbridge.series.columns import SeriesBatch

T = TypeVar("T")


class ConductChecks(FailureChecks):
    """State, pickles, and what only the library does."""

    def package(self) -> str:
        """Give the provider's top-level package."""
        return (self.the_spec().provider or self.the_spec().settings).__module__.partition(".")[0]

    def test_the_same_call_gives_the_same_again(self) -> None:
        """A call made twice, with others in between, gives the same series."""

        async def check() -> None:
            async with self.open() as bench:
                calls = await self.some_calls(bench)
                first = [await bench.provider.fetch(call) for call in calls]
                again = [await bench.provider.fetch(call) for call in reversed(calls)][::-1]
                for call, left, right in zip(calls, first, again, strict=True):
                    assert same_series(left, right), (
                        f"{call.operation} for {call.targets[0]} gives other series the second time: keep no state"
                    )

        self.run(check)

    def test_a_call_is_not_disturbed_by_another_in_between(self) -> None:
        """A whole call that is made while another waits for its answer changes neither."""

        async def check() -> None:
            async with self.open() as bench:
                calls = await self.some_calls(bench)
                alone = [await bench.provider.fetch(call) for call in calls]
                for place, call in enumerate(calls):
                    other = (place + 1) % len(calls)
                    inner: list[SeriesBatch] = []

                    async def interrupted(
                        request: Request, other: int = other, inner: list[SeriesBatch] = inner
                    ) -> Response:
                        bench.wire.between = None
                        answer = await bench.wire.answer(request)
                        inner.append(await bench.provider.fetch(calls[other]))
                        return answer

                    bench.wire.between = interrupted
                    outer = await bench.provider.fetch(call)
                    bench.wire.between = None
                    undisturbed = same_series(outer, alone[place]) and same_series(inner[0], alone[other])
                    assert undisturbed, "two calls at once give other series than one after the other: keep no state"

        self.run(check)

    def test_jobs_and_calls_pickle_and_say_all(self) -> None:
        """A job and a call that went through a pickle do for another instance of the provider."""

        async def check() -> None:
            async with self.open() as bench, self.open() as elsewhere, self.open() as nowhere:
                for subject in self.subjects():
                    job = await self.describe(bench, subject)
                    copy = _copied(job)
                    for level in self.levels():
                        query = Query(window=self.life(subject), per=level)
                        calls, copies = ([*each.provider.plan(given, query)] for each, given in (
                            (bench, job), (elsewhere, copy),
                        ))  # fmt: skip
                        assert copies == calls, (
                            "a pickled job is planned in another way: payloads need eq, as attrs makes"
                        )
                        for call in calls[:1]:
                            there = await nowhere.provider.fetch(_copied(call))  # it planned nothing
                            here = await bench.provider.fetch(call)
                            assert same_series(there, here), (
                                "a call gives other series at another instance: all that it needs stands in its payload"
                            )

        self.run(check)

    def test_nothing_is_owned_that_the_library_owns(self) -> None:
        """The provider makes no task, thread, session or connection, sleeps never and reads no clock."""

        async def check() -> None:
            tasks = {task.id for task in anyio.get_running_tasks()}
            own = anyio.get_current_task().id
            with watched(self.package()) as noted:
                async with self.open() as bench:
                    for operation in (await self.operations(bench)).values():
                        await operation()
                    for call in await self.some_calls(bench):
                        await bench.provider.fetch(call)
            assert not noted, f"the provider {' and '.join(sorted(set(noted)))}: all of that is the library's"
            assert set(bench.wire.senders) <= {own}, (
                "a request is sent from another task: await it, the library has the tasks"
            )
            left = {task.id for task in anyio.get_running_tasks()} - tasks
            assert not left, f"{len(left)} tasks are left running: make none"

        self.run(check)

    def test_every_request_is_one_that_the_library_can_send(self) -> None:
        """A request names its operation, and its URL is absolute, encoded and without a query."""

        async def check() -> None:
            async with self.open() as bench:
                for operation in (await self.operations(bench)).values():
                    await operation()
                for call in await self.some_calls(bench):
                    before = len(bench.wire.requests)
                    await bench.provider.fetch(call)
                    operations = {request.operation for request in bench.wire.requests[before:]}
                    assert not operations or call.operation in operations, (
                        f"a call of {call.operation} sends {sorted(operations)}: limits and reports go by these names"
                    )
                for request in bench.wire.requests:
                    assert request.operation, f"{request} has no operation: limits and reports go by it"
                    assert request.method.isupper(), f"{request}: write the method in upper case"
                    good = request.url.startswith(("http://", "https://")) and request.url.isascii()
                    assert good, f"{request}: make the URL absolute and percent-encoded"
                    assert not set(request.url) & set("?# "), f"{request}: the query belongs into params"

        self.run(check)


def _copied(value: T) -> T:
    try:
        copy: T = pickle.loads(pickle.dumps(value))
    except Exception as error:
        pytest.fail(f"{type(value).__name__} can't be pickled ({error}): keep plain values in its payload")
    assert copy == value, f"{type(value).__name__} does not survive a pickle: make its payload an attrs class"
    return copy
