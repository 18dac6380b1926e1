"""Integer intervals: bounds beyond doubles, and searches.

``tests/interval/typed/test_exhaustive.py`` compares every operator with the hull.
"""

from __future__ import annotations

import random

from ivjoin.interval.machine import integers as m
from ivjoin.interval.machine.bisection import first_true, last_true


def test_roots() -> None:
    for n in (*range(-70, 71), 10**30, -(10**30), 10**30 - 1):
        for k in (1, 2, 3, 4, 5):
            r = m.root_down(n, k)
            assert r * abs(r) ** (k - 1) <= n < (r + 1) * abs(r + 1) ** (k - 1)


def test_bounds_are_exact_beyond_doubles() -> None:
    # 1525 * 13365 was found infeasible by a solver that divided in doubles; larger ones lose digits for sure.
    big = 3037000499
    assert m.mul_rev((big * big, big * big), (big, big), (0, 1 << 62)) == (big, big)
    assert m.div((-(1 << 63), 1 << 62), (3, 3)) == (-3074457345618258602, 1537228672809129301)


def test_search_for_the_first_and_last() -> None:
    rng = random.Random(3)
    for _ in range(3000):
        lo = rng.randint(-30, 30)
        hi, at = lo + rng.randint(0, 40), rng.randint(lo - 3, lo + 43)
        near = rng.choice([None, rng.randint(lo - 5, hi + 5)])
        assert first_true(lambda n, at=at: n >= at, lo, hi, near) == max(lo, min(at, hi + 1))
        assert last_true(lambda n, at=at: n <= at, lo, hi, near) == min(hi, max(at, lo - 1))
    tries = []
    first_true(lambda n: tries.append(n) or n >= 123_456_789_012_345, -(1 << 63), (1 << 63) - 1)
    assert len(tries) < 130
