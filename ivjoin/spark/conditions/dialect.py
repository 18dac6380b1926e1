"""Follow or report the differences between a session's SQL and conditions.

Quotes follow the session. If ``"a"`` is a name in the session's SQL, text is passed on with backquotes. Arithmetic
always follows ANSI mode. A session without ANSI mode turns errors into NULLs and wrapped numbers, which no interval can
enclose. Therefore a warning is raised if a condition can raise an error.
"""

from __future__ import annotations

from collections.abc import Callable

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import TICKS_PER_SECOND
from ivjoin.spark.conditions.leftover import tokens
from ivjoin.spark.rows.arrow import widens

__all__ = ["AnsiWarning", "ansi_note", "backquoted"]

# The integers between which the result lies, from the ends of the first and the last argument.
_ENDS: dict[str, Callable[[int, int, int, int], tuple[int, ...]]] = {
    ops.ADD: lambda a, b, c, d: (a + c, b + d),
    ops.SUB: lambda a, b, c, d: (a - d, b - c),
    ops.MUL: lambda a, b, c, d: (a * c, a * d, b * c, b * d),
    ops.NEG: lambda a, b, c, d: (-b, -a),
    ops.ABS: lambda a, b, c, d: (0 if a <= 0 <= b else min(abs(a), abs(b)), max(abs(a), abs(b))),
}
_PER_SECOND = {ops.UNIX_SECONDS: 1, ops.UNIX_MILLIS: 1_000, ops.UNIX_MICROS: 1_000_000}


class AnsiWarning(UserWarning):
    """Warns that a condition can raise an error, while the session's ANSI mode is off."""


def backquoted(text: str) -> str:
    """Return SQL text with backquotes in place of the double quotes around names."""
    return "".join(_name(t) if t.startswith('"') and len(t) > 1 else t for t in tokens(text))


def _name(quoted: str) -> str:
    return "`" + quoted[1:-1].replace('""', '"').replace("`", "``") + "`"


def ansi_note(condition: Node | None) -> str | None:
    """Return the warning for a session without ANSI mode; None if no value can make the condition raise."""
    nodes = [] if condition is None else list(walk(condition))
    tried = {n.args[-1] for n in nodes if n.op == ops.ATTEMPT}  # NULL in place of an error
    found = [n for n in nodes if _can_err(n) and n not in tried]
    if not found:
        return None
    shown = ", ".join(str(n) for n in found[:3]) + (" and others" if len(found) > 3 else "")
    return (
        f"spark.sql.ansi.enabled is false, but conditions of band_join follow ANSI: {shown} can raise (overflow, "
        "division by zero, or a value that cannot be cast), which ends the query, where Spark's own join would go on "
        "with NULL or a wrapped number. Set spark.sql.ansi.enabled to true, or widen or guard what can raise; a guard "
        "such as CASE is not looked at here, so say then warnings.simplefilter('ignore', ivjoin.spark.AnsiWarning)"
    )


def _can_err(n: Node) -> bool:
    """Return whether the operator raises for some value of its arguments' types, but only in ANSI mode."""
    kind = n.type.kind
    if n.op in (ops.DIV, ops.INTDIV, ops.MOD, ops.PMOD):
        if n.args[1].op == "literal" and kind == "float":
            return n.args[1].params[0] == 0
        if kind == "decimal" and n.type.precision == 38:
            return True
        divisor = _span(n.args[1])
        least = -1 if n.op == ops.INTDIV else 0  # the least value div -1 overflows
        return divisor is None or (divisor[0] <= 0 and least <= divisor[1])
    if n.op in _ENDS:
        if kind == "int":
            return _outside(_span(n), n.type.limits)
        return kind == "decimal" and n.type.precision == 38 and n.op not in (ops.NEG, ops.ABS)
    if n.op in (ops.ROUND, ops.BROUND):
        return kind == "int" and n.params[0] < 0
    return n.op == ops.CAST and _cast_can_err(n)


def _cast_can_err(n: Node) -> bool:
    a, b = n.args[0].type, n.type
    if a.kind == "string":
        return b.kind not in ("string", "binary")
    if widens(a, b) or b.kind not in ("int", "decimal") or a.kind in ("bool", "null"):
        return False
    if b.kind == "decimal":
        return _outside(_span(n.args[0]), (1 - 10 ** (b.precision - b.scale), 10 ** (b.precision - b.scale) - 1))
    if a.kind == "decimal":
        top = 10 ** (a.precision - a.scale)
        return _outside((-top, top), b.limits)
    return b.bits < 64 if a.kind == "timestamp" else _outside(_span(n.args[0]), b.limits)


def _outside(span: tuple[int, int] | None, limits: tuple[int, int]) -> bool:
    return span is None or span[0] < limits[0] or span[1] > limits[1]


def _span(n: Node) -> tuple[int, int] | None:
    """Return the least and greatest integer of an expression over arguments that do not overflow."""
    if n.op == "literal":
        return (n.params[0], n.params[0]) if n.type.kind in ("int", "decimal") and n.params[0] is not None else None
    if n.op == ops.CAST and n.type.is_numeric:
        return _span(n.args[0])
    if n.type.kind != "int":
        return None
    if n.op in _PER_SECOND:
        low, high = n.args[0].type.limits
        ticks = TICKS_PER_SECOND[n.args[0].type.unit]
        return low * _PER_SECOND[n.op] // ticks, high * _PER_SECOND[n.op] // ticks
    if n.op not in _ENDS:
        return n.type.limits
    low, high = n.type.limits
    spans = [_span(x) or (low, high) for x in n.args]
    (a, b), (c, d) = [(max(x, low), min(y, high)) for x, y in (spans[0], spans[-1])]
    ends = _ENDS[n.op](a, b, c, d)
    return min(ends), max(ends)
