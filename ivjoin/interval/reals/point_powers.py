"""Powers and roots of one positive double, as enclosures for `ivjoin.interval.reals.pointwise.below` and `above`."""

from __future__ import annotations

import math
from math import isqrt

from ivjoin.interval.machine.rounding import significand
from ivjoin.interval.reals.fixedpoint import UNITS, exp_fixed, log_fixed
from ivjoin.interval.reals.pointwise import Enclosure

__all__ = ["pow_at", "power_at", "root_at"]

# Exact powers of a 53-bit significand up to this exponent are cheaper than their logarithm.
_EXACT_POWER = 64


def _odd_part(x: float) -> tuple[int, int]:
    """Give ``(o, a)`` with ``x == o * 2**a`` and o odd, for a positive `x`."""
    m, e = significand(x)
    zeros = (m & -m).bit_length() - 1
    return m >> zeros, e + zeros


def _point(odd: int, exponent: int) -> Enclosure:
    return odd, odd, exponent


def _exp_of_product(x: float, m: int, e: int, divisor: int, p: int) -> Enclosure:
    """Return ``x ** (m * 2**e / divisor)`` for x other than 1 and m other than 0."""
    size = m.bit_length() + e - divisor.bit_length() + 1  # |exponent| < 2**size
    near = math.log2(x)  # only for the order of magnitude
    sign = 1 if (x > 1.0) is (m > 0) else -1
    magnitude = math.log2(abs(near)) if abs(near) > 1e-3 else math.log2(abs(x - 1.0))
    if size + magnitude > 14.0:
        return _point(1, 4000 * sign)
    if size + magnitude < -62.0:
        return _point((1 << 60) + sign, -60)
    q = p + max(0, size) + 4
    xm, xe = significand(x)
    logarithm = log_fixed(xm, 1 << 53, q, xe + 53)
    # Off by UNITS * 2**size units of 2**-q and one of each flooring.
    product = logarithm * m
    product = (product << e if e >= 0 else product >> -e) // divisor
    t, k = exp_fixed(product >> (q - p), p)
    units = 3 * (UNITS + 3) + UNITS
    return t - units, t + units, k - p


def pow_at(x: float, y: float, p: int) -> Enclosure:
    """Return ``x ** y`` for finite ``x > 0`` and finite `y`."""
    if x == 1.0 or y == 0.0:
        return _point(1, 0)
    m, e = significand(y)
    zeros = (m & -m).bit_length() - 1
    m, e = m >> zeros, e + zeros
    exact = _exact_power(x, m << max(0, e), max(0, -e)) if e < 64 else None
    return exact or _exp_of_product(x, m, e, 1, p)


def _exact_power(x: float, m: int, k: int) -> Enclosure | None:
    """Return ``x ** (m / 2**k)`` where it is a fraction of a power of two that can be a double; None otherwise."""
    odd, a = _odd_part(x)
    if k > 12 or a % (1 << k):
        return None
    if odd != 1:
        # The odd part of the result is a root of `odd` raised to m: more than 53 bits past m = 33.
        if not 0 < m <= 53:
            return None
        for _ in range(k):
            root = isqrt(odd)
            if root * root != odd:
                return None
            odd = root
        odd = odd**m
    return _point(odd, (a >> k) * m) if abs((a >> k) * m) < 8000 else None


def power_at(x: float, n: int, p: int) -> Enclosure:
    """Return ``x ** n`` for finite ``x > 0`` and any integer `n`."""
    odd, a = _odd_part(x)
    if odd == 1 and abs(a * n) < 8000:
        return _point(1, a * n)
    if 0 <= n <= _EXACT_POWER:
        return _point(odd**n, a * n)
    if -_EXACT_POWER <= n < 0:
        power = odd**-n
        bits = power.bit_length() + p
        quotient = (1 << bits) // power
        return quotient, quotient + 1, a * n - bits
    return _exp_of_product(x, n, 0, 1, p)


def root_at(x: float, n: int, p: int) -> Enclosure:
    """Return ``x ** (1/n)`` for finite ``x > 0`` and an integer `n` other than 0."""
    odd, a = _odd_part(x)
    if a % n == 0:
        if odd == 1:
            return _point(1, a // n)
        if 0 < n <= 53:
            guess = round(odd ** (1.0 / n))
            for root in (guess - 1, guess, guess + 1):
                if root**n == odd:
                    return _point(root, a // n)
    if x == 1.0:
        return _point(1, 0)
    return _exp_of_product(x, 1 if n > 0 else -1, 0, abs(n), p)
