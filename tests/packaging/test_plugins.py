"""Packages of other people: the sample plugin in an environment of its own, and broken ones that break nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from fresh_interpreter import PROJECT, run_fresh
from metricsbridge.protocols import API_VERSION
from wheels import Environment, build_wheel, make_environment

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE: Final = PROJECT / "tests" / "packaging" / "sample_plugin"
MOST_LINES: Final = 100
"""Lines of code of the sample plugin with its contract test; the lines between them do not count."""


def source_of(plugin: Path, place: Path) -> Path:
    return shutil.copytree(plugin, place, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".*"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The sample plugin and one that ``new-provider`` writes, next to the library's wheel."""
    folder = tmp_path_factory.mktemp("plugins")
    code = "from pathlib import Path; from metricsbridge.cli import main; main()"
    unpacked = folder / "unpacked"
    shutil.unpack_archive(wheel, unpacked, "zip")
    command = [sys.executable, "-c", code, "new-provider", "my-cloud", "--in", str(folder)]
    subprocess.run(command, check=True, capture_output=True, env={"PYTHONPATH": str(unpacked)}, timeout=60)
    sample = source_of(SAMPLE, folder / "metricsbridge-acme")
    sources = (sample, folder / "metricsbridge-my-cloud")
    made = make_environment(folder, wheel, *[build_wheel(each, folder / f"wheel-{each.name}") for each in sources])
    for source in sources:
        shutil.copytree(source / "tests", made.folder / source.name)
    return made


def test_the_sample_plugin_has_under_100_lines_with_its_contract_test():
    files = [path for path in SAMPLE.rglob("*.py") if "build" not in path.parts]
    lines = [line for path in files for line in path.read_text("utf-8").splitlines() if line.strip()]
    assert len(files) == 2
    assert len(lines) < MOST_LINES


def test_a_plugin_is_found_and_run_with_the_sources_out_of_the_way(environment):
    listed = json.loads(environment.run("-m", "metricsbridge.cli", "providers", "--json"))["providers"]
    acme = next(each for each in listed if each["name"] == "acme")
    assert (acme["package"], acme["version"], acme["error"]) == ("metricsbridge-acme", "0.1.0", "")
    assert acme["serves"] == {"task": ["container.cpu.utilization", "container.memory.utilization"]}
    assert {each["error"] for each in listed} == {""}
    code = "import metricsbridge, metricsbridge_acme as a; print(metricsbridge.__file__, a.__file__, sep='\\n')"
    for file in environment.run("-c", code).split():
        assert file.startswith(str(environment.python.parent.parent))


@pytest.mark.parametrize("package", ["metricsbridge-acme", "metricsbridge-my-cloud"])
def test_a_plugin_passes_every_inherited_check(environment, package):
    printed = environment.run(
        "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio", "-rs", package
    )
    counted = printed.splitlines()[-1]
    assert "failed" not in counted
    assert int(counted.split(" passed")[0].split()[-1]) > 30
    reasons = {line.rpartition(": ")[2] for line in printed.splitlines() if line.startswith("SKIPPED")}
    assert reasons == {
        "no setting is secret", "the provider does not list jobs", "the provider does not count jobs",
        "the provider has no evaluations", "the provider plans each job by itself",
            "the provider decodes each answer by itself",
        "the service sends samples in order",
    }  # fmt: skip


# Broken plugins, laid down as an installer does.

GOOD: Final = (SAMPLE / "metricsbridge_acme.py").read_text("utf-8")
BROKEN: Final = {
    "breaks": ("raise RuntimeError('out of order')", "RuntimeError: out of order"),
    "exits": ("import sys; sys.exit('no library')", "SystemExit"),
    "typo": ("import atrrs", "No module named 'atrrs'"),
    "nothing": ("SPEC = None", "is no ProviderSpec"),
    "unset": (GOOD.replace("settings=Settings", "settings=dict"), "no attrs class"),
    "unclassed": (GOOD.replace("provider=Acme", "provider='Acme'"), "no class"),
    "older": (GOOD.replace("SPEC = kit.ProviderSpec(", "SPEC = kit.ProviderSpec(api=0,"), "written for version 0"),
    "newer": (GOOD.replace("ProviderSpec(", f"ProviderSpec(api={API_VERSION + 1},"), "update metricsbridge"),
}


def lay_down(folder: Path, package: str, name: str, code: str) -> None:
    (folder / f"{package}.py").write_text(code, "utf-8")
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[metricsbridge.providers]\n{name} = {package}:SPEC\n", "utf-8")


def test_a_broken_plugin_is_reported_by_name_and_breaks_no_other(tmp_path):
    for name, (code, _) in BROKEN.items():
        lay_down(tmp_path, f"broken_{name}", name, code)
    for package in ("first_twin", "second_twin"):
        lay_down(tmp_path, package, "twins", GOOD)
    lay_down(tmp_path, "good_one", "good", GOOD)
    command = "import sys; sys.argv[1:] = ['providers', '--json']; from metricsbridge.cli import main; main()"
    listed = json.loads(run_fresh(command, paths=[tmp_path], cwd=tmp_path))["providers"]
    errors = {each["name"]: each["error"] for each in listed}
    for name, (_, said) in BROKEN.items():
        assert said in errors[name], name
        assert f"broken_{name}" in errors[name]
        assert repr(name) in errors[name]
    assert "first_twin, second_twin" in errors["twins"]
    others = {name: error for name, error in errors.items() if name not in {*BROKEN, "twins"}}
    assert others.keys() > {"good", "modelarts", "pai-dlc"}
    assert set(others.values()) == {""}


def test_bad_settings_of_a_plugin_are_told_by_its_name(tmp_path):
    lay_down(tmp_path, "good_one", "good", GOOD)
    code = """
import asyncio, metricsbridge as mb
async def main():
    for settings in ({"endpoint": "ftp://x"}, {"endpoint": 7}, {}, {"endpoint": "https://x", "endpont": "y"}):
        try:
            async with mb.open_provider("good", **settings):
                print("taken")
        except mb.ConfigurationError as error:
            print(error)
asyncio.run(main())
"""
    lines = run_fresh(code, paths=[tmp_path], cwd=tmp_path).splitlines()
    assert len(lines) == 4
    assert all("provider 'good'" in line and "endpo" in line for line in lines)


def test_listing_fifty_plugins_imports_none_of_them(tmp_path):
    for number in range(50):
        lay_down(tmp_path, f"plugin_{number}", f"many-{number}", "raise SystemExit('imported')")
    code = """
import sys, metricsbridge
found = metricsbridge.providers()
print(len([name for name in found if name.startswith("many-")]))
print(len([name for name in sys.modules if name.startswith(("plugin_", "metricsbridge_"))]))
"""
    assert run_fresh(code, paths=[tmp_path], cwd=tmp_path).split() == ["50", "0"]
