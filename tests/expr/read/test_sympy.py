"""Conditions as SymPy expressions."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sympy as sp

from ivjoin.conditions import condition, scalar
from ivjoin.conditions.text import to_text
from ivjoin.errors import ColumnError, ConditionError, UnsupportedError
from ivjoin.expr import Scope

FIELDS = [
    ("a", pa.int32()), ("b", pa.int64()), ("x", pa.float64()), ("ts", pa.timestamp("us", "UTC")), ("bo", pa.bool_()),
]
SCOPE = Scope(pa.schema([*FIELDS, ("l_w", pa.int32())]), pa.schema([*FIELDS, ("only", pa.int32()), ("w", pa.int32())]))

l_a, r_a, l_b, l_x, r_x, l_ts, r_ts, only = sp.symbols("l_a r_a l_b l_x r_x l_ts r_ts only")


@pytest.mark.parametrize(("expr", "expected"), [
    (l_a <= r_a + 10, "l.a <= r.a + 10"),
    (sp.Symbol("l.a") < sp.Symbol("right.a"), "l.a < r.a"),
    (only > 1, "r.only > 1"),
    (sp.And(l_a >= r_a - 10, l_x < r_x), "l.x < r.x AND l.a >= r.a - 10"),
    (sp.Or(sp.Eq(l_a, 1), sp.Ne(l_a, r_a)), "l.a = 1 OR l.a <> r.a"),
    (sp.Not(sp.Symbol("l_bo")), "NOT l.bo"),
    (sp.Implies(l_a > 1, l_b > 1), "NOT l.a > 1 OR l.b > 1"),
    (sp.Xor(l_a > 1, l_b > 1), "(l.a > 1) <> (l.b > 1)"),
    (sp.Equivalent(l_a > 1, l_b > 1), "(l.a > 1) = (l.b > 1)"),
    (sp.ITE(l_a > 1, l_b > 1, l_b < 1), "CASE WHEN l.a > 1 THEN l.b > 1 ELSE l.b < 1 END"),
    (sp.Abs(l_a - r_a) < 20, "abs(l.a - r.a) < 20"),
    ((l_a - r_a) ** 2 < 400, "CAST(l.a - r.a AS BIGINT) * CAST(l.a - r.a AS BIGINT) < 400"),
    ((l_x - r_x) ** 2 < 4, "(l.x - r.x) * (l.x - r.x) < 4.0D"),
    (l_x**5 < 4, "pow(l.x, 5.0D) < 4.0D"), (sp.sqrt(l_x) < 3, "sqrt(l.x) < 3.0D"),
    (sp.exp(l_x) < sp.E, "exp(l.x) < 2.718281828459045D"), (l_x / r_x < sp.Rational(101, 100), "l.x / r.x < 1.01D"),
    (l_a / 3 < r_x, "CAST(l.a AS DOUBLE) / 3.0D < r.x"), (1 / l_x < 2, "1.0D / l.x < 2.0D"),
    (-2 * l_x / 3 < 1, "-(2.0D * l.x / 3.0D) < 1.0D"), (-l_x + r_x - 3 < 1, "r.x - l.x - 3.0D < 1.0D"),
    (l_a < sp.Rational(1, 3), "l.a <= 0"), (l_x < sp.Float("0.1"), "l.x < 0.1D"),
    (sp.Min(l_a, 3) > sp.Max(r_a, 1), "least(3, l.a) > greatest(1, r.a)"),
    (sp.floor(l_x) < sp.ceiling(r_x), "floor(l.x) < ceil(r.x)"),
    (sp.Mod(l_a, 3) < 2, "pmod(l.a, 3) < 2"),
    (sp.log(l_x) < sp.sin(r_x), "ln(l.x) < sin(r.x)"),
    (sp.Piecewise((1, l_a > 1), (2, True)) < r_a, "CASE WHEN l.a > 1 THEN 1 ELSE 2 END < r.a"),
    (sp.Contains(l_a, sp.FiniteSet(1, 2)), "l.a IN (1, 2)"),
    (sp.Contains(l_x, sp.Interval(0, 1, left_open=True)), "l.x > 0.0D AND l.x <= 1.0D"),
    (sp.true, "TRUE"),
    (sp.Eq(l_ts, r_ts), "l.ts = r.ts"),
])  # fmt: skip
def test_from_sympy(expr, expected):
    assert to_text(condition(expr, SCOPE)) == expected


def test_scalar():
    assert str(scalar(l_a + r_a, SCOPE).type) == "int32"
    assert str(scalar(sp.Rational(1, 3), SCOPE).type) == "float64"


@pytest.mark.parametrize(("expr", "error", "says"), [
    (sp.Symbol("a") < 1, ColumnError, "ambiguous"),
    (sp.Symbol("l_zz") < 1, ColumnError, "'zz' is not in left"),
    (sp.Symbol("q") < 1, ColumnError, "'q' is not in either input"),
    (l_a + 1, ConditionError, "of type int32"),
    (l_ts - r_ts < 10, ConditionError, "INTERVAL 10 SECONDS"),
    (sp.gamma(l_x) < 1, UnsupportedError, "SymPy's gamma"),
    (sp.Mod(l_a, r_a) < 1, UnsupportedError, "not a positive number"),
    (sp.I * l_x, UnsupportedError, "ImaginaryUnit"),
    (sp.zoo, ConditionError, "division by zero"),
    (sp.Contains(l_a, sp.S.Integers), UnsupportedError, "FiniteSet and Interval"),
    (sp.Symbol("l_x") == 3, ConditionError, "Python's False"),
])  # fmt: skip
def test_refused(expr, error, says):
    with pytest.raises(error, match=says):
        condition(expr, SCOPE)


def test_a_symbol_that_reads_in_two_ways_is_refused():
    scope = Scope(pa.schema([("w", pa.int8())]), pa.schema([("l_w", pa.int8())]))
    with pytest.raises(ColumnError, match=r"l\.w and r\.l_w; write it with a dot"):
        condition(sp.Symbol("l_w") > 1, scope)
    assert to_text(condition(sp.Symbol("l.w") > 1, scope)) == "l.w > 1"
