"""The library proper is vendor-neutral: what varies by vendor is in the provider's package, named there."""

from __future__ import annotations

import re
from typing import Final

import pytest

from project_files import files_in, name_of

# Companies, their clouds, services and consoles. The standards that the names of metrics come from (OpenTelemetry,
# UCUM) are no vendors. Prometheus and Kubernetes are what providers read, so they are vendors here.
VENDORS: Final = (
    "huawei", "modelarts", "myhuaweicloud", "telekom", "t-systems",
    "alibaba", "aliyun", "alicloud", "cloudmonitor", "dlc",
    "prometheus", "promql", "kubernetes", "kubeflow", "kubectl", "k8s", "thanos", "mimir",
    "amazon", "sagemaker", "cloudwatch", "azure", "azureml", "google", "gcp", "vertex",
    "tencent", "baidu", "volcengine", "bytedance",
)  # fmt: skip
# Short names that occur inside ordinary words, such as "pairs".
SHORT: Final = ("aws", "pai", "otc", "hws", "obs", "iam", "ascend")

_SPLIT: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMES: Final = re.compile(
    rf"(?:{'|'.join(map(re.escape, VENDORS))})|(?<![a-z0-9])(?:{'|'.join(SHORT)})(?![a-z0-9])", re.IGNORECASE
)


def _vendors_in(text: str) -> list[str]:
    """Give the names that occur in a text, camel case and snake case taken apart."""
    return sorted({match[0].lower() for match in _NAMES.finditer(_SPLIT.sub(" ", text).replace("_", " "))})


@pytest.mark.parametrize("path", files_in("metricsbridge"), ids=name_of)
def test_a_file_of_the_library_names_no_vendor(path):
    assert _vendors_in(f"{name_of(path)}\n{path.read_text('utf-8')}") == []


@pytest.mark.parametrize(
    "text",
    [
        "Huawei's",
        "MODELARTS",
        "otc_settings",
        "PaiProvider",
        "pai-dlc",
        "`prometheus`",
        "HUAWEICLOUD_SDK_AK",
        "iam_url",
    ],
)
def test_a_name_is_found_however_it_is_written(text):
    assert _vendors_in(text)


@pytest.mark.parametrize(
    "text", ["pairs of paid", "observe", "diamond", "hw.gpu.utilization", "descending", "OpenTelemetry"]
)
def test_ordinary_words_are_no_vendors(text):
    assert _vendors_in(text) == []
