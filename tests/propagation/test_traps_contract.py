"""Ways in which propagation goes wrong, one test each, on `contract` and, where rows must come and go, on the join.

The random tests of interval rules (tests/interval, tests/functions) cover the traps of single operators.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.propagation import Contraction, Outcome, contract

INF = math.inf
NEW_YORK = "America/New_York"
US = "timestamp[us, UTC]"


def utc(*fields: int) -> dt.datetime:
    return dt.datetime(*fields, tzinfo=dt.UTC)


def bounds(c: Contraction, name: str = "a") -> tuple[Any, Any]:
    return c.box[name].inf, c.box[name].sup


def only(condition: str, kind: str, lo: Any = None, hi: Any = None, **options: Any) -> tuple[Any, Any]:
    """The bounds that a condition leaves of one column."""
    return bounds(contract(condition, {"a": (kind, lo, hi)}, **options))


def feasible(condition: str, **columns: tuple[Any, Any, Any]) -> bool:
    return contract(condition, columns).outcome is not Outcome.INFEASIBLE


# Floating point


def test_trap_01_a_rounded_sum_just_reaches_its_target() -> None:
    lo, hi = only("a + 1.0D >= 1.0000000000000002D", "double", 0, 1.5e-16)
    assert lo <= 1.5e-16 == hi


def test_trap_04_statistics_do_not_tell_of_nan() -> None:
    assert feasible("a > 5", a=("double", 0, None))
    left = pa.table({"k": [1, 2], "x": [3.0, math.nan]})
    right = pa.table({"k": [1, 2], "y": [5.0, 5.0]})
    out = ivjoin.band_join(left, right, on="k", condition="l.x > r.y", left_order="k", right_order="k").read_all()
    assert out["k"].to_pylist() == [2]


def test_trap_05_nan_of_the_other_column_decides() -> None:
    c = contract("a + b > 100", {"a": ("double", 0, 1), "b": ("double", 0, None)})
    assert bounds(c, "a") == (0, 1)
    assert contract("a + b > 100", {"a": ("double", 0, 1), "b": ("double", 0, 50)}).outcome is Outcome.INFEASIBLE


def test_trap_06_not_greater_is_at_most_in_sparks_order() -> None:
    assert only("NOT (a > 1)", "double") == (-INF, 1)
    assert contract("NOT (a > 1) AND isnan(a)", {"a": ("double", None, None)}).outcome is Outcome.INFEASIBLE


def test_trap_07_floor_of_nan_is_zero() -> None:
    assert not feasible("floor(a) = 0", a=("double", 5, 6))
    assert only("floor(a) = 3", "double") == (3, math.nextafter(4.0, 0.0))


def test_trap_08_zero_of_either_sign() -> None:
    left = pa.table({"k": [1, 2], "x": [-0.0, 0.0]})
    right = pa.table({"k": [1, 2], "y": [0.0, -0.0]})
    for op in ("=", "<=", ">="):
        assert ivjoin.band_join(left, right, on="k", condition=f"l.x {op} r.y").read_all().num_rows == 2
    for op in ("<", ">", "<>"):
        assert ivjoin.band_join(left, right, on="k", condition=f"l.x {op} r.y").read_all().num_rows == 0


def test_trap_09_a_float_column_with_a_double_literal() -> None:
    tenth = float(np.float32(0.1))
    assert only("a > 0.1D", "float", 0, 1)[0] == tenth
    assert only("a < 0.1D", "float", 0, 1)[1] == float(np.nextafter(np.float32(0.1), np.float32(0)))


def test_trap_10_big_longs_as_doubles() -> None:
    assert only("CAST(a AS DOUBLE) = 9007199254740992D", "bigint") == (2**53, 2**53 + 1)


def test_trap_11_int_and_float_compare_as_double() -> None:
    assert only("a = CAST(16777216 AS FLOAT)", "int", 16777210, 16777220) == (16777216, 16777216)


def test_trap_12_functions_of_libraries_are_widened() -> None:
    for x in (0.1, 0.7, 1.0, 4.9):
        assert only(f"exp(a) <= {math.exp(x)!r}D", "double", -5, 5)[1] >= x
        assert only(f"ln(a) >= {math.log(x)!r}D", "double", 0, 5)[0] <= x


def test_trap_13_overflow_to_infinity_satisfies() -> None:
    lo, hi = only("a * 10 > 1.79e308D", "double", 0, None)
    assert lo <= 1.7e308
    assert hi == INF


def test_trap_14_underflow_to_zero_satisfies() -> None:
    assert feasible("a * b = 0", a=("double", 1e-200, 1e-200), b=("double", 1e-200, 1))


# Integers


def test_trap_16_and_20_overflow_errs() -> None:
    assert only("a * 2 = 2", "int") == (1, 1)
    assert not feasible("a + 1 < 0", a=("int", 0, None))
    assert not feasible("abs(a) >= 0", a=("tinyint", -128, -128))
    assert not feasible("-a > 0", a=("tinyint", -128, -128))


def test_trap_17_and_18_division_truncates() -> None:
    assert only("a div 3 = 2", "int") == (6, 8)
    assert only("a div 3 = 0", "int") == (-2, 2)
    assert only("a % 5 = -3", "int", -20, 20) == (-18, -3)
    assert only("pmod(a, 5) = 2", "int", -20, 20) == (-18, 17)


def test_trap_19_a_divisor_that_may_be_zero() -> None:
    c = contract("a div b >= 2", {"a": ("int", 1, 3), "b": ("int", -1, 1)})
    assert (bounds(c, "a"), bounds(c, "b")) == ((2, 3), (1, 1))


def test_trap_21_strictness_once() -> None:
    assert bounds(contract("a / 2 < b", {"a": ("int", 0, 100), "b": ("int", 3, 3)})) == (0, 5)
    assert only("NOT (a < 5)", "int", 0, 10) == (5, 10)
    assert only("NOT (NOT (a < 5))", "int", 0, 10) == (0, 4)


def test_trap_22_unsigned() -> None:
    c = contract("a - b >= 0", {"a": ("uint8", 0, 5), "b": ("uint8", 3, 9)})
    assert (bounds(c, "a"), bounds(c, "b")) == ((3, 5), (3, 5))


def test_trap_23_no_doubles_between_ints() -> None:
    assert only("a * 13365 = 20381625", "bigint") == (1525, 1525)
    big = 3037000499
    assert only(f"a * {big} = {big * big}", "bigint") == (big, big)


def test_trap_24_a_shift_takes_the_low_bits_of_its_count() -> None:
    lo, hi = bounds(contract("shiftleft(1, a) = 2", {"a": ("int", 0, 40)}), "a")
    assert lo <= 1 and hi >= 33
    assert bounds(contract("shiftleft(a, 33) = 2", {"a": ("int", -40, 40)}), "a") == (1, 1)
    with pytest.raises(ivjoin.UnsupportedError, match="factorial"):
        contract("factorial(a) = 2", {"a": ("int", 0, 40)})


# NULL and booleans


def test_trap_25_cannot_propagate_is_not_infeasible() -> None:
    assert contract("NOT (a = b)", {"a": ("int", 0, 9), "b": ("int", 3, 3)}).outcome is Outcome.UNCHANGED
    assert contract("s LIKE '%x%'", {"s": ("string", "a", "z")}).outcome is Outcome.UNCHANGED
    assert only("a <> 3", "int", 3, 9) == (4, 9)


def test_trap_26_or_is_the_hull_of_its_branches() -> None:
    assert contract("a < 5 OR a > 90", {"a": ("int", 0, 100)}).outcome is Outcome.UNCHANGED
    assert only("(a > 10 AND a < 20) OR (a > 30 AND a < 40)", "int", 0, 100) == (11, 39)
    assert contract("NOT (a BETWEEN 3 AND 97)", {"a": ("int", 0, 100)}).outcome is Outcome.UNCHANGED
    assert only("a NOT IN (0, 100)", "int", 0, 100) == (1, 99)
    two = contract("a < 5 OR b > 90", {"a": ("int", 0, 100), "b": ("int", 0, 100)})
    assert two.outcome is Outcome.UNCHANGED


def run(left: pa.Table, right: pa.Table, **options: Any) -> list[dict[str, Any]]:
    """A join in batches of one row, sorted; ordered on ``t`` at both sides so that it prunes."""
    options = {"left_order": "t", "right_order": "t", **options}
    out = ivjoin.band_join(left.to_reader(1), right.to_reader(1), **options)
    return sorted((row for b in out for row in b.to_pylist()), key=repr)


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def test_trap_27_not_of_null_is_null() -> None:
    left = table(t=[1, 2, 3], a=[None, 5, 1])
    right = table(t=[1, 2, 3], b=[3, 3, 3])
    got = run(left, right, condition="l.t = r.t AND NOT (l.a > r.b)", how="left_anti")
    assert got == [{"t": 1, "a": None}, {"t": 2, "a": 5}]


def test_trap_28_and_29_rows_with_null_that_match() -> None:
    left = table(t=[1, 2, 3, 4], a=[None, 9, None, 2])
    right = table(t=[1, 2, 3, 4], b=[1, 1, 9, None])
    assert [r["t"] for r in run(left, right, condition="l.t = r.t AND least(l.a, r.b) < 3")] == [1, 2, 4]
    assert [r["t"] for r in run(left, right, condition="l.t = r.t AND coalesce(l.a, r.b) < 3")] == [1, 4]
    assert [r["t"] for r in run(left, right, condition="l.t = r.t AND (l.a IS NULL OR l.a > r.b)")] == [1, 2, 3]
    assert [r["t"] for r in run(left, right, condition="l.t = r.t AND l.a <=> nullif(r.b, 9)")] == [3]


def test_trap_30_a_null_made_in_the_condition() -> None:
    assert feasible("coalesce(ln(a), 0D) = 0", a=("double", -1, 0.5))
    assert feasible("sqrt(a) >= 0 OR b > 1", a=("double", -1, -0.5), b=("int", 0, 5))
    assert feasible("ln(a) IS NULL", a=("double", -1, 0))


# Decimals, casts, strings


def test_trap_31_decimal_products_round() -> None:
    c = contract("a * b = 0.000000", {"a": ("decimal(38,10)", 0, 1), "b": ("decimal(38,10)", "0.1", "0.1")})
    assert bounds(c) == (0, Decimal("0.0000049999"))


def test_trap_32_casts_cut() -> None:
    assert only("CAST(a AS INT) = 0", "double") == (math.nextafter(-1.0, 0.0), math.nextafter(1.0, 0.0))
    got = only("CAST(a AS DATE) = DATE'2024-03-10'", US, timezone=NEW_YORK)
    assert got == (utc(2024, 3, 10, 5), utc(2024, 3, 11, 3, 59, 59, 999999))


def test_trap_33_bounds_do_not_pass_a_cast_that_is_not_monotone() -> None:
    assert feasible("CAST(s AS INT) = 100", s=("string", "1", "2"))
    assert only("CAST(a AS BOOLEAN)", "int", -1, 0) == (-1, -1)


def test_trap_34_text_after_text_is_not_monotone() -> None:
    assert feasible("concat(s, 'z') >= 'zz'", s=("string", "", "zz"))
    assert feasible("concat(s, 'z') > 'az'", s=("string", "", "a"))


def test_trap_35_units_are_compared_without_overflow() -> None:
    box = {"a": ("timestamp[s]", None, None), "b": ("timestamp[ns]", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2))}
    assert bounds(contract("a >= b", box))[0] == dt.datetime(2024, 1, 1)
    left = table(t=pa.array([-(10**6) - 1], pa.timestamp("us")))
    right = table(u=pa.array([-(10**9) - 1], pa.timestamp("ns")))
    assert ivjoin.band_join(left, right, condition="l.t < r.u").read_all().num_rows == 1


# Time


def test_trap_36_the_month_clamp() -> None:
    assert only("a + INTERVAL 1 MONTH = DATE'2024-02-29'", "date") == (dt.date(2024, 1, 29), dt.date(2024, 1, 31))
    assert not feasible("a + INTERVAL 1 MONTH = DATE'2023-03-31'", a=("date", None, None))


def test_trap_37_a_day_is_not_24_hours() -> None:
    # Noon of Mar 9 and one day is noon of Mar 10, 23 hours later.
    lo, _ = only("a + INTERVAL 1 DAY >= TIMESTAMP'2024-03-10 12:00:00'", US, utc(2024, 3, 1), timezone=NEW_YORK)
    assert lo <= utc(2024, 3, 9, 17)
    lo, _ = only("a + INTERVAL 1 HOUR >= TIMESTAMP'2024-03-10 03:30:00'", US, utc(2024, 3, 1), timezone=NEW_YORK)
    assert lo == utc(2024, 3, 10, 6, 30)


def test_trap_38_local_time_goes_back() -> None:
    box = {"a": (US, utc(2024, 11, 3, 4), utc(2024, 11, 3, 7))}
    lo, hi = bounds(contract("hour(a) = 1", box, timezone=NEW_YORK))
    assert lo <= utc(2024, 11, 3, 5)
    assert hi >= utc(2024, 11, 3, 6, 59, 59)
    half_past_one = "CAST(a AS TIMESTAMP_NTZ) = TIMESTAMP_NTZ'2024-11-03 01:30:00'"
    lo, hi = bounds(contract(half_past_one, box, timezone=NEW_YORK))
    assert lo <= utc(2024, 11, 3, 5, 30)
    assert hi >= utc(2024, 11, 3, 6, 30)


def test_trap_39_a_naive_time_is_read_in_the_zone() -> None:
    box = {"a": (US, utc(2024, 1, 1), utc(2024, 1, 2)), "n": ("timestamp[us]", None, dt.datetime(2024, 1, 1, 12))}
    assert bounds(contract("a < n", box, timezone=NEW_YORK))[1] == utc(2024, 1, 1, 16, 59, 59, 999999)
    assert bounds(contract("a < n", box, timezone="UTC"))[1] == utc(2024, 1, 1, 11, 59, 59, 999999)


# The machinery


def test_trap_40_what_changes_by_itself_is_refused() -> None:
    for text in ("rand() < 0.5", "a < now()", "a < current_timestamp()"):
        with pytest.raises(ivjoin.ConditionError):
            contract(text, {"a": (US, None, None)})


def test_trap_40_one_node_is_not_shared_by_different_columns() -> None:
    c = contract("l = 1 AND `L` = 2", {"l": ("int", 0, 9), "L": ("int", 0, 9)})
    assert (bounds(c, "l"), bounds(c, "L")) == ((1, 1), (2, 2))


def test_trap_41_a_contraction_holds_for_its_own_bounds_only() -> None:
    # The first right row narrows what left rows can be; the next one must find the others still there.
    left = table(t=[1, 2, 3], a=[0, 50, 100])
    right = table(t=[1, 2, 3], b=[0, 100, 50])
    got = run(left, right, condition="abs(l.t - r.t) <= 2 AND l.a - r.b BETWEEN -1 AND 1")
    assert [(r["a"], r["b"]) for r in got] == [(0, 0), (50, 50), (100, 100)]


def test_trap_42_one_branch_of_an_or_prunes_nothing() -> None:
    left = table(t=[1, 2, 30], a=[7, 8, 9])
    right = table(t=[1, 20, 31], b=[9, 7, 8])
    got = run(left, right, condition="l.t > r.t - 2 OR l.a = r.b")
    want = [
        (a, b) for t, a in zip([1, 2, 30], [7, 8, 9]) for u, b in zip([1, 20, 31], [9, 7, 8]) if t > u - 2 or a == b
    ]  # fmt: skip
    assert sorted((r["a"], r["b"]) for r in got) == sorted(want)


@pytest.mark.parametrize("how, want", [("left", 4), ("full", 6), ("left_anti", 2), ("left_semi", 2), ("right", 4)])
def test_trap_43_pruned_unmatched_rows_are_emitted(how: str, want: int) -> None:
    left = table(t=[1, 2, 30, 40], k=[1, 1, 1, 1])
    right = table(t=[1, 20, 31, 60], k=[1, 1, 1, 1])
    got = run(left, right, on="k", condition="l.t = r.t OR l.t = r.t - 1 AND l.t >= 30", how=how)
    assert len(got) == want


def test_trap_44_cancelling_keeps_what_errs_and_nan() -> None:
    # x / x errs at 0, and is NaN for infinities; a - a is NaN for them
    assert contract("a / a = 1", {"a": ("double", 0, 0)}).outcome is Outcome.INFEASIBLE
    assert contract("a - a = 0", {"a": ("double", INF, INF)}).outcome is Outcome.INFEASIBLE
    assert feasible("a - a > 5", a=("double", 0, None))
    # 0.1 is the binary one: its tenfold is what the machine makes of it
    lo, hi = only("a * 0.1D = 0.3D", "double", 0, 10)
    reached = [x for x in (2.9999999999999996, 3.0, 3.0000000000000004) if x * 0.1 == 0.3]
    assert reached
    assert all(lo <= x <= hi for x in reached)
    assert only("a div 2 = -1", "int") == (-3, -2)
