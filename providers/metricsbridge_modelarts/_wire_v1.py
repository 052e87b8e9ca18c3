"""The vendor's JSON for training jobs (API v1), only the fields that are used.

Sources: ModelArts API reference (training management, old version), "Querying a Training Job List", "Querying the
Versions of a Training Job", "Querying the Details About a Training Job Version", "Obtaining Log File Names" and
"Querying the Statuses and GPU Quantity of All Job Versions". What the documents, their samples and recorded answers
give in different types is read here without complaint.
"""

# Annotations are read at run time here, to decode into.

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import attrs

from metricsbridge.provider_kit import Accelerators, Evaluation, JobStatus

STATUSES: Final[Mapping[int, JobStatus]] = {
    0: JobStatus.UNKNOWN,  # JOBSTAT_UNKNOWN
    1: JobStatus.PENDING,  # JOBSTAT_INIT
    2: JobStatus.PENDING,  # JOBSTAT_IMAGE_CREATING
    3: JobStatus.FAILED,  # JOBSTAT_IMAGE_FAILED
    4: JobStatus.PENDING,  # JOBSTAT_SUBMIT_TRYING
    5: JobStatus.FAILED,  # JOBSTAT_SUBMIT_FAILED
    6: JobStatus.FAILED,  # JOBSTAT_DELETE_FAILED
    7: JobStatus.PENDING,  # JOBSTAT_WAITING
    8: JobStatus.RUNNING,  # JOBSTAT_RUNNING
    9: JobStatus.STOPPING,  # JOBSTAT_KILLING
    10: JobStatus.SUCCEEDED,  # JOBSTAT_COMPLETED
    11: JobStatus.FAILED,  # JOBSTAT_FAILED
    12: JobStatus.STOPPED,  # JOBSTAT_KILLED
    13: JobStatus.STOPPED,  # JOBSTAT_CANCELED
    14: JobStatus.FAILED,  # JOBSTAT_LOST
    15: JobStatus.RUNNING,  # JOBSTAT_SCALING
    16: JobStatus.FAILED,  # JOBSTAT_SUBMIT_MODEL_FAILED
    17: JobStatus.FAILED,  # JOBSTAT_DEPLOY_SERVICE_FAILED
    18: JobStatus.PENDING,  # JOBSTAT_CHECK_INIT
    19: JobStatus.RUNNING,  # JOBSTAT_CHECK_RUNNING
    20: JobStatus.RUNNING,  # JOBSTAT_CHECK_RUNNING_COMPLETED
    21: JobStatus.FAILED,  # JOBSTAT_CHECK_FAILED
}
"""The vendor's ``status`` to ours; anything else is unknown. Source: ModelArts API reference, job statuses."""


def status_of(status: Any, /) -> JobStatus:
    """Give our status of the vendor's number, which may stand in text; unknown for whatever else stands there."""
    number = int(status) if isinstance(status, str) and status.isascii() and status.isdigit() else status
    return STATUSES.get(number, JobStatus.UNKNOWN) if type(number) is int else JobStatus.UNKNOWN


def word_of(status: Any, /) -> str:
    """Give the vendor's own word for a status; "" where there is none."""
    return str(status) if isinstance(status, (int, str)) else ""


@attrs.frozen
class JobRow:
    """One job of the list; status and times are those of its newest version."""

    job_id: int
    job_name: str | None = None
    status: Any = None
    create_time: int | None = None
    version_count: int | None = None


@attrs.frozen
class JobPage:
    """One page of the job list; ``job_total_count`` is how many jobs there are on all pages."""

    jobs: tuple[JobRow, ...] | None = None
    job_total_count: int | None = None


@attrs.frozen
class Version:
    """One version of a job: what runs; ``create_time`` and ``start_time`` in ms since the epoch, ``duration`` in ms.

    ``gpu_num``, ``gpu_type``, ``npu_info`` and ``flavor_info`` differ between the samples: ``accelerators_of`` reads
    them. ``worker_server_num`` is the number of pods.
    """

    version_id: int
    job_name: str | None = None
    version_name: str | None = None
    status: Any = None
    create_time: int | None = None
    start_time: int | None = None
    duration: int | None = None
    worker_server_num: int | None = None
    gpu_num: Any = None
    gpu_type: Any = None
    npu_info: Any = None
    flavor_info: Any = None


