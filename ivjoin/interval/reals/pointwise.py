"""Elementary functions of one double, rounded down or up correctly whatever the machine's libm does.

``f_at(x, p)`` encloses the real value by integers ``(lo, hi, e)``: ``lo * 2**e <= f(x) <= hi * 2**e``. mpmath computes
it. `below` and `above` raise the precision ``p`` until both ends round to the same double (Ziv's strategy; Muller,
*Elementary Functions*, section 12.4). Arguments whose value is a double are recognised first, because this would never
end.

An enclosure may be a *representative*: any point of the gap between two neighbouring doubles that contains the value
(``exp(1000)`` beyond the largest). It is valid for rounding only, not for further arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mpmath import libmp

from ivjoin.interval.machine.rounding import scaled, significand

__all__ = ["SPARE", "Enclosure", "above", "below", "enclosed"]

# Integers lo, hi, e: the value is between lo * 2**e and hi * 2**e.
Enclosure = tuple[int, int, int]

# 80 bits decide all but about one argument in a million. After 1408 bits, the remaining gap is one ulp wide.
_PRECISIONS = (80, 336, 1408)

# mpmath's values are off by a few units in the last place, and by up to 2**26 more where its formula cancels bits of a
# double (acosh near 1). It computes with so many bits more than an enclosure claims.
SPARE = 64

# Below this, the first term of the series of sin, atan, ... decides: x**3 / 3 is less than a quarter ulp of x.
_SMALL = 2.0**-28

_ALMOST_ONE: Enclosure = ((1 << 60) - 1, (1 << 60) - 1, -60)
_JUST_OVER_ONE: Enclosure = ((1 << 60) + 1, (1 << 60) + 1, -60)
_ONE: Enclosure = (1, 1, 0)
_ZERO: Enclosure = (0, 0, 0)

Function = Callable[[float, int], Enclosure]


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


def enclosed(value: Any, p: int) -> Enclosure:
    """Return bounds of relative width ``2**-p`` around a number that mpmath computed with `SPARE` bits more."""
    sign, mantissa, e, bits = value
    free = p + SPARE - bits
    n = int(mantissa) << free
    if sign:
        n = -n
    return n - (1 << SPARE), n + (1 << SPARE), e - free


def _computed(name: str) -> Function:
    function = getattr(libmp, f"mpf_{name}")
    return lambda x, p: enclosed(function(libmp.from_float(x), p + SPARE), p)


def _within(enclose: Function, most: float) -> Function:
    """Return a function whose values for arguments beyond ``most`` lie in the same gap between doubles as there."""

    def at(x: float, p: int) -> Enclosure:
        if -most <= x <= most:
            return enclose(x, p)
        lo, _, e = enclose(math.copysign(most, x), p)
        return lo, lo, e

    return at


def _like_x(enclose: Function, outward: bool) -> Function:
    """Return a function that is x near zero, moved by less than an ulp away from zero or towards it."""

    def at(x: float, p: int) -> Enclosure:
        if not -_SMALL < x < _SMALL:
            return enclose(x, p)
        if x == 0.0:
            return _ZERO
        m, e = significand(x)
        point = (m << 8) + (1 if outward is (m > 0) else -1)
        return point, point, e - 8

    return at


def _like_one(enclose: Function, small: float, left: Enclosure, right: Enclosure) -> Function:
    """Return a function that is 1 at zero, and next to it on either side."""

    def at(x: float, p: int) -> Enclosure:
        if not -small < x < small:
            return enclose(x, p)
        return _ONE if x == 0.0 else right if x > 0.0 else left

    return at


def _zero_at_one(enclose: Function) -> Function:
    return lambda x, p: _ZERO if x == 1.0 else enclose(x, p)


# Exponentials and logarithms ------------------------------------------------------------------------------------------


def _exp_of_product(x: float, factor: Callable[[int], Any], p: int) -> Enclosure:
    """Return ``exp(x * factor)``."""
    wide = p + SPARE
    return enclosed(libmp.mpf_exp(libmp.mpf_mul(libmp.from_float(x), factor(wide), wide), wide), p)


def _exp2(x: float, p: int) -> Enclosure:
    return (1, 1, int(x)) if x == math.floor(x) else _exp_of_product(x, libmp.mpf_ln2, p)


def _exp10(x: float, p: int) -> Enclosure:
    if x == math.floor(x) and x >= 0.0:
        return 10 ** int(x), 10 ** int(x), 0
    return _exp_of_product(x, libmp.mpf_ln10, p)


exp_at = _like_one(_within(_computed("exp"), 800.0), 2.0**-58, _ALMOST_ONE, _JUST_OVER_ONE)
exp2_at = _like_one(_within(_exp2, 1100.0), 2.0**-58, _ALMOST_ONE, _JUST_OVER_ONE)
exp10_at = _like_one(_within(_exp10, 400.0), 2.0**-58, _ALMOST_ONE, _JUST_OVER_ONE)

log_at = _zero_at_one(_computed("log"))


def _log_to_base(x: float, base: Callable[[int], Any], p: int) -> Enclosure:
    wide = p + SPARE
    return enclosed(libmp.mpf_div(libmp.mpf_log(libmp.from_float(x), wide), base(wide), wide), p)


def log2_at(x: float, p: int) -> Enclosure:
    m, e = math.frexp(x)
    return (e - 1, e - 1, 0) if m == 0.5 else _log_to_base(x, libmp.mpf_ln2, p)


def log10_at(x: float, p: int) -> Enclosure:
    if x >= 1.0 and x == math.floor(x) and x <= 1e22:
        n = len(str(int(x))) - 1
        if 10**n == int(x):
            return n, n, 0
    return _log_to_base(x, libmp.mpf_ln10, p)


# Trigonometric functions ----------------------------------------------------------------------------------------------


def quarter_turns(x: float) -> int:
    """Return the number of times that ``x`` contains pi/2, rounded down.

    No double but 0 is nearer than 2**-61 to a multiple of pi/2 (Muller, section 11.3.2), so it is right for every `x`.
    """
    m, e = significand(x)
    wide = 72 + max(0, e + 53)  # the error of pi/2 is multiplied by the result
    shift = e + wide
    return (m << shift if shift >= 0 else m >> -shift) // int(libmp.pi_fixed(wide - 1))


def half_turns_at(quarters: int, p: int) -> Enclosure:
    """Return ``quarters * pi/2``."""
    if quarters == 0:
        return _ZERO
    wide = p + SPARE
    return enclosed(libmp.mpf_shift(libmp.mpf_mul_int(libmp.mpf_pi(wide), quarters, wide), -1), p)


def atan2_at(y: float, x: float, p: int) -> Enclosure:
    """Return the angle of the finite point (x, y), other than the origin, for ``y >= 0``."""
    if y == 0.0 and x > 0.0:
        return _ZERO
    steep = math.frexp(y)[1] - math.frexp(x)[1]
    if y and x > 0.0 and steep < -60:
        # The angle is y/x less a part in 2**119 of it. A quotient of two doubles that is no double is not within a
        # part in 2**107 of one, so a point barely below the quotient is a representative.
        (n, d), (u, v) = y.as_integer_ratio(), x.as_integer_ratio()
        bits = 110 - steep
        quotient = (n * v << bits) // (d * u)
        return quotient - 1, quotient - 1, -bits
    return enclosed(libmp.mpf_atan2(libmp.from_float(y), libmp.from_float(x), p + SPARE), p)


sin_at, cos_at = _like_x(_computed("sin"), False), _like_one(_computed("cos"), _SMALL, _ALMOST_ONE, _ALMOST_ONE)
tan_at = _like_x(_computed("tan"), True)
# Fit for further arithmetic, for tiny arguments too.
asin_enclosed, atan_enclosed = _computed("asin"), _computed("atan")
asin_at, atan_at = _like_x(asin_enclosed, True), _like_x(atan_enclosed, False)
acos_at = _zero_at_one(_computed("acos"))


# Hyperbolic functions -------------------------------------------------------------------------------------------------

sinh_at = _like_x(_within(_computed("sinh"), 800.0), True)
cosh_at = _like_one(_within(_computed("cosh"), 800.0), _SMALL, _JUST_OVER_ONE, _JUST_OVER_ONE)
tanh_at = _like_x(_within(_computed("tanh"), 22.0), False)
asinh_at, atanh_at = _like_x(_computed("asinh"), False), _like_x(_computed("atanh"), True)
acosh_at = _zero_at_one(_computed("acosh"))
