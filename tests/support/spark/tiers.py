"""The tests of Spark that run in the first tier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

short = pytest.mark.spark_short


def one_short(values: Iterable[Any], chosen: Any) -> list[Any]:
    """Return the values of a parameter; the test with the chosen one runs in the first tier."""
    return [pytest.param(value, marks=short) if value == chosen else value for value in values]
