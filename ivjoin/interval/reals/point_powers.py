"""Powers and roots of one positive double, as enclosures for `ivjoin.interval.reals.pointwise.below` and `above`."""

from __future__ import annotations

from math import isqrt
from typing import Any

from mpmath import libmp

from ivjoin.interval.machine.rounding import significand
from ivjoin.interval.reals.pointwise import SPARE, Enclosure, enclosed

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


def _power(x: float, exponent: Any, p: int) -> Enclosure:
    """Return ``x ** exponent`` for x other than 1 and a number of mpmath's other than 0."""
    wide = p + SPARE
    product = libmp.mpf_mul(libmp.mpf_log(libmp.from_float(x), wide), exponent, wide)
    sign, _, e, bits = product
    size = e + bits  # |product| < 2**size
    if size > 14:
        return _point(1, -4000 if sign else 4000)
    if size < -62:
        return _point((1 << 60) - 1 if sign else (1 << 60) + 1, -60)
    return enclosed(libmp.mpf_exp(product, wide), p)


def pow_at(x: float, y: float, p: int) -> Enclosure:
    """Return ``x ** y`` for finite ``x > 0`` and finite `y`."""
    if x == 1.0 or y == 0.0:
        return _point(1, 0)
    m, e = significand(y)
    zeros = (m & -m).bit_length() - 1
    m, e = m >> zeros, e + zeros
    exact = _exact_power(x, m << max(0, e), max(0, -e)) if e < 64 else None
    return exact or _power(x, libmp.from_float(y), p)


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
    return _power(x, libmp.from_int(n), p)


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
    return _power(x, libmp.from_rational(1, n, p + SPARE), p)
