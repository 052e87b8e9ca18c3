"""Series as a Parquet file: the table that ``SeriesBatch.to_arrow`` gives."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from metricsbridge.collection import Collection
from metricsbridge.extras import naming_extra
from metricsbridge.series.tables import COLUMNS

if TYPE_CHECKING:
    from metricsbridge.series.columns import SeriesBatch


def check_parquet() -> None:
    """Find out whether Parquet files can be written here, before there is anything to write.

    Raises:
        ConfigurationError: The extra ``arrow`` is not installed.
    """
    with naming_extra():
        import pyarrow.parquet  # noqa: F401  # whether it can be imported is the question


def dump_parquet(collected: Collection | SeriesBatch, file: IO[bytes], /) -> None:
    """Write the table; its schema is kept in the file, so that it reads back as it was.

    The least and greatest value are left out of the file's statistics: they pass over NaN, and readers such as DuckDB
    take it from them that there is none.
    """
    check_parquet()
    from pyarrow import parquet

    batch = collected.series if isinstance(collected, Collection) else collected
    parquet.write_table(batch.to_arrow(), file, write_statistics=[name for name in COLUMNS if name != "value"])
