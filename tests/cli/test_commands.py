import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

import metricsbridge as mb
from metricsbridge.series import _kernel

COMMAND = [sys.executable, "-m", "metricsbridge.cli"]


@pytest.fixture
def config(emulated, tmp_path) -> str:
    return emulated.config(tmp_path)


@pytest.fixture
def refs(run, config) -> dict[str, str]:
    """Name to reference."""
    return {job["name"]: job["ref"] for job in run("jobs", "emu", "--config", config, "--json").json()["jobs"]}


@pytest.fixture
def short(refs) -> str:
    """The reference of a job of one task that ran for some minutes."""
    [ref] = [ref for name, ref in refs.items() if name.endswith("-cpu-8")]
    return ref


def test_without_its_libraries_the_command_line_says_what_to_install() -> None:
    for missing in ("typer", "rich"):
        code = f"import sys; sys.modules[{missing!r}] = None; import metricsbridge.cli as c; c.main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        line = "the command line needs the extra 'cli': python -m pip install 'metricsbridge[cli]'\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_the_version_is_shown(run) -> None:
    ran = run("--version")
    assert ran.code == 0
    assert ran.out.startswith("metricsbridge 0")
    assert ran.out.splitlines()[1] == f"kernel: {_kernel.ENGINE}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("jobs",),
        ("jobs", "nowhere"),
        ("jobs", "emu", "--status", "sleeping"),
        ("jobs", "emu", "--limit", "0"),
        ("collect",),
        ("collect", "nowhere/job"),
        ("collect", "nowhere"),
        ("collect", "emu/"),
        ("collect", "emu/.."),
        ("collect", "emu/a/../b"),
        ("collect", "e mu/x"),
        ("collect", "emu/x", "--metric", "container.cpu.utilisation"),
        ("collect", "emu/x", "--last", "soon"),
        ("collect", "emu/x", "--last", "1h", "--start", "2025-01-15T08:00Z"),
        ("collect", "emu/x", "--end", "2025-01-15T08:00Z"),
        ("collect", "emu/x", "--start", "2025-01-15T08:00"),
        ("collect", "emu/x", "--start", "yesterday"),
        ("collect", "emu/x", "--start", "2025-01-15T08:00Z", "--end", "2025-01-15T07:00Z"),
        ("collect", "emu/x", "--step", "often"),
        ("collect", "emu/x", "--timeout", "0s"),
        ("collect", "emu/x", "--call-timeout", "0s"),
        ("collect", "emu/x", "--per", "pod"),
        ("collect", "emu/x", "-o", "out.xlsx"),
        ("collect", "emu/x", "-o", "nowhere/out.csv"),
        ("collect", "emu/x", "--config", "nowhere.toml"),
        ("emulate", "nowhere"),
        ("emulate", "modelarts", "--fault", "throttle"),
        ("emulate", "modelarts", "--fault", "gremlins=0.1"),
        ("emulate", "modelarts", "--fault", "throttle=2"),
    ],
)
def test_a_wrong_argument_is_one_line_and_code_2(run, config, arguments) -> None:
    if arguments[0] in ("jobs", "collect") and len(arguments) > 1 and "--config" not in arguments:
        arguments = (*arguments, "--config", config)
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    assert ran.err.startswith("error: ") is (ran.err.count("\n") == 1)


def test_the_message_names_what_was_meant(run, config) -> None:
    assert (
        "container.cpu.utilization"
        in run("collect", "emu/x", "--metric", "container.cpu.utilisation", "--config", config).err
    )
    assert "there are: emu" in run("collect", "emi/x", "--config", config).err
    assert ".csv or .json or .parquet" in run("collect", "emu/x", "-o", "x.xlsx", "--config", config).err


def test_jobs_are_listed_for_people_and_programs(run, config, emulated) -> None:
    listed = run("jobs", "emu", "--config", config, "--json")
    assert listed.code == 0
    assert {job["id"] for job in listed.json()["jobs"]} == set(emulated.line["jobs"])
    assert all(job["ref"] == f"emu/{job['id']}" for job in listed.json()["jobs"])
    people = run("jobs", "emu", "--config", config)
    assert all(f"emu/{job}" in people.out.split() for job in emulated.line["jobs"])
    running = run("jobs", "emu", "--config", config, "--json", "--status", "running", "--limit", "2").json()["jobs"]
    assert [job["status"] for job in running] == ["running", "running"]


def test_a_job_is_collected_as_one_document(run, config, short) -> None:
    ran = run("collect", short, "--config", config, "--json")
    document = ran.json()
    assert ran.code == 0
    assert {series["metric"] for series in document["series"]} == {
        "container.cpu.utilization", "container.memory.utilization",
    }  # fmt: skip
    assert all(len(series["times"]) == len(series["values"]) for series in document["series"])
    assert [job["ref"] for job in document["jobs"]] == [short]
    assert document["absences"][0]["reason"] == "no-data"


