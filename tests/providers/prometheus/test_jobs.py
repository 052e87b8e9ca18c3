"""Jobs and their pods, found in a real server that was given what kube-state-metrics would say."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest

import metricsbridge as mb
from prometheus_server import backfill, running

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE: Final = 60
T_FLOW: Final = "label_training_kubeflow_org_"
SETS: Final = "label_jobset_sigs_k8s_io_"
INDEX: Final = "label_batch_kubernetes_io_job_completion_index"
STEP: Final = "label_trainer_kubeflow_org_trainjob_ancestor_step"
AHEAD_S: Final = 10 * MINUTE
"""So far into the future the pods that are there now were reported, for the tests take their time."""


@attrs.frozen
class Cluster:
    """A server, and the second from which on its pods were reported."""

    url: str
    start: int

    def at(self, minutes: float) -> int:
        """Give the instant so many minutes later, in ms."""
        return int((self.start + minutes * MINUTE) * 1000)

    def open(self, **more: Any) -> Any:
        return mb.open_provider("prometheus", **{"url": self.url, "lookback": "6h", **more})


class Written:
    """Lines for the storage: what each pod would have been reported as, once a minute."""

    def __init__(self, start: int, now: int) -> None:
        self.start, self.now = start, now
        self.families: dict[str, list[str]] = {}

    def add(self, name: str, first: float, last: float | None, value: float = 1, **labels: str) -> None:
        """Write a series of one value; ``last`` None is now and a while longer."""
        end = self.now + AHEAD_S if last is None else int(self.start + last * MINUTE)
        where = ",".join([f'{label}="{text}"' for label, text in {"namespace": "n", **labels}.items()])
        times = range(int(self.start + first * MINUTE), end, MINUTE)
        self.families.setdefault(name, []).extend([f"{name}{{{where}}} {value} {at}\n" for at in times])

    def pod(
        self, name: str, *phases: tuple[str, float, float | None], created: float = 0, ended: float | None = None,
        uid: str = "", **labels: str,
    ) -> None:  # fmt: skip
        """Write a pod that goes through these phases, each from a minute to another."""
        uid = uid or name
        last = phases[-1][2]
        if labels:
            self.add("kube_pod_labels", phases[0][1], last, pod=name, uid=uid, **labels)
        self.add("kube_pod_created", phases[0][1], last, self.start + created * MINUTE, pod=name, uid=uid)
        self.add("kube_pod_start_time", phases[0][1], last, self.start + (created + 1) * MINUTE, pod=name, uid=uid)
        if ended is not None:
            self.add("kube_pod_completion_time", ended, last, self.start + ended * MINUTE, pod=name, uid=uid)
        for phase, first, until in phases:
            for other in ("Pending", "Running", "Succeeded", "Failed"):
                value = float(other == phase)
                self.add("kube_pod_status_phase", first, until, value, pod=name, uid=uid, phase=other)


def owner(written: Written, pod: str, kind: str, name: str) -> None:
    written.add("kube_pod_owner", 0, 20, pod=pod, uid=pod, owner_kind=kind, owner_name=name)


def write(written: Written) -> None:
    def flow(job: str, kind: str, index: str) -> dict[str, str]:
        return {f"{T_FLOW}job_name": job, f"{T_FLOW}replica_type": kind, f"{T_FLOW}replica_index": index}

    done = [("Running", 0, 30), ("Succeeded", 30, None)]
    lost = [("Running", 0, 20), ("Failed", 20, None)]
    written.pod("kf-master-0", *done, ended=29.5, **flow("kf", "master", "0"))
    for index in ("0", "2", "10"):
        written.pod(f"kf-worker-{index}", *(lost if index == "2" else done), ended=20, **flow("kf", "worker", index))

    def node(index: str, step: str = "trainer") -> dict[str, str]:
        return {
            f"{SETS}jobset_name": "tj", f"{SETS}replicatedjob_name": "node", f"{SETS}job_index": "0", INDEX: index,
            "label_batch_kubernetes_io_job_name": "tj-node-0", STEP: step,
        }  # fmt: skip

    for index in ("0", "1"):
        written.pod(f"tj-node-0-{index}-x", ("Running", 5, None), created=5, **node(index))
        for resource, count in (("nvidia_com_gpu", 4), ("cpu", 9)):
            more = {"container": "a", "resource": resource, "uid": f"tj-node-0-{index}-x"}
            written.add("kube_pod_container_resource_requests", 5, None, count, pod=f"tj-node-0-{index}-x", **more)
    written.pod("tj-dataset-initializer-0-0-x", ("Succeeded", 5, None), ended=5, **node("0", "dataset-initializer"))

    # Tried twice; nothing but the pods' owner says so.
    written.pod("pj-a", ("Failed", 0, None), ended=3)
    written.pod("pj-b", ("Succeeded", 4, None), created=4, ended=9)
    for pod in ("pj-a", "pj-b"):
        owner(written, pod, "Job", "pj")
    # The Job itself knows better than its last pod, whose label tells its name.
    written.pod("said-a", ("Running", 0, None), label_job_name="said")
    for condition, value in (("true", 1), ("false", 0)):
        written.add("kube_job_failed", 10, None, value, job_name="said", condition=condition)
    written.add("kube_job_complete", 10, None, 0, job_name="said", condition="true")
    written.add("kube_job_created", 10, None, written.start - 60, job_name="said")
    # A second Job of the name; what is said of the end is the first one's.
    written.pod("again-a", ("Succeeded", 0, 30), ended=3, label_job_name="again")
    written.pod("again-b", ("Running", 40, None), created=40, label_job_name="again")
    written.add("kube_job_complete", 3, 30, 1, job_name="again", condition="true")
    written.add("kube_job_status_completion_time", 3, 30, written.start + 180, job_name="again")
    written.add("kube_job_status_start_time", 40, None, written.start + 40 * MINUTE, job_name="again")
    # Deleted while it ran; driven out, without a time of its end.
    written.pod("gone-worker-0", ("Running", 0, 40), **flow("gone", "worker", "0"))
    written.pod("out-worker-0", ("Running", 0, 12), ("Failed", 12, None), **flow("out", "worker", "0"))
    # A JobSet and an MPIJob known by their owners only.
    written.pod("js-node-0-0-x", ("Running", 0, None))
    owner(written, "js-node-0-0-x", "Job", "js-node-0")
    written.add("kube_job_owner", 0, 20, job_name="js-node-0", owner_kind="JobSet", owner_name="js")
    written.pod("mpi-launcher-x", ("Running", 0, None))
    owner(written, "mpi-launcher-x", "Job", "mpi-launcher")
    written.add("kube_job_owner", 0, 20, job_name="mpi-launcher", owner_kind="MPIJob", owner_name="mpi")
    written.pod("mpi-worker-1", ("Running", 0, None))
    owner(written, "mpi-worker-1", "MPIJob", "mpi")
    # Waiting for its image, for which the kubelet has begun to work.
    written.pod("wait-worker-0", ("Pending", 0, None), **flow("wait", "worker", "0"))
    # One name, two lives; and two instances of the exporter, of which the first knew nothing of the end.
    written.pod("twice-worker-0", ("Failed", 0, 10), ended=8, uid="one", **flow("twice", "worker", "0"))
    written.pod("twice-worker-0", ("Running", 15, None), created=15, uid="two", **flow("twice", "worker", "0"))
    written.pod("moved-worker-0", ("Running", 0, 10), **flow("moved", "worker", "0"))
    written.add("kube_pod_status_phase", 10, None, 1, pod="moved-worker-0", uid="moved-worker-0", phase="Succeeded",
                instance="new")  # fmt: skip
    written.add("kube_pod_completion_time", 10, None, written.start + 540, pod="moved-worker-0", uid="moved-worker-0",
                instance="new")  # fmt: skip
    written.pod("npu-worker-0", ("Running", 0, None), **flow("npu", "worker", "0"))
    more = {"container": "a", "resource": "huawei_com_Ascend910", "uid": "npu-worker-0"}
    written.add("kube_pod_container_resource_requests", 0, None, 8, pod="npu-worker-0", **more)
    # No training job.
    written.pod("web-x", ("Running", 0, None), label_app="web")
    owner(written, "web-x", "ReplicaSet", "web")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("jobs")
    now = int(time.time())
    start = now // MINUTE * MINUTE - 120 * MINUTE
    written = Written(start, now)
    write(written)
    backfill(folder, [(name, "gauge", lines) for name, lines in written.families.items()])
    with running(folder) as url:
        yield Cluster(url, start)


# Job to (status, the word for it, tasks with roles); times in minutes: job's start and end, each task's end.
JOBS: Final[dict[str, tuple[str, str, dict[str, str], float | None, float | None]]] = {
    "kf": (
        "succeeded",
        "Succeeded",
        {"kf-master-0": "master/0", "kf-worker-0": "worker/0", "kf-worker-2": "worker/2", "kf-worker-10": "worker/10"},
        1,
        29.5,
    ),
    "tj": ("running", "Running", {"tj-node-0-0-x": "node/0/0", "tj-node-0-1-x": "node/0/1"}, 6, None),
    "pj": ("succeeded", "Succeeded", {"pj-a": "", "pj-b": ""}, 1, 9),
    "said": ("failed", "Failed", {"said-a": ""}, 1, None),
    "again": ("running", "Running", {"again-a": "", "again-b": ""}, 1, None),
    "gone": ("stopped", "deleted", {"gone-worker-0": "worker/0"}, 1, 40),
    "out": ("failed", "Failed", {"out-worker-0": "worker/0"}, 1, 12),
    "js": ("running", "Running", {"js-node-0-0-x": "node/0"}, 1, None),
    "mpi": ("running", "Running", {"mpi-launcher-x": "launcher", "mpi-worker-1": "worker/1"}, 1, None),
    "wait": ("pending", "Pending", {"wait-worker-0": "worker/0"}, None, None),
    "twice": ("running", "Running", {"twice-worker-0": "worker/0"}, 1, None),
    "moved": ("succeeded", "Succeeded", {"moved-worker-0": "worker/0"}, 1, 9),
    "npu": ("running", "Running", {"npu-worker-0": "worker/0"}, 1, None),
}
INEXACT: Final = ("gone", "out")
"""Their ends are found to the minute, and never too early."""


@pytest.mark.parametrize("name", JOBS)
async def test_a_job_is_what_its_pods_say(cluster: Cluster, name: str) -> None:
    async with cluster.open() as provider:
        job = await provider.get_job(f"n/{name}")
    status, word, tasks, start, end = JOBS[name]
    assert (job.id, job.name) == (f"n/{name}", name)
    assert (job.status, job.vendor_status) == (status, word)
    assert {task.id: task.role for task in job.tasks} == tasks
    assert [task.id for task in job.tasks] == list(tasks)
    assert job.start_time_ms == (None if start is None else cluster.at(start))
    if end is None:
        assert job.end_time_ms is None
    else:
        slack = 60_000 if name in INEXACT else 0
        assert job.end_time_ms is not None
        assert cluster.at(end) <= job.end_time_ms <= cluster.at(end) + slack
        assert max(task.end_time_ms or 0 for task in job.tasks) == job.end_time_ms


async def test_the_list_has_the_same_jobs_and_no_others_the_newest_first(cluster: Cluster) -> None:
    async with cluster.open() as provider:
        listed = [job async for job in provider.list_jobs(mb.JobSearch())]
        for job in listed:
            assert attrs.evolve(await provider.get_job(job.id), payload=None) == job
    assert {job.name for job in listed} == set(JOBS)
    created = [job.create_time_ms for job in listed]
    assert created == sorted(created, reverse=True)
    assert listed[0].name == "tj"
    assert created[-1] == cluster.at(-1)  # what the Job itself says


@pytest.mark.parametrize(
    ("search", "names"),
    [
        (mb.JobSearch(name="o"), {"gone", "out", "moved"}),
        (mb.JobSearch(status=["failed", "stopped"]), {"said", "out", "gone"}),
        (mb.JobSearch(limit=1), {"tj"}),
        (mb.JobSearch(created=mb.Window(0, 1)), set()),
    ],
)
async def test_a_search_finds_what_matches(cluster: Cluster, search: mb.JobSearch, names: set[str]) -> None:
    async with cluster.open() as provider:
        assert {job.name async for job in provider.list_jobs(search)} == names


async def test_devices_are_those_that_the_pods_ask_for(cluster: Cluster) -> None:
    async with cluster.open() as provider:
        found = {name: (await provider.get_job(f"n/{name}")).accelerators for name in ("tj", "npu", "kf")}
    assert found == {
        "tj": mb.Accelerators(kind="gpu", count=4),
        "npu": mb.Accelerators(kind="npu", count=8, model="Ascend910"),
        "kf": None,
    }


@pytest.mark.parametrize(
    ("job_id", "said"),
    [("n/web", "no pod of it was seen"), ("n/tj-node-0", "belong to n/tj"), ("m/kf", "no pod of it was seen")],
)
async def test_what_is_no_job_is_not_found(cluster: Cluster, job_id: str, said: str) -> None:
    async with cluster.open() as provider:
        with pytest.raises(mb.NotFoundError, match=said):
            await provider.get_job(job_id)


async def test_a_job_that_ended_before_the_lookback_is_not_found(cluster: Cluster) -> None:
    async with cluster.open(lookback="1h") as provider:
        with pytest.raises(mb.NotFoundError, match="1h"):
            await provider.get_job("n/gone")


async def test_matchers_of_the_settings_hold_for_jobs(cluster: Cluster) -> None:
    async with cluster.open(labels={"instance": "new"}) as provider:
        assert [job async for job in provider.list_jobs(mb.JobSearch())] == []


async def test_only_jobs_of_the_namespace_are_read_where_one_is_set(cluster: Cluster) -> None:
    async with cluster.open(namespace="m") as provider:
        assert [job async for job in provider.list_jobs(mb.JobSearch())] == []
        with pytest.raises(mb.NotFoundError, match="outside of the namespace 'm'"):
            await provider.get_job("n/kf")
