"""Wide intervals of bits: and, or and exclusive or of some members."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable

import pytest

from ivjoin.interval.machine import bitwise

WHAT = [(bitwise.and_, operator.and_), (bitwise.or_, operator.or_), (bitwise.xor, operator.xor)]
Interval = tuple[int, int]
Hull = Callable[[Interval, Interval], Interval]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("hull", "exact"), WHAT)
def test_members_of_wide_intervals(hull: Hull, exact: Callable[[int, int], int]) -> None:
    rng = random.Random(1)
    edges = [-(2**63), -(2**62), -(2**31) - 1, -16, -1, 0, 1, 15, 2**31, 2**53 + 1, 2**63 - 1]
    for _ in range(3000):
        x, y = (tuple(sorted(rng.choice(edges) for _ in range(2))) for _ in range(2))
        low, high = hull((x[0], x[1]), (y[0], y[1]))
        for _ in range(10):
            i, j = (rng.choice([*e, rng.randint(*e)]) for e in ((x[0], x[1]), (y[0], y[1])))
            assert low <= exact(i, j) <= high, (x, y, i, j)
        assert -(2**63) <= low <= high < 2**63
