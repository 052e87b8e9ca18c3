"""The compiled kernel itself: what it takes without help, how it rounds, and what its columns are."""

from __future__ import annotations

import gc
import random
import struct
import sys
import tracemalloc
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metricsbridge.series import _kernel
from metricsbridge.series.decode import NumberArrays, decode_number_arrays
from metricsbridge.series.matrices import LabelledLists
from metricsbridge.series.samples import Rows, SampleLists

PLAIN = NumberArrays(series="metrics", name="metric", values="value", missing=-1.0)
TEXTS = NumberArrays(text=True, doubtful="0", interval="interval")
SAMPLES = SampleLists(series="PodMetrics", name="PodId", samples="Metrics", time="Time", value="Value")
ROWS = Rows(time="timestamp", values=("Value", "Average"), numbered=frozenset({"gpu"}))
LISTS = LabelledLists(holder="data", series="result", labels="metric", samples="values", warnings="warnings")


needs_kernel = pytest.mark.usefixtures("compiled")


def arrays(*numbers: str) -> bytes:
    return b'{"metrics":[{"metric":"a","value":[%b]}]}' % ",".join(numbers).encode()


def rounded(*numbers: str) -> list[float]:
    """Give what the kernel makes of numbers."""
    found = _kernel.read(arrays(*numbers), PLAIN)
    assert found is not None, numbers
    return np.frombuffer(found[2], np.float64).tolist()


def bits(values: list[float]) -> bytes:
    return struct.pack(f"{len(values)}d", *values)


@needs_kernel
@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (PLAIN, b'{"metrics": [{"metric": "a", "value": [1, -1, 2.5e-3, null]}, {"value": [], "metric": "b"}]}'),
        (PLAIN, b'\n{ "x" : {"y":[{},[],"\\n",true]},\t"metrics":[ { "metric" : "\\u00e4", "value":[ 1 , 2 ] } ]}\r\n'),
        (PLAIN, '{"metrics":[{"metric":"ä","unit":"µ","value":[0.1234567890123456789]}]}'.encode()),
        (TEXTS, b'{"cpu": ["0", "0.00", "", "nan", null, 3], "interval": "1", "n": {"m": 1e5}, "g": [["1"], null]}'),
        (SAMPLES, b'{"JobId": "j", "PodMetrics": [{"Metrics": [{"Value": 2, "Time": 5}, {"Time":6}], "PodId": "a"}]}'),
        (SAMPLES, b'{"PodMetrics":[{"PodId":"a","Metrics":[{"Time":1616987726587,"Value":23.45,"Unit":"%"}]}]}'),
        (SAMPLES, b'{"PodMetrics": null}'),
        (ROWS, b'[{"timestamp":1,"pod":"a","gpu":0,"Value":1}, {"Average":"2","pod":"\\t","timestamp":"3"}]'),
        (LISTS, b'{"data":{"result":[{"metric":{"a":"\\"b"},"values":[[1.5,"1"],[2,"+Inf"],[3e0,4]]}]},"warnings":[]}'),
    ],
)  # fmt: skip
def test_usual_documents_are_read_without_the_slower_decoder(schema: Any, body: bytes) -> None:
    assert _kernel.read(body, schema) is not None


@needs_kernel
@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"{}", arrays("01"), arrays("1e999"), arrays("1") + b"x", b"\xff" + arrays("1"), arrays("1") + b"\0"],
)
def test_what_is_malformed_or_unusual_is_left_to_the_slower_decoder(body: bytes) -> None:
    assert _kernel.read(body, PLAIN) is None


@needs_kernel
def test_bytes_of_another_kind_are_left_to_the_slower_decoder() -> None:
    body = arrays("1", "2")
    assert _kernel.read(bytearray(body), PLAIN) is None  # type: ignore[arg-type]  # what it is about
    assert decode_number_arrays(bytearray(body), PLAIN).values.tolist() == [1.0, 2.0]  # type: ignore[arg-type]


@needs_kernel
@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_name_that_json_escapes_is_left_to_the_slower_decoder(name: str) -> None:
    schema = NumberArrays(series=name, name="metric", values="value")
    assert _kernel.read(arrays("1"), schema) is None


@needs_kernel
def test_more_names_than_the_kernel_looks_for_are_left_to_the_slower_decoder() -> None:
    assert _kernel.read(b'[{"t":1,"v":1}]', Rows(time="t", values=tuple([f"v{n}" for n in range(40)]))) is None


# Numbers


@needs_kernel
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value != -1.0), min_size=1))
def test_every_float_that_is_written_in_full_is_read_back(values: list[float]) -> None:
    texts = [f"{value!r}" for value in values]
    assert bits(rounded(*texts)) == bits(values)


@needs_kernel
@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
    .filter(lambda text: abs(float(text)) < 1e300 and float(text) != -1.0)
)  # fmt: skip
@example("9999999999999903.000")
@example("9007199254740993")
@example("9007199254740993.0")
@example("9007199254740992.99999999999")
@example("0.000000000000000000000000000000000001")
@example("179769313486231570000000000000000000000000000000000000000000000000.5e-3")
@example("4.9406564584124654e-324")
@example("2.2250738585072011e-308")
@example("1e23")
@example("8.41e21")
@example("9.5367431640625e-07")
def test_a_number_is_the_float_that_python_reads(text: str) -> None:
    whole_zero = text == "-0"
    assert bits(rounded(text)) == bits([0.0 if whole_zero else float(text)])


