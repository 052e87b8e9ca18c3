"""Where in a JSON document something stands: the first byte that is no JSON, the path at a byte, the byte of a path.

For error messages: the documents are walked only after an error, in a time that grows with their length, without
recursion, and also where they are malformed. A place is its steps from the document down: names of members and indices.
"""

from __future__ import annotations

import json
import re
from typing import Final

import attrs

Steps = tuple[str | int, ...]


@attrs.frozen
class Fault:
    """The first byte up to which a document does not begin as any JSON document (RFC 8259, in UTF-8) does.

    Attributes:
        offset: That byte, of an escape its backslash; the length of the document where it breaks off.
        steps: The value that it stands in; between values, the last one, or before the first member the object.
        problem: What is wrong, without the document's content.
    """

    offset: int
    steps: Steps
    problem: str


_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_S: Final = _SPACE.pattern
# A pair of surrogates is one character; half a pair is none.
_UNICODE: Final = (
    rb"u(?:[0-9A-CEFa-cef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2}"
    rb"|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})"
)
_TEXT_BEGUN: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|%s))*+' % _UNICODE)
_TEXT: Final = re.compile(_TEXT_BEGUN.pattern + rb'"')
_HALF_AN_ESCAPE: Final = re.compile(
    rb"\\(?:u(?:[0-9A-Fa-f]{0,3}|[Dd][89ABab][0-9A-Fa-f]{2}(?:\\(?:u(?:[Dd](?:[C-Fc-f][0-9A-Fa-f]?)?)?)?)?)?)?"
)
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+(?![0-9.eE])"
_SCALAR: Final = re.compile(rb"(?:%s|true|false|null|%s)" % (_NUMBER, _TEXT.pattern))
_SCALAR_BEGUN: Final = re.compile(
    rb"-?(?:(?:0|[1-9][0-9]*+)(?:\.(?:[0-9]++(?:[eE][+-]?[0-9]*+)?)?|[eE][+-]?[0-9]*+)?)"
    rb"|-|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?"
)
_SCALARS: Final = rb"%s%s%s(?:,%s%s%s)*+" % (_S, _SCALAR.pattern, _S, _S, _SCALAR.pattern, _S)
_MEMBER: Final = rb"%s%s%s:%s%s%s" % (_S, _TEXT.pattern, _S, _S, _SCALAR.pattern, _S)
_FLAT: Final = re.compile(
    rb"(?:%s|\[(?:%s|%s)\]|\{(?:%s(?:,%s)*+|%s)\})" % (_SCALAR.pattern, _SCALARS, _S, _MEMBER, _MEMBER, _S)
)
"""A value without a value that holds values: most of a document, so each is one step of a walk."""
_FLAT_ITEM: Final = re.compile(rb"%s%s%s," % (_S, _FLAT.pattern, _S))
_PLAIN: Final = rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+'
_TO_BRACKET: Final = re.compile(rb"%s(?:[\[{]%s[\]}]%s)*+([\[\]{}])" % (_PLAIN, _PLAIN, _PLAIN), re.DOTALL)
"""Up to a bracket, passing over lists and objects without others inside."""

_WANTED: Final = {
    "value": "expected a value",
    "item": "expected a value or the end of the list",
    "name": "expected a member's name in quotes",
    "member": "expected a member's name in quotes or the end of the object",
    "colon": "expected a colon",
    "next": "expected a comma or the end of the list or object",
}


def find_fault(body: bytes, /) -> Fault | None:
    """Give the first fault of the document, None where it is JSON."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        fault = _fault_before(body[: error.start], "it is not UTF-8")
        return fault or Fault(error.start, (), "it is not UTF-8")
    return _fault_before(body, "it breaks off")


def path_at(body: bytes, offset: int, /) -> str:
    """Give the path of the value that the byte stands in, or of the value before the document's first fault."""
    fault = find_fault(body[:offset])
    return path_of(fault.steps if fault else ())


def path_of(steps: Steps, /) -> str:
    """Write the steps as a path such as ``$.metrics[0].value[3]``; what is very long or deep is cut."""
    return "".join(["$", *map(_written, steps[:20])]) + ("[…]" if len(steps) > 20 else "")


