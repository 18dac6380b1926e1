"""Casts, and the exact conversion of literals from type to type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.kernels.casts import has_cast
from ivjoin.expr.kernels.casttext import TRUTHS
from ivjoin.expr.literals import (
    date_of,
    instant_of,
    is_literal,
    literal,
    parse_date,
    parse_number,
    parse_time,
    parse_timestamp,
    shifted,
    uuid_bytes,
    uuid_text,
    zone_named,
)
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BINARY, TICKS_PER_SECOND, UUID, Type
from ivjoin.interval.machine.decimals import half_up

__all__ = ["WIDE_DECIMAL", "cast", "converted", "exact_value"]

WIDE_DECIMAL = "a decimal256 is not computed with: it can be a key, be compared and be tested with IS NULL"


def cast(x: Node, type: Type, zone: str = "UTC") -> Node:
    """Return ``CAST(x AS type)`` under ANSI, with local times in ``zone``; UnsupportedError if it does not exist."""
    if x.type == type:
        return x
    if x.type.kind == "null":
        return literal(None, type)
    if type.kind == "decimal256" and x.type.kind in ("int", "decimal", "decimal256"):
        return make("cast", (x,), (type, zone), type)
    if type.kind == "time" and x.type.kind == "timestamp":
        return make("time_of_day", (x,), (zone,), Type("time", unit=x.type.unit))
    if not has_cast(x.type, type):
        hint = ""
        if {x.type.kind, type.kind} == {"date", "int"}:
            hint = "; unix_date() and date_from_unix_date() convert days"
        elif x.type.kind == "decimal256":
            hint = f"; {WIDE_DECIMAL}"
        raise UnsupportedError(f"a cast from {x.type} to {type} is not supported: {x}{hint}")
    if is_literal(x):
        if x.params[0] is None:
            return literal(None, type)
        folded = converted(x, type, zone)
        if folded is not None:
            return folded
    return make("cast", (x,), (type, zone), type)


def converted(x: Node, t: Type, zone: str) -> Node | None:
    """Return the literal in another type; None if that is an error or is left to the evaluator."""
    try:
        value = _conversion(x.params[0], x.type, t, zone)
        return value if value is None or isinstance(value, Node) else literal(value, t)
    except (ConditionError, ValueError, OverflowError):
        return None


def _conversion(v: Any, s: Type, t: Type, zone: str) -> Any:
    if s.kind == "string":
        return _from_text(v, t, zone)
    if s.is_numeric and t.is_numeric:
        return _number_as(Fraction(v, 10**s.scale) if s.kind == "decimal" else v, t)
    if s.kind == "date" and t.kind == "timestamp":
        seconds = v * 86_400
        if t.tz:
            seconds = instant_of(dt.datetime.combine(date_of(v), dt.time()), zone_named(zone))
        return seconds * TICKS_PER_SECOND[t.unit]
    if s.kind == t.kind and s.kind in ("timestamp", "duration", "time"):
        if s.kind == "timestamp" and bool(s.tz) != bool(t.tz):
            whole, rest = divmod(v, TICKS_PER_SECOND[s.unit])
            v = shifted(whole, zone_named(zone), to_instant=bool(t.tz)) * TICKS_PER_SECOND[s.unit] + rest
        ticks = Fraction(v * TICKS_PER_SECOND[t.unit], TICKS_PER_SECOND[s.unit])
        return int(ticks) if ticks.denominator == 1 else None
    if s.kind == "bool" and t.kind == "int":
        return int(v)
    if s.kind == "int" and t.kind == "string":
        return str(v)
    if s.kind == "binary":
        return uuid_text(v) if s == UUID and t.kind == "string" else v if s == UUID and t == BINARY else None
    return None


def _number_as(v: Any, t: Type) -> Any:
    if t.kind == "float":
        if isinstance(v, Fraction):
            v = v.numerator / v.denominator
        elif isinstance(v, int) and t.bits == 32:
            return None
        return float(v)
    if isinstance(v, float) and not math.isfinite(v):
        return None
    if t.kind == "int":
        return int(v)
    exact = Fraction(Decimal(repr(v)) if isinstance(v, float) else v)
    return half_up(exact.numerator * 10**t.scale, exact.denominator)


def _from_text(text: str, t: Type, zone: str) -> Any:
    if t.kind == "date":
        return parse_date(text)
    if t.kind == "timestamp":
        node = parse_timestamp(text, bool(t.tz), zone)
        return None if node is None else converted(node, t, zone) if node.type.unit != t.unit else node.params[0]
    if t.kind == "time":
        node = parse_time(text)
        return None if node is None else node.params[0] if node.type == t else converted(node, t, zone)
    if t.kind == "bool":
        return TRUTHS.get(text.strip().lower())
    if t.kind == "binary":
        return uuid_bytes(text) if t == UUID else text.encode()
    number = parse_number(text)
    if number is None:
        return None
    if t.kind == "int":
        return number if isinstance(number, int) else None
    if t.kind == "float":
        return float(number)
    return None if isinstance(number, float) else _number_as(Fraction(number), t)


def exact_value(node: Node) -> Fraction | None:
    """Return a literal as an exact number: the number itself, or seconds for times; None for other types."""
    if not is_literal(node) or node.params[0] is None:
        return None
    v, t = node.params[0], node.type
    if t.kind in ("int", "date", "months"):
        return Fraction(v)
    if t.kind == "decimal":
        return Fraction(v, 10**t.scale)
    if t.kind == "float":
        return Fraction(v) if math.isfinite(v) else None
    if t.kind in ("timestamp", "duration", "time"):
        return Fraction(v, TICKS_PER_SECOND[t.unit])
    return None
