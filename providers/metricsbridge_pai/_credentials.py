"""How requests are signed, and where the key is looked for.

Source: Alibaba Cloud SDK guide, "Manage access credentials" (the default chain; of its files only the modes that need
no other service). Nothing is asked over the network: a rotated temporary key is found where the last one was.
"""

from __future__ import annotations

import configparser
import json
import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.provider_kit import ConfigurationError, Credential, Request, Secret
from metricsbridge_pai._errors import credential_rejected
from metricsbridge_pai._operations import GET_JOB, GET_JOB_METRICS, GET_METRICS, version_of
from metricsbridge_pai._signing import DATE_FORMAT, SigningKey, authorization, content_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.provider_kit import Authenticator, Response, Transport
    from metricsbridge_pai._settings import PaiSettings

_PREFIX: Final = "ALIBABA_CLOUD_"
_CLI_FILE: Final = "~/.aliyun/config.json"
_FILES: Final = ("~/.alibabacloud/credentials.ini", "~/.alibabacloud/credentials")
_CLI_MODES: Final[Mapping[str, bool]] = {"AK": False, "StsToken": True}
_FILE_TYPES: Final[Mapping[str, bool]] = {"access_key": False, "sts": True}
"""What may stand in the files, and whether a security token belongs to it."""

_SHARED: Final = frozenset({GET_JOB, GET_JOB_METRICS, GET_METRICS})
"""What a share token may open; PAI-DLC documents the parameter for the last two."""

_HINT: Final = (
    "set access_key_id and access_key_secret; or set ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET; "
    f"or write a profile into {_CLI_FILE} or {_FILES[0]}"
)


@attrs.frozen(repr=False)
class KeyCredential(Credential):
    """An access key with its secret, and a security token where it is temporary."""

    access_key_id: str
    access_key_secret: Secret
    security_token: Secret | None
    share_token: Secret | None  # not signed with: here so that it is taken out of texts
    key: SigningKey = attrs.field(eq=False)


@attrs.frozen(repr=False)
class ShareCredential(Credential):
    """A share token alone."""

    share_token: Secret | None


@attrs.frozen(repr=False)
class _Found:
    access_key_id: str
    access_key_secret: Secret
    security_token: Secret | None


def make_authenticator(settings: PaiSettings, /) -> Authenticator:
    """Choose how to authenticate: by a key, or by a share token alone where there is no key.

    Raises:
        ConfigurationError: Something is set by half, or nothing is found anywhere.
    """
    found = _find_key(settings)
    if found is None and settings.share_token is None:
        raise ConfigurationError(f"no credentials found{_sought()}: {_HINT}")
    account = found.access_key_id if found is not None else settings.region or "shared"
    return KeyAuthenticator(account=account, settings=settings)


def _find_key(settings: PaiSettings) -> _Found | None:
    if settings.access_key_id and settings.access_key_secret:
        return _Found(settings.access_key_id, settings.access_key_secret, settings.security_token)
    if settings.access_key_id or settings.access_key_secret or settings.security_token:
        names = ("access_key_id", "access_key_secret")
        missing = " and ".join([name for name in names if not getattr(settings, name)])
        raise ConfigurationError(f"access_key_id and access_key_secret belong together: set {missing}")
    for look in (_from_environment, _from_cli_file, _from_credentials_file):
        found = look()
        if isinstance(found, str):
            if look is not _from_environment and settings.share_token is not None:
                continue  # a file that others use is no hindrance where no key is needed
            raise ConfigurationError(found)  # here, where no frame holds what stands in a file
        if found is not None:
            return found
    return None


def _sought() -> str:
    """Name the profile and the file that the environment chooses, for the message that nothing was found."""
    chosen = [(name, os.environ.get(name)) for name in (f"{_PREFIX}PROFILE", f"{_PREFIX}CREDENTIALS_FILE")]
    named = " and ".join([f"{name}={value!r}" for name, value in chosen if value])
    return f" for {named}" if named else ""


def _from_environment() -> _Found | str | None:
    """Give the key in the environment, or what is wrong with it; None for neither."""
    names = [_PREFIX + name for name in ("ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN")]
    missing = [name for name in names[:2] if not os.environ.get(name)]
    if len(missing) == 1:
        return f"half a key is in the environment: set {missing[0]} too, or unset the other half"
    return _found(*[os.environ.get(name) for name in names])


def _found(key_id: object, secret: object, token: object) -> _Found | None:
    if not (isinstance(key_id, str) and isinstance(secret, str) and key_id and secret):
        return None
    return _Found(key_id, Secret(secret), Secret(token) if isinstance(token, str) and token else None)


