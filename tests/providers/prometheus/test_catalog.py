"""Each row of the table, asked of a real server that was given what the exporters would say."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

import metricsbridge as mb
from metricsbridge_prometheus._catalog import CATALOG, SERVED, SERVED_OF_DEVICES, SERVED_OF_JOBS, at_level, parts_of
from metricsbridge_prometheus._promql import fill
from prometheus_server import backfill, require_binaries, running

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE: Final = 60_000
START: Final = 1_760_000_400_000 // (120 * MINUTE) * 120 * MINUTE
MINUTES: Final = 20
PODS: Final = ("lab-worker-0", "lab-worker-1", "lab-worker-2")
A, B, C = PODS
BLANK: Final = 9223372036854775807

# Metric, labels, and the value: of a counter (its name ends so) what it grows by in a minute.
Sample = tuple[str, dict[str, str], float]


def of(pod: str, **more: str) -> dict[str, str]:
    return {"namespace": "n", "pod": pod, **more}


def main(pod: str, **more: str) -> dict[str, str]:
    return of(pod, container="main", id="/1", **more)


def exported(pod: str, **more: str) -> dict[str, str]:
    """Give labels as they arrive without ``honor_labels``: the pod is the exporter's own."""
    own = {"namespace": "gpu", "pod": "dcgm-exporter-x"}
    return {**own, "exported_namespace": "n", "exported_pod": pod, "exported_container": "main", **more}


def npu(pod: str, **more: str) -> dict[str, str]:
    return {"namespace": "n", "pod_name": pod, "container_name": "main", **more}


CPU, QUOTA, PERIOD = "container_cpu_usage_seconds_total", "container_spec_cpu_quota", "container_spec_cpu_period"
MEMORY, LIMIT = "container_memory_working_set_bytes", "container_spec_memory_limit_bytes"
ASKED: Final = "kube_pod_container_resource_limits"
READS, WRITES = "container_fs_reads_bytes_total", "container_fs_writes_bytes_total"
RECEIVED, SENT = "container_network_receive_bytes_total", "container_network_transmit_bytes_total"

