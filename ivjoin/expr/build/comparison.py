"""Constructors of comparisons, BETWEEN, NULLIF and IN. A literal gets the type of the other argument."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import floor as floor_of

from ivjoin.expr.build.arith import duration_of_days, is_day_count
from ivjoin.expr.build.casting import cast, exact_value
from ivjoin.expr.build.choice import and_, case, coalesce, is_not_null, is_null, or_
from ivjoin.expr.build.coerce import TIMED, compared, meet, meet_all, read_time, with_times
from ivjoin.expr.build.nested import as_length, sort_keys
from ivjoin.expr.kernels.zones import is_fixed
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import FLIPPED, Node, make
from ivjoin.expr.types import BOOL, INT32, TICKS_PER_SECOND, Type, timestamp

__all__ = ["between", "compare", "eq", "eq_null_safe", "ge", "gt", "in_", "in_constants", "le", "lt", "ne", "nullif"]

_SYMBOLS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "<=>"}
_COMPARED = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq_null_safe": operator.eq,
}  # fmt: skip


def compare(op: str, a: Node, b: Node, zone: str = "UTC") -> Node:
    """Return ``a op b``. ``op`` is one of eq, ne, lt, le, gt, ge and eq_null_safe."""
    what = _SYMBOLS[op]
    if "duration" in (a.type.kind, b.type.kind):
        a, b = as_length(a), as_length(b)
    if "opaque" in (a.type.kind, b.type.kind):
        if "null" in (a.type.kind, b.type.kind):
            x = b if a.type.kind == "null" else a
            return is_null(x) if op == "eq_null_safe" else literal(None, BOOL)
        a, b = sort_keys(a, b, what)
        return make(op, (a, b), (), BOOL)
    a, b = _dates_with_intervals(a, b)
    by_value = _by_value(op, a, b, zone)
    if by_value is not None:
        return by_value
    if is_literal(b) and not is_literal(a):
        out = _against_literal(op, a, b, zone)
    elif is_literal(a) and not is_literal(b):
        out = _against_literal(FLIPPED[op], b, a, zone)
        if out is not None and out.args[:1] == (b,) and out.op in _SYMBOLS:
            out = make(FLIPPED[out.op], (out.args[1], b), (), BOOL)
    else:
        out = None
    if out is not None:
        return out
    a, b = compared(a, b, zone, what)
    if a.type.kind == "null":
        return literal(True if op == "eq_null_safe" else None, BOOL)
    if is_literal(a) and is_literal(b) and a.type.is_discrete and None not in (a.params[0], b.params[0]):
        return literal(_COMPARED[op](a.params[0], b.params[0]))
    return make(op, (a, b), (), BOOL)


_MOMENTS = ("date", "timestamp")


def _by_value(op: str, a: Node, b: Node, zone: str) -> Node | None:
    """Compare with each value that a COALESCE or CASE can return. None if one comparison is enough.

    A time outside the range of the finer unit (such as 9999-12-31 in nanoseconds) must be compared in its own unit.
    """
    for x, choice, flipped in ((a, b, op), (b, a, FLIPPED[op])):
        if choice.op not in ("coalesce", "case") or choice.type.kind != "timestamp":
            continue
        if not is_literal(x) and (x.type.kind not in _MOMENTS or x.type.unit == choice.type.unit):
            continue
        past = [n.op == "cast" and is_literal(n.args[0]) and n.args[0].type.kind in _MOMENTS for n in choice.args]
        values = [n.args[0] if is_past else n for n, is_past in zip(choice.args, past, strict=True)]
        if not any(past):
            continue
        if choice.op == "coalesce":
            tests, chosen, last = [is_not_null(n) for n in values[:-1]], values[:-1], values[-1]
        else:
            tests, chosen, last = list(choice.args[:-1:2]), values[1::2], values[-1]
        whens = [(test, compare(flipped, x, n, zone)) for test, n in zip(tests, chosen, strict=True)]
        return case(whens, compare(flipped, x, last, zone), zone)
    return None


def _dates_with_intervals(a: Node, b: Node) -> tuple[Node, Node]:
    for x, y, swap in ((a, b, False), (b, a, True)):
        if y.type.kind == "duration" and is_day_count(x):
            if is_literal(y):
                # A number of days is compared with a number of days. The rule for literals converts it to int32.
                value = exact_value(y)
                days = None if value is None else value / 86_400
                y = literal(None, INT32) if days is None else _fraction(days)
            else:
                x = duration_of_days(x)
            return (y, x) if swap else (x, y)
    return a, b


def _fraction(x: Fraction) -> Node:
    """Return a literal that gives the same results as ``x`` in comparisons with whole numbers."""
    if x.denominator == 1:
        return literal(int(x))
    return literal(float(floor_of(x)) + 0.5)


def _against_literal(op: str, x: Node, lit: Node, zone: str) -> Node | None:
    """Return ``x op lit`` with the literal in the type of x, or None if both need another type."""
    t = x.type
    if lit.type.kind == "string" and t.kind in ("date", "timestamp", "time"):
        lit = read_time(lit, t, zone, _SYMBOLS[op])
    elif lit.type.kind == "string" and t.is_numeric:
        lit = meet(x, lit, zone, _SYMBOLS[op])[1]
    if t.kind == lit.type.kind == "timestamp" and bool(t.tz) != bool(lit.type.tz) and is_fixed(zone):
        # The zone has a fixed offset, so the literal is converted instead of the column.
        lit = cast(lit, timestamp(lit.type.unit, t.tz), zone)
    if not _comparable(x, lit):
        return None
    value = exact_value(lit)
    if value is None:
        return None
    if t.kind == "decimal":
        value *= 10**t.scale
    elif t.kind in TIMED:
        value *= TICKS_PER_SECOND[t.unit]
    lo, hi = t.limits
    if value.denominator == 1 and lo <= value <= hi:
        return make(op, (x, literal(int(value), t)), (), BOOL)
    if op == "eq_null_safe":
        # The result is FALSE, also for a null. An error is still an error.
        never = make("lt", (x, literal(lo, t)), (), BOOL)
        return literal(False) if x.op == "column" else coalesce(never, literal(False))
    # The value is fractional or outside the range of the type, so x never equals it. Return an equivalent comparison,
    # which is also NULL if x is NULL.
    if value < lo:
        return make("ge" if op in ("gt", "ge", "ne") else "lt", (x, literal(lo, t)), (), BOOL)
    if value > hi:
        return make("le" if op in ("lt", "le", "ne") else "gt", (x, literal(hi, t)), (), BOOL)
    if op == "eq":
        return make("lt", (x, literal(lo, t)), (), BOOL)
    if op == "ne":
        return make("ge", (x, literal(lo, t)), (), BOOL)
    return make("le" if op in ("lt", "le") else "gt", (x, literal(floor_of(value), t)), (), BOOL)


def _comparable(x: Node, lit: Node) -> bool:
    """Return whether a comparison of the exact values gives the same result as one in the common type."""
    t, s = x.type, lit.type
    if t.kind in ("int", "decimal") and s.kind in ("int", "decimal"):
        return True
    if t.kind == "int" and s.kind == "float":
        # The int is compared as a double, which is exact up to 2**53 and monotonic above.
        value = exact_value(lit)
        return value is not None and (t.bits <= 32 or abs(value) < 1 << 53)
    if t.kind == s.kind == "timestamp":
        return bool(t.tz) == bool(s.tz)
    return t.kind == s.kind and t.kind in ("duration", "time", "date", "months")


eq, ne, eq_null_safe = partial(compare, "eq"), partial(compare, "ne"), partial(compare, "eq_null_safe")
lt, le, gt, ge = partial(compare, "lt"), partial(compare, "le"), partial(compare, "gt"), partial(compare, "ge")


def between(x: Node, low: Node, high: Node, zone: str = "UTC") -> Node:
    """Return ``x BETWEEN low AND high``, which includes both ends."""
    return and_(ge(x, low, zone), le(x, high, zone))


def nullif(a: Node, b: Node, zone: str = "UTC") -> Node:
    """Return NULL if ``a = b``, else ``a``."""
    return case([(eq(a, b, zone), literal(None, a.type))], a, zone)


def in_(x: Node, items: list[Node], zone: str = "UTC") -> Node:
    """Return ``x IN (items)``, which is FALSE for an empty list.

    Items that are not constants become comparisons joined by OR. As in Spark, x and all items get one type. If one of
    them is a double, whole numbers become doubles, which may change their value.
    """
    if not items:
        return literal(False)
    if len(items) == 1:
        return eq(x, items[0], zone)
    x, *items = with_times([x, *items], zone, "IN")
    if _meets_otherwise(x, items):
        x, *items = meet_all([x, *items], zone, "IN")
    if not all(is_literal(i) for i in items) or is_literal(x) or x.type.kind in ("decimal256", "opaque"):
        return or_(*(eq(x, i, zone) for i in items))
    values: list[object] = []
    for item in items:
        value = item.params[0]
        if value is None or (item.type.kind == x.type.kind and _is_within(value, x.type)):
            values.append(value)
            continue
        e = eq(x, item, zone)
        if e.op == "eq" and e.args[0] is x and is_literal(e.args[1]):
            values.append(e.args[1].params[0])
        elif is_literal(e):
            values += [None] if e.params[0] is None else []
        elif e.op not in ("lt", "gt") or e.args[0] is not x:
            # An item needs another type, so all items get the common type.
            met = meet_all([x, *items], zone, "IN")
            if not all(is_literal(i) for i in met[1:]):
                return or_(*(eq(x, i, zone) for i in items))
            x, values = met[0], [i.params[0] for i in met[1:]]
            break
    return _among(x, values, zone) if values else eq(x, items[0], zone)


def in_constants(x: Node, values: list[int] | list[str], zone: str = "UTC") -> Node:
    """Return the same as :func:`in_` for Python ints or texts (at least one), without a node for each of them."""
    if is_literal(x) or not (_is_within(min(values), x.type) and _is_within(max(values), x.type)):
        return in_(x, [literal(v) for v in values], zone)
    return _among(x, values, zone)


def _among(x: Node, values: Sequence[object], zone: str) -> Node:
    distinct = tuple(dict.fromkeys(values))
    return make("in", (x,), distinct, BOOL) if len(distinct) > 1 else eq(x, literal(distinct[0], x.type), zone)


def _is_within(value: object, t: Type) -> bool:
    """Return whether a text or an int is a value of type ``t`` without a conversion."""
    if isinstance(value, int):
        return t.kind == "int" and t.limits[0] <= value <= t.limits[1]
    return isinstance(value, str) and t.kind == "string"


def _meets_otherwise(x: Node, items: list[Node]) -> bool:
    """Return whether the common type of all items may change the result of a comparison of x with one item."""
    kinds = {n.type.kind for n in (x, *items)} - {"null"}
    if "string" in kinds:
        return len(kinds) > 1 and not kinds <= {"string", "timestamp", "time"}  # each of these is compared alone
    wide = x.type.kind == "decimal" or (x.type.kind == "int" and x.type.bits > 32)
    return wide and "float" in kinds and bool({"int", "decimal"} & {i.type.kind for i in items})
