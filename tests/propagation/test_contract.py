"""`contract`, as a user calls it: examples, types of bounds, and the ways to lose a row one by one."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ivjoin.conditions import condition
from ivjoin.conditions.read.fluent import left
from ivjoin.errors import ColumnError, ConditionError
from ivjoin.expr import Scope
from ivjoin.propagation import Contraction, Outcome, contract

UTC = dt.UTC
FEB28, JAN31 = dt.date(2023, 2, 28), dt.date(2023, 1, 31)
INF = math.inf
TOP = (1 << 63) - 1
US = "timestamp[us, UTC]"


def at(*fields: int) -> dt.datetime:
    return dt.datetime(*fields, tzinfo=UTC)


def last(*fields: int) -> dt.datetime:
    """The last microsecond of a day."""
    return at(*fields, 23, 59, 59, 999999)


def bounds(c: Contraction, name: str = "a") -> tuple[Any, Any]:
    return c.box[name].inf, c.box[name].sup


# Examples


def test_the_documented_example() -> None:
    c = contract("a + b <= 7 AND a >= 2 * b", {"a": ("int64", 0, 40), "b": ("int64", -5, 5)})
    assert c.outcome is Outcome.CONTRACTED
    assert bounds(c, "a") == (0, 12)
    assert bounds(c, "b") == (-5, 2)


def test_a_circle_and_a_line() -> None:
    c = contract("pow(x, 2) + y = 4", {"x": ("double", 1, 2), "y": ("double", -3, 1)})
    assert c.outcome is Outcome.CONTRACTED
    assert c.box["x"].inf == pytest.approx(math.sqrt(3), abs=1e-12)
    assert c.box["x"].inf <= math.sqrt(3)
    assert c.box["x"].sup == 2
    assert c.box["y"].inf == pytest.approx(0, abs=1e-12)
    assert c.box["y"].sup == 1


def test_a_band_with_open_ends() -> None:
    c = contract("a > b - 3 AND a < b + 10", {"a": ("int64", 1, None), "b": ("int64", 6, None)})
    assert bounds(c, "a") == (4, TOP - 1)  # b - 3 < a, and a < b + 10, which errs past the type's limit
    assert bounds(c, "b") == (6, TOP - 10)


@pytest.mark.parametrize("condition, box, want", [
    ("a > 0", (1, 5), Outcome.UNCHANGED), ("a > 2", (1, 5), Outcome.CONTRACTED),
    ("a > 5", (1, 5), Outcome.INFEASIBLE), ("a IS NULL", (1, 5), Outcome.INFEASIBLE),
    ("a IS NOT NULL", (1, 5), Outcome.UNCHANGED), ("a <=> NULL", (1, 5), Outcome.INFEASIBLE),
    ("NULL", (1, 5), Outcome.INFEASIBLE), ("TRUE", (1, 5), Outcome.UNCHANGED),
    ("FALSE", (1, 5), Outcome.INFEASIBLE), (None, (1, 5), Outcome.UNCHANGED),
    ("a = 3", (5, 1), Outcome.INFEASIBLE),
])  # fmt: skip
def test_three_outcomes(condition: Any, box: tuple[int, int], want: Outcome) -> None:
    c = contract(condition, {"a": ("int64", *box)})
    assert c.outcome is want
    assert c.box["a"].is_empty == (want is Outcome.INFEASIBLE)


def test_all_forms_of_a_condition() -> None:
    import sympy

    box = {"a": ("int64", 0, 9)}
    a = sympy.Symbol("a")
    node = condition("a > 3", Scope(pa.schema([("a", pa.int64())]), pa.schema([])))
    for form in ("a > 3", "l.a > 3", a > 3, left("a") > 3, node):
        assert bounds(contract(form, box)) == (4, 9), form


def test_a_condition_or_box_that_cannot_be_read() -> None:
    with pytest.raises(ColumnError, match="'b' is not in"):
        contract("b > 3", {"a": ("int64", 0, 9)})
    with pytest.raises(ConditionError, match="expected \\(type, least, greatest\\)"):
        contract("a > 3", {"a": ("int64", 0)})  # type: ignore[dict-item]
    with pytest.raises(ConditionError, match="expected a value of type date"):
        contract("a IS NULL", {"a": ("date32", "yesterday", None)})
    with pytest.raises(ConditionError, match="has the bound NaN"):
        contract("a > 3", {"a": ("double", math.nan, None)})


@pytest.mark.parametrize("condition, t, value, true", [
    ("a > 'c'", "string", "c", False), ("a >= 'c'", "string", "c", True), ("a < 'c'", "string", "c", False),
    ("a <> 'c'", "string", "c", False), ("a = 'c'", "string", "c", True), ("a LIKE 'b%'", "string", "c", False),
    ("a LIKE 'c%'", "string", "cd", True), ("a IN ('b', 'd')", "string", "c", False),
    ("CAST(a AS BOOLEAN)", "int64", 0, False), ("CAST(a AS BOOLEAN)", "double", 0.0, False),
    ("CAST(a AS BOOLEAN)", "int64", 2, True), ("a + 1 - a <> 1", "int64", 3, False), ("a", "bool", False, False),
    ("a = TRUE", "bool", True, True), ("a > FALSE", "bool", False, False), ("NOT a", "bool", True, False),
    ("a <> 1.5D", "double", 1.5, False), ("a > 1.5D", "double", 1.5, False), ("a >= 1.5D", "double", 1.5, True),
    ("coalesce(a, 'x') > 'c'", "string", "c", False), ("least(a, 3) = 3", "int64", 2, False),
    ("CASE WHEN a > 3 THEN 'x' ELSE 'y' END = 'x'", "int64", 3, False), ("a = DATE '2024-02-29'", "date32",
     dt.date(2024, 2, 29), True), ("a < DATE '2024-02-29'", "date32", dt.date(2024, 2, 29), False),
    ("year(a) = 2023", "date32", dt.date(2024, 2, 29), False), ("isnan(a)", "double", 1.0, False),
])  # fmt: skip
def test_a_point_is_decided(condition: str, t: str, value: Any, true: bool) -> None:
    c = contract(condition, {"a": (t, value, value)}, effort=0)
    assert c.outcome is (Outcome.UNCHANGED if true else Outcome.INFEASIBLE)


# Types


@pytest.mark.parametrize("t, lo, hi, condition, want", [
    pytest.param("int64", None, None, "a <= 5", (-TOP - 1, 5), id="int64"),
    pytest.param("uint8", None, None, "a >= 5", (5, 255), id="uint8"),
    pytest.param("int8", None, None, "a + 100 > 0", (-99, 127), id="int8 widens to the literal's int"),
    pytest.param("int64", 0.5, 3.5, "TRUE", (1, 3), id="bounds between integers"),
    pytest.param("int64", -INF, INF, "a > 3", (4, TOP), id="infinities for an int"),
    pytest.param("double", None, None, "a <= 5", (-INF, 5.0), id="double"),
    pytest.param("double", None, 9, "a > 5", (math.nextafter(5, 6), 9.0), id="strict in doubles"),
    pytest.param("float", 0, 9, "a > 5", (5.000000476837158, 9.0), id="strict in floats"),
    pytest.param("decimal(10, 2)", 0, None, "a < 12.345", (Decimal("0.00"), Decimal("12.34")), id="decimal"),
    pytest.param("decimal(4, 1)", None, None, "a > 1", (Decimal("1.1"), Decimal("999.9")), id="strict in decimals"),
    pytest.param("bool", None, None, "a", (True, True), id="bool"),
    pytest.param("bool", None, None, "NOT a", (False, False), id="not"),
    pytest.param("date32", None, None, "a > DATE '2024-02-28'", (dt.date(2024, 2, 29), None), id="date"),
    pytest.param(
        US, at(2024, 1, 1), None, "a < TIMESTAMP '2024-02-01 00:00:00'",
        (at(2024, 1, 1), at(2024, 1, 31, 23, 59, 59, 999999)), id="timestamp",
    ),
    pytest.param(
        "duration[us]", None, dt.timedelta(days=9), "a > INTERVAL 1 DAY",
        (dt.timedelta(days=1, microseconds=1), dt.timedelta(days=9)), id="duration",
    ),
    pytest.param("time64[us]", None, None, "a < '10:00'", (dt.time(0), dt.time(9, 59, 59, 999999)), id="time"),
    pytest.param("string", "a", None, "a < 'c'", ("a", "c"), id="string"),
    pytest.param("string", "a", "d", "a > 'c'", ("c\0", "d"), id="strict in strings"),
    pytest.param("string", "a", "d", "a < 'c\0'", ("a", "c"), id="strict in strings, from above"),
    pytest.param("binary", None, None, "a > X'63'", (b"c\0", None), id="strict in bytes"),
    pytest.param("string", None, None, "a LIKE 'ab%'", ("ab", "ac"), id="prefix"),
    pytest.param(pa.int16(), None, None, "a > 0", (1, 32767), id="an Arrow type"),
])  # fmt: skip
def test_bounds_are_values_of_the_type(t: Any, lo: Any, hi: Any, condition: str, want: Any) -> None:
    assert bounds(contract(condition, {"a": (t, lo, hi)})) == want


def test_ticks_finer_than_python_are_rounded_outward() -> None:
    c = contract("a > TIMESTAMP '2024-01-01 00:00:00.000001'", {"a": ("timestamp[ns]", None, dt.datetime(2024, 1, 2))})
    assert bounds(c) == (dt.datetime(2024, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 1, 2))


def test_nan_is_above_every_number() -> None:
    # Without a greatest value the column may hold NaN, with one it may not.
    assert contract("a > 5", {"a": ("double", 0, None)}).box["a"].may_nan
    assert not contract("a > 5", {"a": ("double", 0, 9)}).box["a"].may_nan
    assert not contract("a < 5", {"a": ("double", 0, None)}).box["a"].may_nan
    only = contract("isnan(a)", {"a": ("double", 0, None)})
    assert only.outcome is Outcome.CONTRACTED
    assert only.box["a"].may_nan
    nan = math.nan
    assert nan in only.box["a"]
    assert contract("isnan(a)", {"a": ("double", 0, 9)}).outcome is Outcome.INFEASIBLE


# Ways to lose a row: the point satisfies the condition as the machine evaluates it, and has to stay


LOSSES = [
    pytest.param("a + 1e0 >= b", {"a": ("double", 0.1, 0.1), "b": ("double", 1.1, 1.1)}, id="float rounding"),
    pytest.param("a + 1e16 >= b", {"a": ("double", -0.5, -0.5), "b": ("double", 1e16, 1e16)}, id="absorption"),
    pytest.param("a div 2 >= b", {"a": ("int64", -7, -7), "b": ("int64", -3, -3)}, id="integer division"),
    pytest.param("CAST(a AS BIGINT) >= b", {"a": ("double", -3.7, -3.7), "b": ("int64", -3, -3)}, id="truncating cast"),
    pytest.param("CAST(a AS FLOAT) >= b", {"a": ("double", 0.0, 0.99999999), "b": ("float", 1, 1)}, id="narrowing"),
    pytest.param(
        "CAST(a AS DOUBLE) = b", {"a": ("int64", 2**53 + 1, 2**53 + 1), "b": ("double", 2.0**53, 2.0**53)},
        id="big integers as doubles",
    ),
    pytest.param(
        "CAST(a AS DATE) <= b",
        {"a": (US, at(2023, 1, 31, 20), at(2023, 1, 31, 20)), "b": ("date32", JAN31, JAN31)},
        id="time truncation",
    ),
    pytest.param(
        "a + INTERVAL 1 MONTH <= b", {"a": ("date32", JAN31, JAN31), "b": ("date32", FEB28, FEB28)}, id="month clamp",
    ),
    pytest.param("a >= b", {"a": ("double", -0.0, -0.0), "b": ("double", 0.0, 0.0)}, id="signed zero"),
    pytest.param("a + 10 < b", {"a": ("int64", TOP - 11, TOP - 11), "b": ("int64", TOP, TOP)}, id="limit of a type"),
    pytest.param("a > 0.1D", {"a": ("float", 0.1, 0.11)}, id="a float above the double"),
    pytest.param("a * a = 0", {"a": ("double", 1e-200, 1e-200)}, id="underflow"),
    pytest.param("a * 10 > 1.79e308", {"a": ("double", 1.7e308, 1.7e308)}, id="overflow to infinity"),
    pytest.param("floor(a) = 0", {"a": ("double", 5, None)}, id="floor of NaN"),
    pytest.param("a + b > 100", {"a": ("double", 0, 1), "b": ("double", 0, None)}, id="NaN of the other side"),
    pytest.param("least(a, CAST(NULL AS INT)) < 3", {"a": ("int32", 2, 2)}, id="least skips nulls"),
    pytest.param("coalesce(CAST(NULL AS INT), a) = 2", {"a": ("int32", 2, 2)}, id="coalesce"),
    pytest.param("CASE WHEN a > 5 THEN 1 div 0 ELSE 7 END = 7", {"a": ("int32", 2, 2)}, id="a branch not taken"),
    pytest.param("a = 2 OR 1 div 0 = 1", {"a": ("int32", 2, 2)}, id="OR stops at TRUE"),
    pytest.param("a % 3 = -1", {"a": ("int32", -7, -7)}, id="sign of a remainder"),
    pytest.param("abs(a) = 3", {"a": ("int32", -3, -3)}, id="abs of negative numbers"),
    pytest.param("a * b = 0.000000", {"a": ("decimal(38, 10)", Decimal("0.0000001234"), Decimal("0.0000001234")),
                                      "b": ("decimal(38, 10)", Decimal("0.1"), Decimal("0.1"))}, id="decimal rounding"),
    pytest.param("a / b <= 0", {"a": ("decimal(38, 10)", 1, 100), "b": ("decimal(38, 10)", 10**9, 10**10)},
                 id="a quotient below half of the last place"),
    pytest.param("NOT (a > 1)", {"a": ("double", 1, 1)}, id="not greater"),
    pytest.param("-a > 1", {"a": ("double", 0, None)}, id="minus NaN is NaN"),
]  # fmt: skip


@pytest.mark.parametrize("condition, box", LOSSES)
@pytest.mark.parametrize("effort", [0, 600])
def test_no_row_is_lost(condition: str, box: dict[str, Any], effort: int) -> None:
    assert contract(condition, box, effort=effort).outcome is not Outcome.INFEASIBLE


@pytest.mark.parametrize("condition, t, want", [
    pytest.param("a div -3 = 2", "int64", (-8, -6), id="div by a negative"),
    pytest.param("floor(a) = 3", "decimal(10, 2)", (Decimal("3.00"), Decimal("3.99")), id="floor"),
    pytest.param("round(a, 1) = 2.5", "decimal(10, 2)", (Decimal("2.45"), Decimal("2.54")), id="round"),
    pytest.param("abs(a) BETWEEN 3 AND 5 AND a < 0", "int64", (-5, -3), id="abs"),
    pytest.param("a * a BETWEEN 10 AND 20 AND a > 0", "int64", (4, 4), id="square"),
    pytest.param("a * a <= 9", "int8", (-3, 3), id="square both sides"),
    pytest.param("a IN (3, 9, 12) AND a <> 3", "int64", (9, 12), id="list"),
    pytest.param("a = 3 OR a = 7 OR a BETWEEN 5 AND 6", "int64", (3, 7), id="or"),
    pytest.param("a NOT IN (0, 255, 254)", "uint8", (1, 253), id="not in"),
    pytest.param("pmod(a, 7) = 3 AND a BETWEEN 0 AND 15", "int64", (3, 10), id="pmod"),
    pytest.param("a % 7 = -3 AND a BETWEEN -15 AND 15", "int64", (-10, -3), id="mod"),
    pytest.param("greatest(a, 3) <= 5 AND least(a, 3) >= 1", "int64", (1, 5), id="least and greatest"),
    pytest.param("a + a > 7 AND a - 2 * a >= -9", "int64", (4, 9), id="repeated"),
    pytest.param("sqrt(a) <= 3 AND a >= 0", "double", (0.0, 9.0), id="sqrt"),
    pytest.param("CAST(a AS STRING) = '5' AND a > 0", "int64", (1, TOP), id="no rule, no harm"),
])  # fmt: skip
def test_preimages(condition: str, t: str, want: tuple[Any, Any]) -> None:
    assert bounds(contract(condition, {"a": (t, None, None)})) == want


def test_a_point_that_errs_does_not_satisfy() -> None:
    assert contract("a / b > 1", {"a": ("int64", -5, 5), "b": ("int64", 0, 0)}).outcome is Outcome.INFEASIBLE
    assert bounds(contract("1 div a >= 1", {"a": ("int64", -5, 5)})) == (1, 1)
    assert bounds(contract("a + 1 <> 0", {"a": ("int8", 120, 127)})) == (120, 127)  # the literal is an int: no overflow
    assert bounds(contract("a + a > 0", {"a": ("int8", 1, None)})) == (1, 63)
    assert contract("1 div 0 = 1", {"a": ("int64", 0, 1)}).outcome is Outcome.INFEASIBLE


@pytest.mark.parametrize("condition", [
    "coalesce(1 div a, 5) = 5", "least(1 div a, 5) = 5", "(a % a) IS NULL",
    "CASE WHEN 1 div a > 0 THEN 1 ELSE 2 END = 2",
])  # fmt: skip
def test_division_by_zero_is_not_null(condition: str) -> None:
    """Least, coalesce and IS NULL would make something TRUE of a NULL; the point errs instead."""
    assert contract(condition, {"a": ("int64", 0, 0)}).outcome is Outcome.INFEASIBLE


def test_a_branch_that_errs_and_is_not_taken() -> None:
    assert contract("CASE WHEN a = 0 THEN 5 ELSE 1 div a END = 5", {"a": ("int64", 0, 0)}).outcome is Outcome.UNCHANGED
    assert contract("a = 0 OR 1 div a = 7", {"a": ("int64", 0, 0)}).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("condition, true", [("CAST(a AS STRING) = '5'", True), ("CAST(a AS STRING) = '6'", False),
                                             ("length(CAST(a AS STRING)) > 1", False)])  # fmt: skip
def test_a_point_is_decided_without_a_rule(condition: str, true: bool) -> None:
    c = contract(condition, {"a": ("int64", 5, 5)})
    assert c.outcome is (Outcome.UNCHANGED if true else Outcome.INFEASIBLE)


# Time


@pytest.mark.parametrize("condition, zone, want", [
    pytest.param("CAST(a AS DATE) = DATE '2024-03-10'", "UTC", (at(2024, 3, 10), last(2024, 3, 10)), id="a day"),
    pytest.param(
        "date_trunc('month', a) = TIMESTAMP '2024-02-01 00:00:00'", "UTC", (at(2024, 2, 1), last(2024, 2, 29)),
        id="a month",
    ),
    pytest.param("year(a) = 2024", "UTC", (at(2024, 1, 1), last(2024, 12, 31)), id="a year"),
    pytest.param("unix_seconds(a) = -1", "UTC", (at(1969, 12, 31, 23, 59, 59), last(1969, 12, 31)), id="floors"),
    pytest.param(
        "a + INTERVAL 1 DAY = TIMESTAMP '2024-03-02 00:00:00'", "UTC", (at(2024, 3, 1), at(2024, 3, 1)), id="+ day"
    ),
    pytest.param("CAST(a AS DATE) = DATE '2024-07-10'", "America/New_York",
                 (at(2024, 7, 10, 4), at(2024, 7, 11, 3, 59, 59, 999999)), id="a day in a zone"),
])  # fmt: skip
def test_times(condition: str, zone: str, want: tuple[Any, Any]) -> None:
    assert bounds(contract(condition, {"a": (US, None, None)}, timezone=zone)) == want


def test_a_day_of_25_hours_is_not_cut() -> None:
    box = {"a": (US, None, None)}
    c = contract("CAST(a AS DATE) = DATE '2024-11-03'", box, timezone="America/New_York")
    assert c.box["a"].inf <= at(2024, 11, 3, 4)
    assert c.box["a"].sup >= at(2024, 11, 4, 4, 59, 59, 999999)
    assert c.box["a"].sup - c.box["a"].inf <= dt.timedelta(hours=27)


def test_months_have_no_inverse() -> None:
    c = contract("a + INTERVAL 1 MONTH = DATE '2023-02-28'", {"a": ("date32", None, None)})
    assert bounds(c) == (dt.date(2023, 1, 28), dt.date(2023, 1, 31))
    box = {"a": ("timestamp[us]", None, None)}
    c = contract("a - INTERVAL 1 MONTH = TIMESTAMP_NTZ '2010-11-30 14:00:00'", box)
    # Noon of the 30th and noon of the 31st of December come out the same: neither may be lost.
    assert bounds(c) == (dt.datetime(2010, 12, 30, 14), dt.datetime(2010, 12, 31, 14))


# Rewriting


REPEATS = [  # test_polynomial has more
    ("a + 60 * (b div 60) - b BETWEEN 0 AND 10", {"a": (0, 100), "b": (0, 1_000_000)}, (0, 69)),
    ("b - 60 * (b div 60) <= b % 60 + a", {"a": (-9, 9), "b": (-100, 100)}, (0, 9)),
    ("4 * a + 6 * b = 7", {"a": (-100, 100), "b": (-100, 100)}, None),
    ("4 * a + 6 * b = 2 AND a > 0", {"a": (-100, 100), "b": (-100, 100)}, (2, 98)),
    ("abs(a) - a BETWEEN 1 AND 7", {"a": (7_000, 47_000)}, None),
]


@pytest.mark.parametrize("condition, box, want", REPEATS)
def test_a_variable_that_occurs_twice(condition: str, box: dict[str, tuple[int, int]], want: Any) -> None:
    c = contract(condition, {n: ("int64", *b) for n, b in box.items()})
    assert (None if c.outcome is Outcome.INFEASIBLE else bounds(c)) == want


@pytest.mark.parametrize("condition, a, want", [
    ("exp(a) BETWEEN 1 AND 2.718281828459045", (-100, 100), (0, 1)),
    ("sin(a) > 0.5", (0, 3), (0.5235987755982989, 2.6179938779914944)),
])  # fmt: skip
def test_doubles_come_close(condition: str, a: tuple[int, int], want: tuple[float, float]) -> None:
    assert bounds(contract(condition, {"a": ("double", *a)})) == pytest.approx(want, abs=1e-6)
