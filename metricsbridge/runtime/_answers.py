"""Answers that say "failed", as errors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from metricsbridge.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricsbridge.errors import ProviderError
    from metricsbridge.http import Request, Response
    from metricsbridge.protocols import Transport
    from metricsbridge.runtime._credentials import CredentialStore, Scrubber


def refusal(
    error: ProviderError | None, request: Request, response: Response, scrubber: CredentialStore | Scrubber | None, /
) -> ProviderError:
    """Give the error of an answer that is none of success, without secrets.

    Args:
        error: What the provider takes it for; None where that is left to the status, which is a redirect's.
        request: What was sent.
        response: The answer.
        scrubber: Takes secrets out of texts.
    """
    if error is None or 300 <= response.status < 400:
        host = _host(response.headers.get("Location", "")) or "an unnamed place"
        text = f"{request.host} redirects to {host}, which is refused: set the endpoint to where the service really is"
        error = InvalidRequestError(text, status=response.status)
    error.request_id = error.request_id or response.headers.get("X-Request-Id", "")
    if scrubber is not None:
        error.args = (scrubber.scrub(error.message), *error.args[1:])
        error.code, error.request_id = scrubber.scrub(error.code), scrubber.scrub(error.request_id)
    return error


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


@attrs.frozen
class ClassifyTransport:
    """Turns an answer that says "failed" into an error: of a log-in, which nothing signs."""

    inner: Transport
    classify: Callable[[Response], ProviderError | None]
    store: CredentialStore | Scrubber | None = None

    async def send(self, request: Request, /) -> Response:
        """Send, and raise what the answer means."""
        response = await self.inner.send(request)
        error = self.classify(response)
        if error is None and not 300 <= response.status < 400:
            return response
        raise refusal(error, request, response, self.store)
