"""What a planted bug is: the reference provider with one mistake, and the check that must catch it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from metricsbridge.testing.contract import ProviderContract
from reference_provider import REFERENCE, Reference
from reference_service import TOKEN, URL, SimulatedReference

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricsbridge.provider_kit import ProviderSpec, Transport
    from reference_provider import Settings


class ReferenceContract(ProviderContract):
    """The contract of the reference provider, or of one made from it."""

    spec = REFERENCE
    settings = {"endpoint": URL, "token": TOKEN}  # noqa: RUF012  # read only
    samples_in_any_order = True

    def simulate(self, fleet, clock):
        return SimulatedReference(fleet, clock)


@attrs.frozen
class PlantedBug:
    """One mistake.

    Attributes:
        mistake: What is wrong, in words.
        caught_by: The check that must fail, without ``test_`` before it.
        spec: The provider that makes the mistake.
    """

    mistake: str
    caught_by: str
    spec: ProviderSpec

    def contract(self) -> ProviderContract:
        found = type("Broken", (ReferenceContract,), {"spec": self.spec})()
        assert isinstance(found, ProviderContract)
        return found


BUGS: Final[list[PlantedBug]] = []


def spec_of(provider: type[Reference], **changes: Any) -> ProviderSpec:
    async def connect(settings: Settings, transport: Transport) -> Reference:
        return provider(transport, settings)

    return attrs.evolve(REFERENCE, **{"connect": connect, "provider": provider, **changes})


def planted(mistake: str, caught_by: str) -> Callable[[Any], Any]:
    """Plant a class that makes a mistake, or a function that gives the spec that does."""

    def plant(made: Any) -> Any:
        spec = spec_of(made) if isinstance(made, type) else made()
        BUGS.append(PlantedBug(mistake, caught_by, spec))
        return made

    return plant


def outcome(bug: PlantedBug) -> str:
    """Run the check that must catch a bug; gives what it says, or "" where it passes."""
    contract = bug.contract()
    try:
        getattr(contract, f"test_{bug.caught_by}")()
    except (AssertionError, Exception) as error:
        return str(error) or type(error).__name__
    except BaseException as error:
        if type(error).__name__ != "Failed":  # pytest.fail raises no Exception
            raise
        return str(error)
    return ""
