"""``metricsbridge new-provider`` writes a package that can be installed, and never over anything."""

from __future__ import annotations

import pytest

from fresh_interpreter import PROJECT
from metricsbridge.registry import providers

SAMPLE = PROJECT / "tests" / "packaging" / "sample_plugin"


def test_it_writes_what_the_sample_plugin_is(run, tmp_path):
    done = run("new-provider", "acme", "--in", str(tmp_path))
    assert done.code == 0
    folder = tmp_path / "metricsbridge-acme"
    names = {path.relative_to(SAMPLE) for path in SAMPLE.rglob("*") if path.suffix in (".py", ".toml")}
    assert {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()} == names
    for name in names:
        assert (folder / name).read_text("utf-8") == (SAMPLE / name).read_text("utf-8")
        assert str(folder / name) in done.out.splitlines()
    assert "python -m pytest" in done.out


def test_it_writes_into_the_folder_where_one_is(run, tmp_path):
    assert run("new-provider", "my-cloud").code == 0
    folder = tmp_path / "metricsbridge-my-cloud"
    code = (folder / "metricsbridge_my_cloud.py").read_text("utf-8")
    assert "class MyCloud:" in code
    texts = [path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()]
    assert not [text for text in texts if "@" in text.replace("@attrs", "") or "acme" in text.lower()]


@pytest.mark.parametrize("name", ["", "Acme", "a_b", "1cloud", "../x", "a--b", "-a", "a/b", "modelarts"])
def test_it_refuses_what_is_no_name_and_what_is_taken(run, tmp_path, name):
    done = run("new-provider", "--in", str(tmp_path), "--", name)
    assert done.code == 2
    assert "provider" in done.err
    assert list(tmp_path.iterdir()) == []
    assert "modelarts" in providers()


def test_it_writes_over_nothing(run, tmp_path):
    (tmp_path / "metricsbridge-acme").mkdir()
    done = run("new-provider", "acme")
    assert done.code == 2
    assert "already" in done.err
    assert list((tmp_path / "metricsbridge-acme").iterdir()) == []
