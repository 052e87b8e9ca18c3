"""Settings: checked against the provider's attrs class before any I/O, and sources from TOML and the environment."""

# Annotations are read at run time here, to check settings against.

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import attrs

from metricsbridge.envelopes import field_errors, make_converter
from metricsbridge.errors import ConfigurationError
from metricsbridge.model import check_source
from metricsbridge.protocols import Rate

CONFIG_VARIABLE: Final = "METRICSBRIDGE_CONFIG"
"""Names the configuration file, where none is passed."""

CONFIG_PATHS: Final = (Path("metricsbridge.toml"), Path("~/.config/metricsbridge/config.toml"))
"""Where the configuration file is looked for after that; the first that exists."""

_ARGUMENTS: Final = frozenset({"transport", "clock", "authenticator", "observer", "quota"})
"""What ``open_provider`` takes besides settings."""

_SETTING_VARIABLE: Final = re.compile(r"METRICSBRIDGE__(?P<source>[A-Z0-9_]+?)__(?P<setting>[A-Z0-9_]+)")


def _positive(_: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if not value > 0:
        raise ConfigurationError(f"{attribute.name}: expected more than 0")


@attrs.frozen(kw_only=True)
class ConnectionSettings:
    """The settings that every source has, whatever its provider.

    Attributes:
        ca_file: A file of certificate authorities to trust besides the system's.
        client_cert: A client certificate, in PEM.
        client_key: Its key, where it is not in the same file.
        proxy: URL of an HTTP proxy.
        timeout: Seconds that one request may take, answer included.
        max_body: Bytes that one answer may have, after decompression.
        concurrency: Requests in flight at once.
        bytes_in_flight: Bytes of large answers in flight at once, from their reading until they are decoded; one
            answer may always be read.
        limits: Operation to rate, such as ``{"ShowTrainingJobMetrics" = "50/s"}``, that is never exceeded; "*" is every
            other operation, and "unlimited" lifts a limit. What refusals teach may be lower.
    """

    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    proxy: str | None = attrs.field(default=None, repr=False)
    timeout: float = attrs.field(default=60.0, validator=_positive)
    max_body: int = attrs.field(default=64 * 1024 * 1024, validator=_positive)
    concurrency: int = attrs.field(default=64, validator=_positive)
    bytes_in_flight: int = attrs.field(default=256 * 1024 * 1024, validator=_positive)
    limits: Mapping[str, Rate] = attrs.field(factory=dict)


def _structure_limits(value: Any, _: Any) -> dict[str, Rate]:
    if not isinstance(value, Mapping):
        raise ConfigurationError("expected a table of operation = rate")
    return {operation: rate if isinstance(rate, Rate) else _rate(operation, rate) for operation, rate in value.items()}


def _rate(operation: str, value: Any) -> Rate:
    try:
        return Rate.parse(str(value))
    except ValueError:
        message = f"{operation}: expected a rate such as '50/s', '10/m' or 'unlimited'"
    raise ConfigurationError(message)  # outside the block: the error there quotes the value


_CONVERTER = make_converter(forbid_extra_keys=True)
_CONVERTER.register_structure_hook_func(lambda kind: kind == Mapping[str, Rate], _structure_limits)


def check_settings(cls: type, provider: str, settings: Mapping[str, Any], /) -> tuple[Any, ConnectionSettings]:
    """Split settings into the provider's own and the common ones, and check both.

    Args:
        cls: The provider's attrs class.
        provider: Its name, for the message.
        settings: As the user gave them; None stands for "not given".

    Raises:
        ConfigurationError: Says for each bad setting what is wrong with it and what to write; never shows a value.
    """
    structured, problems = _check(cls, dict(settings))
    if problems:
        del settings  # a traceback that shows variables would show its secrets
        text = "; ".join(problems)
        raise ConfigurationError(f"settings of provider {provider!r}: {text}")
    return structured[0], structured[1]


def _check(cls: type, settings: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    common = {field.name for field in attrs.fields(ConnectionSettings)}
    own = {field.name for field in attrs.fields(cls)}
    given = {name: value for name, value in settings.items() if value is not None}
    problems = [_unknown(name, own | common) for name in given if name not in own | common]
    structured: list[Any] = []
    for kind, names in ((cls, own), (ConnectionSettings, common)):
        try:
            structured.append(_CONVERTER.structure({n: v for n, v in given.items() if n in names}, kind))
        except Exception as error:
            problems += [
                problem if path == "$" else f"{path.removeprefix('$.')}: {problem}"
                for path, problem in field_errors(error)
            ]
    return structured, problems


def _unknown(name: str, known: set[str]) -> str:
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"
    return f"{name}: unknown; {hint}"


@attrs.frozen(kw_only=True)
class SourceConfig:
    """One configured source: which provider, with which settings (not checked yet)."""

    provider: str
    settings: Mapping[str, Any] = attrs.field(repr=False)


def load_config(
    path: str | os.PathLike[str] | None = None, /, *, environ: Mapping[str, str] | None = None
) -> dict[str, SourceConfig]:
    """Read the sources from a TOML file and the environment.

    In the file each source is a table ``[sources.NAME]`` with ``provider`` and its settings. A variable
    ``METRICSBRIDGE__NAME__SETTING`` sets or replaces one setting of the source ``name`` (in the variable, upper case
    and ``_`` for ``-`` and ``.``); sources may be given by variables alone.

    Args:
        path: The file; by default the one that ``METRICSBRIDGE_CONFIG`` names, else ``./metricsbridge.toml``, else
            ``~/.config/metricsbridge/config.toml``, where they exist.
        environ: The environment; by default the process's.

    Raises:
        ConfigurationError: The file is missing or malformed; says where.
    """
    environ = os.environ if environ is None else environ
    found = _find(path, environ)
    tables = _read(found) if found is not None else {}
    for variable, value in environ.items():
        match = _SETTING_VARIABLE.fullmatch(variable)
        if match is not None:
            name = next((n for n in tables if _as_variable(n) == match["source"]), match["source"].lower())
            tables.setdefault(name, {})[match["setting"].lower()] = value
    return {name: _source(name, table, found) for name, table in tables.items()}


def _as_variable(name: str) -> str:
    return re.sub(r"[-.]", "_", name).upper()


def _find(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    named = path or environ.get(CONFIG_VARIABLE)
    if named:
        return _expanded(Path(named))
    return next((place for place in map(_expanded, CONFIG_PATHS) if _is_file(place)), None)


def _expanded(path: Path) -> Path:
    """Give the path below the home directory; as it is where there is none, as in some containers."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that may not be looked into
        return False


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the configuration {str(path)!r} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {str(path)!r} is not TOML: {error}") from None
    unknown = sorted(document.keys() - {"sources"})
    if unknown:
        raise ConfigurationError(f"the configuration {str(path)!r} has unknown tables {unknown}: write [sources.NAME]")
    sources = document.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(table, dict) for table in sources.values()):
        raise ConfigurationError(f"the configuration {str(path)!r}: write each source as a table [sources.NAME]")
    return sources


def _source(name: str, table: Mapping[str, Any], path: Path | None) -> SourceConfig:
    check_source(name)
    provider = table.get("provider")
    if not isinstance(provider, str):
        where = f"in {str(path)!r}" if path is not None else f"in METRICSBRIDGE__{_as_variable(name)}__PROVIDER"
        raise ConfigurationError(f'source {name!r} names no provider: set provider = "…" {where}')
    settings = {key: value for key, value in table.items() if key != "provider"}
    taken = sorted(settings.keys() & _ARGUMENTS)
    if taken:
        raise ConfigurationError(
            f"source {name!r}: {', '.join(taken)} can't be set in a configuration, only in a program"
        )
    return SourceConfig(provider=provider, settings=settings)
