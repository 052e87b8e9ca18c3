"""What is public is public on purpose: listed, documented, and complete."""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

import metricsbridge
from fresh_interpreter import PROJECT, run_fresh
from metricsbridge import errors, provider_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

DOORS: Final = (metricsbridge, provider_kit)
ENTRIES: Final = [(door, name) for door in DOORS for name in door.__all__]
IDS: Final = [f"{door.__name__}.{name}" for door, name in ENTRIES]

# Named in a public signature and on purpose behind no door.
UNLISTED: Final = {
    "Reason": "four words, written out in the docstrings",
    "Target": "a pair of texts",
    "Bound": "seconds, or a duration",
    "Outcome": "what the fields of a collection are made of",
    "How": "a few words, written out in the docstrings",
    "Fill": "a few words, written out in the docstrings",
    "Provider": "a provider or what open_provider returns",
    "Jobs": "references, texts and jobs, one or many",
    "Float64": "a NumPy array",
    "Int64": "a NumPy array",
}


def _trees() -> dict[str, ast.Module]:
    folder = PROJECT / "metricsbridge"
    return {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


TREES: Final = _trees()


def _documented_constants() -> set[str]:
    """Give the names that a module assigns with a docstring behind them."""
    found = set()
    for tree in TREES.values():
        for before, after in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def _defined() -> set[str]:
    """Give the public classes and type aliases that the library's modules define."""
    found = set()
    for module, tree in TREES.items():
        if any(part.startswith("_") for part in module.split(".")) or ".cli" in module or ".testing" in module:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.add(node.name)
        for node in [*tree.body, *(inner for outer in tree.body if isinstance(outer, ast.If) for inner in outer.body)]:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.add(node.targets[0].id)
    return {name for name in found if re.fullmatch(r"[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", name)}


def _named_in_signatures(value: Any) -> set[str]:
    """Give the capitalised names in the annotations of a function, or of a class's fields and public methods."""
    source = TREES[value.__module__]
    nodes = [n for n in ast.walk(source) if getattr(n, "name", "") == value.__name__]
    found: set[str] = set()
    for annotation in (a for node in nodes for a in _annotations(node)):
        found |= {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)}
    return found


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            name = getattr(child, "name", "")
            if isinstance(child, ast.AnnAssign):
                if not getattr(child.target, "id", "_").startswith("_"):
                    yield child.annotation
            elif not name.startswith("_") or name == "__init__":
                yield from _annotations(child)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if argument.annotation is not None:
                yield argument.annotation
        if node.returns is not None:
            yield node.returns


def _sort_key(name: str) -> tuple[int, str]:
    """Sort constants first, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_the_list_of_names_is_sorted_and_names_nothing_twice(door):
    assert door.__all__ == sorted(set(door.__all__), key=_sort_key)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_public_name_of_a_door_is_listed(door):
    public = {name for name, value in vars(door).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(door.__all__)


@pytest.mark.parametrize(("door", "name"), ENTRIES, ids=IDS)
def test_a_listed_name_exists_and_is_documented(door, name):
    value = getattr(door, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        documentation = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        assert documentation
        assert documentation.strip().partition("\n")[0].endswith((".", '"'))
    else:
        assert name in _documented_constants()


@pytest.mark.parametrize(("door", "name"), ENTRIES, ids=IDS)
def test_public_methods_are_documented(door, name):
    value = getattr(door, name)
    if inspect.isclass(value):
        for member, what in vars(value).items():
            function = getattr(what, "fget", None) or getattr(what, "__func__", what)
            if not member.startswith("_") and inspect.isroutine(function):
                assert inspect.getdoc(function), member


def test_both_doors_give_the_same_thing_by_one_name():
    for name in set(metricsbridge.__all__) & set(provider_kit.__all__):
        assert getattr(metricsbridge, name) is getattr(provider_kit, name)


def test_what_public_signatures_name_is_public():
    listed = {name for door in DOORS for name in door.__all__}
    missing: dict[str, set[str]] = {}
    for door, name in ENTRIES:
        value = getattr(door, name)
        if getattr(value, "__module__", "") in TREES:
            for needed in _named_in_signatures(value) & _defined():
                missing.setdefault(needed, set()).add(name)
    assert {name: users for name, users in missing.items() if name not in listed | set(UNLISTED)} == {}
    assert set(UNLISTED) - set(missing) == set(), "no longer named in a public signature"
    assert set(UNLISTED) & listed == set()


def test_every_error_is_public():
    public = {name for name in vars(errors) if name.endswith("Error") and not name.startswith("_")}
    assert public <= set(metricsbridge.__all__)


def test_importing_the_library_imports_no_provider_no_http_library_and_no_command_line():
    code = "import sys; before = set(sys.modules); import metricsbridge; print(*sorted(set(sys.modules) - before))"
    imported = run_fresh(code).split()
    roots = {name.partition(".")[0] for name in imported}
    heavy = {"aiohttp", "yarl", "typer", "rich", "pandas", "polars", "pyarrow", "pytest", "hypothesis"}
    assert roots & heavy == set()
    assert [root for root in roots if root.startswith("metricsbridge_")] == []
    unwanted = ("metricsbridge.cli", "metricsbridge.testing", "metricsbridge.export", "metricsbridge.provider_kit")
    assert [name for name in imported if name.startswith(unwanted)] == []
    assert [n for n in imported if n.startswith("metricsbridge.runtime._")] == [
        "metricsbridge.runtime._context",
        "metricsbridge.runtime._limits",
        "metricsbridge.runtime._throttle",
    ]
