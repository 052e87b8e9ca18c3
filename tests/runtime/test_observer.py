"""An observer breaks nothing, whatever it does, and where there is none nothing is done for it."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import metricsbridge as mb
from metricsbridge.testing import FakeClock
from watched_service import JOBS, OK, WINDOW, Notes, Service, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Raising:
    """Raises whatever it is told."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        self.error = error
        self.told = 0

    def on_request(self, event: mb.RequestEvent, /) -> None:
        self.told += 1
        raise self.error()

    def on_call(self, event: mb.CallEvent, /) -> None:
        self.told += 1
        raise self.error()


@pytest.mark.parametrize("error", [ValueError, anyio.get_cancelled_exc_class], ids=["a bug", "a cancellation"])
async def test_an_observer_that_raises_breaks_nothing_and_is_reported_once(
    error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    raised = error if error is ValueError else error()
    observer = Raising(raised)
    service = Service(FakeClock(), lambda request: OK)
    async with mb.Collector({"hw": opened(service)}, clock=service.clock, observer=observer) as collector:
        result = await collector.collect(JOBS, window=WINDOW)
    assert result.complete
    assert len(result.series) == 8
    assert observer.told == len(service.seen) + 3 * len(JOBS)
    assert [record.message for record in caplog.records] == ["the observer Raising raised; it is not said again"]
    assert caplog.records[0].levelno == logging.WARNING


async def test_what_an_observer_raises_has_nothing_of_the_request_s_frames(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(FakeClock(), lambda request: ("broken", 0.0))
    async with opened(service, observer=Raising(ValueError)) as provider:
        with pytest.raises(mb.TransportError):
            await provider.get_job("j")
    assert caplog.records[0].exc_info is not None
    error = caplog.records[0].exc_info[1]
    assert isinstance(error, ValueError)
    assert error.__context__ is None


async def test_ctrl_c_in_an_observer_is_no_mistake_of_it() -> None:
    service = Service(FakeClock(), lambda request: OK)
    async with opened(service, observer=Raising(KeyboardInterrupt)) as provider:
        with pytest.raises(KeyboardInterrupt):
            await provider.get_job("j")


class Asynchronous(mb.Observer):
    async def on_request(self, event: mb.RequestEvent, /) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [(print, "methods on_request and on_call"), (Notes, "the class Notes"), (Asynchronous(), "plain function")],
)
async def test_what_can_not_be_an_observer_is_refused_at_once(wrong: Any, hint: str) -> None:
    service = Service(FakeClock(), lambda request: OK)
    with pytest.raises(mb.ConfigurationError, match=hint):
        mb.Collector({}, observer=wrong)
    with pytest.raises(mb.ConfigurationError, match=hint):
        async with opened(service, observer=wrong):
            pass
    assert service.seen == []


async def profiled(work: Callable[[], Any]) -> Counter[str]:
    """Count the calls, of Python functions and from them, by the file that they happen in."""
    counts: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            counts[frame.f_code.co_filename.rpartition("metricsbridge/")[2]] += 1

    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return counts


async def test_without_an_observer_nothing_is_called_and_nothing_made_for_one() -> None:
    found = []
    for observer in (None, Notes()):
        service = Service(FakeClock(), lambda request: ("ok", 0.0))
        async with mb.Collector({"hw": opened(service)}, clock=service.clock, observer=observer) as collector:
            await collector.collect(JOBS, window=WINDOW)  # the log-in, and what is imported and remembered, is over
            found.append(await profiled(lambda c=collector: c.collect(JOBS, window=WINDOW)))
    without, with_one = found
    of_watching = ["observer.py", "runtime/_watch.py"]
    assert [without[name] for name in of_watching] == [0, 0]
    assert all(with_one[name] > 0 for name in of_watching)
    assert without["runtime/_retry.py"] == with_one["runtime/_retry.py"] > 0
    assert without["runtime/_context.py"] < with_one["runtime/_context.py"]


async def test_without_an_observer_no_layer_is_added() -> None:
    service = Service(FakeClock(), lambda request: OK)
    layers: dict[bool, list[str]] = {}
    for observer in (None, Notes()):
        async with opened(service, observer=observer) as provider:
            layer: Any = provider.transport
            names = []
            while layer is not None:
                names.append(type(layer).__name__)
                layer = getattr(layer, "inner", None)
            layers[observer is not None] = names
    assert [name for name in layers[False] if "Watch" in name] == []
    assert layers[True] == ["SendWatch", *layers[False][:-1], "RequestWatch", "FakeTransport"]
