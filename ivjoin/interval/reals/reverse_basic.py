"""Reverse functions of the basic operations that IEEE 1788 leaves to the caller, on intervals of reals.

Like ``mul_rev``, each takes the other argument, the results and the interval to contract. ``_rev1`` contracts the first
argument, ``_rev2`` the second. The result is the hull of the real preimage, rounded outward.
"""

from __future__ import annotations

from ivjoin.interval.machine.rounding import INF
from ivjoin.interval.reals import arithmetic, relations, reverse
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.reals.sets import convex_hull, intersection

__all__ = [
    "add_rev", "ceil_rev", "div_rev1", "div_rev2", "floor_rev", "max_rev", "min_rev", "neg_rev", "sign_rev", "sub_rev1",
    "sub_rev2",
]  # fmt: skip


def add_rev(b: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x`` that with some member of ``b`` have a sum in ``c``."""
    return intersection(arithmetic.sub(c, b), x)


def sub_rev1(b: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x`` that less some member of ``b`` are in ``c``."""
    return intersection(arithmetic.add(c, b), x)


def sub_rev2(a: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x`` that leave a difference in ``c`` when taken from some member of ``a``."""
    return intersection(arithmetic.sub(a, c), x)


def div_rev1(b: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x``, dividends, with a quotient in ``c`` by some member of ``b`` other than 0."""
    return EMPTY if b.inf == b.sup == 0.0 else intersection(arithmetic.mul(c, b), x)


def div_rev2(a: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x``, divisors, that take some member of ``a`` to a quotient in ``c``."""
    out = reverse.mul_rev(c, a, x)
    return EMPTY if out.inf == out.sup == 0.0 else out


def neg_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x`` whose negatives are in ``c``."""
    return intersection(arithmetic.neg(c), x)


def min_rev(b: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x`` that with some member of ``b`` have their minimum in ``c``."""
    if relations.is_empty(b) or relations.is_empty(c) or b.sup < c.inf:
        return EMPTY
    above = intersection(x, make(c.inf, INF)) if c.inf > -INF else x
    return above if not relations.disjoint(b, c) or c.sup == INF else intersection(above, c)


def max_rev(b: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of ``x`` that with some member of ``b`` have their maximum in ``c``."""
    return arithmetic.neg(min_rev(arithmetic.neg(b), arithmetic.neg(c), arithmetic.neg(x)))


_UP, _DOWN = make(0.0, 1.0), make(-1.0, 0.0)


def _steps(c: Interval, x: Interval, width: Interval) -> Interval:
    # The open end of a step belongs to the hull.
    first, last = arithmetic.ceil(c).inf, arithmetic.floor(c).sup
    return intersection(arithmetic.add(make(first, last), width), x) if first <= last else EMPTY


def floor_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of ``x`` whose floor is in ``c``."""
    return _steps(c, x, _UP)


def ceil_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of ``x`` whose ceiling is in ``c``."""
    return _steps(c, x, _DOWN)


def sign_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of ``x`` whose sign is in ``c``."""
    negative = intersection(make(-INF, 0.0), x) if -1 in c else EMPTY
    positive = intersection(make(0.0, INF), x) if 1 in c else EMPTY
    out = convex_hull(_but_zero(negative), _but_zero(positive))
    return convex_hull(out, intersection(make(0.0, 0.0), x)) if 0 in c else out


def _but_zero(x: Interval) -> Interval:
    return EMPTY if x.inf == x.sup == 0.0 else x
