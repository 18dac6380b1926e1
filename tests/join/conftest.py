"""Profiles of the random tests: the same examples on every run by default, fresh ones under ``-m soak``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
settings.register_profile(
    "join", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET, report_multiple_bugs=False
)
settings.register_profile("join-fresh", deadline=None, suppress_health_check=_QUIET, report_multiple_bugs=False)
settings.load_profile(os.environ.get("IVJOIN_HYPOTHESIS", "join"))
