"""Alibaba Cloud PAI: the providers that this package offers, one ``ProviderSpec`` for each entry point."""

from typing import Final

from metricsbridge.provider_kit import ProviderSpec, Rate, Timing
from metricsbridge_pai._catalog import CLOUDMONITOR_METRICS, JOB_METRICS
from metricsbridge_pai._credentials import make_authenticator
from metricsbridge_pai._errors import classify
from metricsbridge_pai._operations import DESCRIBE_METRIC_LIST, DESCRIBE_METRIC_META_LIST, GET_METRICS
from metricsbridge_pai._settings import PaiSettings
from metricsbridge_pai.dlc import PaiDlc, connect

_CLOUDMONITOR: Final = Rate(50.0)
"""CloudMonitor takes 50 calls a second for each API and account, all its users together (CloudMonitor API reference).
``GetMetrics`` passes on to it. PAI-DLC documents no limit for its own operations."""

PAI_DLC: Final = ProviderSpec(
    settings=PaiSettings,
    connect=connect,
    authenticator=make_authenticator,
    limits=dict.fromkeys((DESCRIBE_METRIC_LIST, DESCRIBE_METRIC_META_LIST, GET_METRICS), _CLOUDMONITOR),
    classify=classify,
    description="Alibaba Cloud PAI-DLC training jobs",
    provider=PaiDlc,
    serves={
        "task": tuple([entry.metric for entry in JOB_METRICS.values()]),
        "device": tuple([known.metric for known in CLOUDMONITOR_METRICS.values() if known.level == "device"]),
        "job": tuple([known.metric for known in CLOUDMONITOR_METRICS.values() if known.level == "job"]),
    },
    timing=Timing.REPORTED,
)
