"""Samples that bring their own times: lists of them under a name, and flat rows."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricsbridge.errors import DecodeError
from metricsbridge.series._reference_decode import decode_rows_reference, decode_sample_lists_reference
from metricsbridge.series.samples import Rows, SampleLists, decode_rows, decode_sample_lists

pytestmark = pytest.mark.usefixtures("engine")

LISTS = SampleLists(series="PodMetrics", name="PodId", samples="Metrics", time="Time", value="Value")
ROWS = Rows(time="timestamp", values=("Value", "Average", "Maximum"), numbered=frozenset({"z"}))

whole = st.integers(-(2**65), 2**65).map(str) | st.integers(10**12, 2 * 10**12).map(str)
real = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
other = st.sampled_from(["null", "true", '"7"', "{}", "[]", "1.0"])
odd = st.sampled_from(["null", "true", '"7"', '""', '"NaN"', '"x"', "{}", "[]", "1e999", '"1e999"', "1.0", "1e3"])


def members(draw: st.DrawFn, known: dict[str, st.SearchStrategy[str]]) -> str:
    """Write an object with these members in any order, some left out, some unknown."""
    unknown = draw(st.dictionaries(st.sampled_from(["x", "y", "Z"]), whole | other, max_size=2))
    left_out = draw(st.sampled_from([*known, *[""] * 9]))
    found = {**unknown, **{name: draw(value) for name, value in known.items() if name != left_out}}
    return f"{{{', '.join([f'{json.dumps(name)}: {found[name]}' for name in draw(st.permutations(list(found)))])}}}"


def array(inner: st.SearchStrategy[str], size: int = 5) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=size).map(lambda found: f"[{', '.join(found)}]")


rarely = st.sampled_from([False] * 12 + [True])


@st.composite
def mostly(draw: st.DrawFn, usual: st.SearchStrategy[str]) -> str:
    return draw(odd if draw(rarely) else usual)


@st.composite
def sample_documents(draw: st.DrawFn) -> bytes:
    sample = st.composite(lambda d: members(d, {"Time": mostly(whole), "Value": mostly(real)}))()
    name = st.sampled_from(["a", "b", "a\nb", "ä"]).map(json.dumps)
    series = st.composite(lambda d: members(d, {"PodId": mostly(name), "Metrics": mostly(array(sample))}))()
    return members(draw, {"PodMetrics": mostly(array(series, 3))}).encode()


@st.composite
def row_documents(draw: st.DrawFn) -> bytes:
    dimension = st.sampled_from(["a", "b"]).map(json.dumps)
    row = st.composite(
        lambda d: members(
            d, {"timestamp": mostly(whole), "pod": mostly(dimension), d(st.sampled_from(ROWS.values)): mostly(real)}
        )
    )()
    return draw(array(row, 8)).encode()


def equal(left, right) -> bool:
    names = [getattr(each, "names", None) or getattr(each, "keys", None) for each in (left, right)]
    return (
        names[0] == names[1]
        and left.lengths == right.lengths
        and left.offsets.tolist() == right.offsets.tolist()
        and left.times.dtype == right.times.dtype == np.int64
        and left.values.dtype == right.values.dtype == np.float64
        and np.array_equal(left.times, right.times)
        and np.array_equal(left.values, right.values, equal_nan=True)
    )


def outcome(decode, body, schema):
    try:
        return decode(body, schema)
    except DecodeError:
        return None


@settings(max_examples=400)
@given(sample_documents())
def test_every_document_of_sample_lists_decodes_as_the_reference_does(body):
    expected = outcome(decode_sample_lists_reference, body, LISTS)
    actual = outcome(decode_sample_lists, body, LISTS)
    assert (expected is None) == (actual is None)
    assert expected is None or equal(actual, expected)


@settings(max_examples=400)
@given(row_documents())
def test_every_document_of_rows_decodes_as_the_reference_does(body):
    expected, actual = outcome(decode_rows_reference, body, ROWS), outcome(decode_rows, body, ROWS)
    assert (expected is None) == (actual is None)
    assert expected is None or equal(actual, expected)


_ONE = b'{"PodMetrics": [{"PodId": "p", "Metrics": [%s]}]}'


def test_samples_stand_as_in_the_document_unsorted_and_with_duplicates():
    samples = b'[{"Time": 3, "Value": 1.5}, {"Value": 2, "Time": 1}, {"Time": 3}]'
    found = decode_sample_lists(b'{"PodMetrics": [{"PodId": "p", "Metrics": %s}]}' % samples, LISTS)
    assert (found.names, found.lengths, found.times.tolist()) == (("p",), (3,), [3, 1, 3])
    assert np.array_equal(found.values, [1.5, 2, math.nan], equal_nan=True)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"PodMetrics": null}', b'{"PodMetrics": []}', b'{"PodMetrics": [{"PodId": "p", "Metrics": null}]}'],
)
def test_an_answer_without_samples_is_empty(body):
    found = decode_sample_lists(body, LISTS)
    assert (len(found.times), len(found.values), found.offsets[-1]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"[]", "$"),
        (b'{"PodMetrics": {}}', "$.PodMetrics"),
        (b'{"PodMetrics": [{}]}', "$.PodMetrics[0]"),
        (b'{"PodMetrics": [{"PodId": 1}]}', "$.PodMetrics[0].PodId"),
        (b'{"PodMetrics": [{"PodId": "p", "Metrics": [{"Value": 1}]}]}', "$.PodMetrics[0].Metrics[0]"),
        (b'{"PodMetrics": [{"PodId": "p", "Metrics": [{"Time": 1.5}]}]}', "$.PodMetrics[0].Metrics[0].Time"),
        (
            b'{"PodMetrics": [{"PodId": "p", "Metrics": [{"Time": 1, "Value": "1"}]}]}',
            "$.PodMetrics[0].Metrics[0].Value",
        ),
    ],
)
def test_sample_lists_of_another_shape_are_refused_with_the_path(body, path):
    with pytest.raises(DecodeError) as caught:
        decode_sample_lists(body, LISTS)
    assert caught.value.path == path


def test_rows_are_grouped_by_their_text_members_wherever_they_stand():
    rows = [
        {"timestamp": 60, "pod": "a", "jobId": "j", "Average": 1.0, "Maximum": 9.0},
        {"timestamp": 60, "pod": "b", "jobId": "j", "Value": 2.0},
        {"jobId": "j", "timestamp": "120", "pod": "a", "Average": "3.5", "userId": 7},
        {"timestamp": 180, "pod": "b", "jobId": "j"},
    ]
    found = decode_rows(json.dumps(rows).encode(), ROWS)
    assert found.keys == ((("jobId", "j"), ("pod", "a")), (("jobId", "j"), ("pod", "b")))
    assert found.times.tolist() == [60, 120, 60, 180]
    assert np.array_equal(found.values, [1.0, 3.5, 2.0, math.nan], equal_nan=True)


def test_a_numbered_member_names_the_series_as_text_or_as_a_number():
    rows = [{"timestamp": place, "Value": place + 1, "GPU": gpu} for place, gpu in enumerate([0, 1, "0"])]
    found = decode_rows(
        json.dumps(rows).encode(), Rows(time="timestamp", values=("Value",), numbered=frozenset({"gpu"}))
    )
    assert found.keys == ((("GPU", "0"),), (("GPU", "1"),))
    assert found.values.tolist() == [1.0, 3.0, 2.0]


def test_the_first_of_the_value_members_counts():
    found = decode_rows(b'[{"timestamp": 1, "Maximum": 9, "Average": 5}]', ROWS)
    assert found.values.tolist() == [5.0]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"{}", "$"), (b"[1]", "$[0]"), (b'[{"Value": 1}]', "$[0]"), (b'[{"timestamp": "soon"}]', "$[0].timestamp"),
        (b'[{"timestamp": 1, "Value": "x"}]', "$[0].Value"), (b'[{"timestamp": 1, "Value": {}}]', "$[0].Value"),
        (b'[{"timestamp": null, "Value": 1}]', "$[0].timestamp"), (b'[{"timestamp": 1, "Value": "inf"}]', "$[0].Value"),
    ],
)  # fmt: skip
def test_rows_of_another_shape_are_refused_with_the_path(body, path):
    with pytest.raises(DecodeError) as caught:
        decode_rows(body, ROWS)
    assert caught.value.path == path


@pytest.mark.parametrize("decode", [lambda b: decode_rows(b, ROWS), lambda b: decode_sample_lists(b, LISTS)])
def test_malformed_json_is_refused_with_the_byte(decode):
    for body in (b"", b"{", b"<html>", b'{"PodMetrics": [{"PodId": "\xff"}]}', b'{"x": [1,]}'):
        with pytest.raises(DecodeError) as caught:
            decode(body)
        assert caught.value.offset is not None
