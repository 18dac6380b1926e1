"""Reverse functions of the algebraic operations (IEEE 1788-2015, clauses 9.5, 10.5.4 and 10.5.5).

``f_rev(c, x)`` is the hull of the members of `x` that `f` maps into `c`; `x` defaults to every real number. Each branch
is rounded outward and then intersected with `x`, so a gap between two branches is used before the hull.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index

from ivjoin.interval.machine.rounding import INF, div_down, div_up, sqrt_down, sqrt_up
from ivjoin.interval.reals.arithmetic import div
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.reals.elementary import acosh
from ivjoin.interval.reals.point_powers import root_at
from ivjoin.interval.reals.pointwise import above, below
from ivjoin.interval.reals.sets import convex_hull, intersection

__all__ = ["abs_rev", "cosh_rev", "mul_rev", "mul_rev_to_pair", "pown_rev", "sqr_rev"]


def _either_sign(positive: Interval, x: Interval) -> Interval:
    """Return the hull of the members of `x` whose absolute value is in `positive`."""
    mirrored = make(-positive.sup, -positive.inf)
    return convex_hull(intersection(mirrored, x), intersection(positive, x))


def sqr_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of `x` whose square is in `c`."""
    return pown_rev(c, 2, x)


def abs_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of `x` whose absolute value is in `c`."""
    if c.sup < 0.0:
        return EMPTY
    return _either_sign(c if c.inf >= 0.0 else make(0.0, c.sup), x)


def cosh_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the members of `x` whose hyperbolic cosine is in `c`."""
    return _either_sign(acosh(c), x)


def _root(rounded: Callable[..., float], c: float, n: int) -> float:
    """Return ``c ** (1/n)`` of ``c >= 0`` rounded by `below` or `above`, with its limits at 0 and infinity."""
    if c == 0.0 or c == INF:
        return 0.0 if (c == 0.0) is (n > 0) else INF
    up = rounded is above
    if n == 2:
        return sqrt_up(c) if up else sqrt_down(c)
    return (div_up if up else div_down)(1.0, c) if n == -1 else rounded(root_at, c, n)


def _positive_roots(c: Interval, n: int) -> Interval:
    """Return the ``x >= 0`` with ``x ** n`` in `c`; above 0 for a negative `n`."""
    if c.sup < 0.0 or (n < 0 and c.sup == 0.0):
        return EMPTY
    lo = c.inf if c.inf > 0.0 else 0.0
    if n > 0:
        return make(_root(below, lo, n), _root(above, c.sup, n))
    return make(_root(below, c.sup, n), _root(above, lo, n))


def pown_rev(c: Interval, n: int, x: Interval = ENTIRE) -> Interval:
    """Return the members of `x` whose `n`-th power is in `c`; ``0 ** 0`` is 1, and 0 has no negative power."""
    n = index(n)
    if c.inf > c.sup:
        return EMPTY
    if n == 0:
        return x if c.inf <= 1.0 <= c.sup else EMPTY
    if n == 1:
        return intersection(c, x)
    positive = _positive_roots(c, n)
    if n & 1 == 0:
        return _either_sign(positive, x)
    mirrored = _positive_roots(make(-c.sup, -c.inf), n)
    negative = make(-mirrored.sup, -mirrored.inf)
    return convex_hull(intersection(negative, x), intersection(positive, x))


def mul_rev_to_pair(b: Interval, c: Interval, x: Interval = ENTIRE) -> tuple[Interval, Interval]:
    """Return the numbers of `x` that a member of `b` takes into `c`, as two ascending intervals, an empty one last.

    Only a divisor with 0 inside gives two that are not empty.
    """
    first, second = _divided(b, c)
    if x is not ENTIRE:
        first, second = intersection(first, x), intersection(second, x)
        if first.inf > first.sup:
            first, second = second, first
    return first, second


def _divided(b: Interval, c: Interval) -> tuple[Interval, Interval]:
    if b.inf > b.sup or c.inf > c.sup:
        return EMPTY, EMPTY
    if b.inf > 0.0 or b.sup < 0.0:
        return div(c, b), EMPTY
    if c.inf <= 0.0 <= c.sup:
        return ENTIRE, EMPTY  # 0 of b times anything is 0 of c
    # Of the quotients by the negative and by the positive part of b, each is a half-line.
    edge = c.inf if c.inf > 0.0 else c.sup
    pieces = []
    if b.inf < 0.0:
        pieces.append(make(-INF, div_up(edge, b.inf)) if edge > 0.0 else make(div_down(edge, b.inf), INF))
    if b.sup > 0.0:
        pieces.append(make(div_down(edge, b.sup), INF) if edge > 0.0 else make(-INF, div_up(edge, b.sup)))
    pieces.sort(key=lambda piece: piece.inf)
    pieces += [EMPTY, EMPTY]
    return pieces[0], pieces[1]


def mul_rev(b: Interval, c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of `x` that a member of `b` takes into `c`."""
    first, second = mul_rev_to_pair(b, c, x)
    return convex_hull(first, second)
