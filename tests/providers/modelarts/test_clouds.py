"""Where otc-modelarts finds its account: settings, then OpenStack's variables, then clouds.yaml."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Request, Response
from metricsbridge.testing import FakeTransport

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "pa55word-never-shown"
KEY = "S3CRET-key-never-shown"
USER = {"OS_USERNAME": "me", "OS_PASSWORD": PASSWORD, "OS_USER_DOMAIN_NAME": "OTC-1"}
KEYS = {"OS_ACCESS_KEY": "ENVAK", "OS_SECRET_KEY": KEY}
PLACE = {"OS_REGION_NAME": "eu-de", "OS_PROJECT_ID": "p-env"}
CLOUD = f"""
clouds:
  team:
    auth:
      auth_url: https://iam.cloud.test:443/v3
      username: cloud-user
      password: {PASSWORD}
      user_domain_name: OTC-2
      project_name: eu-de_team
    region_name: eu-de
  keys:
    ak: CLOUDAK
    sk: {KEY}
    security_token: cloud-temporary
    auth: {{auth_url: "https://iam.cloud.test/v3", project_id: p-cloud}}
    region_name: eu-de
"""


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away the account of this machine, and its clouds.yaml."""
    for name in [name for name in os.environ if name.startswith(("OS_", "S3_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def cloud_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "elsewhere.yaml"
    path.write_text(getattr(request, "param", CLOUD), "utf-8")
    return path


def answer(request: Request) -> Response:
    if request.url.endswith("/auth/tokens"):
        token = {"token": {"expires_at": "2100-01-01T00:00:00.000000Z"}}
        return Response(201, {"X-Subject-Token": "t0ken-of-iam"}, json.dumps(token).encode())
    if request.url.endswith("/projects"):
        return Response(200, {}, b'{"projects": [{"id": "p-looked-up"}]}')
    return Response(200, {}, b'{"versions": [], "is_success": true}')


async def ask(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], **settings: Any) -> list[Request]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    transport = FakeTransport(answer)
    async with mb.open_provider("otc-modelarts", transport=transport, **settings) as provider:
        assert isinstance(provider, mb.SupportsJobTotals)
        await provider.job_totals(mb.JobSearch())
    return transport.requests


def scope_of(request: Request) -> Any:
    assert request.url.endswith("/v3/auth/tokens")
    return json.loads(request.body)["auth"]["scope"]["project"]


def user_of(request: Request) -> Any:
    return json.loads(request.body)["auth"]["identity"]["password"]["user"]


def key_of(request: Request) -> str:
    return request.headers["Authorization"].partition("Access=")[2].partition(",")[0]


async def test_the_variables_of_a_user_give_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    login, call = await ask(monkeypatch, {**USER, **PLACE, "OS_AUTH_URL": "https://iam.env.test:443/v3"})
    assert login.url == "https://iam.env.test:443/v3/auth/tokens"
    assert scope_of(login) == {"id": "p-env"}
    assert user_of(login) == {"name": "me", "password": PASSWORD, "domain": {"name": "OTC-1"}}
    assert call.headers["X-Auth-Token"] == "t0ken-of-iam"
    assert call.url == "https://modelarts.eu-de.otc.t-systems.com/v1/p-env/training-jobs/versions"


@pytest.mark.parametrize(
    ("variables", "scope", "asked"),
    [
        ({"OS_PROJECT_NAME": "eu-de_team"}, {"name": "eu-de_team"}, "eu-de_team"),
        ({}, {"name": "eu-de"}, "eu-de"),
    ],
)
async def test_a_token_is_for_the_project_by_its_name_where_there_is_no_id(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], scope: dict[str, str], asked: str
) -> None:
    login, look_up, call = await ask(monkeypatch, {**USER, "OS_REGION_NAME": "eu-de", **variables})
    assert login.url == "https://iam.eu-de.otc.t-systems.com/v3/auth/tokens"
    assert scope_of(login) == scope
    assert look_up.params == (("name", asked),)
    assert "/v1/p-looked-up/" in call.url


@pytest.mark.parametrize(
    ("variables", "key", "token"),
    [
        (KEYS, "ENVAK", None),
        (
            {"S3_ACCESS_KEY_ID": "S3AK", "S3_SECRET_ACCESS_KEY": KEY, "S3_SECURITY_TOKEN": "temporary"},
            "S3AK",
            "temporary",
        ),
        ({**KEYS, "S3_ACCESS_KEY_ID": "S3AK", "OS_SECURITY_TOKEN": "own"}, "ENVAK", "own"),
    ],
)
async def test_the_variables_of_a_key_sign(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], key: str, token: str | None
) -> None:
    (call,) = await ask(monkeypatch, {**variables, **PLACE})
    assert key_of(call) == key
    assert call.headers.get("X-Security-Token") == token


@pytest.mark.parametrize("variable", ["OS_TOKEN", "OS_AUTH_TOKEN"])
async def test_a_ready_token_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    (call,) = await ask(monkeypatch, {variable: "ready-t0ken", **PLACE})
    assert call.headers["X-Auth-Token"] == "ready-t0ken"


async def test_a_ready_token_may_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = await ask(monkeypatch, {**KEYS, **PLACE}, token="own-t0ken")
    assert call.headers["X-Auth-Token"] == "own-t0ken"