def _written(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    name = step if len(step) <= 60 else f"{step[:60]}…"
    return f".{name}" if re.fullmatch(r"[\w-]+…?", name) else f"[{json.dumps(name, ensure_ascii=False)}]"


def _fault_before(text: bytes, at_the_end: str) -> Fault | None:
    """Walk the text, which is UTF-8, to its first fault; say what is wrong where that is its end."""
    place: list[str | int | None] = []  # in each open list the index, in each open object the name, None before it
    at, wanted = _SPACE.match(text).end(), "value"  # type: ignore[union-attr]  # it always matches

    def fault(where: int, problem: str) -> Fault:
        steps = tuple([step for step in place if step is not None])
        return Fault(where, steps, at_the_end if where == len(text) else problem)

    while True:
        sign = text[at : at + 1]
        if wanted == "next" and not place:
            return fault(at, "expected nothing more") if sign else None
        if wanted in ("value", "item"):
            if place and type(place[-1]) is int:
                while item := _FLAT_ITEM.match(text, at):
                    place[-1] += 1
                    at, wanted = item.end(), "value"
                at = _after_space(text, at)
                sign = text[at : at + 1]
            if sign == b"[":
                place.append(0)
                at, wanted = at + 1, "item"
            elif sign == b"{":
                place.append(None)
                at, wanted = at + 1, "member"
            elif sign == b"]" and wanted == "item":
                place.pop()
                at, wanted = at + 1, "next"
            elif scalar := _SCALAR.match(text, at):
                at, wanted = scalar.end(), "next"
            else:
                return fault(*_in_scalar(text, at, _WANTED[wanted]))
        elif wanted in ("name", "member"):
            if sign == b"}" and wanted == "member":
                place.pop()
                at, wanted = at + 1, "next"
            elif name := _TEXT.match(text, at):
                place[-1] = json.loads(name[0].decode())
                at, wanted = name.end(), "colon"
            else:
                return fault(*_in_scalar(text, at, _WANTED[wanted]) if sign == b'"' else (at, _WANTED[wanted]))
        elif wanted == "colon" and sign == b":":
            at, wanted = at + 1, "value"
        elif wanted == "next" and sign == b",":
            within = place[-1]
            place[-1] = within + 1 if isinstance(within, int) else None
            at, wanted = at + 1, "value" if isinstance(within, int) else "name"
        elif wanted == "next" and sign == (b"]" if isinstance(place[-1], int) else b"}"):
            place.pop()
            at += 1
        else:
            return fault(at, _WANTED[wanted])
        at = _after_space(text, at)


def _in_scalar(text: bytes, at: int, problem: str) -> tuple[int, str]:
    """Give the byte at which a text, a number or a word goes wrong, and how."""
    if begun := _TEXT_BEGUN.match(text, at):
        end = begun.end()
        if text[end : end + 1] != b"\\":
            return end, "a text holds no bare control characters"
        breaks_off = _HALF_AN_ESCAPE.fullmatch(text, end)
        return len(text) if breaks_off else end, "this escape is no character"
    word = _SCALAR_BEGUN.match(text, at)
    return (word.end(), "this is no JSON number or word") if word else (at, problem)


def _after_space(text: bytes, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it always matches


def offset_of(body: bytes, steps: Steps, /) -> int:
    """Give the byte at which the value at that place begins; where there is none, the last one on the way there."""
    at = _after_space(body, 0)
    for step in steps:
        inner = _item(body, at, step) if isinstance(step, int) else _member(body, at, step)
        if inner is None:
            break
        at = inner
    return at


def _item(body: bytes, at: int, index: int) -> int | None:
    if body[at : at + 1] != b"[":
        return None
    at += 1
    for _ in range(index):
        if item := _FLAT_ITEM.match(body, at):
            at = item.end()
            continue
        at = _after_value(body, at) + 1
        if body[at - 1 : at] != b",":
            return None
    at = _after_space(body, at)
    return at if body[at : at + 1] not in (b"", b"]") else None


def _member(body: bytes, at: int, name: str) -> int | None:
    """Give where the value of the member begins: of several with that name, the last one's."""
    found = None
    if body[at : at + 1] != b"{":
        return None
    while True:
        key = _TEXT.match(body, _after_space(body, at + 1))
        colon = _after_space(body, key.end()) if key else at
        if key is None or body[colon : colon + 1] != b":":
            return found
        value = _after_space(body, colon + 1)
        with_name = key[0][1:-1] == name.encode("utf-8", "replace") or _read(key[0]) == name
        found = value if with_name else found
        at = _after_value(body, value)
        if body[at : at + 1] != b",":
            return found


def _read(text: bytes) -> str:
    return str(json.loads(text.decode("utf-8", "replace")))


def _after_value(body: bytes, at: int) -> int:
    """Give the byte after a value and the white space around it."""
    at = _after_space(body, at)
    if flat := _FLAT.match(body, at):
        return _after_space(body, flat.end())
    depth = 1 if body[at : at + 1] in (b"[", b"{") else 0
    at += 1
    while depth and (part := _TO_BRACKET.match(body, at)):
        at = part.end()
        depth += 1 if part[1] in b"[{" else -1
    return _after_space(body, at) if depth == 0 else len(body)
