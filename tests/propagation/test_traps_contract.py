"""Ways in which propagation goes wrong, one test each, on `contract` and, where rows must come and go, on the join.

The random tests of interval rules (tests/interval, tests/functions) cover the traps of single operators.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

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


# NaN


def test_trap_04_statistics_do_not_tell_of_nan() -> None:
    assert feasible("a > 5", a=("double", 0, None))
    left = pa.table({"k": [1, 2], "x": [3.0, math.nan]})
    right = pa.table({"k": [1, 2], "y": [5.0, 5.0]})
    out = ivjoin.band_join(left, right, on="k", condition="l.x > r.y", left_order="k", right_order="k").read_all()
    assert out["k"].to_pylist() == [2]


# Numbers


def test_trap_11_int_and_float_compare_as_double() -> None:
    assert only("a = CAST(16777216 AS FLOAT)", "int", 16777210, 16777220) == (16777216, 16777216)


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


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


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
