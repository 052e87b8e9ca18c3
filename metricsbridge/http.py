"""What a provider sends and receives: plain values, with no connection behind them."""

from __future__ import annotations

import re
from contextvars import ContextVar
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

import attrs
import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from metricsbridge.errors import (
    AuthenticationError,
    ConfigurationError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    ServiceUnavailableError,
    ThrottledError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

T = TypeVar("T")
P = ParamSpec("P")

ANSWERED: Final[ContextVar[tuple[str, str]]] = ContextVar("metricsbridge_answered", default=("", ""))
"""Which provider got the latest answer here, and of which operation: an error says it that decoding meets."""

NO_HEADERS: Final[Mapping[str, str]] = CIMultiDictProxy(CIMultiDict())

_PLAIN = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*")
"""An id that needs no check and no encoding; it begins with no dot."""

_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*")
"""A text that no encoding changes."""


def encode(text: str, /) -> str:
    """Percent-encode everything but RFC 3986's unreserved characters, as UTF-8.

    Raises:
        InvalidRequestError: The text has half of a surrogate pair, which no encoding of text can hold.
    """
    if _UNRESERVED.fullmatch(text):
        return text
    try:
        return quote(text, safe="-_.~")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{text!r} can't be written as UTF-8") from error


def check_id(value: str, what: str = "id", /) -> str:
    """Give an id back if it can stand in a URL's path, else refuse it.

    ``.`` and ``..`` are refused even though they could be written percent-encoded: URL libraries and gateways collapse
    them, so that another resource would be asked for.

    Raises:
        InvalidRequestError: The id is empty, ``.``, ``..``, or has control characters.
    """
    if value in ("", ".", "..") or not value.isprintable():
        raise InvalidRequestError(f"{value!r} is no {what}: it may not be empty, '.', '..' or have control characters")
    return value


def check_url(setting: str, url: str, /) -> str:
    """Give the URL of an endpoint without a slash at its end; a bare host gets ``https://``.

    Raises:
        ConfigurationError: It has another scheme, or no host, or more than host, port and path.
    """
    full = url if "://" in url else f"https://{url}"
    try:
        parts = urlsplit(full)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not full.isprintable() or any(sign in full for sign in " @?#"):
        raise ConfigurationError(
            f"{setting}: write a URL such as https://host, without user, password, query and fragment"
        )
    return full.rstrip("/")


@lru_cache(maxsize=1024)  # the ids of a job and of its tasks come again and again
def path_segment(value: str, what: str = "id", /) -> str:
    """Give an id as one percent-encoded segment of a URL's path.

    Raises:
        InvalidRequestError: As ``check_id``.
    """
    if _PLAIN.fullmatch(value):
        return value
    return encode(check_id(value, what))


def encode_query(params: Iterable[tuple[str, str]], /) -> str:
    """Give the query of a URL, in the order given, so that what is signed is what is sent."""
    return "&".join([f"{encode(name)}={encode(value)}" for name, value in params])


@attrs.frozen(repr=False)
class Request:
    """One HTTP request.

    Attributes:
        method: In upper case.
        url: Absolute, its path percent-encoded, without a query.
        params: The query as pairs of plain text; a name may recur.
        headers: Names with values; the transport adds only what HTTP itself needs.
        body: The bytes to send; empty for none.
        operation: The vendor's name of the API call: what limits and reports go by.
        most_attempts: It is tried so often at most, for what one can do without; None leaves that to the library.
    """

    method: str
    url: str
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    operation: str = ""
    most_attempts: int | None = attrs.field(default=None, kw_only=True)

    @property
    def full_url(self) -> str:
        """The URL as it goes on the wire, query included."""
        return f"{self.url}?{encode_query(self.params)}" if self.params else self.url

    @property
    def host(self) -> str:
        """The host, with the port where the URL names one."""
        return self.url.partition("://")[2].partition("/")[0].rpartition("@")[2]  # never a password

    def __repr__(self) -> str:  # headers, parameters and body may hold secrets
        return f"Request({self.method} {self.url}, operation={self.operation!r})"


class Response(msgspec.Struct, frozen=True, gc=False):
    """One whole HTTP answer.

    Attributes:
        status: The HTTP status.
        headers: Looked up without regard to case.
        body: The bytes, decompressed.
        received_ms: When it was received, in milliseconds since the epoch.
        in_thread: Does work in a thread: set by the transport where the body is so large that decoding it would hold up
            everything else.
    """

    status: int
    headers: Mapping[str, str] = NO_HEADERS
    body: bytes = b""
    received_ms: int = 0
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.headers, CIMultiDictProxy):
            msgspec.structs.force_setattr(self, "headers", CIMultiDictProxy(CIMultiDict(self.headers)))

    async def decoded(self, decode: Callable[Concatenate[bytes, P], T], /, *args: P.args, **more: P.kwargs) -> T:
        """Give what a decoder makes of the body; for a large one it works in a thread, while the event loop goes on.

        Args:
            decode: Takes the body and the other arguments; pure, and should do all of the work that grows with the
                body.
            args: Handed on.
            more: Handed on.

        Raises:
            ProviderError: What the decoder raises; it says whose answer it was.
        """
        try:
            if self.in_thread is None:
                return decode(self.body, *args, **more)
            result: T = await self.in_thread(partial(decode, self.body, *args, **more))
        except ProviderError as error:
            provider, operation = ANSWERED.get()
            error.provider, error.operation = error.provider or provider, error.operation or operation
            raise
        return result

    def __repr__(self) -> str:  # a header may carry a token
        return f"Response({self.status}, {len(self.body)} bytes)"


_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")


def retry_after_s(response: Response, /) -> float | None:
    """Give the seconds that ``Retry-After`` asks to wait (a number or an HTTP date, RFC 9110 section 10.2.3)."""
    text = response.headers.get("Retry-After", "").strip()
    if not text:
        return None
    try:
        return float(text) if _SECONDS.fullmatch(text) else _until(text, response)
    except (ValueError, OverflowError):
        return None


def _until(text: str, response: Response) -> float:
    sent = response.headers.get("Date")
    now_s = _instant_s(sent) if sent else response.received_ms / 1000
    return max(0.0, _instant_s(text) - now_s)


def _instant_s(http_date: str) -> float:
    instant = parsedate_to_datetime(http_date)  # without a zone in the obsolete forms: HTTP dates are in UTC
    return (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).timestamp()


_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    410: NotFoundError,
    408: ServiceUnavailableError,
    429: ThrottledError,
}


def error_class(status: int, /) -> type[ProviderError] | None:
    """Give the class of error that an HTTP status means, or None for a success."""
    if status < 300:
        return None
    default = ServiceUnavailableError if status >= 500 else InvalidRequestError
    return _BY_STATUS.get(status, default)


def make_error(cls: type[ProviderError], message: str, response: Response, /, *, code: str = "") -> ProviderError:
    """Make an error of that class, with the wait hint where the class carries one."""
    if issubclass(cls, (ThrottledError, ServiceUnavailableError)):
        return cls(message, status=response.status, code=code, retry_after_s=retry_after_s(response))
    return cls(message, status=response.status, code=code)


def classify_by_status(response: Response, /) -> ProviderError | None:
    """Give the error that the HTTP status means, or None for a success: the default ``ProviderSpec.classify``."""
    cls = error_class(response.status)
    return None if cls is None else make_error(cls, f"the service answered HTTP {response.status}", response)
