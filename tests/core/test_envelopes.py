import json
import traceback
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.envelopes import decode_json, field_errors, make_converter, parse_json
from metricsbridge.errors import ConfigurationError, DecodeError
from metricsbridge.secret import Secret


class Phase(Enum):
    RUNNING = "Running"
    ENDED = "Ended"


@attrs.frozen
class Flavor:
    name: str
    cards: int = 0


@attrs.frozen
class Worker:
    name: str
    flavors: tuple[Flavor, ...] = ()


@attrs.frozen
class Document:
    """One field of each kind that providers use."""

    id: str
    count: int = 0
    ratio: float = 0.0
    ready: bool = False
    note: str | None = None
    phase: Phase = Phase.RUNNING
    route: Literal["auto", "v1", 2] = "auto"
    token: Secret | None = None
    workers: tuple[Worker, ...] = ()
    labels: Mapping[str, str] = attrs.field(factory=dict)


def decode(**members: Any) -> Document:
    return decode_json(json.dumps({"id": "1", **members}).encode(), Document)


def failure(**members: Any) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode(**members)
    return caught.value


# What is accepted


def test_members_that_the_class_does_not_name_are_passed_over():
    assert decode(unknown={"deep": [1]}, workers=[{"name": "w", "more": 1}]) == Document(id="1", workers=(Worker("w"),))


def test_every_kind_of_field_is_read():
    found = decode(
        count=3, ratio=0.5, ready=True, note="n", phase="Ended", route=2, token="t", labels={"a": "b"},
        workers=[{"name": "w", "flavors": [{"name": "f", "cards": 8}]}],
    )  # fmt: skip
    assert found == Document(
        "1", 3, 0.5, True, "n", Phase.ENDED, 2, Secret("t"), (Worker("w", (Flavor("f", 8),)),), {"a": "b"}
    )


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [(7, 7), ("7", 7), (" -7 ", -7), (7.0, 7), (1e5, 100_000), ("1750000000000", 1_750_000_000_000), (2**70, 2**70)],
)
def test_a_whole_number_may_stand_in_a_string_or_be_an_integral_float(given_, wanted):
    count = decode(count=given_).count
    assert (type(count), count) == (int, wanted)


@pytest.mark.parametrize(("given_", "wanted"), [(1, 1.0), (0.25, 0.25), ("0.25", 0.25), ("-1e3", -1000.0)])
def test_a_number_may_stand_in_a_string(given_, wanted):
    ratio = decode(ratio=given_).ratio
    assert (type(ratio), ratio) == (float, wanted)


@given(st.floats(allow_nan=False))
def test_every_number_in_a_string_reads_as_itself(value):
    assert decode(ratio=repr(value)).ratio == value


def test_nothing_is_accepted_where_it_is_documented():
    assert decode(note=None, token=None) == Document(id="1")


