"""Which project a source belongs to, where its id is not set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from metricsbridge.provider_kit import ConfigurationError, Request, check_id, decode_json
from metricsbridge_modelarts._credentials import find_project
from metricsbridge_modelarts._wire import Projects

if TYPE_CHECKING:
    from metricsbridge.provider_kit import Transport
    from metricsbridge_modelarts._settings import ModelArtsSettings

LIST_PROJECTS: Final = "KeystoneListProjects"


async def project_of(settings: ModelArtsSettings, transport: Transport, /) -> str:
    """Give the project's id; where none is set anywhere, IAM is asked for the project named as the region.

    Raises:
        ConfigurationError: Neither is set, or there is not exactly one such project.
    """
    found = find_project(settings)
    if not found and settings.region is None:
        raise ConfigurationError("set project_id, or region so that the project can be looked up")
    return check_id(found or await look_up_project(settings.iam_url(), settings.region or "", transport), "project id")


async def look_up_project(iam_url: str, name: str, transport: Transport, /) -> str:
    """Ask IAM for the id of the project of that name.

    Raises:
        ConfigurationError: There is not exactly one.
    """
    request = Request("GET", f"{iam_url}/v3/projects", (("name", name),), operation=LIST_PROJECTS)
    found = decode_json((await transport.send(request)).body, Projects).projects
    if len(found) != 1:
        raise ConfigurationError(f"IAM knows {len(found)} projects named {name!r}, not one: set project_id")
    return found[0].id
