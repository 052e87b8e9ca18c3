"""What no file may hold: the paths of one machine, and the addresses that one machine installs from."""

from __future__ import annotations

import re
from typing import Final

import pytest

from project_files import name_of, project_files, tracked

# Put together here, so that this file does not hold them. The homes in vendors' own samples are theirs, not ours.
_TOP: Final = "|".join(("root", "work", "tmp", "mnt", "var/" + "tmp", "Users/", "home/(?!ma-user)"))
_MACHINE_PATHS: Final = re.compile(rf"(?<![\w.}}\])-])/(?:{_TOP})(?:/|(?<=/))[\w.]|[A-Z]:\\+Users")
_REGISTRIES: Final = re.compile(
    "|".join(
        re.escape(name)
        for name in (
            "py" + "pi.org",
            "python" + "hosted.org",
            "registry." + "npmjs",
            "conda." + "anaconda.org",
            "--index" + "-url",
            "--extra-index" + "-url",
            "PIP" + "_INDEX_URL",
            "UV" + "_INDEX",
        )
    )
    + r"|mirrors?\.[\w-]+\.(?:com|cn|edu|org)"
)


@pytest.mark.parametrize("path", project_files(), ids=name_of)
def test_a_file_holds_no_path_of_a_machine_and_no_address_of_a_registry(path):
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        pytest.skip("no text")
    if path.parent.name != "samples":  # a vendor's page tells of the vendor's machines
        found = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _MACHINE_PATHS.search(line)]
        assert found == []
    assert [(number, line) for number, line in enumerate(text.splitlines(), 1) if _REGISTRIES.search(line)] == []


@pytest.mark.parametrize("path", ["work/main/x", "tmp/v/bin", "root/.cache", "home/me/x", "Users/me"])
def test_a_path_of_a_machine_is_found(path):
    assert _MACHINE_PATHS.search(f'open("/{path}")')
    assert not _MACHINE_PATHS.search(f"https://host/v2/{path}")


def test_the_lock_file_is_not_tracked():
    names = tracked()
    if names is None:
        pytest.skip("the sources are not a checkout")
    assert "uv.lock" not in {name.rpartition("/")[2] for name in names}
    assert [name for name in names if name.endswith((".pyc", ".so", ".whl", ".egg-info"))] == []
