"""The tutorial for authors of providers says what the tests run, and no more."""

from __future__ import annotations

import re
import textwrap
from typing import Final

import pytest

from fresh_interpreter import PROJECT
from metricsbridge.testing.contract import ContractHooks

TUTORIAL: Final = (PROJECT / "providers" / "README.md").read_text("utf-8")
SAMPLE: Final = PROJECT / "tests" / "packaging" / "sample_plugin"
TESTED: Final = [
    path.read_text("utf-8")
    for path in (
        SAMPLE / "pyproject.toml",
        SAMPLE / "metricsbridge_acme.py",
        SAMPLE / "tests" / "test_contract.py",
        PROJECT / "tests" / "reference_provider.py",
        PROJECT / "tests" / "reference_decoding.py",
    )
]
BLOCKS: Final = [code for _, code in re.findall(r"^```(python|toml)\n(.*?)^```$", TUTORIAL, re.M | re.S)]
REQUIRED: Final = {"spec", "settings", "simulate"}


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: code.strip().splitlines()[0])
def test_code_of_the_tutorial_stands_in_what_the_tests_run(code):
    assert any(textwrap.indent(code, " " * depth) in text for depth in (0, 4, 8) for text in TESTED)


def test_all_of_the_sample_provider_is_in_the_tutorial_but_its_tables():
    shown = {line.strip() for block in BLOCKS for line in block.splitlines()}
    code = (SAMPLE / "metricsbridge_acme.py").read_text("utf-8")
    written = {line.strip() for line in code.partition("class Settings")[2].splitlines()[1:]}
    assert written - shown - {""} == set()


def test_the_tutorial_names_every_hook():
    section = TUTORIAL.partition("| hook | when |")[2].partition("\n\n")[0]
    named = {name for row in section.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if row else "")}
    methods = {"job_id", "job_name", "task_ids", "device_ids", "minutes", "truth", "simulate"}
    fields = set(ContractHooks.__annotations__) - {"wire"}
    assert named | REQUIRED == methods | fields


def test_the_tutorial_s_commands_are_there():
    commands = TUTORIAL.partition("```console\n")[2].partition("```")[0]
    assert "metricsbridge new-provider acme\ncd metricsbridge-acme\n" in commands