@attrs.frozen
class VersionPage:
    """One page of a job's versions; ``version_count`` is how many it has on all pages."""

    versions: tuple[Version, ...] | None = None
    job_name: str | None = None
    version_count: int | None = None


@attrs.frozen
class CountedVersion:
    """One row of the list of all versions, which does not say of which job."""

    version_id: int
    version_name: str | None = None
    status: Any = None
    create_time: int | None = None
    start_time: int | None = None
    npu_num: int | None = None
    gpu_num: int | None = None


@attrs.frozen
class CountedPage:
    """A stretch of the list of all versions; ``total_count`` is how many were created, on all pages."""

    versions: tuple[CountedVersion, ...] | None = None
    total_count: int | None = None


@attrs.frozen
class LogFiles:
    """The names of a version's log files, which are those of its pods; declared as text, a list in the sample."""

    log_file_list: Any = None


def names_of(value: Any, /) -> tuple[str, ...]:
    """Give the names that a list, text that holds a JSON list, or text with commas between them stands for."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value.strip().removeprefix("[").removesuffix("]")
        value = parsed.split(",") if isinstance(parsed, str) else parsed
    names = [item.strip() for item in value if isinstance(item, str)] if isinstance(value, list) else []
    return tuple(dict.fromkeys([name for name in names if name]))


def accelerators_of(version: Version, /) -> Accelerators | None:
    """Give what each pod computes on, from whichever of the fields say it; GPUs first."""
    flavor = version.flavor_info if isinstance(version.flavor_info, dict) else {}
    gpu, npu = _device(flavor.get("gpu")), _device(version.npu_info) or _device(flavor.get("npu"))
    count = _whole(version.gpu_num)
    if count or gpu:
        model = version.gpu_type if isinstance(version.gpu_type, str) and version.gpu_type else gpu[1] if gpu else ""
        return Accelerators(kind="gpu", count=count or (gpu[0] if gpu else 0), model=model)
    return Accelerators(kind="npu", count=npu[0], model=npu[1]) if npu else None


def _device(value: Any) -> tuple[int, str] | None:
    """Give how many devices of which model an object names; None where it names none."""
    count = _whole(value.get("unit_num")) if isinstance(value, dict) else 0
    if not count:
        return None
    model = value.get("product_name")
    return count, model if isinstance(model, str) else ""


def _whole(value: Any) -> int:
    """Give a number above zero, which may stand in text; 0 for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if type(value) is int and value > 0 else 0


def evaluations_of(document: Any, /) -> tuple[Evaluation, ...]:
    """Give the evaluation of each class and the total, of those that have one; the members that are no metrics are not.

    Args:
        document: ``model_metric_list``, decoded; anything but an object has none.
    """
    if not isinstance(document, dict):
        return ()
    classes, total = document.get("metric"), document.get("total_metric")
    classes = [classes] if isinstance(classes, dict) else classes
    found = [
        Evaluation(
            class_id=_text(_object(entry.get("metric_meta")).get("class_id"), default=str(index)),
            class_name=_text(_object(entry.get("metric_meta")).get("class_name")),
            metrics=_metrics(entry.get("metric_values")),
        )
        for index, entry in enumerate(classes if isinstance(classes, list) else ())
        if isinstance(entry, dict)
    ]
    found.append(Evaluation(metrics=_metrics(_object(total).get("total_metric_values"))))
    return tuple([evaluation for evaluation in found if evaluation.metrics])


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any, *, default: str = "") -> str:
    return default if value is None or value == "" or isinstance(value, (dict, list)) else str(value)


def _metrics(value: Any) -> dict[str, float]:
    """Give the numbers of an object, also those in text, but for ``id``, which stands among the total's metrics."""
    found = {name: _finite(number) for name, number in _object(value).items() if name != "id"}
    return {name: number for name, number in found.items() if number is not None}


def _finite(value: Any) -> float | None:
    if type(value) not in (int, float, str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
