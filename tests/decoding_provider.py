"""A provider that decodes many answers at once, for tests of the collector: each answer is a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import attrs

import metricsbridge as mb
from fake_provider import C, FakeProvider, batch
from metricsbridge.http import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORDS = ("value", "nothing", "nan", "outside", "extra", "cut", "bug", "partial", "refused", "broken")


def meaning(call: mb.Call, word: str, /) -> mb.SeriesBatch:
    """Decode an answer."""
    (job, task), (metric,) = call.targets[0], call.metrics
    start, end = call.window.start_ms, call.window.end_ms
    good = batch(job, task, metric, [(start, 0.5), (end, 9.0)])
    if word == "cut":
        raise mb.DecodeError("the answer is cut off")
    if word == "bug":
        raise KeyError(task)
    if word == "partial":
        lost = mb.Failure(
            targets=call.targets, metrics=call.metrics, window=call.window, error=mb.DecodeError("page 2 is none")
        )
        raise mb.PartialDataError("half", series=good, lost=[lost])
    return {
        "value": good,
        "nothing": mb.SeriesBatch.empty(),
        "nan": batch(job, task, metric, [(start, float("nan"))]),
        "outside": batch(job, task, metric, [(start - 1, 1.0), (end, 1.0)]),
        "extra": mb.concat([good, batch(job, task, C, [(start, 7.0)])]),
    }[word]


class Decoding(FakeProvider):
    """Sends and decodes apart.

    Attributes:
        say: Gives the word that answers a call; "refused" and "broken" fail before there is an answer.
        answered: Turns the word into what ``send`` gives.
        arrive: Waits until a call is answered.
        together: How many answers were decoded at once, and how many calls had been sent then.
        asked_alone: How many calls were asked by ``fetch``.
    """

    def __init__(self, jobs: dict[str, Sequence[str]], *, halves: int = 1) -> None:
        super().__init__(jobs, halves=halves)
        self.say: Callable[[mb.Call], str] = lambda call: "value"
        self.answered: Callable[[mb.Call, str], Any] = lambda call, word: Response(200, {}, word.encode())
        self.arrive: Callable[[mb.Call], Any] = lambda call: anyio.lowlevel.checkpoint()
        self.together: list[tuple[int, int]] = []
        self.asked_alone = 0

    async def send(self, call: mb.Call, /) -> Any:
        self.fetched.append(call)
        await self.arrive(call)
        word = self.say(call)
        if word == "refused":
            raise mb.ThrottledError("too many")
        if word == "broken":
            raise LookupError(word)
        return self.answered(call, word)

    def decode(self, answers: Sequence[tuple[mb.Call, Response]], /) -> mb.SeriesBatch:
        self.together.append((len(answers), len(self.fetched)))
        return mb.concat([meaning(call, response.body.decode().strip()) for call, response in answers])

    async def fetch(self, call: mb.Call, /) -> mb.SeriesBatch:
        self.asked_alone += 1
        found = await self.send(call)
        return await found.decoded(lambda body: meaning(call, body.decode().strip()))


class DecodingForMany(Decoding):
    """Plans up to three jobs together, each of its calls for one task of one of them."""

    max_jobs = 3

    def plan_jobs(self, jobs: Sequence[mb.Job], query: mb.Query, /) -> list[mb.Call]:
        calls = [list(self.plan(job, query)) for job in reversed(jobs)]
        return [call for part in calls for call in part]


def one_by_one(provider: Decoding) -> Any:
    """Give the same provider with ``fetch`` alone."""
    names = ("get_job", "plan", "fetch", *(("max_jobs", "plan_jobs") if hasattr(provider, "plan_jobs") else ()))
    return SimpleNamespace(**{name: getattr(provider, name) for name in names})


async def large(work: Callable[[], Any]) -> Any:
    """Decode as the transport lets a large answer be decoded: others go on meanwhile."""
    await anyio.lowlevel.checkpoint()
    return work()


def told(result: mb.Collection) -> dict[str, Any]:
    """Give all that a collection says, in its order, as what can be compared."""
    series = result.series
    return {
        "series": [
            (series.source_of(i), key, series.unit[i], series.interval_ms[i], times.tolist(), repr(values.tolist()))
            for i, (key, times, values) in enumerate(series)
        ],
        "failures": [
            (type(each.error), str(each.error), str(each.error.__cause__), attrs.evolve(each, error=None))
            for each in result.failures
        ],
        "absences": result.absences,
        "jobs": result.jobs,
    }
