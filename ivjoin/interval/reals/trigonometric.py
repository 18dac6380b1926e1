"""Trigonometric functions and their inverses (IEEE 1788-2015, table 9.1): every bound is the tightest double.

Extremes are at the ends or at a multiple of pi/2. The number of quarter turns selects it, exact for any argument.
"""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.interval.machine.rounding import INF
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.reals.elementary import increasing
from ivjoin.interval.reals.pointwise import (
    Enclosure,
    above,
    acos_at,
    asin_at,
    atan2_at,
    atan_at,
    below,
    cos_at,
    half_turns_at,
    quarter_turns,
    sin_at,
    tan_at,
)

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

_UNIT = make(-1.0, 1.0)
_PI_DOWN = below(half_turns_at, 2)
_PI_UP = above(half_turns_at, 2)
_HALF_PI_UP = above(half_turns_at, 1)


def _passes(first: int, last: int, phase: int) -> bool:
    """Return whether quarter turns `first` to `last` contain the start of one that is `phase` modulo 4."""
    return last - (last - phase) % 4 > first


def sin(x: Interval) -> Interval:
    """Return the sines."""
    return _wave(sin_at, x, 1)


def cos(x: Interval) -> Interval:
    """Return the cosines."""
    return _wave(cos_at, x, 0)


def _wave(enclose: Callable[..., Enclosure], x: Interval, crest: int) -> Interval:
    """Return the image under a sine or cosine whose maxima start the quarter turns `crest` modulo 4."""
    a, b = x.inf, x.sup
    if a > b:
        return EMPTY
    if a == -INF or b == INF:
        return _UNIT
    first, last = quarter_turns(a), quarter_turns(b)
    high = _passes(first, last, crest)
    low = _passes(first, last, crest + 2)
    if not high and not low:
        rises = (first - crest) % 4 >= 2
        return make(below(enclose, a if rises else b), above(enclose, b if rises else a))
    return make(
        -1.0 if low else min(below(enclose, a), below(enclose, b)),
        1.0 if high else max(above(enclose, a), above(enclose, b)),
    )


def tan(x: Interval) -> Interval:
    """Return the tangents of the members other than the odd multiples of pi/2."""
    a, b = x.inf, x.sup
    if a > b:
        return EMPTY
    if a == -INF or b == INF:
        return ENTIRE
    first, last = quarter_turns(a), quarter_turns(b)
    if (last + 1) // 2 > (first + 1) // 2:  # an odd quarter turn begins inside: a pole
        return ENTIRE
    return make(below(tan_at, a), above(tan_at, b))


def asin(x: Interval) -> Interval:
    """Return the arc sines, in [-pi/2, pi/2], of the members in [-1, 1]."""
    if x.sup < -1.0 or x.inf > 1.0:
        return EMPTY
    return make(below(asin_at, x.inf if x.inf > -1.0 else -1.0), above(asin_at, x.sup if x.sup < 1.0 else 1.0))


def acos(x: Interval) -> Interval:
    """Return the arc cosines, in [0, pi], of the members in [-1, 1]."""
    if x.sup < -1.0 or x.inf > 1.0:
        return EMPTY
    return make(below(acos_at, x.sup if x.sup < 1.0 else 1.0), above(acos_at, x.inf if x.inf > -1.0 else -1.0))


def atan(x: Interval) -> Interval:
    """Return the arc tangents, between -pi/2 and pi/2."""
    return increasing(atan_at, x, -_HALF_PI_UP, _HALF_PI_UP)


def _angle(rounded: Callable[..., float], y: float, x: float) -> float:
    """Return the angle of the point (x, y) with ``y >= 0`` rounded by `below` or `above`; not both are infinite."""
    if y == INF:
        return rounded(half_turns_at, 1)
    if x == INF or x == -INF:
        return 0.0 if x > 0.0 else rounded(half_turns_at, 2)
    return rounded(atan2_at, y, x)


def atan2(y: Interval, x: Interval) -> Interval:
    """Return the angles, in (-pi, pi], of the points (x, y) other than the origin; ``y`` is first."""
    if y.inf > y.sup or x.inf > x.sup or (y.inf == y.sup == 0.0 and x.inf == x.sup == 0.0):
        return EMPTY
    if y.inf >= 0.0:
        return _upper_angles(y, x)
    if y.sup < 0.0 or (y.sup == 0.0 and x.inf >= 0.0):
        mirrored = _upper_angles(make(-y.sup, -y.inf), x)
        return make(-mirrored.sup, -mirrored.inf)
    if x.inf < 0.0:
        # The box touches the negative half-axis from below, where the angle is near -pi, and contains part of it.
        return make(-_PI_UP, _PI_UP)
    return make(-_angle(above, -y.inf, x.inf), _angle(above, y.sup, x.inf))


def _upper_angles(y: Interval, x: Interval) -> Interval:
    """`atan2` for ``y >= 0``, where the angle falls in x, rises in y on the right and falls in y on the left."""
    least = y.inf if x.sup > 0.0 else y.sup
    most = y.sup if x.inf >= 0.0 else y.inf
    if x.sup == 0.0 == least:  # y is {0}, and x reaches the origin from the left
        return make(_PI_DOWN, _PI_UP)
    return make(
        _angle(below, least, x.sup),
        0.0 if x.inf == 0.0 == most else _angle(above, most, x.inf),
    )
