"""Ready-made observers: pass one as ``observer=`` to ``open_provider`` or ``Collector``.

What a sink needs besides the library is imported when one is made.
"""

from metricsbridge.sinks._logs import LogSink
from metricsbridge.sinks._opentelemetry import OpenTelemetryMetrics, OpenTelemetryTraces
from metricsbridge.sinks._together import Together

__all__ = ["LogSink", "OpenTelemetryMetrics", "OpenTelemetryTraces", "Together"]
