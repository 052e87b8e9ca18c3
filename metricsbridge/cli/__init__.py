"""The command line; its libraries come with the extra ``cli``."""

import io
import sys


def main() -> None:
    """Run the command line: what the console script ``metricsbridge`` calls."""
    try:
        from metricsbridge.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        line = "the command line needs the extra 'cli': python -m pip install 'metricsbridge[cli]'"
        print(line, file=sys.stderr)
        raise SystemExit(2) from None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a sign shows "?" for it
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="metricsbridge")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
