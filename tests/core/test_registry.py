import sys

import attrs
import pytest

from fake_provider import FakeProvider
from fresh_interpreter import run_fresh
from metricsbridge.config import ConnectionSettings
from metricsbridge.errors import ConfigurationError, ProviderLoadError, ProviderNotFoundError
from metricsbridge.http import Response
from metricsbridge.protocols import ProviderSpec
from metricsbridge.registry import (
    EMULATORS,
    PROVIDERS,
    ProviderInfo,
    load_entry_point,
    load_provider,
    open_provider,
    providers,
)
from metricsbridge.testing import FakeTransport

GOOD = """
import attrs
from fake_provider import FakeProvider
from metricsbridge.provider_kit import ProviderSpec

@attrs.frozen
class Settings:
    region: str

class Provider(FakeProvider):
    def __init__(self, settings, transport):
        super().__init__({})
        self.settings, self.transport = settings, transport

async def connect(settings, transport):
    return Provider(settings, transport)

SPEC = ProviderSpec(settings=Settings, connect=connect)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay down distributions in a folder on the path, as an installer does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def install(distribution: str, points: dict[str, str], code: str | None = GOOD, *, group: str = PROVIDERS) -> str:
        module = distribution.replace("-", "_")
        if code is not None:
            (tmp_path / f"{module}.py").write_text(code, "utf-8")
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = [f"{name} = {target}" for name, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
        return module

    yield install
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


# Listing


def test_providers_are_listed_with_their_package_and_nothing_is_imported(install, tmp_path):
    module = install("mb-fake", {"fake": "mb_fake:SPEC"})
    assert providers()["fake"] == ProviderInfo(name="fake", target="mb_fake:SPEC", package="mb-fake", version="1.2")
    assert module not in sys.modules


def test_listing_imports_no_installed_provider():
    code = """
import sys
import metricsbridge
names = metricsbridge.providers()
modules = {info.target.partition(":")[0] for info in names.values()}
assert modules
print(sorted(m for m in sys.modules if m.partition(".")[0] in modules | {"aiohttp"}))
"""
    assert run_fresh(code).strip() == "[]"


def test_the_providers_of_the_project_are_installed_and_load():
    found = providers()
    assert "modelarts" in found
    for name, info in found.items():
        assert info.name == name
        assert info.package
        assert isinstance(load_provider(name), ProviderSpec)
        assert load_provider(name).description


def test_a_package_that_can_not_be_imported_is_listed_all_the_same(install):
    install("mb-broken", {"broken": "mb_broken:SPEC"}, "import a_module_that_is_not_there")
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    assert {"broken", "fake"} <= set(providers())


# Loading


def test_a_provider_is_loaded_by_its_name(install):
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    spec = load_provider("fake")
    assert isinstance(spec, ProviderSpec)
    assert spec is sys.modules["mb_fake"].SPEC


def test_an_unknown_provider_is_refused_with_the_one_that_was_meant(install):
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    with pytest.raises(ProviderNotFoundError, match="there is no provider 'fkae'; did you mean 'fake'"):
        load_provider("fkae")


def test_an_unknown_provider_like_no_other_is_refused_with_a_list(install):
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    with pytest.raises(ProviderNotFoundError, match=r"installed are: .*fake") as caught:
        load_provider("zzzzzz")
    assert str(caught.value).partition("installed are: ")[2].split(", ") == sorted(providers())


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("def", "SyntaxError"),
        ("", "AttributeError"),
        (None, "ModuleNotFoundError"),
    ],
)
def test_a_package_that_can_not_be_imported_is_named_and_breaks_no_other(install, code, why):
    install("mb-broken", {"broken": "mb_broken:SPEC"}, code)
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    with pytest.raises(ProviderLoadError, match=rf"'broken' of mb-broken can't be imported \({why}") as caught:
        load_provider("broken")
    assert type(caught.value.__cause__).__name__ == why.partition(":")[0]
    assert isinstance(load_provider("fake"), ProviderSpec)


def test_a_name_that_two_packages_offer_can_not_be_opened(install):
    install("mb-one", {"fake": "mb_one:SPEC", "one": "mb_one:SPEC"})
    install("mb-two", {"fake": "mb_two:SPEC"})
    assert providers()["fake"] == ProviderInfo(
        name="fake", target="mb_one:SPEC", package="mb-one", version="1.2", conflicts=("mb-two",)
    )
    with pytest.raises(ProviderLoadError, match=r"offered by several packages \(mb-one, mb-two\): uninstall all but"):
        load_provider("fake")
    assert isinstance(load_provider("one"), ProviderSpec)


@pytest.mark.parametrize(("api", "advice"), [(0, "update mb-other"), (2, "update metricsbridge")])
def test_a_provider_for_another_version_of_the_contract_is_refused_with_what_to_update(install, api, advice):
    install("mb-other", {"other": "mb_other:SPEC"}, GOOD.replace("connect=connect)", f"connect=connect, api={api})"))
    with pytest.raises(ProviderLoadError, match=f"for version {api} of the contract, this is version 1: {advice}"):
        load_provider("other")


@pytest.mark.parametrize("target", ["mb_wrong:Settings", "mb_wrong", "mb_wrong:connect"])
def test_what_is_no_spec_is_refused(install, target):
    install("mb-wrong", {"wrong": target})
    with pytest.raises(ProviderLoadError, match=f"provider 'wrong' of mb-wrong: {target} is no ProviderSpec"):
        load_provider("wrong")


# Other entry points


def test_an_emulator_is_loaded_by_the_name_of_its_provider(install):
    install("mb-emulated", {"fake": "mb_emulated:connect"}, group=EMULATORS)
    assert load_entry_point(EMULATORS, "fake").__name__ == "connect"
    with pytest.raises(ProviderNotFoundError, match=r"'zzz' is not among metricsbridge\.emulators; there are: .*fake"):
        load_entry_point(EMULATORS, "zzz")


# Opening


async def test_a_provider_is_opened_with_checked_settings(install):
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    transport = FakeTransport(lambda request: Response(200))
    async with open_provider("fake", transport=transport, region="r1", concurrency=3) as provider:
        assert isinstance(provider, FakeProvider)
        assert provider.settings.region == "r1"


async def test_bad_settings_fail_before_the_provider_is_connected(install):
    install("mb-fake", {"fake": "mb_fake:SPEC"}, GOOD.replace("    return Provider(", "    raise RuntimeError("))
    with pytest.raises(ConfigurationError, match="provider 'fake': regoin: unknown; did you mean region"):
        async with open_provider("fake", regoin="r1"):
            pass


async def test_limits_are_checked_with_the_settings(install):
    install("mb-fake", {"fake": "mb_fake:SPEC"})
    with pytest.raises(ConfigurationError, match="limits: Show: expected a rate"):
        async with open_provider("fake", region="r1", limits={"Show": "fast"}):
            pass


def test_no_provider_of_the_project_has_a_setting_of_its_own_that_every_source_has():
    common = {field.name for field in attrs.fields(ConnectionSettings)}
    reserved = {"transport", "clock", "authenticator", "observer", "quota", "provider"}
    for name, info in providers().items():
        own = {field.name for field in attrs.fields(load_provider(name).settings)}
        assert not own & (common | reserved), info
