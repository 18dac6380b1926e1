"""Find the common type of operands by Spark's ANSI rules."""

from __future__ import annotations

from ivjoin.expr.literals import is_literal
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import BINARY, FLOAT64, INT64, UINT64, Type, decimal, finer_unit, timestamp

__all__ = ["MAX_DIGITS", "common_type", "decimal_of", "wider_decimal"]

_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
MAX_DIGITS = 38


def wider_decimal(a: Type, b: Type) -> Type:
    """Return the common decimal type. If 38 digits are not enough, it has fewer digits after the point."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    if whole + scale <= MAX_DIGITS:
        return decimal(whole + scale, scale)
    return decimal(MAX_DIGITS, max(0, min(scale, MAX_DIGITS - whole)))


def decimal_of(node: Node) -> Type:
    """Return the decimal type of an int or decimal argument. An int literal needs only as many digits as it has."""
    t = node.type
    if t.kind == "decimal":
        return t
    if is_literal(node) and node.params[0] is not None:
        return decimal(max(1, len(str(abs(node.params[0])))), 0)
    return decimal(_INT_DIGITS[t.bits], 0)


def common_type(a: Type, b: Type, zone: str = "UTC") -> Type | None:
    """Return the common type of ``a`` and ``b``, or None if it does not exist."""
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
            # As in Spark, the text is a bigint if the other argument is an integer, and a double otherwise.
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
    """Return a common decimal type with any number of digits."""
    x, y = (decimal(_INT_DIGITS[t.bits], 0) if t.kind == "int" else t for t in (a, b))
    scale = max(x.scale, y.scale, 0)
    return Type("decimal256", precision=max(x.precision - x.scale, y.precision - y.scale) + scale, scale=scale)


def _common_zone(a: str | None, b: str | None) -> str | None:
    # The zone of a type does not affect its instants, so any rule is correct if it does not depend on the order.
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
