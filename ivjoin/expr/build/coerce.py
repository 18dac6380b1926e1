"""Common types of operands: Spark's ANSI widening, casts, and exact conversion of literals."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.literals import (
    date_of,
    instant_of,
    is_literal,
    literal,
    parse_date,
    parse_number,
    parse_time,
    parse_timestamp,
    rescaled,
    shifted,
    uuid_bytes,
    uuid_text,
    zone_named,
)
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.timezones import refuse_mixed
from ivjoin.expr.types import (
    BINARY,
    BOOL,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TICKS_PER_SECOND,
    UINT64,
    UUID,
    Type,
    decimal,
    finer_unit,
    timestamp,
)

__all__ = [
    "NESTED", "TIMED", "WIDE_DECIMAL", "as_bool", "as_decimal", "as_double", "as_int32", "as_number", "as_numbers",
    "as_text", "bounded", "cast", "common_type", "compared", "exact_value", "local_text", "meet", "meet_all",
    "read_time", "wider_decimal", "with_times",
]  # fmt: skip

TIMED = ("timestamp", "duration", "time")
_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
MAX_DIGITS = 38
MIN_SCALE = 6
WIDE_DECIMAL = "a decimal256 is not computed with: it can be a key, be compared and be tested with IS NULL"
NESTED = "of a nested column there are its fields (l.s.f), size(), array_contains(), comparisons and IS NULL"


def bounded(precision: int, scale: int) -> Type:
    """Apply Spark's 38-digit cap to a result type: it reduces fraction digits first, down to six."""
    if precision <= MAX_DIGITS:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, MIN_SCALE)))


