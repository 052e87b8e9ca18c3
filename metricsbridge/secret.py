"""A string that never shows itself, and a key that signs."""

from __future__ import annotations

import hashlib
from typing import Final, NoReturn, final

_BLOCK: Final = 64
"""Bytes that SHA-256 takes at once; a longer key stands for its hash (RFC 2104)."""


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


@final
class HmacKey:
    """A key for HMAC-SHA256 (RFC 2104), prepared once for the many texts that it signs; it never shows itself."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes([byte ^ 0x36 for byte in block]))
        self._outer = hashlib.sha256(bytes([byte ^ 0x5C for byte in block]))

    def sign(self, message: bytes, /) -> str:
        """Give the message's authentication code in hexadecimal."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.hexdigest()

    def __repr__(self) -> str:
        return "HmacKey(***)"
