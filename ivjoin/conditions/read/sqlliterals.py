"""Read the literals and type names of SQL text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr import build
from ivjoin.expr.build import chrono
from ivjoin.expr.literals import is_literal, literal, parse_timestamp
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UUID,
    Type,
    decimal,
    timestamp,
)

__all__ = ["constant", "has_clock", "hex_string", "number", "type_of", "typed_literal"]

_TYPES = {
    "BOOLEAN": BOOL, "TINYINT": INT8, "SMALLINT": INT16, "INT": INT32, "BIGINT": INT64, "UTINYINT": UINT8,
    "USMALLINT": UINT16, "UINT": UINT32, "UBIGINT": UINT64, "FLOAT": FLOAT32, "DOUBLE": FLOAT64, "DATE": DATE,
    "TIMESTAMPNTZ": timestamp("us"), "TEXT": STRING, "VARCHAR": STRING, "UUID": UUID, "CHAR": STRING, "BINARY": BINARY,
    "TIME": Type("time", unit="us"),
}  # fmt: skip
_CLOCK_UNITS = ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond")


def constant(e: Any, sign: int = 1) -> Node:
    """Return the node of a string literal, or of a number literal times ``sign``."""
    if e.is_string:
        return literal(str(e.this))
    return number(str(e.this).replace("_", ""), sign)


def number(word: str, sign: int = 1) -> Node:
    """Return the node of an unsigned number in ``word``, times ``sign``."""
    if "e" in word.lower():
        value = float(word)
        if value == float("inf"):
            raise ConditionError(f"the number {word} is beyond the range of a double")
        return literal(sign * value)
    if word.isdigit():
        return literal(sign * int(word))
    exact = Decimal(word)  # a product would be rounded to 28 digits
    return literal(exact if sign > 0 else exact.copy_negate())


def hex_string(e: Any) -> Node:
    """Return the bytes of ``X'...'``."""
    digits = str(e.this)
    try:
        return literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits))
    except ValueError:
        raise ConditionError(f"X'{digits}' has digits that are not hexadecimal") from None


def typed_literal(text: str, t: Type, zone: str) -> Node:
    """Return the node of a typed literal such as ``TIMESTAMP '...'``.

    A timestamp has nanoseconds if the text has more than six fractional digits.
    """
    if t.kind == "timestamp":
        out = parse_timestamp(text, bool(t.tz), zone)
    else:
        out = build.cast(literal(text), t, zone)
    if out is None or not is_literal(out):
        example = {"date": "2024-01-31", "timestamp": "2024-01-31 10:30:00", "time": "10:30:00"}.get(t.kind)
        such = f"; expected a text such as '{example}'" if example else ""
        raise ConditionError(f"'{text}' is not a {t.kind}{such}")
    return out


def type_of(to: Any, zone: str) -> Type:
    """Return the target type of a cast. Timestamps are in ``zone``."""
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if name == "DECIMAL":
        sizes = [int(p.this.this) for p in to.expressions]
        precision, scale = [*sizes, 0][:2] if sizes else (10, 0)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ConditionError(f"decimal({precision},{scale}): at most 38 digits, and no larger a scale")
        return decimal(precision, scale)
    if name in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"):
        return timestamp("us", zone)
    if name not in _TYPES:
        raise UnsupportedError(f"a cast to {to.sql('spark')} is not supported in a condition")
    return _TYPES[name]


def has_clock(e: Any) -> bool:
    """Return whether an interval has hours or shorter units."""
    from sqlglot import exp

    found = list(e.find_all(exp.Interval))
    if not found:
        return False
    for i in found:
        unit = i.args.get("unit")
        if unit is None:
            words = str(i.this.this).lower() if isinstance(i.this, exp.Literal) else ""
            if any(u in words for u in _CLOCK_UNITS):
                return True
            continue
        last = unit.expression if isinstance(unit, exp.IntervalSpan) else unit
        if chrono.unit_named(last.name) in _CLOCK_UNITS:
            return True
    return False
