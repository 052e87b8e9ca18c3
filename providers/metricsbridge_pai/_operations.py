"""The API calls that are made, by the vendor's names: limits, reports and signatures go by them."""

from __future__ import annotations

from typing import Final

GET_JOB: Final = "GetJob"
LIST_JOBS: Final = "ListJobs"
GET_JOB_METRICS: Final = "GetJobMetrics"
GET_METRICS: Final = "GetMetrics"
DESCRIBE_METRIC_LIST: Final = "DescribeMetricList"
DESCRIBE_METRIC_META_LIST: Final = "DescribeMetricMetaList"

CLOUDMONITOR: Final = frozenset({DESCRIBE_METRIC_LIST, DESCRIBE_METRIC_META_LIST})
"""Operations of CloudMonitor itself; the others are PAI-DLC's."""


def version_of(operation: str, /) -> str:
    """Give the version of the API that an operation belongs to, which each request names."""
    return "2019-01-01" if operation in CLOUDMONITOR else "2020-12-03"
