"""Numbers in strings, arrays in an object, arrays of arrays: what the plain shape of number arrays is not."""

import json
import math

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricsbridge.errors import DecodeError
from metricsbridge.series._reference_decode import decode_number_arrays_reference
from metricsbridge.series.decode import NamedArrays, NumberArrays, decode_number_arrays

pytestmark = pytest.mark.usefixtures("engine")

LISTED = NumberArrays(series="metrics", name="metric", values="value", text=True, doubtful="0", interval="interval")
KEYED = NumberArrays(series="system", text=True, doubtful="0", interval="interval")

numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
odd_texts = st.sampled_from(
    ["", "NaN", "nan", "0", "0.00", "inf", "-Infinity", " 1", "1 ", "01", "+1", "1_0", "１", "x"]
)
cells = st.one_of(
    numbers, st.one_of(numbers, odd_texts).map(json.dumps), st.sampled_from(["null", "true", "{}", '["1"]', "1e999"])
)
good_cells = st.one_of(numbers, numbers.map(json.dumps), st.sampled_from(["null", '""', '"NaN"', '"0"', '"0.00"', "0"]))


def texts(cell: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The text of an array, or of an array of arrays."""
    array = st.lists(cell, max_size=6).map(lambda found: f"[{', '.join(found)}]")
    nested = st.lists(array | st.just("null"), max_size=3).map(lambda found: f"[{', '.join(found)}]")
    return st.one_of(array, nested, st.sampled_from(["null", "{}", '"x"']))


def listed(*arrays: str, more: str = "") -> bytes:
    entries = [f'{{"metric": "m{index}", "value": {array}}}' for index, array in enumerate(arrays)]
    return f'{{"metrics": [{", ".join(entries)}]{more}}}'.encode()


def keyed(*arrays: str, more: str = "") -> bytes:
    members = [f'"m{index}": {array}' for index, array in enumerate(arrays)]
    return f'{{"system": {{{", ".join([*members, chr(34) + "interval" + chr(34) + ": 1"])}}}{more}}}'.encode()


def equal(left: NamedArrays, right: NamedArrays) -> bool:
    return (
        (left.names, left.lengths, left.decimals) == (right.names, right.lengths, right.decimals)
        and left.interval == right.interval
        and np.array_equal(left.values, right.values, equal_nan=True)
        and np.array_equal(left.doubtful, right.doubtful)
        and left.values.dtype == right.values.dtype == np.float64
    )


def outcome(decode, body, schema):
    try:
        return decode(body, schema)
    except DecodeError:
        return None


intervals = st.sampled_from(["", ', "interval": 1', ', "interval": "5"', ', "interval": null', ', "interval": "x"'])


@settings(max_examples=400)
@given(
    arrays=st.lists(texts(cells), max_size=3) | st.lists(texts(good_cells), max_size=3),
    more=intervals,
    shape=st.sampled_from([(listed, LISTED), (keyed, KEYED)]),
    text=st.booleans(),
    missing=st.sampled_from([None, -1, 0]),
)
def test_every_document_decodes_as_the_reference_does(arrays, more, shape, text, missing):
    write, schema = shape
    schema = attrs.evolve(schema, text=text, missing=missing)
    body = write(*arrays, more=more)
    expected = outcome(decode_number_arrays_reference, body, schema)
    actual = outcome(decode_number_arrays, body, schema)
    assert (expected is None) == (actual is None)
    assert expected is None or equal(actual, expected)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_every_float_survives_being_written_in_a_string_and_read_bit_for_bit(floats):
    floats = [number + 0.0 for number in floats]  # of zeros, the positive one
    body = listed(json.dumps([repr(number) for number in floats]))
    assert decode_number_arrays(body, LISTED).values.tobytes() == np.array(floats, np.float64).tobytes()


def test_a_bare_zero_is_told_from_a_measured_one():
    found = decode_number_arrays(listed('["0", "0.00", 0, null, "", "3.10"]'), LISTED)
    assert found.doubtful.tolist() == [True, False, False, False, False, False]
    assert np.array_equal(found.values, [0, 0, 0, math.nan, math.nan, 3.1], equal_nan=True)
    assert found.decimals


@pytest.mark.parametrize(("array", "decimals"), [('["1", "22"]', False), ('["1", "2.0"]', True), ("[1.5]", False)])
def test_decimals_are_those_of_numbers_in_strings(array, decimals):
    assert decode_number_arrays(listed(array), LISTED).decimals is decimals


def test_an_array_of_arrays_is_several_series_of_one_name():
    found = decode_number_arrays(listed('[["1"], ["2", "3"], []]', '["4"]'), LISTED)
    assert found.names == ("m0", "m0", "m0", "m1")
    assert found.offsets.tolist() == [0, 1, 3, 3, 4]
    assert found.values.tolist() == [1, 2, 3, 4]


def test_null_stands_for_an_empty_array() -> None:
    found = decode_number_arrays(listed("null", '[["1"], null]', "[null]"), LISTED)
    assert (found.names, found.lengths) == (("m0", "m1", "m1", "m2"), (0, 1, 0, 1))
    assert decode_number_arrays(b'{"metrics": null}', LISTED).names == ()


def test_members_of_an_object_that_are_no_arrays_are_passed_over():
    body = b'{"system": {"cpu": ["1"], "interval": 5, "note": "x", "more": {"a": ["9"]}, "mem": []}}'
    found = decode_number_arrays(body, KEYED)
    assert (found.names, found.values.tolist()) == (("cpu", "mem"), [1])


def test_the_document_itself_may_be_the_object():
    found = decode_number_arrays(b'{"cpu": ["1"], "interval": "5"}', attrs.evolve(KEYED, series=""))
    assert (found.names, found.interval) == (("cpu",), 5.0)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (listed('["1", "x"]'), "$.metrics[0].value[1]"),
        (listed('["1"]', '["1", " 2"]'), "$.metrics[1].value[1]"),
        (listed('["1", "inf"]'), "$.metrics[0].value[1]"),
        (listed('["1", true]'), "$.metrics[0].value[1]"),
        (listed('["1", ["2"]]'), "$.metrics[0].value[0]"),
        (listed('[["1"], ["2", "x"]]'), "$.metrics[0].value[1][1]"),
        (listed('{"0": "1"}'), "$.metrics[0].value"),
        (b'{"metrics": {"a": ["1"]}}', "$.metrics"),
        (b'{"metrics": [{"value": []}]}', "$.metrics[0]"),
        (b'{"metrics": [{"metric": 1, "value": []}]}', "$.metrics[0].metric"),
        (b'{"other": []}', "$"),
        (b"[]", "$"),
        (listed("[]", more=', "interval": "soon"'), "$.interval"),
    ],
)
def test_a_document_of_another_shape_is_refused_with_the_path(body, path):
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(body, LISTED)
    assert caught.value.path == path
    assert outcome(decode_number_arrays_reference, body, LISTED) is None


def test_an_object_is_refused_with_the_path():
    for body, path in ((b'{"system": []}', "$.system"), (b'{"system": {"cpu": ["x"]}}', "$.system.cpu[0]")):
        with pytest.raises(DecodeError) as caught:
            decode_number_arrays(body, KEYED)
        assert caught.value.path == path


def test_a_refusal_shows_nothing_of_the_document():
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(listed('["s3cret"]'), LISTED)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("length", range(len(listed('["0", "1.5"]'))))
def test_a_document_that_breaks_off_is_refused_at_any_byte(length):
    with pytest.raises(DecodeError) as caught:
        decode_number_arrays(listed('["0", "1.5"]')[:length], LISTED)
    assert caught.value.offset is not None