# What is refused


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("id", None, "expected text, got nothing"),
        ("id", 1, "expected text, got a whole number"),
        ("id", ["1"], "expected text, got a list"),
        ("note", {"a": 1}, "expected text, got a table"),
        ("count", 1.5, "expected a whole number, got a number"),
        ("count", True, "expected a whole number, got true or false"),
        ("count", "", "expected a whole number, got text"),
        ("count", "--5", "expected a whole number, got text"),
        ("count", "5-", "expected a whole number, got text"),
        ("count", "1_0", "expected a whole number, got text"),
        ("count", "٣", "expected a whole number, got text"),
        ("count", "9" * 5000, "expected a whole number, got text"),
        ("count", None, "expected a whole number, got nothing"),
        ("ratio", True, "expected a number, got true or false"),
        ("ratio", "1_0", "expected a number, got text"),
        ("ratio", "", "expected a number, got text"),
        ("ratio", "٣", "expected a number, got text"),
        ("ratio", 10**400, "expected a number, got a whole number"),
        ("ready", 1, "expected true or false, got a whole number"),
        ("ready", "true", "expected true or false, got text"),
        ("phase", "Paused", "expected one of 'Running', 'Ended', got text"),
        ("phase", ["Running"], "expected one of 'Running', 'Ended', got a list"),
        ("route", "v2", "expected one of 'auto', 'v1', 2, got text"),
        ("route", 2.0, "expected one of 'auto', 'v1', 2, got a number"),
        ("token", 12345, "expected text, got a whole number"),
        ("workers", {"name": "w"}, "expected a list, got a table"),
        ("workers", "w", "expected a list, got text"),
        ("workers", None, "expected a list, got nothing"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(field, value, problem):
    error = failure(**{field: value})
    assert str(error) == f"the answer's $.{field} is not as documented: {problem}"
    assert error.path == f"$.{field}"


@pytest.mark.parametrize(
    ("workers", "path"),
    [
        ([{"name": "w"}, {}], "$.workers[1].name"),
        ([{"name": "w"}, 3], "$.workers[1]"),
        ([{"name": "w", "flavors": [{"name": "f"}, {"name": "g", "cards": "many"}]}], "$.workers[0].flavors[1].cards"),
        ([{"name": "w", "flavors": [None]}], "$.workers[0].flavors[0]"),
    ],
)
def test_an_error_names_the_path_through_nested_lists(workers, path):
    error = failure(workers=workers)
    assert error.path == path
    assert path in str(error)


def test_a_missing_member_is_named():
    with pytest.raises(DecodeError, match=r"the answer's \$\.id is not as documented: missing"):
        decode_json(b"{}", Document)


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"text"'])
def test_a_document_of_the_wrong_type_is_refused(body):
    with pytest.raises(DecodeError, match="expected a table") as caught:
        decode_json(body, Document)
    assert caught.value.path == "$"


# What is no JSON


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (b"", 0),
        (b'{"id": "1', 9),
        (b'{"id": "1"', 10),
        (b'{"id": "1"}}', 11),
        (b'{"id": nul}', 7),
        (b'{"id": NaN}', 7),
        (b"{'id': 1}", 1),
        (b'{"id": "a\xffb"}', 9),
        (b'{"id": "\xc3"}', 8),
        (b"\xef\xbb\xbf{}", 0),
    ],
)
def test_malformed_bytes_are_refused_and_the_error_says_where(body, offset):
    for attempt in (lambda: parse_json(body), lambda: decode_json(body, Document)):
        with pytest.raises(DecodeError, match=f"can't be decoded.*{len(body)} bytes long") as caught:
            attempt()
        assert caught.value.offset is not None
        assert offset <= caught.value.offset <= offset + 4  # the parser may stop behind the word that it does not know


def test_a_page_in_html_is_called_one():
    with pytest.raises(DecodeError, match="it is an HTML page, as a proxy sends") as caught:
        parse_json(b"\n <!doctype html><title>Bad gateway</title>")
    assert caught.value.offset == 2


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000])
def test_deep_nesting_is_refused(body):
    with pytest.raises(DecodeError, match="recursion"):
        parse_json(body)


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused(body):
    try:
        parse_json(body)
        offset = None
    except DecodeError as error:
        offset = error.offset
    assert offset is None or 0 <= offset <= len(body)


# Values stay out of messages


def _texts_of(error: BaseException) -> str:
    return f"{error}{error!r}{''.join(traceback.format_exception(error))}"


hidden_texts = st.from_regex(r"[A-Z][a-z0-9_+/=-]{11,30}", fullmatch=True)
misplaced = st.sampled_from(["count", "ratio", "ready", "phase", "route", "workers"])


@given(hidden_texts, misplaced, st.sampled_from([lambda s: s, lambda s: [s], lambda s: {"name": [s]}]))
def test_a_value_in_a_wrong_place_is_in_no_message(hidden, field, wrap):
    assert hidden not in _texts_of(failure(**{field: wrap(hidden)}))


@given(hidden_texts)
def test_a_value_deep_in_lists_is_in_no_message(hidden):
    error = failure(workers=[{"name": "w", "flavors": [{"name": "f", "cards": hidden}]}])
    assert error.path == "$.workers[0].flavors[0].cards"
    assert hidden not in _texts_of(error)


