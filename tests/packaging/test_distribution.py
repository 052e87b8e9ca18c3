"""What is installed: the wheel's contents, and that it works with the sources out of the way."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from email.parser import Parser
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

import pytest

from fresh_interpreter import PROJECT, run_fresh

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT: Final = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
NAME: Final = PYPROJECT["project"]["name"]
WITHOUT_EMULATOR: Final = {"prometheus": "the real server is small enough to run in the tests"}
GROUPS: Final = {"console_scripts": PYPROJECT["project"]["scripts"], **PYPROJECT["project"]["entry-points"]}


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _packages() -> list[Path]:
    return [PROJECT / NAME, *sorted(path.parent for path in (PROJECT / "providers").glob("*/__init__.py"))]


def test_the_wheel_holds_every_module_of_the_library_and_of_the_providers(names):
    wanted = {path.relative_to(package.parent).as_posix() for package in _packages() for path in package.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == wanted


def test_the_wheel_holds_no_tests_and_no_benchmarks(names):
    tops = {name.partition("/")[0] for name in names}
    info = f"{NAME}-{PYPROJECT['project']['version']}.dist-info"
    assert tops == {*(package.name for package in _packages()), info}


def test_each_package_says_that_it_is_typed(names):
    assert {f"{package.name}/py.typed" for package in _packages()} <= names


def test_the_wheel_names_its_entry_points(unpacked):
    (file,) = unpacked.glob("*.dist-info/entry_points.txt")
    lines = [line for line in file.read_text("utf-8").splitlines() if line]
    wanted = [line for group, points in GROUPS.items() for line in [f"[{group}]", *map(" = ".join, points.items())]]
    assert sorted(lines) == sorted(wanted)


def test_the_wheel_brings_its_license_and_what_it_requires(unpacked):
    (info,) = unpacked.glob("*.dist-info")
    metadata = Parser().parsestr((info / "METADATA").read_text("utf-8"))
    assert metadata["Requires-Python"] == PYPROJECT["project"]["requires-python"]
    assert metadata["License-Expression"] == PYPROJECT["project"]["license"]
    plain = [entry for entry in metadata.get_all("Requires-Dist", []) if "extra ==" not in entry]
    assert sorted(plain) == sorted(PYPROJECT["project"]["dependencies"])
    assert list(info.rglob("LICENSE"))


def test_the_wheel_works_with_the_sources_out_of_the_way(unpacked, tmp_path):
    code = """
import sys
import metricsbridge, metricsbridge.registry
print(metricsbridge.__file__)
for name in metricsbridge.providers():
    spec = metricsbridge.registry.load_provider(name)
    print(sys.modules[spec.settings.__module__].__file__)
"""
    files = run_fresh(code, paths=[unpacked], cwd=tmp_path).split()
    assert len(files) == 1 + len(GROUPS["metricsbridge.providers"])
    assert all(file.startswith(str(unpacked)) for file in files)


# What is installed here


@pytest.mark.parametrize(("group", "points"), GROUPS.items(), ids=GROUPS.keys())
def test_the_entry_points_of_the_project_are_installed_and_resolve(group, points):
    installed = {point.name: point for point in entry_points(group=group) if point.dist and point.dist.name == NAME}
    assert {name: point.value for name, point in installed.items()} == points
    for point in installed.values():
        assert point.load() is not None


def test_every_provider_of_the_project_has_an_emulator():
    emulated = GROUPS["metricsbridge.emulators"].keys()
    assert emulated == GROUPS["metricsbridge.providers"].keys() - WITHOUT_EMULATOR.keys()


def test_the_command_is_one_word_and_shows_its_help():
    assert list(GROUPS["console_scripts"]) == [NAME]
    done = subprocess.run(
        [sys.executable, "-m", "metricsbridge.cli", "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    for command in ("demo", "providers", "jobs", "collect", "emulate"):
        assert command in done.stdout


def test_the_extras_of_all_include_those_for_users():
    extras = PYPROJECT["project"]["optional-dependencies"]
    named = {name for entry in extras["all"] for name in re.findall(r"\[(.*?)\]", entry)[0].split(",")}
    assert named == set(extras) - {"all", "test", "testing", "dev"}
