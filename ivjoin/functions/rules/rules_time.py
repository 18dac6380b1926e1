"""Rules of times: sums with durations, days and months, truncation, fields, and units since the epoch.

Most of these functions rise in one argument, and have no formula for the inverse. Bisection finds it (``stepwise``). If
the offset of the zone changes, a lower and an upper function bound the computed one.
"""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.expr.kernels.calendar import DATE_UNITS, UNIT_NANOS, trunc_width
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import DAY, MONTHS, TICKS_PER_SECOND
from ivjoin.functions.rules.rule import (
    Maker,
    Pair,
    Place,
    Rule,
    Step,
    of_binary,
    of_unary,
    same,
    stepwise,
    strict_binary,
    strict_unary,
)
from ivjoin.functions.rules.rules_integer import arithmetic
from ivjoin.functions.rules.zones import Clock, clock_of
from ivjoin.interval.machine import integers as m
from ivjoin.interval.machine.bisection import preimage
from ivjoin.interval.machine.calendar import first_day, months_later, year_month_day
from ivjoin.interval.machine.casts import floored, scaled
from ivjoin.interval.typed import operators

__all__ = [
    "add_months", "bucketed", "clock", "date_trunc", "extract", "month_number", "since_epoch", "sum_",
    "trunc_date",
]  # fmt: skip

def bucketed(p: Place, width: int, phase: int = 0) -> Rule:
    """Return the rule of the start of a bucket. ``phase`` is the start of any bucket."""

    def start(v: int) -> int:
        return v - (v - phase) % width

    return strict_unary(
        p, lambda x: (start(x[0]), start(x[1])),
        lambda z, x: (z[0] + (phase - z[0]) % width, start(z[1]) + width - 1), p.node.type.limits,
    )  # fmt: skip


def clock(node: Node, i: int) -> Clock:
    """Return the clock of a node's zone parameter.

    It is UTC for a timestamp without a zone, because its ticks are local time already.
    """
    zoned = any(a.type.tz for a in node.args) or bool(node.type.tz)
    return clock_of(node.params[i] if zoned and len(node.params) > i else None)


# Sums and differences

def sum_(p: Place) -> Rule | None:
    node, plain = p.node, arithmetic(p.node.op)
    kinds = [a.type.kind for a in node.args]
    if "timestamp" not in kinds or len({a.type.unit for a in node.args}) > 1:
        return plain(p)
    c, per = clock(node, 0), TICKS_PER_SECOND[node.type.unit]
    if c.fixed is not None:
        return plain(p)
    if kinds == ["timestamp", "timestamp"]:
        return _local_difference(p, c, per)
    step = node.args[kinds.index("duration")]
    if step.op == "literal" and step.params[0] is not None:
        if abs(step.params[0]) < DAY * per:
            return plain(p)
        if kinds[0] == "timestamp":
            return _moved(p, c, per, step.params[0] if node.op == "add" else -step.params[0])
    return _roughly_moved(p, 1 if node.op == "add" else -1, 27 * 3600 * per)


