"""For ``python -m metricsbridge.cli``."""

from metricsbridge.cli import main

main()
