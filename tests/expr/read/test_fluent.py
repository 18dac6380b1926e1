"""Conditions as Python expressions."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from ivjoin.conditions import condition, scalar
from ivjoin.conditions.read.fluent import column, function, left, lit, right, when
from ivjoin.conditions.read.sqltext import parse_scalar
from ivjoin.errors import ColumnError, ConditionError, UnsupportedError
from ivjoin.expr import Scope

FIELDS = [
    ("a", pa.int32()), ("b", pa.int64()), ("x", pa.float64()), ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")),
    ("dec", pa.decimal128(10, 2)), ("s", pa.string()), ("bin", pa.binary()), ("t", pa.time64("us")),
    ("du", pa.duration("us")), ("bo", pa.bool_()),
]
SCOPE = Scope(pa.schema(FIELDS), pa.schema([*FIELDS, ("only", pa.int32())]))
L, R = left, right


@pytest.mark.parametrize(("expr", "sql"), [
    ((L("ts") >= R("ts") - dt.timedelta(seconds=10)) & (L("x") > 5), "l.ts >= r.ts - INTERVAL 10 SECONDS AND l.x > 5"),
    (~(L("a") == 1) | L("a").is_null(), "NOT l.a = 1 OR l.a IS NULL"),
    (abs(L("a") - R("a")) < 20, "abs(l.a - r.a) < 20"),
    (L("a") // 2 + L("b") % 3 * -L("a") > 1 - L("a"), "l.a div 2 + l.b % 3 * -l.a > 1 - l.a"),
    (1 / L("a") < 2 ** L("x"), "1 / l.a < pow(2, l.x)"),
    (3 // L("a") != 7 % +L("a"), "3 div l.a <> 7 % l.a"),
    (L("a").between(R("a"), R("a") + 10), "l.a BETWEEN r.a AND r.a + 10"),
    (L("a").isin(1, 2) | L("a").isin([3, 4]), "l.a IN (1, 2) OR l.a IN (3, 4)"),
    (L("a").isin([]), "FALSE"),
    (
        L("a").eq_null_safe(R("a")) & L("x").is_nan() & L("s").is_not_null(),
        "l.a <=> r.a AND isnan(l.x) AND l.s IS NOT NULL",
    ),
    (L("a").cast("double") < L("a").cast(pa.float32()), "CAST(l.a AS DOUBLE) < CAST(l.a AS FLOAT)"),
    (L("s").upper().like("A%") & L("s").contains("x"), "upper(l.s) LIKE 'A%' AND contains(l.s, 'x')"),
    (L("ts").date_trunc("day") == R("ts").date_trunc("day"), "date_trunc('day', l.ts) = date_trunc('day', r.ts)"),
    (function("pmod", L("a"), 3) == 1, "pmod(l.a, 3) = 1"),
    (
        when(L("a") > 1, 2).when(L("a") > 0, 1).otherwise(0) < column("only"),
        "CASE WHEN l.a > 1 THEN 2 WHEN l.a > 0 THEN 1 ELSE 0 END < only",
    ),
    (L("dec") > Decimal("1.50"), "l.dec > 1.50"),
    (L("d") + dt.timedelta(days=1) > dt.date(2024, 1, 31), "l.d + INTERVAL 1 DAY > DATE '2024-01-31'"),
    (
        L("ts") > dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "l.ts > TIMESTAMP '2023-12-31 22:00:00Z'",
    ),
    (L("ts") > dt.datetime(2024, 1, 1), "l.ts > TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
    (dt.timedelta(hours=1) + L("ts") > R("ts"), "l.ts + INTERVAL 1 HOUR > r.ts"),
    (L("t") > dt.time(10, 30), "l.t > '10:30'"), (L("bin") == b"\x0a", "l.bin = X'0a'"), (L("s") < "x", "l.s < 'x'"),
    (L("a") > np.int64(3), "l.a > 3"),
    (L("ts") > np.datetime64("2024-01-01T00:00:00.5"), "l.ts > '2024-01-01 00:00:00.5'"),
    (True & (L("bo") | False), "l.bo"), (lit(3) < L("a"), "3 < l.a"), (L("a").eq_null_safe(None), "l.a <=> NULL"),
])  # fmt: skip
def test_same_as_sql(expr, sql):
    assert scalar(expr, SCOPE) is parse_scalar(sql, SCOPE)
    assert scalar(pickle.loads(pickle.dumps(expr)), SCOPE) is parse_scalar(sql, SCOPE)


@pytest.mark.parametrize("misuse", [
    lambda: L("a") and L("b"), lambda: L("a") or L("b"), lambda: not L("a"), lambda: 1 < L("a") < 3,
    lambda: L("a") == 1 & L("b") == 2, lambda: bool(L("a") == 1),
])  # fmt: skip
def test_no_truth_value(misuse):
    with pytest.raises(TypeError, match="write & for and"):
        misuse()


def test_other_misuse():
    with pytest.raises(TypeError, match="isin"):
        assert 3 in L("a")
    with pytest.raises(TypeError, match="isin"):
        list(L("a"))
    with pytest.raises(TypeError, match=r"is_null\(\)"):
        assert L("a") == None  # noqa: E711
    with pytest.raises(TypeError, match="otherwise"):
        lit(when(L("a") > 1, 2))
    with pytest.raises(AttributeError, match="did you mean 'upper'"):
        L("s").uper()
    with pytest.raises(UnsupportedError, match="unknown type name 'nope'"):
        L("a").cast("nope")


@pytest.mark.parametrize(("expr", "error", "says"), [
    (L("nope") > 1, ColumnError, "'nope' is not in left"),
    (column("a") > 1, ColumnError, "ambiguous"),
    (L("a") + 1, ConditionError, "of type int32"),
    (L("a") > [1], UnsupportedError, "builtins.list cannot be used"),
    (L("bo") & 1, ConditionError, "AND needs a condition"),
    (function("fooo", L("a")), UnsupportedError, "did you mean"),
    (L("a") > Decimal("NaN"), ConditionError, "no decimal type"),
])  # fmt: skip
def test_refused(expr, error, says):
    with pytest.raises(error, match=says):
        condition(expr, SCOPE)


def test_repr_and_zone():
    expr = L("ts").date_trunc("day") == R("ts")
    assert repr(expr) == "eq(date_trunc(lit('day'), left('ts')), right('ts'))"
    assert expr.resolve(SCOPE, "Asia/Tokyo").args[0].params == ("day", "Asia/Tokyo")
    with pytest.raises(ConditionError, match="unknown time zone"):
        expr.resolve(SCOPE, "nowhere")


@pytest.mark.slow
def test_deep_expressions():
    expr = L("a") > 0
    for i in range(2500):
        expr = expr & (L("a") != i)
    assert len(condition(expr, SCOPE).args) == 2501
