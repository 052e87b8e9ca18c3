"""A real exporter: two processes that train, measured, shown as a cluster's exporters would show two pods.

Run as a program. It prints its port, then one line of JSON for each scrape with what it reported, and ends with its
standard input. After so many scrapes as its argument says the training is over, and with it the pods' containers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import psutil
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAINING: Final = """
import sys, threading, tempfile
import numpy as np

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
rng = np.random.default_rng(int(sys.argv[1]))
x, hidden = rng.normal(size=(2_000, 50)), rng.normal(size=50)
y = x @ hidden
weights, losses = np.zeros(50), []
with tempfile.TemporaryFile() as checkpoint:
    while not over.is_set():
        batch = rng.integers(0, len(x), 256)
        miss = x[batch] @ weights - y[batch]
        weights -= 0.01 * x[batch].T @ miss / len(batch)
        losses.append(float(miss @ miss))
        if len(losses) % 100 == 0:
            checkpoint.write(weights.tobytes())
            checkpoint.flush()
            losses[1:-1] = []
print(losses[0], losses[-1])
"""
PODS: Final = {"train-master-0": ("master", "0"), "train-worker-0": ("worker", "0")}
NAMESPACE: Final = "research"
KUBEFLOW: Final = "label_training_kubeflow_org_"


class Cluster:
    """What is asked at each scrape."""

    def __init__(self, scrapes: int) -> None:
        self._left = scrapes
        self._started = int(time.time())
        self._ended: int | None = None
        self._lock = threading.Lock()
        self._processes = {
            pod: subprocess.Popen(
                [sys.executable, "-c", TRAINING, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for seed, pod in enumerate(PODS)
        }

    def collect(self) -> Iterator[Any]:
        """Measure, report, and say what was reported."""
        with self._lock:
            now = time.time()
            if self._ended is None and self._left == 0:
                self.stop()
            self._left -= 1
            readings = {} if self._ended is not None else {pod: self._measure(pod) for pod in PODS}
            print(json.dumps({"time_ms": int(now * 1000), "ended": self._ended, "pods": readings}), flush=True)
            yield from self._containers(readings)
            yield from self._states()

    def _measure(self, pod: str) -> dict[str, float]:
        process = psutil.Process(self._processes[pod].pid)
        with process.oneshot():
            spent = process.cpu_times()
            return {
                "cpu": spent.user + spent.system,
                "memory": float(process.memory_info().rss),
                "written": float(process.io_counters().write_chars),
            }

    def stop(self) -> None:
        """End the training; each process says how far it came."""
        if self._ended is None:
            losses = {pod: process.communicate(timeout=60)[0].split() for pod, process in self._processes.items()}
            assert all(float(first) > 100 * float(last) for first, last in losses.values()), losses
            self._ended = int(time.time())

    def _containers(self, readings: dict[str, dict[str, float]]) -> Iterator[Any]:
        names = ["namespace", "pod", "container", "id"]
        cpu = CounterMetricFamily("container_cpu_usage_seconds", "CPU", labels=names)
        memory = GaugeMetricFamily("container_memory_working_set_bytes", "Memory", labels=names)
        written = CounterMetricFamily("container_fs_writes_bytes", "Disk", labels=names)
        quota = GaugeMetricFamily("container_spec_cpu_quota", "In microseconds", labels=names)
        period = GaugeMetricFamily("container_spec_cpu_period", "In microseconds", labels=names)
        limit = GaugeMetricFamily("container_spec_memory_limit_bytes", "0 is none", labels=names)
        for pod, read in readings.items():
            for container, share in (("pytorch", 1.0), ("", 1.0)):  # and the roll-up, which must not count twice
                place = [NAMESPACE, pod, container, f"/{pod}/{container}"]
                cpu.add_metric(place, read["cpu"] * share)
                memory.add_metric(place, read["memory"] * share)
                written.add_metric(place, read["written"] * share)
                limit.add_metric(place, 0.0)
                if pod == "train-master-0":
                    quota.add_metric(place, 150_000.0)
                    period.add_metric(place, 100_000.0)
        yield from (cpu, memory, written, quota, period, limit)

    def _states(self) -> Iterator[Any]:
        pods = ["namespace", "pod", "uid"]
        kinds = [f"{KUBEFLOW}job_name", f"{KUBEFLOW}replica_type", f"{KUBEFLOW}replica_index"]
        named = GaugeMetricFamily("kube_pod_labels", "Labels", labels=[*pods, *kinds])
        owned = GaugeMetricFamily("kube_pod_owner", "Owners", labels=[*pods, "owner_kind", "owner_name"])
        phase = GaugeMetricFamily("kube_pod_status_phase", "Phase", labels=[*pods, "phase"])
        begun = GaugeMetricFamily("kube_pod_start_time", "Start", labels=pods)
        done = GaugeMetricFamily("kube_pod_completion_time", "End", labels=pods)
        limits = GaugeMetricFamily(
            "kube_pod_container_resource_limits", "Limits", labels=[*pods, "container", "resource", "unit"]
        )
        for pod, (kind, index) in {**PODS, "web-7d4b9c-x2x": ("", "")}.items():
            place = [NAMESPACE, pod, f"uid-{pod}"]
            training = bool(kind)
            owned.add_metric([*place, "PyTorchJob" if training else "ReplicaSet", "train" if training else "web"], 1)
            begun.add_metric(place, self._started)
            over = training and self._ended is not None
            for word, holds in (("Pending", False), ("Running", not over), ("Succeeded", over), ("Failed", False)):
                phase.add_metric([*place, word], float(holds))
            if training:
                named.add_metric([*place, "train", kind, index], 1)
                limits.add_metric([*place, "pytorch", "cpu", "core"], 2.0)
                limits.add_metric([*place, "pytorch", "memory", "byte"], 4.0 * 2**30)
            if over and self._ended is not None:
                done.add_metric(place, self._ended)
        yield from (named, owned, phase, begun, done, limits)


def main() -> None:
    """Serve until standard input ends."""
    cluster = Cluster(int(sys.argv[1]))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Undescribed(cluster))
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()
    server.server_close()
    thread.join()
    cluster.stop()


class _Undescribed:
    """A collector that is not asked when it is registered."""

    def __init__(self, cluster: Cluster) -> None:
        self.collect = cluster.collect

    def describe(self) -> list[Any]:
        return []


if __name__ == "__main__":
    main()
