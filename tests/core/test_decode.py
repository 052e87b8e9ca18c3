import json
import math
import pickle

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metricsbridge.errors import DecodeError
from metricsbridge.series._places import path_at
from metricsbridge.series._reference_decode import decode_number_arrays_reference
from metricsbridge.series.decode import NamedArrays, NumberArrays, decode_number_arrays, regular_times

pytestmark = pytest.mark.usefixtures("engine")

SCHEMA = NumberArrays(series="metrics", name="metric", values="value", missing=-1)
PLAIN = attrs.evolve(SCHEMA, missing=None)

SAMPLE = (
    b'{"metrics": [{"metric": "cpuUsage", "value": [-1, -1.0, 2.43, 0]}, '
    b'{"value": [98.5e-1, null, 7], "unit": {"of": ["%"]}, "metric": "gpuUtil"}], "total": 2}'
)

number_texts = st.one_of(
    st.integers().map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
cell_texts = st.one_of(number_texts, st.sampled_from(["null", "-1", "-1.0", "-1e0", "-10E-1", "-1.000", "-0.1e+1"]))
spaces = st.sampled_from(["", " ", "\n\t ", "\r\n"])
any_text = st.text(st.characters(codec="utf-8"), max_size=8)
plain_text = st.text("abc xyz", max_size=8)


def document(*arrays: str) -> bytes:
    """Write a document of arrays, each given as the text between its brackets."""
    entries = [f'{{"metric": "m{index}", "value": [{texts}]}}' for index, texts in enumerate(arrays)]
    return f'{{"metrics": [{", ".join(entries)}]}}'.encode()


def anything(text: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    """Any JSON value."""
    scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), text)
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
    )


@st.composite
def documents(draw: st.DrawFn, *, text: st.SearchStrategy[str] = any_text) -> bytes:
    """Write documents with members in any order, some unknown, and white space anywhere."""

    def members(known: list[str]) -> str:
        unknown = draw(st.dictionaries(text.map("x-".__add__), anything(text), max_size=2))
        every = [*known, *[f"{json.dumps(name)}: {json.dumps(value)}" for name, value in unknown.items()]]
        return f"{{{draw(spaces)}{f'{draw(spaces)}, '.join(draw(st.permutations(every)))}}}"

    entries = []
    for texts in draw(st.lists(st.lists(cell_texts, max_size=8), max_size=4)):
        array = f"{draw(spaces)},{draw(spaces)}".join(texts)
        name = json.dumps(draw(text), ensure_ascii=draw(st.booleans()))
        entries.append(members([f'"metric": {name}', f'"value":{draw(spaces)}[{array}]']))
    return (draw(spaces) + members([f'"metrics": [{", ".join(entries)}]']) + draw(spaces)).encode()


def equal(left: NamedArrays, right: NamedArrays) -> bool:
    return (
        left.names == right.names
        and left.offsets.dtype == right.offsets.dtype == np.int64
        and left.values.dtype == right.values.dtype == np.float64
        and np.array_equal(left.offsets, right.offsets)
        and np.array_equal(left.values, right.values, equal_nan=True)
    )


def outcome(decode, body, schema):
    try:
        return decode(body, schema)
    except DecodeError:
        return None


# The specification


@settings(max_examples=300)
@given(body=documents(), missing=st.sampled_from([-1, -1.0, None, 0]))
def test_every_document_decodes_as_the_reference_does(body, missing):
    schema = attrs.evolve(SCHEMA, missing=missing)
    expected, actual = (
        outcome(decode, body, schema) for decode in (decode_number_arrays_reference, decode_number_arrays)
    )
    assert (expected is None) == (actual is None)
    assert expected is None or equal(actual, expected)


@settings(max_examples=300)
@given(data=st.data(), body=documents(text=plain_text))
def test_a_broken_document_is_refused_where_the_reference_refuses_it(data, body):
    at = data.draw(st.integers(0, len(body) - 1))
    junk = data.draw(st.sampled_from([b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"-", b".", b"e", b"0", b"true"]))
    broken = body[:at] + junk + body[at + data.draw(st.integers(0, 3)) :]
    expected = outcome(decode_number_arrays_reference, broken, SCHEMA)
    actual = outcome(decode_number_arrays, broken, SCHEMA)
    assert (expected is None) == (actual is None)
    assert expected is None or equal(actual, expected)


@given(st.lists(number_texts, min_size=1, max_size=20))
def test_every_number_is_the_float_of_its_text(texts):
    assume(not any(math.isinf(float(text)) for text in texts))
    values = decode_number_arrays(document(", ".join(texts)), PLAIN).values
    assert values.tolist() == [float(text) for text in texts]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_every_float_survives_being_written_and_read_bit_for_bit(numbers):
    values = decode_number_arrays(document(", ".join(map(repr, numbers))), PLAIN).values
    assert values.tobytes() == np.array(numbers, np.float64).tobytes()


