"""The commands: they read arguments, call the library, print, and choose the exit code."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import anyio
import attrs
import typer

from metricsbridge.cli import _emulate, _new_provider, _providers
from metricsbridge.cli._account import explain
from metricsbridge.cli._arguments import (
    Options,
    UsageError,
    Wanted,
    parse_metrics,
    parse_optional_duration,
    parse_optional_seconds,
    parse_wanted,
    parse_window,
    sources_of,
    usage_errors,
)
from metricsbridge.cli._collect import CollectionProgress, foresee, gather
from metricsbridge.cli._plan import print_plan
from metricsbridge.cli._render import (
    make_console,
    print_collection,
    print_error,
    print_job_totals,
    print_jobs,
    print_text,
    print_totals,
)
from metricsbridge.cli._table import sort_totals
from metricsbridge.cli._text import count
from metricsbridge.collector import Collector
from metricsbridge.errors import ConfigurationError, MetricsBridgeError, ProviderNotFoundError
from metricsbridge.export import check_path, encode_json, job_document, json_document, plan_document, write
from metricsbridge.model import JobSearch, JobStatus
from metricsbridge.runtime._clock import SystemClock
from metricsbridge.series import _kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metricsbridge.collection import Collection
    from metricsbridge.model import Job, JobTotals
    from metricsbridge.planning import Plan

COMPLETE: Final = 0
NOTHING: Final = 1
USAGE: Final = 2
PARTIAL: Final = 3

app = typer.Typer(
    help="Read the running metrics of training jobs, whoever runs them.",
    epilog="Exit codes: 0 complete, 3 some of it failed, 1 nothing was delivered or an error, 2 a wrong argument or "
    "configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Per(enum.StrEnum):
    """What one series stands for."""

    TASK = "task"
    DEVICE = "device"
    JOB = "job"


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="The TOML file that names the sources; by default $METRICSBRIDGE_CONFIG, ./metricsbridge.toml or "
        "~/.config/metricsbridge/config.toml.",
    ),
]
Rows = Annotated[int, typer.Option("--rows", min=0, help="Show so many series at most; 0 is all.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"metricsbridge {version('metricsbridge')}\nkernel: {_kernel.ENGINE}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show version and kernel, and exit.",
        ),
    ] = False,
) -> None:
    """Read the running metrics of training jobs, whoever runs them."""


@contextmanager
def _errors_as_lines() -> Iterator[None]:
    """Turn the library's errors into one line and an exit code."""
    try:
        yield
    except (ConfigurationError, ProviderNotFoundError) as error:
        print_error(str(error))
        raise typer.Exit(USAGE) from None
    except MetricsBridgeError as error:
        print_error(str(error))
        raise typer.Exit(NOTHING) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print_error(f"{error.strerror or error}: {error.filename}" if error.filename else str(error.strerror or error))
        raise typer.Exit(NOTHING) from None


def _finish(collection: Collection) -> NoReturn:
    """Say in one line what failed, and exit with the code that fits."""
    if collection.complete:
        raise typer.Exit(COMPLETE)
    first = f"the first: {explain(collection.failures[0])}"
    failed = count(len(collection.failures), "call")
    if len(collection.series):
        print_error(f"{failed} failed, the rest is delivered; {first}", word="warning")
        raise typer.Exit(PARTIAL)
    print_error(f"nothing was delivered, {failed} failed; {first}")
    raise typer.Exit(NOTHING)


