"""Which extra brings which library, and what to say where it is not installed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from metricsbridge.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIBRARIES: Final[Mapping[str, str]] = {
    "pyarrow": "arrow",
    "pandas": "pandas",
    "polars": "polars",
    "opentelemetry": "opentelemetry",
}
"""Library to the extra that brings it."""


@contextmanager
def naming_extra() -> Iterator[None]:
    """Say which extra brings the library that an import inside the block misses.

    Raises:
        ConfigurationError: One of ``LIBRARIES`` is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in LIBRARIES:
            raise
        extra = LIBRARIES[library]
        raise ConfigurationError(
            f"this needs {library}, which comes with the extra {extra!r}: "
            f"python -m pip install 'metricsbridge[{extra}]'"
        ) from None