def wider_decimal(a: Type, b: Type) -> Type:
    """Return the decimal that holds both. Past 38 digits it keeps the digits before the point."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    if whole + scale <= MAX_DIGITS:
        return decimal(whole + scale, scale)
    return decimal(MAX_DIGITS, max(0, min(scale, MAX_DIGITS - whole)))


def decimal_of(node: Node) -> Type:
    """Return the decimal type of an int or decimal argument. An int literal has as many digits as its text."""
    t = node.type
    if t.kind == "decimal":
        return t
    if is_literal(node) and node.params[0] is not None:
        return decimal(max(1, len(str(abs(node.params[0])))), 0)
    return decimal(_INT_DIGITS[t.bits], 0)


def common_type(a: Type, b: Type, zone: str = "UTC") -> Type | None:
    """Return the common type of ``a`` and ``b``; None if it does not exist."""
    if a == b:
        return a
    if a.kind == "null":
        return b
    if b.kind == "null":
        return a
    kinds = {a.kind, b.kind}
    if "string" in kinds:
        other = b if a.kind == "string" else a
        if other.is_numeric:
            # As in Spark: next to an integral number the text is read as bigint, next to a fractional one as double.
            return (UINT64 if other == UINT64 else INT64) if other.kind == "int" else FLOAT64
        if other.kind == "timestamp":  # Spark reads texts as microseconds
            return timestamp(finer_unit(other.unit, "us"), other.tz)
        if other.kind == "time":
            return Type("time", unit="ns")
        return other if other.kind in ("date", "bool", "binary") else None
    if "decimal256" in kinds:
        return _common_wide(a, b) if kinds <= {"decimal256", "decimal", "int"} else None
    if a.is_numeric and b.is_numeric:
        return _common_number(a, b)
    if kinds == {"binary"}:
        return BINARY
    if kinds == {"timestamp"}:
        unit = finer_unit(a.unit, b.unit)
        if not a.tz and not b.tz:
            return timestamp(unit)
        return timestamp(unit, _common_zone(a.tz, b.tz))
    if kinds == {"date", "timestamp"}:
        return a if a.kind == "timestamp" else b
    if len(kinds) == 1 and a.kind in ("time", "duration"):
        return Type(a.kind, unit=finer_unit(a.unit, b.unit))
    return None


def _common_wide(a: Type, b: Type) -> Type:
    """Return a decimal that holds both, with any number of digits."""
    x, y = (decimal(_INT_DIGITS[t.bits], 0) if t.kind == "int" else t for t in (a, b))
    scale = max(x.scale, y.scale, 0)
    return Type("decimal256", precision=max(x.precision - x.scale, y.precision - y.scale) + scale, scale=scale)


def _common_zone(a: str | None, b: str | None) -> str | None:
    # The zone of a type does not change its instants, so any rule works that does not depend on the order.
    if not a or not b:
        return a or b
    return "UTC" if "UTC" in (a, b) else min(a, b)


def _common_number(a: Type, b: Type) -> Type:
    if a.kind == "float" or b.kind == "float":
        return a if a.kind == b.kind and a.bits == b.bits else FLOAT64
    if a.kind == "decimal" or b.kind == "decimal":
        return wider_decimal(*(t if t.kind == "decimal" else decimal(_INT_DIGITS[t.bits], 0) for t in (a, b)))
    if a.signed == b.signed:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.signed else (b, a)
    bits = max(signed.bits, unsigned.bits * 2)
    return Type("int", bits) if bits <= 64 else decimal(20, 0)


def meet(a: Node, b: Node, zone: str, what: str) -> tuple[Node, Node]:
    """Return both arguments in their common type. ``what`` names the operator in the error."""
    a, b = with_times([a, b], zone, what)
    refuse_mixed(a, b, zone)
    t = _meeting_type(a, b, zone)
    if t is None:
        raise ConditionError(f"{what} cannot take {a.type} and {b.type}: {a} and {b}{_cast_hint(a.type, b.type)}")
    return _implicit(a, t, zone, what), _implicit(b, t, zone, what)


def compared(a: Node, b: Node, zone: str, what: str) -> tuple[Node, Node]:
    """Return both arguments of a comparison in their common type. Times of different units compare as instants."""
    a, b = with_times([a, b], zone, what)
    x, y = meet(a, b, zone, what)
    if {a.type.kind, b.type.kind} <= {"timestamp", "duration", "date", "string"} and x.type.kind in TIMED:
        if _may_overflow(a, x) != _may_overflow(b, y):
            return _met(a, x, zone), _met(b, y, zone)
        if x.type.kind == "timestamp":
            return _choices_met(x, y, zone)
    return x, y


def _may_overflow(n: Node, made: Node) -> bool:
    """Return whether the converted ``n`` has a finer unit, whose range may be too small."""
    s, t = n.type, made.type
    if is_literal(made):
        return False
    if s.kind == "string":
        return t.unit == "ns"
    if s.kind == "date" and t.kind == "timestamp":
        return TICKS_PER_SECOND[t.unit] > TICKS_PER_SECOND["ms"]
    return s.unit != t.unit


def _met(n: Node, made: Node, zone: str) -> Node:
    t = made.type
    if not is_literal(made):
        return make("cast", (n,), (t, zone, "met"), t)
    low, high = t.limits
    value = made.params[0]
    return made if value is None else literal(min(max(value, low + 1), high - 1), t)


def _choices_met(x: Node, y: Node, zone: str) -> tuple[Node, Node]:
    """Return the arguments of a comparison if one of them may be a time past the range of its unit.

    Such a time becomes the end of the range, and all other times stay below the end. If both sides have such times, two
    that differ might be equal; they stay unchanged then, and a time past the range is an error.
    """
    past = [{n.args[0] for n in _chosen(side) if n.op == "cast" and _may_overflow(n.args[0], n)} for side in (x, y)]
    if not any(past) or (all(past) and not (past[0] == past[1] and len(past[0]) == 1 and is_literal(*past[0]))):
        return x, y
    return _choice_met(x, zone), _choice_met(y, zone)


_CHOICES = frozenset({"case", "coalesce", "greatest", "least"})


def _chosen(n: Node) -> list[Node]:
    """Return the values among which a node chooses; an empty list if it does not choose."""
    if n.op not in _CHOICES:
        return []
    values = [a for i, a in enumerate(n.args) if n.op != "case" or i % 2 or i == len(n.args) - 1]
    return [v for a in values for v in (_chosen(a) or [a])]


def _choice_met(n: Node, zone: str) -> Node:
    if n.op in _CHOICES:
        tests = range(0, len(n.args) - 1, 2) if n.op == "case" else ()
        args = tuple(a if i in tests else _choice_met(a, zone) for i, a in enumerate(n.args))
        return make(n.op, args, n.params, n.type)
    if n.op != "cast" or not _may_overflow(n.args[0], n):
        return _met(n, n, zone)
    value = exact_value(n.args[0])
    if value is None:
        return make("cast", n.args, (n.type, n.params[1], "met"), n.type)
    return literal(n.type.limits[value > 0], n.type)  # a literal that fits needs no cast


def meet_all(args: list[Node], zone: str, what: str) -> list[Node]:
    """Return all arguments in their common type."""
    args = with_times(args, zone, what)
    t = args[0].type
    for a, b in itertools.combinations([n for n in args if n.type.kind == "timestamp"], 2):
        refuse_mixed(a, b, zone)
    for i, n in enumerate(args[1:], 1):
        common = common_type(t, n.type, zone)
        if common is None:
            raise ConditionError(f"{what} cannot take {t} and {n.type}: argument {i + 1} is {n}{_cast_hint(t, n.type)}")
        t = common
    if t.kind in ("decimal256", "opaque"):
        reason = WIDE_DECIMAL if t.kind == "decimal256" else NESTED
        raise UnsupportedError(f"{what} cannot take {t}: {args[0]}; {reason}")
    return [_implicit(n, t, zone, what) for n in args]


def with_times(args: list[Node], zone: str, what: str) -> list[Node]:
    """Read literal texts among timestamps or times of day as times, in the unit of their digits."""
    times = [n.type for n in args if n.type.kind in ("timestamp", "time")]
    if not times:
        return args
    return [read_time(n, times[0], zone, what) if is_literal(n) and n.type.kind == "string" else n for n in args]


def read_time(text: Node, t: Type, zone: str, what: str) -> Node:
    """Return a literal text as a time of type ``t``, or of a finer unit if needed; else raise ConditionError."""
    value = text.params[0]
    if value is None:
        return literal(None, t)
    out = (
        parse_date(value) if t.kind == "date"
        else parse_time(value) if t.kind == "time"
        else parse_timestamp(value, bool(t.tz), zone)
    )  # fmt: skip
    if out is None:
        if t.kind != "time" and value.strip().lower().lstrip("+-") == "inf":
            raise ConditionError(f"the text '{value}' cannot be read as {t}; write 'infinity' or '-infinity'")
        example = {"date": "2024-01-31", "time": "10:30:00"}.get(t.kind, "2024-01-31 10:30:00")
        raise ConditionError(f"the text '{value}' cannot be read as {t}, which {what} needs here; expected '{example}'")
    return out if out.type == t else _converted(out, t, zone) or out


def _cast_hint(a: Type, b: Type) -> str:
    kinds = {a.kind, b.kind}
    if "opaque" in kinds:
        return f"; {NESTED}"
    if "decimal256" in kinds:
        return f"; {WIDE_DECIMAL}"
    if "timestamp" in kinds and kinds & {"int", "float", "decimal"}:
        return "; unix_seconds(), unix_millis() and unix_micros() turn a timestamp into a number"
    if "duration" in kinds and kinds & {"int", "float", "decimal"}:
        return "; write the number as an interval, such as INTERVAL 10 SECONDS"
    if "months" in kinds:
        return "; months have no fixed length: add them to a date or timestamp"
    return "; a CAST would make them one type"


def _meeting_type(a: Node, b: Node, zone: str) -> Type | None:
    kinds = {a.type.kind, b.type.kind}
    if kinds == {"int", "decimal"}:
        return wider_decimal(decimal_of(a), decimal_of(b))
    return common_type(a.type, b.type, zone)


def _implicit(node: Node, t: Type, zone: str, what: str) -> Node:
    if node.type.kind == "string" and t.kind != "string" and is_literal(node):
        out = cast(node, t, zone)
        if not is_literal(out):
            raise ConditionError(f"the text '{node.params[0]}' cannot be read as {t}, which {what} needs here")
        return out
    return cast(node, t, zone)


_TRUTHS = {w: w in ["t", "true", "y", "yes", "1"] for w in ["t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"]}
_CASTS: dict[str, frozenset[str]] = {
    "int": frozenset({"int", "float", "decimal", "bool", "string", "timestamp", "binary"}),
    "float": frozenset({"int", "float", "decimal", "bool", "string", "timestamp"}),
    "decimal": frozenset({"int", "float", "decimal", "bool", "string", "timestamp"}),
    "bool": frozenset({"int", "float", "decimal", "bool", "string"}),
    "string": frozenset({"int", "float", "decimal", "bool", "string", "binary", "date", "timestamp", "time"}),
    "binary": frozenset({"string", "binary"}),
    "date": frozenset({"date", "timestamp", "string"}),
    "timestamp": frozenset({"date", "timestamp", "string", "int", "float", "decimal"}),
    "time": frozenset({"time", "string"}),
    "duration": frozenset({"duration"}),
    "months": frozenset({"months"}),
}


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
    if type.kind not in _CASTS.get(x.type.kind, ()) or (type.kind == "binary" and x.type.kind == "int"):
        hint = ""
        if {x.type.kind, type.kind} == {"date", "int"}:
            hint = "; unix_date() and date_from_unix_date() convert days"
        elif x.type.kind == "decimal256":
            hint = f"; {WIDE_DECIMAL}"
        raise UnsupportedError(f"a cast from {x.type} to {type} is not supported: {x}{hint}")
    if is_literal(x):
        if x.params[0] is None:
            return literal(None, type)
        folded = _converted(x, type, zone)
        if folded is not None:
            return folded
    return make("cast", (x,), (type, zone), type)


def _converted(x: Node, t: Type, zone: str) -> Node | None:
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
    if isinstance(v, float):
        v = Decimal(repr(v))
        return rescaled(int(v.scaleb(400)), 400, t.scale) if -300 < v.adjusted() < 90 else None
    exact = Fraction(v)
    # A decimal's denominator divides a power of ten, so 40 more digits hold it exactly.
    return rescaled(int(exact * 10 ** (t.scale + 40)), t.scale + 40, t.scale)


def _from_text(text: str, t: Type, zone: str) -> Any:
    if t.kind == "date":
        return parse_date(text)
    if t.kind == "timestamp":
        node = parse_timestamp(text, bool(t.tz), zone)
        return None if node is None else _converted(node, t, zone) if node.type.unit != t.unit else node.params[0]
    if t.kind == "time":
        node = parse_time(text)
        return None if node is None else node.params[0] if node.type == t else _converted(node, t, zone)
    if t.kind == "bool":
        word = text.strip().lower()
        return _TRUTHS.get(word)
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


def as_double(x: Node, what: str) -> Node:
    if not x.type.is_numeric and x.type.kind not in ("string", "null"):
        raise ConditionError(f"{what} needs a number, not {x.type}: {x}{_cast_hint(x.type, FLOAT64)}")
    return _implicit(x, FLOAT64, "UTC", what)


def as_number(x: Node, what: str) -> Node:
    """Return ``x`` if it is a number. A text becomes a double, as in Spark."""
    if x.type.is_numeric:
        return x
    if x.type.kind in ("string", "null"):
        return _implicit(x, FLOAT64, "UTC", what)
    raise ConditionError(f"{what} needs a number, not {x.type}: {x}{_cast_hint(x.type, INT32)}")


def as_numbers(a: Node, b: Node, what: str) -> tuple[Node, Node]:
    """Return both as numbers: a text takes the other argument's type or double, and so does a NULL."""
    if "string" in (a.type.kind, b.type.kind) or "null" in (a.type.kind, b.type.kind):
        if a.type.is_numeric or b.type.is_numeric:
            t = common_type(a.type, b.type)
            assert t is not None
            return tuple(_implicit(x, t, "UTC", what) if not x.type.is_numeric else x for x in (a, b))  # type: ignore[return-value]
    return as_number(a, what), as_number(b, what)