def test_a_job_is_collected_as_a_table(run, config, short) -> None:
    ran = run("collect", short, "--config", config, "--metric", "cpu")
    assert (ran.code, ran.err) == (0, "")
    header, headline, row, _, last = ran.out.splitlines()
    assert re.fullmatch(r"1 series of 1 task in 1 job, \d samples?, as of \d\d:\d\d:\d\d UTC", last)
    assert header.split() == ["task", "metric", "last", "mean", "max", "over", "time", "observed"]
    assert "succeeded" in headline
    assert row.split()[:2] == ["worker-0", "container.cpu.utilization"]
    assert "%" in row


def test_a_source_alone_is_all_of_its_jobs_in_the_order_of_its_list(run, config, refs) -> None:
    document = run("collect", "emu", "--config", config, "--last", "2h", "--json").json()
    assert [job["ref"] for job in document["jobs"]] == list(refs.values())
    assert document["window"]["end_ms"] - document["window"]["start_ms"] == 7_200_000
    order = list(dict.fromkeys(series["job"] for series in document["series"]))
    assert order == [ref.split("/")[1] for ref in refs.values() if ref.split("/")[1] in order]
    npu = [series for series in document["series"] if series["metric"] == "hw.npu.utilization"]
    assert [series["task"] for series in npu] == [f"worker-{n}" for n in range(len(npu))]


def test_a_window_is_absolute_where_it_is_given_so(run, config, short) -> None:
    ran = run("collect", short, "--config", config, "--start", "2020-01-01T00:00Z", "--end", "2020-01-02T02:00+02:00")
    assert ran.code == 0
    assert "From 2020-01-01 00:00 to 2020-01-02 00:00 UTC" in ran.out


def test_what_failed_in_part_is_code_3(run, config, short) -> None:
    ran = run("collect", short, "emu/nope", "--config", config)
    assert ran.code == 3
    assert "container.cpu.utilization" in ran.out
    assert "NotFoundError" in ran.out
    assert ran.err.startswith("warning: 1 call failed")
    document = run("collect", short, "emu/nope", "--config", config, "--json").json()
    [failure] = document["failures"]
    assert failure["targets"] == [{"job": "nope", "task": ""}]
    assert failure["error"]["class"] == "NotFoundError"


def test_nothing_delivered_is_code_1(run, config) -> None:
    ran = run("collect", "emu/nope", "--config", config, "--json")
    assert ran.code == 1
    assert ran.json()["series"] == []
    assert ran.err.startswith("error: nothing was delivered")


def test_a_wrong_key_is_told_without_the_key(run, emulated, tmp_path, short) -> None:
    wrong = emulated.config(tmp_path, secret_key="wrong-and-very-secret")
    for arguments, code in ((("jobs", "emu"), 1), (("collect", short), 1), (("collect", "emu"), 1)):
        ran = run(*arguments, "--config", wrong)
        assert ran.code == code
        assert "error: " in ran.err
        assert "Traceback" not in ran.err
        assert "very-secret" not in ran.out + ran.err


def test_a_bad_setting_is_told_without_its_value(run, emulated, tmp_path) -> None:
    wrong = emulated.config(tmp_path, secret_kee="wrong-and-very-secret")
    ran = run("jobs", "emu", "--config", wrong)
    assert ran.code == 2
    assert "did you mean secret_key?" in ran.err
    assert "very-secret" not in ran.err


def test_samples_are_written_to_csv_and_json(run, config, short, tmp_path) -> None:
    table, document = tmp_path / "x.csv", tmp_path / "x.json"
    assert run("collect", short, "--config", config, "-o", str(table)).code == 0
    ran = run("collect", short, "--config", config, "-o", str(document), "--json")
    assert ran.code == 0
    written = json.loads(document.read_text("utf-8"))
    assert written["series"] == ran.json()["series"]
    flat = [
        None if value is None else float(value) for series in written["series"] for value in series["values"]
    ]  # fmt: skip
    with table.open(newline="") as file:
        assert [float(row["value"]) if row["value"] else None for row in csv.DictReader(file)] == flat


def test_series_are_written_to_parquet(run, config, short, tmp_path) -> None:
    path = tmp_path / "x.parquet"
    ran = run("collect", short, "--config", config, "-o", str(path), "--json")
    assert ran.code == 0
    assert re.fullmatch(rf"written: \d+ samples of 2 series in {re.escape(str(path))}\n", ran.err)
    document, table = ran.json()["series"], pyarrow.parquet.read_table(path)
    assert table["metric"].unique().to_pylist() == [series["metric"] for series in document]
    flat = [value for series in document for value in series["values"]]
    assert [None if value != value else value for value in table["value"].to_pylist()] == flat


