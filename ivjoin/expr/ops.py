"""The names of operators that the library itself handles or builds.

The records in ``ivjoin.functions`` describe the general properties of all operators. Code for a single operator, such
as the inverse of a sum, uses the constants here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ABS", "ADD", "ADD_DAYS", "AND", "ATTEMPT", "BROUND", "CASE", "CAST", "COALESCE", "DATE_DIFF", "DATE_TRUNC", "DIV",
    "EQ", "EQ_NULL_SAFE", "EXTRACT", "FIELD", "GE", "GREATEST", "GT", "IN", "INTDIV", "IS_NAN", "IS_NULL", "LE",
    "LEAST", "LIKE_COLUMN", "LT", "MOD", "MONTHS_BETWEEN", "MUL", "NE", "NEG", "NEXT_DOWN", "NEXT_UP", "NOT", "OR",
    "PMOD", "POW", "RLIKE_COLUMN", "ROUND", "SQRT", "SUB", "TRUNC_DATE", "UNIX_MICROS", "UNIX_MILLIS", "UNIX_SECONDS",
    "difference",
]  # fmt: skip

EQ: Final = "eq"
NE: Final = "ne"
LT: Final = "lt"
LE: Final = "le"
GT: Final = "gt"
GE: Final = "ge"
EQ_NULL_SAFE: Final = "eq_null_safe"

AND: Final = "and"
OR: Final = "or"
NOT: Final = "not"
IS_NULL: Final = "is_null"
IS_NAN: Final = "is_nan"

CASE: Final = "case"
COALESCE: Final = "coalesce"
GREATEST: Final = "greatest"
LEAST: Final = "least"
IN: Final = "in"
ATTEMPT: Final = "attempt"
CAST: Final = "cast"

ADD: Final = "add"
SUB: Final = "sub"
MUL: Final = "mul"
DIV: Final = "div"
INTDIV: Final = "intdiv"
MOD: Final = "mod"
PMOD: Final = "pmod"
NEG: Final = "neg"
ABS: Final = "abs"
SQRT: Final = "sqrt"
POW: Final = "pow"
ROUND: Final = "round"
BROUND: Final = "bround"
NEXT_UP: Final = "next_up"
NEXT_DOWN: Final = "next_down"

ADD_DAYS: Final = "add_days"
DATE_TRUNC: Final = "date_trunc"
TRUNC_DATE: Final = "trunc_date"
DATE_DIFF: Final = "date_diff"
EXTRACT: Final = "extract"
MONTHS_BETWEEN: Final = "months_between"
UNIX_SECONDS: Final = "unix_seconds"
UNIX_MILLIS: Final = "unix_millis"
UNIX_MICROS: Final = "unix_micros"

FIELD: Final = "field"

LIKE_COLUMN: Final = "like_column"
RLIKE_COLUMN: Final = "rlike_column"


def difference(op: str, step: int) -> tuple[int | None, int | None]:
    """Return the least and greatest ``a - b`` for which ``a op b`` is TRUE.

    Unequal values differ by at least ``step``.
    """
    return {GE: 0, GT: step, EQ: 0}.get(op), {LE: 0, LT: -step, EQ: 0}.get(op)
