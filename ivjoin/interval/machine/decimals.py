"""Decimal arithmetic on unscaled integers, rounded HALF_UP: ties go away from zero.

Like Spark, it rounds twice: to 38 significant digits (division: 38 after the point), then to the scale of the result.
Each function is monotone in either argument, so its corners are exact bounds.
"""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.interval.machine import integers as m
from ivjoin.interval.machine.pairs import EMPTY, Pair, by_sign, hull, is_empty, meet, shaved

__all__ = [
    "divided", "half_even", "half_up", "product", "product_rev", "quotient", "quotient_rev1", "quotient_rev2",
    "rounded", "shortened", "unrounded",
]  # fmt: skip

_WORKING_DIGITS = 38
_WORKING = 10**_WORKING_DIGITS


def half_up(n: int, d: int) -> int:
    """Return ``n / d`` rounded to the nearest integer, ties away from zero."""
    q, rest = divmod(abs(n), abs(d))
    q += 2 * rest >= abs(d)
    return q if (n < 0) == (d < 0) else -q


def half_even(n: int, d: int) -> int:
    """Return n / d rounded to the nearest integer, ties to the even one; d > 0."""
    q, rest = divmod(n, d)
    return q + (2 * rest > d or (2 * rest == d and q & 1))


def rounded(x: Pair, unit: int) -> Pair:
    """Return integers divided by a unit and rounded."""
    return half_up(x[0], unit), half_up(x[1], unit)


def _from(c: int, unit: int) -> int:
    """Return the least integer that is rounded to ``c`` or above."""
    return c * unit - unit // 2 if c > 0 else c * unit - (unit - 1) // 2


def unrounded(z: Pair, unit: int) -> Pair:
    """Return the integers that are rounded into ``z``."""
    return _from(z[0], unit), -_from(-z[1], unit)


# Products


def shortened(n: int) -> int:
    """Return a product as java.math.BigDecimal computes it: 38 significant digits, HALF_UP, then zeros."""
    if -_WORKING < n < _WORKING:
        return n
    extra = 10 ** (len(str(abs(n))) - _WORKING_DIGITS)
    return half_up(n, extra) * extra


def product(a: Pair, b: Pair, unit: int) -> Pair:
    """Return the rounded products, in units of the result."""
    lo, hi = m.mul(a, b)
    return half_up(shortened(lo), unit), half_up(shortened(hi), unit)


def product_rev(z: Pair, b: Pair, x: Pair, unit: int) -> Pair:
    """Return the members of ``x`` whose rounded product with a member of ``b`` is in ``z``."""
    lo, hi = unrounded(z, unit)
    if lo <= -_WORKING // 10 or hi >= _WORKING // 10:  # such a product may have lost digits before
        slack = 10 ** max(0, len(str(max(abs(lo), abs(hi)))) - _WORKING_DIGITS + 1)
        lo, hi = lo - slack, hi + slack
    return m.mul_rev((lo, hi), b, x)


# Quotients


def divided(n: int, d: int, scale: int, lift: int) -> int:
    """Return ``n / d`` at a scale; ``lift`` is the scale of d minus the scale of n."""
    up = _WORKING_DIGITS + lift
    first = half_up(n * 10**up, d) if up >= 0 else half_up(n, d * 10**-up)
    return half_up(first, 10 ** (_WORKING_DIGITS - scale))


def quotient(a: Pair, b: Pair, scale: int, lift: int) -> Pair:
    """Return the rounded quotients of unscaled ints by the members of ``b`` other than 0.

    ``scale`` is the scale of the result, ``lift`` the scale of the divisors minus the scale of the dividends.
    """

    def positive(bl: int, bh: int) -> Pair:
        low = divided(a[0], bh if a[0] >= 0 else bl, scale, lift)
        return low, divided(a[1], bl if a[1] >= 0 else bh, scale, lift)

    return by_sign(b, 1, positive)


def _targets(z: Pair) -> Pair:
    # Rounded twice, a result is within 0.6 units of the real quotient; fifths keep that in integers.
    return 5 * z[0] - 3, 5 * z[1] + 3


def quotient_rev1(z: Pair, b: Pair, x: Pair, scale: int, lift: int) -> Pair:
    """Return the members of ``x``, dividends, whose quotient is in ``z``."""
    j, k = _factors(scale + lift)
    out = EMPTY
    for side in (meet(b, (1, b[1])), meet(b, (b[0], -1))):
        if side != EMPTY:
            lo, hi = m.mul(_targets(z), (side[0] * k, side[1] * k))
            out = hull(out, meet((-(-lo // (5 * j)), hi // (5 * j)), x))
    return _ended(out, lambda v: quotient(v, b, scale, lift), z) if b[0] == b[1] else out


def quotient_rev2(z: Pair, a: Pair, x: Pair, scale: int, lift: int) -> Pair:
    """Return the members of ``x``, divisors, whose quotient is in ``z``, without 0."""
    j, k = _factors(scale + lift)
    (zl, zh), (nl, nh) = _targets(z), (5 * j * a[0], 5 * j * a[1])
    above = meet(x, _multipliers((zl * k, zh * k), (nl, nh), max(x[0], 1), x[1]))
    below = _multipliers((zl * k, zh * k), (-nh, -nl), max(-x[1], 1), -x[0])
    out = EMPTY
    for side in (above, meet(x, (-below[1], -below[0])) if below != EMPTY else EMPTY):
        if side != EMPTY:
            out = hull(out, _ended(side, lambda v: quotient(a, v, scale, lift), z) if a[0] == a[1] else side)
    return out


def _multipliers(t: Pair, n: Pair, lo: int, hi: int) -> Pair:
    """Return the divisors ``0 < lo <= d <= hi`` that give a real number in ``t`` a quotient in ``n``."""
    if t[1] > 0:
        lo = max(lo, -(-n[0] // t[1]))
    elif n[0] > 0:
        return EMPTY
    elif t[1] < 0:
        hi = min(hi, n[0] // t[1])
    if t[0] < 0:
        lo = max(lo, -(-n[1] // t[0]))
    elif n[1] < 0:
        return EMPTY
    elif t[0] > 0:
        hi = min(hi, n[1] // t[0])
    return (lo, hi) if lo <= hi else EMPTY


def _ended(out: Pair, results: Callable[[Pair], Pair], z: Pair) -> Pair:
    """Return a bound without the one or two values at its ends that the second rounding moves off the target."""
    return shaved(out, lambda v: not is_empty(meet(results((v, v)), z)), 3)


def _factors(lift: int) -> Pair:
    """Return the factors of the dividend and the divisor that give units of the result."""
    return 10 ** max(lift, 0), 10 ** max(-lift, 0)