@given(hidden_texts)
def test_a_secret_of_the_wrong_type_is_in_no_message(hidden):
    assert hidden not in _texts_of(failure(token=[hidden]))


@given(hidden_texts)
def test_malformed_json_is_in_no_message(hidden):
    for body in (f'{{"id": {hidden}}}', f'{{"id": "{hidden}', f'"{hidden}" x', f"<p>{hidden}"):
        with pytest.raises(DecodeError) as caught:
            parse_json(body.encode())
        assert hidden not in str(caught.value) + repr(caught.value)


# Problems of converters and validators


def _quoting(value: str) -> int:
    raise ConfigurationError("write it as 3x8")


def _looking_up(value: str) -> int:
    return {"a": 1}[value]


def _refusing(instance: object, attribute: object, value: str) -> None:
    raise ValueError(f"bad: {value}")


@attrs.frozen
class Checked:
    quoted: Any = attrs.field(default="", converter=lambda v: v and _quoting(v))
    found: Any = attrs.field(default="", converter=lambda v: v and _looking_up(v))
    refused: str = attrs.field(default="", validator=lambda i, a, v: _refusing(i, a, v) if v else None)
    limited: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))


def _problems(cls: type, value: object, **options: bool) -> list[tuple[str, str]]:
    try:
        make_converter(**options).structure(value, cls)
    except Exception as error:
        return field_errors(error)
    return []


def test_what_a_configuration_error_says_is_quoted():
    assert _problems(Checked, {"quoted": "hunter2"}) == [("$", "write it as 3x8")]


@pytest.mark.parametrize("value", [{"found": "hunter2"}, {"refused": "hunter2"}, {"limited": -22.5}])
def test_what_other_errors_say_is_left_out(value):
    ((path, problem),) = _problems(Checked, value)
    assert path == "$"
    assert problem.startswith("not acceptable (")
    assert "hunter2" not in problem
    assert "22.5" not in problem


def test_every_bad_field_is_found_at_once():
    found = _problems(
        Document, {"id": 1, "count": "x", "workers": [{}, {"name": 2}], "extra": 1}, forbid_extra_keys=True
    )
    assert dict(found) == {
        "$.id": "expected text, got a whole number",
        "$.count": "expected a whole number, got text",
        "$.workers[0].name": "missing",
        "$.workers[1].name": "expected text, got a whole number",
        "$.extra": "unknown",
    }


@attrs.frozen
class Files:
    ca: Path | None = None
    names: tuple[str, ...] = ()
    token: Secret | None = None
    phase: Phase = Phase.RUNNING


def test_values_of_python_are_read_as_well(monkeypatch):
    monkeypatch.setenv("HOME", "/home-of-the-test")
    kept = Secret("t")
    found = make_converter().structure(
        {"ca": "~/ca.pem", "names": ("a", "b"), "token": kept, "phase": Phase.ENDED}, Files
    )
    assert found == Files(Path("/home-of-the-test/ca.pem"), ("a", "b"), kept, Phase.ENDED)
    assert found.token is kept


def test_a_path_of_the_wrong_type_is_refused():
    assert _problems(Files, {"ca": 3}) == [("$.ca", "expected a path, got a whole number")]


@attrs.frozen
class Quoted:
    count: int | None = None
    share: float | None = None
    needed: int = 0


def test_an_optional_number_that_is_quoted_and_empty_is_none():
    assert decode_json(b'{"count": "", "share": ""}', Quoted) == Quoted(None, None)
    assert decode_json(b'{"count": "5", "share": "0.5"}', Quoted) == Quoted(5, 0.5)
    assert decode_json(b'{"count": null, "share": 1}', Quoted) == Quoted(None, 1.0)
    for body, path in ((b'{"count": "x"}', "$.count"), (b'{"share": " "}', "$.share"), (b'{"needed": ""}', "$.needed")):
        with pytest.raises(DecodeError) as caught:
            decode_json(body, Quoted)
        assert caught.value.path == path