# What stands in a document


def test_series_stand_in_the_order_of_the_document():
    arrays = decode_number_arrays(SAMPLE, SCHEMA)
    assert arrays.names == ("cpuUsage", "gpuUtil")
    assert arrays.offsets.tolist() == [0, 4, 7]
    assert np.array_equal(arrays.values, [np.nan, np.nan, 2.43, 0, 9.85, np.nan, 7], equal_nan=True)


def test_ints_and_floats_mix():
    assert decode_number_arrays(document("1, 1.5, 2, 2e0"), SCHEMA).values.tolist() == [1.0, 1.5, 2.0, 2.0]


def test_arrays_of_unequal_length_keep_their_own():
    arrays = decode_number_arrays(document("1", "", "2, 3, 4", ""), SCHEMA)
    assert arrays.names == ("m0", "m1", "m2", "m3")
    assert arrays.offsets.tolist() == [0, 1, 1, 4, 4]
    assert arrays.values.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("spelling", ["-1", "-1.0", "-1e0", "-1E+0", "-10e-1", "-0.1e1", "-1.00000000000000000000000"])
def test_the_missing_number_is_nan_however_it_is_spelt(spelling):
    assert np.array_equal(decode_number_arrays(document(f"2, {spelling}"), SCHEMA).values, [2, np.nan], equal_nan=True)


@pytest.mark.parametrize("near", ["-1.0000000000000002", "-0.9999999999999999", "1", "-10", "0", "-0"])
def test_a_number_near_the_missing_one_is_a_number(near):
    assert decode_number_arrays(document(near), SCHEMA).values.tolist() == [float(near)]


def test_without_a_missing_number_every_number_counts_and_null_is_still_nan():
    values = decode_number_arrays(document("-1, null, 0"), PLAIN).values
    assert np.array_equal(values, [-1, np.nan, 0], equal_nan=True)


@pytest.mark.parametrize("texts", ["null", "null, 1", "1, null", "null, null", "-1, null, 5"])
def test_null_is_nan(texts):
    expected = [math.nan if text in ("null", "-1") else float(text) for text in texts.split(", ")]
    assert np.array_equal(decode_number_arrays(document(texts), SCHEMA).values, expected, equal_nan=True)


@pytest.mark.parametrize("digits", [2**53 + 1, 2**63, 2**64, 2**64 + 1, -(2**63) - 1, 10**30, 10**308, -(10**300) - 1])
def test_a_huge_int_is_its_nearest_float(digits):
    assert decode_number_arrays(document(str(digits)), SCHEMA).values.tolist() == [float(digits)]


def test_members_that_are_not_asked_for_are_passed_over():
    body = b'{"a": {"metrics": 3}, "metrics": [{"value": [1], "z": [[{}]], "metric": "m"}], "b": [null, "]}"]}'
    assert decode_number_arrays(body, SCHEMA).values.tolist() == [1.0]


def test_the_schema_names_the_members():
    body = b'{"Data": [{"Id": "x", "Points": [0, 5]}]}'
    arrays = decode_number_arrays(body, NumberArrays(series="Data", name="Id", values="Points", missing=0))
    assert arrays.names == ("x",)
    assert np.array_equal(arrays.values, [np.nan, 5], equal_nan=True)


@pytest.mark.parametrize("name", ["", "with space", "任务", 'quo"te', "back\\slash", "new\nline", "\U0001f600"])
def test_a_name_is_any_text(name):
    for ensure_ascii in (True, False):
        body = json.dumps({"metrics": [{"metric": name, "value": []}]}, ensure_ascii=ensure_ascii).encode()
        assert decode_number_arrays(body, SCHEMA).names == (name,)


def test_names_may_recur():
    body = b'{"metrics": [{"metric": "m", "value": [1]}, {"metric": "m", "value": [2]}]}'
    assert decode_number_arrays(body, SCHEMA).names == ("m", "m")


def test_a_document_without_series_gives_none():
    arrays = decode_number_arrays(b'{"metrics": []}', SCHEMA)
    assert (arrays.names, arrays.offsets.tolist(), arrays.values.tolist()) == ((), [0], [])
    assert (arrays.offsets.dtype, arrays.values.dtype) == (np.int64, np.float64)


# What is refused


@pytest.mark.parametrize("length", range(len(SAMPLE)))
def test_a_document_that_breaks_off_is_refused_at_any_byte(length):
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(SAMPLE[:length], SCHEMA)
    assert caught.value.offset is not None
    assert caught.value.offset <= length


