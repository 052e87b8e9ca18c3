"""Imports go one way. The table below is the design; a module that needs more says so here, with its reason."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Final, Literal

import attrs

from fresh_interpreter import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Modules and packages of metricsbridge, from the ground up, with the libraries that each may use. Each may import from
# the layers above its row in this table, and a package from itself.
LAYERS: Final = (
    ({"errors", "durations", "metrics", "secret"}, "attrs"),
    ({"extras", "observer"}, "attrs"),
    ({"http"}, "attrs msgspec multidict"),
    ({"model"}, "attrs msgspec"),
    ({"envelopes"}, "attrs cattrs msgspec"),
    ({"series"}, "attrs msgspec numpy"),
    ({"protocols"}, "attrs anyio"),  # anyio: names the type of a deadline's scope, no more
    ({"accounting", "asking", "collection", "config", "planning", "provider_kit"}, "attrs"),
    ({"runtime"}, "aiohttp anyio attrs yarl"),
    ({"registry"}, "attrs"),
    ({"collector"}, "anyio attrs"),  # anyio: the one task group of a collection, and its events
    ({"blocking", "sinks"}, ""),
    ({"export"}, "attrs numpy"),
    ({"metricsbridge"}, ""),  # the public names
    ({"testing"}, "aiohttp anyio attrs msgspec numpy"),  # fake transport, clock, fleet; what emulators are built of
    ({"cli"}, "aiohttp anyio attrs numpy rich typer"),  # aiohttp: to serve the emulators
)

# What stands behind an extra: the modules that may import it, inside functions, and whose signatures may name it.
EXTRAS: Final = {
    "pyarrow": {"series.tables", "series._table_reading", "export._parquet"},
    "pandas": {"series.tables"},
    "polars": {"series.tables"},
    "opentelemetry": {"sinks._opentelemetry"},
}

# Only what a type checker reads: the errors carry values that are made of errors' neighbours.
FOR_TYPES_ONLY: Final = {"errors": {"model", "series"}}

# Inside functions only: these bring in the HTTP client, or are no part of the library proper.
LAZY_ONLY: Final = {
    "registry": {"runtime"}, "collector": {"runtime"}, "blocking": {"runtime"}, "cli": {"testing"},
}  # fmt: skip

# Modules with an underscore that another package may name.
OPENED: Final = {
    "metricsbridge": {"runtime._limits"},  # Quota
    "registry": {"runtime._limits", "runtime._stack"},
    "collector": {
        "runtime._clock",
        "runtime._context",
        "runtime._limits",
        "runtime._parts",
        "runtime._rates",
        "runtime._run",
        "runtime._threads",
    },
    "blocking": {"runtime._blocking", "runtime._limits"},
    "cli": {"runtime._clock", "series._kernel"},
}

# Doing things at the same time, or over the network, without the runtime.
IO_MODULES: Final = (
    "asyncio", "concurrent", "http.client", "http.server", "multiprocessing", "queue", "select", "selectors", "signal",
    "socket", "socketserver", "ssl", "subprocess", "threading", "urllib.request",
)  # fmt: skip
IO_ALLOWED: Final = {
    "runtime": {"asyncio", "ssl"},  # asyncio: is a loop running in this thread; see test_time_and_tasks.py
    "testing": {"socket"},  # faults that break a connection
    "cli": {"signal"},  # an emulator serves until it is told to stop
}

PROVIDER_LIBRARIES: Final = frozenset({"attrs", "msgspec", "numpy"})
# What stands behind an extra: the one module that may import it, inside a function.
PROVIDER_EXTRAS: Final = {"openstack": "metricsbridge_modelarts._clouds"}
# The contract's tests, which authors of providers inherit: nothing else may import them.
CHECKED_WITH_PYTEST: Final = ("metricsbridge.testing.contract", "metricsbridge.testing.strategies")
CONTRACT_CHECKS: Final = "metricsbridge.testing._contract_"


@attrs.frozen
class Import:
    """One import: of which module or member, by which module, and when it happens."""

    importer: str
    target: str
    when: Literal["at import", "for types", "lazily"]

    @property
    def root(self) -> str:
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.importer} imports {self.target} {self.when}"


def unit_of(module: str) -> str:
    """Give the row of the table that a module stands in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def modules_in(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(module: str, path: Path) -> Iterator[Import]:
    return _visit(ast.parse(path.read_text("utf-8")), module, "at import")


def _visit(node: ast.AST, module: str, when: Literal["at import", "for types", "lazily"]) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(module, alias.name, when) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{module} has a relative import"
        yield from (Import(module, f"{node.module}.{alias.name}", when) for alias in node.names)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        when = "lazily"
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for child in node.body:
            yield from _visit(child, module, "for types")
        for child in node.orelse:
            yield from _visit(child, module, when)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _visit(child, module, when)


def own_part(found: Import) -> str:
    """Give the module that an import of the library names, without "metricsbridge." before and the member behind."""
    path = found.target.removeprefix("metricsbridge.")
    while path and path not in LIBRARY_MODULES:
        path = path.rpartition(".")[0]
    return path or "metricsbridge"


LIBRARY: Final = dict(modules_in(PROJECT / "metricsbridge"))
LIBRARY_MODULES: Final = {name.removeprefix("metricsbridge.") for name in LIBRARY}
LIBRARY_IMPORTS: Final = [found for name, path in LIBRARY.items() for found in imports_of(name, path)]
PROVIDER_FOLDERS: Final = sorted(path.parent for path in (PROJECT / "providers").glob("*/__init__.py"))
PROVIDER_IMPORTS: Final = [
    found for folder in PROVIDER_FOLDERS for name, path in modules_in(folder) for found in imports_of(name, path)
]
HEIGHT: Final = {unit: height for height, (units, _) in enumerate(LAYERS) for unit in units}
LIBRARIES: Final = {unit: frozenset(libraries.split()) for units, libraries in LAYERS for unit in units}


def inner() -> Iterator[tuple[Import, str, str]]:
    """Give the imports of the library by itself, with both units, but for those inside one package."""
    for found in LIBRARY_IMPORTS:
        if found.root == "metricsbridge":
            importer, target = unit_of(found.importer), own_part(found).partition(".")[0]
            if importer != target:
                yield found, importer, target


def is_contract(module: str) -> bool:
    return module in CHECKED_WITH_PYTEST or module.startswith(CONTRACT_CHECKS)


def is_extra(found: Import) -> bool:
    allowed = found.importer.removeprefix("metricsbridge.") in EXTRAS.get(found.root, ())
    return allowed and found.when != "at import"


def is_emulator(module: str) -> bool:
    return any(part.startswith(("emulator", "_emulat")) for part in module.split("."))


def test_every_module_has_a_row_in_the_table():
    assert {unit_of(module) for module in LIBRARY} == set(HEIGHT)
    assert sum(len(units) for units, _ in LAYERS) == len(HEIGHT)


def test_a_module_imports_only_from_the_layers_before_it():
    wrong = [
        str(found)
        for found, importer, target in inner()
        if HEIGHT[target] >= HEIGHT[importer]
        and not (found.when == "for types" and target in FOR_TYPES_ONLY.get(importer, ()))
    ]
    assert wrong == []


def test_what_is_heavy_is_imported_lazily():
    wrong = [
        str(found)
        for found, importer, target in inner()
        if target in LAZY_ONLY.get(importer, ()) and found.when == "at import"
    ]
    assert wrong == []


def test_the_public_names_take_only_the_quota_from_the_runtime():
    taken = [found for found in LIBRARY_IMPORTS if found.importer == "metricsbridge" and "runtime" in found.target]
    assert [found.target for found in taken] == ["metricsbridge.runtime._limits.Quota"]


def test_a_module_uses_only_its_libraries():
    wrong = [
        str(found)
        for found in LIBRARY_IMPORTS
        if found.root not in sys.stdlib_module_names | {"metricsbridge"} | LIBRARIES[unit_of(found.importer)]
        and not (is_contract(found.importer) and found.root in {"pytest", "hypothesis"})
        and not is_extra(found)
    ]
    assert wrong == []


def test_each_extra_is_imported_where_the_table_says():
    found = {(each.root, each.importer.removeprefix("metricsbridge.")) for each in LIBRARY_IMPORTS if is_extra(each)}
    assert found == {(library, module) for library, modules in EXTRAS.items() for module in modules}


def test_the_table_allows_no_library_that_is_not_used():
    used = {(unit_of(found.importer), found.root) for found in LIBRARY_IMPORTS}
    idle = {(unit, library) for unit, libraries in LIBRARIES.items() for library in libraries} - used
    assert {entry for entry in idle if len(next(units for units, _ in LAYERS if entry[0] in units)) == 1} == set()


def _does_io(found: Import) -> bool:
    return any(f"{found.target}.".startswith(f"{name}.") for name in IO_MODULES)


def test_only_the_runtime_does_io():
    wrong = [
        str(found)
        for found in (*LIBRARY_IMPORTS, *PROVIDER_IMPORTS)
        if _does_io(found) and found.root not in IO_ALLOWED.get(unit_of(found.importer), ())
    ]
    assert wrong == []


def test_only_testing_s_users_import_it():
    users = {unit_of(found.importer) for found, _, target in inner() if target == "testing"}
    assert users <= {"cli"}


def test_only_the_contract_s_own_modules_import_what_needs_pytest():
    users = {found.importer for found in LIBRARY_IMPORTS if is_contract(f"metricsbridge.{own_part(found)}")}
    assert [user for user in users if not is_contract(user)] == []


def test_what_is_private_stays_in_its_package():
    wrong = []
    for found in LIBRARY_IMPORTS:
        module, importer = own_part(found), unit_of(found.importer)
        if found.root != "metricsbridge" or module.partition(".")[0] == importer:
            continue
        member = found.target.removeprefix("metricsbridge.").removeprefix(module).removeprefix(".")
        private = any(part.startswith("_") for part in module.split("."))
        if member.startswith("_") or (private and module not in OPENED.get(importer, ())):
            wrong.append(str(found))
    assert wrong == []


def test_a_provider_imports_only_the_kit_and_itself():
    wrong = [
        str(found)
        for found in PROVIDER_IMPORTS
        if found.root == "metricsbridge"
        and not f"{found.target}.".startswith("metricsbridge.provider_kit.")
        and not (is_emulator(found.importer) and f"{found.target}.".startswith("metricsbridge.testing."))
    ]
    assert wrong == []
    assert PROVIDER_IMPORTS


def test_a_provider_uses_only_pure_libraries_and_its_emulator_the_http_server_too():
    wrong = []
    for found in PROVIDER_IMPORTS:
        own = found.importer.partition(".")[0]
        allowed = PROVIDER_LIBRARIES | ({"aiohttp"} if is_emulator(found.importer) else set())
        extra = found.when == "lazily" and PROVIDER_EXTRAS.get(found.root) == found.importer
        if not extra and found.root not in sys.stdlib_module_names | {"metricsbridge", own} | allowed:
            wrong.append(str(found))
    assert wrong == []


def test_a_provider_does_not_import_its_emulator():
    wrong = [
        str(found)
        for found in PROVIDER_IMPORTS
        if not is_emulator(found.importer) and any(is_emulator(part) for part in found.target.split(".")[1:])
    ]
    assert wrong == []


def test_the_kit_has_no_code_of_its_own():
    tree = ast.parse((PROJECT / "metricsbridge/provider_kit.py").read_text("utf-8"))
    docstring, *imports, names = tree.body
    assert isinstance(docstring, ast.Expr)
    assert all(isinstance(node, ast.ImportFrom) for node in imports)
    assert isinstance(names, ast.Assign)
    assert ast.unparse(names.targets[0]) == "__all__"
