"""Random combinations of faults, providers, levels, windows, metrics, deadlines and cancellations, in a short form.

``python tests/fault_matrix.py`` runs ten thousand of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from fault_combinations import Combination

PARTS: Final = 10
IN_PROCESS: Final = 30
"""So many in each part: 300 in all; and 10 000 in the full form."""

OVER_SOCKETS: Final = 30
"""Likewise: 300 in all."""

FIRST_OVER_SOCKETS: Final = 1_000_000


@pytest.mark.parametrize("part", range(PARTS))
async def test_what_must_hold_holds_in_process(part: int) -> None:
    seeds = range(part * IN_PROCESS, (part + 1) * IN_PROCESS)
    came = Counter([(await Combination.draw(seed).run()).partition(" ")[0] for seed in seeds])
    assert came["complete"]
    assert came["partial"] + came["nothing"]


@pytest.mark.parametrize("part", range(PARTS))
async def test_what_must_hold_holds_over_sockets(part: int) -> None:
    first = FIRST_OVER_SOCKETS + part * OVER_SOCKETS
    seeds = range(first, first + OVER_SOCKETS)
    came = Counter([(await Combination.draw(seed).run(sockets=True)).partition(" ")[0] for seed in seeds])
    assert came["complete"]


async def test_a_combination_is_made_by_its_seed_alone() -> None:
    for seed in range(20):
        assert await Combination.draw(seed).run() == await Combination.draw(seed).run()
