"""The contract between a provider and the library, as tests that an author inherits.

In a test module::

    class TestAcme(ProviderContract):
        spec = ACME
        settings = {"endpoint": "https://acme.test", "token": "a-made-up-token"}

        def simulate(self, fleet, clock):
            return SimulatedAcme(fleet, clock)

Whatever a check says is wrong, it says what to do about it. Checks of what a provider does not declare (listing jobs,
secrets, a level) skip themselves. It needs pytest and hypothesis: the extra ``testing``.
"""

from __future__ import annotations

from metricsbridge.testing._contract_account import AccountChecks
from metricsbridge.testing._contract_decoding import DecodingChecks
from metricsbridge.testing._contract_hooks import Bench, ContractHooks
from metricsbridge.testing._contract_jobs import JobChecks
from metricsbridge.testing._contract_plans import PlanChecks
from metricsbridge.testing._contract_search import SearchChecks
from metricsbridge.testing._contract_series import SeriesChecks
from metricsbridge.testing._contract_settings import SettingsChecks
from metricsbridge.testing._contract_windows import WindowChecks
from metricsbridge.testing._contract_wire import Simulator

__all__ = ["Bench", "ContractHooks", "ProviderContract", "Simulator"]


class ProviderContract(
    SettingsChecks,
    JobChecks,
    SearchChecks,
    PlanChecks,
    SeriesChecks,
    WindowChecks,
    DecodingChecks,
    AccountChecks,
    ContractHooks,
):
    """What every provider must pass; see ``ContractHooks`` for what an author overrides."""
