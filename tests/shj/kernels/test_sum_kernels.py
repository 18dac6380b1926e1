"""Sums of doubles over ranges equal sums of fractions: exact, and rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ivjoin.operator.lookup.aggregates.reduce import DoubleSums, Ranges

_rng = np.random.default_rng(11)
_TINY = 5e-324  # the least positive double
COLUMNS = {
    "even": _rng.random(300), "normal": _rng.normal(0, 1, 300), "cents": np.round(_rng.random(300) * 100, 2),
    "whole": _rng.integers(-1000, 1000, 300).astype(np.float64),
    "greatest": np.array([1.7976931348623157e308, 1.7976931348623157e308, -1.7976931348623157e308]),
    "least": np.array([_TINY, -_TINY, 3 * _TINY, 2.2250738585072014e-308, -2.225073858507201e-308]),
    "zeros": np.array([0.0, -0.0]),
    "none": np.array([]),
    "cancelling": np.array([1e12, 1.0, -1e12, 2.0**53, 2.0**53 + 2, -(2.0**54), 0.5]),
    "half way": np.array([2.0**80, 2.0**27, 1.0, -(2.0**80), -(2.0**27), -1.0, 2.0**80 + 2.0**28, 2.0**27]),
    "far apart": np.array([2.0**100, 1.0, -1.0, 2.0**47, 3.0]),
}  # fmt: skip


def sums(values: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> list[float]:
    found = DoubleSums.of(values)
    assert found is not None
    return found.between(Ranges(lo, hi)).tolist()


def exact(values: np.ndarray) -> float:
    total = sum(map(Fraction, values.tolist()), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@pytest.mark.parametrize("name", COLUMNS)
def test_ranges_of_a_column(name: str) -> None:
    values = COLUMNS[name]
    ends = np.arange(len(values) + 1) if len(values) < 20 else _rng.integers(0, len(values) + 1, 40)
    lo, hi = (x.ravel() for x in np.meshgrid(ends, ends))
    lo, hi = np.minimum(lo, hi), np.maximum(lo, hi)
    expected = [exact(values[a:b]) for a, b in zip(lo, hi, strict=True)]
    assert sums(values, lo, hi) == expected


@pytest.mark.parametrize("seed", range(8))
def test_random_magnitudes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = int(rng.integers(1, 40))
        values = np.ldexp(rng.normal(0, 1, n), rng.integers(-1000, 900) + rng.integers(0, 20, n))
        whole = np.ldexp(rng.integers(-3, 4, n).astype(float), int(rng.integers(-500, 500)) + rng.integers(0, 80, n))
        for column in (values, whole, np.r_[values, -values[::-1]]):
            lo = rng.integers(0, len(column) + 1, 10)
            hi = np.minimum(len(column), lo + rng.integers(0, n + 1, 10))
            assert sums(column, lo, hi) == [exact(column[a:b]) for a, b in zip(lo, hi, strict=True)]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e300])
def test_values_too_far_apart_are_left_to_others(odd: float) -> None:
    assert DoubleSums.of(np.array([1.0, odd, 1e-3])) is None
