"""Preimages and quotients as two disjoint, ascending intervals, where one hull would contain everything.

A magnitude, square, even power or divisor of either sign has a gap around zero, and an inequality one around a value.
An empty interval is last. NULL and NaN, if they are members, are in the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.interval.reals import arithmetic, reverse
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.reals.sets import convex_hull, intersection
from ivjoin.interval.typed import exact, generic
from ivjoin.interval.typed.intervals import DomainInterval, given, operand, void

__all__ = [
    "abs_rev_to_pair", "div_rev2_to_pair", "div_to_pair", "mul_rev_to_pair", "pown_rev_to_pair", "sqr_rev_to_pair",
]  # fmt: skip

Real = tuple[Interval, Interval]
Typed = tuple[DomainInterval, DomainInterval]
_BELOW, _ABOVE = make(-float("inf"), 0.0), make(0.0, float("inf"))


# Of reals


def _real_pair(low: Interval, high: Interval) -> Real:
    """Two pieces, ascending; one where they touch."""
    if low.inf > low.sup or high.inf > high.sup:
        return (high, EMPTY) if low.inf > low.sup else (low, EMPTY)
    return (convex_hull(low, high), EMPTY) if low.sup >= high.inf else (low, high)


def _real_split(back: Callable[[Interval], Interval], x: Interval) -> Real:
    return _real_pair(back(intersection(x, _BELOW)), back(intersection(x, _ABOVE)))


def _real_quotients(x: Interval, y: Interval) -> Real:
    """Return the quotients by the negative and by the positive divisors."""
    low, high = intersection(y, _BELOW), intersection(y, _ABOVE)
    first, second = arithmetic.div(x, low), arithmetic.div(x, high)
    return _real_pair(*((first, second) if first.inf <= second.inf else (second, first)))


# Of domains


def _typed_split(back: Callable[[DomainInterval], DomainInterval], x: DomainInterval) -> Typed:
    """Return a preimage among the members below zero, and among the others."""
    d = x.domain
    step: Any = d.format.tiny if d.is_float else 1
    low = back(DomainInterval(d, x.lo, min(x.hi, -step)) if x.lo < 0 else void(d))
    high = back(DomainInterval(d, max(x.lo, 0), x.hi, x.nan, x.null) if x.hi >= 0 else void(d, x.nan, x.null))
    return _typed_pair(low, high)


def _typed_pair(low: DomainInterval, high: DomainInterval) -> Typed:
    d, nan, null = low.domain, low.nan or high.nan, low.null or high.null
    step: Any = d.format.up if d.is_float else (lambda v: v + 1)
    if low.is_void or high.is_void:
        one = high if low.is_void else low
        return DomainInterval(d, one.lo, one.hi, nan, null), void(d)
    if low.lo > high.lo:
        low, high = high, low
    if high.lo <= step(low.hi):
        return DomainInterval(d, low.lo, max(low.hi, high.hi), nan, null), void(d)
    return DomainInterval(d, low.lo, low.hi, nan, null), DomainInterval(d, high.lo, high.hi)


def _is_real(*args: Any) -> bool:
    return not any(isinstance(a, DomainInterval) for a in args)


def _split(back: Callable[[Any], Any], x: Any, *given_: Any) -> Any:
    """Return a preimage in ``x`` as up to two intervals, around zero, of reals or of the domain of an argument."""
    typed = [a for a in (*given_, x) if isinstance(a, DomainInterval)]
    if not typed:
        return _real_split(back, ENTIRE if x is None else x)
    return _typed_split(back, operand(given(x, typed[0]), typed[0]))


def mul_rev_to_pair(b: Any, c: Any, x: Any = None) -> Any:
    """Return the members of ``x`` that a member of ``b`` takes into ``c`` by multiplication, as up to two intervals."""
    if _is_real(b, c, x):
        return reverse.mul_rev_to_pair(b, c, ENTIRE if x is None else x)
    return _split(lambda part: exact.mul_rev(b, c, part), x, b, c)


def abs_rev_to_pair(c: Any, x: Any = None) -> Any:
    """Return the members of ``x`` whose magnitude is in ``c``, as up to two intervals."""
    return _split(lambda part: generic.abs_rev(c, part), x, c)


def sqr_rev_to_pair(c: Any, x: Any = None) -> Any:
    """Return the members of ``x`` whose square is in ``c``, as up to two intervals."""
    return _split(lambda part: generic.sqr_rev(c, part), x, c)


def pown_rev_to_pair(c: Any, n: int, x: Any = None) -> Any:
    """Return the members of ``x`` whose n-th power is in ``c``, as up to two intervals."""
    return _split(lambda part: generic.pown_rev(c, n, part), x, c)


def div_to_pair(x: Any, y: Any) -> Any:
    """Return the quotients by the members of ``y`` other than 0, as up to two intervals, one for each sign."""
    if _is_real(x, y):
        return _real_quotients(x, y)
    y = operand(y, x)
    d = y.domain
    step: Any = d.format.tiny if d.is_float else 1
    low = DomainInterval(d, y.lo, min(y.hi, -step), y.nan, y.null) if y.lo < 0 else void(d, y.nan, y.null)
    high = DomainInterval(d, max(y.lo, step), y.hi) if y.hi > 0 else void(d)
    return _typed_pair(exact.div(x, low), exact.div(x, high))


def div_rev2_to_pair(a: Any, c: Any, x: Any = None) -> Any:
    """Return the divisors in ``x``, without 0, that take some member of ``a`` into ``c``, as up to two intervals."""
    return _split(lambda part: generic.div_rev2(a, c, part), x, a, c)
