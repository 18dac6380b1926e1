"""Constructors of numeric functions, with the types of Spark's ANSI mode."""

from __future__ import annotations

from ivjoin.errors import ConditionError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_double, as_number, meet_all
from ivjoin.expr.build.common import MAX_DIGITS
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BOOL, FLOAT64, INT64, decimal

__all__ = ["abs_", "bround", "ceil", "floor", "greatest", "is_nan", "least", "real", "rint", "round_", "sign"]


def abs_(a: Node) -> Node:
    """Return ``abs(a)`` of a number or an interval."""
    if a.type.kind != "duration":
        a = as_number(a, "abs")
    return a if a.type.kind == "int" and not a.type.signed else make("abs", (a,), (), a.type)


def sign(a: Node) -> Node:
    """Return ``sign(a)``: -1.0, 0.0 or 1.0."""
    return real("sign", a)


def _choice(op: str, args: tuple[Node, ...], zone: str) -> Node:
    if len(args) < 2:
        raise ConditionError(f"{op} needs two arguments or more, got {len(args)}")
    met = meet_all(list(args), zone, op)
    if not met[0].type.is_ordered:
        raise ConditionError(f"{op} cannot take {met[0].type}: {met[0]}")
    return make(op, tuple(met), (), met[0].type)


def least(*args: Node, zone: str = "UTC") -> Node:
    """Return the least argument that is not null. NaN is the greatest value."""
    return _choice("least", args, zone)


def greatest(*args: Node, zone: str = "UTC") -> Node:
    """Return the greatest argument that is not null. NaN is the greatest value."""
    return _choice("greatest", args, zone)


def _integral(op: str, a: Node) -> Node:
    a = as_number(a, op)
    t = a.type
    if t.kind == "int":
        return cast(a, INT64) if t.signed else a
    if t.kind == "decimal":
        if t.scale == 0:
            return cast(a, decimal(min(t.precision + 1, MAX_DIGITS), 0))
        return make(op, (a,), (), decimal(min(t.precision - t.scale + 1, MAX_DIGITS), 0))
    return make(op, (cast(a, FLOAT64),), (), INT64)


def floor(a: Node) -> Node:
    """Return ``floor(a)``: an int64 for a float or an int, a decimal(p, 0) for a decimal."""
    return _integral("floor", a)


def ceil(a: Node) -> Node:
    """Return ``ceil(a)``, with the types of :func:`floor`."""
    return _integral("ceil", a)


def _rounded(op: str, a: Node, digits: int) -> Node:
    a = as_number(a, "round")
    t = a.type
    if t.kind == "int" and digits >= 0:
        return a
    if t.kind == "decimal":
        whole = t.precision - t.scale + 1
        if digits < 0:
            t = decimal(min(max(whole, -digits + 1), MAX_DIGITS), 0)
        else:
            scale = min(t.scale, digits)
            t = decimal(min(whole + scale, MAX_DIGITS), scale)
    return make(op, (a,), (digits,), t)


def round_(a: Node, digits: int = 0) -> Node:
    """Return ``round(a, digits)``, which rounds halves away from zero."""
    return _rounded("round", a, digits)


def bround(a: Node, digits: int = 0) -> Node:
    """Return ``bround(a, digits)``, which rounds halves to the even digit."""
    return _rounded("bround", a, digits)


def rint(a: Node) -> Node:
    """Return ``rint(a)``, the nearest whole number as a double. Halves are rounded to even."""
    return make("bround", (as_double(a, "rint"),), (0,), FLOAT64)


def real(name: str, *args: Node) -> Node:
    """Return a function of doubles by its name, such as ``sqrt``."""
    return make(name, tuple(as_double(a, name) for a in args), (), FLOAT64)


def is_nan(a: Node) -> Node:
    """Return whether ``a`` is NaN. The result is never NULL."""
    a = as_number(a, "isnan")
    return make("is_nan", (a if a.type.kind == "float" else cast(a, FLOAT64),), (), BOOL)
