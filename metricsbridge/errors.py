"""Every error of the library, split by what a caller does about it.

::

    MetricsBridgeError
    ├── ConfigurationError             a setting is missing, unknown or malformed: mend the settings
    ├── ProviderNotFoundError          no installed package offers that provider: install one, or mend the name
    ├── ProviderLoadError              the provider's package fails to import: mend the installation
    └── ProviderError                  one piece of work at a provider failed
        ├── AuthenticationError        the credentials are wrong, expired or missing
        ├── PermissionDeniedError      the credentials are right and may not do this
        ├── NotFoundError              the job, task or source does not exist
        ├── InvalidRequestError        the vendor, or we before sending, refuse what was asked
        ├── ThrottledError             too many requests
        ├── ServiceUnavailableError    the vendor's side fails
        ├── TransportError             the network fails before a whole answer is there
        │   └── TlsError               no trusted connection can be made
        ├── DeadlineExceededError      the caller's deadline passed first
        ├── ResponseTooLargeError      the answer is larger than ``max_body``
        ├── DecodeError                the answer is not what the vendor documents
        └── PartialDataError           some of the answer arrived, the rest is named

========================================  =========================  ========
cause                                     class                      retried?
========================================  =========================  ========
HTTP 401                                  AuthenticationError        no, after one refresh of the credential
HTTP 403                                  PermissionDeniedError      no
HTTP 404, 410                             NotFoundError              no
other HTTP 4xx, a redirect, a bad id      InvalidRequestError        no
HTTP 429, a vendor's throttle code        ThrottledError             yes, after the wait that the server asks for
HTTP 408, 5xx                             ServiceUnavailableError    yes
refused, reset, cut off, timed out        TransportError             yes
certificate or handshake refused          TlsError                   no
deadline of the whole collection          DeadlineExceededError      no
more bytes than ``max_body``              ResponseTooLargeError      no
malformed or unexpected body              DecodeError                no
========================================  =========================  ========

A provider's ``classify`` may decide otherwise for its vendor's codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricsbridge.model import Failure
    from metricsbridge.series.columns import SeriesBatch


class MetricsBridgeError(Exception):
    """The root of every error that the library raises on purpose."""


class ConfigurationError(MetricsBridgeError):
    """A setting is missing, unknown or malformed."""


class ProviderNotFoundError(MetricsBridgeError):
    """No installed package offers a provider of that name."""


class ProviderLoadError(MetricsBridgeError):
    """The package of a provider is installed but can't be used."""


class ProviderError(MetricsBridgeError):
    """One piece of work at a provider failed.

    Attributes:
        provider: Name of the provider, as in its entry point.
        operation: The vendor's name of the API call.
        status: HTTP status of the answer, or None where there was none.
        code: The vendor's own error code, or "".
        request_id: The vendor's id of the request, for its support, or "".
        attempts: How often the call was tried.
    """

    retried: ClassVar[bool] = False
    provider: str = ""  # defaults for a subclass whose constructor forgets to call this one
    operation: str = ""
    status: int | None = None
    code: str = ""
    request_id: str = ""
    attempts: int = 1

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        operation: str = "",
        status: int | None = None,
        code: str = "",
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.operation = operation
        self.status = status
        self.code = code
        self.request_id = request_id
        self.attempts = 1

    @property
    def message(self) -> str:
        """What happened, without where."""
        return str(self.args[0]) if self.args else type(self).__name__

    def __str__(self) -> str:
        where = [
            " ".join(part for part in (self.provider, self.operation) if part),
            f"HTTP {self.status}" if self.status is not None else "",
            self.code,
            f"request {self.request_id}" if self.request_id else "",
            f"{self.attempts} attempts" if self.attempts > 1 else "",
        ]
        detail = ", ".join(part for part in where if part)
        return f"{self.message} [{detail}]" if detail else self.message


class AuthenticationError(ProviderError):
    """The credentials are wrong, expired or missing."""


class PermissionDeniedError(ProviderError):
    """The credentials are right and may not do this."""


class NotFoundError(ProviderError):
    """The job, task or resource does not exist."""


class InvalidRequestError(ProviderError):
    """What was asked is refused, by the vendor or before it was sent."""


class _WaitHintError(ProviderError):
    """A failure that passes, with the wait that the server asks for."""

    retried = True

    def __init__(self, message: str, *, retry_after_s: float | None = None, **where: object) -> None:
        super().__init__(message, **where)  # type: ignore[arg-type]  # the keywords of ProviderError
        self.retry_after_s = retry_after_s


class ThrottledError(_WaitHintError):
    """Too many requests; ``retry_after_s`` is the wait in seconds that the server asks for, or None."""


class ServiceUnavailableError(_WaitHintError):
    """The vendor's side fails; ``retry_after_s`` is the wait in seconds that the server asks for, or None."""


class TransportError(ProviderError):
    """The network fails before a whole answer is there."""

    retried = True


class TlsError(TransportError):
    """No trusted connection can be made."""

    retried = False


class DeadlineExceededError(ProviderError):
    """The caller's deadline passed first; ``__cause__`` is the failure of the last attempt, if there was one."""


class ResponseTooLargeError(ProviderError):
    """The answer, after decompression, is larger than ``max_body``."""


class DecodeError(ProviderError):
    """The answer is not what the vendor documents.

    Attributes:
        path: Where the bad field is, such as ``$.metrics[0].value[3]``, or "".
        offset: At which byte of the answer that is, or malformed JSON breaks; None where that is not known.
    """

    def __init__(self, message: str, *, path: str = "", offset: int | None = None, **where: object) -> None:
        super().__init__(message, **where)  # type: ignore[arg-type]  # the keywords of ProviderError
        self.path = path
        self.offset = offset


class PartialDataError(ProviderError):
    """Some of the answer arrived: ``series`` is kept, ``lost`` names the rest, one Failure for each reason."""

    def __init__(self, message: str, *, series: SeriesBatch, lost: Sequence[Failure], **where: object) -> None:
        super().__init__(message, **where)  # type: ignore[arg-type]  # the keywords of ProviderError
        self.series = series
        self.lost = tuple(lost)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_partial, (type(self), self.args[0], self.__dict__))


def _rebuild_partial(cls: type[PartialDataError], message: str, state: dict[str, object]) -> PartialDataError:
    error = cls.__new__(cls, message)
    error.__dict__.update(state)
    return error
