"""Documents of every shape that the decoders know, mostly as they ought to be, and what must hold of any bytes at all.

The writers take a source of chance, which hypothesis, a fuzzer or a plain seed may be.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from core.series_strategies import same_bits
from metricsbridge.errors import DecodeError
from metricsbridge.series._reference_decode import (
    decode_labelled_lists_reference,
    decode_number_arrays_reference,
    decode_rows_reference,
    decode_sample_lists_reference,
)
from metricsbridge.series.decode import NumberArrays, decode_number_arrays
from metricsbridge.series.matrices import LabelledLists, decode_labelled_lists
from metricsbridge.series.samples import Rows, SampleLists, decode_rows, decode_sample_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random


@attrs.frozen
class Shape:
    """What a document is like: its schema, the function that decodes it and the slow twin of that."""

    schema: Any
    decode: Callable[[bytes, Any], Any]
    twin: Callable[[bytes, Any], Any]


_PLAIN: Final = NumberArrays(series="metrics", name="metric", values="value", missing=-1)
_TEXT: Final = attrs.evolve(_PLAIN, missing=None, text=True, doubtful="0", interval="interval")
_LABELLED: Final = LabelledLists(
    holder="data", series="result", labels="metric", samples="values", warnings="warnings", blank_from=9.2e18
)
_ROWS: Final = Rows(time="timestamp", values=("Value", "Average"), numbered=frozenset({"gpu"}))
_SAMPLES: Final = SampleLists(series="PodMetrics", name="PodId", samples="Metrics", time="Time", value="Value")

_ARRAYS: Final = (decode_number_arrays, decode_number_arrays_reference)
_LISTS: Final = (decode_labelled_lists, decode_labelled_lists_reference)
SHAPES: Final = {
    "plain": Shape(_PLAIN, *_ARRAYS),
    "plain-0": Shape(attrs.evolve(_PLAIN, missing=0), *_ARRAYS),
    "interval": Shape(attrs.evolve(_PLAIN, interval="interval"), *_ARRAYS),
    "text": Shape(_TEXT, *_ARRAYS),
    "keyed": Shape(attrs.evolve(_TEXT, series="system", name="", values="", missing=-1), *_ARRAYS),
    "keyed-plain": Shape(NumberArrays(series="system"), *_ARRAYS),
    "document": Shape(attrs.evolve(_TEXT, series="", name="", values=""), *_ARRAYS),
    "samples": Shape(_SAMPLES, decode_sample_lists, decode_sample_lists_reference),
    "rows": Shape(_ROWS, decode_rows, decode_rows_reference),
    "lists": Shape(_LABELLED, *_LISTS),
    "single": Shape(attrs.evolve(_LABELLED, samples="value", single=True, warnings=""), *_LISTS),
    "no-blank": Shape(attrs.evolve(_LABELLED, blank_from=None), *_LISTS),
}

DEEPEST: Final = 500
"""How deep a document may be nested before the room on the interpreter's stack, which varies, decides."""


def check(shape: str, body: bytes, /) -> bool:
    """Assert that the function and its twin do the same with any bytes; tell whether they decode them."""
    schema = SHAPES[shape].schema
    actual, error = _outcome(SHAPES[shape].decode, body, schema)
    expected, _ = _outcome(SHAPES[shape].twin, body, schema)
    if error is not None:
        assert error.offset is not None
        assert 0 <= error.offset <= len(body)
        assert error.path.startswith("$")
        assert f"byte {error.offset}" in str(error)
        assert error.path in str(error)
    if body.count(b"[") + body.count(b"{") < DEEPEST:
        assert (actual is None) == (expected is None)
    if actual is not None and expected is not None:
        assert_same(actual, expected)
    return actual is not None


def _outcome(decode: Callable[[bytes, Any], Any], body: bytes, schema: Any) -> tuple[Any, DecodeError | None]:
    try:
        return decode(body, schema), None
    except DecodeError as error:
        return None, error


