"""Where the account of Open Telekom Cloud is found, and how it proves who it is.

Sources: OpenStack's client configuration; Open Telekom Cloud's ``otcextensions`` for the variables of access keys; IAM
API reference, "Obtaining a user token through password authentication".
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.provider_kit import ConfigurationError, Secret
from metricsbridge_modelarts._clouds import read_cloud
from metricsbridge_modelarts._credentials import (
    KeyAuthenticator,
    Keys,
    TokenCredential,
    keys_in,
    make_token_authenticator,
    sign_with_token,
)
from metricsbridge_modelarts._errors import credential_rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metricsbridge.provider_kit import Authenticator, Credential, Request, Response, Transport
    from metricsbridge_modelarts._otc_settings import OtcModelArtsSettings

_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "username": ("OS_USERNAME",),
    "password": ("OS_PASSWORD",),
    "domain_name": ("OS_USER_DOMAIN_NAME",),
    "access_key": ("OS_ACCESS_KEY", "S3_ACCESS_KEY_ID"),
    "secret_key": ("OS_SECRET_KEY", "S3_SECRET_ACCESS_KEY"),
    "security_token": ("OS_SECURITY_TOKEN", "S3_SECURITY_TOKEN"),
    "token": ("OS_TOKEN", "OS_AUTH_TOKEN"),
    "project_id": ("OS_PROJECT_ID",),
    "project_name": ("OS_PROJECT_NAME",),
    "region": ("OS_REGION_NAME",),
    "iam_endpoint": ("OS_AUTH_URL",),
}
"""Setting to the variables that stand for it, the first that is set."""

_WHOLE: Final = (
    ("access_key", "secret_key", "security_token", "username", "password", "token"),
    ("project_id", "project_name"),
    ("region",),
    ("iam_endpoint",),
    ("domain_name",),
)
"""What is taken together from the first place that has any of it: halves of two accounts make none."""

_SECRETS: Final = frozenset({"secret_key", "security_token", "password", "token"})
_HINT: Final = (
    "set access_key and secret_key, or username, password and domain_name; or set OS_ACCESS_KEY and OS_SECRET_KEY, or "
    "OS_USERNAME, OS_PASSWORD and OS_USER_DOMAIN_NAME; or name an entry of clouds.yaml with cloud or OS_CLOUD"
)


def completed(settings: OtcModelArtsSettings, /) -> OtcModelArtsSettings:
    """Give the settings with what is found in the environment and in ``clouds.yaml``.

    Raises:
        ConfigurationError: ``clouds.yaml`` is asked for and can't be read.
    """
    given = {field.name: getattr(settings, field.name) for field in attrs.fields(type(settings))}
    places: list[Mapping[str, Any]] = [given]
    if settings.cloud:
        places.append(read_cloud(settings.cloud, settings.region))
    places.append(_environment())
    if not settings.cloud and (os.environ.get("OS_CLOUD") or os.environ.get("OS_CLIENT_CONFIG_FILE")):
        places.append(read_cloud(None, settings.region))
    found: dict[str, Any] = {}
    for names in _WHOLE:
        place = next((place for place in places if any(place.get(name) for name in names)), {})
        found |= {name: place.get(name) for name in names}
    return attrs.evolve(settings, **{name: _as_setting(name, value) for name, value in found.items()})


def _environment() -> dict[str, str]:
    found = {
        setting: next(filter(None, [os.environ.get(variable, "") for variable in variables]), "")
        for setting, variables in _VARIABLES.items()
    }
    return {setting: value for setting, value in found.items() if value}


def _as_setting(name: str, value: Any) -> Any:
    return Secret(value) if name in _SECRETS and isinstance(value, str) else value


def make_otc_authenticator(settings: OtcModelArtsSettings, /) -> Authenticator:
    """Choose how to authenticate by what is found: a password, then an access key, then a ready token.

    A ready token comes last, because it can't be renewed.

    Raises:
        ConfigurationError: Something is set by half, or nothing is found anywhere.
    """
    found = completed(settings)
    account = found.project_id or found.project_name or found.region or "otc"
    others = found.access_key or found.secret_key or found.token
    if (found.username and found.password) or ((found.username or found.password) and not others):
        project = {"id": found.project_id} if found.project_id else {"name": found.project_name or found.region}
        return make_token_authenticator(found, project, account)
    if found.access_key or found.secret_key:
        look_up = partial(_find_keys, settings)
        look_up()
        return KeyAuthenticator(account=account, look_up=look_up)
    if found.token is None:
        raise ConfigurationError(f"no credentials found: {_HINT}")
    return ReadyTokenAuthenticator(account=account, settings=settings)


def _find_keys(settings: OtcModelArtsSettings) -> Keys:
    found = keys_in(completed(settings))
    if found is None:
        raise ConfigurationError(f"no access key is found any more: {_HINT}")
    return found


@attrs.frozen(kw_only=True)
class ReadyTokenAuthenticator:
    """Uses a token that was obtained elsewhere; obtaining looks for it again, so that a newer one is found."""

    account: str
    settings: OtcModelArtsSettings = attrs.field(repr=False)

    async def obtain(self, transport: Transport, now_ms: int, /) -> TokenCredential:
        """Look the token up; no request is made.

        Raises:
            ConfigurationError: It is gone.
        """
        token = completed(self.settings).token
        if token is None:
            raise ConfigurationError(f"no token is found any more: {_HINT}")
        return TokenCredential(token)

    def sign(self, request: Request, credential: Credential, now_ms: int, nonce: str, /) -> Request:
        """Give the request with the token."""
        return sign_with_token(request, credential)

    def rejected(self, response: Response, /) -> bool:
        """Tell whether the token was refused."""
        return credential_rejected(response)
