"""Exponential, logarithmic and hyperbolic functions, and powers (IEEE 1788-2015, table 9.1), with tightest bounds."""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.interval.machine.rounding import INF
from ivjoin.interval.reals.bare import EMPTY, Interval, make
from ivjoin.interval.reals.endpoints import corners
from ivjoin.interval.reals.point_powers import pow_at
from ivjoin.interval.reals.pointwise import (
    Enclosure,
    above,
    acosh_at,
    asinh_at,
    atanh_at,
    below,
    cosh_at,
    exp2_at,
    exp10_at,
    exp_at,
    log2_at,
    log10_at,
    log_at,
    sinh_at,
    tanh_at,
)

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cosh",
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "pow",
    "sinh",
    "tanh",
]


def increasing(
    enclose: Callable[..., Enclosure], x: Interval, lowest: float, highest: float, start: float = -INF, end: float = INF
) -> Interval:
    """Return the image of `x` under an increasing function between two places, with the given limits there."""
    if x.sup <= start or x.inf >= end:
        return EMPTY
    return make(
        lowest if x.inf <= start else below(enclose, x.inf),
        highest if x.sup >= end else above(enclose, x.sup),
    )


def exp(x: Interval) -> Interval:
    """Return the powers of e."""
    return increasing(exp_at, x, 0.0, INF)


def exp2(x: Interval) -> Interval:
    """Return the powers of 2."""
    return increasing(exp2_at, x, 0.0, INF)


def exp10(x: Interval) -> Interval:
    """Return the powers of 10."""
    return increasing(exp10_at, x, 0.0, INF)


def log(x: Interval) -> Interval:
    """Return the natural logarithms of the positive members."""
    return increasing(log_at, x, -INF, INF, 0.0)


def log2(x: Interval) -> Interval:
    """Return the logarithms to base 2 of the positive members."""
    return increasing(log2_at, x, -INF, INF, 0.0)


def log10(x: Interval) -> Interval:
    """Return the logarithms to base 10 of the positive members."""
    return increasing(log10_at, x, -INF, INF, 0.0)


def sinh(x: Interval) -> Interval:
    """Return the hyperbolic sines."""
    return increasing(sinh_at, x, -INF, INF)


def tanh(x: Interval) -> Interval:
    """Return the hyperbolic tangents."""
    return increasing(tanh_at, x, -1.0, 1.0)


def asinh(x: Interval) -> Interval:
    """Return the inverse hyperbolic sines."""
    return increasing(asinh_at, x, -INF, INF)


def cosh(x: Interval) -> Interval:
    """Return the hyperbolic cosines."""
    a, b = x.inf, x.sup
    if a > b:
        return EMPTY
    if b <= 0.0:
        a, b = -b, -a
    elif a < 0.0:
        a, b = 0.0, -a if -a > b else b
    return increasing(cosh_at, make(a, b), 1.0, INF)


def acosh(x: Interval) -> Interval:
    """Return the inverse hyperbolic cosines, in [0, inf], of the members from 1 on."""
    if x.sup < 1.0:
        return EMPTY
    return increasing(acosh_at, make(x.inf if x.inf > 1.0 else 1.0, x.sup), 0.0, INF)


def atanh(x: Interval) -> Interval:
    """Return the inverse hyperbolic tangents of the members between -1 and 1, both excluded."""
    return increasing(atanh_at, x, -INF, INF, -1.0, 1.0)


def _limit(x: float, y: float) -> float | None:
    """Return the limit of ``x ** y`` at a corner of the domain; None if both are proper and it can be computed.

    A corner whose exponent or logarithm is 0 gives 1: it stands for points near it, whose product is 0.
    """
    if 0.0 < x < INF and -INF < y < INF:
        return None
    if y == 0.0 or x == 1.0:
        return 1.0
    return INF if (x > 1.0) is (y > 0.0) else 0.0


def _corner(rounded: Callable[..., float]) -> Callable[[float, float], float]:
    def power(x: float, y: float) -> float:
        limit = _limit(x, y)
        return rounded(pow_at, x, y) if limit is None else limit

    return power


def pow(x: Interval, y: Interval) -> Interval:
    """Return the powers ``x ** y`` of a positive member of `x`, and 0 for 0 raised to a positive member of `y`.

    ``exp(y * log(x))`` is monotone in either argument, so the signs of ``log(x)`` and ``y`` select the corners.
    """
    a, b, c, d = x.inf, x.sup, y.inf, y.sup
    if a > b or c > d or b < 0.0:
        return EMPTY
    if b == 0.0:
        return make(0.0, 0.0) if d > 0.0 else EMPTY
    if a < 0.0:
        a = 0.0
    return make(*corners(_corner(below), _corner(above), 1.0, a, b, c, d))
