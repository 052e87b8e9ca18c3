"""What is fuzzed of numbers alone, of all that a document may hold the hardest to read right."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from metricsbridge.series import _kernel
from metricsbridge.series.decode import NumberArrays
from metricsbridge.series.matrices import LabelledLists
from metricsbridge.series.samples import SampleLists

ALPHABET: Final = b"0123456789.eE+-,"
"""An input's bytes are taken for these, by their last four bits."""

_NUMBER: Final = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MOST: Final = 8
"""So many numbers of an input are read."""

_VALUES: Final = NumberArrays(series="s", name="n", values="v")
_TEXTS: Final = NumberArrays(series="s", name="n", values="v", text=True)
_PAIRS: Final = LabelledLists(holder="h", series="s", labels="l", samples="v", single=True)
_TIMES: Final = SampleLists(series="s", name="n", samples="m", time="t", value="v")


def input_of(text: bytes) -> bytes:
    """Give the input that stands for numbers with commas between them."""
    return bytes(map(ALPHABET.index, text))


def numbers(data: bytes) -> bool:
    """Tell whether the kernel takes any of an input's numbers, as a value, in a string, as seconds or milliseconds.

    Raises:
        AssertionError: It takes what is none, or takes one for another.
    """
    texts = bytes([ALPHABET[byte & 15] for byte in data]).split(b",", _MOST)[:_MOST]
    return max(list(map(_one, texts)))


def _one(text: bytes) -> bool:
    match = _NUMBER.fullmatch(text)
    number = float(text) if match else math.nan
    if match and not match[2] and not match[3]:
        number += 0.0  # a whole number has no negative zero
    taken = False
    for body, schema, place, kind in (
        (b'{"s":[{"n":"","v":[%b]}]}', _VALUES, 2, "d"),
        (b'{"s":[{"n":"","v":["%b"]}]}', _TEXTS, 2, "d"),
        (b'{"h":{"s":[{"l":{},"v":[%b,0]}]}}', _PAIRS, 2, "q"),
        (b'{"h":{"s":[{"l":{},"v":[0,"%b"]}]}}', _PAIRS, 3, "d"),
        (b'{"s":[{"n":"","m":[{"t":%b}]}]}', _TIMES, 2, "q"),
    ):
        read = _kernel.read(body % text, schema)
        if read is None or (not text and b'"%b"' in body) or not memoryview(read[place]).nbytes:
            continue
        taken = True
        found = memoryview(read[place]).cast("B").cast(kind)[0]
        wanted = _wanted(text, number, schema, kind)
        assert _bits(found) == _bits(wanted), f"{schema}\n{body % text!r}\nkernel: {found!r}, {text!r} is {wanted!r}"
    return taken


def _wanted(text: bytes, number: float, schema: Any, kind: str) -> float | int | None:
    if math.isnan(number) or math.isinf(number):
        return None
    if schema is _TIMES:
        return int(text) if text.lstrip(b"-").isdigit() else None
    return number if kind == "d" else round(number * 1000)


def _bits(value: float | int | None) -> str:
    return value.hex() if isinstance(value, float) else repr(value)
