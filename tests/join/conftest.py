"""Profiles of the random tests: the same examples on every run by default, fresh ones under ``-m soak``."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
settings.register_profile(
    "join", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET, report_multiple_bugs=False
)
settings.register_profile("join-fresh", deadline=None, suppress_health_check=_QUIET, report_multiple_bugs=False)
settings.load_profile(os.environ.get("IVJOIN_HYPOTHESIS", "join"))


@pytest.fixture(scope="module")
def contract_every_row() -> Iterator[None]:
    """Inputs here are small: contract the residual at every row, not after some hundreds, so that it prunes at all."""
    from ivjoin import bounds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_CONTRACT_EVERY", 1)
        yield
