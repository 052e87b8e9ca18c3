"""A string that never shows itself."""

from __future__ import annotations

import attrs


@attrs.frozen(repr=False, str=False)
class Secret:
    """A key, password or token; printing, logging or formatting it shows ``***``."""

    _value: str

    def reveal(self) -> str:
        """Give the real text, to be used at once and bound to no name."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __len__(self) -> int:
        return len(self._value)
