"""What the tests of joins share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from join.builders import by_arrow

from ivjoin.operator.pruning import prune_bounds as bounds


@pytest.fixture(scope="module")
def contract_every_row() -> Iterator[None]:
    """Inputs here are small: contract the residual at every row, not after some hundreds, so that it prunes at all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_CONTRACT_EVERY", 1)
        yield


@pytest.fixture(params=["blocks", "no blocks"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether compiled code or Arrow builds the output."""
    with by_arrow(request.param == "no blocks"):
        yield request.param
