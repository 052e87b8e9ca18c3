"""Every shape of document, decoded and refused as the slow twin decodes and refuses it; and what strict means."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.document_strategies import SHAPES, Writer, check, mutated
from metricsbridge.errors import DecodeError
from project_files import PROJECT

pytestmark = pytest.mark.usefixtures("engine")

SAMPLES = PROJECT / "tests" / "providers"
METRICS = (SAMPLES / "modelarts" / "samples" / "show_training_job_metrics.json").read_bytes()
POD_METRICS = (SAMPLES / "modelarts" / "samples" / "show_pod_metric_statistic.json").read_bytes()
PODS = (SAMPLES / "pai" / "samples" / "get_job_metrics.json").read_bytes()

DOCUMENTS = {
    "plain": METRICS,
    "text": POD_METRICS,
    "samples": PODS,
    "interval": b'{"metrics": [{"metric": "a", "value": [1, null, -2.5e3]}], "interval": "60"}',
    "keyed": b'{"system": {"cpu": ["0", "0.00", null], "m": [["1"], ["2e0"], null], "interval": 5}, "interval": 60}',
    "keyed-plain": b'{"system": {"cpu": [0, 1.5, null], "n": {}, "m": []}}',
    "document": b'{"cpu": ["1", "NaN", ""], "interval": "5", "x": {"y": [true, "\\u00e4\xc3\xa4"]}}',
    "rows": b'[{"timestamp": 1616987700000, "pod": "a", "GPU": 0, "Average": 23.45}, {"timestamp": "9", "Value": "1"}]',
    "lists": b'{"data": {"result": [{"metric": {"pod": "a"}, "values": [[1616987726.587, "23.45"], [1, "NaN"]]}]}, '
    b'"warnings": ["x"]}',
    "single": b'{"data": {"result": [{"metric": {"pod": "\\u00e4\xc3\xa4"}, "value": [-1.5, "-Inf"]}]}}',
}
shapes = st.sampled_from(sorted(SHAPES))
documents = pytest.mark.parametrize(("shape", "body"), DOCUMENTS.items(), ids=[*DOCUMENTS])


# Random differences


@settings(max_examples=1200)
@given(shape=shapes, seed=st.integers(0, 2**64), odd=st.sampled_from([8, 25, 1000]))
def test_every_document_is_decoded_or_refused_as_the_twin_does(shape, seed, odd):
    check(shape, Writer(Random(seed), odd=odd).document(shape))


@settings(max_examples=1200)
@given(shape=shapes, seed=st.integers(0, 2**64))
def test_every_mutated_document_is_decoded_or_refused_as_the_twin_does(shape, seed):
    random = Random(seed)
    check(shape, mutated(random, Writer(random, odd=80).document(shape)))


@given(shape=shapes, body=st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused_as_the_twin_does(shape, body):
    check(shape, body)


@documents
def test_a_document_that_breaks_off_is_refused_at_every_byte(shape, body):
    assert check(shape, body)
    for length in range(len(body.rstrip())):
        assert not check(shape, body[:length])


@documents
def test_every_byte_replaced_is_decoded_or_refused_as_the_twin_does(shape, body):
    for at in range(len(body)):
        for byte in b'\x00\x1f "\\{}[],:0-9.eEua\x7f\xc3\xff':
            check(shape, body[:at] + bytes([byte]) + body[at + 1 :])


# What strict means, one rule after the other

WITHIN = {
    "plain": '{"metrics": [{"metric": "m", "value": [%s]}]}',
    "interval": '{"metrics": [{"metric": "m", "value": [%s]}]}',
    "text": '{"metrics": [{"metric": "m", "value": [%s]}]}',
    "keyed": '{"system": {"m": [%s]}}',
    "samples": '{"PodMetrics": [{"PodId": "p", "Metrics": [{"Time": 1, "Value": %s}]}]}',
    "rows": '[{"timestamp": 1, "Value": %s}]',
    "lists": '{"data": {"result": [{"metric": {}, "values": [[1, %s]]}]}}',
    "single": '{"data": {"result": [{"metric": {}, "value": [1, %s]}]}}',
}
PASSED_OVER = {
    "plain": '{"x": %s, "metrics": []}',
    "text": '{"metrics": [{"metric": "m", "value": [], "x": {"y": %s}}]}',
    "keyed": '{"system": {"m": {"x": %s}}}',
    "samples": '{"PodMetrics": [{"PodId": "p", "Metrics": [{"Time": 1, "x": %s}]}]}',
    "rows": '[{"timestamp": 1, "x": %s}]',
    "lists": '{"data": {"result": [{"metric": {}, "x": %s}]}}',
    "single": '{"data": {"x": {"y": %s}}}',
}
WITH_TEXT = ("text", "keyed", "rows", "lists", "single")


def read(shape: str, text: str) -> float:
    """Decode the text as a value and give it."""
    body = (WITHIN[shape] % text).encode()
    assert check(shape, body)
    (value,) = SHAPES[shape].decode(body, SHAPES[shape].schema).values.tolist()
    return value


def accepted(shape: str, where: dict[str, str], text: str | bytes) -> bool:
    text = text.encode() if isinstance(text, str) else text
    return check(shape, where[shape].encode() % text)


@pytest.mark.parametrize("shape", WITHIN)
@pytest.mark.parametrize(
    "text", ["01", "-01", "1.", ".5", "+1", "1e", "1e+", "-", "0x1", "1_0", "NaN", "-Infinity", "Inf"]
)
def test_what_is_no_json_number_is_refused_wherever_it_stands(shape, text):
    assert not accepted(shape, WITHIN, text)
    assert shape not in PASSED_OVER or not accepted(shape, PASSED_OVER, text)
    assert shape not in WITH_TEXT or text in ("NaN", "-Infinity", "Inf") or not accepted(shape, WITHIN, f'"{text}"')


@pytest.mark.parametrize("shape", PASSED_OVER)
@pytest.mark.parametrize("text", ["1e400", "-1e400", "9" * 400, "-" + "9" * 5000, "1e-400", "1" + "0" * 400 + "e-400"])
def test_a_number_of_any_size_is_passed_over(shape, text):
    assert accepted(shape, PASSED_OVER, text)


@pytest.mark.parametrize("shape", WITHIN)
@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", "9" * 400, "9" * 5000, "1.7976931348623159e308", str(2**1024 - 2**970)]
)
def test_a_number_larger_than_any_float64_is_refused_where_it_is_read(shape, text):
    assert not accepted(shape, WITHIN, text)
    assert not accepted(shape, WITHIN, f'"{text}"')


@pytest.mark.parametrize("shape", WITHIN)
@pytest.mark.parametrize(
    "text", [str(2**1024 - 2**970 - 1), "1e-400", "0." + "0" * 400 + "1e401", str(2**64), "5e-324"]
)
def test_a_number_is_the_nearest_float(shape, text):
    expected = float(text)
    blank = SHAPES[shape].schema.blank_from if shape in ("lists", "single") else None
    for written in (text, f'"{text}"') if shape in WITH_TEXT else (text,):
        value = read(shape, written)
        assert value == expected or (blank is not None and expected >= blank and np.isnan(value))


@pytest.mark.parametrize("shape", WITHIN)
def test_a_negative_zero_has_its_sign_but_a_whole_number_has_none(shape):
    for text in ("-0.0", "-0e5", "-0"):
        for written in (text, f'"{text}"') if shape in WITH_TEXT else (text,):
            assert np.signbit(read(shape, written)) == (text != "-0")


@pytest.mark.parametrize("shape", PASSED_OVER)
@pytest.mark.parametrize(
    "text",
    [
        b'"\xff"',
        b'"\xc0\x80"',
        b'"\xed\xa0\x80"',
        b'"\xf4\x90\x80\x80"',
        b'"\xc3"',
        b'{"\xff": 1}',
        b"\xff",
        b"1\xc2\xa0",
    ],
)
def test_what_is_not_utf8_is_refused_also_where_it_is_passed_over(shape, text):
    assert not accepted(shape, PASSED_OVER, text)


@pytest.mark.parametrize("shape", PASSED_OVER)
@pytest.mark.parametrize(
    "text",
    ['"\\ud800"', '"\\udc00"', '"\\ud800x"', '"\\ud800\\u0041"', '"\\udc00\\ud800"', '{"\\ud800": 1}', '["\\uDBFF"]'],
)
def test_half_a_pair_of_surrogates_is_refused_also_where_it_is_passed_over(shape, text):
    assert not accepted(shape, PASSED_OVER, text)


@pytest.mark.parametrize("shape", PASSED_OVER)
@pytest.mark.parametrize(
    "text", ['"\\ud83d\\ude00"', '"\\u0000\\/\\b"', '"\x7f"', '"\u2028"', '{"\\uD83D\\uDE00": "\U0001f600"}']
)
def test_any_character_is_passed_over(shape, text):
    assert accepted(shape, PASSED_OVER, text)


@pytest.mark.parametrize("shape", PASSED_OVER)
@pytest.mark.parametrize(
    "text",
    ['"\t"', '"\x00"', '"\\x"', '"\\u12g4"', '"\\u 123"', '"a', "'a'", "[1,]", '{"a":1,}', "{1:2}", "tru", "True", ""],
)
def test_what_is_no_json_is_refused_also_where_it_is_passed_over(shape, text):
    assert not accepted(shape, PASSED_OVER, text)


@documents
def test_nothing_but_white_space_stands_around_the_document(shape, body):
    assert check(shape, b" \t\r\n" + body + b" \t\r\n")
    for around in (b"\xef\xbb\xbf", b"\x00", b"\x0b", b"\x0c", b"\xc2\xa0", b"[]", b",", b"#"):
        assert not check(shape, around + body)
        assert not check(shape, body + around)


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ("plain", b'{"metrics": 3, "metrics": [{"value": {}, "metric": 1, "metric": "m", "value": [1]}]}'),
        ("text", b'{"metrics": "x", "interval": "x", "metrics": [], "interval": 1}'),
        ("keyed", b'{"system": {"m": ["x"], "n": [], "m": ["1"], "n": 3}, "interval": {}, "interval": 1}'),
        (
            "samples",
            b'{"PodMetrics": 3, "PodMetrics": [{"PodId": 1, "Metrics": [{"Time": 1.5, "Time": 1}], "PodId": "p"}]}',
        ),
        ("rows", b'[{"timestamp": "x", "Value": {}, "pod": 1, "timestamp": 1, "Value": 1, "pod": "a"}]'),
        ("lists", b'{"warnings": 1, "data": 1, "data": {"result": [{"metric": {"a": 1, "a": "x"}}]}, "warnings": []}'),
        ("single", b'{"data": {"result": 1, "result": [{"metric": {}, "value": "x", "value": [1, "1"]}]}}'),
    ],
)
def test_of_members_with_one_name_only_the_last_counts(shape, body):
    assert check(shape, body)


@pytest.mark.parametrize(("text", "good"), [("NaN", True), ("", True), ("nAn", True), ("-nan", False), ("+nan", False)])
def test_no_value_in_an_array_of_texts_is_empty_or_nan(text, good):
    assert accepted("text", WITHIN, f'"{text}"') is good
    assert accepted("keyed", WITHIN, f'"{text}", "1"') is good


@pytest.mark.parametrize("text", ["null", "NULL", "\\u006eull", "true"])
def test_a_word_in_quotes_is_text(text):
    for shape in WITHIN:
        assert not accepted(shape, WITHIN, f'"{text}"')
    for body in ('{"data": "%s"}', '{"data": {"result": "%s"}}', '{"data": {}, "warnings": "%s"}'):
        assert not check("lists", (body % text).encode())
    for shape, name in (("lists", "values"), ("single", "value")):
        assert not check(shape, f'{{"data": {{"result": [{{"metric": {{}}, "{name}": "{text}"}}]}}}}'.encode())


@pytest.mark.parametrize(
    ("time", "good"),
    [
        ("1", True), ('"1"', True), ("-0", True), ('"-0"', True), ("1.0", False), ('"1.0"', False), ("1e3", False),
        ('"1e3"', False), ('"01"', False), ('" 1"', False), ("true", False), ('""', False), ("null", False),
        (str(2**63 - 1), True), (f'"{-(2**63)}"', True), (str(2**63), False), (f'"{-(2**63) - 1}"', False),
        ("9" * 400, False), (f'"{"9" * 400}"', False), ("9" * 5000, False), (f'"{"9" * 5000}"', False),
    ],
)  # fmt: skip
def test_a_time_is_a_whole_number_that_fits_into_int64_and_is_written_as_one(time, good):
    assert check("rows", f'[{{"timestamp": {time}, "Value": 1}}]'.encode()) is good
    in_list = f'{{"PodMetrics": [{{"PodId": "p", "Metrics": [{{"Time": {time}}}]}}]}}'.encode()
    assert check("samples", in_list) is (good and '"' not in time)


@pytest.mark.parametrize(
    ("card", "key"),
    [("7", "7"), ("-0", "0"), ('"07"', "07"), (str(2**63 - 1), str(2**63 - 1)), ("7.0", ""), ("1e400", "")],
)
def test_a_numbered_member_that_is_a_whole_number_or_text_names_the_series(card, key):
    body = f'[{{"timestamp": 1, "GPU": {card}}}]'.encode()
    assert check("rows", body)
    assert SHAPES["rows"].decode(body, SHAPES["rows"].schema).keys == (((("GPU", key),) if key else ()),)


@pytest.mark.parametrize("card", [str(2**63), "9" * 400, "-" + "9" * 5000])
def test_a_numbered_member_that_is_no_int64_is_refused(card):
    body = f'[{{"timestamp": 1, "GPU": {card}}}]'.encode()
    assert not check("rows", body)
    with pytest.raises(DecodeError) as caught:
        SHAPES["rows"].decode(body, SHAPES["rows"].schema)
    assert (caught.value.path, caught.value.offset) == ("$[0].GPU", body.index(card.encode()))


def test_a_time_larger_than_any_float64_in_milliseconds_is_refused():
    assert not check("lists", b'{"data": {"result": [{"metric": {}, "values": [[1e308, "1"]]}]}}')


@pytest.mark.parametrize("shape", PASSED_OVER)
def test_what_is_passed_over_may_be_nested_or_is_refused(shape):
    assert accepted(shape, PASSED_OVER, "[" * 100 + "]" * 100)
    assert accepted(shape, PASSED_OVER, '{"a":[' * 100 + "]}" * 100)
    assert not accepted(shape, PASSED_OVER, "[" * 300_000 + "]" * 300_000)
    assert not accepted(shape, PASSED_OVER, "[" * 300_000)
