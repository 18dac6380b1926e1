"""The interval rule of an operator, and wrappers that handle NULL and NaN.

A rule belongs to a node. ``forward(D)`` returns the domain of the node from the domains of its arguments.
``backward(state)`` narrows the arguments. ``cases(state)`` returns alternatives, and at least one of them is true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ivjoin.expr.nodes import Node
from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.state import Backward, Cases, Forward, State
from ivjoin.interval.machine.bisection import preimage
from ivjoin.interval.machine.operation import Binary, Unary, argument, argument_of_two, result, result_of_two
from ivjoin.interval.typed import operators

__all__ = [
    "Maker", "Pair", "Place", "Rule", "Step", "binary", "nothing", "of_binary", "of_unary", "same", "stepwise",
    "strict", "strict_binary", "strict_unary", "unary", "with_nan",
]  # fmt: skip

Pair = tuple[Any, Any]
NONE: Pair = (1, 0)
Step = Callable[[int], int]


class Place(NamedTuple):
    """A node with its index in the graph and the indexes of its arguments.

    With ``zero_gives_null``, a division by zero may be NULL, as in Spark without ANSI mode.
    """

    node: Node
    i: int
    at: tuple[int, ...]
    zero_gives_null: bool = True


class Rule(NamedTuple):
    """The two directions of an operator.

    ``strict`` lists the leading arguments that must have no error if the node has no error. None stands for all
    arguments.
    ``finer`` returns alternatives that help only if another part of the condition reads the same columns.
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


def of_unary(place: Place, op: Unary, limits: Pair | None = None) -> Rule:
    """Return the rule of an operator of one number. Values outside ``limits`` (by default of the type) are errors."""
    i, a = place.i, place.at[0]
    least, most = place.node.type.limits if limits is None else limits

    def up(D: list[Any]) -> Any:
        low, high, flags = result(op, D[a])
        if low < least:
            low = least
        if high > most:
            high = most
        return (low, high, flags) if low <= high else (1, 0, flags)

    return Rule(up, lambda s: s.cut(a, *argument(op, s.D[i], s.D[a])))


def of_binary(place: Place, op: Binary, limits: Pair | None = None) -> Rule:
    """Return the rule of an operator of two numbers.

    A division by zero is an error in ANSI mode. In other modes it is NULL, and COALESCE or IS NULL can make the
    condition TRUE. If ``zero_gives_null``, the rule allows for both.
    """
    i = place.i
    a, b = place.at
    least, most = place.node.type.limits if limits is None else limits
    zero_gives_null = op.divides and place.zero_gives_null

    def up(D: list[Any]) -> Any:
        low, high, flags = result_of_two(op, D[a], D[b])
        if zero_gives_null and D[b][0] <= 0 <= D[b][1] and D[a][0] <= D[a][1]:
            flags |= NULL
        if low < least:
            low = least
        if high > most:
            high = most
        return (low, high, flags) if low <= high else (1, 0, flags)

    def down(s: State) -> None:
        D = s.D
        if zero_gives_null and D[i][2] & NULL and D[b][0] <= 0 <= D[b][1]:
            return
        s.cut(a, *argument_of_two(op, True, D[i], D[b], D[a]))
        s.cut(b, *argument_of_two(op, False, D[i], D[a], D[b]))

    return Rule(up, down)


def strict_unary(
    place: Place, forward: Callable[[Pair], Pair], backward: Callable[[Pair, Pair], Pair] | None, limits: Pair,
    makes: Callable[[Pair], int] | None = None,
) -> Rule:  # fmt: skip
    """Return the rule of an operator of one number, for which NULL gives NULL and NaN gives NaN.

    ``forward`` maps an interval to an interval. ``backward(results, argument)`` returns the part of the argument that
    can give one of the results. ``makes`` returns the flags (NULL, NAN) that the operator may give for numbers.
    """
    return of_unary(place, Unary(place.node.type, forward, backward or (lambda z, x: x), "nan", makes), limits)


def strict_binary(
    place: Place, forward: Callable[[Pair, Pair], Pair], backward_a: Callable[[Pair, Pair, Pair], Pair] | None,
    backward_b: Callable[[Pair, Pair, Pair], Pair] | None, limits: Pair,
    makes_nan: Callable[[Pair, Pair], bool] | None = None, divides: bool = False,
) -> Rule:  # fmt: skip
    """Return the rule of an operator of two numbers. It is NULL if an argument is NULL, and NaN if one is NaN.

    The parameters are the same as in `strict_unary`, but ``backward_a(results, other, this)`` gets both arguments.
    ``makes_nan`` returns whether numbers of two intervals can give NaN.
    """
    back_a, back_b = backward_a or (lambda z, b, x: x), backward_b or (lambda z, a, x: x)
    return of_binary(place, Binary(place.node.type, forward, back_a, back_b, makes_nan, divides), limits)


def stepwise(p: Place, low: Step, high: Step, near: Step | None = None) -> Rule:
    """Return the rule of a rising function of integers. ``low`` and ``high`` bound it, and may be the same function."""
    return strict_unary(
        p, lambda x: (low(x[0]), high(x[1])), lambda z, x: preimage(low, high, z, x, near), p.node.type.limits
    )


def unary(name: str) -> Callable[[Place], Rule]:
    """Return the rule of a named operator of one typed interval, such as neg or floor."""
    return lambda p: of_unary(p, operators.unary(name, p.node.args[0].type))


def binary(name: str) -> Callable[[Place], Rule]:
    """Return the rule of a named operator of two typed intervals, such as div."""
    return lambda p: of_binary(p, operators.outer(name, *(a.type for a in p.node.args)))


def same(p: Place) -> Rule:
    """Return the rule of an operator that returns its argument."""
    return strict_unary(p, lambda x: x, lambda z, x: z, p.node.type.limits)


def with_nan(plain: Rule, i: int, may_be: tuple[int, ...], gives: float) -> Rule:
    """Return the rule of an operator that may return ``gives`` if one of the arguments ``may_be`` is NaN."""
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
