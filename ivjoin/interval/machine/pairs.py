"""Pairs of bounds ``lo <= hi``; a pair whose first bound is above the second is empty, and ``(1, 0)`` by convention."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

__all__ = ["EMPTY", "Pair", "abs_", "abs_rev", "by_sign", "hull", "is_empty", "meet", "neg", "shaved"]

Pair = tuple[Any, Any]
EMPTY: Pair = (1, 0)


def is_empty(a: Pair) -> bool:
    return bool(a[0] > a[1])


def hull(a: Pair, b: Pair) -> Pair:
    """Return the smallest interval that contains both."""
    if a[0] > a[1]:
        return b
    if b[0] > b[1]:
        return a
    return (a[0] if a[0] <= b[0] else b[0]), (a[1] if a[1] >= b[1] else b[1])


def meet(a: Pair, b: Pair) -> Pair:
    """Return the intersection, or EMPTY."""
    lo = a[0] if a[0] >= b[0] else b[0]
    hi = a[1] if a[1] <= b[1] else b[1]
    return (lo, hi) if lo <= hi else EMPTY


def neg(a: Pair) -> Pair:
    """Return the negatives."""
    return (-a[1], -a[0]) if a[0] <= a[1] else EMPTY


def abs_(a: Pair) -> Pair:
    if a[0] >= 0:
        return a
    return neg(a) if a[1] <= 0 else (0, max(-a[0], a[1]))


def abs_rev(z: Pair, x: Pair) -> Pair:
    """Return the members of ``x`` whose magnitude is in ``z``."""
    z = meet(z, (0, inf))
    return hull(meet(z, x), meet(neg(z), x))


def by_sign(
    b: Pair, least: Any, positive: Callable[[Any, Any], Pair], negative: Callable[[Any, Any], Pair] | None = None,
    x: Pair = (-inf, inf),
) -> Pair:  # fmt: skip
    """Return the hull, within ``x``, of a function over the members of ``b`` from ``least`` on and over the negatives.

    ``negative`` takes the magnitudes of the negatives. By default it is the negated ``positive``.
    """
    out = EMPTY
    if b[1] > 0:
        out = meet(positive(max(b[0], least), b[1]), x)
    if b[0] < 0:
        ends = max(-b[1], least), -b[0]
        out = hull(out, meet(neg(positive(*ends)) if negative is None else negative(*ends), x))
    return out


def shaved(
    out: Pair, reached: Callable[[Any], bool], tries: int,
    up: Callable[[Any], Any] = lambda v: v + 1, down: Callable[[Any], Any] = lambda v: v - 1,
) -> Pair:  # fmt: skip
    """Return a pair without the values at its ends that a test refutes, up to ``tries`` at each end."""
    lo, hi = out
    for _ in range(tries):
        if lo > hi or reached(lo):
            break
        if lo == hi:
            return EMPTY
        lo = up(lo)
    for _ in range(tries):
        if lo > hi or reached(hi):
            break
        if lo == hi:
            return EMPTY
        hi = down(hi)
    return (lo, hi) if lo <= hi else EMPTY
