"""The cast, and functions that are casts."""

from __future__ import annotations

from ivjoin.expr import build
from ivjoin.expr.kernels.casts import cast_rule
from ivjoin.expr.nodes import is_met
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
    Type,
    decimal,
    timestamp,
)
from ivjoin.expr.words import type_text
from ivjoin.functions.records import direction, linear
from ivjoin.functions.records.record import Absent, Call, Meaning, Operator, call
from ivjoin.functions.records.writing import ATOM, Arg, Node
from ivjoin.functions.rules import rules_cast

__all__ = ["OPERATORS", "SPELLINGS"]


def _cast(n: Node, arg: Arg) -> tuple[str, int]:
    return f"CAST({arg(0)} AS {type_text(n.type)})", ATOM


def _never_errs(n: Node) -> bool:
    s, t = n.args[0].type, n.type
    if is_met(n):
        return True
    if s.kind == t.kind == "int":
        return t.limits[0] <= s.limits[0] and s.limits[1] <= t.limits[1]
    return t.kind == "float" and s.kind in ("int", "float", "decimal", "bool")


def _to(names: str, t: Type) -> Call:
    return call(names, 1, 1, lambda a, z: build.cast(a[0], t, z))


_NO_TEXT = "the interval rules do not handle casts from or to strings"

OPERATORS = (
    Operator(
        "cast", {"*": Meaning(cast_rule, rules_cast.cast, _NO_TEXT, _NO_TEXT, _never_errs)},
        ("CAST(l.a AS INT)", "CAST(l.x AS BIGINT)", "CAST(l.a AS DOUBLE)", "CAST(l.x AS FLOAT)", "CAST(l.p AS INT)",
         "CAST(l.a AS DECIMAL(12, 2))", "CAST(l.x AS DECIMAL(9, 3))", "CAST(l.p AS DECIMAL(6, 1))", "CAST(l.k AS INT)",
         "CAST(l.a AS BOOLEAN)", "CAST(l.t AS DATE)", "CAST(l.d AS TIMESTAMP)", "CAST(l.t AS BIGINT)",
         "CAST(l.s AS INT)", "CAST(l.a AS STRING)"),
        _cast, direction.cast, linear.CAST, sympy=Absent("SymPy does not have data types"), warns=True,
        passes_null=lambda n: (n.args[0].type.kind, n.type.kind) != ("float", "decimal"),  # NaN is NULL
        passes_nan=lambda n: n.type.kind == "float",
    ),
)  # fmt: skip
SPELLINGS = (
    _to("tinyint", INT8), _to("smallint", INT16), _to("int", INT32), _to("bigint", INT64), _to("float", FLOAT32),
    _to("double", FLOAT64), _to("boolean", BOOL), _to("string", STRING), _to("binary", BINARY),
    _to("date to_date", DATE), _to("decimal", decimal(10, 0)),
    call("timestamp to_timestamp to_timestamp_ltz", 1, 1, lambda a, z: build.cast(a[0], timestamp("us", z), z)),
    call("to_timestamp_ntz", 1, 1, lambda a, z: build.cast(a[0], timestamp("us"), z)),
)  # fmt: skip
