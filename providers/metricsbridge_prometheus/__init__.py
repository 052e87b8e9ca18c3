"""Training jobs on Kubernetes through Prometheus: the ``ProviderSpec`` that the entry point names."""

from typing import Final

from metricsbridge.provider_kit import ProviderSpec, Timing
from metricsbridge_prometheus._credentials import make_authenticator
from metricsbridge_prometheus._errors import classify
from metricsbridge_prometheus._settings import PrometheusSettings
from metricsbridge_prometheus.prometheus import SERVES, Prometheus, connect

PROMETHEUS: Final = ProviderSpec(
    settings=PrometheusSettings,
    connect=connect,
    authenticator=make_authenticator,
    classify=classify,
    description="Training jobs on Kubernetes through Prometheus (Kubeflow, JobSet, plain Jobs)",
    provider=Prometheus,
    serves=SERVES,
    timing=Timing.REPORTED,
)
