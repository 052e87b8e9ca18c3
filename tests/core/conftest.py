"""What the core's tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from metricsbridge.series import _kernel

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def compiled() -> None:
    """Skip where the kernel was not built; under CI that is a failure."""
    if _kernel.COMPILED is None:
        reason = f"the compiled kernel is not there: {_kernel.ENGINE}"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


@pytest.fixture(scope="module", params=["compiled", "python"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a module's tests with the compiled kernel, and again with numpy and msgspec in its place."""
    if request.param == "compiled":
        request.getfixturevalue("compiled")
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kernel, "COMPILED", None)
        yield request.param
