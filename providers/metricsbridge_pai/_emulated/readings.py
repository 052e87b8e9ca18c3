"""How the emulated services behave where the vendor's documents leave it open."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Readings:
    """One reading of the documents; each attribute is a parameter of ``create_app``.

    Attributes:
        throttle_status: The HTTP status of ``Throttling.User``.
        retry_after_ms: What ``x-acs-retry-after`` tells a throttled client; None leaves the header out.
        calls_per_s: So many calls of one operation are let through in a second; None for any number.
        security_token_expires_ms: When the security tokens expire, ms since the epoch; None for never.
        refused_in_body: Whether CloudMonitor answers HTTP 200 and says in the body that a call failed.
        list_pods: Whether items of ListJobs have their pods.
        renamed: Whether a restarted pod had another id before, under which its points until then stand.
        uncovered: What GetJobMetrics answers for a job that it does not serve: nothing, or InvalidParameter.
        digits: How many digits of a percentage GetJobMetrics gives behind the point.
        offset_ms: How far behind its step's start the time of a point stands.
        time_at: Whether a point's time names the start of its step or period, or the end, in both services.
        percent_of: What 100 % is of GetJobMetrics' percentages of CPUs and GPUs: all that a pod has, or one.
        megabyte: Bytes in GetJobMetrics' MB.
        clip: So many of the newest steps of a range are answered for.
        escaped: How many times the points of CloudMonitor are JSON in a string.
        value_key: Where the value of CloudMonitor's points stands; with ``Average`` there are ``Minimum`` and
            ``Maximum`` too.
    """

    throttle_status: Literal[400, 429, 503] = 400
    retry_after_ms: int | None = 1_000
    calls_per_s: int | None = None
    security_token_expires_ms: int | None = None
    refused_in_body: bool = False
    list_pods: bool = False
    renamed: bool = False
    uncovered: Literal["empty", "error"] = "empty"
    digits: int = 2
    offset_ms: int = 26_587
    time_at: Literal["start", "end"] = "start"
    percent_of: Literal["pod", "unit"] = "pod"
    megabyte: int = 1_000_000
    clip: int = 1_440
    escaped: Literal[1, 2] = 1
    value_key: Literal["Value", "Average"] = "Value"
