"""Constructors of arithmetic and of sums with times, with the types of Spark's ANSI mode."""

from __future__ import annotations

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_date, as_decimal, as_int32, as_number, as_numbers, meet
from ivjoin.expr.build.common import common_type, wider_decimal
from ivjoin.expr.build.nested import as_length
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.timezones import refuse_mixed
from ivjoin.expr.types import (
    DATE,
    DAY,
    FLOAT64,
    INT32,
    INT64,
    MONTHS,
    NULL,
    TICKS_PER_SECOND,
    Type,
    duration,
    finer_unit,
    timestamp,
)
from ivjoin.interval.machine.domains import decimal_result

__all__ = ["add", "days_apart", "div", "duration_of_days", "intdiv", "is_day_count", "mod", "mul", "neg", "pmod", "sub"]


def add(a: Node, b: Node, zone: str = "UTC") -> Node:
    """Return ``a + b``, widened as in Spark.

    - date + int32 and date + whole days give a date.
    - date + any other interval and timestamp + interval give a timestamp.
    - A day is a calendar day of ``zone``. If a month is too short for the day of the result, its last day is used.
    """
    if _is_timed(a) or _is_timed(b):
        a, b = as_length(a), as_length(b)
        if a.type.kind in ("duration", "months") and b.type.kind not in ("duration", "months"):
            a, b = b, a
        if b.type.kind == "date" and a.type.kind == "int":
            a, b = b, a
        return _plus_time(a, b, 1, zone)
    return _sum("add", a, b, zone)


def sub(a: Node, b: Node, zone: str = "UTC") -> Node:
    """Return ``a - b``. The difference of timestamps is a duration.

    The difference of dates is an int32 number of days, which can be compared with day intervals.
    """
    if _is_timed(a) or _is_timed(b):
        return _plus_time(as_length(a), as_length(b), -1, zone)
    return _sum("sub", a, b, zone)


def _is_timed(x: Node) -> bool:
    return x.type.is_temporal or x.type.kind == "months"


def _sum(op: str, a: Node, b: Node, zone: str) -> Node:
    sign = "+" if op == "add" else "-"
    a, b = as_numbers(a, b, sign)
    if _is_decimal_pair(a, b):
        a, b = as_decimal(a), as_decimal(b)
        result = decimal_result(op, a.type, b.type)
        a, b = _same_decimal(a, b)
    else:
        a, b = meet(a, b, zone, sign)
        if a.type.kind == "decimal":
            return _sum(op, a, b, zone)
        result = a.type
    return _folded(op, a, b, result) or make(op, (a, b), (), result)


def _is_decimal_pair(a: Node, b: Node) -> bool:
    kinds = {a.type.kind, b.type.kind}
    return "decimal" in kinds and "float" not in kinds


def _same_decimal(a: Node, b: Node) -> tuple[Node, Node]:
    """Cast both arguments to one decimal type, unless 38 digits are not enough for it."""
    t = wider_decimal(a.type, b.type)
    if t.scale < max(a.type.scale, b.type.scale):
        return a, b
    return cast(a, t), cast(b, t)


def _folded(op: str, a: Node, b: Node, t: Type) -> Node | None:
    """Return the result for literals if it is exact and fits. None if it must be evaluated, such as for an error."""
    if not (is_literal(a) and is_literal(b)) or t.kind not in ("int", "duration", "months"):
        return None
    x, y = a.params[0], b.params[0]
    if x is None or y is None or a.type != t or b.type not in (t, INT64):
        return None
    value = x + y if op == "add" else x - y if op == "sub" else x * y
    lo, hi = t.limits
    return literal(value, t) if lo <= value <= hi else None