async def test_a_password_comes_before_a_key_and_a_key_before_a_ready_token(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = await ask(monkeypatch, {**USER, **KEYS, **PLACE, "OS_TOKEN": "ready-t0ken"})
    assert len(requests) == 2
    monkeypatch.delenv("OS_PASSWORD")
    (call,) = await ask(monkeypatch, {})
    assert key_of(call) == "ENVAK"


async def test_settings_come_before_variables_and_no_account_is_made_of_two_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (call,) = await ask(
        monkeypatch, {**USER, **KEYS, **PLACE, "OS_SECURITY_TOKEN": "of-another-key"},
        access_key="OWN", secret_key=KEY, project_id="p-own",
    )  # fmt: skip
    assert key_of(call) == "OWN"
    assert "X-Security-Token" not in call.headers
    assert "/v1/p-own/" in call.url
    with pytest.raises(mb.ConfigurationError, match="set secret_key"):
        await ask(monkeypatch, {}, access_key="OWN")


@pytest.mark.parametrize("named", ["by the setting", "by OS_CLOUD"])
async def test_an_entry_of_clouds_yaml_gives_the_account(
    monkeypatch: pytest.MonkeyPatch, cloud_file: Path, named: str
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud_file))
    if named == "by OS_CLOUD":
        login, look_up, _ = await ask(monkeypatch, {"OS_CLOUD": "team"})
    else:
        login, look_up, _ = await ask(monkeypatch, {}, cloud="team")
    assert login.url == "https://iam.cloud.test:443/v3/auth/tokens"
    assert user_of(login) == {"name": "cloud-user", "password": PASSWORD, "domain": {"name": "OTC-2"}}
    assert scope_of(login) == {"name": "eu-de_team"}
    assert look_up.params == (("name", "eu-de_team"),)


async def test_an_entry_with_a_key_signs(monkeypatch: pytest.MonkeyPatch, cloud_file: Path) -> None:
    (call,) = await ask(monkeypatch, {"OS_CLIENT_CONFIG_FILE": str(cloud_file)}, cloud="keys")
    assert (key_of(call), call.headers["X-Security-Token"]) == ("CLOUDAK", "cloud-temporary")
    assert "/v1/p-cloud/" in call.url


async def test_variables_come_before_the_entry_that_a_variable_names_and_after_that_of_the_setting(
    monkeypatch: pytest.MonkeyPatch, cloud_file: Path
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud_file))
    (call,) = await ask(monkeypatch, {**KEYS, **PLACE, "OS_CLOUD": "keys"})
    assert key_of(call) == "ENVAK"
    (call,) = await ask(monkeypatch, {}, cloud="keys")
    assert (key_of(call), "/v1/p-cloud/" in call.url) == ("CLOUDAK", True)


async def test_clouds_yaml_is_not_looked_at_where_nothing_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openstack.config", None)
    (call,) = await ask(monkeypatch, {**KEYS, **PLACE})
    assert key_of(call) == "ENVAK"


@pytest.mark.parametrize(
    "cloud_file", [CLOUD, f"clouds: [{PASSWORD}", f"clouds:\n  none: {PASSWORD}", ""], indirect=True
)
async def test_an_entry_that_is_not_there_or_can_t_be_read_is_named_and_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, cloud_file: Path
) -> None:
    with pytest.raises(mb.ConfigurationError, match=r"entry 'none' of clouds\.yaml") as caught:
        await ask(monkeypatch, {"OS_CLIENT_CONFIG_FILE": str(cloud_file)}, cloud="none")
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_without_openstacksdk_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, cloud_file: Path
) -> None:
    monkeypatch.setitem(sys.modules, "openstack.config", None)
    with pytest.raises(mb.ConfigurationError, match=r"install metricsbridge\[openstack\]"):
        await ask(monkeypatch, {"OS_CLIENT_CONFIG_FILE": str(cloud_file)}, cloud="team")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "no credentials found"),
        ({"OS_USERNAME": "me"}, "set password, domain_name"),
        ({"OS_PASSWORD": PASSWORD}, "set username, domain_name"),
        ({"OS_ACCESS_KEY": "ENVAK"}, "set secret_key"),
    ],
)
async def test_half_an_account_is_said_to_be_one(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    with pytest.raises(mb.ConfigurationError, match=words) as caught:
        await ask(monkeypatch, {**variables, **PLACE})
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("variables", [USER, KEYS, {"OS_TOKEN": KEY}])
@pytest.mark.parametrize("refusing", ["IAM", "the service"])
async def test_what_a_service_echoes_of_the_account_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], refusing: str
) -> None:
    for name, value in {**variables, **PLACE}.items():
        monkeypatch.setenv(name, value)

    def handler(request: Request) -> Response:
        if request.url.endswith("/auth/tokens") and refusing != "IAM":
            return answer(request)
        sent = request.body.decode() + " ".join(
            [*request.headers.values(), KEY if "OS_PASSWORD" not in variables else ""]
        )
        echo = {"error_code": sent[-300:], "error_msg": sent[:300], "request_id": sent[-300:]}
        return Response(400, {}, json.dumps(echo).encode())

    async with mb.open_provider("otc-modelarts", transport=FakeTransport(handler)) as provider:
        with pytest.raises(mb.ProviderError) as caught:
            await provider.get_job("1/2")
    shown = str(caught.value) + repr(vars(caught.value))
    assert not any(secret in shown for secret in (PASSWORD, KEY, "t0ken-of-iam"))
    assert "***" in shown


@pytest.mark.parametrize("cloud_file", [CLOUD.replace("security_token:", "token:")], indirect=True)
async def test_a_token_beside_a_key_is_the_temporary_key_s(monkeypatch: pytest.MonkeyPatch, cloud_file: Path) -> None:
    (call,) = await ask(monkeypatch, {"OS_CLIENT_CONFIG_FILE": str(cloud_file)}, cloud="keys")
    assert call.headers["X-Security-Token"] == "cloud-temporary"
    assert "X-Auth-Token" not in call.headers
