"""What people copy from the documents works: code compiles, marked code runs, configuration loads."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs
import pytest

from fresh_interpreter import PROJECT, run_fresh
from metricsbridge import config
from metricsbridge.cli._providers import describe, markdown_table
from metricsbridge.registry import load_provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCUMENTS: Final = ("README.md", "ARCHITECTURE.md", "benchmarks/README.md", "providers/README.md")
_BLOCK: Final = re.compile(r"(?P<mark><!-- run -->\s*\n)?^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```", re.M | re.S)


@attrs.frozen
class Block:
    """A block of code in a document; its lines keep their numbers."""

    document: str
    line: int
    language: str
    code: str
    runs: bool

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(document: str, text: str) -> list[Block]:
    return [
        Block(document, text.count("\n", 0, m.start("code")) + 1, m["language"], m["code"], m["mark"] is not None)
        for m in _BLOCK.finditer(text)
    ]


BLOCKS: Final = [
    block
    for document in DOCUMENTS
    if (PROJECT / document).is_file()
    for block in blocks_of(document, (PROJECT / document).read_text("utf-8"))
]


def _as_toml(name: str, table: Mapping[str, object]) -> str:
    return "\n".join([f"[{name}]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in table.items()), ""])


@contextmanager
def _emulator(provider: str) -> Iterator[str]:
    """Serve an emulated service; gives the configuration that reads it as the source "hw"."""
    command = [sys.executable, "-m", "metricsbridge.cli", "emulate", provider, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            settings = {"provider": provider, **json.loads(service.stdout.readline())["settings"]}
            tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
            plain = {name: value for name, value in settings.items() if name not in tables}
            yield _as_toml("sources.hw", plain) + "".join(_as_toml(f"sources.hw.{n}", t) for n, t in tables.items())
        finally:
            service.terminate()
            service.wait(timeout=30)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=str)
def test_python_in_a_document_compiles(block):
    compile("\n" * (block.line - 1) + block.code, block.document, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.runs], ids=str)
def test_marked_python_runs_against_the_emulated_service(block, tmp_path):
    assert block.language == "python"
    padded = "\n" * (block.line - 1) + block.code
    runner = f"import warnings; warnings.simplefilter('error'); exec(compile({padded!r}, {block.document!r}, 'exec'))"
    with _emulator("modelarts") as configuration:
        (tmp_path / "metricsbridge.toml").write_text(configuration, "utf-8")
        printed = run_fresh(runner, cwd=tmp_path, environ={"HOME": str(tmp_path)})
    assert printed.strip(), "it shows something"
    assert "failed" not in printed


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_configuration_in_a_document_loads_and_is_accepted(block, tmp_path):
    document = tomllib.loads(block.code)
    if "sources" not in document:
        pytest.skip("not the library's own configuration")
    path = tmp_path / "metricsbridge.toml"
    path.write_text(block.code, "utf-8")
    for source in config.load_config(path, environ={}).values():
        config.check_settings(load_provider(source.provider).settings, source.provider, source.settings)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_to_files_lead_somewhere(document):
    path = PROJECT / document
    if not path.is_file():
        pytest.skip("not there")
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.S)
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]
    assert [target for target in targets if target and not (path.parent / target).exists()] == []


def test_the_table_of_providers_is_what_their_code_says():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    ours = [each for each in describe() if each.info.package == project["name"]]
    assert {each.info.name for each in ours} == set(project["entry-points"]["metricsbridge.providers"])
    assert [each.error for each in ours if each.error] == []
    section = (PROJECT / "README.md").read_text("utf-8").partition("\n## Providers\n")[2].partition("\n## ")[0]
    assert "\n".join(re.findall(r"^\|.*$", section, re.M)) == markdown_table(ours), (
        "paste what `metricsbridge providers --markdown` prints"
    )


def test_the_readme_has_marked_python():
    assert [block for block in BLOCKS if block.document == "README.md" and block.runs]


def test_a_block_keeps_its_line_and_its_mark():
    text = "# Title\n\n<!-- run -->\n\n```python\nprint(1)\n```\n\n```toml\na = 1\n```\n"
    assert blocks_of("x", text) == [
        Block("x", 6, "python", "print(1)\n", True),
        Block("x", 10, "toml", "a = 1\n", False),
    ]
