"""An operator of typed intervals: the domain of its result, and forward and backward functions on pairs of bounds.

The pairs are physical and not empty. A value beyond the limits of the domain is an error, and no row has it. If one
argument has few values, the refinements here turn an outer bound into the hull.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ivjoin.interval.machine.pairs import EMPTY, Pair, hull, is_empty, meet, shaved
from ivjoin.interval.machine.types import Type

__all__ = [
    "MANY", "NAN", "NULL", "Binary", "Unary", "Values", "argument", "argument_of_two", "refined", "result",
    "result_of_two", "sign_rev", "valued", "within",
]  # fmt: skip

# A set of values: a least and a greatest number (``(1, 0)`` for no number), and the bits NULL and NAN.
Values = tuple[Any, Any, int]
NULL, NAN = 1, 2
Forward = Callable[[Pair, Pair], Pair]
Backward = Callable[[Pair, Pair, Pair], Pair]

# Up to this many values are tried one by one, at each end of a bound and of the narrower argument: all of an int8.
MANY = 256


class Unary(NamedTuple):
    """An operator of one argument.

    ``nan`` is the result for NaN (``nan``, ``zero``, ``null`` or ``error``). ``makes`` returns what numbers can give
    besides numbers, of NULL and NAN.
    """

    domain: Type
    forward: Callable[[Pair], Pair]
    back: Callable[[Pair, Pair], Pair]
    nan: str = "nan"
    makes: Callable[[Pair], int] | None = None


class Binary(NamedTuple):
    """An operator of two arguments; ``back1`` and ``back2`` take results, the other argument, the one to narrow.

    ``makes_nan``: whether numbers can give NaN. ``divides``: a second argument of zero is an error.
    """

    domain: Type
    forward: Forward
    back1: Backward
    back2: Backward
    makes_nan: Callable[[Pair, Pair], bool] | None = None
    divides: bool = False


def result(op: Unary, x: Values) -> Values:
    """Return the results of an operator; NULL gives NULL."""
    lo, hi, flags = x
    pair, out = EMPTY, flags & NULL
    if lo <= hi:
        pair = op.forward((lo, hi))
        if op.makes is not None:
            out |= op.makes((lo, hi))
    if flags & NAN:
        if op.nan == "zero":
            pair = hull(pair, (0, 0))
        else:
            out |= NAN if op.nan == "nan" else NULL if op.nan == "null" else 0
    return (*pair, out)


def argument(op: Unary, z: Values, x: Values) -> Values:
    """Return the members of ``x`` with a result in ``z``."""
    (least, most, wanted), (lo, hi, flags) = z, x
    keep = flags & NULL & wanted
    if flags & NAN:
        gives = wanted & NAN if op.nan == "nan" else wanted & NULL if op.nan == "null" else (
            op.nan == "zero" and least <= 0 <= most
        )
        keep |= NAN if gives else 0
    if lo > hi or (wanted and op.makes is not None and op.makes((lo, hi)) & wanted):
        return lo, hi, keep
    return (*(op.back((least, most), (lo, hi)) if least <= most else EMPTY), keep)


def result_of_two(op: Binary, a: Values, b: Values) -> Values:
    """Return the results of an operator; a NULL gives NULL, and a NaN gives NaN."""
    (alo, ahi, af), (blo, bhi, bf) = a, b
    flags = af | bf
    if alo > ahi or blo > bhi:
        return (*EMPTY, flags)
    if op.makes_nan is not None and not flags & NAN and op.makes_nan((alo, ahi), (blo, bhi)):
        flags |= NAN
    return (*op.forward((alo, ahi), (blo, bhi)), flags)


def argument_of_two(op: Binary, first: bool, z: Values, other: Values, x: Values) -> Values:
    """Return the members of ``x``, the first or second argument, with a result in ``z`` for a member of ``other``."""
    (least, most, wanted), (low, high, others), (lo, hi, flags) = z, other, x
    if wanted & others & NULL:
        return x
    # NULL of x gives NULL for every other argument, unless that one is empty. So does NaN, except with a divisor 0.
    keep, pair = flags & wanted, (lo, hi)
    if low > high and not others & NAN:
        keep = keep & NULL if others & NULL else 0
    elif op.divides and first and low == high == 0 and not others & NAN:
        keep &= NULL
    if lo > hi:
        return lo, hi, keep
    if wanted & others & NAN:
        if op.divides and not first:
            tiny = op.domain.format.tiny
            pair = (tiny, hi) if lo == 0 else (lo, -tiny) if hi == 0 else pair
    elif low > high:
        pair = EMPTY
    elif wanted & NAN and op.makes_nan is not None and op.makes_nan(*(pair, (low, high))[:: 1 if first else -1]):
        pass
    elif least > most:
        pair = EMPTY
    else:
        pair = (op.back1 if first else op.back2)((least, most), (low, high), pair)
    return (*pair, keep)


def valued(of: Pair, each: Callable[[Pair], Pair], outer: Pair) -> Pair:
    """Return the hull of a function over the values of a narrow pair, one by one, until it fills the outer bound."""
    lo, hi = of
    if is_empty(outer) or hi - lo >= MANY:
        return outer
    out = EMPTY
    for v in (lo, hi, *range(lo + 1, hi)):
        out = hull(out, each((v, v)))
        if out == outer:
            break
    return out


def within(f: Callable[[Pair], Pair], back: Callable[[Pair, Pair], Pair], limits: Pair) -> Callable[[Pair], Pair]:
    """Return a function over those members only whose result lies within limits, so that its bounds are attained."""

    def forward(x: Pair) -> Pair:
        out = f(x)
        if limits[0] <= out[0] and out[1] <= limits[1]:
            return out
        x = meet(back(limits, x), x)
        return EMPTY if is_empty(x) else meet(f(x), limits)

    return forward


def refined(op: Binary, wide: bool = False) -> Binary:
    """Return an operator of ints that is exact where few values decide, from one with outer bounds.

    ``forward`` must be exact for a single second argument, and ``back1`` or ``back2`` for a single other argument.
    ``wide``: ``forward`` is wider than its clipping, and ``back2`` wider than the hull even for a single first
    argument.
    """
    forward, back1, back2, limits = op.forward, op.back1, op.back2, op.domain.limits

    def up(a: Pair, b: Pair) -> Pair:
        out = forward(a, b)
        inside = limits[0] <= out[0] and out[1] <= limits[1]
        if inside and not wide:
            return out

        def at(v: Pair) -> Pair:
            mine = a if inside else back1(limits, v, a)
            return EMPTY if is_empty(mine) else meet(forward(mine, v), limits)

        return valued(b, at, meet(out, limits))

    def first(z: Pair, b: Pair, x: Pair) -> Pair:
        out = meet(back1(z, b, x), x)
        if b[0] == b[1] or is_empty(out):
            return out
        if wide:
            return valued(b, lambda v: meet(back1(z, v, x), x), out)
        return shaved(out, lambda v: not is_empty(back2(z, (v, v), b)), MANY)

    def second(z: Pair, a: Pair, x: Pair) -> Pair:
        out = meet(back2(z, a, x), x)
        if is_empty(out) or (a[0] == a[1] and not wide):
            return out
        return shaved(out, lambda v: not is_empty(back1(z, (v, v), a)), MANY)

    return op._replace(forward=up, back1=first, back2=second)


def sign_rev(z: Pair, x: Pair, least: Any = 1) -> Pair:
    """Return the members of ``x`` with a sign in ``z``; ``least`` is the smallest positive value."""
    parts = ((-1, (x[0], -least)), (0, (0, 0)), (1, (least, x[1])))
    out = EMPTY
    for s, part in parts:
        if z[0] <= s <= z[1]:
            out = hull(out, meet(part, x))
    return out
