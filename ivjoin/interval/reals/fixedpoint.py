"""Elementary functions in fixed-point integers, to any precision and with a bound on the error.

``n`` stands for ``n / 2**p``. For exact arguments, a result is off by less than `UNITS` units of ``2**-p``.

Each step rounds down and loses less than one unit of a working precision with `GUARD` further bits. A series of a few
hundred terms, a tabulated value and a reduction by up to ``2**15`` multiples lose less than ``2**24`` units together.
The 32 guard bits absorb that, and the last shift loses one more unit.

A reduction by the tabulated multiple ``j / 64`` leaves less than ``2**-6``, so about ten terms give 128 bits. The
machine's libm decides only where a reduction starts.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from math import isqrt

__all__ = [
    "UNITS", "atan_fixed", "dyadic", "exp_fixed", "half_pi", "ln2", "ln10", "log_fixed", "pi", "sin_cos_fixed",
    "to_fixed",
]  # fmt: skip

GUARD = 32
UNITS = 4

# Constants are computed at a few widths and cut to the requested one.
_WIDTHS = (256, 1536)


def _width(p: int) -> int:
    for width in _WIDTHS:
        if p <= width:
            return width
    return -(-p // 1024) * 1024


def _inverse_series(d: int, w: int, sign: int) -> int:
    """Return ``atan(1/d)`` for a sign of -1, ``atanh(1/d)`` for +1, with at most one unit lost per term."""
    power = (1 << w) // d
    total, n, square = power, 1, d * d
    while power:
        power //= square
        n += 2
        total += sign * (power // n) if n & 2 else power // n
    return total


@cache
def _pi_wide(width: int) -> int:
    w = width + GUARD
    return (16 * _inverse_series(5, w, -1) - 4 * _inverse_series(239, w, -1)) >> GUARD


@cache
def _ln2_wide(width: int) -> int:
    w = width + GUARD
    total = 18 * _inverse_series(26, w, 1) - 2 * _inverse_series(4801, w, 1) + 8 * _inverse_series(8749, w, 1)
    return total >> GUARD


@cache
def _ln10_wide(width: int) -> int:
    w = width + GUARD
    total = 46 * _inverse_series(31, w, 1) + 34 * _inverse_series(49, w, 1) + 20 * _inverse_series(161, w, 1)
    return total >> GUARD


def pi(p: int) -> int:
    """Return ``pi * 2**p``, off by less than 2 (Machin's formula)."""
    width = _width(p)
    return _pi_wide(width) >> (width - p)


def ln2(p: int) -> int:
    """Return ``log(2) * 2**p``, off by less than 2."""
    width = _width(p)
    return _ln2_wide(width) >> (width - p)


def ln10(p: int) -> int:
    """Return ``log(10) * 2**p``, off by less than 2."""
    width = _width(p)
    return _ln10_wide(width) >> (width - p)


def _exp_series(r: int, w: int) -> int:
    """Return ``exp(r)`` for ``0 <= r < 2``."""
    total = term = 1 << w
    n = 0
    while term:
        n += 1
        term = (term * r >> w) // n
        total += term
    return total


@lru_cache(maxsize=512)
def _exp_of_64th(j: int, w: int) -> int:
    return _exp_series(j << (w - 6), w)


def exp_fixed(t: int, p: int) -> tuple[int, int]:
    """Return ``(m, k)`` with ``exp(t / 2**p) = m / 2**p * 2**k`` and m / 2**p in about [1, 2).

    ``t / 2**p`` may be as large as 2**14 either way.
    """
    w = p + GUARD
    k, r = divmod(t << GUARD, ln2(w))
    j = r >> (w - 6)
    m = _exp_series(r - (j << (w - 6)), w) * _exp_of_64th(j, w) >> w
    return m >> GUARD, k


def _atanh_series(z: int, w: int) -> int:
    """Return ``atanh(z)`` for ``|z| < 1/4``."""
    if z < 0:
        return -_atanh_series(-z, w)
    square = z * z >> w
    total = term = z
    n = 1
    while term:
        term = term * square >> w
        n += 2
        total += term // n
    return total


@lru_cache(maxsize=512)
def _log_of_64th(j: int, w: int) -> int:
    """Return ``log(j / 64)`` for j in 42..86."""
    return 2 * _atanh_series(((j - 64) << w) // (j + 64), w)


def log_fixed(numerator: int, denominator: int, p: int, shift: int = 0) -> int:
    """Return ``log(numerator / denominator * 2**shift)`` for positive integers and ``|result| < 2000``."""
    w = p + GUARD
    k = numerator.bit_length() - denominator.bit_length()
    n, d = (numerator, denominator << k) if k >= 0 else (numerator << -k, denominator)
    if 2 * n > 3 * d:
        d, k = d << 1, k + 1
    elif 4 * n < 3 * d:
        n, k = n << 1, k - 1
    # n / d is in [0.75, 1.5]. With j = 64 for a ratio near 1, and then k = 0 too, nothing cancels there.
    j = ((d << 7) + n) // (n << 1)
    n, d = n * j, d << 6
    total = 2 * _atanh_series(((n - d) << w) // (n + d), w) - _log_of_64th(j, w) + (k + shift) * ln2(w)
    return total >> GUARD


def _sin_series(r: int, w: int) -> int:
    """Return ``sin(r)`` for ``0 <= r < 2``."""
    square = r * r >> w
    total = term = r
    n = 1
    while term:
        n += 2
        term = (term * square >> w) // (n * (n - 1))
        total += -term if n & 2 else term
    return total


@lru_cache(maxsize=512)
def _sin_cos_of_64th(j: int, w: int) -> tuple[int, int]:
    # cos(r) = 1 - 2 sin(r/2)**2 keeps all its bits, where sqrt(1 - sin**2) would lose half of them near pi/2.
    half = _sin_series(j << (w - 7), w)
    return _sin_series(j << (w - 6), w), (1 << w) - (half * half >> (w - 1))


def sin_cos_fixed(r: int, p: int) -> tuple[int, int]:
    """Return sine and cosine of ``r / 2**p`` in ``[0, 2)``."""
    w = p + GUARD
    r <<= GUARD
    j = r >> (w - 6)
    s = _sin_series(r - (j << (w - 6)), w)
    c = isqrt((1 << 2 * w) - s * s)
    if j:
        sj, cj = _sin_cos_of_64th(j, w)
        s, c = (s * cj + c * sj) >> w, (c * cj - s * sj) >> w
    return s >> GUARD, c >> GUARD


def atan_fixed(y: int, x: int, p: int) -> int:
    """Return the angle of the point (x, y) of the first quadrant, for integers not both 0; in ``[0, pi/2]``."""
    w = p + GUARD
    shift = max(x.bit_length(), y.bit_length()) - 64
    near = math.atan2(y >> shift, x >> shift) if shift > 0 else math.atan2(y, x)
    j = int(near * 64.0 + 0.5)
    # The point is rotated back by j / 64. Its angle is then small.
    if j:
        sj, cj = _sin_cos_of_64th(j, w)
        y, x = y * cj - x * sj, x * cj + y * sj
    z = (y << w) // x
    magnitude = z if z >= 0 else -z
    square = z * z >> w
    total = term = magnitude
    n = 1
    while term:
        term = term * square >> w
        n += 2
        total += -(term // n) if n & 2 else term // n
    return ((total if z >= 0 else -total) + (j << (w - 6))) >> GUARD


def to_fixed(m: int, e: int, p: int) -> int:
    """Return ``m * 2**e`` with `p` fractional bits, rounded down."""
    shift = e + p
    return m << shift if shift >= 0 else m >> -shift


def dyadic(x: float) -> tuple[int, int]:
    """Return integers ``(n, s)`` with ``x == n / 2**s`` and ``s >= 0``."""
    n, d = x.as_integer_ratio()
    return n, d.bit_length() - 1


@lru_cache(maxsize=64)
def half_pi(p: int) -> int:
    return pi(p + 1) >> 2
