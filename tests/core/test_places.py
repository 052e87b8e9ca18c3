"""Where something stands in a JSON document, also in a malformed one."""

import json
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.document_strategies import SHAPES, Writer, mutated
from metricsbridge.series._places import Fault, find_fault, offset_of, path_at, path_of

DOCUMENT = (
    b'{"metrics": [{"metric": "a", "value": [1, 2.5]}, {"a b": {"\\u0061": [[], [{"x": null}]]}}], "n": "\xc3\xa4"}'
)

names = st.sampled_from(["", "a", "b c", "metrics", '"', "\\", "]", "任务"])
trees = st.recursive(
    st.sampled_from(["1", "-0.5e7", '"x"', '"[{\\""', "null", "true", '""']),
    lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(names, inner), max_size=4).map(tuple),
    max_leaves=12,
)
seeds = st.integers(0, 2**32)


def write(tree, random: Random, steps=(), start: int = 0) -> tuple[str, dict]:
    """Write a tree with white space in it; give the text and at which byte the value at each place begins."""

    def space() -> str:
        return random.choice(["", "", " ", "\n\t", "\r "])

    text = space()
    places = {steps: start + len(text.encode())}
    if isinstance(tree, str):
        return text + tree + space(), places
    text += "{" if isinstance(tree, tuple) else "["
    for index, item in enumerate(tree):
        step, value = item if isinstance(tree, tuple) else (index, item)
        text += "," if index else ""
        text += f"{space()}{json.dumps(step, ensure_ascii=random.random() < 0.5)}{space()}:" if step != index else ""
        for place in [place for place in places if place[: len(steps) + 1] == (*steps, step)]:
            del places[place]  # of members with one name the last counts
        inner, found = write(value, random, (*steps, step), start + len(text.encode()))
        text, places = text + inner, places | found
    text += (space() if not tree else "") + ("}" if isinstance(tree, tuple) else "]")
    return text + space(), places


@settings(max_examples=300)
@given(tree=trees, seed=seeds)
def test_a_place_and_its_byte_are_found_from_each_other(tree, seed):
    text, places = write(tree, Random(seed))
    body = text.encode()
    assert find_fault(body) is None
    for steps, offset in places.items():
        assert offset_of(body, steps) == offset
        assert path_at(body, offset) == path_of(steps)


@settings(max_examples=200)
@given(tree=trees, seed=seeds, at=st.integers(0, 500))
def test_in_a_document_that_breaks_off_the_places_before_are_found(tree, seed, at):
    text, places = write(tree, Random(seed))
    body = text.encode()[:at]
    for steps, offset in places.items():
        assert 0 <= offset_of(body, steps) <= len(body)
        if offset < len(body) and all(type(step) is int for step in steps):
            assert offset_of(body, steps) == offset


