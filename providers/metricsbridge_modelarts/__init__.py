"""Huawei Cloud ModelArts and its sister on Open Telekom Cloud: one ``ProviderSpec`` for each entry point."""

from typing import Final

from metricsbridge.provider_kit import ProviderSpec, Rate, Timing
from metricsbridge_modelarts import otc, v1, v2
from metricsbridge_modelarts._credentials import make_authenticator
from metricsbridge_modelarts._errors import classify, classify_v1
from metricsbridge_modelarts._otc_credentials import make_otc_authenticator
from metricsbridge_modelarts._otc_settings import OtcModelArtsSettings
from metricsbridge_modelarts._settings import ModelArtsSettings, ModelArtsV1Settings

_GATEWAY_DEFAULT: Final = Rate(200.0)
"""ModelArts documents no limit of its own; the gateway before it takes 200 requests a second for each API unless a
service asks for less (API Gateway user guide, error APIGW.0308)."""

MODELARTS: Final = ProviderSpec(
    settings=ModelArtsSettings,
    connect=v2.connect,
    authenticator=make_authenticator,
    limits=dict.fromkeys(v2.OPERATIONS, _GATEWAY_DEFAULT),
    classify=classify,
    description="Huawei Cloud ModelArts training jobs (API v2)",
    provider=v2.ModelArts,
    serves=v2.SERVES,
    timing=Timing.INFERRED,
)

MODELARTS_V1: Final = ProviderSpec(
    settings=ModelArtsV1Settings,
    connect=v1.connect,
    authenticator=make_authenticator,
    limits=dict.fromkeys(v1.OPERATIONS, _GATEWAY_DEFAULT),
    classify=classify_v1,
    description="Huawei Cloud ModelArts training jobs of the old version (API v1)",
    provider=v1.ModelArtsV1,
    serves=v1.SERVES,
    timing=Timing.INFERRED,
)

OTC_MODELARTS: Final = ProviderSpec(
    settings=OtcModelArtsSettings,
    connect=otc.connect,
    authenticator=make_otc_authenticator,
    limits=dict.fromkeys(otc.OPERATIONS, _GATEWAY_DEFAULT),
    classify=classify_v1,
    description="Open Telekom Cloud ModelArts training jobs (API v1)",
    provider=otc.OtcModelArts,
    serves=v1.SERVES,
    timing=Timing.INFERRED,
)
