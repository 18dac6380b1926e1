"""Derive the direction of an operator's values from the directions of its arguments.

Library functions such as ``exp`` have no direction, because their last digit may fall while the argument rises.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from ivjoin.expr.nodes import Node
from ivjoin.expr.types import DAY, TICKS_PER_SECOND
from ivjoin.functions.rules.domain import Dom
from ivjoin.functions.rules.rules_time import clock

__all__ = [
    "Direction", "DirectionRule", "abs_", "add", "add_months", "all_", "at_fixed_clock", "cast",
    "coalesce", "div", "extract", "falls", "firm", "less", "more", "mul", "rises", "rises_if_firm", "sub",
    "together",
]  # fmt: skip


class Direction(enum.Enum):
    """How consecutive values of an expression compare."""

    ASCENDING = 1
    DESCENDING = -1
    CONSTANT = 0
    NONE = None

    def __neg__(self) -> Direction:
        return {1: Direction.DESCENDING, -1: Direction.ASCENDING}.get(self.value, self)


UP, DOWN, SAME, NO = Direction.ASCENDING, Direction.DESCENDING, Direction.CONSTANT, Direction.NONE
DirectionRule = Callable[[Node, list[Direction], list[Dom]], Direction]


def together(directions: Sequence[Direction]) -> Direction:
    """Return the direction of a value that rises with each of its arguments."""
    moving = {d for d in directions if d is not SAME}
    if not moving:
        return SAME
    return moving.pop() if len(moving) == 1 else NO


def firm(d: Dom) -> bool:
    """Return whether a value is neither NULL nor NaN."""
    return not d.may_null and not d.may_nan


def _sign(d: Dom) -> int:
    """Return 1 if no value is negative, -1 if no value is positive, else 0."""
    if d.is_empty:
        return 0
    return 1 if d.lo >= 0 else -1 if d.hi <= 0 else 0


def _times(d: Direction, sign: int) -> Direction:
    if d is SAME:
        return d
    return NO if sign == 0 else d if sign > 0 else -d


def rises(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0]


def rises_if_firm(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    """Return the direction of an operator that converts NaN to a number."""
    return directions[0] if not args[0].may_nan else NO


def falls(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return -directions[0]


def _is_short(n: Node) -> bool:
    """Return whether a sum with a time only adds ticks. Whole days do not, if the offset of the zone changes."""
    if "timestamp" not in {a.type.kind for a in n.args} or clock(n, 0).fixed is not None:
        return True
    day = DAY * TICKS_PER_SECOND[n.args[0].type.unit]
    return any(a.op == "literal" and a.params[0] is not None and abs(a.params[0]) < day
               for a in n.args if a.type.kind == "duration")  # fmt: skip


def add(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return together(directions) if _is_short(n) else NO


def sub(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return together([directions[0], -directions[1]]) if _is_short(n) else NO


def mul(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return together([_times(directions[0], _sign(args[1])), _times(directions[1], _sign(args[0]))])


def div(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    """Return the direction of a quotient whose divisor has one sign.

    For positive arguments, it rises with the dividend and falls with the divisor.
    """
    a, b = args
    if b.is_empty or b.lo <= 0 <= b.hi:
        return NO
    return together([_times(directions[0], _sign(b)), _times(-directions[1], _sign(a))])


def abs_(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return _times(directions[0], _sign(args[0]))


def all_(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return together(directions) if all(map(firm, args)) else NO


def coalesce(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0] if not args[0].may_null else NO


def less(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    if any(a.may_nan for a in args):
        return NO
    return together([-directions[0], directions[1]])


def more(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return -less(n, directions, args)


_RISING_CASTS = frozenset({"int", "float", "decimal", "date", "timestamp", "duration", "time", "months"})


def cast(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    s, t = n.args[0].type, n.type
    if s.kind not in _RISING_CASTS or t.kind not in _RISING_CASTS:
        return NO
    if {s.kind, t.kind} & {"timestamp"} and {s.kind, t.kind} & {"timestamp", "date"} and _crosses_zone(n):
        return NO
    return directions[0]


def _crosses_zone(n: Node) -> bool:
    """Return whether a cast uses the local time of a zone whose offset changes."""
    s, t = n.args[0].type, n.type
    return (s.kind != t.kind or bool(s.tz) != bool(t.tz)) and clock(n, 1).fixed is None


def at_fixed_clock(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return directions[0] if clock(n, 1).fixed is not None else NO


def extract(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    return at_fixed_clock(n, directions, args) if n.params[0] in ("year", "month_number") else NO


def add_months(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    # Several days can move to the last day of a month. For timestamps, the time of day then repeats from midnight.
    return together(directions) if n.type.kind == "date" else NO
