"""What an answer of ModelArts, of the API gateway before it, or of IAM means.

The same code stands for different things under different HTTP statuses (``ModelArts.0203`` is a bad token under 401 and
403, ``0112`` and ``0210`` change too), so the table goes by (status, code). API v1 may say "failed" under HTTP 200 too,
where only the code is left to go by. Sources: ModelArts API reference, error codes; API Gateway user guide, error
codes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from metricsbridge.provider_kit import (
    AuthenticationError,
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    ThrottledError,
    error_class,
    make_error,
    parse_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.provider_kit import ProviderError, Response

CODES: Final[Mapping[tuple[int, str], type[ProviderError]]] = {
    (400, "ModelArts.2775"): NotFoundError,  # the job does not exist: 400, not 404
    (400, "ModelArts.2842"): NotFoundError,  # nor the experiment
    (400, "ModelArts.2771"): PermissionDeniedError,
    (400, "ModelArts.0204"): AuthenticationError,  # a token without a project
    (401, "APIGW.0301"): AuthenticationError,
    (401, "APIGW.0307"): AuthenticationError,
    (403, "ModelArts.0203"): AuthenticationError,  # a bad token
    (403, "ModelArts.0206"): AuthenticationError,  # a bad key or signature
    (403, "ModelArts.2784"): AuthenticationError,  # a bad token
    (404, "ModelArts.2786"): PermissionDeniedError,  # the token's project is another one
    (405, "ModelArts.2803"): InvalidRequestError,
    (429, "ModelArts.2799"): ThrottledError,
    (429, "ModelArts.4206"): ThrottledError,
    (429, "APIGW.0308"): ThrottledError,
    (500, "ModelArts.2955"): ServiceUnavailableError,  # the metrics store behind it fails
}
"""(HTTP status, code) where the code tells more than the status."""

CODES_ALONE: Final[Mapping[str, type[ProviderError]]] = {
    **{code: cls for (_, code), cls in CODES.items()},
    **dict.fromkeys(
        [f"ModelArts.{number}" for number in ("0201", "0202", "0205", "0207", "0208", "0212")], AuthenticationError
    ),
    "ModelArts.0108": PermissionDeniedError,
    "ModelArts.2785": PermissionDeniedError,
    "ModelArts.2836": NotFoundError,
    "ModelArts.2890": NotFoundError,
    "ModelArts.0010": ServiceUnavailableError,
    "ModelArts.2950": ServiceUnavailableError,
}
"""Code to error where the status says nothing, as of a failure that comes with HTTP 200; of codes that mean the same
under every status."""

REJECTED: Final = frozenset({
    (403, "ModelArts.0203"), (403, "ModelArts.0206"), (403, "ModelArts.2784"), (400, "ModelArts.0204"),
})  # fmt: skip
"""Answers besides 401 after which a new credential may help."""

_FAILED: Final = re.compile(rb'"is_success"\s*:\s*false')

_LONGEST_FAILURE: Final = 4096
"""In bytes; a longer answer that does not say ``is_success`` is data."""

_ADVICE: Final[Mapping[type[ProviderError], str]] = {
    AuthenticationError: (
        "check access_key and secret_key (or username, password and domain_name), and this machine's clock"
    ),
    PermissionDeniedError: (
        "the account needs modelarts:trainJob:get for this project, and project_id must be the region's"
    ),
    NotFoundError: "check the id, the region and the project",
    ThrottledError: "lower the rate with limits",
}


def error_fields(response: Response, /) -> tuple[str, str, str]:
    """Give (code, message, request id) of an error's body, in any of the forms that the services use."""
    try:
        document = parse_json(response.body)
    except DecodeError:
        return "", "", ""
    if not isinstance(document, dict):
        return "", "", ""
    nested = document.get("error")
    fields: dict[str, Any] = nested if isinstance(nested, dict) else document
    code = _first(fields, "error_code", "errorCode", "code")
    message = _first(fields, "error_msg", "error_message", "errorMsg", "message")
    return code, message, _first(document, "request_id", "requestId")


def _first(fields: Mapping[str, Any], *names: str) -> str:
    found = next((fields[name] for name in names if fields.get(name) not in (None, "")), "")
    return "".join([c for c in str(found)[:400] if c.isprintable()])


def classify(response: Response, /) -> ProviderError | None:
    """Give the error that an answer means, or None for a success."""
    if response.status < 300:
        return None
    return _error(error_class(response.status) or InvalidRequestError, response)


def classify_v1(response: Response, /) -> ProviderError | None:
    """Give the error that an answer of API v1 means: one that says so itself is a failure under every status."""
    if error_class(response.status) is None and says_failed(response.body):
        return _error(CODES_ALONE.get(error_fields(response)[0], InvalidRequestError), response)
    return classify(response)


def says_failed(body: bytes, /) -> bool:
    """Tell whether an answer of API v1 says that the request failed.

    Most do with ``is_success``; the one of a pod's metrics has no such member, and only failures have a code. That is
    looked for in short answers alone, so that large ones cost no more than one search.
    """
    may_fail = b'"is_success"' in body and _FAILED.search(body) is not None
    if not may_fail and not (len(body) < _LONGEST_FAILURE and b'"error_code"' in body):
        return False
    try:
        document = parse_json(body)
    except DecodeError:
        return False
    if not isinstance(document, dict):
        return False
    success = document.get("is_success")
    return success is False or (success is None and bool(document.get("error_code")))


def _error(cls: type[ProviderError], response: Response) -> ProviderError:
    code, message, request_id = error_fields(response)
    cls = CODES.get((response.status, code), cls)
    text = message.rstrip(".") or f"the service answered HTTP {response.status}"
    if cls in _ADVICE:
        text = f"{text}; {_ADVICE[cls]}"
    error = make_error(cls, text, response, code=code)
    error.request_id = request_id or response.headers.get("X-IAM-Trace-Id", "")
    return error


def credential_rejected(response: Response, /) -> bool:
    """Tell whether a new credential may help."""
    if response.status == 401:
        return True
    if response.status == 200:
        short = len(response.body) < _LONGEST_FAILURE and b'"error_code"' in response.body
        return short and CODES_ALONE.get(error_fields(response)[0]) is AuthenticationError
    return response.status in (400, 403) and (response.status, error_fields(response)[0]) in REJECTED
