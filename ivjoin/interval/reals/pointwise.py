"""Elementary functions of one double, rounded down or up correctly whatever the machine's libm does.

``f_at(x, p)`` encloses the real value by integers ``(lo, hi, e)``: ``lo * 2**e <= f(x) <= hi * 2**e``. `below` and
`above` raise the precision ``p`` until both ends round to the same double (Ziv's strategy; Muller, *Elementary
Functions*, section 12.4). Arguments whose value is a double are recognised first, because this would never end.

An enclosure may be a *representative*: any point of the gap between two neighbouring doubles that contains the value
(``exp(1000)`` beyond the largest). It is valid for rounding only, not for further arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import isqrt
from typing import Any

from ivjoin.interval.machine.rounding import scaled, significand
from ivjoin.interval.reals.fixedpoint import (
    UNITS,
    atan_fixed,
    dyadic,
    exp_fixed,
    half_pi,
    ln2,
    ln10,
    log_fixed,
    pi,
    sin_cos_fixed,
    to_fixed,
)

__all__ = ["Enclosure", "above", "below"]

# Integers lo, hi, e: the value is between lo * 2**e and hi * 2**e.
Enclosure = tuple[int, int, int]

# 128 bits decide all but about one argument in a million. After 1408 bits, the remaining gap is one ulp wide.
_PRECISIONS = (128, 384, 1408)

# Below this, the first term of the series of sin, atan, ... decides: x**3 / 3 is less than a quarter ulp of x.
_SMALL = 2.0**-28

_HUGE: Enclosure = (1, 1, 4000)
_ALMOST_ONE: Enclosure = ((1 << 60) - 1, (1 << 60) - 1, -60)
_JUST_OVER_ONE: Enclosure = ((1 << 60) + 1, (1 << 60) + 1, -60)
_ONE: Enclosure = (1, 1, 0)
_ZERO: Enclosure = (0, 0, 0)


def _round(enclose: Callable[..., Enclosure], arguments: tuple[Any, ...], up: bool) -> float:
    bound = 0.0
    for p in _PRECISIONS:
        lo, hi, e = enclose(*arguments, p)
        bound = scaled(hi if up else lo, e, up)
        if lo == hi or scaled(lo if up else hi, e, up) == bound:
            break
    return bound


def below(enclose: Callable[..., Enclosure], *arguments: Any) -> float:
    """Return the largest double not above the value that `enclose` encloses."""
    return _round(enclose, arguments, False)


def above(enclose: Callable[..., Enclosure], *arguments: Any) -> float:
    """Return the smallest double not below the value that `enclose` encloses."""
    return _round(enclose, arguments, True)


def _about(n: int, units: int, e: int) -> Enclosure:
    return n - units, n + units, e


def _mirrored(enclosure: Enclosure) -> Enclosure:
    lo, hi, e = enclosure
    return -hi, -lo, e


def _neighbour(x: float, outward: bool) -> Enclosure:
    """Return a representative of the gap next to `x`, on the side away from zero or on the side of zero."""
    m, e = significand(x)
    step = 1 if outward is (m > 0) else -1
    return (m << 8) + step, (m << 8) + step, e - 8


# Exponentials ---------------------------------------------------------------------------------------------------------


def _exp_of(t: int, p: int, units: int) -> Enclosure:
    """Return ``exp(t / 2**p)`` when `t` is off by at most `units`."""
    m, k = exp_fixed(t, p)
    return _about(m, 3 * units + UNITS, k - p)


def _easy(x: float, most: float, least: float) -> Enclosure | None:
    """Return a power of a base above 1 whose exponent is beyond the range of doubles, 0 or next to it."""
    if x > most:
        return _HUGE
    if x < least:
        return 1, 1, -4000
    if -(2.0**-58) < x < 2.0**-58:
        return _ONE if x == 0.0 else _JUST_OVER_ONE if x > 0.0 else _ALMOST_ONE
    return None


def exp_at(x: float, p: int) -> Enclosure:
    return _easy(x, 720.0, -760.0) or _exp_of(to_fixed(*significand(x), p), p, 1)


def exp2_at(x: float, p: int) -> Enclosure:
    easy = _easy(x, 1030.0, -1090.0)
    if easy is not None:
        return easy
    if x == math.floor(x):
        return 1, 1, int(x)
    whole = math.floor(x)
    m, e = significand(x)
    part = to_fixed(m, e, p) - (whole << p)
    lo, hi, e = _exp_of(part * ln2(p) >> p, p, 4)
    return lo, hi, e + whole


def exp10_at(x: float, p: int) -> Enclosure:
    easy = _easy(x, 310.0, -330.0)
    if easy is not None:
        return easy
    if x == math.floor(x) and x >= 0.0:
        n = 10 ** int(x)
        return n, n, 0
    q = p + 12  # |x| < 2**9 multiplies the error of log(10)
    return _exp_of(to_fixed(*significand(x), q) * ln10(q) >> (q + 12), p, 2)


# Logarithms -----------------------------------------------------------------------------------------------------------


def _log_of(x: float, p: int) -> int:
    m, e = significand(x)
    return log_fixed(m, 1 << 53, p, e + 53)


def log_at(x: float, p: int) -> Enclosure:
    return _ZERO if x == 1.0 else _about(_log_of(x, p), UNITS, -p)


def log2_at(x: float, p: int) -> Enclosure:
    m, e = significand(x)
    if m & (m - 1) == 0:
        n = e + m.bit_length() - 1
        return n, n, 0
    # The quotient's error: UNITS / log 2, and 2 units of log 2 times at most 1100 / log 2.
    return _about((_log_of(x, p) << p) // ln2(p), 8192, -p)


def log10_at(x: float, p: int) -> Enclosure:
    if x >= 1.0 and x == math.floor(x) and x <= 1e22:
        n = len(str(int(x))) - 1
        if 10**n == int(x):
            return n, n, 0
    return _about((_log_of(x, p) << p) // ln10(p), 2048, -p)


# Trigonometric functions ----------------------------------------------------------------------------------------------


def quarter_turns(x: float, p: int) -> tuple[int, int]:
    """Return ``(q, r)`` with ``x = q * pi/2 + r / 2**p`` and r in ``[0, pi/2)``, off by less than 2 units.

    No double but 0 is nearer than 2**-61 to a multiple of pi/2 (Muller, section 11.3.2), so `q` is right for every `x`.
    """
    m, e = significand(x)
    wide = p + 4 + max(0, e + 53)  # the error of pi/2 is multiplied by q
    q, r = divmod(to_fixed(m, e, wide), half_pi(wide))
    return q, r >> (wide - p)


def _sin_cos(x: float, p: int) -> tuple[int, int, int]:
    """Return the quarter turn of `x`, and sine and cosine of the rest, off by at most 8 units."""
    q, r = quarter_turns(x, p)
    s, c = sin_cos_fixed(r, p)
    return q & 3, s, c


def sin_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, False) if x else _ZERO
    q, s, c = _sin_cos(x, p)
    return _about((s, c, -s, -c)[q], 8, -p)


def cos_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _ALMOST_ONE if x else _ONE
    q, s, c = _sin_cos(x, p)
    return _about((c, -s, -c, s)[q], 8, -p)


def tan_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, True) if x else _ZERO
    q, s, c = _sin_cos(x, p)
    if q & 1:
        return _mirrored(_quotient(c, 8, s, 8, p))
    return _quotient(s, 8, c, 8, p)


def _quotient(n: int, n_units: int, d: int, d_units: int, p: int) -> Enclosure:
    """Return ``n / d`` of two numbers that are not negative and known to some units; d well above its error."""
    return ((n - n_units) << p) // (d + d_units), -(-((n + n_units) << p) // (d - d_units)), -p


# Inverse trigonometric functions --------------------------------------------------------------------------------------


def _arc(x: float, p: int) -> tuple[int, int]:
    """Return ``|x|`` as a sine: the opposite and the adjacent side, precise enough for an angle of `p` bits."""
    n, s = dyadic(abs(x))
    more = max(0, p + 8 - s)
    return n << more, isqrt(((1 << 2 * s) - n * n) << 2 * more)


def asin_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, True) if x else _ZERO
    return asin_enclosed(x, p)


def asin_enclosed(x: float, p: int) -> Enclosure:
    """`asin_at` with an absolute error for tiny `x` too, fit for further arithmetic."""
    opposite, adjacent = _arc(x, p)
    lo_hi = _about(atan_fixed(opposite, adjacent, p), UNITS, -p)
    return lo_hi if x > 0.0 else _mirrored(lo_hi)


def acos_at(x: float, p: int) -> Enclosure:
    if x == 1.0:
        return _ZERO
    opposite, adjacent = _arc(x, p)
    angle = atan_fixed(adjacent, opposite, p)
    return _about(angle if x > 0.0 else pi(p) - angle, UNITS + 2, -p)


def atan_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, False) if x else _ZERO
    return atan_enclosed(x, p)


def atan_enclosed(x: float, p: int) -> Enclosure:
    """`atan_at` with an absolute error for tiny `x` too, fit for further arithmetic."""
    n, s = dyadic(abs(x))
    lo_hi = _about(atan_fixed(n, 1 << s, p), UNITS, -p)
    return lo_hi if x > 0.0 else _mirrored(lo_hi)


def atan2_at(y: float, x: float, p: int) -> Enclosure:
    """Return the angle of the finite point (x, y), other than the origin, for ``y >= 0``."""
    if y == 0.0:
        return _ZERO if x > 0.0 else half_turns_at(2, p)
    if x == 0.0:
        return half_turns_at(1, p)
    (my, ey), (mx, ex) = significand(y), significand(abs(x))
    low = min(ey, ex)
    n, d = my << (ey - low), mx << (ex - low)
    steep = n.bit_length() - d.bit_length()
    if x > 0.0 and steep < -60:
        # The angle is y/x less a part in 2**119 of it. A quotient of two doubles that is no double is not within a
        # part in 2**107 of one, so a point barely below the quotient is a representative.
        bits = 110 - steep
        quotient = (n << bits) // d
        return quotient - 1, quotient - 1, -bits
    angle = atan_fixed(n, d, p)
    return _about(angle if x > 0.0 else pi(p) - angle, UNITS + 2, -p)


def half_turns_at(quarters: int, p: int) -> Enclosure:
    """Return ``quarters * pi/2``."""
    if quarters == 0:
        return _ZERO
    return _about(quarters * pi(p), 2 * abs(quarters), -p - 1)


# Hyperbolic functions -------------------------------------------------------------------------------------------------


def _exp_pair(x: float, p: int) -> tuple[int, int, int, int]:
    """Give ``(grown, shrunk, units, e)`` with ``exp(x) = grown * 2**e`` and ``exp(-x) = shrunk * 2**e`` for x > 0."""
    m, k = exp_fixed(to_fixed(*significand(x), p), p)
    # m is off by UNITS + 3, so its inverse (between 1/2 and 1) by as much again and the division's unit.
    return m << 2 * k, (1 << 2 * p) // m, ((UNITS + 3) << 2 * k) + UNITS + 4, -p - k


def sinh_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, True) if x else _ZERO
    if abs(x) > 720.0:
        return _HUGE if x > 0.0 else _mirrored(_HUGE)
    grown, shrunk, units, e = _exp_pair(abs(x), p)
    lo_hi = _about(grown - shrunk, units, e - 1)
    return lo_hi if x > 0.0 else _mirrored(lo_hi)


def cosh_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _JUST_OVER_ONE if x else _ONE
    if abs(x) > 720.0:
        return _HUGE
    grown, shrunk, units, e = _exp_pair(abs(x), p)
    return _about(grown + shrunk, units, e - 1)


def tanh_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, False) if x else _ZERO
    if abs(x) > 22.0:
        return _ALMOST_ONE if x > 0.0 else _mirrored(_ALMOST_ONE)
    grown, shrunk, units, _ = _exp_pair(abs(x), p)
    lo_hi = _quotient(grown - shrunk, units, grown + shrunk, units, p)
    return lo_hi if x > 0.0 else _mirrored(lo_hi)


def asinh_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, False) if x else _ZERO
    n, s = dyadic(abs(x))
    more = max(0, p + 8 - s)
    root = isqrt((n * n + (1 << 2 * s)) << 2 * more)
    lo_hi = _about(log_fixed((n << more) + root, 1 << (s + more), p), UNITS + 1, -p)
    return lo_hi if x > 0.0 else _mirrored(lo_hi)


def acosh_at(x: float, p: int) -> Enclosure:
    if x == 1.0:
        return _ZERO
    n, s = dyadic(x)
    more = max(0, p + 8 - s)
    root = isqrt((n * n - (1 << 2 * s)) << 2 * more)
    return _about(log_fixed((n << more) + root, 1 << (s + more), p), UNITS + 1, -p)


def atanh_at(x: float, p: int) -> Enclosure:
    if -_SMALL < x < _SMALL:
        return _neighbour(x, True) if x else _ZERO
    n, s = dyadic(x)
    return _about(log_fixed((1 << s) + n, (1 << s) - n, p), UNITS, -p - 1)
