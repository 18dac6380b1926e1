"""Build casts, and convert literals exactly to other types."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.kernels.casts import cast_rule, has_cast
from ivjoin.expr.kernels.cells import const_cell
from ivjoin.expr.literals import is_literal, literal, parse_moment, uuid_text
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BINARY, FLOAT32, TICKS_PER_SECOND, UUID, Type

__all__ = ["WIDE_DECIMAL", "cast", "converted", "exact_value"]

WIDE_DECIMAL = "a decimal256 is not computed with: it can be a key, be compared and be tested with IS NULL"


def cast(x: Node, type: Type, zone: str = "UTC") -> Node:
    """Return ``CAST(x AS type)`` of ANSI mode, with local times in ``zone``, or raise UnsupportedError."""
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
    """Return the literal in another type. None if the cast must be evaluated, such as for an error."""
    try:
        value = _conversion(x.params[0], x.type, t, zone)
        return value if value is None or isinstance(value, Node) else literal(value, t)
    except (ConditionError, ValueError, OverflowError):
        return None


_FOLDED = frozenset(
    [(a, b) for a in ("int", "float", "decimal") for b in ("int", "float", "decimal")]
    + [(kind, kind) for kind in ("timestamp", "duration", "time")]
    + [("date", "timestamp"), ("bool", "int"), ("int", "string")]
    + [("string", kind) for kind in ("int", "float", "decimal", "bool", "binary")]
)


def _conversion(v: Any, s: Type, t: Type, zone: str) -> Any:
    if s.kind == "string" and t.kind in ("date", "time", "timestamp"):
        node = parse_moment(v, t, zone)
        return node if node is None or node.type == t else converted(node, t, zone)
    if s.kind == t.kind == "int":
        return v
    if s.kind == "binary":
        return uuid_text(v) if s == UUID and t.kind == "string" else v if s == UUID and t == BINARY else None
    if (s.kind, t.kind) not in _FOLDED or (s.kind == "int" and t == FLOAT32):
        return None
    if s.kind == t.kind and s.unit and v * TICKS_PER_SECOND[t.unit] % TICKS_PER_SECOND[s.unit]:
        return None  # the coarser unit would drop digits
    with np.errstate(all="ignore"):
        values, valid, error = cast_rule(make("cast", (literal(v, s),), (t, zone), t), ())(const_cell(v, s))
    if error is not None or (valid is not None and not valid[0]):
        return None
    return values.tolist()[0]


def exact_value(node: Node) -> Fraction | None:
    """Return a literal as an exact number (times in seconds), or None for other types."""
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
