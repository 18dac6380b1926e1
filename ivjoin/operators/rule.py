"""The shape of an operator's rule, and the wrappers that take care of NULL and NaN once for all of them.

A rule is made per node: ``forward(D)`` gives the node's domain from its arguments' domains, ``backward(state)`` narrows
the arguments, ``cases(state)`` offers alternatives of which at least one holds. Forward and backward of an operator
stand side by side; adding an operator touches one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ivjoin.expr.nodes import Node
from ivjoin.operators.domain import NAN, NULL
from ivjoin.operators.state import Backward, Cases, Forward, State

__all__ = ["Maker", "Pair", "Place", "Rule", "nothing", "strict", "strict_binary", "strict_unary"]

Pair = tuple[Any, Any]
NONE: Pair = (1, 0)


class Place(NamedTuple):
    """Where a node stands: its own index and those of its arguments.

    ``zero_gives_null``: whether a division by zero may be NULL, as engines without ANSI mode have it, and not an error
    alone.
    """

    node: Node
    i: int
    at: tuple[int, ...]
    zero_gives_null: bool = True


class Rule(NamedTuple):
    """The two directions of an operator.

    ``strict`` lists the arguments, the first ones, that are evaluated without error wherever the node is; None is all.
    ``finer`` are alternatives that only tell something where another part of the condition reads the same columns.
    """

    forward: Forward | None
    backward: Backward | None
    strict: tuple[int, ...] | None = None
    cases: Cases | None = None
    finer: Cases | None = None


Maker = Callable[[Place], Rule | None]


def nothing(place: Place) -> Rule:
    """The rule of an operator of which nothing is known, not even that it needs its arguments."""
    return Rule(None, None, ())


def strict(place: Place) -> Rule:
    """The rule of an operator of which nothing is known but that it evaluates all its arguments."""
    return Rule(None, None)


def strict_unary(
    place: Place,
    forward: Callable[[Pair], Pair],
    backward: Callable[[Pair, Pair], Pair] | None,
    limits: Pair,
    makes: Callable[[Pair], int] | None = None,
    nan_errs: bool = False,
    nan_gives: Any = None,
    nan_null: bool = False,
) -> Rule:
    """The rule of an operator of one number, NULL of NULL.

    Parameters
    ----------
    forward : callable
        Interval of the argument to interval of the results.
    backward : callable or None
        ``(results, argument)``: the members of the argument that can give such a result.
    limits : pair
        Least and greatest value of the result's type; what lies past them errs.
    makes : callable, optional
        Flags (NULL, NAN) that the operator may give for an interval of arguments that are neither.
    nan_errs : bool
        Whether NaN errs; otherwise it gives NaN, or ``nan_gives`` if that is not None, or NULL if ``nan_null``.
    """
    i, a = place.i, place.at[0]
    least, most = limits

    def up(D: list[Any]) -> Any:
        lo, hi, flags = D[a]
        out = flags & NULL
        if flags & NAN and not nan_errs and nan_gives is None:
            out |= NULL if nan_null else NAN
        if lo > hi:
            if flags & NAN and nan_gives is not None:
                return nan_gives, nan_gives, out
            return 1, 0, out
        if makes is not None:
            out |= makes((lo, hi))
        low, high = forward((lo, hi))
        if low < least:
            low = least
        if high > most:
            high = most
        if flags & NAN and nan_gives is not None:
            if low > high:
                return nan_gives, nan_gives, out
            low, high = min(low, nan_gives), max(high, nan_gives)
        return (low, high, out) if low <= high else (1, 0, out)

    def down(s: State) -> None:
        low, high, flags = s.D[i]
        x = s.D[a]
        keep = flags & NULL
        if nan_gives is not None:
            if low <= nan_gives <= high:
                keep |= NAN
        elif nan_null:
            keep |= NAN if flags & NULL else 0
        elif not nan_errs:
            keep |= flags & NAN
        if x[0] > x[1]:
            return s.drop_flags(a, keep)
        if flags and makes is not None and makes((x[0], x[1])) & flags:
            return s.drop_flags(a, keep)
        if low > high:
            return s.cut(a, 1, 0, keep)
        if backward is None:
            return s.drop_flags(a, keep)
        lo, hi = backward((low, high), (x[0], x[1]))
        return s.cut(a, lo, hi, keep)

    return Rule(up, down)


def strict_binary(
    place: Place,
    forward: Callable[[Pair, Pair], Pair],
    backward_a: Callable[[Pair, Pair, Pair], Pair] | None,
    backward_b: Callable[[Pair, Pair, Pair], Pair] | None,
    limits: Pair,
    makes_nan: Callable[[Pair, Pair], bool] | None = None,
    divides: bool = False,
) -> Rule:
    """The rule of an operator of two numbers, NULL if one is NULL and NaN if one is NaN.

    Parameters
    ----------
    forward : callable
        Intervals of the arguments to interval of the results.
    backward_a, backward_b : callable or None
        ``(results, other argument, this argument)``: the members of this argument that can give such a result.
    limits : pair
        Least and greatest value of the result's type; what lies past them errs.
    makes_nan : callable, optional
        Whether numbers of two intervals can give NaN.
    divides : bool
        Whether the second argument divides. Under ANSI dividing by zero errs, elsewhere it gives NULL, which least,
        greatest, coalesce and IS NULL can turn into something TRUE. Where the place says so both are enclosed.
    """
    i = place.i
    a, b = place.at
    least, most = limits
    divides = divides and place.zero_gives_null

    def up(D: list[Any]) -> Any:
        alo, ahi, af = D[a]
        blo, bhi, bf = D[b]
        flags = af | bf
        if alo > ahi or blo > bhi:
            return 1, 0, flags
        if makes_nan is not None and not flags & NAN and makes_nan((alo, ahi), (blo, bhi)):
            flags |= NAN
        if divides and blo <= 0 <= bhi:
            flags |= NULL
        lo, hi = forward((alo, ahi), (blo, bhi))
        if lo < least:
            lo = least
        if hi > most:
            hi = most
        return (lo, hi, flags) if lo <= hi else (1, 0, flags)

    def down(s: State) -> None:
        D = s.D
        zlo, zhi, zf = D[i]
        alo, ahi, af = D[a]
        blo, bhi, bf = D[b]
        free = False
        if zf & NAN and makes_nan is not None and alo <= ahi and blo <= bhi:
            free = makes_nan((alo, ahi), (blo, bhi))
        if divides and zf & NULL and blo <= 0 <= bhi:
            return
        # Where the other argument can make the result NULL or NaN by itself, this one can have any value.
        if free or zf & bf:
            s.drop_flags(a, af if zf & bf & NULL else zf | NAN)
        elif zlo > zhi or blo > bhi:
            s.cut(a, 1, 0, zf)
        elif alo > ahi or backward_a is None:
            s.drop_flags(a, zf)
        else:
            s.cut(a, *backward_a((zlo, zhi), (blo, bhi), (alo, ahi)), zf)
            alo, ahi, af = D[a]
        if free or zf & af:
            s.drop_flags(b, bf if zf & af & NULL else zf | NAN)
        elif zlo > zhi or alo > ahi:
            s.cut(b, 1, 0, zf)
        elif blo > bhi or backward_b is None:
            s.drop_flags(b, zf)
        else:
            s.cut(b, *backward_b((zlo, zhi), (alo, ahi), (blo, bhi)), zf)

    return Rule(up, down)
