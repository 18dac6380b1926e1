"""Write names, types and constants as SQL text."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ivjoin.expr.literals import date_of, decimal_text, literal
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import TICKS_PER_SECOND, Type

__all__ = ["literal_text", "quoted", "string_text", "type_text", "with_width"]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted(name: str) -> str:
    """Return a column name for a condition, in backticks if needed."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def type_text(t: Type) -> str:
    """Return the SQL name of a type, which is Spark's name if Spark has the type."""
    if t.kind == "int" and t.signed:
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[t.bits]
    if t.kind == "float":
        return "DOUBLE" if t.bits == 64 else "FLOAT"
    if t.kind == "timestamp" and t.unit == "us":
        return "TIMESTAMP" if t.tz else "TIMESTAMP_NTZ"
    if t.kind in ("bool", "string", "binary", "date", "decimal"):
        return {"bool": "BOOLEAN"}.get(t.kind, str(t).upper())
    return str(t)


def string_text(s: str) -> str:
    escaped = s.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return f"'{escaped}'"


def literal_text(v: Any, t: Type) -> str:
    if v is None:
        return "NULL" if t.kind in ("null", "opaque") else f"CAST(NULL AS {type_text(t)})"
    if t.kind == "bool":
        return "TRUE" if v else "FALSE"
    if t.kind == "int":
        return str(v)
    if t.kind == "float":
        return _float(v, t)
    if t.kind == "decimal":
        return decimal_text(v, t.scale) if t.scale else f"{v}BD"
    if t.kind == "string":
        return string_text(v)
    if t.kind == "binary":
        return f"X'{v.hex()}'"
    if t.kind == "months":
        return f"INTERVAL '{v}' MONTH" if v % 12 or not v else f"INTERVAL '{v // 12}' YEAR"
    if t.kind == "duration":
        return _duration(v, t.unit)
    if t.kind == "date":
        return f"DATE '{_INFINITE.get(v) or _date(v)}'"
    if t.kind == "time":
        return f"TIME '{_clock(v, t.unit)}'"
    if t.kind == "timestamp":
        days, rest = divmod(v, 86_400 * TICKS_PER_SECOND[t.unit])
        if t.unit == "us" and v in _INFINITE:
            return f"TIMESTAMP{'' if t.tz else '_NTZ'} '{_INFINITE[v]}'"
        text = f"{_date(days)} {_clock(rest, t.unit)}"
        return f"TIMESTAMP '{text}Z'" if t.tz else f"TIMESTAMP_NTZ '{text}'"
    return str(v)


# The physical values of 'infinity' and '-infinity' for dates and timestamps.
_INFINITE = {(1 << b) - 1: "infinity" for b in (31, 63)} | {1 - (1 << b): "-infinity" for b in (31, 63)}


def with_width(n: Node) -> str | None:
    """Return a decimal constant as a cast if its digits alone would give another type, else None."""
    if n.op != "literal" or n.type.kind != "decimal" or n.params[0] is None:
        return None
    text = literal_text(n.params[0], n.type)
    return None if literal(Decimal(text.removesuffix("BD"))).type == n.type else f"CAST({text} AS {type_text(n.type)})"


def _float(v: float, t: Type) -> str:
    if not math.isfinite(v):
        name = "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
        return f"CAST('{name}' AS {type_text(t)})"
    return f"{v!r}D" if t.bits == 64 else f"CAST({v!r}D AS FLOAT)"


def _date(days: int) -> str:
    try:
        return date_of(days).isoformat()
    except (ValueError, OverflowError):
        return f"1970-01-01 {days:+d} days"


def _clock(ticks: int, unit: str) -> str:
    seconds, rest = divmod(ticks, TICKS_PER_SECOND[unit])
    text = (dt.datetime.min + dt.timedelta(seconds=seconds)).time().isoformat()
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    return f"{text}.{rest:0{digits}d}".rstrip("0") if rest else text


def _duration(v: int, unit: str) -> str:
    seconds = Fraction(v, TICKS_PER_SECOND[unit])
    for name, size in (("DAY", 86_400), ("HOUR", 3600), ("MINUTE", 60)):
        if v and seconds % size == 0:
            return f"INTERVAL '{seconds // size}' {name}"
    if seconds.denominator == 1:
        return f"INTERVAL '{seconds}' SECOND"
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    return f"INTERVAL '{decimal_text(v, digits).rstrip('0')}' SECOND"
