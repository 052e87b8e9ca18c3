import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.config import ConnectionSettings, check_settings, load_config
from metricsbridge.errors import ConfigurationError
from metricsbridge.protocols import Rate
from metricsbridge.secret import Secret


@attrs.frozen(kw_only=True)
class Settings:
    region: str
    project_id: str | None = None
    secret_key: Secret | None = None
    retention_days: int = 7
    anchor: Literal["start", "end"] = "start"
    queries: Mapping[str, str] = attrs.field(factory=dict)


def check(**settings: object) -> tuple[Settings, ConnectionSettings]:
    return check_settings(Settings, "p", settings)


def problems(**settings: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check(**settings)
    prefix = "settings of provider 'p': "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix)


# Settings


def test_settings_are_split_into_the_provider_s_own_and_the_common_ones():
    own, common = check(
        region="r1", secret_key="k", retention_days="30", queries={"a": "b"},
        ca_file="/ca.pem", proxy="http://proxy:3128", timeout="12.5", max_body=1024, concurrency=8, limits={"*": "5/s"},
    )  # fmt: skip
    assert own == Settings(region="r1", secret_key=Secret("k"), retention_days=30, queries={"a": "b"})
    assert common == ConnectionSettings(
        ca_file=Path("/ca.pem"), proxy="http://proxy:3128", timeout=12.5, max_body=1024, concurrency=8,
        limits={"*": Rate(5.0)},
    )  # fmt: skip


def test_none_stands_for_not_given():
    assert check(region="r1", retention_days=None, timeout=None, limits=None, nonsense=None) == (
        Settings(region="r1"),
        ConnectionSettings(),
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("regoin", "region"), ("projectid", "project_id"), ("time_out", "timeout"), ("limit", "limits")]
)
def test_an_unknown_setting_is_refused_with_the_one_that_was_meant(name, meant):
    assert problems(region="r1", **{name: "x"}) == f"{name}: unknown; did you mean {meant}?"


def test_an_unknown_setting_like_no_other_is_refused_with_a_list():
    text = problems(region="r1", zzzzzz=1)
    assert text.startswith("zzzzzz: unknown; there are anchor, bytes_in_flight, ca_file,")
    known = {field.name for cls in (Settings, ConnectionSettings) for field in attrs.fields(cls)}
    assert set(text.partition("there are ")[2].split(", ")) == known


def test_a_missing_setting_is_named():
    assert problems() == "region: missing"


def test_all_problems_are_in_one_message():
    text = problems(
        regoin="r1", project_id=7, retention_days="many", anchor="middle", timeout="long", limits={"A": "x"}
    )
    assert set(text.split("; ")) == {
        "regoin: unknown",
        "did you mean region?",
        "region: missing",
        "project_id: expected text, got a whole number",
        "retention_days: expected a whole number, got text",
        "anchor: expected one of 'start', 'end', got text",
        "timeout: expected a number, got text",
        "limits: A: expected a rate such as '50/s', '10/m' or 'unlimited'",
    }


@pytest.mark.parametrize("name", ["timeout", "max_body", "concurrency", "bytes_in_flight"])
@pytest.mark.parametrize("value", [0, -1, "-7"])
def test_a_common_number_is_more_than_zero(name, value):
    assert problems(region="r1", **{name: value}) == f"{name}: expected more than 0"
    with pytest.raises(ConfigurationError, match=f"{name}: expected more than 0"):
        ConnectionSettings(**{name: int(value)})


def test_a_timeout_is_a_number():
    assert problems(region="r1", timeout=math.nan) == "timeout: expected more than 0"


# Limits


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50/s", 50.0), ("10/m", 10 / 60), ("1000/h", 1000 / 3600), ("unlimited", math.inf), (Rate(3.0), 3.0)],
)
def test_a_limit_is_a_rate(text, rate):
    assert check(region="r1", limits={"ShowJob": text})[1].limits == {"ShowJob": Rate(rate)}


@pytest.mark.parametrize("text", ["50", 50, "0/s", "-1/s", "fast", "", None, ["50/s"]])
def test_what_is_no_rate_is_refused_with_an_example(text):
    wanted = "limits: ShowJob: expected a rate such as '50/s', '10/m' or 'unlimited'"
    assert problems(region="r1", limits={"ShowJob": text, "*": "1/s"}) == wanted


