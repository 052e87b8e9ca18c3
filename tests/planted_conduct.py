"""Planted bugs in settings and secrets, in state, and in what belongs to the library."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time

import aiohttp
import anyio
import attrs
from msgspec.structs import replace

import reference_provider as right
from metricsbridge.provider_kit import (
    ConfigurationError,
    InvalidRequestError,
    ProviderError,
    Request,
    Secret,
    SeriesBatch,
    decode_json,
)
from planting import planted, spec_of
from reference_provider import REFERENCE, JobItem, Reference

OWNED = "nothing_is_owned_that_the_library_owns"
PICKLED = "jobs_and_calls_pickle_and_say_all"
SETTINGS = "wrong_settings_are_refused_before_anything_is_sent"


@planted("the call under way is kept in the provider", "a_call_is_not_disturbed_by_another_in_between")
class KeepsTheCall(Reference):
    async def fetch(self, call, /):
        self.call = call
        return await super().fetch(call)

    def to_batch(self, answer, call):
        return super().to_batch(answer, self.call)


@planted("one call at a time, by a lock", "a_call_is_not_disturbed_by_another_in_between")
class Locks(Reference):
    async def fetch(self, call, /):
        self.lock = getattr(self, "lock", None) or anyio.Lock()
        async with self.lock:
            return await super().fetch(call)


@planted("what was given once is not given again", "the_same_call_gives_the_same_again")
class GivesOnce(Reference):
    async def fetch(self, call, /):
        given = self.__dict__.setdefault("given", set())
        batch = await super().fetch(call)
        fresh = [index for index, key in enumerate(batch.keys) if (key, call.window) not in given]
        given.update([(key, call.window) for key in batch.keys])
        return batch.select(fresh)


@planted("a payload can't be pickled", PICKLED)
class HoldsAFunction(Reference):
    async def get_job(self, job_id, /):
        return attrs.evolve(await super().get_job(job_id), payload=lambda: job_id)


@planted("a call is understood only by the provider that planned it", PICKLED)
class KeepsPlans(Reference):
    def plan(self, job, query, /):
        calls = super().plan(job, query)
        self.__dict__.setdefault("plans", {}).update({(call.metrics, call.window): call.payload for call in calls})
        return [replace(call, payload=None) for call in calls]

    async def fetch(self, call, /):
        payload = self.__dict__.get("plans", {}).get((call.metrics, call.window))
        return SeriesBatch.empty() if payload is None else await super().fetch(replace(call, payload=payload))


@planted("a request is sent in a task of the provider's own", OWNED)
class MakesTasks(Reference):
    async def fetch(self, call, /):
        return await asyncio.create_task(super().fetch(call))


@planted("several requests are gathered", OWNED)
class Gathers(Reference):
    async def get_job(self, job_id, /):
        job, _ = await asyncio.gather(super().get_job(job_id), super().get_job(job_id))
        return job


@planted("an HTTP session of its own", OWNED)
class OwnsASession(Reference):
    async def get_job(self, job_id, /):
        async with aiohttp.ClientSession():
            return await super().get_job(job_id)


@planted("it sleeps by itself", OWNED)
class Sleeps(Reference):
    async def fetch(self, call, /):
        time.sleep(0)  # noqa: ASYNC251  # the mistake
        return await super().fetch(call)


@planted("it reads the clock", OWNED)
class ReadsTheClock(Reference):
    async def fetch(self, call, /):
        assert call.window.start_ms < time.time() * 1000
        return await super().fetch(call)


@planted("a request has its query in its URL", "every_request_is_one_that_the_library_can_send")
class WritesQueries(Reference):
    async def page(self, search, number):
        request = Request("GET", f"{self._url}?page={number}", (("page", str(number)), ("size", "20")))
        return decode_json((await self._transport.send(request)).body, right.JobPage)


@planted("a request names no operation", "every_request_is_one_that_the_library_can_send")
class NamesNoOperation(Reference):
    async def get_job(self, job_id, /):
        response = await self._transport.send(Request("GET", f"{self._url}/{right.path_segment(job_id)}"))
        return self.to_job(decode_json(response.body, JobItem))


@planted("the endpoint is not checked", SETTINGS)
def checks_no_endpoint():
    @attrs.frozen(kw_only=True)
    class Settings:
        endpoint: str
        token: Secret

    return attrs.evolve(REFERENCE, settings=Settings)


@planted("the endpoint is checked after a request", SETTINGS)
def checks_late():
    @attrs.frozen(kw_only=True)
    class Settings:
        endpoint: str
        token: Secret

    async def connect(settings, transport):
        await transport.send(Request("GET", "https://reference.test/v1/jobs/x", operation="ShowJob", most_attempts=1))
        return Reference(transport, settings)

    async def late(settings, transport):
        try:
            await connect(settings, transport)
        except ProviderError:
            right.check_url("endpoint", settings.endpoint)
        return Reference(transport, settings)

    return attrs.evolve(REFERENCE, settings=Settings, connect=late)


@planted("a wrong setting is a ValueError", SETTINGS)
def raises_value_errors():
    @attrs.frozen(kw_only=True)
    class Settings:
        endpoint: str
        token: Secret

    async def connect(settings, transport):
        try:
            right.check_url("endpoint", settings.endpoint)
        except ConfigurationError:
            raise ValueError("endpoint") from None
        return Reference(transport, settings)

    return attrs.evolve(REFERENCE, settings=Settings, connect=connect)


@planted("the token is a plain text", "what_is_secret_is_declared_as_secret")
def shows_its_token():
    @attrs.frozen(kw_only=True)
    class Settings:
        endpoint: str = attrs.field(converter=lambda url: right.check_url("endpoint", url))
        token: str

    return attrs.evolve(REFERENCE, settings=Settings, authenticator=lambda s: right.Bearer(Secret(s.token)))


@planted("the token stands in a repr", "what_is_secret_is_declared_as_secret")
def shows_its_account():
    return attrs.evolve(
        REFERENCE, authenticator=lambda settings: right.Bearer(settings.token, f"account-{settings.token.reveal()}")
    )


@planted("an error quotes the answer", "no_secret_stands_in_an_error")
class QuotesAnswers(Reference):
    async def get_job(self, job_id, /):
        url = f"{self._url}/{right.path_segment(job_id, 'job id')}"
        response = await self._transport.send(Request("GET", url, operation="ShowJob"))
        try:
            return self.to_job(decode_json(response.body, JobItem))
        except ProviderError as error:
            raise InvalidRequestError(f"can't read {response.body!r}") from error


class WithSettings(Reference):
    def __init__(self, transport, settings):
        super().__init__(transport, settings)
        self._settings = settings


@planted("a variable holds the token while a request is under way", "no_secret_stands_in_an_error")
class HoldsTheToken(WithSettings):
    async def fetch(self, call, /):
        token = self._settings.token.reveal()
        assert token
        return await super().fetch(call)


@planted("a call carries the token", "no_secret_stands_in_a_job_or_a_call")
class PassesTheToken(WithSettings):
    def plan(self, job, query, /):
        return [
            replace(call, payload=(call.payload, self._settings.token.reveal())) for call in super().plan(job, query)
        ]

    async def fetch(self, call, /):
        return await super().fetch(replace(call, payload=call.payload[0]))


class _BusyLoader:
    CODE = """
import threading
from reference_provider import Reference
thread = threading.Thread(target=int)
thread.start()
thread.join()
class Busy(Reference):
    pass
"""

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self.CODE, module.__dict__)


@planted("importing the provider starts a thread", "importing_the_spec_does_no_io_and_brings_nothing_heavy")
def busy_import():
    spec = importlib.util.spec_from_loader("busy_reference", _BusyLoader())
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["busy_reference"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return spec_of(module.Busy)


@planted("the spec is for another version of the contract", "the_spec_is_one_that_the_library_can_use")
def is_older():
    return attrs.evolve(REFERENCE, api=0)
