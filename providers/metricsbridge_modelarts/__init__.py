"""Huawei Cloud ModelArts: the providers that this package offers, one ``ProviderSpec`` for each entry point."""

from typing import Final

from metricsbridge.provider_kit import ProviderSpec, Rate
from metricsbridge_modelarts._credentials import make_authenticator
from metricsbridge_modelarts._errors import classify
from metricsbridge_modelarts._settings import ModelArtsSettings
from metricsbridge_modelarts.v2 import OPERATIONS, connect

_GATEWAY_DEFAULT: Final = Rate(200.0)
"""ModelArts documents no limit of its own; the gateway before it takes 200 requests a second for each API unless a
service asks for less (API Gateway user guide, error APIGW.0308)."""

MODELARTS: Final = ProviderSpec(
    settings=ModelArtsSettings,
    connect=connect,
    authenticator=make_authenticator,
    limits=dict.fromkeys(OPERATIONS, _GATEWAY_DEFAULT),
    classify=classify,
    description="Huawei Cloud ModelArts training jobs (API v2)",
)
