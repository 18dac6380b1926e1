"""An operator of typed intervals: the domain of its result, and forward and backward functions on pairs of bounds.

The pairs are physical and not empty. A value beyond the limits of the domain is an error, and no row has it. If one
argument has few values, the refinements here turn an outer bound into the hull.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ivjoin.interval.machine.types import Type

__all__ = ["MANY", "Binary", "Unary", "clipped", "empty", "refined", "shaved", "sign_rev", "union", "valued", "within"]

Pair = tuple[Any, Any]
Forward = Callable[[Pair, Pair], Pair]
Backward = Callable[[Pair, Pair, Pair], Pair]
NONE: Pair = (1, 0)

# Up to this many values are tried one by one, at each end of a bound and of the narrower argument: all of an int8.
MANY = 256


class Unary(NamedTuple):
    """An operator of one argument.

    ``nan`` is the result for NaN (``nan``, ``zero``, ``null`` or ``error``). ``makes_null``: a number can give NULL.
    """

    domain: Type
    forward: Callable[[Pair], Pair]
    back: Callable[[Pair, Pair], Pair]
    nan: str = "nan"
    makes_null: Callable[[Pair], bool] | None = None


class Binary(NamedTuple):
    """An operator of two arguments; ``back1`` and ``back2`` take results, the other argument, the one to narrow."""

    domain: Type
    forward: Forward
    back1: Backward
    back2: Backward
    makes_nan: Callable[[Pair, Pair], bool] | None = None


def empty(a: Pair) -> bool:
    return bool(a[0] > a[1])


def union(a: Pair, b: Pair) -> Pair:
    """Return the hull of two pairs."""
    if a[0] > a[1]:
        return b
    if b[0] > b[1]:
        return a
    return (a[0] if a[0] <= b[0] else b[0]), (a[1] if a[1] >= b[1] else b[1])


def clipped(a: Pair, limits: Pair) -> Pair:
    """Return the intersection of two pairs; ``(1, 0)`` if it is empty."""
    lo = a[0] if a[0] >= limits[0] else limits[0]
    hi = a[1] if a[1] <= limits[1] else limits[1]
    return (lo, hi) if lo <= hi else NONE


def valued(of: Pair, each: Callable[[Pair], Pair], outer: Pair) -> Pair:
    """Return the hull of a function over the values of a narrow pair, one by one, until it fills the outer bound."""
    lo, hi = of
    if empty(outer) or hi - lo >= MANY:
        return outer
    out = NONE
    for v in (lo, hi, *range(lo + 1, hi)):
        out = union(out, each((v, v)))
        if out == outer:
            break
    return out


def shaved(out: Pair, reached: Callable[[Pair], bool]) -> Pair:
    """Return a pair of ints without the values at its ends that a test refutes."""
    lo, hi = out
    tries = MANY
    while lo <= hi and tries and not reached((lo, lo)):
        lo, tries = lo + 1, tries - 1
    tries = MANY
    while lo <= hi and tries and not reached((hi, hi)):
        hi, tries = hi - 1, tries - 1
    return (lo, hi) if lo <= hi else NONE


def within(f: Callable[[Pair], Pair], back: Callable[[Pair, Pair], Pair], limits: Pair) -> Callable[[Pair], Pair]:
    """Return a function over those members only whose result lies within limits, so that its bounds are attained."""

    def forward(x: Pair) -> Pair:
        out = f(x)
        if limits[0] <= out[0] and out[1] <= limits[1]:
            return out
        x = clipped(back(limits, x), x)
        return NONE if empty(x) else clipped(f(x), limits)

    return forward


def refined(domain: Type, forward: Forward, back1: Backward, back2: Backward, wide: bool = False) -> Binary:
    """Return an operator of ints that is exact where few values decide, from outer bounds.

    ``forward`` must be exact for a single second argument, and ``back1`` or ``back2`` for a single other argument.
    ``wide``: ``forward`` is wider than its clipping, and ``back2`` wider than the hull even for a single first
    argument.
    """
    limits = domain.limits

    def up(a: Pair, b: Pair) -> Pair:
        out = forward(a, b)
        inside = limits[0] <= out[0] and out[1] <= limits[1]
        if inside and not wide:
            return out

        def at(v: Pair) -> Pair:
            mine = a if inside else back1(limits, v, a)
            return NONE if empty(mine) else clipped(forward(mine, v), limits)

        return valued(b, at, clipped(out, limits))

    def first(z: Pair, b: Pair, x: Pair) -> Pair:
        out = clipped(back1(z, b, x), x)
        if b[0] == b[1] or empty(out):
            return out
        if wide:
            return valued(b, lambda v: clipped(back1(z, v, x), x), out)
        return shaved(out, lambda v: not empty(back2(z, v, b)))

    def second(z: Pair, a: Pair, x: Pair) -> Pair:
        out = clipped(back2(z, a, x), x)
        if empty(out) or (a[0] == a[1] and not wide):
            return out
        return shaved(out, lambda v: not empty(back1(z, v, a)))

    return Binary(domain, up, first, second)


def sign_rev(z: Pair, x: Pair, least: Any = 1) -> Pair:
    """Return the members of ``x`` with a sign in ``z``; ``least`` is the smallest positive value."""
    parts = ((-1, (x[0], -least)), (0, (0, 0)), (1, (least, x[1])))
    out = NONE
    for s, part in parts:
        if z[0] <= s <= z[1]:
            out = union(out, clipped(part, x))
    return out
