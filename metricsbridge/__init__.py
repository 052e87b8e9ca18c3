"""One asynchronous, vendor-neutral way to read the running metrics of machine-learning training jobs.

Importing this imports no provider and no HTTP library.
"""

from metricsbridge.blocking import collect_blocking
from metricsbridge.collection import Collection
from metricsbridge.collector import Collector
from metricsbridge.config import ConnectionSettings, SourceConfig, load_config
from metricsbridge.errors import (
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    InvalidRequestError,
    MetricsBridgeError,
    NotFoundError,
    PartialDataError,
    PermissionDeniedError,
    ProviderError,
    ProviderLoadError,
    ProviderNotFoundError,
    ResponseTooLargeError,
    ServiceUnavailableError,
    ThrottledError,
    TlsError,
    TransportError,
)
from metricsbridge.metrics import METRICS, Metric
from metricsbridge.model import (
    Absence,
    Accelerators,
    Call,
    Evaluation,
    Failure,
    Job,
    JobRef,
    JobSearch,
    JobStatus,
    JobTotals,
    Query,
    RelativeWindow,
    Task,
    Window,
)
from metricsbridge.observer import CallEvent, Observer, RequestEvent
from metricsbridge.planning import Plan, PlannedCalls
from metricsbridge.protocols import (
    Clock,
    Rate,
    SupportsBatchDecoding,
    SupportsBatchPlanning,
    SupportsEvaluations,
    SupportsJobSearch,
    SupportsJobTotals,
    TrainingJobMetrics,
)
from metricsbridge.registry import ProviderInfo, open_provider, providers
from metricsbridge.runtime._limits import Quota
from metricsbridge.secret import Secret
from metricsbridge.series.align import Frame, align
from metricsbridge.series.columns import SeriesBatch, SeriesKey, Statistic, Timing, concat, merge

__all__ = [
    "METRICS",
    "Absence",
    "Accelerators",
    "AuthenticationError",
    "Call",
    "CallEvent",
    "Clock",
    "Collection",
    "Collector",
    "ConfigurationError",
    "ConnectionSettings",
    "DeadlineExceededError",
    "DecodeError",
    "Evaluation",
    "Failure",
    "Frame",
    "InvalidRequestError",
    "Job",
    "JobRef",
    "JobSearch",
    "JobStatus",
    "JobTotals",
    "Metric",
    "MetricsBridgeError",
    "NotFoundError",
    "Observer",
    "PartialDataError",
    "PermissionDeniedError",
    "Plan",
    "PlannedCalls",
    "ProviderError",
    "ProviderInfo",
    "ProviderLoadError",
    "ProviderNotFoundError",
    "Query",
    "Quota",
    "Rate",
    "RelativeWindow",
    "RequestEvent",
    "ResponseTooLargeError",
    "Secret",
    "SeriesBatch",
    "SeriesKey",
    "ServiceUnavailableError",
    "SourceConfig",
    "Statistic",
    "SupportsBatchDecoding",
    "SupportsBatchPlanning",
    "SupportsEvaluations",
    "SupportsJobSearch",
    "SupportsJobTotals",
    "Task",
    "ThrottledError",
    "Timing",
    "TlsError",
    "TrainingJobMetrics",
    "TransportError",
    "Window",
    "align",
    "collect_blocking",
    "concat",
    "load_config",
    "merge",
    "open_provider",
    "providers",
]
