"""What the fuzzer runs on: seeds that the kernel takes, and targets that notice what goes wrong."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys

import attrs
import numpy as np
import pytest

from fresh_interpreter import PROJECT
from fuzz import grids
from fuzz.documents import READERS
from fuzz.numbers import input_of, numbers
from fuzz.seeds import seeds, words
from fuzz.targets import TARGETS
from metricsbridge.series import _kernel
from metricsbridge.series.align import align

compiled = pytest.mark.skipif(_kernel.COMPILED is None, reason=_kernel.ENGINE)


@compiled
@pytest.mark.parametrize("target", TARGETS)
def test_no_seed_goes_wrong_and_the_kernel_takes_many(target):
    taken = [TARGETS[target](seed) for seed in seeds(target)]
    assert sum(taken) > len(taken) / 5


@compiled
@pytest.mark.parametrize("target", READERS)
def test_the_kernel_takes_documents_of_each_schema_long_or_short(target):
    reader = READERS[target]
    taken = {(seed[0] & 127, len(reader.split(seed)[0]) > 4096) for seed in seeds(target) if reader(seed)}
    assert taken == {(index, long) for index in range(len(reader.schemas)) for long in (False, True)}


@compiled
@pytest.mark.parametrize("target", READERS)
def test_no_part_of_a_seed_goes_wrong(target):
    for seed in seeds(target)[::7]:
        for end in range(1, min(len(seed), 120)):
            TARGETS[target](seed[:end])


@compiled
@pytest.mark.parametrize("target", READERS)
def test_a_reader_that_is_wrong_in_one_bit_is_noticed(target):
    def wrong(body, schema):
        found = READERS[target].decode(body, schema)
        values = found.values.copy()
        values.view(np.int64)[:1] ^= 1 << 51 if len(values) and math.isnan(values[0]) else 1
        return attrs.evolve(found, values=values)

    changed = attrs.evolve(READERS[target], decode=wrong)
    number = next(seed for seed in seeds(target) if READERS[target](seed) and _first_is_a_number(target, seed))
    with pytest.raises(AssertionError, match="the slow twin"):
        changed(number)


def _first_is_a_number(target: str, seed: bytes) -> bool:
    values = READERS[target].decode(*READERS[target].split(seed)).values
    return bool(len(values)) and not math.isnan(values[0])


@pytest.mark.parametrize(
    ("text", "read"), [(b"0.1", 0.1 + 2**-56), (b"-0", -0.0), (b"-0.0", 0.0), (b"01", 1.0), (b"1e999", math.inf)]
)
def test_a_number_that_is_read_wrong_is_noticed(monkeypatch, text, read):
    monkeypatch.setattr(_kernel, "read", lambda _body, _schema: ((), (), np.array([read]), np.array([read])))
    with pytest.raises(AssertionError, match="is"):
        numbers(input_of(text))


def test_a_grid_that_is_wrong_is_noticed(monkeypatch):
    seed = grids.input_of([[(0, 2), (1, 4)]], step=1)
    assert grids.alignment(seed)
    monkeypatch.setattr(grids, "align_reference", lambda batch, **given: align(batch, **{**given, "how": "last"}))
    with pytest.raises(AssertionError):
        grids.alignment(seed)


@pytest.mark.parametrize("target", READERS)
def test_the_words_of_a_target_hold_the_names_of_its_schemas(target):
    found = b" ".join(words(target))
    for schema in READERS[target].schemas:
        for name in attrs.astuple(schema, recurse=False):
            assert not isinstance(name, str) or not name or b'"%b"' % name.encode() in found


_STAND_IN = """
import os, sys
from pathlib import Path
import fuzz.__main__ as command

HANGS = "import sys, time; p = open(sys.argv[1], 'wb', 0); p.write(b'begun '); time.sleep(60); p.write(b'late')"
command.find_clang = command.build = lambda *given: Path()
command.environment = lambda clang: os.environ
command.Bench.command = lambda bench, target, *given: [sys.executable, "-c", HANGS, sys.argv[1]]
command.main(["--jobs", "2", *list(command.TARGETS)[:3]])
"""


def test_whoever_terminates_the_command_ends_its_processes(tmp_path):
    """Each has the pipe open: there is nothing more to read when all of them have ended."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    environ = {**os.environ, "PYTHONPATH": f"{PROJECT}:{PROJECT / 'tests'}", "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-P", "-c", _STAND_IN, str(pipe)], env=environ) as command:
        with pipe.open("rb") as reader:
            assert reader.read(12) == b"begun begun "
            command.terminate()
            assert reader.read() == b""
        assert command.wait(timeout=60) == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_without_clang_the_command_says_what_to_install(tmp_path):
    paths = os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fuzz", "--seconds", "1"],
        env={"PATH": str(tmp_path), "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "apt-get install clang" in done.stderr