def _plus_time(a: Node, b: Node, sign: int, zone: str) -> Node:
    ka, kb = a.type.kind, b.type.kind
    op = "+" if sign > 0 else "-"
    if kb == "null" or ka == "null":
        # The null may be a time, an interval or a number, so the sum has the null type, which is compatible with all.
        return literal(None, NULL)
    if {ka, kb} == {"string", "date"} or {ka, kb} == {"string", "timestamp"}:
        a, b = meet(a, b, zone, op)
        ka, kb = a.type.kind, b.type.kind
    if ka == kb == "duration":
        a, b = meet(a, b, zone, op)
        name = "add" if sign > 0 else "sub"
        return _folded(name, a, b, a.type) or make(name, (a, b), (zone,), a.type)
    if ka == kb == "months":
        name = "add" if sign > 0 else "sub"
        return _folded(name, a, b, MONTHS) or make(name, (a, b), (), MONTHS)
    if ka == "date" and kb == "int":
        n = as_int32(b, f"date {op}")
        return make("add_days", (a, n if sign > 0 else neg(n)), (), DATE)
    if ka in ("date", "timestamp") and kb == "months":
        return make("add_months", (a, _month_count(b, sign)), (zone,), a.type)
    if ka == "date" and kb == "duration":
        days = _whole_days(b)
        if days is not None:
            return make("add_days", (a, literal(sign * days, INT32)), (), DATE)
        a, ka = cast(a, timestamp(b.type.unit, zone), zone), "timestamp"
    if ka == "timestamp" and kb == "duration":
        a, b = _same_unit(a, b, zone)
        return make("add" if sign > 0 else "sub", (a, b), (zone,), a.type)
    if sign < 0 and ka == kb == "date":
        return make("date_diff", (a, b), (), INT32)
    if sign < 0 and {ka, kb} <= {"date", "timestamp"}:
        refuse_mixed(a, b, zone)
        if ka == kb == "timestamp" and bool(a.type.tz) != bool(b.type.tz):
            # As in Spark, the instant is converted to local time. A comparison converts the local time instead.
            a, b = (cast(x, timestamp(x.type.unit), zone) for x in (a, b))
        a, b = meet(a, b, zone, op)
        return make("sub", (a, b), (zone,), duration(a.type.unit))
    if ka == kb == "time" and sign < 0:
        raise UnsupportedError(f"a difference of times of day is not supported: {a} - {b}")
    if is_day_count(a) and kb == "duration":
        return _plus_time(duration_of_days(a), b, sign, zone)
    if is_day_count(b) and ka == "duration":
        return _plus_time(a, duration_of_days(b), sign, zone)
    hint = ""
    if {ka, kb} == {"timestamp", "int"} or {ka, kb} == {"duration", "int"}:
        hint = "; write the number as an interval, such as INTERVAL 10 SECONDS or r.n * INTERVAL 1 SECOND"
    elif {ka, kb} == {"duration", "months"}:
        hint = "; months have no fixed length: add the two one after the other"
    elif ka == "time" or kb == "time":
        hint = "; times of day can only be compared"
    raise ConditionError(f"{op} cannot take {a.type} and {b.type}: {a} and {b}{hint}")


def _month_count(b: Node, sign: int) -> Node:
    if is_literal(b):
        return literal(None if b.params[0] is None else sign * b.params[0], INT32)
    if b.op == "mul" and b.type == MONTHS:
        n = make("mul", b.args, (), INT32)
        return n if sign > 0 else neg(n)
    raise UnsupportedError(f"months that are neither constant nor n * INTERVAL 1 MONTH: {b}; use add_months(x, n)")


def _whole_days(b: Node) -> int | None:
    if not is_literal(b) or b.params[0] is None:
        return None
    days, rest = divmod(b.params[0], DAY * TICKS_PER_SECOND[b.type.unit])
    return days if rest == 0 and abs(days) < 1 << 31 else None


def _same_unit(a: Node, b: Node, zone: str) -> tuple[Node, Node]:
    """Return a timestamp and a duration in one unit.

    It is the unit of the timestamp if the duration is a literal and a whole number of its ticks.
    """
    u, v = a.type.unit, b.type.unit
    if u != v and is_literal(b):
        exact = cast(b, duration(u))
        if is_literal(exact):
            return a, exact
    unit = finer_unit(u, v)
    return cast(a, timestamp(unit, a.type.tz), zone), cast(b, duration(unit))


def days_apart(a: Node, b: Node, zone: str = "UTC") -> Node:
    """Return ``datediff(a, b)``, the days from b to a, as int32. A timestamp counts as its date in ``zone``."""
    refuse_mixed(a, b, zone)
    return make("date_diff", tuple(as_date(x, "datediff", zone, "dates") for x in (a, b)), (), INT32)


def is_day_count(x: Node) -> bool:
    """Return whether an int32 node is a number of days between dates, which can be compared with a day interval."""
    if x.op == "date_diff":
        return True
    return x.op in ("abs", "neg", "least", "greatest") and x.type == INT32 and all(map(is_day_count, x.args))


def duration_of_days(x: Node) -> Node:
    return mul(literal(DAY * 1_000_000, duration("us")), x)


