"""ModelArts v1, of Huawei Cloud and of Open Telekom Cloud, emulated over a simulated fleet.

What the entry point ``metricsbridge.emulators`` names. Gateway, signatures and IAM are those of v2's emulator; Open
Telekom Cloud's IAM also tells OpenStack's clients where its services are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from metricsbridge.testing.emulator import EMULATOR, Emulator
from metricsbridge.testing.faults import Faults
from metricsbridge.testing.fleet import Fleet
from metricsbridge_modelarts._emulated import gateway as gate
from metricsbridge_modelarts._emulated.gateway import ApiError, Gateway
from metricsbridge_modelarts._emulated.v1_jobs import job_ids, pod_names
from metricsbridge_modelarts._emulated.v1_metrics import (
    CANONICAL,
    Readings,
    displayed,
    job_values,
    pod_values,
    served_minutes,
)
from metricsbridge_modelarts._emulated.v1_service import POD_METRICS, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "CANONICAL",
    "Readings",
    "cloud_entry",
    "create_app",
    "create_otc_app",
    "displayed",
    "job_ids",
    "job_values",
    "otc_password_settings",
    "otc_settings",
    "password_settings",
    "pod_names",
    "pod_values",
    "served_minutes",
    "settings",
]

OTC_REGION: Final = "eu-emulated-1"

_BODY_LIMIT: Final = 12 * 2**20


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def create_app(
    *,
    fleet: Fleet | None = None,
    faults: Faults | None = None,
    now_ms: Callable[[], int] = _wall_clock_ms,
    token_life_ms: int = 24 * 3_600_000,
    **readings: Any,
) -> web.Application:
    """Make the emulator of Huawei Cloud's ModelArts v1.

    Args:
        fleet: What it serves; by default the standard one, standing at the present.
        faults: What it injects; beside the kinds that every emulator knows, ``expired-token`` (the token of the request
            is good no longer; requests without one pass).
        now_ms: The service's clock, ms since the epoch.
        token_life_ms: How long an IAM token is valid.
        **readings: Fields of ``Readings``.
    """
    gateway = Gateway(now_ms, token_life_ms)
    return _create(fleet, faults or Faults(), gateway, Readings(**readings), settings)


def create_otc_app(
    *,
    fleet: Fleet | None = None,
    faults: Faults | None = None,
    now_ms: Callable[[], int] = _wall_clock_ms,
    token_life_ms: int = 24 * 3_600_000,
    **readings: Any,
) -> web.Application:
    """Make the emulator of Open Telekom Cloud's ModelArts: it also lists the versions of all jobs.

    Args:
        fleet: As ``create_app``.
        faults: As ``create_app``.
        now_ms: As ``create_app``.
        token_life_ms: As ``create_app``.
        **readings: As ``create_app``.
    """
    gateway = Gateway(now_ms, token_life_ms, OTC_REGION, {"modelartsv1": f"/v1/{gate.PROJECT_ID}"})
    return _create(fleet, faults or Faults(), gateway, Readings(**readings), otc_settings)


def settings(url: str) -> dict[str, Any]:
    """Give what ``open_provider("modelarts-v1", …)`` needs to reach the emulator at that base URL."""
    return {
        "region": gate.REGION,
        "endpoint": url,
        "iam_endpoint": url,
        "project_id": gate.PROJECT_ID,
        "access_key": gate.ACCESS_KEY,
        "secret_key": gate.SECRET_KEY,
        "limits": {"*": "unlimited"},
    }


def password_settings(url: str) -> dict[str, Any]:
    """Give ``settings`` with a user and password, for IAM tokens, in place of the keys."""
    return _by_password(settings(url))


def otc_settings(url: str) -> dict[str, Any]:
    """Give what ``open_provider("otc-modelarts", …)`` needs to reach the emulator at that base URL."""
    return {**settings(url), "region": OTC_REGION}


def otc_password_settings(url: str) -> dict[str, Any]:
    """Give ``otc_settings`` with a user and password, for IAM tokens, in place of the keys."""
    return _by_password(otc_settings(url))


def cloud_entry(url: str) -> dict[str, Any]:
    """Give what an entry of ``clouds.yaml`` says of Open Telekom Cloud's emulator at that base URL."""
    person = {"username": gate.USER, "password": gate.PASSWORD, "user_domain_name": gate.DOMAIN}
    auth = {"auth_url": f"{url}/v3", **person, "project_name": OTC_REGION, "project_domain_name": gate.DOMAIN}
    return {"auth": auth, "region_name": OTC_REGION, "identity_api_version": "3", "interface": "public"}


def _by_password(keys: Mapping[str, Any]) -> dict[str, Any]:
    named = {key: value for key, value in keys.items() if key not in ("access_key", "secret_key")}
    return {**named, "username": gate.USER, "password": gate.PASSWORD, "domain_name": gate.DOMAIN}


def _create(
    fleet: Fleet | None,
    faults: Faults,
    gateway: Gateway,
    readings: Readings,
    reached: Callable[[str], Mapping[str, Any]],
) -> web.Application:
    fleet = Fleet(now_ms=gateway.now_ms()) if fleet is None else fleet
    service = Service(fleet, gateway, readings)
    throttled = ApiError(429, "APIGW.0308", "The throttling threshold has been reached: policy user over ratelimit")
    wait = {"Retry-After": str(faults.retry_after_s)}
    inject = faults.middleware(
        {
            "throttle": lambda request: gateway.refusal(throttled, **wait),
            "unavailable": lambda request: gateway.refusal(ApiError(503, "APIGW.0613", "Backend unavailable")),
            "error": lambda request: service.refusal(request, ApiError(500, "ModelArts.0010", "Internal error.")),
            "expired-token": gateway.expire,
        }
    )
    middlewares = [inject, gateway.middleware(), service.middleware()]
    app = web.Application(middlewares=middlewares, client_max_size=_BODY_LIMIT)
    ids = tuple([version.id for version in service.versions])
    app[EMULATOR] = Emulator(settings=reached, jobs=ids, fleet=fleet, faults=faults)
    router, jobs = app.router, "/v1/{project_id}/training-jobs"
    version = f"{jobs}/{{job_id}}/versions/{{version_id}}"
    router.add_post("/v3/auth/tokens", gateway.create_token, name="KeystoneCreateUserTokenByPassword")
    router.add_get("/v3/projects", gateway.list_projects, name="KeystoneListProjects")
    router.add_get(jobs, service.list_jobs, name="ListTrainingJobsV1")
    router.add_get(f"{jobs}/{{job_id}}/versions", service.list_versions, name="ListTrainingJobVersions")
    router.add_get(version, service.show_version, name="ShowTrainingJobVersion")
    router.add_get(f"{version}/log/file-names", service.list_log_files, name="ListTrainingJobLogFiles")
    if readings.pod_metrics:
        router.add_get(f"{version}/pod/{{pod_name}}/metric-statistic", service.show_pod_metrics, name=POD_METRICS)
    if gateway.services:
        router.add_get("/v3{slash:/?}", gateway.show_version, name="KeystoneShowVersion")
        router.add_get(f"{jobs}/versions", service.list_all_versions, name="ListAllTrainingJobVersions")
    return app
