"""Which pods make up which job, by their labels or by their owners: what is asked, and what the answers mean. Pure.

kube-state-metrics shows labels of pods only where it is told to (``--metric-labels-allowlist``), their owners always. A
job is a group of pods with one name; where several names stand on a pod, the outermost one counts.

Sources: kube-state-metrics' documentation of pod and job metrics; the well-known labels of Kubernetes, of Kubeflow's
training operator, of JobSet and of Kubeflow Trainer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from metricsbridge_prometheus._promql import duration, matchers, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metricsbridge_prometheus._settings import PrometheusSettings
    from metricsbridge_prometheus._wire import Row

_COMPLETION_INDEX: Final = "label_batch_kubernetes_io_job_completion_index"

LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "label_training_kubeflow_org_job_name": (
        "label_training_kubeflow_org_replica_type",
        "label_training_kubeflow_org_replica_index",
    ),
    "label_jobset_sigs_k8s_io_jobset_name": (
        "label_jobset_sigs_k8s_io_replicatedjob_name",
        "label_jobset_sigs_k8s_io_job_index",
        _COMPLETION_INDEX,
    ),
    "label_batch_kubernetes_io_job_name": (_COMPLETION_INDEX,),
    "label_job_name": (_COMPLETION_INDEX,),
}
"""The label that names a pod's job, the outermost first, to those that say what the pod is in it."""

OWNERS: Final = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob", "Job")
"""Kinds of a pod's owner that are jobs."""

OUTER: Final = ("JobSet", *OWNERS[:-1])
"""Kinds of a plain Job's owner that are jobs: the Job is only a part of theirs."""

_STEP: Final = "label_trainer_kubeflow_org_trainjob_ancestor_step"
"""What a pod of a TrainJob does; other steps than ``trainer`` fetch data and models beforehand."""

_REPLICA: Final = re.compile(r"(.+?)(?:-(\d+))?")


@attrs.frozen(order=True)
class Pod:
    """A pod found to be one of a job's.

    Attributes:
        role: What it is in the job, from the outside in: type, index.
        plain: Whether its job is a plain Job, of which more is known.
    """

    namespace: str
    job: str
    name: str
    role: tuple[str, ...] = ()
    plain: bool = False

    @property
    def place(self) -> tuple[str, str]:
        """What it is found by."""
        return self.namespace, self.name


def selector(settings: PrometheusSettings, *pairs: tuple[str, str, str]) -> str:
    """Write matchers, with those that every series has to fulfil."""
    return matchers([*pairs, *[(label, "=", value) for label, value in settings.labels.items()]])


def last(settings: PrometheusSettings, *pairs: tuple[str, str, str]) -> str:
    """Ask for the last values that series had, however long ago they ended."""
    return f"last_over_time({{{selector(settings, *pairs)}}}[{duration(settings.lookback_ms)}])"


def pods_of(settings: PrometheusSettings, namespace: str, job: str, /) -> str:
    """Ask for the pods that a job of that name may have."""
    where = ("namespace", "=", namespace)
    owned = last(settings, ("__name__", "=", "kube_pod_owner"), where, ("owner_kind", "=", "Job"))
    sets = last(
        settings, ("__name__", "=", "kube_job_owner"), where, ("owner_kind", "=~", one_of(OUTER)),
        ("owner_name", "=", job),
    )  # fmt: skip
    return " or ".join([
        *[last(settings, ("__name__", "=", "kube_pod_labels"), where, (label, "=", job)) for label in LABELS],
        last(settings, ("__name__", "=", "kube_pod_owner"), where, ("owner_kind", "=~", one_of(OWNERS)),
             ("owner_name", "=", job)),
        f'({owned} and on (namespace, owner_name) label_replace({sets}, "owner_name", "$1", "job_name", "(.*)"))',
        sets,
    ])  # fmt: skip


def all_pods(settings: PrometheusSettings, /) -> str:
    """Ask for the pods of all jobs."""
    where = [] if settings.namespace is None else [("namespace", "=", settings.namespace)]
    return " or ".join([
        *[last(settings, ("__name__", "=", "kube_pod_labels"), *where, (label, "!=", "")) for label in LABELS],
        last(settings, ("__name__", "=", "kube_pod_owner"), *where, ("owner_kind", "=~", one_of(OWNERS))),
        last(settings, ("__name__", "=", "kube_job_owner"), *where, ("owner_kind", "=~", one_of(OUTER))),
    ])  # fmt: skip


def pods_in(rows: Iterable[Row], /) -> tuple[Pod, ...]:
    """Give the pods that the answer names, each with the one job that it belongs to, in the order of their roles."""
    rows = [*rows]
    labelled = [row for row in rows if row.name == "kube_pod_labels"]
    sets = {
        (row.labels.get("namespace", ""), row.labels.get("job_name", "")): row.labels.get("owner_name", "")
        for row in rows
        if row.name == "kube_job_owner"
    }
    found: dict[tuple[str, str], Pod] = {}
    for row in rows:
        if row.name == "kube_pod_owner":
            pod = _owned(row.labels, sets)
            found[pod.place] = pod
    for row in labelled:  # what they say counts more
        place, pod_ = (row.labels.get("namespace", ""), row.labels.get("pod", "")), _labelled(row.labels)
        if pod_ is not None:
            found[place] = pod_
        elif row.labels.get(_STEP, "trainer") != "trainer":
            found.pop(place, None)
    return tuple(sorted(found.values(), key=_in_order))


