"""Comparisons, least and greatest of sets of values. NaN equals itself and is above every number.

A set is `Values`: a least and a greatest number, and the bits NULL and NAN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivjoin.interval import truth
from ivjoin.interval.machine.operation import NAN, NULL, Values
from ivjoin.interval.machine.pairs import EMPTY, Pair, hull, meet
from ivjoin.interval.machine.types import Type

__all__ = ["OPPOSITE", "compared", "differ", "equal", "extreme", "held", "some", "unequal"]

OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def some(x: Values) -> bool:
    """Return whether there is a member besides NULL."""
    return bool(x[0] <= x[1] or x[2] & NAN)


def _less(x: Values, y: Values) -> bool:
    """Return whether a member of ``x`` can be below one of ``y``."""
    return bool(x[0] <= x[1] and (y[2] & NAN or (y[0] <= y[1] and x[0] < y[1])))


def equal(x: Values, y: Values) -> bool:
    """Return whether a member of ``x`` can equal one of ``y``."""
    return bool(x[2] & y[2] & NAN or (x[0] <= x[1] and y[0] <= y[1] and x[0] <= y[1] and y[0] <= x[1]))


def differ(x: Values, y: Values) -> bool:
    """Return whether a member of ``x`` can differ from one of ``y``."""
    return _less(x, y) or _less(y, x)


_TESTS: dict[str, Callable[[Values, Values], bool]] = {
    "lt": _less, "gt": lambda x, y: _less(y, x), "eq": equal, "ne": differ,
    "le": lambda x, y: _less(x, y) or equal(x, y), "ge": lambda x, y: _less(y, x) or equal(x, y),
}  # fmt: skip


def compared(op: str, x: Values, y: Values) -> int:
    """Return the possible truth values of ``x op y``, as a mask."""
    mask = truth.TRUE if _TESTS[op](x, y) else 0
    if _TESTS[OPPOSITE[op]](x, y):
        mask |= truth.FALSE
    if (x[2] & NULL and (y[2] & NULL or some(y))) or (y[2] & NULL and some(x)):
        mask |= truth.NULL
    return mask


def _neighbour(d: Type, value: Any, up: bool) -> Any:
    """Return the next value of a domain; None beyond its end."""
    if value == d.limits[1 if up else 0]:
        return None
    if d.kind == "float":
        return d.format.up(value) if up else d.format.down(value)
    return value + 1 if up else value - 1


def held(op: str, d: Type, x: Values, y: Values) -> Values:
    """Return the members of ``x``, of a domain, without NULL that compare so to some member of ``y``."""
    (lo, hi, flags), (low, high, others) = x, y
    if op == "le" or op == "lt":
        if others & NAN:
            return lo, hi, flags & NAN if op == "le" else 0
        top = None if lo > hi or low > high else high if op == "le" else _neighbour(d, high, False)
        return (*EMPTY, 0) if top is None else (lo, top if top < hi else hi, 0)
    nan = flags & NAN
    if op == "ge" or op == "gt":
        if low > high:
            return (*EMPTY, nan & others if op == "ge" else 0)
        bottom = None if lo > hi else low if op == "ge" else _neighbour(d, low, True)
        return (*EMPTY, nan) if bottom is None else (bottom if bottom > lo else lo, hi, nan)
    if op == "eq":
        return (*(EMPTY if lo > hi or low > high else meet((lo, hi), (low, high))), nan & others)
    return (*hull(*unequal(d, x, y)), nan if low <= high else 0)


def unequal(d: Type, x: Values, y: Values) -> tuple[Pair, Pair]:
    """Return the numbers of ``x`` that differ from some member of ``y``, as up to two intervals."""
    (lo, hi, _), (low, high, others) = x, y
    if lo > hi or not some(y):
        return EMPTY, EMPTY
    if others & NAN or low != high or not lo <= low <= hi:
        return (lo, hi), EMPTY
    below, above = _neighbour(d, low, False), _neighbour(d, low, True)
    first = EMPTY if below is None else meet((lo, below), (lo, hi))
    second = EMPTY if above is None else meet((above, hi), (lo, hi))
    return (second, EMPTY) if first[0] > first[1] else (first, second)


def extreme(greatest: bool, x: Values, y: Values) -> Values:
    """Return the greater, or the smaller, of a member of each; NULL is skipped."""
    (lo, hi, flags), (low, high, others) = x, y
    pick, pair = (max if greatest else min), EMPTY
    if lo <= hi and low <= high:
        pair = pick(lo, low), pick(hi, high)
    # With NaN, the smaller one is the number. With NULL, both are the other argument.
    skipped = NULL if greatest else NULL | NAN
    if others & skipped:
        pair = hull(pair, (lo, hi))
    if flags & skipped:
        pair = hull(pair, (low, high))
    if greatest:
        nan = (flags & NAN and (others or low <= high)) or (others & NAN and (flags or lo <= hi))
    else:
        nan = (flags & NAN and others) or (others & NAN and flags & NULL)
    return (*pair, flags & others & NULL | (NAN if nan else 0))
