"""Intervals of machine integers: exact bounds of + - * div % and of their inverses, in Python ints.

An interval is two ints ``lo <= hi``; ``(1, 0)`` is empty. Unscaled decimals, dates, times and durations are ints too.
The caller clips at the limits of the type, because a value beyond them is an error under ANSI.

``f(...)`` returns the hull of the results, and ``f_rev(...)`` the hull of the members of ``x`` that can give a result
in ``z``. Each piece of a preimage is intersected with ``x`` before the hull is taken, so a gap around zero is used.
Division truncates, ``mod`` has the sign of the dividend, and ``pmod`` is not negative for a positive divisor.
"""

from __future__ import annotations

from functools import reduce
from math import isqrt
from typing import Any

from ivjoin.interval.machine.bisection import last_true
from ivjoin.interval.machine.pairs import EMPTY, Pair, abs_, abs_rev, by_sign, hull, meet, neg, shaved

__all__ = [
    "EMPTY", "abs_", "abs_rev", "div", "div_rev_dividend", "div_rev_divisor", "hull", "meet", "mod",
    "mod_rev_dividend", "mod_rev_divisor", "mul", "mul_rev", "pmod", "pmod_rev_dividend", "pmod_rev_divisor",
    "root_down", "roughly_signed", "truncated",
]  # fmt: skip


def mul(a: Pair, b: Pair) -> Pair:
    p, q, r, s = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
    return min(p, q, r, s), max(p, q, r, s)


