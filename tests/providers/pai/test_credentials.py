"""Where keys are looked for, and what is sent with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import metricsbridge as mb
from metricsbridge.http import Response
from metricsbridge.testing import FakeTransport
from metricsbridge_pai._signing import Proof, SigningKey, signature

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN")
JOB = b'{"JobId":"dlc1","Status":"Queuing"}'


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give an empty home directory, and no variables."""
    for name in (*NAMES, "PROFILE", "CLI_PROFILE_DISABLED", "CREDENTIALS_FILE"):
        monkeypatch.delenv(f"ALIBABA_CLOUD_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def set_environment(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    for name, value in zip(NAMES, values, strict=False):
        monkeypatch.setenv(f"ALIBABA_CLOUD_{name}", value)


async def sent(**settings: Any) -> dict[str, str]:
    """Give the headers of a request, in lower case."""
    transport = FakeTransport(lambda request: Response(200, {}, JOB))
    async with mb.open_provider("pai-dlc", transport=transport, **{"region": "cn-x", **settings}) as provider:
        await provider.get_job("dlc1")
    return {name.lower(): value for name, value in transport.requests[-1].headers.items()}


def key_of(headers: dict[str, str]) -> str:
    proof = Proof.parse(headers["authorization"])
    assert proof is not None
    return proof.access_key_id


async def test_a_request_is_signed_over_all_that_it_says() -> None:
    transport = FakeTransport(lambda request: Response(200, {}, JOB))
    settings = {"endpoint": "http://h:81/", "access_key_id": "AK", "access_key_secret": "S3CRET", "security_token": "T"}
    async with mb.open_provider("pai-dlc", transport=transport, **settings) as provider:
        await provider.get_job("dlc1")
        await provider.get_job("dlc1")
    first, second = transport.requests[-2:]
    headers = {name.lower(): value for name, value in first.headers.items()}
    proof = Proof.parse(headers["authorization"])
    assert proof is not None
    assert set(proof.signed) == headers.keys() - {"authorization"}
    assert (headers["host"], headers["x-acs-date"]) == ("h:81", "2024-01-15T08:30:00Z")
    assert (headers["x-acs-accesskey-id"], headers["x-acs-security-token"]) == ("AK", "T")
    key = SigningKey.of("AK", "S3CRET")
    assert proof.signature == signature(key, "GET", "/api/v1/jobs/dlc1", first.params, headers, proof.signed)
    assert first.headers["x-acs-signature-nonce"] != second.headers["x-acs-signature-nonce"]


@pytest.mark.parametrize(
    ("operation", "version"),
    [("GetJob", "2020-12-03"), ("DescribeMetricMetaList", "2019-01-01")],
)
async def test_each_request_names_its_action_and_the_version_of_its_api(operation: str, version: str) -> None:
    transport = FakeTransport(lambda request: Response(200, {}, JOB))
    settings = {"region": "cn-x", "access_key_id": "AK", "access_key_secret": "S3CRET"}
    async with mb.open_provider("pai-dlc", transport=transport, **settings) as provider:
        await provider.get_job("dlc1")
    found = next(request for request in transport.requests if request.operation == operation)
    assert (found.headers["x-acs-action"], found.headers["x-acs-version"]) == (operation, version)


async def test_settings_come_first_then_the_environment_then_the_two_files(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (home / ".alibabacloud").mkdir()
    ini = home / ".alibabacloud" / "credentials"
    ini.write_text("[default]\ntype = access_key\naccess_key_id = INI\naccess_key_secret = s\n")
    assert key_of(await sent()) == "INI"
    (home / ".alibabacloud" / "credentials.ini").write_text(ini.read_text().replace("INI", "FIRST"))
    assert key_of(await sent()) == "FIRST"
    (home / ".aliyun").mkdir()
    profile = {"name": "default", "mode": "AK", "access_key_id": "CLI", "access_key_secret": "s"}
    (home / ".aliyun" / "config.json").write_text(json.dumps({"current": "default", "profiles": [profile]}))
    assert key_of(await sent()) == "CLI"
    monkeypatch.setenv("ALIBABA_CLOUD_CLI_PROFILE_DISABLED", "true")
    assert key_of(await sent()) == "FIRST"
    set_environment(monkeypatch, "ENV", "s")
    monkeypatch.delenv("ALIBABA_CLOUD_CLI_PROFILE_DISABLED")
    assert key_of(await sent()) == "ENV"
    assert key_of(await sent(access_key_id="SET", access_key_secret="s")) == "SET"


async def test_a_profile_is_chosen_by_its_name(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    (home / ".aliyun").mkdir()
    profiles = [
        {"name": "one", "mode": "AK", "access_key_id": "ONE", "access_key_secret": "s", "sts_token": "stale"},
        {"name": "two", "mode": "StsToken", "access_key_id": "TWO", "access_key_secret": "s", "sts_token": "T"},
    ]
    (home / ".aliyun" / "config.json").write_text(json.dumps({"current": "one", "profiles": profiles}))
    headers = await sent()
    assert key_of(headers) == "ONE"
    assert "x-acs-security-token" not in headers
    monkeypatch.setenv("ALIBABA_CLOUD_PROFILE", "two")
    headers = await sent()
    assert (key_of(headers), headers["x-acs-security-token"]) == ("TWO", "T")
    place = home / "mine.ini"
    place.write_text("[three]\ntype = sts\naccess_key_id = THREE\naccess_key_secret = s%\nsecurity_token = U\n")
    monkeypatch.setenv("ALIBABA_CLOUD_CREDENTIALS_FILE", str(place))
    monkeypatch.setenv("ALIBABA_CLOUD_PROFILE", "three")
    headers = await sent()
    assert (key_of(headers), headers["x-acs-security-token"]) == ("THREE", "U")


@pytest.mark.parametrize(
    ("cli", "ini", "says"),
    [
        ({"mode": "RamRoleArn"}, "", "mode 'RamRoleArn': AK and StsToken are supported"),
        ({"mode": "EcsRamRole"}, "", "ALIBABA_CLOUD_PROFILE"),
        ({}, "", "AK and StsToken"),
        ({"mode": "AK"}, "", "needs access_key_id and access_key_secret"),
        ({"mode": "StsToken", "access_key_id": "A", "access_key_secret": "S3CRET"}, "", "security token"),
        (None, "[default]\ntype = ram_role_arn\nrole = x\n", "access_key and sts are supported"),
        (None, "[default]\ntype = access_key\naccess_key_id = A\n", "needs access_key_id"),
        (None, "[default]\ntype = sts\naccess_key_id = A\naccess_key_secret = S3CRET\n", "security token"),
        (None, "S3CRET = no INI", "can't be read as INI"),
    ],
)
async def test_a_profile_that_is_of_no_use_says_why(
    cli: dict[str, str] | None, ini: str, says: str, home: Path
) -> None:
    (home / ".aliyun").mkdir()
    (home / ".alibabacloud").mkdir()
    if cli is not None:
        (home / ".aliyun" / "config.json").write_text(json.dumps({"profiles": [{"name": "default", **cli}]}))
    (home / ".alibabacloud" / "credentials").write_text(ini)
    with pytest.raises(mb.ConfigurationError) as caught:
        await sent()
    assert says in str(caught.value)
    assert "S3CRET" not in shown(caught)


def shown(caught: pytest.ExceptionInfo[mb.ConfigurationError]) -> str:
    """Give all that a traceback may show of an error: texts, causes, and the variables of the provider's frames."""
    frames = [entry.frame for entry in caught.traceback if "metricsbridge_pai" in str(entry.path)]
    assert frames
    variables = [repr(frame.f_locals) for frame in frames]
    return " ".join([repr(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__), *variables])


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"access_key_secret": "S3CRET"'])
async def test_a_broken_file_is_named_and_not_quoted(text: str, home: Path) -> None:
    (home / ".aliyun").mkdir()
    (home / ".aliyun" / "config.json").write_text(text)
    with pytest.raises(mb.ConfigurationError, match=r"config\.json") as caught:
        await sent()
    assert "S3CRET" not in shown(caught)


@pytest.mark.parametrize("text", ["{", "[]", '{"profiles": [{"name": "default", "mode": "RamRoleArn"}]}'])
async def test_a_broken_file_does_not_block_a_source_that_has_a_share_token(text: str, home: Path) -> None:
    (home / ".aliyun").mkdir()
    (home / ".alibabacloud").mkdir()
    (home / ".aliyun" / "config.json").write_text(text)
    ini = home / ".alibabacloud" / "credentials"
    ini.write_text("no INI")
    headers = await sent(share_token="eyShare-token")
    assert "authorization" not in headers
    ini.write_text("[default]\ntype = access_key\naccess_key_id = INI\naccess_key_secret = s\n")
    assert key_of(await sent(share_token="eyShare-token")) == "INI"
    with pytest.raises(mb.ConfigurationError, match=r"config\.json"):
        await sent()


@pytest.mark.parametrize(
    ("given", "missing"), [("ACCESS_KEY_ID", "ACCESS_KEY_SECRET"), ("ACCESS_KEY_SECRET", "ACCESS_KEY_ID")]
)
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("settings", [{}, {"share_token": "eyShare-token"}])
async def test_half_a_key_in_the_environment_names_the_other_half(
    given: str, missing: str, empty: bool, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (home / ".alibabacloud").mkdir()
    ini = "[default]\ntype = access_key\naccess_key_id = INI\naccess_key_secret = s\n"
    (home / ".alibabacloud" / "credentials").write_text(ini)
    monkeypatch.setenv(f"ALIBABA_CLOUD_{given}", "S3CRET-of-mine")
    if empty:
        monkeypatch.setenv(f"ALIBABA_CLOUD_{missing}", "")
    with pytest.raises(mb.ConfigurationError, match=f"set ALIBABA_CLOUD_{missing}") as caught:
        await sent(**settings)
    assert "S3CRET" not in shown(caught)
    assert key_of(await sent(access_key_id="SET", access_key_secret="s")) == "SET"


async def test_where_a_profile_or_file_was_chosen_and_not_found_both_are_named(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    (home / ".alibabacloud").mkdir()
    ini = "[default]\ntype = access_key\naccess_key_id = INI\naccess_key_secret = s\n"
    (home / ".alibabacloud" / "credentials").write_text(ini)
    monkeypatch.setenv("ALIBABA_CLOUD_PROFILE", "prod")
    with pytest.raises(mb.ConfigurationError, match=r"no credentials found for ALIBABA_CLOUD_PROFILE='prod': set"):
        await sent()
    monkeypatch.setenv("ALIBABA_CLOUD_CREDENTIALS_FILE", "/no/such/file")
    with pytest.raises(mb.ConfigurationError, match=r"='prod' and ALIBABA_CLOUD_CREDENTIALS_FILE='/no/such/file': set"):
        await sent()


async def test_no_key_anywhere_says_where_one_may_be() -> None:
    with pytest.raises(mb.ConfigurationError, match=r"ALIBABA_CLOUD_ACCESS_KEY_ID.*config\.json"):
        await sent()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"region": None}, "set region"), ({"region": "cn hangzhou"}, "region: write a region"),
        ({"region": "cn-x/../y"}, "region"), ({"access_key_id": None}, "set access_key_id"),
        ({"access_key_secret": None}, "set access_key_secret"), ({"acess_key_id": "x"}, "did you mean access_key_id"),
        ({"endpoint": "ftp://x"}, "endpoint: write a URL"), ({"endpoint": "http://me:s3kret@h"}, "without user"),
        ({"cloudmonitor_endpoint": "http://h?x=1"}, "cloudmonitor_endpoint"),
        ({"megabyte": 1000}, "megabyte: write 1000000 or 1048576"),
        ({"percent_of": "core"}, "percent_of: expected one of 'pod', 'unit'"), ({"time_at": "middle"}, "time_at"),
        ({"metrics_api": "Cursor"}, "metrics_api"), ({"created_within": "long ago"}, "such as '30d'"),
        ({"created_within": "0d"}, "created_within: write"),
        ({"cloudmonitor_metrics": {"POD_X": "cpu"}}, "POD_X is to be 'cpu', which is no metric"),
        ({"region": None, "endpoint": "http://h", "metrics_api": "DescribeMetricList"}, "cloudmonitor_endpoint"),
        ({"region": None, "endpoint": "http://h", "cloudmonitor_metrics": {"X": "hw.power"}}, "cloudmonitor_endpoint"),
    ],
)  # fmt: skip
async def test_a_bad_setting_says_what_to_write_before_anything_is_sent(settings: dict[str, Any], says: str) -> None:
    given = {"region": "cn-x", "access_key_id": "AK", "access_key_secret": "S3CRET-never", **settings}
    with pytest.raises(mb.ConfigurationError) as caught:
        await sent(**given)
    assert says in str(caught.value)
    assert "S3CRET" not in str(caught.value) + repr(caught.value.__cause__)
    assert "s3kret" not in str(caught.value)
