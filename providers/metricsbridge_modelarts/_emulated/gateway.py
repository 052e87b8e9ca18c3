"""The emulated API gateway and IAM: who may pass, and how a refusal is worded.

Sources: API Gateway user guide (signature verification, error codes ``APIGW.*``); ModelArts API reference, error codes;
IAM API reference, KeystoneCreateUserTokenByPassword and KeystoneListProjects; OpenStack Identity API v3, versions and
catalog, as OpenStack's clients ask for them.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import attrs
import msgspec
from aiohttp import web

from metricsbridge_modelarts._signing import DATE_FORMAT, Proof, SigningKey, signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aiohttp.typedefs import Handler, Middleware

REGION: Final = "emulator-1"
PROJECT_ID: Final = "0123456789abcdef0123456789abcdef"
DOMAIN: Final = "emulated-account"
DOMAIN_ID: Final = "00000000000000000000000000000d01"
USER: Final = "emulated-user"
USER_ID: Final = "00000000000000000000000000000e01"
PASSWORD: Final = "emulated-password"
ACCESS_KEY: Final = "EMULATORACCESSKEY"
SECRET_KEY: Final = "EmulatorSecretKey0000000000000000000"
TEMPORARY_ACCESS_KEY: Final = "EMULATORTEMPORARYKEY"
TEMPORARY_SECRET_KEY: Final = "EmulatorTemporarySecretKey0000000000"
SECURITY_TOKEN: Final = "emulated-security-token~/+="

SKEW_MS: Final = 15 * 60_000
"""How far ``X-Sdk-Date`` may be off."""

_OPEN: Final = frozenset({("POST", "/v3/auth/tokens"), ("GET", "/v3")})
"""What needs no proof: logging in, and finding out how."""

_IAM: Final = "Incorrect IAM authentication information: "


@attrs.frozen
class ApiError(Exception):
    """A refusal: HTTP status, the service's code, and its message."""

    status: int
    code: str
    message: str


@attrs.frozen
class _Account:
    key: SigningKey
    security_token: str | None = None


@attrs.define
class _Token:
    expires_ms: int
    in_project: bool
    revoked: bool = False


@attrs.frozen
class _Domain:
    name: str


@attrs.frozen
class _User:
    name: str
    password: str
    domain: _Domain


@attrs.frozen
class _Password:
    user: _User


@attrs.frozen
class _Identity:
    methods: list[str]
    password: _Password


@attrs.frozen
class _Project:
    id: str | None = None
    name: str | None = None


@attrs.frozen
class _Scope:
    project: _Project | None = None


@attrs.frozen
class _Auth:
    identity: _Identity
    scope: _Scope = _Scope()


@attrs.frozen
class _TokenRequest:
    auth: _Auth


def _accounts() -> dict[str, _Account]:
    return {
        ACCESS_KEY: _Account(SigningKey.of(ACCESS_KEY, SECRET_KEY)),
        TEMPORARY_ACCESS_KEY: _Account(SigningKey.of(TEMPORARY_ACCESS_KEY, TEMPORARY_SECRET_KEY), SECURITY_TOKEN),
    }


