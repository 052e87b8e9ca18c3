"""The strategies that are shipped draw what they promise."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.series.columns import SeriesKey
from metricsbridge.testing import strategies

KEYS = [SeriesKey("job", f"worker-{number}", "", "hw.power") for number in range(3)]
BODY = json.dumps({"series": [{"name": "a", "values": [1, 2, None]}, {"name": "b", "values": []}]}).encode()


@given(st.data(), st.integers(-5_000, 5_000), st.integers(1, 50), st.integers(1, 500))
def test_a_window_lies_in_its_stretch_on_whole_steps(data, start, step, steps):
    first = -(-start // step) * step
    window = data.draw(strategies.windows(start, first + steps * step, step_ms=step))
    assert first <= window.start_ms < window.end_ms <= first + steps * step
    assert window.start_ms % step == window.end_ms % step == 0


@given(strategies.batches(100, 200, keys=KEYS, unit="W", interval_ms=10))
def test_a_batch_has_rising_times_in_its_window(batch):
    assert set(batch.keys) <= set(KEYS)
    assert set(batch.unit) <= {"W"}
    for _, times, values in batch:
        assert len(times) == len(values)
        assert (np.diff(times) > 0).all()
        assert ((times >= 100) & (times < 200)).all()


@given(strategies.truncated(BODY), strategies.flipped(BODY), strategies.mistyped(BODY))
def test_a_broken_body_is_broken_in_its_way(cut, flipped, mistyped):
    assert BODY.startswith(cut)
    assert cut != BODY
    assert len(flipped) == len(BODY)
    assert json.loads(mistyped) is not ...


@given(strategies.broken_payloads(b"no JSON at all"))
def test_bodies_of_another_kind_are_broken_too(payload):
    assert isinstance(payload, bytes)


@given(st.data())
def test_any_place_of_a_document_may_be_mistyped(data):
    found = data.draw(st.lists(strategies.mistyped(BODY), min_size=20, max_size=20))
    assert any(json.loads(one) != json.loads(BODY) for one in found)
