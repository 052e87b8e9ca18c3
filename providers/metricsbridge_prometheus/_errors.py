"""What an answer of the API, or of a proxy before it, means.

Sources: Prometheus' HTTP API, "Format overview"; its source for the status of each ``errorType``; Mimir's and Thanos'
additions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from metricsbridge.provider_kit import (
    AuthenticationError,
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    ServiceUnavailableError,
    ThrottledError,
    error_class,
    make_error,
    parse_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.provider_kit import Response

ERROR_TYPES: Final[Mapping[str, type[ProviderError]]] = {
    "bad_data": InvalidRequestError,
    "execution": InvalidRequestError,  # too many samples, labels that do not match: the same again
    "timeout": ServiceUnavailableError,
    "canceled": ServiceUnavailableError,
    "internal": ServiceUnavailableError,
    "unavailable": ServiceUnavailableError,
    "not_found": NotFoundError,
    "not_acceptable": InvalidRequestError,
    "too_many_requests": ThrottledError,
    "too_large_entry": InvalidRequestError,
}
"""``errorType`` to what it means, whatever the status."""

_ADVICE: Final[Mapping[type[ProviderError], str]] = {
    AuthenticationError: "check bearer_token, or username and password",
    PermissionDeniedError: "the account may not read this: check its rights, tenant and tenant_header",
    NotFoundError: "check url: it ends before /api/v1",
    ThrottledError: "lower the rate with limits",
}
_LARGE: Final = "ask less at once: fewer tasks, a shorter window or a longer step"

_SAYS_FAILED: Final = b'{"status":"error"'


def shown(text: object, /) -> str:
    """Give a service's own words in one line of bounded length."""
    return " ".join("".join([sign if sign.isprintable() else " " for sign in str(text)[:400]]).split())


def error_fields(response: Response, /) -> tuple[str, str]:
    """Give (errorType, error) of an error's body; empty texts for what is none of this API."""
    try:
        document = parse_json(response.body)
    except DecodeError:
        return "", ""
    fields: dict[str, Any] = document if isinstance(document, dict) else {}
    return shown(fields.get("errorType") or ""), shown(fields.get("error") or fields.get("message") or "")


def classify(response: Response, /) -> ProviderError | None:
    """Give the error that an answer means, or None for a success."""
    by_status = error_class(response.status)
    if by_status is None and not response.body.startswith(_SAYS_FAILED):
        return None
    kind, message = error_fields(response)
    cls = ERROR_TYPES.get(kind) or by_status or InvalidRequestError
    text = message.rstrip(".") or f"the service answered HTTP {response.status}"
    if "too many samples" in message:
        text = f"{text}; {_LARGE}"
    elif cls in _ADVICE:
        text = f"{text}; {_ADVICE[cls]}"
    return make_error(cls, text, response, code=kind)
