"""The distance of two times in units or months, and the next weekday."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, inf
from typing import Any

import numpy as np

from ivjoin.errors import ConditionError
from ivjoin.expr.build.arith import intdiv, sub
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.chrono import instant, unit_named
from ivjoin.expr.build.coerce import as_date, as_timestamp
from ivjoin.expr.build.strings import constant_text
from ivjoin.expr.kernels.calendar import UNIT_MONTHS, UNIT_NANOS, split
from ivjoin.expr.kernels.cells import Consts, Kernel, checked, of_values
from ivjoin.expr.kernels.integers import mul_wrapped, whole_quotient
from ivjoin.expr.kernels.times import as_dates
from ivjoin.expr.kernels.zones import zone_of
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.timezones import refuse_mixed
from ivjoin.expr.types import DATE, DAY, FLOAT64, INT64, TICKS_PER_SECOND, finer_unit, timestamp
from ivjoin.functions.records import direction, linear
from ivjoin.functions.records.direction import Direction
from ivjoin.functions.records.record import NOT_LINEAR, Absent, Call, Meaning, Operator, call
from ivjoin.functions.records.writing import Arg, called, written_call
from ivjoin.functions.rules.domain import Dom
from ivjoin.functions.rules.rule import Maker, Pair, Place, Rule, of_unary, stepwise, strict_binary
from ivjoin.functions.rules.rules_time import clock, month_number
from ivjoin.functions.rules.zones import clock_of
from ivjoin.interval.machine.bisection import preimage
from ivjoin.interval.machine.calendar import year_month_day
from ivjoin.interval.machine.casts import scaled, truncated

__all__ = ["OPERATORS", "SPELLINGS", "units_between"]

_NO_TIME = Absent("SymPy does not have dates and times")
_UNITS = ("millisecond", "microsecond", "second", "minute", "hour", "day", "week")


def units_between(unit: str, start: Node, end: Node, zone: str = "UTC") -> Node:
    """Return ``timestampdiff(unit, start, end)``: the whole units between local times of ``zone``, as int64."""
    u = unit_named(unit)
    if u not in _UNITS and u not in UNIT_MONTHS:
        raise ConditionError(f"timestampdiff does not support the unit {unit!r}")
    refuse_mixed(start, end, zone)
    # As in Spark, compare local times.
    stamps = [instant(as_timestamp(x, "timestampdiff", zone, "times"), zone) for x in (start, end)]
    local = [cast(s, timestamp(s.type.unit), zone) for s in stamps]
    if u in UNIT_MONTHS:
        t = max((x.type for x in local), key=lambda t: TICKS_PER_SECOND[t.unit])
        a, b = (cast(x, t, zone) for x in local)
        months = make("months_apart", (a, b), (), INT64)
        return months if u == "month" else intdiv(months, literal(UNIT_MONTHS[u], INT64))
    apart = sub(local[1], local[0], zone)
    return apart if is_literal(apart) and apart.params[0] is None else make("whole_units", (apart,), (u,), INT64)


# Whole units of a duration


def _per_tick(node: Node) -> tuple[int, int]:
    """Return the factor and the divisor that convert ticks to units."""
    ticks = Fraction(UNIT_NANOS[node.params[0]] * TICKS_PER_SECOND[node.args[0].type.unit], 10**9)
    return ticks.denominator, ticks.numerator


def _whole_units(node: Node, _: Consts) -> Kernel:
    times, width = _per_tick(node)
    if times == 1:
        return of_values(lambda x: whole_quotient(x, np.asarray(width)))
    return checked(lambda x: mul_wrapped(x, np.array([times])))


def _unit_rule(p: Place) -> Rule:
    times, width = _per_tick(p.node)
    t = p.node.type
    return of_unary(p, truncated(t, width) if times == 1 else scaled(t, times))


def _unit_text(n: Node, arg: Arg) -> tuple[str, int]:
    return written_call("timestampdiff", [n.params[0].upper(), *_ends(n.args[0])])


def _ends(apart: Node) -> list[str]:
    """Return the two times of a difference, the earlier one first."""
    assert apart.op == "sub"
    return [str(apart.args[1]), str(apart.args[0])]


# Whole months


def _months_apart(node: Node, _: Consts) -> Kernel:
    per = TICKS_PER_SECOND[node.args[0].type.unit]
    day = DAY * per

    def apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        d1, d2 = x // day, y // day
        t1, t2 = x - d1 * day, y - d2 * day
        d2 = d2 - ((d2 > d1) & (t2 < t1)) + ((d2 < d1) & (t2 > t1))
        (y1, m1, n1), (y2, m2, n2) = year_month_day(d1), year_month_day(d2)
        days = ((y2 - y1) * 12 + m2 - m1) * 32 + n2 - n1
        return np.where(days < 0, -(-days // 32), days // 32)

    return of_values(apart)


def _month_rule(to_number: Callable[[Pair], Pair], slack: float, first: int, limits: Pair, borrowed: int = 0) -> Maker:
    """Return the rule of a number of months that is within ``slack`` of the difference of the month numbers.

    ``first`` is the index of the start among the arguments. The other time may count as ``borrowed`` days nearer.
    """

    def make_rule(p: Place) -> Rule:
        t = p.node.args[0].type
        per = TICKS_PER_SECOND.get(t.unit, 1)
        c = clock(p.node, 0)

        def low(x: int, days: int = 0) -> int:
            return month_number(c.local_low(x // per) // DAY - days)

        def high(x: int, days: int = 0) -> int:
            return month_number(c.local_high(x // per) // DAY + days)

        def apart(start: Pair, end: Pair) -> Pair:
            least, most = low(end[0], borrowed) - high(start[1]), high(end[1], borrowed) - low(start[0])
            return to_number((least - slack, most + slack))

        def between(least: float, most: float, x: Pair, days: int) -> Pair:
            return preimage(lambda n: low(n, days), lambda n: high(n, days), (least, most), x)

        def end_of(z: Pair, start: Pair, end: Pair) -> Pair:
            return between(z[0] + low(start[0]) - slack, z[1] + high(start[1]) + slack, end, borrowed)

        def start_of(z: Pair, end: Pair, start: Pair) -> Pair:
            least, most = low(end[0], borrowed) - z[1], high(end[1], borrowed) - z[0]
            return between(least - slack, most + slack, start, 0)

        if first == 0:
            return strict_binary(p, apart, start_of, end_of, limits)
        return strict_binary(p, lambda a, b: apart(b, a), end_of, start_of, limits)

    return make_rule


def _apart_text(n: Node, arg: Arg) -> tuple[str, int]:
    return written_call("timestampdiff", ["MONTH", arg(0), arg(1)])


def _later(n: Node, directions: list[Direction], args: list[Dom]) -> Direction:
    """Return the direction, which rises with the end, and falls with the start if that is a date.

    With a time of day, a later start can give a greater result. From December 31, 23:59, to March 1 is one month and 28
    days, and from January 1 to March 1 is two months.
    """
    start, end = directions
    if start is Direction.CONSTANT:
        return end
    return direction.together([-start, end]) if all(map(_is_midnight, n.args)) else Direction.NONE


def _is_midnight(x: Node) -> bool:
    """Return whether a time is always a local midnight: a date that was cast in a zone with a fixed offset."""
    while x.op == "cast" and x.type.kind == "timestamp" and clock_of(x.params[1]).fixed is not None:
        x = x.args[0]
    if is_literal(x) and x.type.kind == "timestamp":
        return x.params[0] is None or (not x.type.tz and x.params[0] % (DAY * TICKS_PER_SECOND[x.type.unit]) == 0)
    return x.type.kind == "date"


# months_between


def _months_between(node: Node, _: Consts) -> Kernel:
    zone_name, rounds = node.params
    t = node.args[0].type
    zone = zone_of(zone_name) if t.tz else zone_of(None)
    per = TICKS_PER_SECOND[t.unit]

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        seconds, _ = split(x, per)
        days = zone.local(seconds) // DAY
        year, month, day = year_month_day(days)
        following = year_month_day(days + 1)[2] == 1
        return year * 12 + month, day, following, seconds - zone.instants(days * DAY)

    def between(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        (m1, d1, e1, s1), (m2, d2, e2, s2) = parts(x), parts(y)
        months = (m1 - m2).astype(np.float64)
        r = months + ((d1 - d2) * DAY + s1 - s2) / np.float64(31 * DAY)
        if rounds:
            r = np.floor(r * 1e8 + 0.5) / 1e8  # as Java's Math.round
        return np.where((d1 == d2) | (e1 & e2), months, r)

    return of_values(between)


def _between(a: list[Node], zone: str) -> Node:
    refuse_mixed(a[0], a[1], zone)
    x, y = (instant(as_timestamp(n, "months_between", zone, "times"), zone) for n in a[:2])
    t = timestamp(finer_unit(x.type.unit, y.type.unit), x.type.tz or y.type.tz)
    rounds = True
    if len(a) > 2:
        if not is_literal(a[2]) or a[2].type.kind != "bool" or a[2].params[0] is None:
            raise ConditionError(f"the third argument of months_between is TRUE or FALSE, not {a[2]}")
        rounds = a[2].params[0]
    return make("months_between", (cast(x, t, zone), cast(y, t, zone)), (zone, rounds), FLOAT64)


def _between_text(n: Node, arg: Arg) -> tuple[str, int]:
    return written_call("months_between", [arg(0), arg(1), *([] if n.params[1] else ["FALSE"])])


# next_day

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT_WEEKDAYS = ("mo", "tu", "we", "th", "fr", "sa", "su")


def _weekday(text: str) -> int:
    word = text.strip().lower()
    for i, (name, short) in enumerate(zip(_WEEKDAYS, _SHORT_WEEKDAYS)):
        if word in (name, name[:3], short):
            return i
    raise ConditionError(f"'{text}' is not a day of the week; expected a name such as 'Monday', 'MON' or 'MO'")


def _next_day(a: list[Node], zone: str) -> Node:
    date, day = as_date(a[0], "next_day", zone), _weekday(constant_text(a[1], "the day of next_day"))
    return make("next_day", (date,), (_WEEKDAYS[day][:3].upper(),), DATE)


def _following(node: Node) -> Callable[[int], int]:
    day = _weekday(node.params[0])
    return lambda x: x + 7 - (x + 3 - day) % 7  # 1970-01-01 is a Thursday


def _next_day_exact(node: Node, _: Consts) -> Kernel:
    following: Any = _following(node)
    return checked(lambda x: as_dates(following(x.astype(np.int64))))


def _next_day_rule(p: Place) -> Rule:
    following = _following(p.node)
    return stepwise(p, following, following, lambda z: z)


def _outward(x: Pair) -> Pair:
    return floor(x[0]), ceil(x[1])


OPERATORS = (
    Operator(
        "whole_units", {"time": Meaning(_whole_units, _unit_rule)},
        tuple(f"timestampdiff({u.upper()}, l.t, r.v)" for u in _UNITS),
        _unit_text, direction.rises, NOT_LINEAR, sympy=_NO_TIME,
    ),
    Operator(
        "months_apart",
        {"time": Meaning(_months_apart, _month_rule(_outward, 1, 0, INT64.limits, borrowed=1))},
        ("timestampdiff(MONTH, l.t, r.v)", "timestampdiff(YEAR, l.t, r.v)", "timestampdiff(QUARTER, l.d, r.e)"),
        _apart_text, _later, linear.MONTHS_APART, sympy=_NO_TIME,
    ),
    Operator(
        "months_between", {"time": Meaning(_months_between, _month_rule(lambda x: x, 1.01, 1, (-inf, inf)))},
        ("months_between(l.t, r.v)", "months_between(l.d, r.e, FALSE)"), _between_text,
        Absent("the last days of two months are whole months apart at any time of day"), NOT_LINEAR,
        calls=(call("months_between", 2, 3, _between),), sympy=_NO_TIME,
    ),
    Operator(
        "next_day", {"time": Meaning(_next_day_exact, _next_day_rule)},
        ("next_day(l.d, 'Monday')", "next_day(l.d, 'SU')"),
        called("next_day", params=True), direction.rises, NOT_LINEAR,
        calls=(call("next_day", 2, 2, _next_day),), sympy=_NO_TIME,
    ),
)  # fmt: skip
SPELLINGS: tuple[Call, ...] = ()
