"""The kernel comes with an ordinary install, and an install without a C compiler does the same, only slower."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

import pytest

from fresh_interpreter import PROJECT
from metricsbridge.cli._providers import describe
from wheels import NO_COMPILER, PYPROJECT, build_sdist, build_wheel, copy_sources, make_environment, need_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from wheels import Environment

KERNEL: Final = PROJECT / "metricsbridge" / "series" / "kernel"
SOURCES: Final = {path.name for path in KERNEL.iterdir() if path.suffix in (".pyx", ".pxi")}
COMPILED: Final = re.compile(r"metricsbridge/series/_kernels\.[\w.-]+\.(so|pyd)")

# Runs where nothing of the tests is: decodes a body of each kind, aligns, and prints every bit of the results.
DECODES: Final = """
import metricsbridge.provider_kit as kit
from metricsbridge.series.align import align
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing
numbers = kit.decode_number_arrays(
    b'{"metrics": [{"metric": "a", "value": [-1, 2.43, 1e-320, 123456789.123456789]}]}',
    kit.NumberArrays(series="metrics", name="metric", values="value", missing=-1.0),
)
samples = kit.decode_sample_lists(
    b'{"s": [{"n": "a", "m": [{"t": 1616987726587, "v": 23.45}, {"t": 1616987786587, "v": null}]}]}',
    kit.SampleLists(series="s", name="n", samples="m", time="t", value="v"),
)
batch = SeriesBatch(
    keys=(SeriesKey("job", "", "", "hw.power"),), unit=("W",), interval_ms=(0,), timing=(Timing.REPORTED,),
    time_error_ms=(0,), statistic=(Statistic.LAST,),
    offsets=samples.offsets, times=samples.times, values=samples.values,
)
frame = align(batch, step="20s", fill="previous", max_gap="1m")
for array in (numbers.values, samples.times, samples.values, frame.times, frame.values):
    print(array.tobytes().hex())
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the sources where there is no compiler."""
    folder = tmp_path_factory.mktemp("without-compiler")
    return make_environment(folder, copy_sources(folder / "source"), environ=NO_COMPILER)


@pytest.fixture(scope="module")
def compiled(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel, which was built with the compiler of this machine."""
    need_compiler()
    return make_environment(tmp_path_factory.mktemp("compiled"), wheel)


def test_without_a_compiler_the_install_succeeds_and_says_what_it_runs_on(without):
    version = without.run("-m", "metricsbridge.cli", "--version").splitlines()
    assert version[0] == f"metricsbridge {PYPROJECT['project']['version']}"
    assert version[1].startswith("kernel: python (the compiled kernel was not built")
    assert "C compiler" in version[1]
    listed = json.loads(without.run("-m", "metricsbridge.cli", "providers", "--json"))
    assert listed["kernel"].startswith("python (")
    assert {each["name"] for each in listed["providers"]} == {each.info.name for each in describe()}


def test_with_a_compiler_the_kernel_is_in_use_and_says_so(compiled):
    assert compiled.run("-m", "metricsbridge.cli", "--version").splitlines()[1] == "kernel: compiled"
    code = "import metricsbridge.series._kernels as k; print(k.__file__)"
    assert compiled.run("-c", code).startswith(str(compiled.python.parent.parent))


def test_both_give_the_same_bit_for_bit(without, compiled):
    printed = compiled.run("-c", DECODES)
    assert len(printed.split()) == 5
    assert without.run("-c", DECODES) == printed


def test_the_wheel_holds_the_kernel_and_nothing_that_it_is_made_of(wheel):
    need_compiler()
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if COMPILED.fullmatch(name)]
    assert [name for name in names if name.endswith((".c", ".pyx", ".pxi"))] == []
    assert not wheel.name.endswith("-any.whl"), "it is for one platform"


def test_the_archive_of_the_sources_holds_the_kernel_s_and_makes_the_same_wheel(wheel, tmp_path):
    need_compiler()
    archive = build_sdist(copy_sources(tmp_path / "source"), tmp_path / "sdist")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    folder = "metricsbridge/series/kernel/"
    assert {name.removeprefix(folder) for name in held if name.startswith(folder)} == SOURCES
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = build_wheel(unpacked, tmp_path / "wheel", {"CFLAGS": "-O0"})
    assert again.name == wheel.name
    with ZipFile(again) as second, ZipFile(wheel) as first:
        assert set(second.namelist()) == set(first.namelist())
