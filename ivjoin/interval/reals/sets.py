"""Intersection, convex hull and the cancellative differences (IEEE 1788-2015, clauses 9.3 and 10.5.6, 10.5.7)."""

from __future__ import annotations

from fractions import Fraction
from math import isinf

from ivjoin.interval.machine.rounding import add_down, add_up
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make

__all__ = ["cancel_minus", "cancel_plus", "convex_hull", "intersection"]


def intersection(x: Interval, y: Interval) -> Interval:
    """Return the members of both."""
    lo = x.inf if x.inf > y.inf else y.inf
    hi = x.sup if x.sup < y.sup else y.sup
    return make(lo, hi) if lo <= hi else EMPTY


def convex_hull(x: Interval, y: Interval) -> Interval:
    """Return the narrowest interval that contains both."""
    return make(x.inf if x.inf < y.inf else y.inf, x.sup if x.sup > y.sup else y.sup)


def cancel_minus(x: Interval, y: Interval) -> Interval:
    """Return the narrowest ``z`` such that ``y + z`` contains `x`, which undoes ``add``.

    `ENTIRE` unless both are bounded and `x` is at least as wide as `y`, compared exactly.
    """
    if x.inf > x.sup:
        # Nothing is to be covered, so the empty set does, unless y is unbounded.
        return EMPTY if y.inf > y.sup or not (isinf(y.inf) or isinf(y.sup)) else ENTIRE
    if isinf(x.inf) or isinf(x.sup) or isinf(y.inf) or isinf(y.sup):  # an empty y has infinite endpoints too
        return ENTIRE
    if Fraction(x.sup) - Fraction(x.inf) < Fraction(y.sup) - Fraction(y.inf):
        return ENTIRE
    return make(add_down(x.inf, -y.inf), add_up(x.sup, -y.sup))


def cancel_plus(x: Interval, y: Interval) -> Interval:
    """Return ``cancel_minus(x, -y)``."""
    return cancel_minus(x, make(-y.sup, -y.inf))
