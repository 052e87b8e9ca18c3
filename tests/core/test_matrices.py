"""Series that labels tell apart, each with pairs of a time and a value."""

import json
import math

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricsbridge.errors import DecodeError
from metricsbridge.series._reference_decode import decode_labelled_lists_reference
from metricsbridge.series.matrices import LabelledLists, decode_labelled_lists

pytestmark = pytest.mark.usefixtures("engine")

RANGE = LabelledLists(
    holder="data", series="result", labels="metric", samples="values", warnings="warnings", blank_from=9.2e18
)
INSTANT = attrs.evolve(RANGE, samples="value", single=True)

texts = st.sampled_from(["a", "b", "NaN", "+Inf", "a\nb", "ä"]).map(json.dumps)
numbers = (
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
    | st.integers(10**12, 2 * 10**12).map(lambda ms: f"{ms // 1000}.{ms % 1000:03d}")
    | st.sampled_from(["9.2e18", "9223372036854775807", "9223372036854775808", "9.1e18", "0", "-0"])
)
quoted = numbers.map(json.dumps) | st.sampled_from(['"NaN"', '"+Inf"', '"-Inf"', '"nan"', '"Inf"', '"+nan"', '"-inf"'])
odd = st.sampled_from([
    "null", "true", "{}", "[]", "7", '"7"', '"x"', '""', '"1e999"', "1e999", '" 1"', '"01"', '"+1"', '"1_0"', '"1."',
    '"0x1"', '"infinit"', "9223372036854775.807", "-9.3e15", "[1, 2, 3]", '"Infinity"',
])  # fmt: skip
rarely = st.sampled_from([False] * 12 + [True])


@st.composite
def mostly(draw: st.DrawFn, usual: st.SearchStrategy[str]) -> str:
    return draw(odd if draw(rarely) else usual)


def array(inner: st.SearchStrategy[str], size: int = 4) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=size).map(lambda found: f"[{', '.join(found)}]")


def table(draw: st.DrawFn, known: dict[str, st.SearchStrategy[str]]) -> str:
    """Write an object with these members in any order, some left out, some unknown."""
    left_out = draw(st.sampled_from([*known, *[""] * 9]))
    found = {name: draw(value) for name, value in known.items() if name != left_out}
    found |= draw(st.dictionaries(st.sampled_from(["x", "y"]), numbers | texts, max_size=1))
    return f"{{{', '.join([f'{json.dumps(name)}: {found[name]}' for name in draw(st.permutations(list(found)))])}}}"


pair = st.tuples(mostly(numbers), mostly(quoted)).map(lambda two: f"[{two[0]}, {two[1]}]")
labels = st.dictionaries(st.sampled_from(["pod", "gpu"]), mostly(texts), max_size=2).map(
    lambda found: f"{{{', '.join([f'{json.dumps(name)}: {text}' for name, text in found.items()])}}}"
)


@st.composite
def documents(draw: st.DrawFn, schema: LabelledLists) -> bytes:
    held = mostly(pair) if schema.single else mostly(array(mostly(pair)))
    one = st.composite(lambda d: table(d, {"metric": mostly(labels), schema.samples: held}))()
    holder = st.composite(lambda d: table(d, {"result": mostly(array(one, 3))}))()
    return table(draw, {"data": mostly(holder), "warnings": mostly(array(mostly(texts), 2))}).encode()


def outcome(decode, body, schema):
    try:
        found = decode(body, schema)
    except DecodeError:
        return None
    assert (found.times.dtype, found.values.dtype) == (np.int64, np.float64)
    assert found.offsets.tolist()[1:] == np.cumsum(found.lengths).tolist()
    return found.labels, found.lengths, found.times.tolist(), [repr(v + 0.0) for v in found.values], found.warnings


@pytest.mark.parametrize("schema", [RANGE, INSTANT], ids=["lists", "single"])
@settings(max_examples=400)
@given(data=st.data())
def test_every_document_decodes_as_the_reference_does(schema, data):
    body = data.draw(documents(schema))
    assert outcome(decode_labelled_lists, body, schema) == outcome(decode_labelled_lists_reference, body, schema)


