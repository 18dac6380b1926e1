"""Numbers that describe an interval (IEEE 1788-2015, clauses 9.2, 10.5.9 and 12.12.8)."""

from __future__ import annotations

from math import inf as INF
from math import nan

from ivjoin.interval.machine.rounding import MAX, add_up
from ivjoin.interval.reals.bare import Interval

__all__ = ["inf", "mag", "mid", "mid_rad", "mig", "rad", "sup", "wid"]


def inf(x: Interval) -> float:
    """Return the lower endpoint; +inf for the empty set. A zero has a minus sign, as the standard requires."""
    return x.inf if x.inf != 0.0 else -0.0


def sup(x: Interval) -> float:
    """Return the upper endpoint; -inf for the empty set."""
    return x.sup


def mid(x: Interval) -> float:
    """Return the midpoint, rounded; NaN for `EMPTY`, 0 for `ENTIRE`, the largest double (signed) for a half-line."""
    a, b = x.inf, x.sup
    if a > b:
        return nan
    if a == -INF:
        return 0.0 if b == INF else -MAX
    if b == INF:
        return MAX
    total = a + b
    # Halving rounds only a subnormal sum, and that one is exact; an overflow needs two halves that are large.
    middle = total * 0.5 if -INF < total < INF else a * 0.5 + b * 0.5
    return middle + 0.0


def rad(x: Interval) -> float:
    """Return the smallest radius around `mid` that reaches both endpoints, rounded up; NaN for `EMPTY`."""
    a, b = x.inf, x.sup
    if a > b:
        return nan
    if a == -INF or b == INF:
        return INF
    middle = mid(x)
    left, right = add_up(middle, -a), add_up(b, -middle)
    return left if left > right else right


def mid_rad(x: Interval) -> tuple[float, float]:
    """Return `mid` and `rad`."""
    return mid(x), rad(x)


def wid(x: Interval) -> float:
    """Return the width rounded up; NaN for `EMPTY`."""
    return nan if x.inf > x.sup else add_up(x.sup, -x.inf)


def mag(x: Interval) -> float:
    """Return the largest absolute value of the members; NaN for `EMPTY`."""
    if x.inf > x.sup:
        return nan
    return -x.inf if -x.inf > x.sup else x.sup


def mig(x: Interval) -> float:
    """Return the smallest absolute value of the members; NaN for `EMPTY`."""
    if x.inf > x.sup:
        return nan
    if x.inf > 0.0:
        return x.inf
    return -x.sup if x.sup < 0.0 else 0.0