def _ratio(z: Pair, bl: int, bh: int) -> Pair:
    """Return the integers between the least and the greatest real quotient ``z / b`` over ``0 < bl <= b <= bh``."""
    lo = -(-z[0] // (bh if z[0] >= 0 else bl))
    hi = z[1] // (bl if z[1] >= 0 else bh)
    return lo, hi


def mul_rev(z: Pair, b: Pair, x: Pair) -> Pair:
    if b[0] <= 0 <= b[1] and z[0] <= 0 <= z[1]:
        return x
    return by_sign(b, 1, lambda bl, bh: _ratio(z, bl, bh), x=x)


def root_down(n: int, k: int) -> int:
    """Return the greatest int whose k-th power, with the sign of the int, is not above ``n``."""
    size = abs(n)
    root = isqrt(size) if k == 2 else last_true(lambda r: r**k <= size, 0, 1 << -(-size.bit_length() // k))
    return root if n >= 0 else -root - (root**k < size)


# Division


def truncated(a: int, b: int) -> int:
    """Return ``a / b`` cut toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _quotients(a: Pair, bl: int, bh: int) -> Pair:
    lo, hi = a
    low = lo // bh if lo >= 0 else -(-lo // bl)
    high = hi // bl if hi >= 0 else -(-hi // bh)
    return low, high


def div(a: Pair, b: Pair) -> Pair:
    """Return ``a div b`` over the members of ``b`` other than 0."""
    return by_sign(b, 1, lambda bl, bh: _quotients(a, bl, bh))


def _dividends(q: Pair, bl: int, bh: int) -> Pair:
    low = q[0] * bl if q[0] > 0 else (q[0] - 1) * bh + 1
    high = (q[1] + 1) * bh - 1 if q[1] >= 0 else q[1] * bl
    return low, high


def div_rev_dividend(q: Pair, b: Pair, x: Pair) -> Pair:
    return by_sign(b, 1, lambda bl, bh: _dividends(q, bl, bh), x=x)


def _divisors(q: Pair, a: Pair, bl: int, bh: int) -> Pair:
    """Return the bounds of ``bl <= b <= bh``, positive, for which the dividends of ``q`` and ``a`` meet."""
    if q[0] > 0:
        bh = min(bh, a[1] // q[0])
    else:
        bl = max(bl, -((a[1] - 1) // (1 - q[0])))
    if q[1] >= 0:
        bl = max(bl, -(-(a[0] + 1) // (q[1] + 1)))
    else:
        bh = min(bh, -a[0] // -q[1])
    return (bl, bh) if bl <= bh else EMPTY


def div_rev_divisor(q: Pair, a: Pair, x: Pair) -> Pair:
    """Return the members of ``x``, the divisor, with ``a div x`` in ``q``, without 0."""
    return by_sign(x, 1, lambda bl, bh: _divisors(q, a, bl, bh), lambda bl, bh: neg(_divisors(q, neg(a), bl, bh)))


# Remainders

_PAST_ALL = 1 << 300  # beyond every divisor of a type, and of 38 digits at a scale of 38

# Up to this many divisors are tried one by one; for more, only sign and magnitude are used.
_FEW = 12


def _remainders(a: Pair, bl: int, bh: int) -> Pair:
    """Return ``a % b`` for ``0 <= a``, ``0 < bl <= b <= bh``."""
    lo, hi = a
    if hi < bl:
        return a
    if bl == bh and hi - lo < bl and lo % bl <= hi % bl:
        return lo % bl, hi % bl
    if bl != bh and lo // bl == lo // bh == hi // bl == hi // bh:
        q = lo // bl
        return lo - q * bh, hi - q * bl
    return 0, min(hi, bh - 1)


def mod(a: Pair, b: Pair) -> Pair:
    """Return ``a % b`` with the sign of ``a``, over the members of ``b`` other than 0."""
    m = abs_(b)
    if m[1] == 0:
        return EMPTY
    bl, bh = max(m[0], 1), m[1]
    out = EMPTY
    if a[1] >= 0:
        out = _remainders((max(a[0], 0), a[1]), bl, bh)
    if a[0] < 0:
        out = hull(out, neg(_remainders((max(-a[1], 0), -a[0]), bl, bh)))
    return out


def _next_with(x: int, k: int, r: Pair) -> int:
    """Return the least integer from ``x`` on whose remainder in [0, k) is in ``r``, which lies in [0, k)."""
    have = x % k
    if have < r[0]:
        return x + r[0] - have
    return x if have <= r[1] else x + k - have + r[0]


def _last_with(x: int, k: int, r: Pair) -> int:
    have = x % k
    if have > r[1]:
        return x - have + r[1]
    return x if have >= r[0] else x - have - k + r[1]


def _congruent(r: Pair, k: int, x: Pair) -> Pair:
    """Return the members of ``x`` whose remainder in [0, k) is in ``r``."""
    r = meet(r, (0, k - 1))
    if r == EMPTY or x[0] > x[1]:
        return EMPTY
    lo, hi = _next_with(x[0], k, r), _last_with(x[1], k, r)
    return (lo, hi) if lo <= hi else EMPTY


def _signed_dividends(z: Pair, k: int, x: Pair) -> Pair:
    """Return the members of ``x`` with ``x % k`` in ``z``, the remainder having the sign of x."""
    out = EMPTY
    if x[1] >= 0:
        out = _congruent(z, k, (max(x[0], 0), x[1]))
    if x[0] <= 0:
        out = hull(out, neg(_congruent(neg(z), k, (max(-x[1], 0), -x[0]))))
    return out


def roughly_signed(z: Pair, bl: Any, x: Pair) -> Pair:
    """Return bounds of the members of ``x``, dividends by divisors from ``bl`` on, with a remainder in ``z``.

    A remainder has the sign and at most the magnitude of the dividend. A dividend below the divisor is its remainder.
    """
    if z[0] > 0:
        x = meet(x, (z[0], x[1]))
    elif z[1] < 0:
        x = meet(x, (x[0], z[1]))
    if x != EMPTY and -bl < x[0] and x[1] < bl:
        x = meet(x, z)
    return x


def mod_rev_dividend(z: Pair, b: Pair, x: Pair) -> Pair:
    m = abs_(b)
    bl, bh = max(m[0], 1), m[1]
    if bh - bl < _FEW:
        return reduce(hull, (_signed_dividends(z, k, x) for k in range(bl, bh + 1)), EMPTY)
    return roughly_signed(z, bl, x)


def mod_rev_divisor(z: Pair, a: Pair, x: Pair) -> Pair:
    """Return the members of ``x``, the divisor, with ``a % x`` in ``z``."""
    out = EMPTY
    if x[0] < 0:
        out = hull(out, neg(_moduli(z, a, (max(-x[1], 1), -x[0]))))
    if x[1] > 0:
        out = hull(out, _moduli(z, a, (max(x[0], 1), x[1])))
    return out


def _moduli(z: Pair, a: Pair, b: Pair) -> Pair:
    """Return the positive members of ``b`` with ``a % b`` in ``z``; a few at both ends are tried one by one."""
    least = z[0] + 1 if z[0] > 0 else 1 - z[1] if z[1] < 0 else 1
    lo, hi = max(b[0], least), b[1]
    if meet(a, z) == EMPTY:
        # No dividend is its own remainder, so it contains the divisor at least once in addition to the remainder.
        hi = min(hi, max(-a[0], a[1]) - (least - 1))
    return shaved((lo, hi), lambda k: meet(mod(a, (k, k)), z) != EMPTY, _FEW)


def _floor_remainders(a: Pair, bl: int, bh: int) -> Pair:
    if a[0] >= 0:
        return _remainders(a, bl, bh)
    if bl == bh and a[1] - a[0] < bl and a[0] % bl <= a[1] % bl:
        return a[0] % bl, a[1] % bl
    if a[1] < 0 and -a[0] <= bl:
        return bl + a[0], bh + a[1]
    return 0, bh - 1


def pmod(a: Pair, b: Pair) -> Pair:
    """Return ``pmod(a, b)``: the remainder in [0, b) for positive members of ``b``, ``a % b`` for negative ones."""
    return by_sign(b, 1, lambda bl, bh: _floor_remainders(a, bl, bh), lambda bl, bh: mod(a, (bl, bh)))


def pmod_rev_dividend(z: Pair, b: Pair, x: Pair) -> Pair:
    def positive(bl: int, bh: int) -> Pair:
        if z[1] < 0:
            return EMPTY
        if bh - bl < _FEW:
            return reduce(hull, (_congruent(z, k, x) for k in range(bl, bh + 1)), EMPTY)
        if x[0] >= 0:
            return roughly_signed(z, bl, x)
        return x if z[0] < bh else EMPTY

    return by_sign(b, 1, positive, lambda bl, bh: mod_rev_dividend(z, (bl, bh), x))


def _largest_modulus(z: Pair, a: Pair) -> int:
    """Return a bound of the positive divisors for which a member of ``a`` has a floored remainder in ``z``."""
    if a[1] >= 0 and meet((max(a[0], 0), a[1]), z) != EMPTY:
        return _PAST_ALL  # it is its own remainder for any larger divisor
    # Otherwise some multiple of the divisor lies between the dividend and its remainder.
    return max(a[1] - max(z[0], 0), z[1] - a[0] if a[0] < 0 else 0)


def pmod_rev_divisor(z: Pair, a: Pair, x: Pair) -> Pair:
    """Return the members of ``x``, the divisor, with ``pmod(a, x)`` in ``z``."""
    out = EMPTY
    if x[1] > 0 and z[1] >= 0:
        lo, hi = max(x[0], 1, z[0] + 1), min(x[1], _largest_modulus(z, a))
        out = shaved((lo, hi), lambda k: meet(_floor_remainders(a, k, k), z) != EMPTY, _FEW)
    if x[0] < 0:
        out = hull(out, neg(_moduli(z, a, (max(-x[1], 1), -x[0]))))
    return out
