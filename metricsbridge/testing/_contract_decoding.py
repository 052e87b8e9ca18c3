"""Checks of decoding many answers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from metricsbridge.errors import ProviderError
from metricsbridge.http import Response
from metricsbridge.protocols import SupportsBatchDecoding
from metricsbridge.series.columns import SeriesBatch, concat
from metricsbridge.testing import strategies
from metricsbridge.testing._contract_hooks import Bench, ContractHooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.model import Call

    Answers = Sequence[tuple[Call, Response]]


class DecodingChecks(ContractHooks):
    """``send`` and ``decode``, held against ``fetch``."""

    def test_answers_that_are_decoded_together_say_what_each_says_alone(self) -> None:
        """``decode`` gives what ``fetch`` gives call by call, sends nothing, and fails where one answer is broken."""

        async def check() -> None:
            async with self.open() as bench:
                provider = bench.provider
                if not isinstance(provider, SupportsBatchDecoding):
                    pytest.skip("the provider decodes each answer by itself")
                for subject in self.subjects():
                    for level in self.levels():
                        calls = await self.calls_of(bench, subject, level)
                        alone = [await provider.fetch(call) for call in calls]
                        answers = [(call, await _sent(bench, provider, call)) for call in calls]
                        _check_same(bench, provider, answers, alone)
                        _check_same(bench, provider, answers[::-1], alone[::-1])
                        for place in {0, len(calls) // 2, len(calls) - 1} if calls else ():
                            _check_broken(provider, answers, place)

        self.run(check)


async def _sent(bench: Bench, provider: SupportsBatchDecoding, call: Call) -> Response:
    before = len(bench.wire.requests)
    response: object = await provider.send(call)
    assert isinstance(response, Response), f"send gave {type(response).__name__}: give the Response as it came"
    sent = len(bench.wire.requests) - before
    assert sent == 1, f"send sends {sent} requests: a provider that decodes many answers at once has calls of one"
    return response


def _decoded(bench: Bench, provider: SupportsBatchDecoding, answers: Answers) -> SeriesBatch:
    before = len(bench.wire.requests)
    try:
        batch: object = provider.decode(answers)
    except Exception as error:
        pytest.fail(f"decode breaks with {type(error).__name__}: {error}, where fetch reads each of the answers")
    assert len(bench.wire.requests) == before, "decode sends requests: send is what sends"
    assert isinstance(batch, SeriesBatch), f"decode gave {type(batch).__name__}: give a SeriesBatch"
    return batch


def _check_same(bench: Bench, provider: SupportsBatchDecoding, answers: Answers, alone: Sequence[SeriesBatch]) -> None:
    wanted = _series(concat(alone).only_observed())
    found = _series(_decoded(bench, provider, answers).only_observed())
    for place, (one, other) in enumerate(zip(found, wanted, strict=False)):
        assert one == other, (
            f"{len(answers)} answers are decoded together, and series {place} ({one[0].metric} of task "
            f"{one[0].task!r}) is not what fetch gives there ({other[0].metric} of task {other[0].task!r}), or not all "
            "of it: give each call's own series, in the order of the answers"
        )
    assert len(found) == len(wanted), (
        f"{len(answers)} answers that are decoded together give {len(found)} series with values, fetch gives "
        f"{len(wanted)}: decode may leave out only what has no value"
    )


def _check_broken(provider: SupportsBatchDecoding, answers: Answers, place: int) -> None:
    call, response = answers[place]
    body = response.body
    cut = body[: len(body) // 2] if strategies.is_json(body) and len(body) > 2 else b"<"
    broken = [*answers[:place], (call, replace(response, body=cut)), *answers[place + 1 :]]
    try:
        found = provider.decode(broken)
    except ProviderError:
        return
    except Exception as error:
        pytest.fail(
            f"decode breaks with {type(error).__name__}: {error}, where one answer is cut off; decode with decode_json "
            "or one of the decoders of series, which raise DecodeError"
        )
    pytest.fail(
        f"one of {len(answers)} answers is cut off, and decode gives {found!r}: raise its DecodeError, then each "
        "answer is decoded by itself"
    )


def _series(batch: SeriesBatch) -> list[tuple[Any, ...]]:
    """Give each series as what can be compared, in order; any NaN is like another."""
    columns = zip(batch.unit, batch.interval_ms, batch.timing, batch.time_error_ms, batch.statistic, strict=True)
    return [
        (key, *column, times.tolist(), [None if value != value else value for value in values.tolist()])
        for (key, times, values), column in zip(batch, columns, strict=True)
    ]
