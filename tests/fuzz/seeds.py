"""What fuzzing starts from: the vendors' own samples, whole days of them, and what is hard to read or to lay."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

from fresh_interpreter import PROJECT
from fuzz import grids, numbers
from fuzz.documents import READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES: Final = sorted((PROJECT / "tests" / "providers").glob("*/samples/*.json"))
_MOST_BYTES: Final = 4000

HARD_NUMBERS: Final = (
    b"0", b"-0", b"-0.0", b"0e0", b"1", b"-1", b"0.1", b"-1.0", b"2.43", b"1e22", b"1e23", b"-1E+5", b"1e-22", b"1e-23",
    b"9007199254740992", b"9007199254740993", b"9007199254740992.5", b"123456789012345678", b"1234567890123456789",
    b"9999999999999999999", b"18446744073709551615", b"18446744073709551616", b"100000000000000000000",
    b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"1616987726.587", b"2199023255551.999",
    b"2199023255552.0005", b"0.0005", b"1.0005", b"-1.5e-3", b"9223372036854775.807", b"5e-324", b"2e-324", b"1e-400",
    b"2.2250738585072014e-308", b"1.7976931348623157e308", b"1.7976931348623159e308", b"1e309", b"1e99999",
    b"179769313486231580793e289", b"8.98846567431158e307", b"7.2057594037927933e16", b"1e64", b"1e65",
    b"1e-64", b"1e-65",
    b"3.0000000000000004440892098500626161694526672363281250", b"0.000000000000000000000000000001",
    b"00", b"01", b"1.", b".5", b"1e", b"1e+", b"+1", b"--1", b"1.e5", b"1_0", b"-",
)  # fmt: skip


_LIKE: Final = {"many-arrays": "number-arrays"}
"""Targets that read what others read."""


def seeds(target: str) -> list[bytes]:
    """Give the inputs that fuzzing of a target starts from."""
    if target in READERS:
        reader = READERS[target]
        bodies = list(_bodies(_LIKE.get(target, target)))
        return [
            reader.input_of(index, body, long=long)
            for index in range(len(reader.schemas))
            for body in bodies
            for long in (False, True)[: 2 if len(body) < 300 else 1]
        ]
    return list({"numbers": _numbers, "align": _grids, "align-raw": _raw_grids}[target]())


def words(target: str) -> list[bytes]:
    """Give what is likely to be a part of an input: names, words and punctuation."""
    if target not in READERS:
        return []
    names = {
        name.encode()
        for schema in READERS[target].schemas
        for value in _plain(schema)
        for name in ([value] if isinstance(value, str) else value if isinstance(value, tuple | frozenset) else ())
        if name
    }
    members = [b'"%b":' % name for name in sorted(names)] + [b',"%b":null' % name for name in sorted(names)]
    return [*members, *HARD_NUMBERS, *_PIECES]


_PIECES: Final = (
    b"null", b"true", b"false", b"NaN", b'"NaN"', b'"nan"', b'"+Inf"', b'"-Infinity"', b'""', b"[]", b"{}", b"[[",
    b"]]", b"},{", b'","', b'":"', b"[null]", b"[1,2]", b'["0"]', rb"\"", rb"\\", rb"\/", rb"\u0041", rb"\ud83d\ude00",
    rb"\udc00", rb"\u0000", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xff", b"\t\r\n ", b"\x00", b"\x7f",
    b"\xef\xbb\xbf",
)  # fmt: skip


def _plain(schema: Any) -> list[Any]:
    return [getattr(schema, name) for name in type(schema).__slots__ if name != "__weakref__" and hasattr(schema, name)]


def _bodies(target: str) -> Iterator[bytes]:
    for path in SAMPLES:
        yield path.read_bytes()[:_MOST_BYTES]  # a few are cut off by the vendor's page, or by us
    for documents in _DOCUMENTS[target]:
        yield documents
        yield documents.replace(b",", b" ,\n").replace(b":", b"\t: ")
        yield documents[: len(documents) // 2]
    for number in HARD_NUMBERS:
        yield _WITH_NUMBER[target] % number


def _day(count: int) -> list[float]:
    return [round(index * 37 % 100 + index % 7 / 10, 2) if index % 11 else -1 for index in range(count)]


def _dumped(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


_WITH_NUMBER: Final = {
    "number-arrays": b'{"metrics":[{"metric":"a","value":[%b]}]}',
    "sample-lists": b'{"s":[{"n":"a","m":[{"t":1,"v":%b}]}]}',
    "labelled-lists": b'{"h":{"s":[{"l":{},"v":[[%b,"1"]]}]}}',
    "rows": b'[{"t":1,"v":%b,"g":1}]',
}

_DOCUMENTS: Final = {
    "number-arrays": [
        _dumped({"metrics": [{"metric": name, "value": _day(300)} for name in ("cpuUsage", "memUsage")]}),
        _dumped({"metrics": [{"metric": "a", "value": [["1.5", "0", "", "NaN"], None, []]}], "interval": "5"}),
        _dumped({"metrics": {"a": ["0", "-1", "2.50"], "b": [["1"], ["2"]], "c": 3}, "interval": 1}),
        _dumped({"a": ["0", None, 3], "interval": None, "b": {"c": [1, {"d": []}]}, "é": []}),
        rb'{"metrics":[{"value":[1,null],"metric":"\u00e9\n","x":[[],{"y":[{}]}]}],"z":"\ud83d\ude00"}',
        _dumped({"metrics": {"a": [0, 1.5, -3e-7], "b": "x", "é": []}}),
        b'{"a":[1],"a":[2]}',
        rb'{"a":["1"],"interva\u006c":5}',
        b"[1]",
        b"{}",
    ],
    "sample-lists": [
        _dumped({"PodMetrics": [
            {"PodId": pod, "Metrics": [{"Time": 1616987726587 + 60000 * i, "Value": v} for i, v in enumerate(_day(60))]}
            for pod in ("a", "b")
        ]}),
        _dumped({"s": [{"m": [{"v": None, "t": -1, "x": [1]}, {"t": 0}], "n": "é"}, {"n": "", "m": None}, {"n": "c"}]}),
        b'{"s":null}',
        b"{}",
    ],
    "labelled-lists": [
        _dumped({"status": "success", "data": {"resultType": "matrix", "result": [
            {"metric": {"pod": pod, "__name__": "x"},
             "values": [[1616987726.587 + index, str(value)] for index, value in enumerate(_day(60))]}
            for pod in ("a", "b")
        ]}, "warnings": ["partly"]}),
        _dumped({"data": {"result": [{"metric": {}, "value": [1.5, "NaN"]}, {"metric": {"é": "\n"}, "value": None}]}}),
        _dumped({"h": {"s": [{"v": [[1, 2], [0.0005, "-Inf"], [1e3, "+inf"], [2, "Infinity"]], "l": {"a": "b"}}]}}),
        _dumped({"h": None, "w": ["x", "é"], "data": None, "warnings": None}),
        b'{"h":{"s":[{"l":{},"v":[[1,',
        b"{}",
    ],
    "rows": [
        _dumped([
            {"timestamp": 1616987700000 + 60000 * (i // 3), "pod": f"w-{i % 3}", "gpu": i % 2, "Average": value}
            for i, value in enumerate(_day(90))
        ]),
        _dumped([{"t": "5", "v": "1.5", "a": "x"}, {"t": 4, "a": "x", "v": None}, {"a": "é", "t": 3}]),
        _dumped([{"t": 1, "G": 7}, {"t": 2, "G": 7.5}]),
        rb'[{"t":1,"v":1,"a":"\u0078"},{"a":"x","t":2,"v":2}]',
        b'[{"t":1,"a":"x","a":null}]',
        _dumped([{"t": 1, **{f"n{index}": "x" for index in range(33)}}]),
        _dumped([{"t": index, "a": str(index)} for index in range(100)]),
        b"[]",
    ],
}  # fmt: skip


def _numbers() -> Iterator[bytes]:
    for text in HARD_NUMBERS:
        if set(text) <= set(numbers.ALPHABET):
            yield numbers.input_of(text)
    yield numbers.input_of(b"1,2.5,-3e4,1616987726.587")


def _grids() -> Iterator[bytes]:
    regular = [(time, time % 15) for time in range(-28, 28, 2)]
    for how in range(7):
        for fill in range(3):
            yield grids.input_of([regular, regular[::-1], []], how=how, fill=fill, around=how % 6, step=how % 6, gap=3)
            yield grids.input_of([regular[::5]], how=how, fill=fill, window=(-20, 50), step=2, gap=200)


def _raw_grids() -> Iterator[bytes]:
    values = struct.pack("<4d", 1.0, float("nan"), 3.0, 4.0)
    for how in range(7):
        columns = struct.pack("<3q2q4q", 0, 3, 4, 1, 5, 0, 10, 25, 7) + values
        yield grids.raw_input_of(2, 3, (0, 30, 0, 10), columns, how=how, fill=how % 3)
    wild = ((-(2**63), 2**63 - 1, 0, 1), (0, 1, 2**63 - 1, 2**63 - 1), (5, 5, 0, 0), (0, 9, 0, -1))
    for first, end, start, step in wild:
        columns = struct.pack("<2q1q4q", 0, 4, 2**63 - 1, -(2**63), 0, 5, 2**63 - 1) + values
        yield grids.raw_input_of(1, 3, (first, end, start, step), columns, how=0, fill=2)
