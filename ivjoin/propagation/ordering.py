"""Which direction an expression has over arriving rows, from the declared orders of what it reads.

An order is what ivjoin means by one: a row whose value is NULL or NaN, or errs, carries none, and may stand anywhere;
the other values never fall (ascending) or never rise (descending). An operator passes an order on only where every
value it has comes of ordered values: ``floor(NaN)`` is 0, ``least`` skips nulls, so those ask for arguments that are
provably neither NULL nor NaN. What cannot be proved has no order.

Library functions such as ``exp`` rise on paper only: the last digit may not. They have no order here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

from ivjoin.expr.nodes import Node
from ivjoin.expr.types import TICKS_PER_SECOND
from ivjoin.propagation.dag import Propagator
from ivjoin.propagation.domain import Dom
from ivjoin.propagation.linear import forms
from ivjoin.propagation.rules_time import DAY, clock

__all__ = ["Direction", "ordering"]


class Direction(enum.Enum):
    """How the values of an expression follow each other."""

    ASCENDING = 1
    DESCENDING = -1
    CONSTANT = 0
    NONE = None

    def __neg__(self) -> Direction:
        return {1: Direction.DESCENDING, -1: Direction.ASCENDING}.get(self.value, self)


UP, DOWN, SAME, NO = Direction.ASCENDING, Direction.DESCENDING, Direction.CONSTANT, Direction.NONE
Rule = Callable[[Node, list[Direction], list[Dom]], Direction]


def ordering(node: Node, orders: Mapping[Node, Direction], known: Mapping[Node, Dom] | None = None) -> Direction:
    """The direction of an expression.

    Parameters
    ----------
    node : Node
    orders : mapping of Node to Direction
        Declared directions of columns or of larger expressions.
    known : mapping of Node to Dom, optional
        What is known of values, such as bounds: a product rises where no factor is negative.

    Returns
    -------
    Direction
        NONE unless it is proved.

    Examples
    --------
    >>> from ivjoin.expr import build
    >>> from ivjoin.expr.types import INT64
    >>> a, b = build.column("left", "a", INT64), build.column("left", "b", INT64)
    >>> ordering(build.sub(a, b), {a: Direction.ASCENDING, b: Direction.DESCENDING}).name
    'ASCENDING'
    """
    p = Propagator((), (node,))
    domains = [Dom(n.type, d) for n, d in zip(p.nodes, p.upward(known or {}))]
    sums = forms(p.nodes, [tuple(p.index[a] for a in n.args) for n in p.nodes])
    found: list[Direction] = []
    for i, n in enumerate(p.nodes):
        direction = orders.get(n)
        if direction is None:
            direction = _of(n, [found[p.index[a]] for a in n.args], [domains[p.index[a]] for a in n.args], domains[i])
        if direction is NO and (s := sums[i]) is not None and i not in s.terms:
            # Repeated atoms cancel: (a + b) - b goes as a does.
            direction = _sum([found[x] if c > 0 else -found[x] for x, c in s.terms.items()])
        found.append(direction)
    return found[p.index[node]]


def _of(n: Node, directions: list[Direction], args: list[Dom], result: Dom) -> Direction:
    if n.op == "literal" or (not result.is_empty and result.lo is not None and result.lo == result.hi):
        # One value at most, beside NULL and NaN, which carry no order.
        return SAME
    if not n.args:
        return NO
    if all(d is SAME for d in directions) and all(_firm(a) for a in args):
        return SAME
    rule = _RULES.get(n.op)
    return NO if rule is None else rule(n, directions, args)


def _sum(directions: Sequence[Direction]) -> Direction:
    """The direction of something that rises with each of several things."""
    moving = {d for d in directions if d is not SAME}
    if not moving:
        return SAME
    return moving.pop() if len(moving) == 1 else NO


def _firm(d: Dom) -> bool:
    """Whether a value is neither NULL nor NaN."""
    return not d.may_null and not d.may_nan


def _sign(d: Dom) -> int:
    """1 or -1 if all values have that sign, zero included; else 0."""
    if d.is_empty:
        return 0
    return 1 if d.lo >= 0 else -1 if d.hi <= 0 else 0


def _times(d: Direction, sign: int) -> Direction:
    if d is SAME:
        return d
    return NO if sign == 0 else d if sign > 0 else -d


def _rises(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0]


def _rises_if_firm(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    """Of an operator that makes a value of NaN."""
    return directions[0] if not args[0].may_nan else NO


def _falls(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return -directions[0]


def _is_short(n: Node) -> bool:
    """Whether a sum with a time is plain addition of ticks: always, unless a clock changes."""
    if "timestamp" not in {a.type.kind for a in n.args} or clock(n, 0).fixed is not None:
        return True
    day = DAY * TICKS_PER_SECOND[n.args[0].type.unit]
    return any(a.op == "literal" and a.params[0] is not None and abs(a.params[0]) < day
               for a in n.args if a.type.kind == "duration")  # fmt: skip


def _add(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _sum(directions) if _is_short(n) else NO


def _sub(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _sum([directions[0], -directions[1]]) if _is_short(n) else NO


def _mul(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _sum([_times(directions[0], _sign(args[1])), _times(directions[1], _sign(args[0]))])


def _div(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    """Of one sign each: a quotient rises with its dividend over a positive divisor, and falls with the divisor."""
    a, b = args
    if b.is_empty or b.lo <= 0 <= b.hi:
        return NO
    return _sum([_times(directions[0], _sign(b)), _times(-directions[1], _sign(a))])


def _abs(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _times(directions[0], _sign(args[0]))


def _all(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _sum(directions) if all(map(_firm, args)) else NO


def _coalesce(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0] if not args[0].may_null else NO


def _less(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    if any(a.may_nan for a in args):
        return NO
    return _sum([-directions[0], directions[1]])


def _more(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return -_less(n, directions, args)


_RISING_CASTS = frozenset({"int", "float", "decimal", "date", "timestamp", "duration", "time", "months"})


def _cast(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    s, t = n.args[0].type, n.type
    if s.kind not in _RISING_CASTS or t.kind not in _RISING_CASTS:
        return NO
    if {s.kind, t.kind} & {"timestamp"} and {s.kind, t.kind} & {"timestamp", "date"} and _crosses_zone(n):
        return NO
    return directions[0]


def _crosses_zone(n: Node) -> bool:
    """Whether a cast goes through the local time of a zone whose clock changes."""
    s, t = n.args[0].type, n.type
    return (s.kind != t.kind or bool(s.tz) != bool(t.tz)) and clock(n, 1).fixed is None


def _at_fixed_clock(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0] if clock(n, 1).fixed is not None else NO


def _extract(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _at_fixed_clock(n, directions, args) if n.params[0] == "year" else NO


def _add_months(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    # Of timestamps, the days that are clamped to one month's end each start again at midnight.
    return _sum(directions) if n.type.kind == "date" else NO


def _add_days(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _sum(directions)


def _date_diff(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _sum([directions[0], -directions[1]])


_RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "intdiv": _div, "neg": _falls, "abs": _abs, "sign": _rises,
    "trunc": _rises, "sqrt": _rises, "next_up": _rises, "next_down": _rises, "floor": _rises_if_firm,
    "ceil": _rises_if_firm, "round": _rises, "bround": _rises, "least": _all, "greatest": _all, "coalesce": _coalesce,
    "lt": _less, "le": _less, "gt": _more, "ge": _more, "and": _all, "or": _all, "not": _falls, "cast": _cast,
    "date_trunc": _at_fixed_clock, "trunc_date": _rises, "unix_seconds": _rises, "unix_millis": _rises,
    "unix_micros": _rises, "unix_date": _rises, "extract": _extract, "add_days": _add_days, "date_diff": _date_diff,
    "add_months": _add_months,
}  # fmt: skip
