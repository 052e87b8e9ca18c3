"""Planted bugs in answers that are decoded together."""

from __future__ import annotations

from msgspec.structs import replace

from metricsbridge.provider_kit import DecodeError, concat
from planting import planted
from reference_decoding import Together

TOGETHER = "answers_that_are_decoded_together_say_what_each_says_alone"


@planted("answers are decoded in the order of their tasks", TOGETHER)
class SortsAnswers(Together):
    def decode(self, answers, /):
        return super().decode(sorted(answers, key=lambda answer: answer[0].targets))


@planted("all answers are taken for those of the first call's task", TOGETHER)
class KeepsTheFirstTask(Together):
    def decode(self, answers, /):
        first = answers[0][0]
        return super().decode([(replace(call, targets=first.targets), response) for call, response in answers])


@planted("an answer among others that is cut off is left out", TOGETHER)
class SwallowsBroken(Together):
    def decode(self, answers, /):
        parts = []
        for call, response in answers:
            try:
                parts.append(self.read(call, response))
            except DecodeError:
                if len(answers) == 1:
                    raise
        return concat(parts)


@planted("of several answers of a task the last one is decoded", TOGETHER)
class KeepsTheLast(Together):
    def decode(self, answers, /):
        last = {(call.targets, call.metrics): (call, response) for call, response in answers}
        return super().decode([*last.values()])
