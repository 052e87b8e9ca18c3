"""Writes the package of a new provider from the templates beside this module."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge.cli._arguments import UsageError
from metricsbridge.registry import providers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_TEMPLATES: Final[Mapping[str, str]] = {
    "pyproject.toml": "pyproject.toml.txt",
    "@module@.py": "provider.py.txt",
    "tests/test_contract.py": "test_contract.py.txt",
}
"""Path in the package to the template of the file."""


@attrs.frozen
class Written:
    """A package that was written: its folder, and the files in it."""

    folder: Path
    files: tuple[Path, ...]


def write_package(name: str, place: Path, /) -> Written:
    """Write the package of a provider into a new folder in a place.

    Raises:
        UsageError: The name is none for a provider, or is taken; or the folder is there already.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a provider: use small letters and digits, and '-' between words")
    taken = providers().get(name)
    if taken is not None:
        raise UsageError(f"there is a provider {name!r} already, of {taken.package}: choose another name")
    folder = place / f"metricsbridge-{name}"
    if folder.exists():
        raise UsageError(f"{folder} is there already: remove it, or choose another name")
    words = {
        "@module@": f"metricsbridge_{name.replace('-', '_')}",
        "@Title@": "".join([word.capitalize() for word in name.split("-")]),
        "@name@": name,
    }
    templates = files("metricsbridge.cli") / "new_provider"
    written = []
    for target, template in _TEMPLATES.items():
        path = folder / _filled(target, words)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_filled((templates / template).read_text("utf-8"), words), "utf-8")
        written.append(path)
    return Written(folder, tuple(written))


def _filled(text: str, words: Mapping[str, str]) -> str:
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text
