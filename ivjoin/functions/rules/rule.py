"""The form of an operator's rule, and wrappers that handle NULL and NaN for all rules.

A rule belongs to a node. ``forward(D)`` returns the node's domain from its arguments' domains, ``backward(state)``
narrows the arguments, and ``cases(state)`` returns alternatives, at least one of them true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ivjoin.expr.nodes import Node
from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.state import Backward, Cases, Forward, State
from ivjoin.interval.machine.operation import Binary, Unary
from ivjoin.interval.typed import operators

__all__ = [
    "Maker", "Pair", "Place", "Rule", "binary", "nothing", "of_binary", "of_unary", "same", "strict", "strict_binary",
    "strict_unary", "unary", "with_nan",
]  # fmt: skip

Pair = tuple[Any, Any]
NONE: Pair = (1, 0)


class Place(NamedTuple):
    """The index of a node in its graph and of its arguments; ``zero_gives_null`` without ANSI mode."""

    node: Node
    i: int
    at: tuple[int, ...]
    zero_gives_null: bool = True


class Rule(NamedTuple):
    """The two directions of an operator.

    ``strict`` lists the first arguments that are evaluated without error whenever the node is; None is all of them.
    ``finer`` are alternatives that help only if another part of the condition reads the same columns.
    """

    forward: Forward | None
    backward: Backward | None
    strict: tuple[int, ...] | None = None
    cases: Cases | None = None
    finer: Cases | None = None


Maker = Callable[[Place], Rule | None]


def nothing(place: Place) -> Rule:
    """Return the rule of an unknown operator, which may not even evaluate its arguments."""
    return Rule(None, None, ())


def strict(place: Place) -> Rule:
    """Return the rule of an unknown operator that evaluates all its arguments."""
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
    """Return the rule of an operator of one number; NULL gives NULL.

    ``forward`` maps intervals, and ``backward(results, argument)`` returns the members that can give such a result.
    Values beyond ``limits`` are errors. ``makes`` returns the flags (NULL, NAN) that the operator may give for numbers.
    NaN is an error if ``nan_errs``; else it gives NaN, ``nan_gives`` if that is not None, or NULL if ``nan_null``.
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
    """Return the rule of an operator of two numbers, NULL if one is NULL and NaN if one is NaN.

    The parameters are as for `strict_unary`, and ``backward_a(results, other, this)`` has both arguments.
    ``makes_nan``: whether numbers of two intervals can give NaN. ``divides``: division by zero is an error under ANSI,
    and elsewhere NULL, which COALESCE or IS NULL can turn into TRUE. If the place allows both, both are enclosed.
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
        # If the other argument alone can make the result NULL or NaN, this one can have any value.
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


def of_unary(p: Place, made: Unary) -> Rule:
    """Return the rule of an operator of typed intervals."""
    null = made.makes_null
    makes = None if null is None else lambda x: NULL if null(x) else 0
    nan_gives = 0 if made.nan == "zero" else None
    limits = p.node.type.limits
    return strict_unary(p, made.forward, made.back, limits, makes, made.nan == "error", nan_gives, made.nan == "null")


def of_binary(p: Place, made: Binary, divides: bool = False) -> Rule:
    """Return the rule of an operator of two typed intervals."""
    return strict_binary(p, made.forward, made.back1, made.back2, p.node.type.limits, made.makes_nan, divides)


def unary(name: str) -> Callable[[Place], Rule]:
    """Return the rule of an operator of typed intervals by its name, such as neg or floor."""
    return lambda p: of_unary(p, operators.unary(name, p.node.args[0].type))


def binary(name: str, divides: bool = False) -> Callable[[Place], Rule]:
    """Return the rule of an operator of two typed intervals by its name, such as div."""
    return lambda p: of_binary(p, operators.outer(name, *(a.type for a in p.node.args)), divides)


def same(p: Place) -> Rule:
    """Return the rule of an operator that gives its argument."""
    return strict_unary(p, lambda x: x, lambda z, x: z, p.node.type.limits)


def with_nan(plain: Rule, i: int, may_be: tuple[int, ...], gives: float) -> Rule:
    """Return the rule of an operator that may give a number if one of the arguments ``may_be`` is NaN."""
    forward, backward = plain.forward, plain.backward
    assert forward is not None
    assert backward is not None

    def up(D: list[Any]) -> Any:
        lo, hi, flags = forward(D)
        if any(D[j][2] & NAN for j in may_be):
            lo, hi = (min(lo, gives), max(hi, gives)) if lo <= hi else (gives, gives)
        return lo, hi, flags

    def down(s: State) -> None:
        lo, hi, flags = s.D[i]
        if not lo <= gives <= hi or not any(s.D[j][2] & NAN for j in may_be):
            backward(s)
        elif not flags & NULL:
            for j in may_be:
                s.drop_flags(j, NAN)

    return Rule(up, down)
