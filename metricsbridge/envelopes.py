"""From the bytes of a vendor's JSON document, or a user's settings, to an attrs class: strict, with paths in errors.

For jobs and settings; the samples of a series go through ``metricsbridge.series.decode`` instead.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
import msgspec
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn

from metricsbridge.errors import ConfigurationError, DecodeError
from metricsbridge.secret import Secret

T = TypeVar("T")


class _WrongTypeError(ValueError):
    """A value has the wrong type; says which, and never the value itself: it may be a secret."""

    def __init__(self, wanted: str, value: object) -> None:
        super().__init__(f"expected {wanted}, got {_JSON_NAMES.get(type(value), type(value).__name__)}")


_JSON_NAMES: dict[type, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a table",
    type(None): "nothing",
}  # fmt: skip


def _exact(kind: type, wanted: str) -> Any:
    def structure(value: Any, _: type) -> Any:
        if type(value) is kind:
            return value
        raise _WrongTypeError(wanted, value)

    return structure


_WHOLE: Final = re.compile(r"\s*-?[0-9]{1,400}\s*")


def _structure_int(value: Any, _: type) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    raise _WrongTypeError("a whole number", value)


def _structure_float(value: Any, _: type) -> float:
    if type(value) in (int, float) or (type(value) is str and value.isascii() and "_" not in value):
        with suppress(ValueError, OverflowError):
            return float(value)
    raise _WrongTypeError("a number", value)


def _structure_secret(value: Any, _: type) -> Secret:
    if isinstance(value, Secret):
        return value
    if type(value) is str:
        return Secret(value)
    raise _WrongTypeError("text", value)


def _structure_path(value: Any, _: type) -> Path:
    if isinstance(value, (str, Path)):
        return Path(value).expanduser()
    raise _WrongTypeError("a path", value)


def make_converter(*, forbid_extra_keys: bool = False) -> cattrs.Converter:
    """Make the converter: numbers may stand in strings (some vendors quote them), nothing else is coerced."""
    converter = cattrs.Converter(forbid_extra_keys=forbid_extra_keys)
    converter.register_structure_hook(str, _exact(str, "text"))
    converter.register_structure_hook(bool, _exact(bool, "true or false"))
    converter.register_structure_hook(int, _structure_int)
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook(Secret, _structure_secret)
    converter.register_structure_hook(Path, _structure_path)
    converter.register_structure_hook_factory(_is_choice, _of_choice)
    converter.register_structure_hook_factory(attrs.has, lambda cls: _of_table(cls, converter, forbid_extra_keys))
    converter.register_structure_hook_factory(_is_sequence, lambda kind: _of_list(kind, converter))
    return converter


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum))


def _of_choice(kind: Any) -> Any:
    found = get_args(kind) if get_origin(kind) is Literal else tuple(kind)
    choices = [(choice.value if isinstance(choice, Enum) else choice, choice) for choice in found]
    wanted = f"one of {', '.join(repr(value) for value, _ in choices)}"

    def structure(value: Any, _: type) -> Any:
        for known, choice in choices:
            if value is choice or (type(value) is type(known) and value == known):
                return choice
        raise _WrongTypeError(wanted, value)

    return structure


def _is_sequence(kind: Any) -> bool:
    return get_origin(kind) is tuple and len(get_args(kind)) == 2 and get_args(kind)[1] is ...


def _of_table(cls: type, converter: cattrs.Converter, forbid_extra_keys: bool) -> Any:
    inner: Any = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=forbid_extra_keys)

    def structure(value: Any, kind: type) -> Any:
        if not isinstance(value, dict):
            raise _WrongTypeError("a table", value)
        return inner(value, kind)

    return structure


def _of_list(kind: Any, converter: cattrs.Converter) -> Any:
    element = get_args(kind)[0]

    def structure(value: Any, _: type) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _WrongTypeError("a list", value)
        if element is str and set(map(type, value)) <= {str}:
            return tuple(value)
        return tuple(converter.structure(list(value), list[element]))  # type: ignore[valid-type]  # known at run time only

    return structure


def _is_optional_number(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and set(get_args(kind)) in ({int, type(None)}, {float, type(None)})


def _of_optional_number(kind: Any) -> Any:
    number = next(each for each in get_args(kind) if each is not type(None))
    structure = _structure_int if number is int else _structure_float
    return lambda value, _: None if value is None or value == "" else structure(value, number)


_ENVELOPES = make_converter()
_ENVELOPES.register_structure_hook_factory(_is_optional_number, _of_optional_number)
"""A vendor that quotes its numbers writes none as empty text."""


def parse_json(body: bytes, /) -> Any:
    """Give the JSON document that the bytes hold.

    Raises:
        DecodeError: The bytes are not JSON; says at which byte.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise json_error(error, body) from error


def decode_json(body: bytes, cls: type[T], /) -> T:
    """Give the JSON document as an attrs class; members it does not name are passed over.

    Raises:
        DecodeError: The bytes are not JSON, or a field is missing or of the wrong type; says where.
    """
    document = parse_json(body)
    try:
        return _ENVELOPES.structure(document, cls)
    except Exception as error:
        path, problem = field_errors(error)[0]
        raise DecodeError(f"the answer's {path} is not as documented: {problem}", path=path) from error


def json_error(error: Exception, body: bytes, /) -> DecodeError:
    """Give the DecodeError for bytes that the JSON parser refuses, with what they look like."""
    text = str(error)
    _, _, tail = text.partition("(byte ")
    offset = int(tail.partition(")")[0]) if tail.partition(")")[0].isdigit() else None
    if isinstance(error, UnicodeDecodeError):  # the parser counts from the start of the one string
        text, offset = "Input is not UTF-8", _utf8_end(body)
    elif "truncated" in text:
        offset = len(body)
    path = text.partition(" - at `")[2].rstrip("`") if " - at `" in text else ""
    problem = text.partition(" - at `")[0] or type(error).__name__
    return DecodeError(f"the answer can't be decoded: {problem}; it is {likeness(body)}", path=path, offset=offset)


def likeness(body: bytes, /) -> str:
    """Say what bytes that are no JSON look like."""
    return "an HTML page, as a proxy sends" if body.lstrip()[:1] == b"<" else f"{len(body)} bytes long"


def _utf8_end(body: bytes) -> int | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def field_errors(error: BaseException, path: str = "$", /) -> list[tuple[str, str]]:
    """Give (path, problem) for each bad field; problems name types, never values.

    What a converter or validator says is quoted where it raises ``ConfigurationError``; the texts of other errors,
    which often quote the value, are left out.
    """
    if isinstance(error, (ClassValidationError, IterableValidationError)):
        found: list[tuple[str, str]] = []
        for inner in error.exceptions:
            notes = [
                note for note in getattr(inner, "__notes__", ()) if hasattr(note, "name") or hasattr(note, "index")
            ]
            step = ""
            if notes:
                step = f".{notes[-1].name}" if hasattr(notes[-1], "name") else f"[{notes[-1].index}]"
            found += field_errors(inner, path + step)
        return found
    if isinstance(error, ForbiddenExtraKeysError):
        return [(f"{path}.{name}", "unknown") for name in sorted(error.extra_fields)]
    if isinstance(error, KeyError) and error.args and path.endswith(f".{error.args[0]}"):
        return [(path, "missing")]
    if isinstance(error, (_WrongTypeError, ConfigurationError)):
        return [(path, str(error))]
    return [(path, f"not acceptable ({type(error).__name__})")]
