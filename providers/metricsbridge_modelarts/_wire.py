"""The vendor's JSON for training jobs (API v2), only the fields that are used.

Source: ModelArts API reference, "Querying the Details About a Training Job" and "Querying a Training Job List".
"""

# Annotations are read at run time here, to decode into.

import attrs


@attrs.frozen
class Metadata:
    """Who the job is; ``create_time`` in ms since the epoch."""

    id: str
    name: str = ""
    create_time: int | None = None


@attrs.frozen
class Status:
    """How the job is doing; ``start_time`` in ms since the epoch (0: it never started), ``duration`` in ms."""

    phase: str = ""
    secondary_phase: str | None = None
    start_time: int | None = None
    duration: int | None = None
    tasks: tuple[str, ...] | None = None


@attrs.frozen
class Device:
    """The devices of a flavour; ``unit_num`` is a number for GPUs and a number in a string for NPUs."""

    unit_num: int | None = None
    product_name: str | None = None


@attrs.frozen
class FlavorInfo:
    """What a node of a flavour has."""

    gpu: Device | None = None
    npu: Device | None = None


@attrs.frozen
class FlavorDetail:
    """A flavour."""

    flavor_info: FlavorInfo | None = None


@attrs.frozen
class Resource:
    """What each node of the job is."""

    flavor_detail: FlavorDetail | None = None


@attrs.frozen
class Spec:
    """What was asked for."""

    resource: Resource | None = None


@attrs.frozen
class TrainingJob:
    """One training job."""

    metadata: Metadata
    status: Status = Status()
    spec: Spec | None = None


@attrs.frozen
class JobPage:
    """One page of the job list; ``count`` is how many jobs match on all pages."""

    items: tuple[TrainingJob, ...] | None = None
    count: int | None = None


@attrs.frozen
class Project:
    """One project of IAM."""

    id: str


@attrs.frozen
class Projects:
    """The projects of that name."""

    projects: tuple[Project, ...] = ()