@pytest.mark.parametrize(
    ("body", "culprit"),
    [
        (b"<html><body>502 Bad Gateway</body></html>", b"<"),
        (b"upstream connect error", b"u"),
        (b"\x1f\x8b\x08\x00", b"\x1f"),
        (b"\xef\xbb\xbf" + SAMPLE, b"\xef"),
        (SAMPLE + b"#", b"#"),
        (document("NaN"), b"NaN"),
        (document("1, Infinity"), b"Infinity"),
        (document("-Infinity"), b"Infinity"),
        (document("01"), b"1]"),
        (document("1."), b"]"),
        (document("+1"), b"+"),
        (document(".5"), b"."),
        (document("0x1"), b"x"),
        (document("1_0"), b"_"),
        (document("1,"), b"]"),
        (document("1 2"), b"2"),
        (document("1 // one"), b"//"),
        (b"{'metrics': []}", b"'"),
        (b'{"metrics": [{"metric": "\xff", "value": []}]}', b"\xff"),
        (b'{"metrics": [{"metric": "tab\t", "value": []}]}', b"\t"),
        (b'{"metrics": [], "other": NaN}', b"NaN"),
    ],
)
def test_malformed_json_is_refused_with_the_byte(body, culprit):
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(body, SCHEMA)
    assert caught.value.offset is not None
    assert abs(caught.value.offset - body.index(culprit)) <= 1
    assert outcome(decode_number_arrays_reference, body, SCHEMA) is None


@pytest.mark.parametrize("body", [b"", b" ", b"\n\n"])
def test_an_empty_body_is_refused_at_its_end(body):
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(body, SCHEMA)
    assert caught.value.offset == len(body)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"[]", "$"),
        (b"null", "$"),
        (b'"metrics"', "$"),
        (b"{}", "$"),
        (b'{"error_code": "ModelArts.0001", "error_msg": "busy"}', "$"),
        (b'{"metrics": null}', "$.metrics"),
        (b'{"metrics": {}}', "$.metrics"),
        (b'{"metrics": [3]}', "$.metrics[0]"),
        (b'{"metrics": [{"metric": "m"}]}', "$.metrics[0]"),
        (b'{"metrics": [{"value": []}]}', "$.metrics[0]"),
        (b'{"metrics": [{"metric": 3, "value": []}]}', "$.metrics[0].metric"),
        (b'{"metrics": [{"metric": null, "value": []}]}', "$.metrics[0].metric"),
        (b'{"metrics": [{"metric": "m", "value": null}]}', "$.metrics[0].value"),
        (b'{"metrics": [{"metric": "m", "value": "1,2"}]}', "$.metrics[0].value"),
        (b'{"metrics": [{"metric": "m", "value": {"0": 1}}]}', "$.metrics[0].value"),
        (document("1", '2, "3"'), "$.metrics[1].value[1]"),
        (document('""'), "$.metrics[0].value[0]"),
        (document("null, true"), "$.metrics[0].value[1]"),
        (document("[1]"), "$.metrics[0].value[0]"),
        (document("1, {}"), "$.metrics[0].value[1]"),
        (document("1, 1e999"), "$.metrics[0].value[1]"),
        (document("null, -1e999"), "$.metrics[0].value[1]"),
        (document("9" * 400), "$.metrics[0].value[0]"),
    ],
)
def test_a_document_of_another_shape_is_refused_with_the_path(body, path):
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(body, SCHEMA)
    assert caught.value.path == path
    assert path_at(body, caught.value.offset) == path
    assert f"the answer's {path} (at byte {caught.value.offset}) is not as documented" in str(caught.value)
    assert outcome(decode_number_arrays_reference, body, SCHEMA) is None


def test_a_proxy_page_is_named_as_what_it_is():
    with pytest.raises(DecodeError, match="an HTML page, as a proxy sends"):
        decode_number_arrays(b"\n<!DOCTYPE html><title>502</title>", SCHEMA)


def test_a_document_nested_too_deep_is_refused():
    for body in (b"[" * 100_000, b'{"x": ' + b"[" * 100_000, b'{"metrics": [' * 50_000):
        with pytest.raises(DecodeError):
            decode_number_arrays(body, SCHEMA)


def test_a_refusal_shows_nothing_of_the_document():
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(document('"s3cret"'), SCHEMA)
    assert "s3cret" not in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused_and_nothing_else(body):
    assert outcome(decode_number_arrays, body, SCHEMA) is None or body.strip().startswith(b"{")


def test_a_refusal_survives_pickling():
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(b"{}", SCHEMA)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.path, copy.offset, str(copy)) == (caught.value.path, caught.value.offset, str(caught.value))


# Times


@given(
    lengths=st.lists(st.integers(0, 6), max_size=6),
    first=st.integers(-(10**13), 10**13),
    interval_ms=st.integers(1, 10**7),
)
def test_regular_times_follow_each_other_at_the_interval(lengths, first, interval_ms):
    firsts = [first + 17 * (index % 3) for index in range(len(lengths))]
    times = regular_times(lengths, firsts, interval_ms)
    expected = [start + k * interval_ms for start, length in zip(firsts, lengths, strict=True) for k in range(length)]
    assert times.tolist() == expected
    assert times.dtype == np.int64