@app.command()
def demo(
    rows: Rows = 40,
    as_json: AsJson = False,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal jobs, numbers and faults.")] = 0,
) -> None:
    """Show what it does: no account, no network.

    Starts every installed emulator of a training service on this machine, lets it misbehave as networks and gateways
    do, and reads all of its jobs through the same code that reads a real one.
    """
    from metricsbridge.cli import _demo  # brings a web server

    console = make_console()
    if not as_json:
        print_text(
            console,
            "Emulated training services on this machine, some of their answers broken on purpose, read as real ones "
            "would be: signed requests over HTTP, retries, all jobs at once. No account, no network.",
        )
        console.print()
    with _errors_as_lines(), CollectionProgress(make_console(stderr=True), shown=not as_json) as progress:
        result = anyio.run(_demo.run_demo, seed, progress)
    for name, why in result.broken.items():
        print_error(f"emulator {name!r} is left out: {why}", word="warning")
    if as_json:
        print(encode_json(result.document()))
    else:
        print_collection(console, result.collection, rows=rows)
        console.print()
        print_text(console, result.summary(), style="bold")
    _finish(result.collection)


@app.command()
def providers(
    as_json: AsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table of what each can do, in Markdown.")
    ] = False,
) -> None:
    """List the installed providers and what they can do.

    A provider that can't be used is listed with why, and changes nothing for the others.
    """
    found = _providers.describe()
    if markdown:
        print(_providers.markdown_table(found))
    elif as_json:
        print(encode_json({"providers": [each.document() for each in found], "kernel": _kernel.ENGINE}))
    else:
        _providers.print_providers(make_console(), found)


@app.command()
def new_provider(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it will be opened by, such as my-cloud.")],
    folder: Annotated[Path, typer.Option("--in", help="Where to put the package's folder.")] = Path(),
) -> None:
    """Write a package with a small provider, which passes the contract as it is.

    Make it your service's step by step, and its simulator likewise.
    """
    with _errors_as_lines():
        written = _new_provider.write_package(name, folder)
    console = make_console()
    for path in written.files:
        console.print(str(path), highlight=False, soft_wrap=True)
    print_text(console, f"Prove it, in {written.folder}: python -m pip install -e '.[test]' && python -m pytest")


@app.command()
def jobs(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A configured source, or an installed provider.")],
    config: Config = None,
    status: Annotated[
        list[JobStatus] | None, typer.Option("--status", help="Only jobs in this state; may be given again.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only jobs whose name contains this.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many, the newest first.")] = None,
    as_totals: Annotated[
        bool, typer.Option("--totals", help="Count jobs, GPUs and NPUs by status instead of listing the jobs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the jobs of a source, the newest first; or count them."""
    search = JobSearch(status=status, name=name, limit=limit)
    with _errors_as_lines():
        if as_totals:
            if limit is not None:
                raise UsageError("--totals counts all jobs: leave --limit out")
            counted = sort_totals(anyio.run(_count_jobs, config, source, search))
            if as_json:
                print(encode_json({"source": source, "totals": [attrs.asdict(each) for each in counted]}))
            else:
                print_job_totals(make_console(), counted)
            return
        found = anyio.run(_list_jobs, config, source, search)
    if as_json:
        print(encode_json({"source": source, "jobs": [job_document(job) for job in found]}))
    elif found:
        print_jobs(make_console(), found, SystemClock().now_ms())
    else:
        print_error(f"source {source!r} has no such jobs", word="note")


async def _list_jobs(config: Path | None, source: str, search: JobSearch) -> list[Job]:
    async with Collector.from_config(config, sources=[source]) as collector:
        return [job async for job in collector.list_jobs(source, search)]


async def _count_jobs(config: Path | None, source: str, search: JobSearch) -> tuple[JobTotals, ...]:
    async with Collector.from_config(config, sources=[source]) as collector:
        return await collector.job_totals(source, search)


@app.command()
def collect(
    refs: Annotated[
        list[str], typer.Argument(metavar="REF", help="source/job-id, or source alone for all of its jobs.")
    ],
    config: Config = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Only this one, such as hw.gpu.utilization or gpu; may be given again."),
    ] = None,
    last: Annotated[str | None, typer.Option("--last", help="The window up to now, such as 1h or 30m.")] = None,
    start: Annotated[
        str | None, typer.Option("--start", help="Start of the window, such as 2025-01-15T08:00Z.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", help="Its end; by default now.")] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="The coarsest resolution to accept, such as 1m; by default the finest.")
    ] = None,
    per: Annotated[Per, typer.Option("--per", help="What one series stands for.")] = Per.TASK,
    task: Annotated[list[str] | None, typer.Option("--task", help="Only this task; may be given again.")] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Return after so long, such as 30s, with what has arrived.")
    ] = None,
    call_timeout: Annotated[
        str | None, typer.Option("--call-timeout", help="Give up on one call, its retries included, after so long.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write all samples to a file: .csv, .json or .parquet.")
    ] = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Only say how many calls go to whom, and how long the limits make them take.")
    ] = False,
    as_json: AsJson = False,
    rows: Rows = 40,
) -> None:
    """Collect the metrics of jobs; show or save them.

    Without a window it is each job's whole life.
    """
    with _errors_as_lines():
        with usage_errors():
            wanted = [parse_wanted(ref) for ref in refs]
            if output is not None:
                if only_plan:
                    raise UsageError("--plan collects nothing: leave -o out")
                check_path(output)
            options = Options(
                metrics=parse_metrics(metric), window=parse_window(last, start, end),
                step=parse_optional_duration(step), per=per.value, tasks=task or None,
                timeout_s=parse_optional_seconds(timeout), call_timeout_s=parse_optional_seconds(call_timeout),
            )  # fmt: skip
        if only_plan:
            _show_plan(anyio.run(_plan, config, wanted, options), as_json=as_json)
        with CollectionProgress(make_console(stderr=True), shown=not as_json) as progress:
            collection = anyio.run(partial(_collect, config, wanted, options, progress))
        if as_json:
            print(encode_json(json_document(collection)))
        else:
            console = make_console()
            print_collection(console, collection, rows=rows)
            print_totals(console, collection)
        if output is not None:
            write(collection, output)
            samples = count(len(collection.series.times), "sample")
            print_error(f"{samples} of {len(collection.series):,} series in {output}", word="written")
    _finish(collection)