def _profile() -> str:
    return os.environ.get(f"{_PREFIX}PROFILE", "")


def _from_cli_file() -> _Found | str | None:
    """Give what the file of the vendor's command line holds, or what is wrong with it; None for neither."""
    if os.environ.get(f"{_PREFIX}CLI_PROFILE_DISABLED", "").lower() in ("true", "1"):
        return None
    try:
        document = json.loads(_read(_CLI_FILE) or b"{}")
    except (OSError, ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return f"{_CLI_FILE!r} can't be read as JSON: mend or remove it"
    name, profiles = _profile() or document.get("current") or "default", document.get("profiles")
    for fields in profiles if isinstance(profiles, list) else ():
        if isinstance(fields, dict) and fields.get("name") == name:
            renamed = {**fields, "security_token": fields.get("sts_token")}
            return _profile_key(renamed, "mode", _CLI_MODES, f"profile {name!r} of {_CLI_FILE!r}")
    return None


def _from_credentials_file() -> _Found | str | None:
    """Give what the vendor's SDKs' own file holds, or what is wrong with it; None for neither."""
    named = os.environ.get(f"{_PREFIX}CREDENTIALS_FILE")
    name = _profile() or "default"
    for place in (named,) if named else _FILES:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string((_read(place) or b"").decode())
        except (OSError, UnicodeDecodeError, configparser.Error):
            return f"{place!r} can't be read as INI: mend or remove it"
        if parser.has_section(name):
            return _profile_key(parser[name], "type", _FILE_TYPES, f"section [{name}] of {place!r}")
    return None


def _profile_key(fields: Mapping[str, Any], member: str, known: Mapping[str, bool], where: str) -> _Found | str:
    """Give the key that a profile holds, or what is wrong with it."""
    mode = str(fields.get(member))
    needs_token = known.get(mode)
    if needs_token is None:
        return (
            f"{where} has {member} {mode!r}: {' and '.join(known)} are supported; choose another profile with "
            f"{_PREFIX}PROFILE, or pass a key in the settings or the environment"
        )
    token = fields.get("security_token") if needs_token else None
    found = _found(fields.get("access_key_id"), fields.get("access_key_secret"), token)
    if found is None or (needs_token and found.security_token is None):
        return f"{where} needs access_key_id and access_key_secret{', and the security token' if needs_token else ''}"
    return found


def _read(place: str) -> bytes | None:
    try:
        return Path(place).expanduser().read_bytes()
    except (FileNotFoundError, NotADirectoryError, RuntimeError):  # the last: no home directory
        return None


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime(DATE_FORMAT)


@attrs.frozen(kw_only=True)
class KeyAuthenticator:
    """Signs with an access key; obtaining looks the key up again, so that a rotated one is found.

    Without a key requests go out unsigned, with the share token alone.
    """

    account: str
    settings: PaiSettings = attrs.field(repr=False)

    async def obtain(self, transport: Transport, now_ms: int, /) -> Credential:
        """Look the key up; no request is made."""
        found = _find_key(self.settings)
        share = self.settings.share_token
        if found is None:
            return ShareCredential(share)
        key = SigningKey.of(found.access_key_id, found.access_key_secret.reveal())
        return KeyCredential(found.access_key_id, found.access_key_secret, found.security_token, share, key)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Give the request with its signature over everything but what HTTP itself adds.

        A share token is added here and not by the provider, whose frames may show in a traceback.
        """
        host, _, path = request.url.partition("://")[2].partition("/")
        headers = {
            **request.headers,
            "Host": host,
            "Accept": "application/json",
            "x-acs-action": request.operation,
            "x-acs-version": version_of(request.operation),
            "x-acs-date": _date(now_ms // 1000),
            "x-acs-signature-nonce": nonce,
            "x-acs-content-sha256": content_hash(request.body),
        }
        params = request.params
        if self.settings.share_token is not None and request.operation in _SHARED:
            params = (*params, ("Token", self.settings.share_token.reveal()))
        if isinstance(credential, KeyCredential):
            if credential.security_token is not None:
                headers["x-acs-accesskey-id"] = credential.access_key_id
                headers["x-acs-security-token"] = credential.security_token.reveal()
            headers["Authorization"] = authorization(credential.key, request.method, f"/{path}", params, headers)
        return Request(request.method, request.url, params, headers, request.body, request.operation)

    def rejected(self, response: Response, /) -> bool:
        """Tell whether the key was refused."""
        return credential_rejected(response)
