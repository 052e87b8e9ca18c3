"""A whole JSON document as Python objects, strictly; and errors that say at which byte and path it is not as wanted.

For what the quick decoders of this package don't take: unusual documents, and those that are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from metricsbridge.envelopes import likeness
from metricsbridge.errors import DecodeError
from metricsbridge.series._places import Steps, find_fault, offset_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the JSON parser raises for bytes that it refuses."""

_DIGITS_OF_A_FLOAT: Final = 310


class MisfitError(Exception):
    """A value of the document is not of the shape wanted; says which one, and what is wrong with it."""

    def __init__(self, steps: Steps, problem: str) -> None:
        super().__init__(problem)
        self.steps = steps
        self.problem = problem


def read_document(body: bytes, /) -> Any:
    """Give the JSON document (RFC 8259; UTF-8, and no half of a surrogate pair anywhere).

    Of members with one name the last counts, as everywhere. A number may be larger than any float64: an infinity or a
    huge int; it is up to those who read it to refuse it.

    Raises:
        DecodeError: The bytes are not JSON, or nested too deep; says at which byte and path.
    """
    try:
        return msgspec.json.decode(body)
    except JSON_ERRORS as error:  # malformed, or perhaps only a number too large for that parser
        fault = find_fault(body)
        if fault is not None:
            raise _malformed(body, fault.offset, fault.steps, fault.problem) from error
    try:
        return json.loads(body.decode(), parse_int=_whole, parse_float=float)
    except RecursionError as error:
        raise _malformed(body, 0, (), "it is nested too deep") from error


def require_utf8(body: bytes, /) -> None:
    """Refuse what is not UTF-8, also in what a decoder passes over.

    Raises:
        DecodeError: It is not UTF-8; says at which byte and path.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        read_document(body)


def _whole(digits: str) -> int:
    return int(digits) if len(digits) <= _DIGITS_OF_A_FLOAT else -(10**400) if digits[0] == "-" else 10**400


def _malformed(body: bytes, offset: int, steps: Steps, problem: str) -> DecodeError:
    path = path_of(steps)
    return DecodeError(
        f"the answer can't be decoded: JSON is malformed at byte {offset}, in {path}: {problem}; it is "
        f"{likeness(body)}",
        path=path,
        offset=offset,
    )  # fmt: skip


def misplaced(body: bytes, error: MisfitError, /) -> DecodeError:
    """Give the DecodeError for a document of another shape; it shows nothing of the document but names of members."""
    path, offset = path_of(error.steps), offset_of(body, error.steps)
    return DecodeError(
        f"the answer's {path} (at byte {offset}) is not as documented: {error.problem}", path=path, offset=offset
    )


def checked(value: Any, kind: type[T], steps: Steps, problem: str) -> T:
    """Give the value, which must be of the kind."""
    if not isinstance(value, kind):
        raise MisfitError(steps, problem)
    return value


def member(value: Any, name: str, steps: Steps) -> Any:
    """Give the member of the value that stands at that place."""
    if not isinstance(value, dict) or name not in value:
        raise MisfitError(steps, f"there is no member {name!r}")
    return value[name]


def listed(value: Any, name: str, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    """Give the entries of a member that is a list, each with its place; none where it is absent or ``null``."""
    found = checked(value, dict, steps, "expected an object").get(name)
    entries = [] if found is None else checked(found, list, (*steps, name), "expected a list")
    for index, entry in enumerate(entries):
        yield (*steps, name, index), entry


def whole_number(value: Any, steps: Steps) -> int:
    """Give a whole number, written as one, that fits into int64."""
    if type(value) is not int:
        raise MisfitError(steps, "expected a whole number")
    if not -(2**63) <= value < 2**63:
        raise MisfitError(steps, "expected a whole number that fits into int64")
    return value


_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""Its last group is the first only where it is a whole number."""
_NO_NUMBERS: Final = ("", "nan")


def number(value: Any, text: bool, steps: Steps) -> float:
    """Give the float64 nearest to the number; NaN for ``null``, and where it may stand in text for "" and "NaN".

    A whole number that is ``-0`` is zero, as for other readers of JSON: whole numbers have no negative zero.
    """
    found = math.nan
    if type(value) is float:
        found = value
    elif type(value) is int:
        found = _nearest(value)
    elif text and type(value) is str and (match := _NUMBER.fullmatch(value)):
        found = float(value)
        if not found and match.lastindex == 1:
            found = 0.0
    elif value is not None and not (text and type(value) is str and value.lower() in _NO_NUMBERS):
        raise MisfitError(steps, "expected a number")
    if math.isinf(found):
        raise MisfitError(steps, "expected a finite number")
    return found


def _nearest(whole: int) -> float:
    try:
        return float(whole)
    except OverflowError:
        return math.inf