@pytest.mark.parametrize("limits", ["50/s", 50, ["50/s"]])
def test_limits_are_a_table(limits):
    assert problems(region="r1", limits=limits) == "limits: expected a table of operation = rate"


# Values stay out of messages


@given(
    st.from_regex(r"[A-Z][a-z0-9_+/=-]{11,30}", fullmatch=True),
    st.sampled_from(["retention_days", "anchor", "queries", "timeout", "max_body", "concurrency", "limits"]),
)
def test_a_value_in_a_wrong_place_is_in_no_message(hidden, name):
    for value in (hidden, [hidden], {"a": [hidden]}):
        text = problems(region="r1", secret_key=[hidden], **{name: value})
        assert hidden not in text
        assert "secret_key: expected text, got a list" in text


def test_no_error_behind_the_message_holds_a_value():
    with pytest.raises(ConfigurationError) as caught:
        check(region="r1", anchor="hunter2", limits={"a": "hunter2"})
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_settings_show_neither_secrets_nor_the_proxy_s_password():
    own, common = check(region="r1", secret_key="hunter2", proxy="http://me:hunter2@proxy")
    assert "hunter2" not in f"{own!r} {own} {common!r} {common}"


# The configuration file


@pytest.fixture(autouse=True)
def _nothing_is_configured(tmp_path, monkeypatch):
    """Move to an empty folder and an empty home, and forget every variable of the library."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("METRICSBRIDGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)


FILE = """
[sources.hw]
provider = "p"
region = "r1"
timeout = 30

[sources.hw-prod]
provider = "p"
region = "r2"
limits = { ShowJob = "50/s" }

