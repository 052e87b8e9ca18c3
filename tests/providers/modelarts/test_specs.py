"""What the package's specs promise is what its providers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

import metricsbridge as mb
from metricsbridge.protocols import SupportsEvaluations, SupportsJobSearch, SupportsJobTotals
from metricsbridge.registry import load_provider
from metricsbridge.testing import FakeTransport
from metricsbridge_modelarts import otc, v1, v2

if TYPE_CHECKING:
    from metricsbridge.http import Request, Response

SETTINGS = {"endpoint": "https://host", "project_id": "p0", "access_key": "AK", "secret_key": "S3CRET-key-never-shown"}
CLASSES = {"modelarts": v2.ModelArts, "modelarts-v1": v1.ModelArtsV1, "otc-modelarts": otc.OtcModelArts}
OPERATIONS = {"modelarts": v2.OPERATIONS, "modelarts-v1": v1.OPERATIONS, "otc-modelarts": otc.OPERATIONS}
ABILITIES = {
    "modelarts": {SupportsJobSearch},
    "modelarts-v1": {SupportsJobSearch, SupportsEvaluations, SupportsJobTotals},
    "otc-modelarts": {SupportsJobSearch, SupportsEvaluations, SupportsJobTotals},
}
EACH = pytest.mark.parametrize("name", CLASSES)


def nothing_is_sent(request: Request) -> Response:
    raise AssertionError(request)


@EACH
async def test_what_a_spec_serves_is_what_is_planned_where_nothing_is_named(name: str) -> None:
    spec = load_provider(name)
    job = mb.Job(id="1/2", start_time_ms=1, tasks=(mb.Task(id="a"),))
    async with mb.open_provider(name, transport=FakeTransport(nothing_is_sent), **SETTINGS) as provider:
        assert type(provider) is spec.provider is CLASSES[name]
        for per in ("task", "device", "job"):
            calls = provider.plan(job, mb.Query(window=mb.Window(0, 1), per=per))
            assert {metric for call in calls for metric in call.metrics} == {*spec.serves.get(per, ())}
    assert set(spec.serves) <= {"task", "device", "job"}
    assert all(metric in mb.METRICS for metrics in spec.serves.values() for metric in metrics)


@EACH
def test_a_class_has_the_abilities_of_its_api_and_its_times_are_inferred(name: str) -> None:
    spec = load_provider(name)
    protocols = (SupportsJobSearch, SupportsEvaluations, SupportsJobTotals)
    assert {protocol for protocol in protocols if issubclass(CLASSES[name], protocol)} == ABILITIES[name]
    assert spec.timing is mb.Timing.INFERRED
    assert set(spec.limits) == set(OPERATIONS[name])


@EACH
def test_no_setting_shows_its_secret(name: str) -> None:
    cls = load_provider(name).settings
    secret = "S3CRET-key-never-shown"
    fields = {field.name for field in attrs.fields(cls)} & {"secret_key", "security_token", "password", "token"}
    shown = repr(cls(**dict.fromkeys(fields, mb.Secret(secret))))
    assert secret not in shown
    assert "***" in shown
