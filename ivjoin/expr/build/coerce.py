"""Convert arguments to their common type, or to the type that an operator needs."""

from __future__ import annotations

import itertools

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.casting import WIDE_DECIMAL, cast, converted, exact_value
from ivjoin.expr.build.common import common_type, decimal_of, wider_decimal
from ivjoin.expr.literals import is_literal, literal, parse_moment
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.timezones import refuse_mixed
from ivjoin.expr.types import BINARY, BOOL, DATE, FLOAT64, INT32, STRING, TICKS_PER_SECOND, Type, timestamp

__all__ = [
    "NESTED", "TIMED", "as_bool", "as_date", "as_decimal", "as_double", "as_int32", "as_number", "as_numbers",
    "as_text", "as_timestamp", "compared", "local_text", "meet", "meet_all", "read_time", "with_times",
]  # fmt: skip

TIMED = ("timestamp", "duration", "time")
NESTED = "of a nested column there are its fields (l.s.f), size(), array_contains(), comparisons and IS NULL"


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
    """Return whether the conversion of ``n`` may overflow, because the finer unit has a smaller range."""
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
    """Return the arguments of a comparison in which a chosen time may be outside the range of the common unit.

    Such a time is replaced by the end of the range, and all other times stay below the end. If both sides may have such
    times, two different times could become equal. The arguments are then unchanged, and a time outside the range is an
    error.
    """
    past = [{n.args[0] for n in _chosen(side) if n.op == "cast" and _may_overflow(n.args[0], n)} for side in (x, y)]
    if not any(past) or (all(past) and not (past[0] == past[1] and len(past[0]) == 1 and is_literal(*past[0]))):
        return x, y
    return _choice_met(x, zone), _choice_met(y, zone)


_CHOICES = frozenset({"case", "coalesce", "greatest", "least"})


def _chosen(n: Node) -> list[Node]:
    """Return the values that a COALESCE, CASE or similar node can return; an empty list for other operators."""
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
    """If an argument is a timestamp or a time of day, read literal texts as times, in the unit of their digits."""
    times = [n.type for n in args if n.type.kind in ("timestamp", "time")]
    if not times:
        return args
    return [read_time(n, times[0], zone, what) if is_literal(n) and n.type.kind == "string" else n for n in args]


def read_time(text: Node, t: Type, zone: str, what: str) -> Node:
    """Read a literal text as a time of type ``t``, or of a finer unit if needed, or raise ConditionError."""
    value = text.params[0]
    if value is None:
        return literal(None, t)
    out = parse_moment(value, t, zone)
    if out is None:
        if t.kind != "time" and value.strip().lower().lstrip("+-") == "inf":
            raise ConditionError(f"the text '{value}' cannot be read as {t}; write 'infinity' or '-infinity'")
        example = {"date": "2024-01-31", "time": "10:30:00"}.get(t.kind, "2024-01-31 10:30:00")
        raise ConditionError(f"the text '{value}' cannot be read as {t}, which {what} needs here; expected '{example}'")
    return out if out.type == t else converted(out, t, zone) or out


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


def as_number(x: Node, what: str) -> Node:
    """Return ``x`` if it is a number. A text becomes a double, as in Spark."""
    if x.type.is_numeric:
        return x
    if x.type.kind in ("string", "null"):
        return _implicit(x, FLOAT64, "UTC", what)
    raise ConditionError(f"{what} needs a number, not {x.type}: {x}{_cast_hint(x.type, INT32)}")


def as_double(x: Node, what: str) -> Node:
    return cast(as_number(x, what), FLOAT64)


def as_numbers(a: Node, b: Node, what: str) -> tuple[Node, Node]:
    """Return both arguments as numbers. A text or a NULL gets the common type with the other argument, or double."""
    if "string" in (a.type.kind, b.type.kind) or "null" in (a.type.kind, b.type.kind):
        if a.type.is_numeric or b.type.is_numeric:
            t = common_type(a.type, b.type)
            assert t is not None
            return tuple(_implicit(x, t, "UTC", what) if not x.type.is_numeric else x for x in (a, b))  # type: ignore[return-value]
    return as_number(a, what), as_number(b, what)


def as_decimal(x: Node) -> Node:
    return cast(x, decimal_of(x))


def as_int32(x: Node, what: str) -> Node:
    """Return ``x`` as int32. As in Spark, only narrower ints and literals are accepted."""
    if x.type.kind == "int" and (x.type.bits < 32 or x.type == INT32):
        return cast(x, INT32)
    if x.type.kind == "null" or (x.type.kind == "string" and is_literal(x)):
        return _implicit(x, INT32, "UTC", what)
    raise ConditionError(f"{what} needs a whole number of int32, not {x.type}: {x}; use CAST(... AS INT)")


def as_date(x: Node, what: str, zone: str, needs: str = "a date") -> Node:
    """Return a date, a timestamp or a text as a date in local time of ``zone``."""
    if x.type.kind not in ("date", "timestamp", "string", "null"):
        raise ConditionError(f"{what} needs {needs}, not {x.type}: {x}")
    return cast(x, DATE, zone)


def as_timestamp(x: Node, what: str, zone: str, needs: str = "a timestamp") -> Node:
    """Return a timestamp unchanged, and a date or a text as a timestamp in ``zone``."""
    if x.type.kind == "timestamp":
        return x
    if x.type.kind not in ("date", "string", "null"):
        raise ConditionError(f"{what} needs {needs}, not {x.type}: {x}")
    return cast(x, timestamp("us", zone), zone)


def as_text(x: Node, what: str) -> Node:
    if x.type.kind == "opaque":
        raise ConditionError(f"{what} needs a string, not {x.type}: {x}")
    return x if x.type == BINARY else cast(x, STRING)


def local_text(x: Node, zone: str) -> Node:
    """Return an instant as the text of its local time, and any other argument of a text function unchanged."""
    return cast(x, STRING, zone) if x.type.kind == "timestamp" and x.type.tz else x


def as_bool(x: Node, what: str) -> Node:
    """Return ``x`` if it is a bool. A NULL becomes a bool."""
    if x.type.kind in ("bool", "null"):
        return cast(x, BOOL)
    raise ConditionError(f"{what} needs a condition (true or false), not {x.type}: {x}")