async def _collect(
    config: Path | None, wanted: list[Wanted], options: Options, progress: CollectionProgress
) -> Collection:
    async with Collector.from_config(config, sources=sources_of(wanted)) as collector:
        return await gather(collector, wanted, options, progress)


async def _plan(config: Path | None, wanted: list[Wanted], options: Options) -> Plan:
    async with Collector.from_config(config, sources=sources_of(wanted)) as collector:
        return await foresee(collector, wanted, options)


def _show_plan(plan: Plan, *, as_json: bool) -> NoReturn:
    if as_json:
        print(encode_json(plan_document(plan)))
    else:
        print_plan(make_console(), plan)
    if not plan.failures:
        raise typer.Exit(COMPLETE)
    failed = count(len(plan.failures), "job or source", "jobs or sources")
    print_error(f"{failed} can't be planned; the first: {explain(plan.failures[0])}", word="warning")
    raise typer.Exit(PARTIAL if plan.jobs else NOTHING)


@app.command()
def emulate(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="An installed provider that has an emulator.")],
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    seed: Annotated[int | None, typer.Option("--seed", help="Equal seeds give equal jobs and numbers.")] = None,
    job_count: Annotated[int | None, typer.Option("--jobs", min=1, help="How many jobs to simulate.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="KIND=SHARE", help="Break a share of the answers, such as throttle=0.1."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve an emulator on this machine.

    It stands in for the service of a provider, until it is told to stop.
    """
    with _errors_as_lines():
        rates = _emulate.parse_faults(fault or ())
        made = _emulate.make_app(provider, seed=seed, jobs=job_count, faults=rates, fault_seed=seed or 0)
        serving: Any = partial(_emulate.serve_until_stopped, provider, made, host=host, port=port, as_json=as_json)
        anyio.run(serving)