SAMPLES: Final[tuple[Sample, ...]] = (
    *[("kube_pod_owner", of(pod, owner_kind="PyTorchJob", owner_name="lab"), 1) for pod in PODS],
    *[("kube_pod_start_time", of(pod), START // 1000) for pod in PODS],
    *[("kube_pod_status_phase", of(pod, phase="Running"), 1) for pod in PODS],
    # A container with a limit beside one without; the pod's roll-up, and the container that holds its network.
    (CPU, main(A, cpu="total"), 60),
    (CPU, of(A, container="sidecar", id="/2", cpu="total"), 30),
    (CPU, of(A, container="", id="/", cpu="total"), 90),
    (CPU, of(A, container="POD", id="/0", cpu="total"), 30),
    (QUOTA, main(A), 200_000),
    (PERIOD, main(A), 100_000),
    (PERIOD, of(A, container="sidecar", id="/2"), 100_000),
    # The same series twice, as of a kubelet that is scraped by two jobs; CPUs counted one by one.
    *[(CPU, main(B, cpu=cpu, job=job), 30) for cpu in ("cpu00", "cpu01") for job in ("a", "b")],
    (ASKED, of(B, container="main", resource="cpu", unit="core"), 4),
    (CPU, main(C, cpu="total"), 60),
    (MEMORY, main(A), 1e9),
    (MEMORY, of(A, container="sidecar", id="/2"), 5e8),
    (MEMORY, of(A, container="", id="/"), 9e9),
    (LIMIT, main(A), 4e9),
    (LIMIT, of(A, container="sidecar", id="/2"), 0),
    (MEMORY, main(B), 1e9),
    (LIMIT, main(B), 0),
    (ASKED, of(B, container="main", resource="memory", unit="byte"), 2e9),
    (MEMORY, main(C), 1e9),
    (MEMORY, of(C, container="main", id="/before"), 5e8),
    (LIMIT, main(C), BLANK),
    *[(READS, main(A, device=device), grows) for device, grows in (("sda", 6_000), ("sdb", 600))],
    (READS, of(A, container="", id="/"), 9_000),
    (READS, main(A, device="sda", job="again"), 6_000),
    *[(WRITES, main(A, device=device), grows) for device, grows in (("sda", 600), ("sdb", 60))],
    *[
        (name, of(A, container="POD", id="/0", interface=interface), grows)
        for name in (RECEIVED, SENT)
        for interface, grows in (("eth0", 6_000), ("eth1", 3_000), ("lo", 9_000))
    ],
    (SENT, of(A, container="POD", id="/0", interface="eth1", job="again"), 3_000),
    (RECEIVED, of(B, container="", id="/", interface="eth0"), 600),
    *[("DCGM_FI_DEV_GPU_UTIL", main(A, gpu=gpu, UUID=f"G{gpu}"), value) for gpu, value in (("0", 40), ("1", 81))],
    ("DCGM_FI_DEV_GPU_UTIL", exported(B, gpu="0", UUID="G9"), 50),
    ("DCGM_FI_DEV_GPU_UTIL", exported(B, gpu="1", UUID="G10"), BLANK),
    *[("DCGM_FI_DEV_FB_USED", main(A, gpu=gpu, UUID=f"G{gpu}"), 1_024) for gpu in "01"],
    *[("DCGM_FI_DEV_FB_FREE", main(A, gpu=gpu, UUID=f"G{gpu}"), value) for gpu, value in (("0", 3_072), ("1", 1_024))],
    ("DCGM_FI_DEV_FB_USED", exported(B, gpu="0", UUID="G9", GPU_I_ID="1"), 0),
    ("DCGM_FI_DEV_FB_USED", exported(B, gpu="0", UUID="G9", GPU_I_ID="2"), 512),
    ("DCGM_FI_DEV_POWER_USAGE", main(A, gpu="0", UUID="G0"), 300.5),
    ("npu_chip_info_power", npu(C, id="3"), 200),
    ("npu_chip_info_utilization", npu(C, id="3"), 70),
    ("npu_chip_info_utilization", npu(C, id="4"), -1),
    ("npu_chip_info_hbm_used_memory", npu(C, id="3"), 16),
    ("npu_chip_info_hbm_total_memory", npu(C, id="3"), 64),
    ("npu_chip_info_hbm_total_memory", npu(C, id="5"), 0),
    ("npu_chip_info_hbm_used_memory", npu(C, id="5"), 0),
    ("npu_chip_info_used_memory", npu(C, id="5"), 3),
    ("npu_chip_info_total_memory", npu(C, id="5"), 4),
)  # fmt: skip

TASKS: Final[dict[str, dict[str, float]]] = {
    "container.cpu.utilization": {A: 0.5, B: 0.25},
    "container.cpu.usage": {A: 1.5, B: 1.0, C: 1.0},
    "container.memory.utilization": {A: 0.25, B: 0.5},
    "container.memory.working_set": {A: 1.5e9, B: 1e9, C: 1e9},
    "container.disk.read.rate": {A: 110.0},
    "container.disk.write.rate": {A: 11.0},
    "container.network.receive.rate": {A: 150.0, B: 10.0},
    "container.network.transmit.rate": {A: 150.0},
    "hw.gpu.utilization": {A: 0.605, B: 0.5},
    "hw.gpu.memory.utilization": {A: 0.375},
    "hw.gpu.memory.usage": {A: 2.0**30, B: 2.0**28},
    "hw.npu.utilization": {C: 0.7},
    "hw.npu.memory.utilization": {C: 0.5},
    "hw.power": {A: 300.5, C: 200.0},
}
DEVICES: Final[dict[str, dict[tuple[str, str, str], float]]] = {
    "hw.gpu.utilization": {(A, "0", ""): 0.4, (A, "1", ""): 0.81, (B, "0", ""): 0.5},
    "hw.gpu.memory.utilization": {(A, "0", ""): 0.25, (A, "1", ""): 0.5},
    "hw.gpu.memory.usage": {(A, "0", ""): 2.0**30, (A, "1", ""): 2.0**30, (B, "0", "1"): 0.0, (B, "0", "2"): 2.0**29},
    "hw.npu.utilization": {(C, "3", ""): 0.7},
    "hw.npu.memory.utilization": {(C, "3", ""): 0.25, (C, "5", ""): 0.75},
    "hw.power": {(A, "0", ""): 300.5, (C, "3", ""): 200.0},
}
JOBS: Final = {name: sum(of_pods.values()) / len(of_pods) for name, of_pods in TASKS.items() if name in SERVED_OF_JOBS}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("catalog")
    families: dict[str, list[str]] = {}
    for name, labels, value in SAMPLES:
        where = ",".join([f'{label}="{text}"' for label, text in labels.items()])
        grows = name.endswith("_total")
        families.setdefault(name, []).extend(
            [
                f"{name}{{{where}}} {1e6 + value * minute if grows else value} {START // 1000 + 60 * minute}\n"
                for minute in range(MINUTES)
            ]
        )
    backfill(
        folder, [(name, "counter" if name.endswith("_total") else "gauge", lines) for name, lines in families.items()]
    )
    with running(folder) as found:
        yield found


async def read(url: str, per: Any, **more: Any) -> mb.Collection:
    settings = {"url": url, "scrape_interval": "1m", "lookback": "100000d"}
    window = mb.Window(START + 5 * MINUTE, START + 10 * MINUTE)
    async with mb.open_provider("prometheus", **settings) as provider, mb.Collector({"p": provider}) as collector:
        return await collector.collect("p/n/lab", window=window, per=per, **more)


def test_each_row_has_its_truth() -> None:
    assert set(TASKS) == set(SERVED) == set(CATALOG) == set(mb.METRICS)
    assert set(DEVICES) == set(SERVED_OF_DEVICES)


async def test_each_metric_of_a_pod_is_what_its_exporters_say(url: str) -> None:
    result = await read(url, "task")
    assert result.failures == ()
    found: dict[str, dict[str, float]] = {}
    for key, times, values in result.series:
        assert times.tolist() == [START + minute * MINUTE for minute in range(5, 10)]
        assert values == pytest.approx([values[0]] * 5, rel=1e-9)
        found.setdefault(key.metric, {})[key.task] = values[0]
        assert key.device == ""
    assert {name: pytest.approx(of_pods, rel=1e-9) for name, of_pods in found.items()} == TASKS
    assert {key.metric: unit for key, unit in zip(result.series.keys, result.series.unit, strict=True)} == {
        name: metric.unit for name, metric in mb.METRICS.items()
    }


async def test_each_metric_of_a_device_is_what_its_exporter_says(url: str) -> None:
    result = await read(url, "device")
    assert result.failures == ()
    found: dict[str, dict[tuple[str, str, str], float]] = {}
    for key, _, values in result.series:
        found.setdefault(key.metric, {})[key.task, key.device, dict(key.labels).get("GPU_I_ID", "")] = values[0]
    assert found == DEVICES


async def test_a_job_s_shares_are_the_means_of_its_pods(url: str) -> None:
    result = await read(url, "job")
    assert result.failures == ()
    assert {(key.task, key.device) for key in result.series.keys} == {("", "")}
    assert {key.metric: values[-1] for key, _, values in result.series} == pytest.approx(JOBS, rel=1e-9)


async def test_two_lives_of_a_container_in_one_step_do_not_add_up(url: str) -> None:
    result = await read(url, "task", metrics=["container.memory.working_set"], tasks=[C])
    [(_, _, values)] = result.series
    assert set(values.tolist()) == {1e9}


@pytest.mark.parametrize("metric", CATALOG)
@pytest.mark.parametrize("level", ["task", "device"])
def test_each_query_is_promql(metric: str, level: str, tmp_path: Any) -> None:
    require_binaries()
    values = {"pods": 'namespace="n",pod=~"a|b"', "range": "60s"}
    for place, query in parts_of(metric):
        text = at_level(fill(query, values), place, level)
        rule = tmp_path / "rule.yml"
        rule.write_text(f"groups: [{{name: g, rules: [{{record: r, expr: '{text}'}}]}}]", "utf-8")
        done = subprocess.run(["promtool", "check", "rules", str(rule)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
