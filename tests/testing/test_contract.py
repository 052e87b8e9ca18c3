"""The contract holds for a provider that is right, whatever runs asynchronous tests, and says what is to be done."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from fresh_interpreter import PROJECT, run_fresh
from metricsbridge.testing.contract import ProviderContract
from planting import ReferenceContract, spec_of
from reference_decoding import Together

MODULE: Final = "from planting import ReferenceContract\n\n\nclass TestReference(ReferenceContract):\n    pass\n"


class TestReference(ReferenceContract):
    pass


class TestTogether(ReferenceContract):
    spec = spec_of(Together)


@pytest.mark.parametrize(
    "options",
    [
        ["-p", "no:asyncio"],
        *[["-o", "asyncio_default_fixture_loop_scope=function", "-o", f"asyncio_mode={m}"] for m in ("strict", "auto")],
    ],
    ids=["no-plugin", "strict", "auto"],
)
def test_the_checks_need_no_plugin_for_asynchronous_tests(options, tmp_path):
    (tmp_path / "test_reference.py").write_text(MODULE, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, "-o", f"pythonpath={PROJECT / 'tests'}", "-k", "plan or described or twice", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_a_check_without_its_hook_says_which():
    class Forgetful(ProviderContract):
        pass

    with pytest.raises(AssertionError, match="set spec"):
        Forgetful().test_serves_tells_the_truth()
    Forgetful.spec = ReferenceContract.spec
    Forgetful.settings = ReferenceContract.settings
    with pytest.raises(NotImplementedError, match="override simulate"):
        Forgetful().test_serves_tells_the_truth()


def test_importing_the_fakes_brings_neither_pytest_nor_hypothesis():
    code = "import sys; import metricsbridge.testing, metricsbridge.testing.fleet; print(*sys.modules)"
    assert {"pytest", "hypothesis"} & set(run_fresh(code).split()) == set()
