"""Write the pieces of a Column as SQL text that ivjoin's SQL reader accepts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from ivjoin.errors import ColumnError, UnsupportedError

__all__ = ["arrow", "called", "case_when", "column_of", "literal", "no_text", "quoted_name", "sql_expression"]

_INFIX = {
    "and": "AND", "or": "OR", "=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "!=": "<>",
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "div": "DIV", "&": "&", "|": "|", "^": "^",
    "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE",
}


# Nodes that have no form in SQL, of classic and of Connect.
_NO_SQL = {
    "CommonInlineUserDefinedFunction": "a user-defined function", "SubqueryExpression": "a subquery",
    "InvokeInlineUserDefinedFunction": "a user-defined function", "PythonUDF": "a user-defined function",
    "SortOrder": "a sort order", "Window": "a window function", "WindowExpression": "a window function",
}


def no_text(kind: str, shown: str) -> UnsupportedError:
    return UnsupportedError(
        f"{_NO_SQL.get(kind, kind)} cannot be used in a join condition: {shown}. After an inner join, filter "
        "the rows by it: left.band_join(...).where(...)"
    )


def quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def column_of(sides: Sequence[str], name: str) -> str:
    """Return a column as SQL, given the sides to which its DataFrame belongs. Refuse it unless this is one side."""
    if len(sides) == 1:
        return f"{sides[0][0]}.{quoted_name(name)}"
    if not sides:
        raise ColumnError(
            f"the Column {name!r} in the condition belongs to neither DataFrame of the join; write "
            f"left[{name!r}] or right[{name!r}]"
        )
    raise ColumnError(
        f"the Column {name!r} in the condition belongs to both sides, because they come from the same DataFrame; "
        f"give them aliases (df.alias('a'), df.alias('b')) and write F.col('a.{name}')"
    )


def sql_expression(text: str) -> str:
    # The SQL parsers of Spark and ivjoin accept an interval only without parentheses.
    return text if text.upper().startswith("INTERVAL") else f"({text})"


def called(function: str, args: Sequence[str]) -> str:
    low = function.lower()
    if low in _INFIX and len(args) == 2:
        return f"({args[0]} {_INFIX[low]} {args[1]})"
    if low in ("!", "not"):
        return f"(NOT {args[0]})"
    if low in ("negative", "-") and len(args) == 1:
        return f"(- {args[0]})"
    if low in ("positive", "+") and len(args) == 1:
        return args[0]
    if low == "isnull":
        return f"({args[0]} IS NULL)"
    if low == "isnotnull":
        return f"({args[0]} IS NOT NULL)"
    if low == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if low == "between" and len(args) == 3:
        return f"({args[0]} BETWEEN {args[1]} AND {args[2]})"
    if not low.replace("_", "").isalnum():
        raise UnsupportedError(f"the operator {function!r} cannot be used in a join condition")
    return f"{function}({', '.join(args)})"


def arrow(arguments: Sequence[str], body: str) -> str:
    return f"{arguments[0] if len(arguments) == 1 else '(' + ', '.join(arguments) + ')'} -> {body}"


def case_when(branches: Sequence[tuple[str, str]], otherwise: str | None) -> str:
    parts = [f"WHEN {when} THEN {then}" for when, then in branches]
    return f"(CASE {' '.join(parts)}{'' if otherwise is None else f' ELSE {otherwise}'} END)"


def literal(value: Any, bits: int = 32) -> str:
    """Return a Python value as SQL. ``bits`` is the width of an int that would also fit a narrower type."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return f"CAST({value} AS BIGINT)" if bits == 64 else f"({value})"
    if isinstance(value, float):
        return f"CAST('{_double(value)}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"({value:f})"
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, datetime):
        return f"{'TIMESTAMP' if value.tzinfo else 'TIMESTAMP_NTZ'} '{value.isoformat(' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, timedelta):
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        seconds = Decimal(micros).scaleb(-6)
        return f"(INTERVAL '{seconds:f}' SECOND)"
    raise UnsupportedError(f"a literal of type {type(value).__name__} cannot be used in a join condition")


def _double(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