def _in_order(pod: Pod) -> tuple[object, ...]:
    role = tuple([(int(part), "") if part.isdecimal() else (-1, part) for part in pod.role])
    return pod.namespace, pod.job, role, pod.name


def _labelled(labels: Mapping[str, str]) -> Pod | None:
    if labels.get(_STEP, "trainer") != "trainer":
        return None
    for label, role in LABELS.items():
        if labels.get(label):
            parts = tuple([labels[part] for part in role if labels.get(part)])
            plain = not label.startswith(("label_training", "label_jobset"))
            return Pod(labels.get("namespace", ""), labels[label], labels.get("pod", ""), parts, plain)
    return None


def _owned(labels: Mapping[str, str], sets: Mapping[tuple[str, str], str]) -> Pod:
    namespace, owner, name = labels.get("namespace", ""), labels.get("owner_name", ""), labels.get("pod", "")
    job = sets.get((namespace, owner), "")
    if job:
        return Pod(namespace, job, name, _replica(owner, job))
    plain = labels.get("owner_kind") == "Job"
    return Pod(namespace, owner, name, () if plain else _replica(name, owner), plain)


def _replica(name: str, job: str) -> tuple[str, ...]:
    """Read the type and index out of a default name, ``{job}-{type}-{index}``."""
    match = _REPLICA.fullmatch(name.removeprefix(f"{job}-"))
    if match is None or not name.startswith(f"{job}-"):
        return ()
    return tuple([part for part in match.groups() if part is not None])


_POD_FACTS: Final = ("kube_pod_status_phase", "kube_pod_created", "kube_pod_start_time", "kube_pod_completion_time")
_JOB_FACTS: Final = (
    "kube_job_complete", "kube_job_failed", "kube_job_created", "kube_job_status_start_time",
    "kube_job_status_completion_time",
)  # fmt: skip
_DEVICES: Final = "nvidia_com_gpu|nvidia_com_mig_.*|huawei_com_Ascend.*"
_RESOLUTION: Final = "1m"
RESOLUTION_MS: Final = 60_000
"""How exactly the end of a pod is found that has told of none."""


def _named(pods: Sequence[Pod]) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Match pods; those of the same name in another of their namespaces are matched too, which does no harm."""
    namespaces = sorted({pod.namespace for pod in pods})
    return ("namespace", "=~", one_of(namespaces)), ("pod", "=~", one_of([pod.name for pod in pods]))


def facts_of(settings: PrometheusSettings, pods: Sequence[Pod], /) -> str:
    """Ask what there is to know of these pods, and of the plain Jobs among their owners."""
    where, names = _named(pods)
    jobs = sorted({pod.job for pod in pods if pod.plain})
    asked = [
        last(settings, ("__name__", "=~", one_of(_POD_FACTS)), where, names),
        last(settings, ("__name__", "=", "kube_pod_container_resource_requests"), where, names,
             ("resource", "=~", _DEVICES)),
    ]  # fmt: skip
    if jobs:
        asked.append(last(settings, ("__name__", "=~", one_of(_JOB_FACTS)), where, ("job_name", "=~", one_of(jobs))))
    return " or ".join(asked)


def present(settings: PrometheusSettings, pods: Sequence[Pod], /) -> str:
    """Ask which of these pods there are now, and how many of all: without any, nobody says so."""
    named = selector(settings, *_named(pods))
    every = selector(settings)
    return f"count by (namespace, pod) (kube_pod_status_phase{{{named}}}) or count(kube_pod_status_phase{{{every}}})"


def endings(settings: PrometheusSettings, ended: Sequence[Pod], gone: Sequence[Pod], /) -> str:
    """Ask since when pods have been in a last state, and until when others were seen; to the minute."""
    over = f"[{duration(settings.lookback_ms)}:{_RESOLUTION}]"
    asked = []
    if ended:
        which = selector(settings, *_named(ended), ("phase", "=~", "Succeeded|Failed"))
        asked.append(f"min by (namespace, pod) (min_over_time(timestamp(kube_pod_status_phase{{{which}}} == 1){over}))")
    if gone:
        which = selector(settings, *_named(gone), ("phase", "=", "Running"))
        asked.append(f"max by (namespace, pod) (max_over_time(timestamp(kube_pod_status_phase{{{which}}}){over}))")
    return " or ".join(asked)


def in_groups(pods: Sequence[Pod], most: int, /) -> Iterator[Sequence[Pod]]:
    """Give the pods, so many at once."""
    return (pods[first : first + most] for first in range(0, len(pods), most))
