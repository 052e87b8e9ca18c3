"""Find providers through entry points, without importing them; load one by name; open it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.config import check_settings
from metricsbridge.errors import ProviderLoadError, ProviderNotFoundError
from metricsbridge.observer import guarded
from metricsbridge.protocols import API_VERSION, ProviderSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from metricsbridge.observer import Observer
    from metricsbridge.protocols import Authenticator, Clock, Rate, TrainingJobMetrics, Transport
    from metricsbridge.runtime._limits import Quota

PROVIDERS: Final = "metricsbridge.providers"
EMULATORS: Final = "metricsbridge.emulators"


@attrs.frozen(kw_only=True)
class ProviderInfo:
    """An installed provider, not imported.

    Attributes:
        name: What it is opened by.
        target: The module and attribute that its entry point names.
        package: The distribution that brings it.
        version: That distribution's version.
        conflicts: Other distributions that offer the same name; such a name can't be opened.
    """

    name: str
    target: str
    package: str
    version: str
    conflicts: tuple[str, ...] = ()


def providers() -> dict[str, ProviderInfo]:
    """Give the installed providers by name; nothing is imported."""
    found: dict[str, ProviderInfo] = {}
    for point in sorted(entry_points(group=PROVIDERS), key=lambda point: (point.name, _package(point))):
        package = _package(point)
        first = found.get(point.name)
        if first is None:
            version = point.dist.version if point.dist is not None else ""
            found[point.name] = ProviderInfo(name=point.name, target=point.value, package=package, version=version)
        elif first.target != point.value:
            found[point.name] = attrs.evolve(first, conflicts=(*first.conflicts, package))
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""


def load_provider(name: str, /) -> ProviderSpec:
    """Import one provider and give its spec.

    Raises:
        ProviderNotFoundError: No installed package offers it.
        ProviderLoadError: Its package can't be imported, two packages offer it, or it is written for another version
            of the contract.
    """
    installed = providers()
    info = installed.get(name)
    if info is None:
        close = get_close_matches(name, installed, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"installed are: {', '.join(sorted(installed)) or 'none'}"
        raise ProviderNotFoundError(f"there is no provider {name!r}; {hint}")
    if info.conflicts:
        names = ", ".join((info.package, *info.conflicts))
        raise ProviderLoadError(f"provider {name!r} is offered by several packages ({names}): uninstall all but one")
    spec = load_entry_point(PROVIDERS, name, info.package)
    if not isinstance(spec, ProviderSpec):
        raise ProviderLoadError(f"provider {name!r} of {info.package}: {info.target} is no ProviderSpec")
    _check(spec, f"provider {name!r} of {info.package}")
    return spec


def _check(spec: ProviderSpec, which: str) -> None:
    """Hold a spec against what the library needs of it, so that a wrong one is reported by its name.

    Raises:
        ProviderLoadError: It is for another version of the contract, or its fields are not what they must be.
    """
    if not isinstance(spec.api, int) or spec.api != API_VERSION:
        older = isinstance(spec.api, int) and spec.api < API_VERSION
        raise ProviderLoadError(
            f"{which} is written for version {spec.api} of the contract, this is version {API_VERSION}: "
            f"update {which.rpartition(' ')[2] if older else 'metricsbridge'}"
        )
    if not (isinstance(spec.settings, type) and attrs.has(spec.settings)):
        raise ProviderLoadError(f"{which}: settings is {spec.settings!r}, no attrs class: its author must mend it")
    if not (spec.provider is None or isinstance(spec.provider, type)):
        raise ProviderLoadError(f"{which}: provider is {spec.provider!r}, no class: its author must mend it")


def load_entry_point(group: str, name: str, package: str = "", /) -> Any:
    """Import what an entry point names.

    Raises:
        ProviderNotFoundError: No installed package offers it.
        ProviderLoadError: The import fails; ``__cause__`` is why.
    """
    point = next((p for p in entry_points(group=group, name=name) if package in ("", _package(p))), None)
    if point is None:
        offered = ", ".join(sorted({p.name for p in entry_points(group=group)})) or "none"
        raise ProviderNotFoundError(f"{name!r} is not among {group}; there are: {offered}")
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # a script that was never meant to be imported may want to exit
        what = f"{type(error).__name__}: {error}"
        raise ProviderLoadError(
            f"{name!r} of {_package(point)} can't be imported ({what}): mend or remove it"
        ) from error


@asynccontextmanager
async def open_provider(
    name: str,
    /,
    *,
    transport: Transport | None = None,
    clock: Clock | None = None,
    authenticator: Authenticator | None = None,
    limits: Mapping[str, Rate | str] | None = None,
    observer: Observer | None = None,
    quota: Quota | None = None,
    **settings: Any,
) -> AsyncIterator[TrainingJobMetrics]:
    """Open a provider by name; leaving the block closes its connections.

    Args:
        name: As in ``providers()``.
        transport: Takes the place of the socket only: signing, classification, limits and retries stay on top.
        clock: Takes the place of the system's; by default a transport's own ``clock``, where it has one.
        authenticator: Takes the place of the provider's.
        limits: Operation to rate; replaces the documented ones.
        observer: Is told of every request, log-ins too; by default that of the collector that opens the provider.
        quota: Shares rate limits with other providers; by default its own, or that of the collector around it.
        settings: The provider's own and the common ones; see its class of settings and ``ConnectionSettings``.

    Raises:
        ProviderNotFoundError: No installed package offers it.
        ProviderLoadError: Its package can't be used.
        ConfigurationError: A setting is missing, unknown or malformed; nothing was sent.
    """
    spec = load_provider(name)
    opening = open_spec(
        name,
        spec,
        transport=transport,
        clock=clock,
        authenticator=authenticator,
        limits=limits,
        observer=observer,
        quota=quota,
        **settings,
    )
    settings.clear()  # from here on secrets are ``Secret``: a traceback that shows variables shows none
    async with opening as provider:
        yield provider


@asynccontextmanager
async def open_spec(
    name: str,
    spec: ProviderSpec,
    /,
    *,
    transport: Transport | None = None,
    clock: Clock | None = None,
    authenticator: Authenticator | None = None,
    limits: Mapping[str, Rate | str] | None = None,
    observer: Observer | None = None,
    quota: Quota | None = None,
    **settings: Any,
) -> AsyncIterator[TrainingJobMetrics]:
    """Open what a spec offers, installed or not; the arguments are those of ``open_provider``.

    Raises:
        ConfigurationError: A setting is missing, unknown or malformed; nothing was sent.
    """
    from metricsbridge.runtime._stack import open_stack

    try:
        own, connection = check_settings(spec.settings, name, {**settings, "limits": limits})
    finally:
        settings.clear()  # as above
    async with open_stack(
        name, spec, own, connection, transport=transport, clock=clock, authenticator=authenticator, quota=quota,
        observer=None if observer is None else guarded(observer),
    ) as stack:  # fmt: skip
        yield await spec.connect(own, stack)