def body_of(*pairs: str, more: str = "") -> bytes:
    return f'{{"data": {{"result": [{{"metric": {{"le": "+Inf"}}, "values": [{", ".join(pairs)}]}}]}}{more}}}'.encode()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, max_value=9e18), max_size=20))
def test_every_float_survives_being_written_in_a_string_and_read_bit_for_bit(floats):
    floats = [number + 0.0 for number in floats]  # of zeros, the positive one
    found = decode_labelled_lists(body_of(*[f'[1, "{number!r}"]' for number in floats]), RANGE)
    assert found.values.tobytes() == np.array(floats, np.float64).tobytes()


@given(st.integers(-(2**52), 2**52))
def test_every_millisecond_survives_being_written_in_seconds(time_ms):
    sign, whole = "-" if time_ms < 0 else "", abs(time_ms)
    found = decode_labelled_lists(body_of(f'[{sign}{whole // 1000}.{whole % 1000:03d}, "1"]'), RANGE)
    assert found.times.tolist() == [time_ms]


@pytest.mark.parametrize("other", ['"0"', '"+Inf"'], ids=["all numbers", "not all"])
def test_what_is_no_quantity_is_no_value_and_labels_keep_their_text(other):
    found = decode_labelled_lists(
        body_of('[1, "NaN"]', '[2, "-Inf"]', '[3, "9223372036854775807"]', '[4, "9.1e18"]', f"[5, {other}]"), RANGE
    )
    assert found.times.tolist() == [1000, 2000, 3000, 4000, 5000]
    last = 0.0 if other == '"0"' else math.nan
    assert np.array_equal(found.values, [math.nan, math.nan, math.nan, 9.1e18, last], equal_nan=True)
    assert found.labels == ({"le": "+Inf"},)


def test_a_blank_is_a_value_where_the_schema_knows_of_none():
    found = decode_labelled_lists(body_of('[1, "9223372036854775807"]'), attrs.evolve(RANGE, blank_from=None))
    assert found.values.tolist() == [2.0**63]


def test_warnings_are_given():
    found = decode_labelled_lists(body_of(more=', "warnings": ["store a is down"]'), RANGE)
    assert found.warnings == ("store a is down",)
    assert decode_labelled_lists(body_of(more=', "": ["x"]'), attrs.evolve(RANGE, warnings="")).warnings == ()


@pytest.mark.parametrize("body", [b"{}", b'{"data": null}', b'{"data": {"result": null}}', body_of()])
def test_an_answer_without_samples_is_empty(body):
    found = decode_labelled_lists(body, RANGE)
    assert (len(found.times), len(found.values), found.offsets[-1]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"[]", "$"),
        (b'{"data": []}', "$.data"),
        (b'{"data": {"result": [{}]}}', "$.data.result[0]"),
        (b'{"data": {"result": [{"metric": {"a": 1}}]}}', "$.data.result[0].metric.a"),
        (body_of("[1]"), "$.data.result[0].values[0]"),
        (body_of('[1, "1"]', '[1, "x"]'), "$.data.result[0].values[1][1]"),
        (body_of('[1, "1"]', '[1e18, "1"]'), "$.data.result[0].values[1][0]"),
        (body_of('[1, "1"]', '["soon", "1"]'), "$.data.result[0].values[1][0]"),
        (
            b'{"data": {"result": [{"metric": {}, "values": []}, {"metric": {}, "values": [[1e18, "1"]]}]}}',
            "$.data.result[1].values[0][0]",
        ),
    ],
)
def test_another_shape_is_refused_with_the_path(body, path):
    with pytest.raises(DecodeError) as caught:
        decode_labelled_lists(body, RANGE)
    assert caught.value.path == path


def test_a_bad_pair_that_stands_alone_is_refused_with_the_path():
    with pytest.raises(DecodeError) as caught:
        decode_labelled_lists(b'{"data": {"result": [{"metric": {}, "value": [1, "x"]}]}}', INSTANT)
    assert caught.value.path == "$.data.result[0].value[1]"


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b'{"warnings": ["\xff"]}'])
def test_malformed_json_is_refused_with_the_byte(body):
    with pytest.raises(DecodeError) as caught:
        decode_labelled_lists(body, RANGE)
    assert caught.value.offset is not None