@attrs.define(eq=False)
class Gateway:
    """Checks every request, words every refusal, and gives out tokens.

    Args:
        now_ms: The emulated service's clock.
        token_life_ms: How long a token is valid.
        region: The region; its project has the same name.
        services: Service type to the path that it has here; what the catalog of a token lists beside IAM. Without any,
            tokens have no catalog.
    """

    now_ms: Callable[[], int]
    token_life_ms: int = 24 * 3_600_000
    region: str = REGION
    services: Mapping[str, str] = attrs.field(factory=dict)
    _accounts: dict[str, _Account] = attrs.field(init=False, factory=_accounts)
    _tokens: dict[str, _Token] = attrs.field(init=False, factory=dict)
    _request_ids: Iterator[int] = attrs.field(init=False, factory=lambda: count(1))

    def middleware(self) -> Middleware:
        """Give the middleware that guards all routes."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                self._authenticate(request, await request.read())
                return await handler(request)
            except ApiError as error:
                return self.refusal(error)
            except web.HTTPRequestEntityTooLarge:
                return self.refusal(ApiError(413, "APIGW.0201", "Request entity too large"))
            except web.HTTPNotFound:
                text = "The API does not exist or has not been published in the environment"
                return self.refusal(ApiError(404, "APIGW.0101", text))
            except web.HTTPMethodNotAllowed:
                return self.refusal(ApiError(405, "ModelArts.2803", "The method is not allowed."))

        return guard

    def refusal(self, error: ApiError, /, **headers: str) -> web.Response:
        """Give the answer that says so; IAM's are in Keystone's form."""
        request_id = self.new_request_id()
        content: dict[str, Any] = {"error_code": error.code, "error_msg": error.message, "request_id": request_id}
        if not error.code:
            title = {400: "Bad Request", 401: "Unauthorized"}.get(error.status, "Forbidden")
            content = {"error": {"code": error.status, "message": error.message, "title": title}}
        return json_answer(content, error.status, {"X-Request-Id": request_id, **headers})

    def new_request_id(self) -> str:
        """Give the id of one more request."""
        return f"{next(self._request_ids):032x}"

    def expire(self, request: web.Request, /) -> web.Response | None:
        """Give the answer that a token is no longer good, and hold to it; None where the request has no token."""
        token = request.headers.get("X-Auth-Token")
        if token is None:
            return None
        if token in self._tokens:
            self._tokens[token].revoked = True
        return self.refusal(ApiError(401, "APIGW.0307", "The token must be updated."))

    async def create_token(self, request: web.Request) -> web.Response:
        """Serve ``POST /v3/auth/tokens``, by password."""
        try:
            auth = msgspec.json.decode(await request.read(), type=_TokenRequest).auth
        except msgspec.DecodeError as error:
            raise ApiError(400, "", f"The request body is invalid: {error}") from error
        user, project = auth.identity.password.user, auth.scope.project
        if auth.identity.methods != ["password"]:
            raise ApiError(400, "", "The authentication method is not supported.")
        if (user.name, user.password, user.domain.name) != (USER, PASSWORD, DOMAIN):
            raise ApiError(401, "", "The username or password is wrong.")
        if project is not None and not self._has(project):
            raise ApiError(401, "", "The project is not one of the user's.")
        token = hashlib.sha256(f"token {next(self._request_ids)}".encode()).hexdigest() * 4
        now_ms = self.now_ms()
        self._tokens[token] = _Token(now_ms + self.token_life_ms, in_project=project is not None)
        domain = {"id": DOMAIN_ID, "name": DOMAIN}
        content: dict[str, Any] = {
            "methods": ["password"],
            "issued_at": _instant(now_ms),
            "expires_at": _instant(now_ms + self.token_life_ms),
            "user": {"id": USER_ID, "name": USER, "domain": domain},
        }
        if project is not None:
            content["project"] = {"id": PROJECT_ID, "name": self.region, "domain": domain}
        if self.services and "nocatalog" not in request.query:
            content["catalog"] = self._catalog(f"{request.scheme}://{request.host}")
        return json_answer({"token": content}, 201, {"X-Subject-Token": token})

    async def show_version(self, request: web.Request) -> web.Response:
        """Serve ``GET /v3``, by which OpenStack's clients find out how to log in."""
        links = [{"rel": "self", "href": f"{request.scheme}://{request.host}/v3/"}]
        return json_answer({"version": {"id": "v3.6", "status": "stable", "links": links}})

    async def list_projects(self, request: web.Request) -> web.Response:
        """Serve ``GET /v3/projects``."""
        found = request.query.get("name", self.region) == self.region
        projects = [{"id": PROJECT_ID, "name": self.region, "enabled": True}] if found else []
        return json_answer({"projects": projects, "links": {}})

    def _has(self, project: _Project) -> bool:
        return (project.id or PROJECT_ID, project.name or self.region) == (PROJECT_ID, self.region)

    def _catalog(self, url: str) -> list[dict[str, Any]]:
        """Give where each service is, as an OpenStack client reads it."""
        where = {"interface": "public", "region": self.region, "region_id": self.region}
        return [
            {"type": kind, "name": kind, "id": kind, "endpoints": [{**where, "id": kind, "url": url + path}]}
            for kind, path in {"identity": "/v3", **self.services}.items()
        ]

    def _authenticate(self, request: web.Request, body: bytes) -> None:
        if (request.method, request.path.rstrip("/")) in _OPEN:
            return
        project = request.match_info.get("project_id")
        if (token := request.headers.get("X-Auth-Token")) is not None:
            self._check_token(token, project)
        else:
            self._check_signature(request, body)
            given = request.headers.get("X-Project-Id", project)
            if project is not None and given != project:
                raise ApiError(403, "ModelArts.0210", "The project in the URL is not the request's project.")
        if project not in (None, PROJECT_ID):
            raise ApiError(403, "ModelArts.0210", "The project in the URL does not belong to the account.")

    def _check_token(self, text: str, project: str | None) -> None:
        token = self._tokens.get(text)
        if token is None:
            raise ApiError(401, "APIGW.0301", f"{_IAM}decrypt token fail")
        if token.revoked:
            raise ApiError(401, "APIGW.0307", "The token must be updated.")
        if token.expires_ms <= self.now_ms():
            raise ApiError(401, "APIGW.0301", f"{_IAM}token expires, expires_at:{_instant(token.expires_ms)}")
        if project is not None and not token.in_project:
            raise ApiError(401, "ModelArts.0212", "The token was issued without a project.")

    def _check_signature(self, request: web.Request, body: bytes) -> None:
        if "Authorization" not in request.headers:
            raise ApiError(401, "APIGW.0301", f"{_IAM}x-auth-token not found")
        proof = Proof.parse(request.headers["Authorization"])
        if proof is None:
            raise ApiError(401, "APIGW.0301", f"{_IAM}the Authorization header is malformed")
        account = self._accounts.get(proof.access_key)
        if account is None:
            raise ApiError(401, "APIGW.0301", f"{_IAM}Get secretKey failed,err:ak {proof.access_key} not exist")
        headers = {name.lower(): value for name, value in request.headers.items()}
        if not {"host", "x-sdk-date"} <= set(proof.signed) or not headers.keys() >= set(proof.signed):
            raise ApiError(401, "APIGW.0301", f"{_IAM}verify aksk signature fail, a header is not signed or missing")
        self._check_date(headers["x-sdk-date"])
        path, _, query = request.raw_path.partition("?")
        params = parse_qsl(query, keep_blank_values=True)
        expected = signature(account.key, request.method, path, params, headers, proof.signed, body)
        if not hmac.compare_digest(expected.encode(), proof.signature.encode("utf-8", "surrogateescape")):
            raise ApiError(401, "APIGW.0301", f"{_IAM}verify aksk signature fail")
        if headers.get("x-security-token") != account.security_token:
            raise ApiError(401, "APIGW.0301", f"{_IAM}the security token does not belong to the ak")

    def _check_date(self, text: str) -> None:
        try:
            signed_ms = datetime.strptime(text.strip(), DATE_FORMAT).replace(tzinfo=UTC).timestamp() * 1000
        except ValueError as error:
            raise ApiError(401, "APIGW.0301", f"{_IAM}X-Sdk-Date is malformed") from error
        if abs(signed_ms - self.now_ms()) > SKEW_MS:
            raise ApiError(401, "APIGW.0301", f"{_IAM}verify aksk signature fail, the signature has expired")


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Give an answer with a JSON body."""
    return web.Response(
        status=status, headers=headers, body=msgspec.json.encode(content), content_type="application/json"
    )


def _instant(time_ms: int) -> str:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
