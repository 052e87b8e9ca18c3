"""What was collected, as files: CSV rows and JSON documents.

``csv_rows`` and ``json_document`` are pure; ``write`` is the only place that touches a file.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from metricsbridge.export._csv import COLUMNS, csv_rows, dump_csv
from metricsbridge.export._json import dump_json, encode_json, job_document, json_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metricsbridge.collection import Collection
    from metricsbridge.series.columns import SeriesBatch

__all__ = [
    "COLUMNS",
    "check_path",
    "csv_rows",
    "encode_json",
    "job_document",
    "json_document",
    "write",
]

_DUMPS: Final[Mapping[str, Callable[[Collection | SeriesBatch, IO[str]], None]]] = {
    ".csv": dump_csv,
    ".json": dump_json,
}


def check_path(path: str | os.PathLike[str], /) -> Path:
    """Give the path of a file that ``write`` can write.

    Raises:
        ValueError: Its suffix names no known format, or its folder does not exist.
    """
    checked = Path(path)
    if checked.suffix.lower() not in _DUMPS:
        raise ValueError(f"{checked.name!r} names no known format: write a file that ends in {' or '.join(_DUMPS)}")
    if not checked.parent.is_dir():
        raise ValueError(f"there is no folder {str(checked.parent)!r} to write {checked.name!r} to")
    return checked


def write(collected: Collection | SeriesBatch, path: str | os.PathLike[str], /) -> None:
    """Write a file in the format that its suffix names; it is replaced whole or not at all.

    CSV holds the samples alone; JSON holds what failed and what is absent too.

    Args:
        collected: A collection, or series alone.
        path: Ends in ``.csv`` or ``.json``.

    Raises:
        ValueError: Another suffix, or a folder that does not exist.
        OSError: The file can't be written.
    """
    target = Path(os.path.realpath(check_path(path)))
    dump = _DUMPS[Path(path).suffix.lower()]
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            dump(collected, file)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
