"""The emulated front of Alibaba Cloud's OpenAPI: who may pass, and how a refusal is worded.

Sources: Alibaba Cloud OpenAPI guide, "Request structure and signature V3" and the common error codes; PAI-DLC API
reference, GetToken. The documents name no HTTP status for most codes: 400 is taken where nothing says otherwise.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter, deque
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

import attrs
import msgspec
from aiohttp import web

from metricsbridge.testing.faults import operation_of
from metricsbridge_pai._signing import DATE_FORMAT, Proof, SigningKey, content_hash, signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aiohttp.typedefs import Handler, Middleware

REGION: Final = "cn-emulator"
USER_ID: Final = "1234567890123456"
USER_NAME: Final = "emulated-user"
ACCESS_KEY_ID: Final = "EMULATORACCESSKEYID"
ACCESS_KEY_SECRET: Final = "EmulatorAccessKeySecret0000000"
TEMPORARY_ACCESS_KEY_ID: Final = "STS.EMULATORACCESSKEYID"
TEMPORARY_ACCESS_KEY_SECRET: Final = "EmulatorTemporaryKeySecret0000"

CLOUDMONITOR_VERSION: Final = "2019-01-01"
CLOUDMONITOR: Final = frozenset(
    {
        "DescribeMetricList",
        "DescribeMetricLast",
        "DescribeMetricData",
        "DescribeMetricMetaList",
        "Cursor",
        "BatchExport",
    }
)
"""The actions of CloudMonitor; all others are PAI-DLC's."""

DLC_VERSION: Final = "2020-12-03"
SHARED: Final = frozenset({"GetJob", "GetJobMetrics", "GetMetrics"})
"""What a share token opens. PAI-DLC documents the parameter for the last two, and nothing about its scope."""

SKEW_MS: Final = 15 * 60_000
"""How far ``x-acs-date`` may be off, and how long a nonce is remembered."""

_SECURITY_TOKEN: Final = "CAISemulated~/+="
_PROOF: Final = ("host", "x-acs-action", "x-acs-version", "x-acs-date", "x-acs-signature-nonce", "x-acs-content-sha256")


def security_token(number: int = 0, /) -> str:
    """Give the text of a security token: every number is a token that STS has given out for the temporary key."""
    return f"{_SECURITY_TOKEN}{number}"


@attrs.frozen
class ApiError(Exception):
    """A refusal: HTTP status, the service's code, its message, and headers that go with it."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class _ShareToken:
    job_id: str
    expires_ms: int


def _keys() -> dict[str, SigningKey]:
    pairs = {ACCESS_KEY_ID: ACCESS_KEY_SECRET, TEMPORARY_ACCESS_KEY_ID: TEMPORARY_ACCESS_KEY_SECRET}
    return {key_id: SigningKey.of(key_id, secret) for key_id, secret in pairs.items()}


@attrs.define(eq=False)
class Gateway:
    """Checks every request, words every refusal, and gives out share tokens.

    Args:
        now_ms: The emulated service's clock.
        security_token_expires_ms: When the security tokens expire, ms since the epoch; None for never.
        calls_per_s: So many calls of one operation are let through in a second; None for any number.
        throttled: The refusal of the others.
        refused_in_body: Whether CloudMonitor answers HTTP 200 and says in the body that the call failed.
    """

    now_ms: Callable[[], int]
    security_token_expires_ms: int | None
    calls_per_s: int | None
    throttled: ApiError
    refused_in_body: bool
    _keys: dict[str, SigningKey] = attrs.field(init=False, factory=_keys)
    _nonces: dict[tuple[str, str], int] = attrs.field(init=False, factory=dict)
    _forget: deque[tuple[int, tuple[str, str]]] = attrs.field(init=False, factory=deque)
    _revoked: set[str] = attrs.field(init=False, factory=set)
    _shared: dict[str, _ShareToken] = attrs.field(init=False, factory=dict)
    _second: int = attrs.field(init=False, default=0)
    _calls: Counter[str] = attrs.field(init=False, factory=Counter)
    _request_ids: Iterator[int] = attrs.field(init=False, factory=lambda: count(1))

    def middleware(self) -> Middleware:
        """Give the middleware that guards all routes."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                self._authenticate(request, await request.read())
                self._count(operation_of(request))
            except ApiError as error:
                return self.refusal(request, error)
            try:
                return await handler(request)
            except ApiError as error:
                in_body = self.refused_in_body and operation_of(request) in CLOUDMONITOR | {"GetMetrics"}
                return self.refusal(request, error, in_body=in_body)
            except web.HTTPRequestEntityTooLarge:
                return self.refusal(request, ApiError(413, "RequestEntityTooLarge", "The request body is too large."))

        return guard

    def refusal(self, request: web.Request, error: ApiError, /, *, in_body: bool = False) -> web.Response:
        """Give the answer that says so; ``in_body`` is CloudMonitor's way, under HTTP 200."""
        content: dict[str, Any] = {"RequestId": self.request_id(), "Code": error.code, "Message": error.message}
        if in_body:
            return json_answer({**content, "Success": False})
        return json_answer({**content, "HostId": request.host}, error.status, error.headers)

    def answer(self, content: Mapping[str, Any], /) -> web.Response:
        """Give an answer with a request id."""
        return json_answer({**content, "RequestId": self.request_id()})

    def request_id(self) -> str:
        """Give the next request's id."""
        return str(UUID(int=next(self._request_ids), version=4)).upper()

    def expire(self, request: web.Request, /) -> web.Response | None:
        """Give the answer that a security token is no longer good, and hold to it; None where the request has none."""
        token = request.headers.get("x-acs-security-token")
        if token is None:
            return None
        self._revoked.add(token)
        return self.refusal(request, _expired())

    def share(self, job_id: str, life_s: int, /) -> str:
        """Give a share token for a job; "" is all jobs."""
        token = hashlib.sha256(f"share {next(self._request_ids)}".encode()).hexdigest()
        self._shared[token] = _ShareToken(job_id, self.now_ms() + life_s * 1000)
        return token

    def _authenticate(self, request: web.Request, body: bytes) -> None:
        operation = operation_of(request)
        if not operation:
            raise ApiError(
                404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."
            )
        proof = request.headers.get("Authorization")
        token = request.query.get("Token")
        if proof is None and token is not None and operation in SHARED:
            self._check_share(token, request.match_info.get("job_id") or request.query.get("JobId", ""))
            return
        headers = {name.lower(): value for name, value in request.headers.items()}
        missing = [name for name in ("authorization", *_PROOF) if name not in headers]
        if missing:
            raise ApiError(400, "MissingParameter", f"The header {missing[0]} is mandatory for this action.")
        if headers["x-acs-action"] != operation:
            text = f"Specified api is not found: {headers['x-acs-action']} has another url or method."
            raise ApiError(404, "InvalidAction.NotFound", text)
        if headers["x-acs-version"] != (CLOUDMONITOR_VERSION if operation in CLOUDMONITOR else DLC_VERSION):
            raise ApiError(400, "InvalidVersion", "Specified parameter Version is not valid.")
        self._check_signature(request, headers, body)

    def _count(self, operation: str) -> None:
        second = self.now_ms() // 1000
        if second != self._second:
            self._second = second
            self._calls.clear()
        self._calls[operation] += 1
        if self.calls_per_s is not None and self._calls[operation] > self.calls_per_s:
            raise self.throttled

    def _check_share(self, text: str, job_id: str) -> None:
        token = self._shared.get(text)
        if token is None or token.expires_ms <= self.now_ms() or token.job_id not in ("", job_id):
            raise ApiError(403, "NoPermission", "The token is invalid or has expired, or is another job's.")

    def _check_signature(self, request: web.Request, headers: Mapping[str, str], body: bytes) -> None:
        proof = Proof.parse(headers["authorization"])
        if proof is None:
            raise ApiError(400, "IncompleteSignature", "The request signature does not conform to the standards.")
        key = self._keys.get(proof.access_key_id)
        if key is None:
            raise ApiError(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")
        self._check_date(headers["x-acs-date"])
        needed = {name for name in headers if name.startswith("x-acs-")} | {"host"}
        needed |= {"content-type"} & headers.keys() if body else set()
        unsigned = needed - set(proof.signed)
        if unsigned or not headers.keys() >= set(proof.signed):
            raise ApiError(400, "SignatureDoesNotMatch", f"Not signed, or signed and missing: {sorted(unsigned)}.")
        if headers["x-acs-content-sha256"].strip() != content_hash(body):
            raise ApiError(400, "SignatureDoesNotMatch", "The body is not the one whose hash is signed.")
        path, _, query = request.raw_path.partition("?")
        params = parse_qsl(query, keep_blank_values=True)
        expected = signature(key, request.method, path, params, headers, proof.signed)
        if not hmac.compare_digest(expected.encode(), proof.signature.encode("utf-8", "surrogateescape")):
            text = "Specified signature is not matched with our calculation."
            raise ApiError(400, "SignatureDoesNotMatch", text)
        self._check_security_token(proof.access_key_id, headers)
        self._check_nonce((proof.access_key_id, headers["x-acs-signature-nonce"]))

    def _check_date(self, text: str) -> None:
        try:
            signed_ms = datetime.strptime(text.strip(), DATE_FORMAT).replace(tzinfo=UTC).timestamp() * 1000
        except ValueError as error:
            raise ApiError(400, "InvalidTimeStamp.Format", "Specified time stamp is not well formatted.") from error
        if abs(signed_ms - self.now_ms()) > SKEW_MS:
            raise ApiError(400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")

    def _check_security_token(self, key_id: str, headers: Mapping[str, str]) -> None:
        token = headers.get("x-acs-security-token", "").strip()
        if headers.get("x-acs-accesskey-id", key_id).strip() != key_id or (token and key_id == ACCESS_KEY_ID):
            text = "Specified security token does not belong to the access key."
            raise ApiError(400, "InvalidSecurityToken.MismatchWithAccessKey", text)
        if key_id == ACCESS_KEY_ID:
            return
        if not token:
            raise ApiError(400, "MissingSecurityToken", "SecurityToken is mandatory for this action.")
        number = token.removeprefix(_SECURITY_TOKEN)
        if not number.isdecimal() or token != security_token(int(number)):
            raise ApiError(400, "InvalidSecurityToken.Malformed", "Specified security token is malformed.")
        expires_ms = self.security_token_expires_ms
        if token in self._revoked or (expires_ms is not None and expires_ms <= self.now_ms()):
            raise _expired()

    def _check_nonce(self, nonce: tuple[str, str]) -> None:
        now_ms = self.now_ms()
        while self._forget and self._forget[0][0] <= now_ms:
            del self._nonces[self._forget.popleft()[1]]
        if nonce in self._nonces:
            raise nonce_used()
        # A request may be signed for a time so far ahead, and would pass so long behind it.
        self._nonces[nonce] = now_ms + 2 * SKEW_MS
        self._forget.append((now_ms + 2 * SKEW_MS, nonce))


def _expired() -> ApiError:
    return ApiError(400, "InvalidSecurityToken.Expired", "Specified SecurityToken is expired.")


def nonce_used() -> ApiError:
    """Give the refusal of a nonce that was seen before."""
    return ApiError(400, "SignatureNonceUsed", "Specified signature nonce was used already.")


def invalid(message: str, /) -> ApiError:
    """Give the refusal of a parameter."""
    return ApiError(400, "InvalidParameter", message)


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Give an answer with a JSON body."""
    return web.Response(
        status=status, headers=headers, body=msgspec.json.encode(content), content_type="application/json"
    )