[sources."hw.test"]
provider = "q"
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def refusal(path: object = None, **environ: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_config(path, environ=environ)
    return str(caught.value)


def test_nothing_configured_gives_no_source():
    assert load_config(environ={}) == {}


def test_each_table_is_a_source(tmp_path):
    found = load_config(write(tmp_path / "my.toml", FILE), environ={})
    assert list(found) == ["hw", "hw-prod", "hw.test"]
    assert {source.provider for source in found.values()} == {"p", "q"}
    assert found["hw"].settings == {"region": "r1", "timeout": 30}
    assert found["hw-prod"].settings == {"region": "r2", "limits": {"ShowJob": "50/s"}}
    assert check_settings(Settings, "p", found["hw-prod"].settings)[1].limits == {"ShowJob": Rate(50.0)}


def test_a_source_shows_no_settings():
    found = load_config(environ={"METRICSBRIDGE__HW__PROVIDER": "p", "METRICSBRIDGE__HW__SECRET_KEY": "hunter2"})
    assert "hunter2" not in repr(found)


def test_the_file_is_the_one_passed_else_the_one_named_else_the_nearest(tmp_path):
    def of(name: str) -> str:
        return f'[sources.{name}]\nprovider = "p"\n'

    home = write(tmp_path / "home/.config/metricsbridge/config.toml", of("home"))
    assert list(load_config(environ={})) == ["home"]
    write(tmp_path / "metricsbridge.toml", of("here"))
    assert list(load_config(environ={})) == ["here"]
    named = {"METRICSBRIDGE_CONFIG": str(write(tmp_path / "named.toml", of("named")))}
    assert list(load_config(environ=named)) == ["named"]
    assert list(load_config(str(home), environ=named)) == ["home"]
    assert list(load_config("~/.config/metricsbridge/config.toml", environ=named)) == ["home"]


def test_the_environment_is_by_default_the_process_s(monkeypatch):
    monkeypatch.setenv("METRICSBRIDGE__HW__PROVIDER", "p")
    assert list(load_config()) == ["hw"]


def test_a_named_file_that_is_missing_is_an_error(tmp_path):
    assert refusal("gone.toml") == "the configuration 'gone.toml' can't be read: No such file or directory"
    assert "gone.toml" in refusal(METRICSBRIDGE_CONFIG=str(tmp_path / "gone.toml"))


def test_a_malformed_file_is_an_error_that_names_the_line(tmp_path):
    text = refusal(write(tmp_path / "my.toml", '[sources.hw]\nprovider = "p"\nsecret_key = hunter2\n'))
    assert "my.toml" in text
    assert "is not TOML" in text
    assert "at line 3" in text
    assert "hunter2" not in text


def test_a_file_in_another_encoding_is_an_error(tmp_path):
    path = tmp_path / "my.toml"
    path.write_bytes(b'[sources.hw]\nprovider = "\xff"\n')
    assert "is not TOML" in refusal(path)


def test_an_unknown_table_is_an_error(tmp_path):
    text = refusal(write(tmp_path / "my.toml", "[source.hw]\n[other]\n" + FILE))
    assert text.endswith("has unknown tables ['other', 'source']: write [sources.NAME]")


@pytest.mark.parametrize("content", ['sources = "hw"', "sources = [1]", '[sources]\nprovider = "p"', "[[sources]]"])
def test_a_source_that_is_no_table_is_an_error(tmp_path, content):
    assert refusal(write(tmp_path / "my.toml", content)).endswith("write each source as a table [sources.NAME]")


@pytest.mark.parametrize("line", ["", "provider = 3", "provider = ['p']"])
def test_a_source_without_a_provider_is_an_error(tmp_path, line):
    path = write(tmp_path / "my.toml", f"[sources.hw]\n{line}\n")
    assert refusal(path) == f"source 'hw' names no provider: set provider = \"…\" in {str(path)!r}"


def test_a_name_that_no_source_may_have_is_an_error(tmp_path):
    path = write(tmp_path / "my.toml", '[sources."hw/prod"]\nprovider = "p"\n')
    assert "'hw/prod' is no name for a source" in refusal(path)


# Variables of the environment


@pytest.mark.parametrize(
    ("variable", "source"),
    [
        ("METRICSBRIDGE__HW__REGION", "hw"),
        ("METRICSBRIDGE__HW_PROD__REGION", "hw-prod"),
        ("METRICSBRIDGE__HW_TEST__REGION", "hw.test"),
    ],
)
def test_a_variable_sets_one_setting_of_a_configured_source(tmp_path, variable, source):
    path = write(tmp_path / "my.toml", FILE)
    before, after = load_config(path, environ={}), load_config(path, environ={variable: "r9"})
    assert list(after) == list(before)
    assert after[source].settings == {**before[source].settings, "region": "r9"}
    assert {name: s for name, s in after.items() if name != source} == {
        name: s for name, s in before.items() if name != source
    }


def test_a_setting_of_several_words_is_set_by_its_name_in_upper_case():
    environ = {"METRICSBRIDGE__HW_PROD__PROVIDER": "p", "METRICSBRIDGE__HW_PROD__SECRET_KEY": "k"}
    assert load_config(environ=environ)["hw_prod"].settings == {"secret_key": "k"}


def test_a_source_may_be_given_by_variables_alone():
    environ = {
        "METRICSBRIDGE__HW__PROVIDER": "p",
        "METRICSBRIDGE__HW__REGION": "r1",
        "METRICSBRIDGE__HW__RETENTION_DAYS": "3",
        "METRICSBRIDGE__HW__TIMEOUT": "2.5",
    }
    source = load_config(environ=environ)["hw"]
    assert source.provider == "p"
    own, common = check_settings(Settings, source.provider, source.settings)
    assert (own.region, own.retention_days, common.timeout) == ("r1", 3, 2.5)


def test_a_source_of_variables_without_a_provider_is_an_error():
    text = refusal(METRICSBRIDGE__HW__REGION="r1")
    assert text == "source 'hw' names no provider: set provider = \"…\" in METRICSBRIDGE__HW__PROVIDER"


@pytest.mark.parametrize(
    "variable",
    ["METRICSBRIDGE_CONFIG_", "METRICSBRIDGE__HW", "METRICSBRIDGE__HW__", "XMETRICSBRIDGE__HW__REGION", "HW__REGION"],
)
def test_other_variables_are_none_of_ours(variable):
    assert load_config(environ={variable: "x"}) == {}


@pytest.mark.parametrize("name", ["transport", "clock", "authenticator", "observer", "quota"])
def test_what_only_a_program_can_pass_is_refused_in_a_configuration(name, tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(f'[sources.hw]\nprovider = "modelarts"\n{name} = "x"\n')
    with pytest.raises(ConfigurationError, match=f"'hw': {name} can't be set"):
        load_config(path, environ={})
