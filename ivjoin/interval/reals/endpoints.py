"""Endpoints of sums, differences, products and quotients of intervals (IEEE 1788-2015, clauses 9.1 and 10.5.3).

An interval is given by its endpoints, and a result is a pair of them; ``a > b`` is the empty set. Products follow the
nine sign cases of Moore, Kearfott and Cloud, *Introduction to Interval Analysis* (2009), section 2.4. ``0 * inf = 0``,
because an infinite endpoint is a limit.
"""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.interval.machine.rounding import INF, add_down, add_up, div_down, div_up, mul_down, mul_up

__all__ = ["add", "corners", "div", "mul", "sub"]

Bound = Callable[[float, float], float]
Ends = tuple[float, float]

_EMPTY = (INF, -INF)


def add(a: float, b: float, c: float, d: float) -> Ends:
    """Return the endpoints of [a, b] + [c, d]."""
    if a > b or c > d:
        return _EMPTY
    return add_down(a, c), add_up(b, d)


def sub(a: float, b: float, c: float, d: float) -> Ends:
    """Return the endpoints of [a, b] - [c, d]."""
    return add(a, b, -d, -c)


def corners(
    down: Bound, up: Bound, turn: float, a: float, b: float, c: float, d: float
) -> Ends:
    """Return the bounds over [a, b] x [c, d] of a function that rises in x for y > 0, and in y for x > ``turn``."""
    if a >= turn:
        return down(a if c >= 0.0 else b, c), up(b if d >= 0.0 else a, d)
    if b <= turn:
        return down(a if d >= 0.0 else b, d), up(b if c >= 0.0 else a, c)
    if c >= 0.0:
        return down(a, d), up(b, d)
    if d <= 0.0:
        return down(b, c), up(a, c)
    ad, bc, ac, bd = down(a, d), down(b, c), up(a, c), up(b, d)
    return (ad if ad < bc else bc), (ac if ac > bd else bd)


def mul(a: float, b: float, c: float, d: float) -> Ends:
    """Return the endpoints of [a, b] * [c, d]."""
    if a > b or c > d:
        return _EMPTY
    return corners(mul_down, mul_up, 0.0, a, b, c, d)


def div(a: float, b: float, c: float, d: float) -> Ends:
    """Return the endpoints of [a, b] / [c, d], where 0 divides nothing."""
    if a > b or c > d or c == d == 0.0:
        return _EMPTY
    if d <= 0.0:  # x / y = -x / -y, so that the divisor is not negative below
        a, b, c, d = -b, -a, -d, -c
    if c > 0.0:
        return div_down(a, d if a >= 0.0 else c), div_up(b, c if b >= 0.0 else d)
    if a == b == 0.0:
        return 0.0, 0.0
    if c < 0.0 or a < 0.0 < b:
        return -INF, INF
    # The divisor reaches down to 0, which leaves one side open.
    return (div_down(a, d), INF) if a >= 0.0 else (-INF, div_up(b, d))