def assert_same(left: Any, right: Any, /) -> None:
    """Assert that two results are the same, numbers bit for bit."""
    assert type(left) is type(right)
    assert left.offsets.tolist() == right.offsets.tolist()
    for field in attrs.fields(type(left)):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            assert same_bits(one, other), field.name
        elif isinstance(one, float):
            assert math.copysign(1, one) == math.copysign(1, other)
            assert one == other, field.name
        else:
            assert one == other, field.name


# Documents

_SPACES: Final = ("", "", "", "", " ", "\n\t ", "\r\n")
_NAMES: Final = ("", "a", "cpuUsage", "b c", 'quo"te', "back\\slash", "line\n", "任务", "\U0001f600", "\x7f", "null")
_UNKNOWN: Final = ("x", "y z", "ü", "[", "}", '"', "", "\U0001f600")
_NUMBERS: Final = (
    "0", "-0", "0.0", "-0.0", "0e0", "-0E+5", "1", "-1", "-1.0", "-10e-1", "7.5", "1e3", "1E-7", "1616987726587",
    "1616987726.587", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551616", "9223372036854775.807", "9.2e18", "1.7976931348623157e308",
    "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400", "0.1", "123456789012345678901234567890",
    "8.41e21", "2.2250738585072011e-308", "1." + "0" * 40 + "1", "0." + "0" * 330 + "1e331", "1" + "0" * 308,
    # Halfway between the largest float64 and what would follow it, and right before that.
    str(2**1024 - 2**970), str(2**1024 - 2**970 - 1),
)  # fmt: skip
_TOO_LARGE: Final = (
    "1e400",
    "-1e400",
    "1.7976931348623159e308",
    "9" * 400,
    "-" + "9" * 400,
    "9" * 5000,
    "1e99999999999",
)
_NO_NUMBERS: Final = (
    "", "NaN", "nan", "-nan", "+nan", "inf", "+Inf", "-Inf", "Infinity", "-infinity", "null", "NULL", "true", " 1",
    "1 ", "01", "-01", "+1", "1_0", "1.", ".5", "1e", "1e+", "0x10", "１", "٣", "1\n", "-", "x", "1\x00", "nan(1)",
)  # fmt: skip
_SCALARS: Final = ("null", "true", "false", "{}", "[]", '"x"', "[[1]]", '{"a": 1}')
_MALFORMED: Final = (
    "01", "1.", ".5", "+1", "1e", "-", "--1", "1e+", "0x1", "NaN", "Infinity", "-Infinity", "nul", "True", "tru", "1 2",
    "'a'", '"\t"', '"\\x"', '"\\u12g4"', '"\\u12"', '"a', "[1,]", "[,1]", '{"a":1,}', '{"a"}', "{1:2}", "[1", "]", "}",
    "/**/1", "",
)  # fmt: skip
_SURROGATES: Final = (
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud800\\u0041"',
    '"\\udbff\\udbff"',
    '"\\uD83D\\uDE00"',
    '"\\ud83d\\ude00"',
)


