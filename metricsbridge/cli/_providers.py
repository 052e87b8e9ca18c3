"""The installed providers, each loaded on its own so that a broken one is only reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.table import Table
from rich.text import Text

from metricsbridge.cli._emulate import emulator_names
from metricsbridge.cli._text import printable
from metricsbridge.errors import MetricsBridgeError
from metricsbridge.protocols import SupportsEvaluations, SupportsJobSearch
from metricsbridge.registry import PROVIDERS, load_provider
from metricsbridge.registry import providers as installed
from metricsbridge.series._kernel import ENGINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from metricsbridge.model import Level
    from metricsbridge.registry import ProviderInfo

_ABILITIES: Final = (("listed", SupportsJobSearch), ("evaluated", SupportsEvaluations))
"""What can be done with jobs, and the protocol that says so; jobs that are listed can be counted too."""

_LEVELS: Final[tuple[Level, ...]] = ("task", "device", "job")


@attrs.frozen(kw_only=True)
class Described:
    """A provider, and what its package says of it.

    Attributes:
        settings: Names of its own settings.
        abilities: What can be done with its jobs besides collecting from them.
        serves: Level to the canonical metrics that there are on it.
        timing: Whether the times of samples are reported or inferred; "" where that is not known.
        emulator: Whether it can be emulated.
        error: Why it can't be used, or "".
    """

    info: ProviderInfo
    description: str = ""
    settings: tuple[str, ...] = ()
    abilities: tuple[str, ...] = ()
    serves: Mapping[Level, tuple[str, ...]] = attrs.field(factory=dict)
    timing: str = ""
    emulator: bool = False
    error: str = ""

    def document(self) -> dict[str, Any]:
        """Give plain values for JSON."""
        document: dict[str, Any] = {**attrs.asdict(self.info), **attrs.asdict(self), "serves": dict(self.serves)}
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
        able = [word for word, kind in _ABILITIES if spec.provider is not None and issubclass(spec.provider, kind)]
        found.append(Described(
            info=info,
            description=spec.description,
            settings=tuple([field.name for field in attrs.fields(spec.settings)]),
            abilities=tuple(able),
            serves=spec.serves,
            timing=str(spec.timing) if spec.serves else "",
            emulator=name in emulated,
        ))  # fmt: skip
    return found


def markdown_table(found: Iterable[Described], /) -> str:
    """Give what each provider can do as a table in Markdown; what can't be used is left out."""
    lines = [
        "| provider | reads | jobs are | per task | per device | per job | times |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        if not each.error:
            levels = [families(each.serves.get(level, ())) for level in _LEVELS]
            cells = (f"`{each.info.name}`", each.description, ", ".join(each.abilities), *levels, each.timing)
            lines.append(f"| {' | '.join([cell or '–' for cell in cells])} |")
    return "\n".join(lines)


def families(metrics: Iterable[str], /) -> str:
    """Say in a few words what canonical metrics tell of: ``CPU, memory, GPU``."""
    words = dict.fromkeys([metric.split(".")[1] for metric in metrics])
    return ", ".join([word.upper() if len(word) == 3 else word for word in words])


def print_providers(console: Console, found: Sequence[Described]) -> None:
    """Print them, how to get more, and whether the compiled kernel is in use."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("name", "package", "reads"):
        table.add_column(title, no_wrap=title != "reads", overflow="fold")
    for each in found:
        said = Text(printable(each.description))
        if each.error:
            said = Text(f"unusable: {printable(each.error)}", style="red")
        else:
            for level in _LEVELS:
                if level in each.serves:
                    said.append(f"\nper {level}: {families(each.serves[level])}")
            if each.abilities:
                said.append(f"\njobs: {', '.join(each.abilities)}")
            if each.settings:
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
    console.print(Text(f"Kernel for decoding and alignment: {ENGINE}"))