@needs_kernel
def test_every_short_number_is_the_float_that_python_reads_whatever_stands_behind_it() -> None:
    wholes = [*map(str, range(120)), "999", "1000", "9999", "12345", "999999", "9999999", "10000000"]
    parts = ["", ".0", ".5", ".05", ".50", ".99", ".125", ".0625", ".03125", ".015625", "e2", "E-1", ".5e1", ".25E+2"]
    texts = [f"{sign}{whole}{part}" for sign in ("", "-") for whole in wholes for part in parts]
    expected = bits([0.0 if text == "-0" else float(text) for text in texts if float(text) != -1.0])
    for space in ("", " ", "\n\t  \r"):
        assert bits(rounded(*[space + text + space for text in texts if float(text) != -1.0])) == expected
    for text in texts:  # the last of a document, with few bytes behind it
        if float(text) != -1.0:
            assert bits(rounded(text)) == bits([0.0 if text == "-0" else float(text)])


@needs_kernel
@pytest.mark.parametrize(
    "text", ["00", "01", "00.5", "007", "1.", ".5", "1..5", "1.5.", "1.5.5", "1e", "1.e1", "1a", "1.5a", "-", "."]
)
def test_what_only_looks_like_a_short_number_is_left_to_the_slower_decoder(text: str) -> None:
    assert _kernel.read(arrays(text, "1", "2", "3"), PLAIN) is None
    assert _kernel.read(arrays("1", text), PLAIN) is None


@needs_kernel
def test_numbers_close_to_the_middle_between_two_floats_are_rounded_as_python_does() -> None:
    dice = random.Random(7)
    texts = []
    for _ in range(3_000):
        low = dice.uniform(0.5, 1.0) * 2.0 ** dice.randrange(-60, 80)
        middle = (Fraction(low) + Fraction(np.nextafter(low, np.inf))) / 2
        digits = f"{middle.numerator * 10 ** dice.randrange(40, 60) // middle.denominator}"
        point = dice.randrange(1, len(digits))
        texts.append(f"{digits[:point]}.{digits[point:]}e{dice.randrange(-30, 10)}")
        texts.append(f"{digits[:17]}e{len(digits) - 17 - dice.randrange(40)}")
    assert bits(rounded(*texts)) == bits([float(text) for text in texts])


@needs_kernel
def test_numbers_in_the_very_middle_between_two_floats_are_rounded_to_the_even_one() -> None:
    dice = random.Random(11)
    texts = []
    for power in range(-6, 24):
        for _ in range(200):
            # A middle is an odd multiple of half the distance between two floats: 54 bits, the lowest of them set.
            middle = (dice.getrandbits(53) | 1 << 52) * 2 + 1 << dice.randrange(4)
            if power >= 0 and middle % 5**power:
                middle *= 5**power  # too long for the quick way, which must not be taken then
                texts.append(f"{middle}e-{power}")
            elif power < 0:
                texts += [f"{middle * 10**-power}e{power}", f"{middle}.{'0' * -power}"]
    assert bits(rounded(*texts)) == bits([float(text) for text in texts])


@needs_kernel
@pytest.mark.parametrize("size", range(24))
def test_a_number_may_end_anywhere_before_the_end_of_the_body(size: int) -> None:
    digits = "1234567890123456789012345"[: size + 1]
    for text in (digits, f"{digits}.5", f"0.{digits}"):
        assert rounded(text) == [float(text)]


# Columns


@needs_kernel
def test_columns_outlive_the_body_and_can_be_written_to() -> None:
    found = decode_number_arrays(arrays(*["1.5"] * 10_000), PLAIN)
    gc.collect()
    found.values[0] = 2.0
    assert found.values.sum() == 1.5 * 9_999 + 2.0
    assert found.values.flags.aligned


@needs_kernel
def test_empty_columns_are_columns() -> None:
    found = decode_number_arrays(arrays(), PLAIN)
    assert found.values.shape == (0,)
    assert found.lengths == (0,)


@needs_kernel
def test_reading_leaves_nothing_behind() -> None:
    bodies = [arrays(*["1.25"] * 2_000), arrays(*["1.25"] * 2_000)[:-1], arrays(*["x"])]
    schemas: list[Any] = [PLAIN, TEXTS, SAMPLES, ROWS, LISTS]

    def read_all() -> int:
        for _ in range(50):
            for schema in schemas:
                for body in bodies:
                    _kernel.read(body, schema)
        gc.collect()
        return int(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        before = read_all()
        assert read_all() - before < 10_000
    finally:
        tracemalloc.stop()


# Which engine


def test_the_kernel_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICSBRIDGE_KERNEL", "off")
    assert _kernel._load() == (None, "python (METRICSBRIDGE_KERNEL=off)")


def test_a_kernel_that_was_built_of_other_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metricsbridge.series._kernels", SimpleNamespace(INTERFACE=0))  # type: ignore[arg-type]
    found, engine = _kernel._load()
    assert found is None
    assert "install again" in engine


def test_where_there_is_no_kernel_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metricsbridge.series._kernels", None)  # type: ignore[arg-type]
    found, engine = _kernel._load()
    assert found is None
    assert "was not built" in engine
