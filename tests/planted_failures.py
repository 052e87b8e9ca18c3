"""Planted bugs in what becomes of refusals, of broken answers and of being cancelled."""

from __future__ import annotations

import json
from typing import Any

import anyio
import attrs

import reference_provider as right
from metricsbridge.provider_kit import (
    DecodeError,
    InvalidRequestError,
    PermissionDeniedError,
    ProviderError,
    Request,
    SeriesBatch,
    ServiceUnavailableError,
    ThrottledError,
    classify_by_status,
    decode_json,
    parse_json,
)
from planting import planted
from reference_provider import REFERENCE, Answer, JobItem, Point, Reference, SeriesItem

THROTTLED = "a_throttled_request_is_tried_again_after_the_wait"
REFUSED = "a_refusal_is_an_error_of_its_class"
PAGE = "a_page_in_place_of_an_answer_is_a_decode_error"
CANCELLED = "cancellation_passes_at_every_send"


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


@planted("it tries again by itself", "only_the_library_tries_again")
class TriesAgain(Reference):
    async def get_job(self, job_id, /):
        try:
            return await super().get_job(job_id)
        except ServiceUnavailableError:
            return await super().get_job(job_id)
