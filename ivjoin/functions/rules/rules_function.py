"""Rules of elementary functions of doubles: roots, exponentials, logarithms, trigonometric functions and hypot.

Math libraries differ by a few ulps, so every bound is moved outward by sixteen doubles, except for the square root.
The inverse is found by bisection with the widened function. This is sound even if a library function falls in places. A
number is excluded only if the exact function exceeds the target by more than the error of the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import inf, nextafter, pi

from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.rule import NONE, Maker, Pair, Place, Rule, strict_binary, strict_unary, with_nan
from ivjoin.functions.rules.rules_float import ENTIRE
from ivjoin.interval.machine import floats as m
from ivjoin.interval.machine.bisection import float_preimage

__all__ = [
    "HALF_PI", "LIBRARY_ULPS", "atan2", "cosh", "even", "hypot", "logarithm", "lower", "rising", "sqrt", "tan",
    "total", "upper", "waved",
]  # fmt: skip

Function = Callable[[float], float]
# The C library computes bounds, and NumPy computes values. NumPy uses Intel's SVML, with errors of at most 4 ulp
# (https://github.com/numpy/numpy/pull/19478), or the C library. No larger error is known for these functions in glibc.
# The greatest is 3.67 ulp, for cbrt (Gladman, Innocente, Mather and Zimmermann, "Accuracy of Mathematical Functions in
# Single, Double, Extended Double and Quadruple Precision", hal-03141101). The total is 8 ulp. Below a power of two,
# doubles are twice as close, so one ulp can be two steps.
LIBRARY_ULPS = 4
_STEPS = 2 * (LIBRARY_ULPS + LIBRARY_ULPS)


def lower(y: float) -> float:
    for _ in range(_STEPS):
        y = nextafter(y, -inf)
    return y


def upper(y: float) -> float:
    for _ in range(_STEPS):
        y = nextafter(y, inf)
    return y


def total(f: Function, left: float, right: float) -> Function:
    """Return ``f`` with limits in place of the errors that Python raises for results that are too large."""

    def g(x: float) -> float:
        try:
            return f(x)
        except (OverflowError, ValueError, ZeroDivisionError):
            return left if x < 0 else right

    return g


def rising(
    f: Function, inverse: Function | None, domain: Pair, values: Pair, outside: int = 0, falls: bool = False,
    exact: bool = False,
) -> Maker:
    """Return the rule of a function that rises on its domain. Arguments outside the domain give the flag ``outside``.

    ``exact`` means that the library rounds the function correctly.
    """
    least, most = values

    def low(x: float) -> float:
        return f(x) if exact else max(least, lower(f(x)))

    def high(x: float) -> float:
        return f(x) if exact else min(most, upper(f(x)))

    def clip(x: Pair) -> Pair:
        return max(x[0], domain[0]), min(x[1], domain[1])

    def up(x: Pair) -> Pair:
        a, b = clip(x)
        if a > b:
            return NONE
        return (low(b), high(a)) if falls else (low(a), high(b))

    def back(z: Pair, x: Pair) -> Pair:
        a, b = clip(x)
        if a > b:
            return NONE
        if falls:
            lo, hi = float_preimage(lambda v: -high(v), lambda v: -low(v), (-z[1], -z[0]), (a, b))
            return lo, hi
        return float_preimage(low, high, z, (a, b), inverse)

    def makes(x: Pair) -> int:
        return outside if x[0] < domain[0] or x[1] > domain[1] else 0

    def make(p: Place) -> Rule:
        return strict_unary(p, up, back, ENTIRE, makes if outside else None)

    return make


sqrt = rising(math.sqrt, lambda c: c * c, (0.0, inf), ENTIRE, NAN, exact=True)


def logarithm(f: Function, inverse: Function, pole: float) -> Maker:
    return rising(f, inverse, (nextafter(pole, inf), inf), ENTIRE, NULL)


def even(low: Function, high: Function, inverse: Function) -> Callable[[Place], Rule]:
    """Return the rule of a function that rises with the magnitude. ``low`` and ``high`` bound it."""

    def up(x: Pair) -> Pair:
        a, b = m.abs_(x)
        return low(a), high(b)

    def back(z: Pair, x: Pair) -> Pair:
        size = float_preimage(low, high, z, (0.0, inf), inverse)
        return m.abs_rev(size, x) if size != NONE else NONE

    return lambda p: strict_unary(p, up, back, ENTIRE)


_cosh = total(math.cosh, inf, inf)
cosh = even(lambda x: max(1.0, lower(_cosh(x))), lambda x: upper(_cosh(x)), math.acosh)


# Trigonometric functions

_WIDE = 1e9  # for larger arguments, the position within a period is not computed


def _wave(shift: float) -> Callable[[Pair], Pair]:
    """Return a function that bounds the sine over an interval, or the cosine if ``shift`` is a quarter period."""
    f = math.cos if shift else math.sin

    def up(x: Pair) -> Pair:
        lo, hi = x
        if not (lo > -_WIDE and hi < _WIDE) or hi - lo >= 6.2:
            return -1.0, 1.0
        # Find whether the interval may contain a maximum or a minimum, with a margin for rounding.
        first, last = (lo + shift) / (2 * pi) - 0.25 - 1e-6, (hi + shift) / (2 * pi) - 0.25 + 1e-6
        crest = math.floor(last) >= math.ceil(first)
        trough = math.floor(last + 0.5) >= math.ceil(first + 0.5)
        a, b = f(lo), f(hi)
        return (-1.0 if trough else lower(min(a, b))), (1.0 if crest else upper(max(a, b)))

    return up


def waved(shift: float) -> Maker:
    wave = _wave(shift)

    def back(z: Pair, x: Pair) -> Pair:
        lo, hi = x
        # Only an end can move inward, by up to half a period. Forward rules refute the slices there.
        if not (lo > -_WIDE and hi < _WIDE) or (z[0] <= -1 and z[1] >= 1):
            return x
        lo = _advance(wave, z, lo, hi, 1.0)
        return (lo, _advance(wave, z, hi, lo, -1.0)) if lo <= hi else NONE

    def make(p: Place) -> Rule:
        def up(x: Pair) -> Pair:
            lo, hi = wave(x)
            return lower(lo), upper(hi)

        return strict_unary(p, up, back, ENTIRE, lambda x: NAN if x[0] == -inf or x[1] == inf else 0)

    return make


def _advance(wave: Callable[[Pair], Pair], z: Pair, end: float, other: float, direction: float) -> float:
    """Move an end inward past slices in which the function has no value in z."""
    step = 0.5
    for _ in range(60):
        if (other - end) * direction <= 0:
            break
        to = end + step * direction
        if (other - to) * direction < 0:
            to = other
        w = wave((min(end, to), max(end, to)))
        if upper(w[1]) < z[0] or lower(w[0]) > z[1]:
            if to == other:
                return nextafter(other, inf * direction)
            end = to
        else:
            step /= 2
            if step < 1e-12 * (1 + abs(end)):
                break
    return end


def tan(p: Place) -> Rule:
    def up(x: Pair) -> Pair:
        lo, hi = x
        if not (lo > -_WIDE and hi < _WIDE):
            return ENTIRE
        first, last = lo / pi - 0.5 - 1e-6, hi / pi - 0.5 + 1e-6
        if math.floor(last) >= math.ceil(first):
            return ENTIRE
        return lower(math.tan(lo)), upper(math.tan(hi))

    return strict_unary(p, up, None, ENTIRE, lambda x: NAN if x[0] == -inf or x[1] == inf else 0)


# Functions of two arguments


def atan2(p: Place) -> Rule:
    """Return the rule of atan2(y, x).

    It is monotonic along each edge of a box, unless the box contains a point with y = 0 and x <= 0.
    """

    def angles(y: Pair, x: Pair) -> Pair:
        if x[0] <= 0 and y[0] <= 0 <= y[1]:  # the angle jumps from pi to -pi, or the box contains the origin
            low, high = (-math.pi, math.pi)
        else:
            ends = [math.atan2(v, u) for v in y for u in x]
            low, high = min(ends), max(ends)
        return max(lower(low), lower(-math.pi)), min(upper(high), upper(math.pi))

    return strict_binary(p, angles, None, None, (lower(-math.pi), upper(math.pi)))


def hypot(p: Place) -> Rule:
    """Return the rule of hypot, which rises with either magnitude. The hypot of NaN and an infinity is infinity."""

    def both(x: Pair, y: Pair) -> Pair:
        (s, t), (u, v) = m.abs_(x), m.abs_(y)
        return max(0.0, lower(math.hypot(s, u))), upper(math.hypot(t, v))

    def back(z: Pair, y: Pair, x: Pair) -> Pair:
        if z[1] < 0:
            return NONE
        u, v = m.abs_(y)
        size = float_preimage(
            lambda x: lower(math.hypot(x, u)), lambda x: upper(math.hypot(x, v)), z, (0.0, inf),
            lambda c: math.sqrt((c - u) * (c + u)),
        )  # fmt: skip
        return m.abs_rev(size, x) if size[0] <= size[1] else NONE

    return with_nan(strict_binary(p, both, back, back, ENTIRE), p.i, p.at, inf)


HALF_PI = pi / 2
