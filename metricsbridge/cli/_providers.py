"""The installed providers, each loaded on its own so that a broken one is only reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from rich.table import Table
from rich.text import Text

from metricsbridge.cli._emulate import emulator_names
from metricsbridge.cli._text import printable
from metricsbridge.errors import MetricsBridgeError
from metricsbridge.registry import PROVIDERS, load_provider
from metricsbridge.registry import providers as installed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from metricsbridge.registry import ProviderInfo


@attrs.frozen(kw_only=True)
class Described:
    """A provider, and what its package says of it.

    Attributes:
        settings: Names of its own settings.
        emulator: Whether it can be emulated.
        error: Why it can't be used, or "".
    """

    info: ProviderInfo
    description: str = ""
    settings: tuple[str, ...] = ()
    emulator: bool = False
    error: str = ""

    def document(self) -> dict[str, Any]:
        """Give plain values for JSON."""
        document: dict[str, Any] = {**attrs.asdict(self.info), **attrs.asdict(self)}
        del document["info"]
        return document


def describe() -> list[Described]:
    """Give every installed provider by name; importing them does no I/O."""
    emulated = emulator_names()
    found = []
    for name, info in installed().items():
        try:
            spec = load_provider(name)
        except MetricsBridgeError as error:
            found.append(Described(info=info, emulator=name in emulated, error=str(error)))
            continue
        names = tuple([field.name for field in attrs.fields(spec.settings)])
        found.append(Described(info=info, description=spec.description, settings=names, emulator=name in emulated))
    return found


def print_providers(console: Console, found: Sequence[Described]) -> None:
    """Print them, and how to get more."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("name", "package", "reads"):
        table.add_column(title, no_wrap=title != "reads", overflow="fold")
    for each in found:
        said = Text(printable(each.description))
        if each.error:
            said = Text(f"unusable: {printable(each.error)}", style="red")
        elif each.settings:
            said.append(f"\nsettings: {', '.join(each.settings)}", style="dim")
        if each.emulator and not each.error:
            said.append(f"\nemulated: metricsbridge emulate {each.info.name}", style="dim")
        package = f"{each.info.package} {each.info.version}".strip()
        table.add_row(Text(each.info.name, style="green"), Text(package), said)
    if found:
        console.print(table)
        console.print()
    console.print(
        Text(
            ("" if found else "No provider is installed. ")
            + "More come as packages: python -m pip install PACKAGE. Any package that has an entry point in the group "
            f"{PROVIDERS} is found."
        )
    )