def test_without_the_extra_a_parquet_file_is_refused_before_anything_is_collected(run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = run("collect", "emu/x", "-o", "x.parquet", "--config", "nowhere.toml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: this needs pyarrow, which comes with the extra 'arrow': python -m pip install 'metricsbridge[arrow]'\n"
    )


async def test_the_emulator_says_what_a_program_needs_to_reach_it(emulated) -> None:
    line = emulated.line
    assert set(line) == {"provider", "url", "settings", "jobs"}
    async with mb.Collector({"emu": mb.open_provider(line["provider"], **line["settings"])}) as collector:
        result = await collector.collect([f"emu/{job}" for job in line["jobs"]])
    assert not result.failures
    assert len(result.jobs) == len(line["jobs"]) == 12


def test_another_process_reads_from_the_emulator(config, short) -> None:
    done = subprocess.run(
        [*COMMAND, "collect", short, "--config", config, "--json"], capture_output=True, text=True, check=True
    )
    assert len(json.loads(done.stdout)["series"]) == 2
    assert done.stderr == ""


def test_the_text_of_the_emulator_holds_a_configuration_that_works(tmp_path) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*COMMAND, "emulate", "modelarts", "--jobs", "2", "--fault", "slow=0.5"], stdout=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = []
        while not lines or "--last 1h" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], "the emulator ended"
        start = lines.index("[sources.emulated]\n")
        path = tmp_path / "metricsbridge.toml"
        path.write_text("".join(lines[start : lines.index("\n", start)]))
        listed = subprocess.run(
            [*COMMAND, "jobs", "emulated", "--json"], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert len(json.loads(listed.stdout)["jobs"]) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_a_port_in_use_is_one_line_and_code_1(run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = run("emulate", "modelarts", "--port", str(taken.getsockname()[1]))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1


def test_an_interrupt_ends_a_collection_without_a_traceback(emulated, tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = emulated.config(tmp_path, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with subprocess.Popen(
            [*COMMAND, "collect", "emu/job", "--config", config], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


def test_a_timeout_bounds_the_listing_of_jobs_too(run, emulated, tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = emulated.config(tmp_path, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        ran = run("collect", "emu", "emu/job", "--config", config, "--timeout", "200ms", "--json")
    assert ran.code == 1
    listing, job = ran.json()["failures"]
    if listing["targets"] == [{"job": "job", "task": ""}]:
        listing, job = job, listing
    assert listing["targets"] == [{"job": "*", "task": ""}]
    assert listing["error"]["class"] == job["error"]["class"] == "DeadlineExceededError"


def test_a_call_timeout_bounds_each_call_by_itself(run, emulated, tmp_path) -> None:
    bounds = ("--call-timeout", "200ms", "--timeout", "30s")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = emulated.config(tmp_path, endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        ran = run("collect", "emu/one", "emu/two", "--config", config, *bounds, "--json")
    assert ran.code == 1
    failures = ran.json()["failures"]
    assert [failure["targets"] for failure in failures] == [[{"job": ref, "task": ""}] for ref in ("one", "two")]
    for failure in failures:
        assert failure["error"]["class"] == "DeadlineExceededError"
        assert "more than the 0.2 s that call_timeout allows" in failure["error"]["message"]


def test_providers_are_listed_for_people_and_programs(run) -> None:
    listed = run("providers", "--json").json()
    assert listed["kernel"] == _kernel.ENGINE
    [first] = [each for each in listed["providers"] if each["name"] == "modelarts"]
    assert first["package"] == "metricsbridge"
    assert first["description"]
    assert "secret_key" in first["settings"]
    assert first["emulator"]
    assert first["error"] == ""
    people = run("providers")
    assert people.code == 0
    assert "modelarts" in people.out
    assert "metricsbridge.providers" in people.out
    assert f"alignment: {_kernel.ENGINE}" in " ".join(people.out.split())


def test_a_broken_provider_is_named_and_breaks_no_other(tmp_path: Path) -> None:
    for package, points in (("broken", "broken = no_such_module:SPEC"), ("twin", "modelarts = other_module:SPEC")):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[metricsbridge.providers]\n{points}\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [*COMMAND, "providers", "--json"], capture_output=True, text=True, check=True, env=environment
    )
    found = {each["name"]: each for each in json.loads(done.stdout)["providers"]}
    assert "no_such_module" in found["broken"]["error"]
    assert found["broken"]["package"] == "broken"
    assert "several packages" in found["modelarts"]["error"]
    people = subprocess.run([*COMMAND, "providers"], capture_output=True, text=True, check=True, env=environment)
    assert "unusable" in people.stdout
