"""What was collected, as files: CSV rows, JSON documents and Parquet tables.

``csv_rows`` and ``json_document`` are pure; ``write`` is the only place that touches a file.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.export._csv import COLUMNS, csv_rows, dump_csv
from metricsbridge.export._json import dump_json, encode_json, job_document, json_document, plan_document
from metricsbridge.export._parquet import check_parquet, dump_parquet

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
    "plan_document",
    "write",
]


@attrs.frozen(kw_only=True)
class _Format:
    """How a file is written.

    Attributes:
        dump: Writes what was collected to an open file.
        opened: Arguments that open it.
        check: Raises ConfigurationError where a library that it needs is not installed.
    """

    dump: Callable[[Collection | SeriesBatch, Any], None]
    opened: Mapping[str, Any]
    check: Callable[[], None] = lambda: None


_TEXT: Final[Mapping[str, Any]] = {"mode": "x", "encoding": "utf-8", "newline": ""}
_FORMATS: Final[Mapping[str, _Format]] = {
    ".csv": _Format(dump=dump_csv, opened=_TEXT),
    ".json": _Format(dump=dump_json, opened=_TEXT),
    ".parquet": _Format(dump=dump_parquet, opened={"mode": "xb"}, check=check_parquet),
}


def check_path(path: str | os.PathLike[str], /) -> Path:
    """Give the path of a file that ``write`` can write.

    Raises:
        ValueError: Its suffix names no known format, or its folder does not exist.
        ConfigurationError: The format needs an extra that is not installed.
    """
    checked = Path(path)
    if checked.suffix.lower() not in _FORMATS:
        raise ValueError(f"{checked.name!r} names no known format: write a file that ends in {' or '.join(_FORMATS)}")
    _FORMATS[checked.suffix.lower()].check()
    if not checked.parent.is_dir():
        raise ValueError(f"there is no folder {str(checked.parent)!r} to write {checked.name!r} to")
    return checked


def write(collected: Collection | SeriesBatch, path: str | os.PathLike[str], /) -> None:
    """Write a file in the format that its suffix names; it is replaced whole or not at all.

    CSV and Parquet hold the series alone; JSON holds what failed and what is absent too. A Parquet file is the table
    that ``SeriesBatch.to_arrow`` gives, and needs the extra ``arrow``.

    Args:
        collected: A collection, or series alone.
        path: Ends in ``.csv``, ``.json`` or ``.parquet``.

    Raises:
        ValueError: Another suffix, or a folder that does not exist.
        ConfigurationError: The format needs an extra that is not installed.
        OSError: The file can't be written.
    """
    target = Path(os.path.realpath(check_path(path)))
    chosen = _FORMATS[Path(path).suffix.lower()]
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with unfinished.open(**chosen.opened) as file:
            chosen.dump(collected, file)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
