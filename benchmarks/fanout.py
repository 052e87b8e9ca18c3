"""Many tasks' metrics over HTTP from a static server on the loopback: calls per second and processor time per call."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections import defaultdict
from statistics import median

import attrs

from benchmarks.clients import CONCURRENCY, Contestant, open_contestants, python_calls
from benchmarks.measure import SPREAD, Gate, Table, named, ratios
from benchmarks.server import find_nginx, serve

OVER_SDK = {
    "huaweicloudsdkmodelarts": (("sdk async", "sdk threads"), 10.0),
    "alibabacloud-pai-dlc20201203": (("sdk alibaba",), 7.0),
}
"""Gates, for small bodies: calls per second of ours over those of a vendor's client, its best way."""

CALLS_OVER_PLAIN = {("ours", 60): 0.65, ("fallback", 60): 0.5}
CPU_OVER_PLAIN = {("ours", 60): 1.5, ("fallback", 60): 2.0, ("ours", 1440): 2.2}
"""Gates by contestant and points: at least so many of plain aiohttp's calls per second, at most so many times its
processor time."""

TASKS = 50
"""Tasks of a job. Ours asks for a job's details too, one call more for so many; they are not counted as calls."""

_NAMES = {
    "ours": "metricsbridge",
    "fallback": "metricsbridge, without the kernel",
    "plain": f"{named('aiohttp')}, bytes only",
    "sdk async": f"{named('huaweicloudsdkmodelarts')} async client",
    "sdk threads": f"the same, sync client on {CONCURRENCY} threads",
    "sdk alibaba": f"{named('alibabacloud-pai-dlc20201203')} async methods",
}


@attrs.frozen
class Case:
    """One size of body, and how many jobs each contestant reads of it."""

    title: str
    points: int
    jobs: int
    sdk_jobs: int


_FULL = (Case("6 x 60 points", 60, 80, 12), Case("6 x 1 440 points", 1440, 20, 1))
_SHORT = (Case("6 x 60 points", 60, 2, 1), Case("6 x 1 440 points", 1440, 1, 1))


@attrs.frozen
class Reading:
    """One contestant's turn, per call."""

    wall_s: float
    cpu_s: float


def run(*, short: bool, without_nginx: bool = False) -> list[Table]:
    """Measure each size, after checking that all contestants read the same numbers.

    Raises:
        SystemExit: There is no nginx, and its stand-in was not asked for.
    """
    nginx = None if without_nginx else find_nginx()
    if nginx is None and not without_nginx:
        raise SystemExit("fanout: there is no nginx here; install it, or pass --without-nginx, which gates nothing")
    tables = []
    for case in _SHORT if short else _FULL:
        with serve(case.points, TASKS, nginx=nginx) as url:
            tables.append(asyncio.run(_measure(case, url, rounds=1 if short else 7, nginx=nginx is not None)))
    return tables


async def _measure(case: Case, url: str, *, rounds: int, nginx: bool) -> Table:
    readings: dict[str, list[Reading]] = defaultdict(list)
    async with open_contestants(url) as contestants:
        for contestant in contestants.values():
            contestant.check(await contestant.read(2, TASKS), 2, TASKS, case.points)
        gc.collect()
        gc.freeze()  # nobody pays for looking through the modules that the others have imported
        keys = [*contestants]
        for first in range(rounds):
            for key in keys[first % len(keys) :] + keys[: first % len(keys)]:  # nobody always comes after the same one
                jobs = case.sdk_jobs if "sdk" in key else case.jobs
                readings[key].append(await _turn(contestants[key], jobs))
        counted = [key for key in contestants if "sdk" not in key]
        counts = {key: await python_calls(contestants[key], 20, TASKS) for key in counted}
        peaks = {key: await _peak(found, case.sdk_jobs) for key, found in contestants.items()}
    return _table(case, readings, counts, peaks, nginx=nginx)


async def _peak(contestant: Contestant, jobs: int) -> float:
    """Give the KiB per call that Python and numpy held at once, answers included."""
    gc.collect()
    tracemalloc.start()
    try:
        answers = await contestant.read(jobs, TASKS)
        peak = tracemalloc.get_traced_memory()[1]
        del answers
    finally:
        tracemalloc.stop()
    return peak / 1024 / (jobs * TASKS)


async def _turn(contestant: Contestant, jobs: int) -> Reading:
    await contestant.read(jobs, TASKS)  # finds its own memory and caches in place, whoever's turn it was before
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    answers = await contestant.read(jobs, TASKS)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    del answers
    return Reading(wall / (jobs * TASKS), cpu / (jobs * TASKS))


def _table(
    case: Case,
    readings: dict[str, list[Reading]],
    counts: dict[str, float],
    peaks: dict[str, float],
    *,
    nginx: bool,
) -> Table:
    wall = {key: [reading.wall_s for reading in found] for key, found in readings.items()}
    cpu = {key: [reading.cpu_s for reading in found] for key, found in readings.items()}
    rows = [
        (
            _NAMES[key],
            *ratios(wall[key], wall["ours"]),
            1 / median(wall[key]),
            ratios(cpu[key], cpu["ours"])[0],
            median(cpu[key]) * 1e6,
            counts.get(key),
            peaks[key],
        )
        for key in readings
    ]
    server = "nginx, one worker" if nginx else "aiohttp.web, which may be what limits the faster clients: no gates"
    return Table(
        title=f"fanout: {case.title}, {CONCURRENCY} at once, {case.jobs * TASKS} calls a turn "
        f"({case.sdk_jobs * TASKS} the SDK's)",
        columns=(
            "",
            "time, ours = 1",
            *SPREAD,
            "calls/s",
            "CPU, ours = 1",
            "CPU us/call",
            "Python calls",
            "peak KiB/call",
        ),
        rows=tuple(rows),
        gates=_gates(case, wall, cpu) if nginx else (),
        notes=(f"Server: {server}.",),
    )


def _gates(case: Case, wall: dict[str, list[float]], cpu: dict[str, list[float]]) -> tuple[Gate, ...]:
    gates = []
    for (key, points), needed in CALLS_OVER_PLAIN.items():
        if points == case.points and key in wall:
            reached = ratios(wall["plain"], wall[key])[0]
            gates.append(Gate(f"{case.title}: {_NAMES[key]}: calls per second over plain aiohttp's", reached, needed))
    for (key, points), most in CPU_OVER_PLAIN.items():
        if points == case.points and key in cpu:
            reached = ratios(cpu["plain"], cpu[key])[0]
            gates.append(Gate(f"{case.title}: plain aiohttp: CPU over that of {_NAMES[key]}", reached, 1 / most))
    for sdk, (keys, needed) in OVER_SDK.items() if case.points == 60 else ():
        best = min(keys, key=lambda key: median(wall[key]))
        gates.append(Gate(f"{case.title}: calls per second over {sdk}'s", ratios(wall[best], wall["ours"])[0], needed))
    return tuple(gates)
