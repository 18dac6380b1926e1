"""Times: sums with durations and months, differences, truncation, fields, and units since the epoch.

Calendar arithmetic uses int64 seconds and days of the local time (see ``calendar`` and ``zones``). Ticks below a second
are added to the result unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ivjoin.expr.kernels.calendar import (
    DATE_UNITS,
    TRUNC_UNITS,
    UNIT_NANOS,
    days_of,
    local_seconds,
    seconds_of,
    split,
    ticks_of,
    trunc_width,
    wrapped,
)
from ivjoin.expr.kernels.cells import Consts, Kernel, Mask, Rule, checked, combined, of_values, unsupported
from ivjoin.expr.kernels.integers import SUMS, add_ints, add_wrapped, affine, sub_ints, sub_wrapped, whole_quotient
from ivjoin.expr.kernels.zones import Zone, zone_of
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import DAY, TICKS_PER_SECOND
from ivjoin.interval.machine.calendar import days_from_civil, first_day, months_later, year_month_day

__all__ = [
    "add_days", "add_months", "as_dates", "date_diff", "date_trunc", "extract", "scaled", "since_epoch", "span", "sum_",
    "trunc_date", "unix_date",
]  # fmt: skip

_I32_MIN, _I32_MAX = -(1 << 31), (1 << 31) - 1
Values = tuple[np.ndarray, Mask]  # values, and a mask of the rows that have an error


# -- sums and differences ------------------------------------------------------------------------------------------


def sum_(node: Node, consts: Consts) -> Kernel:
    a, b = node.args
    if node.op == "add" and a.type.kind == "duration" and b.type.kind == "timestamp":
        inner = _moved(node, a.type.unit, 1, (consts[1], consts[0]))
        return lambda x, y: inner(y, x)
    if a.type.kind == "timestamp" and b.type.kind == "duration":
        return _moved(node, b.type.unit, 1 if node.op == "add" else -1, consts)
    same = a.type.kind == b.type.kind and a.type.unit == b.type.unit == node.type.unit
    if same and (a.type.kind in ("duration", "months") or (a.type.kind == "timestamp" and node.op == "sub")):
        if bool(a.type.tz) != bool(b.type.tz):
            raise unsupported(node, "an instant and a local time have no difference")
        zone = zone_of(node.params[0]) if a.type.tz and node.params else zone_of(None)
        if zone.fixed is None:
            return _local_difference(zone, TICKS_PER_SECOND[a.type.unit])
        return SUMS[node.op](node, consts)
    raise unsupported(node)


def _local_difference(zone: Zone, per: int) -> Kernel:
    """Subtract local times, as in Spark: from noon to noon is one day, even if the clocks changed in between."""

    def difference(x: np.ndarray, y: np.ndarray) -> Values:
        r, bad = sub_wrapped(x, y)
        r, over = add_wrapped(r, (zone.offsets(x // per) - zone.offsets(y // per)) * per)
        return r, bad | over

    return checked(difference)


def _moved(node: Node, unit: str, sign: int, consts: Consts) -> Kernel:
    """Return the kernel of a timestamp plus or minus a duration. Whole days are calendar days of the zone."""
    t = node.type
    if unit != t.unit:
        raise unsupported(node, "the units have met beforehand")
    zone = zone_of(node.params[0]) if t.tz and node.params else zone_of(None)
    step = consts[1]
    if step is not None:
        ticks = sign * int(step[0][0])
        if zone.fixed is not None or abs(ticks) < DAY * TICKS_PER_SECOND[unit]:
            return affine(t, 1, ticks)
    elif zone.fixed is not None:
        return add_ints if sign > 0 else sub_ints
    return _by_calendar(zone, TICKS_PER_SECOND[unit], sign)


def _by_calendar(zone: Zone, per: int, sign: int) -> Kernel:
    day = DAY * per

    def moved(x: np.ndarray, d: np.ndarray) -> Values:
        # Truncate toward zero, so that the rest has the sign of the duration.
        days = whole_quotient(d, np.asarray(day, dtype=np.int64))
        rest = d - days * day
        if sign < 0:
            days, rest = -days, -rest
        r, bad = _plus_days(np.broadcast_to(x, np.broadcast_shapes(x.shape, d.shape)), days, zone, per)
        r, over = add_wrapped(r, rest)
        return r, combined(bad, over)

    return checked(moved)


def _plus_days(x: np.ndarray, days: np.ndarray, zone: Zone, per: int) -> tuple[np.ndarray, Mask]:
    """Move instants by calendar days to the same local time. Return them, and a mask of the rows that overflow."""
    seconds, below = split(x, per)
    offset = zone.offsets(seconds)
    local, bad = add_wrapped(seconds + offset, days * DAY)
    moved = zone.instants(local, offset)
    bad = bad | wrapped(seconds, seconds + offset) | wrapped(local, moved)
    ticks, over = ticks_of(np.where(days == 0, seconds, moved), below, per)
    return ticks, combined(bad & (days != 0), over)


# -- the calendar --------------------------------------------------------------------------------------------------


def as_dates(days: np.ndarray) -> Values:
    """Return days as int32, and a mask of the rows that do not fit."""
    return days.astype(np.int32), (days < _I32_MIN) | (days > _I32_MAX)


def add_months(node: Node, _: Consts) -> Kernel:
    t = node.type
    if node.args[0].type != t or node.args[1].type.kind not in ("int", "months"):
        raise unsupported(node)
    zone = zone_of(node.params[0]) if t.tz and node.params else zone_of(None)
    per = TICKS_PER_SECOND.get(t.unit, 1)

    def later(x: np.ndarray, m: np.ndarray) -> Values:
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, m.shape))
        seconds, below = split(x, per)
        offset = zone.offsets(seconds)
        local = seconds + offset
        day = local // DAY
        then, bad = seconds_of(months_later(day, m.astype(np.int64)), local - day * DAY)
        moved = zone.instants(then, offset)
        bad = (bad | wrapped(seconds, local) | wrapped(then, moved)) & (m != 0)
        r, over = ticks_of(np.where(m == 0, seconds, moved), below, per)
        return r, combined(bad, over)

    if t.kind == "date":
        return checked(lambda x, m: as_dates(months_later(x.astype(np.int64), m.astype(np.int64))))
    if t.kind == "timestamp":
        return checked(later)
    raise unsupported(node)


def add_days(node: Node, _: Consts) -> Kernel:
    if node.args[0].type.kind != "date" or node.args[1].type.kind != "int":
        raise unsupported(node)
    return checked(lambda x, d: as_dates(x.astype(np.int64) + d))


def date_diff(node: Node, _: Consts) -> Kernel:
    if any(a.type.kind != "date" for a in node.args):
        raise unsupported(node)
    return checked(lambda x, y: as_dates(x.astype(np.int64) - y))


# -- truncation and fields -----------------------------------------------------------------------------------------


def trunc_date(node: Node, _: Consts) -> Kernel:
    if node.args[0].type.kind != "date" or node.params[0] not in DATE_UNITS:
        raise unsupported(node)
    first = first_day(node.params[0])
    return checked(lambda x: as_dates(first(x.astype(np.int64))))


def date_trunc(node: Node, _: Consts) -> Kernel:
    t = node.args[0].type
    unit = node.params[0]
    if t.kind != "timestamp" or node.type != t or unit not in TRUNC_UNITS:
        raise unsupported(node)
    per = TICKS_PER_SECOND[t.unit]
    zone = zone_of(node.params[1]) if t.tz and len(node.params) > 1 else zone_of(None)
    width = trunc_width(unit, per, zone.fixed)
    if width is not None:
        if width <= 1:
            return lambda a: a

        def floored(x: np.ndarray) -> Values:
            r = x // width * width
            return r, r > x  # only values near the least int64 wrap around

        return checked(floored)
    first, seconds_each = (first_day(unit), 0) if unit in DATE_UNITS else (None, UNIT_NANOS[unit] // 10**9)

    def truncated(x: np.ndarray) -> Values:
        seconds, _ = split(x, per)
        offset = zone.offsets(seconds)
        local = seconds + offset
        bad = wrapped(seconds, local)
        if first is not None:
            start, over = seconds_of(first(local // DAY), np.int64(0))
            r = zone.instants(start)
            bad |= over
        else:
            start = local // seconds_each * seconds_each
            r = zone.instants(start, offset)
            bad |= start > local
        bad |= wrapped(start, r)
        ticks, beyond = ticks_of(r, np.zeros(len(r), dtype=np.int64), per)
        return ticks, combined(bad, beyond)

    return checked(truncated)


def _week(days: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ISO year and week. They are the year and the week number of the Thursday of that week."""
    thursday = days - (days + 3) % 7 + 3
    year, _, _ = year_month_day(thursday)
    return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1


