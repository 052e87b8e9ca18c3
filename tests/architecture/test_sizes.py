"""A file is one idea; past 400 lines it is two."""

import pytest

from project_files import FOLDERS, files_in, name_of

MOST_LINES = 400
SOURCES = (".py", ".pyx", ".pxi")


@pytest.mark.parametrize(
    "path", [path for folder in FOLDERS for path in files_in(folder) if path.suffix in SOURCES], ids=name_of
)
def test_a_file_has_at_most_400_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES
