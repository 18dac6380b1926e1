"""The typed constructors: common types of operands, and what a comparison with a literal becomes."""

from __future__ import annotations

import datetime as dt
import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivjoin.errors import ConditionError, IvjoinError, UnsupportedError
from ivjoin.expr import build, types
from ivjoin.expr.build import column, literal
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import BOOL, FLOAT64, INT8, INT32, INT64, MONTHS, TICKS_PER_SECOND, Type, duration, timestamp

DEC = types.decimal(10, 2)
BIG = types.decimal(38, 10)
DATE = types.DATE
UTC_US = timestamp("us", "UTC")


def col(t: Type, side: str = "left") -> Node:
    return column(side, f"c_{t}", t)


@pytest.mark.parametrize(("value", "expected"), [
    (1, "int32"), (-(2**31), "int32"), (2**31, "int64"), (2**63, "decimal(19,0)"), (1.0, "float64"), (True, "bool"),
    (Decimal("1.0"), "decimal(2,1)"), (Decimal("0.5"), "decimal(1,1)"), (Decimal("0.00"), "decimal(2,2)"),
    (Decimal("100"), "decimal(3,0)"), (Decimal("1E+3"), "decimal(4,0)"), ("x", "string"), (b"x", "binary"),
    (None, "null"), (dt.date(2024, 1, 1), "date"), (dt.datetime(2024, 1, 1), "timestamp[us]"),
    (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "timestamp[us, UTC]"),
    (dt.time(1), "time[us]"), (dt.timedelta(1), "duration[us]"), (np.int8(3), "int32"), (np.float32(0.5), "float64"),
    (pa.scalar(3), "int32"),
])  # fmt: skip
def test_literal_type(value, expected):
    assert str(literal(value).type) == expected


def test_literal_physical_values():
    assert literal(Decimal("-1.50")).params == (-150,)
    assert literal(dt.date(1970, 1, 3)).params == (2,)
    hour_east = dt.timezone(dt.timedelta(hours=1))
    assert literal(dt.datetime(1970, 1, 1, 1, 0, 0, 5, hour_east)).params == (5,)
    assert literal(dt.timedelta(days=-1, microseconds=1)).params == (1 - 86_400_000_000,)
    assert literal(dt.timedelta(seconds=2), duration("ms")).params == (2000,)
    assert literal(7, timestamp("s")).params == (7,)


@pytest.mark.parametrize(("value", "type"), [
    (300, INT8), (dt.timedelta(microseconds=1), duration("ms")), (Decimal("1.234"), DEC), (Decimal("1e9"), DEC),
    ("x", INT32), (1.5, INT32), (True, INT32), (dt.datetime(3000, 1, 1), timestamp("ns")),
])  # fmt: skip
def test_literal_that_does_not_fit_is_refused(value, type):
    with pytest.raises(ConditionError, match=r"fit|is not a value of type"):
        literal(value, type)


def test_literal_of_unknown_class_is_refused():
    with pytest.raises(UnsupportedError, match="builtins.object cannot be used"):
        literal(object())
    with pytest.raises(ConditionError, match="no decimal type"):
        literal(Decimal("NaN"))


# Spark 4.3's result types, ANSI mode.
@pytest.mark.parametrize(("make", "a", "b", "expected"), [
    ("add", INT8, INT8, "int8"), ("add", INT8, INT64, "int64"), ("add", INT32, types.FLOAT32, "float64"),
    ("add", types.FLOAT32, types.FLOAT32, "float32"), ("add", types.FLOAT32, FLOAT64, "float64"),
    ("add", DEC, DEC, "decimal(11,2)"), ("add", DEC, INT32, "decimal(13,2)"), ("add", BIG, BIG, "decimal(38,9)"),
    ("add", DEC, FLOAT64, "float64"), ("mul", DEC, DEC, "decimal(21,4)"), ("mul", BIG, BIG, "decimal(38,6)"),
    ("div", INT32, INT32, "float64"), ("div", types.FLOAT32, types.FLOAT32, "float64"),
    ("div", DEC, DEC, "decimal(23,13)"), ("div", DEC, INT32, "decimal(21,13)"), ("div", BIG, BIG, "decimal(38,6)"),
    ("mod", DEC, INT32, "decimal(10,2)"), ("pmod", DEC, DEC, "decimal(10,2)"), ("mod", INT8, INT32, "int32"),
    ("intdiv", INT8, INT8, "int64"), ("intdiv", DEC, INT32, "int64"), ("add", types.UINT8, types.UINT8, "uint8"),
    ("add", types.UINT8, INT8, "int16"), ("add", types.UINT32, INT8, "int64"),
    ("add", types.UINT64, INT64, "decimal(21,0)"), ("add", types.UINT64, types.UINT8, "uint64"),
    ("add", types.STRING, INT32, "int64"), ("add", types.STRING, FLOAT64, "float64"),
    ("add", types.STRING, types.STRING, "float64"), ("add", types.NULL, INT32, "int32"),
    ("sub", UTC_US, UTC_US, "duration[us]"), ("sub", DATE, DATE, "int32"),
    ("sub", timestamp("s"), timestamp("ns"), "duration[ns]"), ("sub", DATE, UTC_US, "duration[us]"),
    ("add", UTC_US, duration("us"), "timestamp[us, UTC]"), ("add", duration("ms"), timestamp("s"), "timestamp[ms]"),
    ("add", DATE, INT32, "date"), ("add", INT8, DATE, "date"), ("sub", DATE, INT32, "date"),
    ("add", duration("s"), duration("ns"), "duration[ns]"), ("mul", duration("us"), INT32, "duration[us]"),
    ("mul", INT8, duration("s"), "duration[s]"), ("add", DATE, duration("us"), "timestamp[us, UTC]"),
    ("greatest", DEC, BIG, "decimal(38,10)"), ("least", INT8, INT64, "int64"), ("coalesce", DATE, UTC_US, str(UTC_US)),
])  # fmt: skip
def test_result_type(make, a, b, expected):
    assert str(getattr(build, make)(col(a), col(b, "right")).type) == expected


@pytest.mark.parametrize(("node", "expected"), [
    (build.add(col(DEC), literal(2)), "decimal(11,2)"),
    (build.mul(col(DEC), literal(2)), "decimal(12,2)"),
    (build.div(literal(Decimal("1.0")), literal(3)), "decimal(7,6)"),
    (build.add(col(INT8), literal(1)), "int32"), (build.floor(col(FLOAT64)), "int64"),
    (build.floor(col(DEC)), "decimal(9,0)"), (build.ceil(col(INT8)), "int64"),
    (build.round_(col(DEC), 1), "decimal(10,1)"), (build.round_(col(DEC), -1), "decimal(9,0)"),
    (build.round_(col(types.FLOAT32), 1), "float32"), (build.round_(col(INT32), 2), "int32"),
    (build.sign(col(INT32)), "float64"), (build.real("sqrt", col(INT32)), "float64"), (build.abs_(col(INT8)), "int8"),
    (build.is_nan(col(INT32)), "bool"), (build.nullif(col(INT32), literal(1)), "int32"),
    (build.if_(literal(True), col(DEC), col(INT32)), "decimal(12,2)"),
])  # fmt: skip
def test_result_type_with_literals(node, expected):
    assert str(node.type) == expected


@pytest.mark.parametrize("op", ["add", "sub", "mod", "pmod"])
@pytest.mark.parametrize(("a", "b"), [(DEC, INT32), (DEC, types.decimal(5, 4)), (INT8, INT64), (types.UINT8, INT8)])
def test_arguments_of_sums_have_one_type(op, a, b):
    node = getattr(build, op)(col(a), col(b, "right"))
    assert node.args[0].type == node.args[1].type


def test_products_and_quotients_of_decimals_keep_their_own_types():
    for node in (build.mul(col(DEC), col(BIG)), build.div(col(DEC), col(BIG))):
        assert [a.type for a in node.args] == [DEC, BIG]


@pytest.mark.parametrize(("make", "a", "b", "says"), [
    ("add", UTC_US, INT32, "INTERVAL 10 SECONDS"), ("lt", UTC_US, INT32, "unix_seconds"),
    ("lt", duration("us"), INT32, "INTERVAL 10 SECONDS"), ("add", BOOL, INT32, "needs a number"),
    ("eq", INT32, BOOL, "int32 and bool"), ("eq", DATE, INT32, "date and int32"),
    ("add", types.BINARY, INT32, "binary"), ("intdiv", FLOAT64, INT32, "whole numbers"), ("add", DATE, INT64, "CAST"),
    ("and_", BOOL, INT32, "needs a condition"), ("sub", duration("us"), UTC_US, "cannot take"),
    ("add", Type("time", unit="us"), duration("us"), "times of day"),
    ("lt", UTC_US, MONTHS, "no fixed length"),
])  # fmt: skip
def test_types_that_do_not_meet(make, a, b, says):
    with pytest.raises(ConditionError, match=says):
        getattr(build, make)(col(a), col(b, "right"))


def test_nested_columns_are_compared_and_nothing_else():
    nested = col(types.from_arrow(pa.struct([("k", pa.int32())])))
    assert build.is_null(nested).type == BOOL
    assert build.eq(nested, nested).type == build.lt(nested, nested).type == BOOL
    for refused in (build.add, build.least, build.coalesce):
        with pytest.raises(IvjoinError, match="struct<k: int32>"):
            refused(nested, nested)
    with pytest.raises(UnsupportedError, match="of a nested column there are its fields"):
        build.coalesce(nested, nested)


# A comparison with a literal: the column is compared in its own type, and the answer is the exact one.

OPS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq_null_safe": operator.eq,
}


def value_of(node: Node, x: int) -> int:
    return x if node.op == "column" else node.params[0]


@given(
    st.sampled_from(sorted(OPS)),
    st.sampled_from([INT8, INT32, INT64, types.UINT8, types.UINT64, types.decimal(3, 1)]),
    st.one_of(
        st.integers(-400, 400),
        st.sampled_from([-(2**63), -(2**63) - 1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**31) - 1, 127, 128, -129]),
        st.decimals(-400, 400, places=2),
        st.floats(-400, 400, allow_nan=False),
    ),
    st.booleans(),
    st.data(),
)
def test_comparison_with_a_number_is_exact(op, t, value, literal_first, data):
    x = col(t)
    node = build.compare(op, literal(value), x) if literal_first else build.compare(op, x, literal(value))
    lo, hi = t.limits
    near = int(Fraction(value) * (10**t.scale)) if t.kind == "decimal" else int(value)
    i = data.draw(st.sampled_from([v for v in (lo, hi, near - 1, near, near + 1) if lo <= v <= hi]))
    exact = Fraction(i, 10**t.scale)
    expected = OPS[op](Fraction(value), exact) if literal_first else OPS[op](exact, Fraction(value))
    if node.op == "literal":
        assert op == "eq_null_safe"
        assert node.params[0] is expected
        return
    assert node.type == BOOL
    # Decimals and big ints meet a float as doubles; the others are compared as they are.
    if not (isinstance(value, float) and (t.kind == "decimal" or t.bits == 64)):
        assert {a.type for a in node.args} == {t}
        assert x in node.args
        assert OPS[node.op](*(value_of(a, i) for a in node.args)) is expected


@given(
    st.sampled_from(sorted(OPS)),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(9000, 1, 1)),
    st.integers(-2, 2),
)
def test_comparison_of_times_of_different_units_is_exact(op, unit, moment, off):
    t = timestamp(unit, "UTC")
    lit = literal(moment.replace(tzinfo=dt.UTC))
    node = build.compare(op, col(t), lit)
    seconds = Fraction(lit.params[0], 10**6)
    lo, hi = t.limits
    i = min(max(int(seconds * TICKS_PER_SECOND[unit]) + off, lo), hi)
    expected = OPS[op](Fraction(i, TICKS_PER_SECOND[unit]), seconds)
    if node.op == "literal":
        assert op == "eq_null_safe"
        assert node.params[0] is expected
    else:
        assert node.args[1].type == t
        assert OPS[node.op](i, node.args[1].params[0]) is expected


def test_big_ints_are_compared_with_doubles_as_doubles():
    node = build.eq(col(INT64), literal(float(2**53)))
    assert [a.type for a in node.args] == [FLOAT64, FLOAT64]
    nan = build.lt(col(INT32), literal(float("nan")))
    assert nan.args[0].type == FLOAT64


def test_texts_take_after_the_other_side():
    at = build.ge(col(UTC_US), literal("2024-01-01 00:00:00"), "Europe/Paris")
    assert at.args[1].params == (1_704_063_600_000_000,)
    assert build.lt(literal("5"), col(INT32)).args == (literal(5), col(INT32))
    with pytest.raises(ConditionError, match="'abc' cannot be read as int64"):
        build.lt(col(INT32), literal("abc"))
    with pytest.raises(ConditionError, match="cannot be read as date"):
        build.lt(col(DATE), literal("2024-02-30"))


def test_local_times_compare_with_instants():
    naive, aware = col(timestamp("us")), literal(dt.datetime(2024, 7, 1, tzinfo=dt.UTC))
    in_utc = build.lt(naive, aware)
    assert in_utc.args == (naive, literal(dt.datetime(2024, 7, 1)))
    in_paris = build.lt(naive, aware, "Europe/Paris")
    assert in_paris.args[0].op == "cast"
    assert in_paris.args[0].params == (UTC_US, "Europe/Paris")


def test_differences_of_dates_compare_with_day_intervals():
    days = build.sub(col(DATE), col(DATE, "right"))
    assert days.op == "date_diff"
    assert build.le(days, literal(dt.timedelta(days=3))).args == (days, literal(3))
    assert build.lt(days, literal(dt.timedelta(hours=36))) is build.le(days, literal(1))
    assert build.gt(literal(dt.timedelta(hours=36)), build.abs_(days)).args == (literal(1), build.abs_(days))
    assert build.lt(days, col(duration("us"))).args[0].type == duration("us")


def test_sums_of_times():
    d, at = col(DATE), col(timestamp("s", "UTC"))
    assert build.add(d, literal(dt.timedelta(days=2))) is build.add(d, literal(2))
    assert build.add(d, literal(dt.timedelta(hours=2))).type == timestamp("us", "UTC")
    whole = build.sub(at, literal(dt.timedelta(seconds=10)))
    assert (whole.type.unit, whole.args[1]) == ("s", literal(10, duration("s")))
    assert build.sub(at, literal(dt.timedelta(milliseconds=1500))).type.unit == "us"
    month = build.add(d, literal(-2, MONTHS), "Asia/Tokyo")
    assert (month.op, month.args[1], month.params) == ("add_months", literal(-2), ("Asia/Tokyo",))
    assert build.add(d, build.mul(col(INT32), literal(1, MONTHS))).op == "add_months"
    with pytest.raises(ConditionError, match="one after the other"):
        build.add(literal(1, MONTHS), literal(dt.timedelta(1)))


def test_a_difference_of_instant_and_local_time_is_local():
    node = build.sub(col(UTC_US), col(timestamp("us")), "Europe/Paris")
    assert [a.type.tz for a in node.args] == [None, None]


def test_truth_is_folded_only_where_no_error_hides():
    p, q = build.gt(col(INT32), literal(1)), build.lt(col(INT64), literal(1))
    true, false = literal(True), literal(False)
    assert build.and_(p, build.and_(q, p)).args == (p, q, p)
    assert build.and_(p, true) is p
    assert build.and_() is true
    assert build.or_(false, q) is q
    assert build.and_(false, p) is false
    assert build.and_(p, false).args == (p, false)
    assert build.or_(p, true).args == (p, true)
    assert build.not_(build.not_(p)) is p
    assert build.not_(literal(None)).params == (None,)
    assert build.eq(literal(2), literal(Decimal("2.0"))) is true
    assert build.lt(literal(None), literal(None)).params == (None,)


def test_overflow_of_constants_is_left_to_the_evaluator():
    top = literal(2**31 - 1)
    assert build.add(top, literal(1)).op == "add"
    assert build.add(top, literal(-1)) is literal(2**31 - 2)
    assert build.neg(literal(-128, INT8)).op == "neg"
    assert build.cast(literal(300), INT8).op == "cast"
    assert build.div(literal(1), literal(0)).op == "div"


def test_in():
    x = col(INT32)
    assert build.in_(x, [literal(1), literal(Decimal("2.5")), literal(3), literal(1)]).params == (1, 3)
    assert build.in_(x, [literal(5)]) is build.eq(x, literal(5))
    assert build.in_(x, [literal(1), literal(None)]).params == (1, None)
    never = build.in_(x, [literal(Decimal("1.5")), literal(2**40)])
    assert (never.op, never.args) == ("lt", (x, literal(-(2**31))))
    assert build.in_(x, [literal(1), col(INT32, "right")]).op == "or"
    assert build.in_(col(types.FLOAT32), [literal(0.1), literal(1)]).args[0].type == FLOAT64
    assert build.in_(x, []) is literal(False)


def test_case_needs_conditions_and_one_type():
    test = build.gt(col(INT32), literal(1))
    node = build.case([(test, literal(1)), (literal(None), literal(Decimal("2.5")))])
    assert str(node.type) == "decimal(11,1)"
    assert node.args[-1] is literal(None, node.type)
    with pytest.raises(ConditionError, match="WHEN needs a condition"):
        build.case([(literal(1), literal(1))])
    with pytest.raises(ConditionError, match="CASE cannot take"):
        build.case([(test, literal(1))], literal(True))


@pytest.mark.parametrize(("source", "target"), [
    (INT32, DATE), (DATE, INT32), (BOOL, DATE), (BOOL, UTC_US), (types.BINARY, INT32), (UTC_US, BOOL),
    (INT32, types.BINARY),
])  # fmt: skip
def test_casts_that_ansi_does_not_know(source, target):
    with pytest.raises(UnsupportedError, match="is not supported"):
        build.cast(col(source), target)


@pytest.mark.parametrize(("value", "target", "physical"), [
    (Decimal("1.25"), types.decimal(3, 1), 13), (Decimal("-1.25"), types.decimal(3, 1), -13),
    (Decimal("-2.9"), INT32, -2), (-2.9, INT64, -2), (1.005, types.decimal(5, 2), 101), ("12", INT32, 12),
    (" +7 ", INT8, 7), ("nope", INT8, None), ("\u0661\u0662", INT32, None), ("1e2", FLOAT64, 100.0),
    ("1e2", INT32, None), ("t", BOOL, True), (True, INT32, 1), (2**53 + 1, FLOAT64, 2.0**53),
    (Decimal("0.1"), FLOAT64, 0.1), ("-Infinity", FLOAT64, float("-inf")), (float("nan"), INT32, None),
    (12, types.STRING, "12"), (1e300, types.decimal(38, 0), None),
])  # fmt: skip
def test_cast_of_a_literal(value, target, physical):
    node = build.cast(literal(value), target)
    if physical is None:
        assert node.op == "cast"
    else:
        assert (node.op, node.params, node.type) == ("literal", (physical,), target)
