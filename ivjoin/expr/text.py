"""Expressions as readable, SQL-like text."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ivjoin.expr import nodes
from ivjoin.expr.literals import date_of, decimal_text, literal
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import TICKS_PER_SECOND, Type

__all__ = ["quoted", "to_text", "type_text"]

_OR, _AND, _NOT, _COMPARE, _ADD, _MUL, _UNARY, _ATOM = range(1, 9)
_INFIX = {
    "or": ("OR", _OR), "and": ("AND", _AND), "eq": ("=", _COMPARE), "ne": ("<>", _COMPARE), "lt": ("<", _COMPARE),
    "le": ("<=", _COMPARE), "gt": (">", _COMPARE), "ge": (">=", _COMPARE), "eq_null_safe": ("<=>", _COMPARE),
    "add": ("+", _ADD), "sub": ("-", _ADD), "date_diff": ("-", _ADD), "mul": ("*", _MUL), "div": ("/", _MUL),
    "intdiv": ("div", _MUL), "mod": ("%", _MUL),
}  # fmt: skip
_SQL_NAMES = {
    "match_substring_regex": "rlike", "starts_with": "startswith", "ends_with": "endswith",
    "match_substring": "contains", "utf8_upper": "upper", "utf8_lower": "lower", "utf8_title": "initcap",
    "utf8_reverse": "reverse", "utf8_length": "length", "binary_length": "octet_length", "utf8_trim": "trim",
    "utf8_ltrim": "ltrim", "utf8_rtrim": "rtrim", "replace_substring": "replace", "utf8_lpad": "lpad",
    "utf8_rpad": "rpad", "binary_repeat": "repeat", "is_nan": "isnan", "trunc_date": "trunc",
}  # fmt: skip
# The type of the result is made from the widths of decimal operands, which have no common type.
_BY_WIDTH = frozenset({"mul", "div", "intdiv", "mod"})
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_text(node: Node) -> str:
    """SQL-like text of an expression: ``l.ts >= r.ts - INTERVAL '10' SECOND``."""
    done: dict[Node, tuple[str, int]] = {}
    for n in walk(node):
        done[n] = _text(n, done)
    return done[node][0]


def quoted(name: str) -> str:
    """A column name as a condition has to write it."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def type_text(t: Type) -> str:
    """Spark's name of a type, where it has one."""
    if t.kind == "int" and t.signed:
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[t.bits]
    if t.kind == "float":
        return "DOUBLE" if t.bits == 64 else "FLOAT"
    if t.kind == "timestamp" and t.unit == "us":
        return "TIMESTAMP" if t.tz else "TIMESTAMP_NTZ"
    if t.kind in ("bool", "string", "binary", "date", "decimal"):
        return {"bool": "BOOLEAN"}.get(t.kind, str(t).upper())
    return str(t)


def _text(n: Node, done: dict[Node, tuple[str, int]]) -> tuple[str, int]:
    def arg(i: int, level: int = 0) -> str:
        text, own = done[n.args[i]]
        return f"({text})" if own < level else text

    op = n.op
    if op == "column":
        side, name = n.params
        return f"{side[0]}.{quoted(name)}", _ATOM
    if op == "literal":
        text = _literal(n.params[0], n.type)
        return text, _UNARY if text.startswith("-") else _ATOM
    if op in _INFIX:
        symbol, level = _INFIX[op]
        # AND and OR bind to both sides alike; of the rest only the left operand may have the same strength.
        first = level + 1 if level == _COMPARE else level
        rest = level if op in ("and", "or") else level + 1
        parts = [arg(i, first if i == 0 else rest) for i in range(len(n.args))]
        if op in _BY_WIDTH:
            parts = [_with_width(a) or part for a, part in zip(n.args, parts, strict=True)]
        text = f" {symbol} ".join(parts)
        if op == "mod" and n.type.kind == "decimal" and n.type != n.args[0].type:
            # The arguments were given one type; their text alone would have the remainder be as wide.
            return f"CAST({text} AS {type_text(n.type)})", _ATOM
        return text, level
    if op == "cast" and n.type == n.args[0].type:
        return done[n.args[0]]  # met with another unit: whoever reads the text lets them meet again
    special = _SPECIAL.get(op)
    if special is not None:
        return special(n, arg)
    name = _SQL_NAMES.get(op, op)
    options = [p for p in n.params if op not in ("add_months",)]
    return _call(name, [arg(i) for i in range(len(n.args))], options), _ATOM


def _call(name: str, args: list[str], options: list[Any]) -> str:
    return f"{name}({', '.join(args + [_option(p) for p in options if p is not None])})"


def _option(p: Any) -> str:
    return _string(p) if isinstance(p, str) else str(p)


Arg = Callable[..., str]


def _not(n: Node, arg: Arg) -> tuple[str, int]:
    inner = n.args[0]
    if inner.op == "is_null":
        return arg(0)[: -len("NULL")] + "NOT NULL", _COMPARE
    return f"NOT {arg(0, _NOT)}", _NOT