def as_decimal(x: Node) -> Node:
    return cast(x, decimal_of(x))


def as_int32(x: Node, what: str) -> Node:
    """Return ``x`` as int32. Only narrower ints and int literals convert, as in Spark for day and month counts."""
    if x.type.kind == "int" and (x.type.bits < 32 or x.type == INT32):
        return cast(x, INT32)
    if x.type.kind == "null" or (x.type.kind == "string" and is_literal(x)):
        return _implicit(x, INT32, "UTC", what)
    raise ConditionError(f"{what} needs a whole number of int32, not {x.type}: {x}; use CAST(... AS INT)")


def as_text(x: Node, what: str) -> Node:
    if x.type.kind == "opaque":
        raise ConditionError(f"{what} needs a string, not {x.type}: {x}")
    return x if x.type == BINARY else cast(x, STRING)


def local_text(x: Node, zone: str) -> Node:
    """Return an instant as the text of its local time for a function of texts; anything else unchanged."""
    return cast(x, STRING, zone) if x.type.kind == "timestamp" and x.type.tz else x


def as_bool(x: Node, what: str) -> Node:
    """Return ``x`` if it is a truth value; a NULL becomes one."""
    if x.type.kind in ("bool", "null"):
        return cast(x, BOOL)
    raise ConditionError(f"{what} needs a condition (true or false), not {x.type}: {x}")
