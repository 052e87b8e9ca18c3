"""A string that never shows itself."""

from __future__ import annotations

from typing import NoReturn, final


@final
class Secret:
    """A key, password or token; printing, logging or formatting it shows ``***``.

    It is no attrs class on purpose: ``attrs.asdict`` and pretty printers, which look into those by their fields, find
    nothing here. Pickling keeps the text, so that a program may hand its settings to another process.
    """

    __slots__ = ("_value",)

    _value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", value)

    def reveal(self) -> str:
        """Give the real text, to be used at once and bound to no name."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Secret is never changed: make another one instead of setting {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Secret is never changed: {name!r} stays")

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, (self._value,))
