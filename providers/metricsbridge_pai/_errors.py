"""What an answer of PAI-DLC, or of CloudMonitor, means.

The code decides, not the HTTP status: a throttled request may be answered with 400, 429 or 503, and CloudMonitor may
say "failed" under 200. Sources: the vendor's error centre for PAI-DLC and CloudMonitor; OpenAPI guide, public error
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

CODES: Final[Mapping[str, type[ProviderError]]] = {
    "SignatureNonceUsed": ServiceUnavailableError,  # the next attempt has a nonce of its own
    "Throttling": ThrottledError,
    "RequestThrottled": ThrottledError,
    "TooManyRequests": ThrottledError,
    "QuotaExceeded.CallFrequency": ThrottledError,
    "InvalidAccessKeyId": AuthenticationError,
    "IncompleteSignature": AuthenticationError,
    "SignatureDoesNotMatch": AuthenticationError,
    "InvalidSignature": AuthenticationError,
    "InvalidTimeStamp": AuthenticationError,
    "IllegalTimestamp": AuthenticationError,
    "MissingAccessKeyId": AuthenticationError,
    "MissingSecurityToken": AuthenticationError,
    "InvalidSecurityToken": AuthenticationError,
    "SecurityTokenExpired": AuthenticationError,
    "Forbidden": PermissionDeniedError,
    "NoPermission": PermissionDeniedError,
    "AccessDenied": PermissionDeniedError,
    "AccessForbidden": PermissionDeniedError,
    "InvalidAction": InvalidRequestError,  # InvalidAction.NotFound too
    "InvalidApi": InvalidRequestError,
    "InvalidVersion": InvalidRequestError,
    "InvalidParameter": InvalidRequestError,
    "MissingParameter": InvalidRequestError,
    "ParameterInvalid": InvalidRequestError,
    "BadRequest": InvalidRequestError,
    "NotFound": NotFoundError,
    "ResourceNotFound": NotFoundError,
    "JobNotFound": NotFoundError,
    "InternalError": ServiceUnavailableError,
    "InternalServerError": ServiceUnavailableError,
    "ServiceUnavailable": ServiceUnavailableError,
    "ServiceBusy": ServiceUnavailableError,
    "SystemBusy": ServiceUnavailableError,
}
"""A code, or what stands before its first dots, to what it means; the longest that fits counts."""

_NUMBERS: Final[Mapping[str, int]] = {str(status): status for status in (*range(400, 430), *range(500, 505))}
"""CloudMonitor's code may be an HTTP status in a string."""

_REJECTED: Final = ("InvalidSecurityToken", "InvalidAccessKeyId", "MissingSecurityToken", "SecurityTokenExpired")
"""Codes after which a new credential may help."""

_ADVICE: Final[Mapping[type[ProviderError], str]] = {
    AuthenticationError: (
        "check access_key_id, access_key_secret and, for temporary keys, security_token, and this machine's clock"
    ),
    PermissionDeniedError: (
        "the account needs paidlc:GetJob, paidlc:ListJobs and paidlc:GetJobMetrics, and for CloudMonitor cms:Query*"
    ),
    NotFoundError: "check the id, the region and the workspace",
    ThrottledError: "lower the rate with limits",
}

_MILLISECONDS: Final = re.compile(r"[0-9]{1,12}")
_MEMBERS: Final = (b'"Success"', b'"success"', b'"Code"', b'"code"')
_GOOD: Final = re.compile(rb'\s*:\s*(?:true|null|"true"|"?200"?|""|"OK"|"Success")\s*[,}]')
_XML: Final = "<{0}>([^<]*)</{0}>"


def error_fields(response: Response, /) -> tuple[str, str, str]:
    """Give (code, message, request id) of an error's body, as JSON or XML; empty texts for what can't be read."""
    if response.body.lstrip()[:1] == b"<":
        text = response.body[:20_000].decode("utf-8", "replace")
        return _xml(text, "Code"), _xml(text, "Message"), _xml(text, "RequestId")
    fields = _document(response.body)
    return _first(fields, "Code"), _first(fields, "Message"), _first(fields, "RequestId")


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = parse_json(body)
    except DecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _xml(text: str, name: str) -> str:
    found = re.search(_XML.format(name), text)
    return _shown(found[1]) if found else ""


def _first(fields: Mapping[str, Any], name: str) -> str:
    names = (name, name[0].lower() + name[1:])
    return _shown(next((fields[name] for name in names if fields.get(name) not in (None, "")), ""))


def _shown(value: object) -> str:
    return "".join([c for c in str(value)[:400] if c.isprintable()])


def classify(response: Response, /) -> ProviderError | None:
    """Give the error that an answer means, or None for a success.

    Only code, message and request id of a refusal are shown; ``AccessDeniedDetail``, which tells of accounts and
    policies, is not.
    """
    by_status = error_class(response.status)
    if by_status is None and not _may_have_failed(response.body):
        return None
    code, message, request_id = error_fields(response)
    if by_status is None and not _says_failed(response.body, code):
        return None
    cls = _by_code(code) or by_status or InvalidRequestError
    text = message.rstrip(".") or f"the service answered HTTP {response.status}"
    if cls in _ADVICE:
        text = f"{text}; {_ADVICE[cls]}"
    error = make_error(cls, text, response, code=code)
    error.request_id = request_id or response.headers.get("x-acs-request-id", "")
    hint = response.headers.get("x-acs-retry-after", "").strip()
    if isinstance(error, (ThrottledError, ServiceUnavailableError)) and _MILLISECONDS.fullmatch(hint):
        error.retry_after_s = int(hint) / 1000
    return error


def _by_code(code: str) -> type[ProviderError] | None:
    parts = code.split(".")
    for length in range(len(parts), 0, -1):
        found = CODES.get(".".join(parts[:length]))
        if found is not None:
            return found
    if code.startswith("Throttling"):
        return ThrottledError
    if len(parts) > 1 and parts[-1] == "NotFound":
        return NotFoundError
    return error_class(_NUMBERS[code]) if code in _NUMBERS else None


def _may_have_failed(body: bytes) -> bool:
    """Tell whether an answer under HTTP 200 must be looked into, by its bytes alone: most are large and good."""
    for name in _MEMBERS:
        at = body.find(name)
        while at >= 0:
            if not _GOOD.match(body, at + len(name)):
                return True
            at = body.find(name, at + 1)
    return False


def _says_failed(body: bytes, code: str) -> bool:
    """Tell whether the document itself says so, and not some member deep inside it."""
    fields = _document(body)
    success = fields.get("Success", fields.get("success"))
    return success in (False, "false") or (code not in ("", "200", "OK", "Success") and success not in (True, "true"))


def credential_rejected(response: Response, /) -> bool:
    """Tell whether a new credential may help; an answer under 200 may say so, too."""
    if response.status == 401:
        return True
    told_as_success = response.status == 200
    if response.status not in (200, 400, 403, 404) or (told_as_success and not _may_have_failed(response.body)):
        return False
    code = error_fields(response)[0]
    return code.partition(".")[0] in _REJECTED and (not told_as_success or _says_failed(response.body, code))
