"""The contract's checks catch what they are there for: each is held against providers that are wrong on purpose."""

from __future__ import annotations

from typing import Final

import pytest

from metricsbridge.testing.contract import ProviderContract
from planted_bugs import DOCUMENT, PLANTED, with_table
from planting import outcome

CHECKS: Final = {name.removeprefix("test_") for name in dir(ProviderContract) if name.startswith("test_")}


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.mistake)
def test_a_planted_bug_is_caught_by_its_check(bug):
    assert outcome(bug), f"{bug.caught_by} no longer catches: {bug.mistake}"


def test_every_check_catches_a_planted_bug():
    assert {bug.caught_by for bug in PLANTED} == CHECKS


def test_no_mistake_is_planted_twice():
    assert len({bug.mistake for bug in PLANTED}) == len(PLANTED) >= 30


def test_the_table_of_planted_bugs_is_up_to_date():
    text = DOCUMENT.read_text("utf-8")
    assert text == with_table(text), "run `python tests/planted_bugs.py`"
