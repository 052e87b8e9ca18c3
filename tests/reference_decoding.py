"""The reference provider, with small answers that are decoded together."""

from __future__ import annotations

from msgspec.structs import replace

from metricsbridge.provider_kit import SeriesBatch, concat, decode_json
from reference_provider import Answer, Reference


class TaskByTask(Reference):
    """Asks for each task by itself."""

    def plan(self, job, query, /):
        calls = super().plan(job, query)
        return [replace(call, targets=(target,)) for call in calls for target in call.targets]

    def windows(self, window):
        for part in super().windows(window):
            first, last = self.bounds(part)
            if first <= last:  # else there would be nothing to send
                yield part

    def read(self, call, response) -> SeriesBatch:
        return self.to_batch(decode_json(response.body, Answer), call)


class Together(TaskByTask):
    """Decodes in one go what it is told of many tasks."""

    async def send(self, call, /):
        return await self._transport.send(self.request(call))

    async def fetch(self, call, /):
        return self.read(call, await self.send(call))

    def decode(self, answers, /):
        return concat([self.read(call, response) for call, response in answers])
