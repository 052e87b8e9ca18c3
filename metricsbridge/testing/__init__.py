"""For tests of providers and of programs that use the library: no network, no waiting, a simulated truth."""

from metricsbridge.testing._clock import FakeClock
from metricsbridge.testing._transport import FakeTransport

__all__ = ["FakeClock", "FakeTransport"]