def mul(a: Node, b: Node) -> Node:
    """Return ``a * b``. An interval times a whole number is an interval."""
    kinds = {a.type.kind, b.type.kind}
    if kinds & {"duration", "months"}:
        if a.type.kind not in ("duration", "months"):
            a, b = b, a
        if b.type.kind == "null":
            b = literal(None, INT64)
        if b.type.kind != "int" or (not b.type.signed and b.type.bits == 64):
            raise UnsupportedError(f"an interval can be multiplied by a whole number only, not by {b.type}: {a} * {b}")
        if a.type.kind == "months":
            b = as_int32(b, "a number of months")
            if is_literal(a) and is_literal(b) and a.params[0] is not None and b.params[0] is not None:
                return literal(a.params[0] * b.params[0], MONTHS)
            if not is_literal(a):
                raise UnsupportedError(f"a product of months: {a} * {b}")
            return make("mul", (literal(a.params[0], INT32), b), (), MONTHS)
        b = cast(b, INT64)
        return _folded("mul", a, b, a.type) or make("mul", (a, b), (), a.type)
    a, b = as_numbers(a, b, "*")
    if _is_decimal_pair(a, b):
        a, b = as_decimal(a), as_decimal(b)
        return make("mul", (a, b), (), decimal_result("mul", a.type, b.type))
    a, b = meet(a, b, "UTC", "*")
    if a.type.kind == "decimal":
        return mul(a, b)
    return _folded("mul", a, b, a.type) or make("mul", (a, b), (), a.type)


def div(a: Node, b: Node) -> Node:
    """Return ``a / b``. A division by zero is an error.

    The result is a decimal if one argument is a decimal and the other is not a float. Otherwise it is a float64.
    """
    if a.type.kind == "duration":
        raise UnsupportedError(f"division of an interval is not supported: {a} / {b}; compare unix_micros() instead")
    a, b = as_numbers(a, b, "/")
    if _is_decimal_pair(a, b):
        a, b = as_decimal(a), as_decimal(b)
        return make("div", (a, b), (), decimal_result("div", a.type, b.type))
    return make("div", (cast(a, FLOAT64), cast(b, FLOAT64)), (), FLOAT64)


def intdiv(a: Node, b: Node) -> Node:
    """Return ``a div b`` of ints or decimals: an int64, truncated toward zero."""
    for x in (a, b):
        if x.type.kind not in ("int", "decimal", "null"):
            raise ConditionError(
                f"div needs whole numbers or decimals, not {x.type}: {x}; use CAST(a / b AS BIGINT)"
            )
    a, b = (cast(x, INT64) if x.type.kind == "null" else x for x in (a, b))
    if _is_decimal_pair(a, b):
        a, b = _same_decimal(as_decimal(a), as_decimal(b))
    else:
        t = common_type(a.type, b.type)
        assert t is not None
        if t.kind == "int" and t.signed:
            t = INT64
        a, b = cast(a, t), cast(b, t)
    return make("intdiv", (a, b), (), INT64)


def mod(a: Node, b: Node) -> Node:
    """Return ``a % b`` with the sign of ``a``."""
    return _remainder("mod", a, b)


def pmod(a: Node, b: Node) -> Node:
    """Return ``pmod(a, b)``, which is not negative for a positive ``b``."""
    return _remainder("pmod", a, b)


def _remainder(op: str, a: Node, b: Node) -> Node:
    a, b = as_numbers(a, b, "%")
    if _is_decimal_pair(a, b):
        a, b = as_decimal(a), as_decimal(b)
        result = decimal_result(op, a.type, b.type)
        a, b = _same_decimal(a, b)
        return make(op, (a, b), (), result)
    a, b = meet(a, b, "UTC", "%")
    return make(op, (a, b), (), a.type)


def neg(a: Node) -> Node:
    """Return ``-a`` of a number or an interval."""
    if a.type.kind not in ("duration", "months"):
        a = as_number(a, "-")
    t = a.type
    if is_literal(a):
        v = a.params[0]
        if v is None:
            return a
        if t.kind == "float":
            return literal(-v, t)
        lo, hi = t.limits
        if t == INT64 and v == 1 << 31:
            return literal(-v, INT32)
        if lo <= -v <= hi:
            return literal(-v, t)
    if t.kind == "months":
        raise UnsupportedError(f"months that are not a constant cannot be negated: {a}")
    return make("neg", (a,), (), t)