def _month_number(year: np.ndarray, month: np.ndarray, _: np.ndarray) -> np.ndarray:
    return 12 * year + month


_FIELDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda d: year_month_day(d)[0], "month": lambda d: year_month_day(d)[1],
    "day": lambda d: year_month_day(d)[2],
    "quarter": lambda d: (year_month_day(d)[1] + 2) // 3, "month_number": lambda d: _month_number(*year_month_day(d)),
    "week": lambda d: _week(d)[1], "yearofweek": lambda d: _week(d)[0],
    "dayofweek": lambda d: (d + 4) % 7 + 1, "dayofweek_iso": lambda d: (d + 3) % 7 + 1,
    "weekday": lambda d: (d + 3) % 7,
    "dayofyear": lambda d: d - days_from_civil(year_month_day(d)[0], 1, 1) + 1,
}
_CLOCK: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hour": lambda s: s // 3600 % 24, "minute": lambda s: s // 60 % 60, "second": lambda s: s % 60,
}


def extract(node: Node, _: Consts) -> Kernel:
    t, field = node.args[0].type, node.params[0]
    zone = zone_of(node.params[1]) if t.tz and len(node.params) > 1 else zone_of(None)
    per = TICKS_PER_SECOND.get(t.unit, 1)
    if t.kind not in ("date", "timestamp", "time") or (field not in _FIELDS and field not in _CLOCK):
        raise unsupported(node)
    if (t.kind == "date" and field in _CLOCK) or (t.kind == "time" and field in _FIELDS):
        raise unsupported(node)
    f = _FIELDS.get(field) or _CLOCK[field]

    def field_of(x: np.ndarray) -> Values:
        bad: Mask
        if t.kind == "date":
            part, bad = x.astype(np.int64), None
        elif field in _CLOCK:
            part, bad = local_seconds(x, per, zone)
        else:
            part, bad = days_of(x, per, zone)
        r = f(part)
        if per == 1 and t.kind == "timestamp":
            bad = combined(bad, (r < _I32_MIN) | (r > _I32_MAX))
        return r.astype(np.int32), bad

    return checked(field_of)


def since_epoch(target: int) -> Rule:
    def rule(node: Node, _: Consts) -> Kernel:
        t = node.args[0].type
        if t.kind != "timestamp":
            raise unsupported(node)
        per = TICKS_PER_SECOND[t.unit]
        if per == target:
            return lambda a: a
        if per > target:
            width = np.array(per // target)
            return of_values(lambda x: x // width)
        return affine(node.type, target // per, 0)

    return rule


def unix_date(node: Node, _: Consts) -> Kernel:
    if node.args[0].type.kind != "date":
        raise unsupported(node)
    return lambda a: a


def scaled(node: Node, consts: Consts) -> Kernel:
    """Return the kernel of a duration times a whole number, which are both int64."""
    if {a.type.kind for a in node.args} != {"duration", "int"} or any(a.type.bits not in (0, 64) for a in node.args):
        raise unsupported(node)
    return SUMS["mul"](node, consts)


def span(node: Node, consts: Consts) -> Kernel:
    if node.args[0].type.kind not in ("duration", "months") or node.type != node.args[0].type:
        raise unsupported(node)
    return SUMS[node.op](node, consts)