def _case(n: Node, arg: Arg) -> tuple[str, int]:
    whens = [f"WHEN {arg(i)} THEN {arg(i + 1)}" for i in range(0, len(n.args) - 1, 2)]
    return f"CASE {' '.join(whens)} ELSE {arg(len(n.args) - 1)} END", _ATOM


def _in(n: Node, arg: Arg) -> tuple[str, int]:
    return f"{arg(0, _ADD)} IN ({', '.join(arg(i) for i in range(1, len(n.args)))})", _COMPARE


def _like(n: Node, arg: Arg) -> tuple[str, int]:
    pattern, escape = n.params
    tail = "" if escape == "\\" else f" ESCAPE {_string(escape)}"
    return f"{arg(0, _ADD)} LIKE {_string(pattern)}{tail}", _COMPARE


def _neg(n: Node, arg: Arg) -> tuple[str, int]:
    return f"-{arg(0, _ATOM)}", _UNARY


def _add_days(n: Node, arg: Arg) -> tuple[str, int]:
    count = n.args[1]
    if count.op == "literal" and count.params[0] is not None:
        days = count.params[0]
        return f"{arg(0, _ADD)} {'-' if days < 0 else '+'} INTERVAL '{abs(days)}' DAY", _ADD
    return f"date_add({arg(0)}, {arg(1)})", _ATOM


def _add_months(n: Node, arg: Arg) -> tuple[str, int]:
    count = n.args[1]
    if count.op == "literal" and count.params[0] is not None:
        months = count.params[0]
        return f"{arg(0, _ADD)} {'-' if months < 0 else '+'} INTERVAL '{abs(months)}' MONTH", _ADD
    return f"add_months({arg(0)}, {arg(1)})", _ATOM


def _function(n: Node, arg: Arg) -> tuple[str, int]:
    name, *options = n.params
    args = [arg(i) for i in range(len(n.args))]
    if name == "binary_join_element_wise":
        return _call("concat", args[:-1], []), _ATOM
    if name == "utf8_slice_codeunits":
        start = options[0]
        count = [options[1] - start] if len(options) > 1 and options[1] is not None else []
        return _call("substring", args, [start + 1 if start >= 0 else start, *count]), _ATOM
    if name in _TRIMS:
        where = "" if options == [" "] else f"{_TRIMS[name]} {_string(options[0])} FROM "
        return (f"trim({where}{args[0]})" if where else _call(_SQL_NAMES[name], args, [])), _ATOM
    return _call(_SQL_NAMES.get(name, name), args, options), _ATOM


_SPECIAL: dict[str, Callable[[Node, Arg], tuple[str, int]]] = {
    "not": _not,
    "is_null": lambda n, arg: (f"{arg(0, _ADD)} IS NULL", _COMPARE),
    "case": _case,
    "in": _in,
    "like": _like,
    "neg": _neg,
    "add_days": _add_days,
    "add_months": _add_months,
    "function": _function,
    "cast": lambda n, arg: (f"CAST({arg(0)} AS {type_text(n.type)})", _ATOM),
    "date_trunc": lambda n, arg: (f"date_trunc({_string(n.params[0])}, {arg(0)})", _ATOM),
    "extract": lambda n, arg: (f"{_FIELD_NAMES.get(n.params[0], n.params[0])}({arg(0)})", _ATOM),
    "round": lambda n, arg: (_call("round", [arg(0)], [n.params[0] or None]), _ATOM),
    "bround": lambda n, arg: (_call("bround", [arg(0)], [n.params[0] or None]), _ATOM),
}
_TRIMS = {"utf8_trim": "BOTH", "utf8_ltrim": "LEADING", "utf8_rtrim": "TRAILING"}
_FIELD_NAMES: dict[str, str] = {"week": "weekofyear"}


def _string(s: str) -> str:
    escaped = s.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return f"'{escaped}'"


def _literal(v: Any, t: Type) -> str:
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
        return _string(v)
    if t.kind == "binary":
        return f"X'{v.hex()}'"
    if t.kind == "months":
        return f"INTERVAL '{v}' MONTH" if v % 12 or not v else f"INTERVAL '{v // 12}' YEAR"
    if t.kind == "duration":
        return _duration(v, t.unit)
    if t.kind == "date":
        return f"DATE '{_date(v)}'"
    if t.kind == "time":
        return f"TIME '{_clock(v, t.unit)}'"
    if t.kind == "timestamp":
        days, rest = divmod(v, 86_400 * TICKS_PER_SECOND[t.unit])
        text = f"{_date(days)} {_clock(rest, t.unit)}"
        return f"TIMESTAMP '{text}Z'" if t.tz else f"TIMESTAMP_NTZ '{text}'"
    return str(v)


def _with_width(n: Node) -> str | None:
    """A decimal constant under an operator that its width matters to, if its digits alone have another type."""
    if n.op != "literal" or n.type.kind != "decimal" or n.params[0] is None:
        return None
    text = _literal(n.params[0], n.type)
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


nodes.to_text = to_text