def _local_difference(p: Place, c: Clock, per: int) -> Rule:
    """Return the rule of a difference of timestamps. As in Spark, local times are subtracted."""

    def low(x: int) -> int:
        return c.local_low(x // per) * per + x % per

    def high(x: int) -> int:
        return c.local_high(x // per) * per + x % per

    def up(a: Pair, b: Pair) -> Pair:
        return low(a[0]) - high(b[1]), high(a[1]) - low(b[0])

    def between(least: int, most: int, x: Pair) -> Pair:
        return preimage(low, high, (least, most), x, lambda z: z)

    return strict_binary(
        p, up, lambda z, b, a: between(z[0] + low(b[0]), z[1] + high(b[1]), a),
        lambda z, a, b: between(low(a[0]) - z[1], high(a[1]) - z[0], b), p.node.type.limits,
    )  # fmt: skip


def _moved(p: Place, c: Clock, per: int, ticks: int) -> Rule:
    """Return the rule of a sum with a constant of a day or more.

    Its whole days are calendar days, and the rest is added to the instant.
    """
    days = m.truncated(ticks, DAY * per)
    rest = ticks - days * DAY * per

    def low(x: int) -> int:
        return c.instant_low(c.local_low(x // per) + days * DAY) * per + x % per + rest

    def high(x: int) -> int:
        return c.instant_high(c.local_high(x // per) + days * DAY) * per + x % per + rest

    return stepwise(Place(p.node, p.i, p.at[:1]), low, high, lambda z: z - ticks)


def _roughly_moved(p: Place, sign: int, slack: int) -> Rule:
    """Return the rule of a sum that differs from the sum of ticks by at most ``slack``, because of clock changes."""

    def turned(b: Pair) -> Pair:
        return (b[0], b[1]) if sign > 0 else (-b[1], -b[0])

    def up(a: Pair, b: Pair) -> Pair:
        lo, hi = turned(b)
        return a[0] + lo - slack, a[1] + hi + slack

    def back_a(z: Pair, b: Pair, a: Pair) -> Pair:
        lo, hi = turned(b)
        return z[0] - hi - slack, z[1] - lo + slack

    def back_b(z: Pair, a: Pair, b: Pair) -> Pair:
        return turned((z[0] - a[1] - slack, z[1] - a[0] + slack))

    return strict_binary(p, up, back_a, back_b, p.node.type.limits)


# Months


def add_months(p: Place) -> Rule | None:
    t = p.node.type
    if t.kind == "date" or clock(p.node, 0).fixed == 0:
        return of_binary(p, operators.outer("add", t, MONTHS))
    low, high = _shifts(p.node)

    def up(a: Pair, b: Pair) -> Pair:
        return low(a[0], b[0]), high(a[1], b[1])

    def back_a(z: Pair, b: Pair, a: Pair) -> Pair:
        month = 30 * DAY * TICKS_PER_SECOND[t.unit]
        return preimage(lambda n: low(n, b[0]), lambda n: high(n, b[1]), z, a, lambda c: c - b[0] * month)

    def back_b(z: Pair, a: Pair, b: Pair) -> Pair:
        return preimage(lambda n: low(a[0], n), lambda n: high(a[1], n), z, b)

    return strict_binary(p, up, back_a, back_b, t.limits)


def _shifts(node: Node) -> tuple[Callable[[int, int], int], Callable[[int, int], int]]:
    """Return functions that bound ``add_months`` from below and above for timestamps in a zone."""
    c, per = clock(node, 0), TICKS_PER_SECOND[node.type.unit]

    # If several days move to the same last day of a month, the time of day repeats from midnight for each. A later
    # instant may then have an earlier result. The lower bound uses the midnight of such a day, and the upper bound its
    # last tick.
    def low(ticks: int, months: int) -> int:
        day, rest = divmod(c.local_low(ticks // per), DAY)
        below = ticks % per
        to = months_later(day, months)
        if months_later(day + 1, months) == to:
            rest = below = 0
        return c.instant_low(to * DAY + rest) * per + below

    def high(ticks: int, months: int) -> int:
        day, rest = divmod(c.local_high(ticks // per), DAY)
        below = ticks % per
        to = months_later(day, months)
        if months_later(day - 1, months) == to:
            rest, below = DAY - 1, per - 1
        return c.instant_high(to * DAY + rest) * per + below

    return low, high


# Truncation


def trunc_date(p: Place) -> Rule:
    first = first_day(p.node.params[0])
    return stepwise(p, first, first, lambda z: z)


def date_trunc(p: Place) -> Rule | None:
    node = p.node
    unit, per = node.params[0], TICKS_PER_SECOND[node.type.unit]
    c = clock(node, 1)
    width = trunc_width(unit, per, c.fixed)
    if width is not None:
        return same(p) if width <= 1 else bucketed(p, width)
    if unit in DATE_UNITS:
        first = first_day(unit)

        def trunc(local: int) -> int:
            return first(local // DAY) * DAY

    else:
        seconds = UNIT_NANOS[unit] // 10**9

        def trunc(local: int) -> int:
            return local // seconds * seconds

    def low(ticks: int) -> int:
        return c.instant_low(trunc(c.local_low(ticks // per))) * per

    def high(ticks: int) -> int:
        return c.instant_high(trunc(c.local_high(ticks // per))) * per

    return stepwise(p, low, high, lambda z: z)


# Counts and fields


def since_epoch(target: int) -> Maker:
    def make(p: Place) -> Rule:
        per = TICKS_PER_SECOND[p.node.args[0].type.unit]
        t = p.node.type
        return of_unary(p, floored(t, per // target) if per >= target else scaled(t, target // per))

    return make


_FIELDS = {
    "month": (1, 12), "day": (1, 31), "quarter": (1, 4), "week": (1, 53), "dayofweek": (1, 7), "dayofweek_iso": (1, 7),
    "weekday": (0, 6), "dayofyear": (1, 366), "hour": (0, 23), "minute": (0, 59), "second": (0, 59),
}  # fmt: skip


def extract(p: Place) -> Rule | None:
    node = p.node
    t, field = node.args[0].type, node.params[0]
    if field in _RISING and t.kind in ("date", "timestamp"):
        number, days = _RISING[field]
        per = DAY * TICKS_PER_SECOND[t.unit] if t.unit else 1
        if t.kind == "date":
            return stepwise(p, number, number, days)
        c, ticks = clock(node, 1), TICKS_PER_SECOND[t.unit]
        return stepwise(
            p, lambda x: number(c.local_low(x // ticks) // DAY), lambda x: number(c.local_high(x // ticks) // DAY),
            lambda z: days(z) * per,
        )  # fmt: skip
    limits = _FIELDS.get(field)
    if limits is None:
        return Rule(None, None)
    return strict_unary(p, lambda x: limits, None, limits)


def _year(days: int) -> int:
    return year_month_day(days)[0]


def month_number(days: int) -> int:
    year, month, _ = year_month_day(days)
    return 12 * year + month


# Fields that rise with time: a function from days to the field, and a function to a day near the first day of a value.
_RISING: dict[str, tuple[Step, Step]] = {
    "year": (_year, lambda z: (z - 1970) * 365), "month_number": (month_number, lambda z: (z // 12 - 1970) * 365),
}
