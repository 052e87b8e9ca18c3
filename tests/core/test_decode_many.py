"""Many documents decoded at once: what each of them says, one after the other."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.series_strategies import same_bits
from metricsbridge.errors import DecodeError
from metricsbridge.series._reference_decode import decode_all_number_arrays_reference
from metricsbridge.series.decode import NumberArrays, decode_all_number_arrays, decode_number_arrays

pytestmark = pytest.mark.usefixtures("engine")

SCHEMA = NumberArrays(series="metrics", name="metric", values="value", missing=-1.0)

numbers = st.sampled_from([-1, -1.0, 0, -0.0, 1, 7, 12.5, 99.99, 100, 123.4567, 0.1, 1e-7, 12345678.25, -3, None])
names = st.sampled_from(["cpu", "mem", "gpu", "é", 'quo"te', ""])


@st.composite
def bodies(draw: st.DrawFn) -> list[bytes]:
    """Write documents, some of which are of one shape, or the same."""
    shapes = draw(st.lists(st.lists(st.tuples(names, st.integers(0, 5)), max_size=4), min_size=1, max_size=3))
    documents = []
    for shape in draw(st.lists(st.sampled_from(shapes), max_size=8)):
        arrays = [(name, draw(st.lists(numbers, min_size=size, max_size=size))) for name, size in shape]
        separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]))
        document = {"metrics": [{"metric": name, "value": values} for name, values in arrays]}
        documents.append(json.dumps(document, separators=separators, ensure_ascii=draw(st.booleans())).encode())
    return documents


@settings(max_examples=300)
@given(bodies(), st.sampled_from([-1.0, 0, None]), st.booleans())
@example([], -1.0, True)
@example([b'{"metrics":[]}'] * 2, -1.0, False)
@example([b'{"metrics":[{"metric":"a","value":[-1,-1]}]}'], -1.0, False)
def test_they_say_what_each_says(documents: list[bytes], missing: float | None, empty: bool) -> None:
    schema = attrs.evolve(SCHEMA, missing=missing)
    found = decode_all_number_arrays(documents, schema, empty=empty)
    expected = decode_all_number_arrays_reference(documents, schema, empty=empty)
    assert found.shapes == expected.shapes
    assert found.lengths == expected.lengths
    assert found.offsets.tolist() == expected.offsets.tolist()
    assert same_bits(found.values, expected.values)
    assert found.values.flags.writeable


@given(st.lists(st.sampled_from([b'{"metrics":[{"metric":"a","value":[1,2]}]}', b'{"metrics":[]}', b"[", b"", b"{}"])))
def test_one_that_is_malformed_is_refused_and_none_that_is_not(documents: list[bytes]) -> None:
    broken = [body for body in documents if not body.startswith(b'{"metrics"')]
    if not broken:
        assert len(decode_all_number_arrays(documents, SCHEMA).shapes) == len(documents)
        return
    with pytest.raises(DecodeError) as many:
        decode_all_number_arrays(documents, SCHEMA)
    with pytest.raises(DecodeError) as one:
        decode_number_arrays(broken[0], SCHEMA)
    assert str(many.value) == str(one.value)
    assert many.value.offset == one.value.offset


def test_documents_of_one_shape_share_it() -> None:
    def body(*values: float) -> bytes:
        return json.dumps({"metrics": [{"metric": "a", "value": values}, {"metric": "b", "value": [-1]}]}).encode()

    found = decode_all_number_arrays([body(1, 2), body(3, 4), body(5)], SCHEMA, empty=False)
    assert found.shapes == ((("a",), (2,)), (("a",), (2,)), (("a",), (1,)))
    assert found.shapes[0] is found.shapes[1]
    assert found.values.tolist() == [1, 2, 3, 4, 5]


def test_series_without_a_value_are_there_where_they_are_asked_for() -> None:
    body = b'{"metrics":[{"metric":"a","value":[-1,null]},{"metric":"b","value":[]},{"metric":"c","value":[-1,5]}]}'
    assert decode_all_number_arrays([body], SCHEMA).shapes == ((("a", "b", "c"), (2, 0, 2)),)
    left = decode_all_number_arrays([body], SCHEMA, empty=False)
    assert left.shapes == ((("c",), (2,)),)
    assert np.isnan(left.values[0])
    assert left.values[1] == 5


@pytest.mark.parametrize(
    "schema",
    [NumberArrays(), attrs.evolve(SCHEMA, text=True), attrs.evolve(SCHEMA, interval="interval")],
)
def test_a_schema_that_says_more_of_a_document_is_refused(schema: NumberArrays) -> None:
    with pytest.raises(ValueError, match="lists of arrays of plain numbers"):
        decode_all_number_arrays([b"{}"], schema)


def test_a_large_document_among_small_ones_is_read_like_them() -> None:
    small = b'{"metrics":[{"metric":"a","value":[1]}]}'
    large = json.dumps({"metrics": [{"metric": "a", "value": [n / 4 for n in range(5000)]}]}).encode()
    found = decode_all_number_arrays([small, large, small], SCHEMA)
    assert found.lengths == (1, 5000, 1)
    assert found.values.tolist() == [1, *[n / 4 for n in range(5000)], 1]
