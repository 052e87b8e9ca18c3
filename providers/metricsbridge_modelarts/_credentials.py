"""Two ways to prove who one is: a signature with access and secret key, or a token of IAM.

Source: IAM API reference, "Obtaining a user token through password authentication"; credential discovery of the
vendor's SDK. The account named in errors and quotas is the project, or the region where that is not known yet.
"""

from __future__ import annotations

import configparser
import json
import os
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.provider_kit import (
    AuthenticationError,
    ConfigurationError,
    Credential,
    DecodeError,
    ProviderError,
    Request,
    Secret,
    decode_json,
    parse_instant,
)
from metricsbridge_modelarts._errors import credential_rejected
from metricsbridge_modelarts._signing import DATE_FORMAT, DATE_HEADER, SigningKey, authorization

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metricsbridge.provider_kit import Authenticator, Response, Transport
    from metricsbridge_modelarts._settings import ModelArtsSettings

_PROFILE_VARIABLE: Final = "HUAWEICLOUD_SDK_CREDENTIALS_FILE"
_PROFILE: Final = "~/.huaweicloud/credentials"
_HINT: Final = (
    "set access_key and secret_key, or username, password and domain_name; or set HUAWEICLOUD_SDK_AK and "
    f"HUAWEICLOUD_SDK_SK; or write ak and sk under [basic] in {_PROFILE}"
)


@attrs.frozen(repr=False)
class KeyCredential(Credential):
    """An access key with its secret, and a security token where it is temporary."""

    secret_key: Secret
    security_token: Secret | None
    key: SigningKey = attrs.field(eq=False)


@attrs.frozen(repr=False)
class TokenCredential(Credential):
    """A token of IAM."""

    token: Secret


@attrs.frozen(repr=False)
class Keys:
    """An access key as it is found, and the project that is named beside it."""

    access_key: str
    secret_key: Secret
    security_token: Secret | None
    project_id: str | None = None


def make_authenticator(settings: ModelArtsSettings, /) -> Authenticator:
    """Choose how to authenticate by what is set.

    Raises:
        ConfigurationError: Something is set by half, or nothing is found anywhere.
    """
    account = find_project(settings) or settings.region or "huaweicloud"
    if settings.username is not None or settings.password is not None:
        project = find_project(settings)
        return make_token_authenticator(settings, {"id": project} if project else {"name": settings.region}, account)
    look_up = partial(_find_keys, settings)
    look_up()
    return KeyAuthenticator(account=account, look_up=look_up)


def make_token_authenticator(
    settings: ModelArtsSettings, project: Mapping[str, str | None], account: str, /
) -> TokenAuthenticator:
    """Log in with the password that is set, for a project by its ``id`` or ``name``.

    Raises:
        ConfigurationError: The log-in is set by half.
    """
    missing = [name for name in ("username", "password", "domain_name") if not getattr(settings, name)]
    if missing:
        raise ConfigurationError(f"a token needs username, password and domain_name: set {', '.join(missing)}")
    return TokenAuthenticator(account=account, settings=settings, iam_url=settings.iam_url(), project=project)


def find_project(settings: ModelArtsSettings, /) -> str | None:
    """Give the project's id from the settings, the environment or the profile, or None."""
    if settings.project_id:
        return settings.project_id
    if settings.access_key or settings.username:
        return None
    found = _discover()
    return found.project_id if found is not None else None


def _find_keys(settings: ModelArtsSettings) -> Keys:
    found = keys_in(settings) or _discover()
    if found is None:
        raise ConfigurationError(f"no credentials found: {_HINT}")
    return found


def keys_in(settings: ModelArtsSettings, /) -> Keys | None:
    """Give the access key that is set, or None.

    Raises:
        ConfigurationError: It is set by half.
    """
    if settings.access_key and settings.secret_key:
        return Keys(settings.access_key, settings.secret_key, settings.security_token, settings.project_id)
    if settings.access_key or settings.secret_key:
        missing = "secret_key" if settings.access_key else "access_key"
        raise ConfigurationError(f"access_key and secret_key belong together: set {missing}")
    return None


def _discover() -> Keys | None:
    """Look in the environment, then in the profile file, as the vendor's SDK does."""
    prefix = "HUAWEICLOUD_SDK_"
    environment = {
        name: os.environ.get(prefix + name.upper(), "") for name in ("ak", "sk", "security_token", "project_id")
    }
    if environment["ak"] and environment["sk"]:
        return _found(environment)
    path = Path(os.environ.get(_PROFILE_VARIABLE) or _PROFILE)
    parser = configparser.ConfigParser(interpolation=None)
    try:
        path = path.expanduser()
        parser.read_string(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, RuntimeError):  # the last: no home directory
        return None
    except (OSError, UnicodeDecodeError, configparser.Error):
        raise ConfigurationError(f"the profile file {str(path)!r} can't be read as INI: mend or remove it") from None
    if not parser.has_section("basic") or not parser.get("basic", "ak", fallback=""):
        return None
    return _found(dict(parser["basic"]))