def is_json(body: bytes) -> bool:
    def refuse(text: str) -> None:
        raise ValueError(text)

    try:
        text = body.decode()
        json.dumps(json.loads(text, parse_constant=refuse, parse_int=float), ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


@settings(max_examples=300)
@given(shape=st.sampled_from(sorted(SHAPES)), seed=seeds, changes=st.integers(0, 2))
def test_a_fault_is_the_first_byte_that_no_json_document_has_there(shape, seed, changes):
    random = Random(seed)
    body = Writer(random, odd=20).document(shape)
    for _ in range(changes):
        body = mutated(random, body)
    fault = find_fault(body)
    if fault is None:
        assert is_json(body)
        return
    assert 0 <= fault.offset <= len(body)
    before, after = find_fault(body[: fault.offset]), find_fault(body[: fault.offset + 1])
    assert before is None or before.offset == fault.offset
    if fault.problem not in ("this escape is no character", "it is not UTF-8"):  # which have more bytes than one
        assert after is not None
        assert after.offset == fault.offset
    assert path_at(body, fault.offset) == path_of(fault.steps)


@pytest.mark.parametrize("length", range(len(DOCUMENT)))
def test_a_document_that_breaks_off_has_its_fault_at_its_end(length):
    fault = find_fault(DOCUMENT[:length])
    in_a_character = DOCUMENT[length - 1 : length] == b"\xc3"
    assert fault is not None
    assert fault.offset == length - in_a_character
    assert fault.problem == ("it is not UTF-8" if in_a_character else "it breaks off")


@pytest.mark.parametrize(
    ("body", "offset", "path", "problem"),
    [
        (b"", 0, "$", "it breaks off"),
        (b" \n", 2, "$", "it breaks off"),
        (b"\xef\xbb\xbf{}", 0, "$", "expected a value"),
        (b"<html>", 0, "$", "expected a value"),
        (b"{} {}", 3, "$", "expected nothing more"),
        (b"[1]\xff", 3, "$", "it is not UTF-8"),
        (b'{"a": [1, 2 3]}', 12, "$.a[1]", "expected a comma or the end of the list or object"),
        (b'{"a": [1, 02]}', 11, "$.a[1]", "this is no JSON number or word"),
        (b'{"a": [1, 2.]}', 12, "$.a[1]", "this is no JSON number or word"),
        (b'{"a": [1, 1e+]}', 13, "$.a[1]", "this is no JSON number or word"),
        (b'{"a": [1, -x]}', 11, "$.a[1]", "this is no JSON number or word"),
        (b'{"a": [1, trux]}', 13, "$.a[1]", "this is no JSON number or word"),
        (b'{"a": [1, .5]}', 10, "$.a[1]", "expected a value"),
        (b'{"a": [1, NaN]}', 10, "$.a[1]", "expected a value"),
        (b'{"a": [1,]}', 9, "$.a[1]", "expected a value"),
        (b'{"a": [x]}', 7, "$.a[0]", "expected a value or the end of the list"),
        (b'{"a": 1,}', 8, "$", "expected a member's name in quotes"),
        (b'{"a": 1, b: 2}', 9, "$", "expected a member's name in quotes"),
        (b"{'a': 1}", 1, "$", "expected a member's name in quotes or the end of the object"),
        (b'{"a" 1}', 5, "$.a", "expected a colon"),
        (b'{"a": 1]', 7, "$.a", "expected a comma or the end of the list or object"),
        (b'{"a": "x\ty"}', 8, "$.a", "a text holds no bare control characters"),
        (b'{"a": "x\\qy"}', 8, "$.a", "this escape is no character"),
        (b'{"a": "x\\ud83dy"}', 8, "$.a", "this escape is no character"),
        (b'{"a": "x\\ude00"}', 8, "$.a", "this escape is no character"),
        (b'{"a": ["\\ud83d\\ude00", "\xed\xa0\xbd"]}', 24, "$.a[1]", "it is not UTF-8"),
    ],
)
def test_a_fault_says_where_and_what(body, offset, path, problem):
    fault = find_fault(body)
    assert fault is not None
    assert (fault.offset, path_of(fault.steps), fault.problem) == (offset, path, problem)


def test_a_path_is_readable_whatever_the_names_are():
    assert path_of(()) == "$"
    assert path_of(("metrics", 0, "gpu-util_2", "任务")) == "$.metrics[0].gpu-util_2.任务"
    assert path_of(("a b", "", 'x"]', 7)) == '$["a b"][""]["x\\"]"][7]'
    assert path_of((0,) * 100_000) == "$" + "[0]" * 20 + "[…]"
    assert path_of(("x" * 1000,)) == f"$.{'x' * 60}…"


def test_of_members_with_one_name_the_last_is_found():
    assert offset_of(b'{"a": [1], "a": {"b": 1, "\\u0062": 22}}', ("a", "b")) == 35


@pytest.mark.parametrize(("steps", "offset"), [(("x",), 1), (("a", 5), 7), (("a", 0, "x"), 8), ((3,), 1), (("b",), 1)])
def test_what_is_not_there_is_the_last_value_on_the_way(steps, offset):
    assert offset_of(b' {"a": [1, {}], b}', steps) == offset


@pytest.mark.parametrize(
    ("one", "end"),
    [(b"1.25, ", b"x"), (b'{"t": 1, "v": "2"}, ', b"{]"), (b'[1, "2"], ', b"[1,]"), (b'[[1], {"a": {}}], ', b"nul")],
)
def test_a_walk_takes_time_in_proportion_to_the_document(one, end):
    def seconds(count: int) -> float:
        body = b'{"a": [' + one * count + end
        start = time.perf_counter()
        assert find_fault(body) is not None
        assert offset_of(body, ("a", count - 1)) > len(body) - len(one) - len(end) - 1
        return time.perf_counter() - start

    few, many = min(seconds(2_000) for _ in range(3)), min(seconds(20_000) for _ in range(3))
    assert many < 60 * few  # ten times as long; a walk that is not linear takes a hundred times


def test_a_document_of_many_levels_is_walked():
    for body in (b"[" * 50_000, b'{"a":' * 50_000):
        fault = find_fault(body)
        assert fault == Fault(len(body), fault.steps, "it breaks off")
        assert len(fault.steps) == 50_000
