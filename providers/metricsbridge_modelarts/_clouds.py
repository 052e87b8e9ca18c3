"""OpenStack's ``clouds.yaml``: one entry of it, as settings. The only module that knows of openstacksdk."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from metricsbridge.provider_kit import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_AUTH: Final[Mapping[str, tuple[str, ...]]] = {
    "username": ("username",),
    "password": ("password",),
    "domain_name": ("user_domain_name", "domain_name"),
    "project_id": ("project_id",),
    "project_name": ("project_name",),
    "iam_endpoint": ("auth_url",),
}
"""Setting to its names under ``auth``."""

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "access_key": ("access_key", "ak"),
    "secret_key": ("secret_key", "sk"),
    "security_token": ("security_token",),
}
"""Setting to its names in the entry itself, as this cloud's tools write them, or under ``auth``."""


def read_cloud(name: str | None, region: str | None, /) -> dict[str, str]:
    """Give an entry of ``clouds.yaml`` (and of the ``secure.yaml`` beside it) as settings, those that it has.

    Args:
        name: The entry; None is the one that ``OS_CLOUD`` names, or the only one there is.
        region: For an entry with several.

    Raises:
        ConfigurationError: openstacksdk is not installed, there is no such entry, or the file can't be read.
    """
    entry = _load(name, region)
    auth = entry.get("auth")
    places = (entry, auth if isinstance(auth, dict) else {})
    found = {setting: _first(places[1:], names) for setting, names in _AUTH.items()}
    found |= {setting: _first(places, names) for setting, names in _KEYS.items()}
    found["region"] = _first(places[:1], ("region_name",))
    token = _first(places, ("token",))
    if found["access_key"]:  # beside a key, a token is the temporary key's
        found["security_token"] = found["security_token"] or token
    else:
        found["token"] = token
    return {setting: value for setting, value in found.items() if value}


def _load(name: str | None, region: str | None) -> Mapping[str, Any]:
    try:
        from openstack.config import OpenStackConfig
    except ImportError as error:
        raise ConfigurationError(
            "reading clouds.yaml needs openstacksdk: install metricsbridge[openstack], or set the account itself"
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of what it will drop itself: none of it is used here
            found = OpenStackConfig().get_one(cloud=name, validate=False, region_name=region)
        entry: Mapping[str, Any] = found.config
    except Exception:  # of many kinds, and some show the lines around, with their secrets
        entry = {}
    if not entry:
        where = f"entry {name!r} of clouds.yaml" if name else "clouds.yaml"
        raise ConfigurationError(f"{where} can't be read: check that it is there, is YAML, and that its region exists")
    return entry


def _first(places: tuple[Mapping[str, Any], ...], names: tuple[str, ...]) -> str:
    found = (place.get(name) for place in places for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")
