"""Planted bugs in errors, settings, secrets, and in what belongs to the library."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
from typing import Any

import aiohttp
import anyio
import attrs

import reference_provider as right
from metricsbridge.provider_kit import (
    ConfigurationError,
    DecodeError,
    InvalidRequestError,
    PermissionDeniedError,
    ProviderError,
    Request,
    Secret,
    SeriesBatch,
    ServiceUnavailableError,
    ThrottledError,
    classify_by_status,
    decode_json,
    parse_json,
)
from planting import planted, spec_of
from reference_provider import REFERENCE, Answer, JobItem, Point, Reference, SeriesItem

THROTTLED = "a_throttled_request_is_tried_again_after_the_wait"
REFUSED = "a_refusal_is_an_error_of_its_class"
OWNED = "nothing_is_owned_that_the_library_owns"
PAGE = "a_page_in_place_of_an_answer_is_a_decode_error"
CANCELLED = "cancellation_passes_at_every_send"
PICKLED = "jobs_and_calls_pickle_and_say_all"
SETTINGS = "wrong_settings_are_refused_before_anything_is_sent"


def classifying(classify):
    return attrs.evolve(REFERENCE, classify=classify)


@planted("HTTP 429 is an invalid request", THROTTLED)
def refuses_throttles():
    return classifying(
        lambda r: InvalidRequestError("too many", status=429) if r.status == 429 else classify_by_status(r)
    )


@planted("Retry-After is not kept", THROTTLED)
def forgets_the_wait():
    return classifying(lambda r: ThrottledError("too many", status=429) if r.status == 429 else classify_by_status(r))


@planted("HTTP 503 is not tried again", "a_service_that_fails_for_a_while_is_tried_again")
def gives_up_at_once():
    return classifying(lambda r: ProviderError("failed", status=r.status) if r.status >= 500 else classify_by_status(r))


@planted("every refusal is a missing permission", REFUSED)
def denies_all():
    return classifying(
        lambda r: PermissionDeniedError("no", status=r.status) if 400 <= r.status < 404 else classify_by_status(r)
    )


@planted("every refusal is a failure of the service", REFUSED)
def blames_the_service():
    return classifying(
        lambda r: ServiceUnavailableError("no", status=r.status) if r.status >= 400 else classify_by_status(r)
    )


@planted("the code in the body of a refusal is read without looking", "whatever_stands_in_a_refusal_it_is_classified")
def trusts_refusals():
    def classify(response):
        error = classify_by_status(response)
        if error is not None and response.body:
            error.code = json.loads(response.body)["error"]["code"]
        return error

    return classifying(classify)


@planted("HTTP errors are not classified at all", REFUSED)
def classifies_nothing():
    return classifying(lambda r: classify_by_status(r) if r.status >= 429 else None)


@planted("whatever fails is an empty answer", "what_fails_is_named_and_costs_nothing_else")
class HidesFailures(Reference):
    async def fetch(self, call, /):
        try:
            return await super().fetch(call)
        except ProviderError:
            return SeriesBatch.empty()


@planted("a job that can't be described for now is not found", "a_service_that_fails_for_a_while_is_tried_again")
class AsksOnce(Reference):
    async def get_job(self, job_id, /):
        url = f"{self._url}/{job_id}"
        response = await self._transport.send(Request("GET", url, operation="ShowJob", most_attempts=1))
        return self.to_job(decode_json(response.body, JobItem))


@planted("answers are decoded without an eye on what they are", PAGE)
class TrustsJson(Reference):
    async def get_job(self, job_id, /):
        response = await self._transport.send(Request("GET", f"{self._url}/{job_id}", operation="ShowJob"))
        return self.to_job(JobItem(**json.loads(response.body)))


@planted("a page of HTML is an empty answer", PAGE)
class TakesPages(Reference):
    async def fetch(self, call, /):
        try:
            return await super().fetch(call)
        except DecodeError:
            return SeriesBatch.empty()


@planted("the members of an answer are trusted", "no_broken_answer_crashes")
class TrustsMembers(Reference):
    async def get_job(self, job_id, /):
        url = f"{self._url}/{right.path_segment(job_id)}"
        document = parse_json((await self._transport.send(Request("GET", url, operation="ShowJob"))).body)
        devices = document["devices"]
        item = JobItem(
            id=document["id"], name=document["name"], state=document["state"], workers=tuple(document["workers"]),
            created_ms=document["created_ms"], started_ms=document["started_ms"], ended_ms=document["ended_ms"],
            devices=devices and right.Devices(devices["kind"], devices["count"]),
        )  # fmt: skip
        return self.to_job(item)


@planted("a time that is out of range breaks the columns", "no_broken_answer_crashes")
class TrustsTimes(Reference):
    async def fetch(self, call, /):
        ask, (first, last) = call.payload, self.bounds(call.window)
        tasks = ",".join(task for _, task in call.targets)
        params = (("from", str(first)), ("to", str(last)), ("of", ask.level), ("workers", tasks))
        url = f"{self._url}/{call.targets[0][0]}/metrics/{ask.name}"
        body = (await self._transport.send(Request("GET", url, params, operation="ShowMetric"))).body
        series = [
            SeriesItem(
                worker=str(item.get("worker", "")), device=item.get("device"),
                points=tuple([_point(point) for point in item["points"]]),
            )
            for item in parse_json(body)["series"]
        ]  # fmt: skip
        return self.to_batch(Answer(60, tuple(series)), call)


def _point(given: dict[str, Any]) -> Point:
    point = object.__new__(Point)
    object.__setattr__(point, "t", int(given["t"]))
    object.__setattr__(point, "v", float(given["v"]))
    return point


@planted("a cancellation is swallowed", CANCELLED)
class SwallowsCancellation(Reference):
    async def fetch(self, call, /):
        try:
            return await super().fetch(call)
        except anyio.get_cancelled_exc_class():
            return SeriesBatch.empty()


@planted("a cancellation is made an error", CANCELLED)
class RenamesCancellation(Reference):
    async def get_job(self, job_id, /):
        try:
            return await super().get_job(job_id)
        except anyio.get_cancelled_exc_class():
            raise ProviderError("cancelled") from None


@planted("what a cancelled call had begun is in the way of the next", CANCELLED)
class KeepsHalf(Reference):
    busy = False

    async def get_job(self, job_id, /):
        if self.busy:
            raise ProviderError("one at a time")
        self.busy = True
        job = await super().get_job(job_id)
        self.busy = False
        return job


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
        return [attrs.evolve(call, payload=None) for call in calls]

    async def fetch(self, call, /):
        payload = self.__dict__.get("plans", {}).get((call.metrics, call.window))
        return SeriesBatch.empty() if payload is None else await super().fetch(attrs.evolve(call, payload=payload))


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
            attrs.evolve(call, payload=(call.payload, self._settings.token.reveal()))
            for call in super().plan(job, query)
        ]

    async def fetch(self, call, /):
        return await super().fetch(attrs.evolve(call, payload=call.payload[0]))


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