def _found(fields: Mapping[str, str]) -> Keys:
    token = fields.get("security_token")
    return Keys(
        access_key=fields["ak"],
        secret_key=Secret(fields.get("sk", "")),
        security_token=Secret(token) if token else None,
        project_id=fields.get("project_id") or None,
    )


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime(DATE_FORMAT)


@attrs.frozen(kw_only=True)
class KeyAuthenticator:
    """Signs with an access key; obtaining looks the key up again, so that a rotated one is found."""

    account: str
    look_up: Callable[[], Keys] = attrs.field(repr=False)

    async def obtain(self, transport: Transport, now_ms: int, /) -> KeyCredential:
        """Look the key up; no request is made."""
        found = self.look_up()
        key = SigningKey.of(found.access_key, found.secret_key.reveal())
        return KeyCredential(found.secret_key, found.security_token, key)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Give the request with its signature over everything but what HTTP itself adds."""
        assert isinstance(credential, KeyCredential)
        host, _, path = request.url.partition("://")[2].partition("/")
        headers = {**request.headers, "Host": host, DATE_HEADER: _date(now_ms // 1000)}
        if credential.security_token is not None:
            headers["X-Security-Token"] = credential.security_token.reveal()
        headers["Authorization"] = authorization(
            credential.key, request.method, f"/{path}", request.params, headers, request.body
        )
        return Request(request.method, request.url, request.params, headers, request.body, request.operation)

    rejected = staticmethod(credential_rejected)


def _login(settings: ModelArtsSettings, project: Mapping[str, str | None]) -> bytes:
    """Give the body of the log-in; made here so that the password is in no frame that may fail."""
    assert settings.password is not None
    user = {
        "name": settings.username,
        "password": settings.password.reveal(),
        "domain": {"name": settings.domain_name},
    }
    identity = {"methods": ["password"], "password": {"user": user}}
    return json.dumps({"auth": {"identity": identity, "scope": {"project": dict(project)}}}).encode()


def _hide(secret: Secret | None, error: ProviderError) -> None:
    """Take a secret out of what a service said: it may have been found outside of the settings, which are scrubbed."""
    if secret:
        error.args = tuple([str(part).replace(secret.reveal(), str(secret)) for part in error.args])
        error.code = error.code.replace(secret.reveal(), str(secret))
        error.request_id = error.request_id.replace(secret.reveal(), str(secret))


def sign_with_token(request: Request, credential: Credential, /) -> Request:
    """Give the request with a token of IAM."""
    assert isinstance(credential, TokenCredential)
    return attrs.evolve(request, headers={**request.headers, "X-Auth-Token": credential.token.reveal()})


@attrs.frozen
class _Token:
    expires_at: str


@attrs.frozen
class _TokenAnswer:
    token: _Token


@attrs.frozen(kw_only=True)
class TokenAuthenticator:
    """Logs in with a password; the token is valid for a day, less when the password or permissions change."""

    account: str
    settings: ModelArtsSettings = attrs.field(repr=False)
    iam_url: str
    project: Mapping[str, str | None]

    async def obtain(self, transport: Transport, now_ms: int, /) -> TokenCredential:
        """Ask IAM for a token.

        Raises:
            AuthenticationError: The user, password or account is wrong, or the answer holds no token.
        """
        request = Request(
            "POST", f"{self.iam_url}/v3/auth/tokens", (("nocatalog", "true"),), {"Content-Type": "application/json"},
            _login(self.settings, self.project), "KeystoneCreateUserTokenByPassword",
        )  # fmt: skip
        try:
            response = await transport.send(request)
        except ProviderError as error:
            _hide(self.settings.password, error)
            raise
        token = Secret(response.headers.get("X-Subject-Token", ""))
        if not token.reveal():
            raise AuthenticationError("IAM answered without a token: check iam_endpoint", status=response.status)
        expires = decode_json(response.body, _TokenAnswer).token.expires_at
        try:
            expires_ms = parse_instant(datetime.fromisoformat(expires))
        except ValueError as error:
            raise DecodeError("the token's expires_at is no time with a zone", path="$.token.expires_at") from error
        return TokenCredential(token, expires_ms=expires_ms)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Give the request with the token."""
        return sign_with_token(request, credential)

    def rejected(self, response: Response, /) -> bool:
        """Tell whether the token was refused."""
        return credential_rejected(response)
