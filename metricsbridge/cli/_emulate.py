"""Serves an emulator until it is told to stop. ``metricsbridge.testing`` is imported only here and in ``_demo``."""

from __future__ import annotations

import json
import signal
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import anyio

from metricsbridge.cli._arguments import UsageError, usage_errors
from metricsbridge.errors import ProviderLoadError
from metricsbridge.registry import EMULATORS, load_entry_point
from metricsbridge.runtime._clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web


def emulator_names() -> list[str]:
    """Give the names of the installed emulators, in order."""
    return sorted({point.name for point in entry_points(group=EMULATORS)})


def parse_faults(texts: Sequence[str], /) -> dict[str, float]:
    """Read ``kind=share`` such as ``throttle=0.1``.

    Raises:
        UsageError: One reads otherwise.
    """
    rates: dict[str, float] = {}
    for text in texts:
        kind, _, share = text.partition("=")
        try:
            rates[kind.strip()] = float(share)
        except ValueError:
            raise UsageError(f"{text!r} is no fault: write for example throttle=0.1") from None
    return rates


def make_app(
    name: str, /, *, seed: int | None, jobs: int | None, faults: Mapping[str, float], fault_seed: int = 0
) -> web.Application:
    """Make the emulator of that name.

    Args:
        name: As in the entry point group ``metricsbridge.emulators``.
        seed: What the simulated jobs and their numbers depend on.
        jobs: How many; None leaves it to the emulator.
        faults: Kind to the share of requests that meet it.
        fault_seed: What the choice of those requests depends on.

    Raises:
        ProviderNotFoundError: No installed package offers it.
        ProviderLoadError: Its package can't be used.
        UsageError: There is no such kind of fault, or the shares make no sense.
    """
    factory = load_entry_point(EMULATORS, name)
    from metricsbridge.testing.emulator import EMULATOR
    from metricsbridge.testing.faults import Faults
    from metricsbridge.testing.fleet import Fleet

    given: dict[str, Any] = {}
    with usage_errors():
        if seed is not None or jobs is not None:
            size = {} if jobs is None else {"size": jobs}
            given["fleet"] = Fleet(seed=seed or 0, now_ms=SystemClock().now_ms(), **size)
        if faults:
            given["faults"] = Faults(rates=faults, seed=fault_seed)
        app: web.Application = factory(**given)
    if EMULATOR not in app:
        raise ProviderLoadError(f"the emulator {name!r} does not say how to reach it: it sets no app[EMULATOR]")
    return app


async def serve_until_stopped(name: str, app: web.Application, *, host: str, port: int, as_json: bool) -> None:
    """Serve, say how to reach it, and stop cleanly on SIGINT or SIGTERM."""
    from metricsbridge.testing.emulator import EMULATOR, serve

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with serve(app, host=host, port=port) as url:
            emulator = app[EMULATOR]
            settings = dict(emulator.settings(url))
            if as_json:
                said = {"provider": name, "url": url, "settings": settings, "jobs": list(emulator.jobs)}
                print(json.dumps(said), flush=True)
            else:
                print(_instructions(name, url, settings, emulator.jobs), flush=True)
            async for _ in signals:
                return


def _instructions(name: str, url: str, settings: Mapping[str, Any], jobs: Sequence[str]) -> str:
    example = jobs[0] if jobs else "JOB"
    lines = [
        f"Emulating {name} at {url}: {len(jobs)} jobs, simulated numbers, made-up credentials. Ctrl-C stops it.",
        "",
        "To read from it, put this into metricsbridge.toml:",
        "",
        "[sources.emulated]",
        f"provider = {json.dumps(name)}",
        *[f"{key} = {to_toml(value)}" for key, value in settings.items()],
        "",
        "and then, in another terminal:",
        "",
        "  metricsbridge jobs emulated",
        f"  metricsbridge collect emulated/{example}",
        "  metricsbridge collect emulated --last 1h",
    ]
    return "\n".join(lines)


def to_toml(value: Any, /) -> str:
    """Give a plain value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join([f"{json.dumps(key)} = {to_toml(entry)}" for key, entry in value.items()]) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join([to_toml(entry) for entry in value]) + "]"
    return json.dumps(value, ensure_ascii=False)
