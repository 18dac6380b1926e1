"""Arithmetic and rounding functions on intervals (IEEE 1788-2015, clauses 9.1 and 10.5.3), with the tightest bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index

from ivjoin.interval.machine.rounding import INF, fma_down, fma_up, mul_down, mul_up, sqrt_down, sqrt_up
from ivjoin.interval.reals import endpoints
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.reals.point_powers import power_at
from ivjoin.interval.reals.pointwise import above, below

__all__ = [
    "abs",
    "add",
    "ceil",
    "div",
    "floor",
    "fma",
    "max",
    "min",
    "mul",
    "neg",
    "pos",
    "pown",
    "recip",
    "round_ties_to_away",
    "round_ties_to_even",
    "sign",
    "sqr",
    "sqrt",
    "sub",
    "trunc",
]

_ONE = make(1.0, 1.0)


def pos(x: Interval) -> Interval:
    """Return the interval itself."""
    return x


def neg(x: Interval) -> Interval:
    """Return the negatives of the members."""
    return -x


def add(x: Interval, y: Interval) -> Interval:
    """Return the sums of a member of each."""
    return make(*endpoints.add(x.inf, x.sup, y.inf, y.sup))


def sub(x: Interval, y: Interval) -> Interval:
    """Return the differences of a member of `x` and a member of `y`."""
    return make(*endpoints.sub(x.inf, x.sup, y.inf, y.sup))


def mul(x: Interval, y: Interval) -> Interval:
    """Return the products of a member of each."""
    return make(*endpoints.mul(x.inf, x.sup, y.inf, y.sup))


def div(x: Interval, y: Interval) -> Interval:
    """Return the quotients of a member of `x` and a member of `y` other than 0."""
    return make(*endpoints.div(x.inf, x.sup, y.inf, y.sup))


def recip(x: Interval) -> Interval:
    """Return the reciprocals of the members other than 0."""
    return div(_ONE, x)


def sqr(x: Interval) -> Interval:
    """Return the squares of the members."""
    a, b = x.inf, x.sup
    if a > b:
        return EMPTY
    if a >= 0.0:
        return make(mul_down(a, a), mul_up(b, b))
    if b <= 0.0:
        return make(mul_down(b, b), mul_up(a, a))
    return make(0.0, mul_up(a, a) if -a > b else mul_up(b, b))


def sqrt(x: Interval) -> Interval:
    """Return the square roots of the members that are not negative."""
    if x.sup < 0.0:
        return EMPTY
    return make(sqrt_down(x.inf) if x.inf > 0.0 else 0.0, sqrt_up(x.sup))


def fma(x: Interval, y: Interval, z: Interval) -> Interval:
    """Return ``x * y + z`` of a member of each, with one rounding."""
    a, b, c, d, low, high = x.inf, x.sup, y.inf, y.sup, z.inf, z.sup
    if a > b or c > d or low > high:
        return EMPTY
    return make(*endpoints.corners(lambda u, v: fma_down(u, v, low), lambda u, v: fma_up(u, v, high), 0.0, a, b, c, d))


def _power(rounded: Callable[..., float], x: float, n: int) -> float:
    """Return ``x ** n`` of ``x >= 0`` rounded by `below` or `above`, with its limits at 0 and infinity."""
    if x == 0.0 or x == INF:
        return 0.0 if (x == 0.0) is (n > 0) else INF
    return rounded(power_at, x, n)


def pown(x: Interval, n: int) -> Interval:
    """Return the `n`-th powers of the members, except 0 for a negative `n`; ``pown(x, 0)`` is [1, 1]."""
    n = index(n)
    a, b = x.inf, x.sup
    if a > b or (n < 0 and a == b == 0.0):
        return EMPTY
    if n == 0:
        return _ONE
    if n == 1:
        return x
    if n == 2:
        return sqr(x)
    if n == -1:
        return recip(x)
    if a >= 0.0:
        low, high = (a, b) if n > 0 else (b, a)
        return make(_power(below, low, n), _power(above, high, n))
    if b <= 0.0:
        mirrored = pown(make(-b, -a), n)
        return neg(mirrored) if n & 1 else mirrored
    if n & 1:
        return ENTIRE if n < 0 else make(-_power(above, -a, n), _power(above, b, n))
    farthest = -a if -a > b else b
    return make(0.0, _power(above, farthest, n)) if n > 0 else make(_power(below, farthest, n), INF)


def abs(x: Interval) -> Interval:
    """Return the absolute values of the members."""
    return x.__abs__()


def min(x: Interval, y: Interval) -> Interval:
    """Return the smaller of a member of each."""
    if x.inf > x.sup or y.inf > y.sup:
        return EMPTY
    return make(x.inf if x.inf < y.inf else y.inf, x.sup if x.sup < y.sup else y.sup)


def max(x: Interval, y: Interval) -> Interval:
    """Return the larger of a member of each."""
    if x.inf > x.sup or y.inf > y.sup:
        return EMPTY
    return make(x.inf if x.inf > y.inf else y.inf, x.sup if x.sup > y.sup else y.sup)


# From here upward, every double is an integer. Infinities do not change.
_INTEGRAL = 4503599627370496.0


def _stepwise(step: Callable[[float], float], x: Interval) -> Interval:
    """Return the image under a rising function that gives integers."""
    if x.inf > x.sup:
        return EMPTY
    low, high = (float(step(e)) if -_INTEGRAL < e < _INTEGRAL else e for e in (x.inf, x.sup))
    return make(low, high)


def _nearest_away(x: float) -> float:
    whole = math.trunc(x)
    # x - whole is exact, which floor(x + 0.5) is not: 0.5 - 2**-54 would become 1.
    step = math.copysign(1.0, x) if math.fabs(x - whole) >= 0.5 else 0.0
    return whole + step


def sign(x: Interval) -> Interval:
    """Return the signs -1, 0 and 1 of the members."""
    return EMPTY if x.inf > x.sup else make(*((e > 0.0) - (e < 0.0) for e in (x.inf, x.sup)))


def floor(x: Interval) -> Interval:
    """Return the members rounded down to integers."""
    return _stepwise(math.floor, x)


def ceil(x: Interval) -> Interval:
    """Return the members rounded up to integers."""
    return _stepwise(math.ceil, x)


def trunc(x: Interval) -> Interval:
    """Return the members rounded towards zero to integers."""
    return _stepwise(math.trunc, x)


def round_ties_to_even(x: Interval) -> Interval:
    """Return the members rounded to the nearest integer, halves to the even one."""
    return _stepwise(round, x)


def round_ties_to_away(x: Interval) -> Interval:
    """Return the members rounded to the nearest integer, halves away from zero."""
    return _stepwise(_nearest_away, x)