class Writer:
    """Writes documents, now and then something unusual in them, rarely something wrong."""

    def __init__(self, random: Random, *, odd: int = 25) -> None:
        self.random = random
        self.odd = odd

    def rarely(self, times: int = 1) -> bool:
        """Tell whether to do what is done once in so many times."""
        return self.random.randrange(self.odd * times) == 0

    def one_of(self, given: Sequence[str]) -> str:
        return given[self.random.randrange(len(given))]

    def space(self) -> str:
        return self.one_of(_SPACES)

    def text(self, value: str) -> str:
        """Write text with or without escapes."""
        if self.rarely():
            return '"' + "".join([f"\\u{unit:04x}" for unit in np.frombuffer(value.encode("utf-16-le"), "<u2")]) + '"'
        return json.dumps(value, ensure_ascii=self.random.randrange(2) == 0)

    def number(self) -> str:
        kind = self.random.randrange(5)
        if kind == 0:
            return self.one_of(_NUMBERS)
        if kind == 1:
            return str(self.random.randrange(10 ** (1 + self.random.randrange(24))))
        whole, part = self.random.randrange(10 ** (1 + self.random.randrange(18))), self.random.randrange(10**6)
        sign = self.one_of(("", "", "-"))
        return f"{sign}{whole}.{part}" if kind < 4 else f"{sign}{whole}.{part}e{self.random.randrange(-330, 290)}"

    def quoted(self) -> str:
        if self.random.randrange(8) == 0:
            return json.dumps(self.one_of(_NO_NUMBERS), ensure_ascii=self.random.randrange(2) == 0)
        return self.text(self.number())

    def time(self) -> str:
        return str(self.random.randrange(10**12, 2 * 10**12))

    def anything(self, depth: int = 2) -> str:
        """Write a value of any kind, for what is passed over: it may hold what nobody could read."""
        kind = self.random.randrange(7 if depth else 5)
        if kind == 5:
            return self.array([self.anything(depth - 1) for _ in range(self.random.randrange(3))])
        if kind == 6:
            return self.object([(name, self.anything(depth - 1)) for name in _UNKNOWN[: self.random.randrange(3)]])
        if kind == 4:
            return self.one_of((*_TOO_LARGE, *_SURROGATES)) if self.rarely() else self.one_of(_SCALARS)
        return (self.number(), self.quoted(), self.text(self.one_of(_NAMES)), "null")[kind]

    def usual(self, given: str) -> str:
        """Give that value, rarely another."""
        if not self.rarely():
            return given
        if self.rarely():
            return self.one_of((*_MALFORMED, *_SURROGATES))
        return self.one_of((*_SCALARS, *_TOO_LARGE, self.quoted(), self.number(), self.anything()))

    def array(self, items: Sequence[str]) -> str:
        return f"[{self.space()}{f'{self.space()},{self.space()}'.join(items)}{self.space()}]"

    def object(self, members: Sequence[tuple[str, str]]) -> str:
        """Write an object with these members in any order, rarely one left out or twice, sometimes unknown ones."""
        found = [*members]
        if self.random.randrange(3) == 0:
            found.append((self.one_of(_UNKNOWN), self.anything()))
        if found and self.rarely():
            name = found[self.random.randrange(len(found))][0]
            found.append((name, self.one_of((*_SCALARS, *_TOO_LARGE, self.number(), self.quoted(), found[0][1]))))
        if found and self.rarely(2):
            del found[self.random.randrange(len(found))]
        if self.random.randrange(3) == 0:
            self.random.shuffle(found)
        written = [
            f"{self.space()}{self.text(name)}{self.space()}:{self.space()}{value}{self.space()}"
            for name, value in found
        ]
        return f"{{{','.join(written) or self.space()}}}"

    def some(self, most: int, make: Callable[[], str]) -> list[str]:
        return [self.usual(make()) for _ in range(self.random.randrange(most + 1))]

    def numbers(self, text: bool) -> str:
        def cell() -> str:
            return self.one_of(("null", "-1", '""', '"NaN"')) if self.rarely() else self.number()

        def text_cell() -> str:
            return self.one_of(("null", '"0"', '""', '"NaN"', "0")) if self.rarely() else self.quoted()

        make = text_cell if text and self.random.randrange(4) else cell
        if text and self.random.randrange(4) == 0:
            return self.array(self.some(3, lambda: self.array(self.some(3, make))))
        return self.array(self.some(8, make))

    def document(self, shape: str) -> bytes:
        """Write a document of that shape."""
        schema = SHAPES[shape].schema
        write: dict[type, Callable[[Any], str]] = {
            NumberArrays: self._arrays, SampleLists: self._samples, Rows: self._rows, LabelledLists: self._lists,
        }  # fmt: skip
        return (self.space() + self.usual(write[type(schema)](schema)) + self.space()).encode()

    def _arrays(self, schema: NumberArrays) -> str:
        names = [self.one_of(_NAMES) for _ in range(self.random.randrange(4))]
        interval = [(schema.interval, self.usual(self.one_of(("1", '"5"', "60.5"))))] if schema.interval else []
        found = [(name, self.usual(self.numbers(schema.text))) for name in names]
        if not schema.name:
            held = self.object([*found, *interval])
            return self.object([(schema.series, self.usual(held)), *interval]) if schema.series else held
        entries = [
            self.usual(self.object([(schema.name, self.usual(self.text(name))), (schema.values, values)]))
            for name, values in found
        ]
        return self.object([(schema.series, self.usual(self.array(entries))), *interval])

    def _samples(self, schema: SampleLists) -> str:
        def sample() -> str:
            return self.object([(schema.time, self.usual(self.time())), (schema.value, self.usual(self.number()))])

        def one() -> str:
            held = self.usual(self.array(self.some(4, sample)))
            return self.object([(schema.name, self.usual(self.text(self.one_of(_NAMES)))), (schema.samples, held)])

        return self.object([(schema.series, self.usual(self.array(self.some(3, one))))])

    def _rows(self, schema: Rows) -> str:
        def row() -> str:
            time = self.time() if self.random.randrange(3) else json.dumps(self.one_of((self.time(), self.number())))
            value = self.quoted() if self.random.randrange(4) == 0 else self.number()
            members = [(schema.time, self.usual(time)), (self.one_of(schema.values), self.usual(value))]
            members.append(("pod", self.usual(self.text(self.one_of(_NAMES)))))
            return self.object([*members, ("GPU", self.usual(self.one_of(("0", "1", '"0"', "-0"))))])

        return self.array(self.some(6, row))

    def _lists(self, schema: LabelledLists) -> str:
        def pair() -> str:
            time = self.number() if self.rarely() else f"{self.time()[:10]}.{self.random.randrange(1000):03}"
            return self.array([self.usual(time), self.usual(self.quoted())])

        def one() -> str:
            labels = [(name, self.usual(self.text(self.one_of(_NAMES)))) for name in ("pod", "ü")]
            held = pair() if schema.single else self.array(self.some(4, pair))
            return self.object([(schema.labels, self.usual(self.object(labels))), (schema.samples, self.usual(held))])

        held = self.object([(schema.series, self.usual(self.array(self.some(3, one))))])
        warnings = self.usual(self.array(self.some(2, lambda: self.text(self.one_of(_NAMES)))))
        return self.object([(schema.holder, self.usual(held)), ("warnings", warnings)])


_JUNK: Final = (
    b"", b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"-", b".", b"e", b"E", b"+", b"0", b"9", b"u", b"null",
    b"true", b"\x00", b"\x1f", b"\x7f", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff",
    b"\xef\xbb\xbf", b"\xc3", b"\n", b"\x0b", b"\xc2\xa0", b"\\ud800", b"\\udc00", b"\\u0000", b"1e999", b"NaN", b"/*",
    b"//", b"'", b"<",
)  # fmt: skip


def mutated(random: Random, body: bytes) -> bytes:
    """Give the bytes with a few of them left out, replaced, put in, doubled or cut off."""
    for _ in range(1 + random.randrange(3)):
        at, length = random.randrange(len(body) + 1), random.randrange(4)
        kind = random.randrange(6)
        if kind == 0:
            body = body[:at] + bytes([random.randrange(256)]) + body[at + 1 :]
        elif kind == 1:
            body = body[: at + 20] + body[at : at + 20] + body[at + 20 :]
        elif kind == 2 and random.randrange(3) == 0:
            body = body[:at]
        else:
            body = body[:at] + _JUNK[random.randrange(len(_JUNK))] + body[at + length :]
    return body
