"""Random jobs of every cloud under random faults against the truth: nothing invented, no zero for a gap, all accounted.

Two thousand jobs in process on a fake clock, three hundred over sockets.
"""

from __future__ import annotations

from typing import Final

import pytest

import metricsbridge as mb
from emulated_clouds import CLOUDS, Cloud
from fleet_cases import Case, opened
from in_process import URL, in_process
from metricsbridge.testing import FakeClock
from metricsbridge.testing.emulator import EMULATOR, serve

FLEETS: Final = 42
"""For each of the four clouds: 42 × 12 × 4 = 2 016 jobs."""

FLEETS_OVER_SOCKETS: Final = 7
"""Likewise: 7 × 12 × 4 = 336 jobs."""


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
async def test_two_thousand_jobs_in_process(cloud: Cloud) -> None:
    compared, injected = 0, 0
    for seed in range(FLEETS):
        case = Case.draw(cloud, seed)
        clock = FakeClock(case.fleet.now_ms)
        case.faults.sleep = clock.sleep
        app = cloud.create(fleet=case.fleet, faults=case.faults, now_ms=clock.now_ms)
        settings = app[EMULATOR].settings(URL)
        provider = mb.open_provider(cloud.provider, transport=in_process(app, clock), clock=clock, **settings)
        async with opened(provider, clock) as collector:
            if collector is not None:
                compared += await case.check(collector)
        injected += sum(case.faults.injected.values())
    assert compared > 30_000
    assert injected > 400


@pytest.mark.parametrize("cloud", CLOUDS, ids=lambda cloud: cloud.provider)
async def test_three_hundred_jobs_over_sockets(cloud: Cloud) -> None:
    compared = 0
    for seed in range(1000, 1000 + FLEETS_OVER_SOCKETS):
        case = Case.draw(cloud, seed)
        clock = FakeClock(case.fleet.now_ms)
        app = cloud.create(fleet=case.fleet, faults=case.faults, now_ms=clock.now_ms)
        async with serve(app) as url:
            provider = mb.open_provider(cloud.provider, clock=clock, **app[EMULATOR].settings(url))
            async with opened(provider, clock) as collector:
                if collector is not None:
                    compared += await case.check(collector)
    assert compared > 3_000
