"""Ways in which interval reasoning over machine numbers goes wrong, one test each, on the public functions.

The numbers are those of one list, of which the traps about whole conditions are tested beside `ivjoin.propagation`.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from ivjoin import interval as iv
from ivjoin.interval import BoolInterval, Interval, interval

INF = math.inf


def double(lo: float, hi: float | None = None, **more: bool) -> iv.DomainInterval:
    return interval("float64", lo, lo if hi is None else hi, **more)


def byte(lo: int, hi: int | None = None, **more: bool) -> iv.DomainInterval:
    return interval("int8", lo, lo if hi is None else hi, **more)


def day(year: int, month: int, day: int) -> iv.DomainInterval:
    return interval("date", dt.date(year, month, day), dt.date(year, month, day))


# Floating point


def test_trap_01_the_rounded_operation_is_inverted_not_the_real_one() -> None:
    a, target = 1.5e-16, math.nextafter(1.0, 2.0)
    assert a + 1.0 == target
    assert a in iv.add_rev(double(1.0), double(target, INF), interval("float64"))
    assert a not in iv.add_rev(Interval(1.0, 1.0), Interval(target, 2.0))  # the real inverse, which has its own use
    for op, back, x, y in (
        (np.subtract, iv.sub_rev1, 1.0, 1e-17), (np.multiply, iv.mul_rev, 0.1, 3.0), (np.divide, iv.div_rev1, 0.1, 3.0),
    ):  # fmt: skip
        assert x in back(double(y), double(float(op(x, y))), interval("float64"))


def test_trap_02_forward_bounds_hold_the_rounded_result() -> None:
    assert iv.add(double(0.1), double(0.2)) == double(0.30000000000000004)
    total = Interval(0.1, 0.1) + Interval(0.2, 0.2)
    assert 0.30000000000000004 in total
    assert Fraction(0.1) + Fraction(0.2) in total


def test_trap_03_zero_times_infinity_is_no_poison() -> None:
    assert iv.mul(Interval(0, 0), iv.ENTIRE) == Interval(0, 0)
    got = iv.mul(double(0.0), interval("float64", nan=False))
    assert (got.lo, got.hi, got.nan) == (0.0, 0.0, True)  # where infinities are members, 0 * inf is NaN
    assert not iv.mul(double(0.0), double(-1e308, 1e308)).nan


def test_trap_04_nan_is_above_every_number() -> None:
    assert iv.gt(double(0, 3, nan=True), 5.0) == BoolInterval(True, False)
    assert iv.gt(double(0, 3), 5.0) == BoolInterval(False)
    kept, _ = iv.gt_rev(BoolInterval(True), double(0, 3, nan=True), 5.0)
    assert kept.is_void
    assert kept.nan


def test_trap_05_nan_of_the_other_side_explains_any_value() -> None:
    above = interval("float64", 100.0)  # NaN is above 100 too
    x = double(-5, 5)
    assert iv.add_rev(double(0, 10, nan=True), above, x) == x
    assert iv.add_rev(double(0, 10), above, x).is_void
    both = double(-INF, 5)
    assert iv.add_rev(double(0, INF), above, both) == both  # -inf + inf is NaN


def test_trap_06_not_greater_is_at_most_under_a_total_order() -> None:
    x = double(0, 3, nan=True)
    for y in (double(1, 2), double(1, 2, nan=True), interval("float64", empty=True, nan=True)):
        assert iv.logical_not(iv.gt(x, y)) == iv.le(x, y)
        assert iv.gt_rev(BoolInterval(False), x, y) == iv.le_rev(BoolInterval(True), x, y)


def test_trap_07_floor_makes_a_number_of_nan() -> None:
    assert iv.floor(double(5, 6, nan=True)) == interval("int64", 0, 6)
    assert iv.floor_rev(interval("int64", 0, 0), double(5, 6, nan=True)) == interval("float64", empty=True, nan=True)
    assert not iv.floor_rev(interval("int64", 5, 5), double(5, 6, nan=True)).nan


def test_trap_08_minus_zero_is_zero() -> None:
    assert -0.0 in double(0.0)
    assert iv.eq(double(-0.0), double(0.0)) == BoolInterval(True)
    assert iv.lt(double(-0.0), double(0.0)) == BoolInterval(False)
    assert double(-0.0) == double(0.0)
    assert math.copysign(1.0, double(-0.0).inf) == 1.0


def test_trap_09_a_bound_is_rounded_into_the_columns_format() -> None:
    tenth = float(np.float32(0.1))
    assert tenth > 0.1
    assert tenth in interval("float32", 0.1, 1.0, closed="neither")
    wide = iv.cast_rev(double(0.1, 1.0), interval("float32"))
    assert wide.inf == tenth
    assert interval("float32", -1.0, 0.1).sup == float(np.nextafter(np.float32(0.1), np.float32(0)))


def test_trap_10_a_long_as_double_is_many_to_one() -> None:
    c = double(9007199254740992.0)
    assert iv.cast_rev(c, interval("int64", 2**53, 2**60)) == interval("int64", 2**53, 2**53 + 1)
    assert iv.cast(interval("int64", 2**53 + 1, 2**53 + 1), "double") == c
    for n in (2**53 + 1, 2**62 + 511, 2**63 - 1, -(2**63)):
        assert n in iv.cast_rev(double(float(n)), interval("int64"))


def test_trap_11_int_against_float_depends_on_the_common_type() -> None:
    n, x = interval("int32", 16777217, 16777217), interval("float32", 16777216, 16777216)
    with pytest.raises(iv.IntervalError, match="cast one"):
        iv.eq(n, x)
    assert iv.eq(iv.cast(n, "double"), iv.cast(x, "double")) == BoolInterval(False)
    assert iv.eq(iv.cast(n, "float"), x) == BoolInterval(True)


def test_trap_12_library_functions_are_not_rounded_correctly() -> None:
    # The real function's enclosure is correctly rounded; that of a library's must be widened, which propagation does.
    for f, g, x in ((iv.exp, math.exp, 0.7), (iv.log, math.log, 3.3), (iv.sin, math.sin, 22.0)):
        box = f(Interval(x, x))
        assert math.nextafter(box.inf, INF) >= box.sup
        assert abs(g(x) - box.inf) <= 4 * math.ulp(box.inf)


def test_trap_13_an_overflow_to_infinity_is_a_member() -> None:
    got = iv.mul(double(1e308, 1.7e308), double(10.0))
    assert got == double(INF)
    back = iv.mul_rev(double(10.0), double(1.79e308, INF), double(0, INF))
    assert back.inf * 10.0 > 1.79e308
    assert math.nextafter(back.inf, 0.0) * 10.0 < 1.79e308
    assert iv.mul(Interval(1e308, 1.7e308), Interval(10, 10)).sup == INF


def test_trap_14_a_product_of_zero_forces_no_factor() -> None:
    assert 1e-200 * 1e-200 == 0.0
    assert 1e-200 in iv.mul_rev(double(1e-200), double(0.0), interval("float64"))
    assert 1e-170 in iv.sqr_rev(double(0.0), interval("float64"))
    assert iv.mul_rev(double(1.0), double(0.0), interval("float64")) == double(0.0)


def test_trap_15_the_rounding_mode_is_looked_at() -> None:
    assert (float("1") / float("3")).hex() == "0x1.5555555555555p-2"
    assert float("5e-324") > 0.0
    iv.check_float_mode()  # test_ieee_float_mode.py sets other modes and sees the import refused


# Integers


def test_trap_16_what_overflows_errs_and_does_not_wrap() -> None:
    assert 2 * 65 - 256 == -126  # which a wrapping byte would give
    assert iv.mul_rev(byte(2), byte(-126), interval("int8")) == byte(-63)
    assert iv.add(byte(127), byte(1)).is_void
    assert iv.add(byte(100, 127), byte(5)) == byte(105, 127)


def test_trap_17_truncating_division_is_not_undone_by_multiplying() -> None:
    assert iv.div_rev1(byte(3), byte(2), interval("int8")) == byte(6, 8)
    assert iv.div_rev1(byte(3), byte(0), interval("int8")) == byte(-2, 2)
    assert iv.div_rev1(byte(-3), byte(2), interval("int8")) == byte(-8, -6)


def test_trap_18_a_remainder_has_the_dividends_sign() -> None:
    assert iv.rem(byte(-7), byte(3)) == byte(-1)
    assert iv.rem(byte(-128, 127), byte(5)) == byte(-4, 4)
    assert iv.pmod(byte(-7), byte(3)) == byte(2)
    assert iv.pmod(byte(7), byte(-3)) == byte(1)
    assert iv.rem_rev1(byte(5), byte(-4, -1), interval("int8")) == byte(-128, -1)


def test_trap_19_a_divisor_around_zero_has_two_sides() -> None:
    assert iv.div(byte(1, 3), byte(-1, 1)) == byte(-3, 3)
    assert iv.div_to_pair(byte(1, 3), byte(-1, 1)) == (byte(-3, -1), byte(1, 3))
    assert iv.div(byte(1, 3), byte(0)).is_void
    assert iv.div(byte(5), byte(-1)) == byte(-5)
    assert iv.div(byte(7), byte(0, 42)) == byte(0, 7)
    assert iv.div_to_pair(Interval(1, 1), Interval(-2, 4)) == (Interval(-INF, -0.5), Interval(0.25, INF))


def test_trap_20_the_least_int_has_no_negative() -> None:
    assert iv.abs(byte(-128)).is_void
    assert iv.neg(byte(-128)).is_void
    assert iv.div(byte(-128), byte(-1)).is_void
    assert iv.neg(byte(-128, -127)) == byte(127)
    assert iv.abs(byte(-128, 3)) == byte(0, 127)


def test_trap_21_a_strict_bound_moves_once() -> None:
    assert iv.lt_rev(BoolInterval(True), byte(0, 9), byte(5))[0] == byte(0, 4)
    assert iv.ge_rev(BoolInterval(False), byte(0, 9), byte(5))[0] == byte(0, 4)
    x = double(0.0, 9.0)
    assert iv.lt_rev(BoolInterval(True), x, double(5.0))[0].sup == math.nextafter(5.0, 0.0)
    assert 4.999 in iv.lt_rev(BoolInterval(True), x, double(5.0))[0]
    assert interval("decimal(4,1)", 1, 2, closed="neither") == interval("decimal(4,1)", Decimal("1.1"), Decimal("1.9"))


def test_trap_22_unsigned_differences_err_below_zero() -> None:
    a, b = interval("uint8", 3, 10), interval("uint8", 5, 8)
    assert iv.sub(a, b) == interval("uint8", 0, 5)
    assert iv.sub(interval("uint8", 3, 4), b).is_void
    # for a result to exist at all the first must not be smaller
    assert iv.sub_rev1(b, interval("uint8"), a) == interval("uint8", 5, 10)


def test_trap_23_bounds_of_ints_never_pass_through_doubles() -> None:
    a, b = interval("int64", 1525, 1525), interval("int64", 13365, 13365)
    assert iv.mul(a, b) == interval("int64", 1525 * 13365, 1525 * 13365)
    big = 3037000499
    square = interval("int64", big * big, big * big)
    assert iv.mul_rev(interval("int64", big, big), square, interval("int64")).inf == big
    top = interval("uint64", 2**64 - 1, 2**64 - 1)
    assert iv.div(top, interval("uint64", 3, 3)).inf == 6148914691236517205
    assert iv.add(top, interval("uint64", 0, 1)) == top


def test_trap_24_shifts_are_not_intervals_business() -> None:
    assert not hasattr(iv, "shiftleft")  # no rule is better than a wrong one: contract leaves such a condition alone


# NULL and truth values


def test_trap_27_not_true_is_not_false() -> None:
    never_true = BoolInterval(False, None)
    assert iv.logical_not(never_true) == BoolInterval(True, None)
    assert iv.logical_not_rev(BoolInterval(True)) == BoolInterval(False)
    x = interval("int8", 1, 5, null=True)
    # NOT (x > 3) is TRUE only where x > 3 is FALSE: NULL goes, and so do 4 and 5
    assert iv.gt_rev(iv.logical_not_rev(BoolInterval(True)), x, byte(3))[0] == byte(1, 3)


def test_trap_26_or_takes_the_hull_of_its_branches() -> None:
    x = byte(-100, 100)
    low, _ = iv.lt_rev(BoolInterval(True), x, byte(-50))
    high, _ = iv.gt_rev(BoolInterval(True), x, byte(50))
    assert iv.convex_hull(low, high) == x
    assert iv.intersection(low, high).is_void
    assert iv.is_in_rev(BoolInterval(True), x, [3, -7]) == byte(-7, 3)
    assert iv.logical_or_rev(BoolInterval(True), BoolInterval(True, False), BoolInterval(True, False)) == (
        BoolInterval(True, False), BoolInterval(True, False)
    )  # fmt: skip


def test_trap_28_least_and_greatest_skip_nulls() -> None:
    nothing = interval("int8", empty=True, null=True)
    assert iv.min(nothing, byte(2)) == byte(2)
    assert iv.max(nothing, byte(3)) == byte(3)
    a, b = interval("int8", 5, 9, null=True), byte(1, 4)
    assert iv.min_rev(b, byte(1, 2), a) == a  # NULL or not, b decides
    assert iv.min_rev(interval("int8", 5, 9, null=True), byte(8), byte(0, 20)) == byte(8, 20)
    assert iv.null_safe_eq(nothing, nothing) == BoolInterval(True)
    assert iv.coalesce(nothing, byte(7)) == byte(7)


def test_trap_28_nan_is_greatest_and_never_least() -> None:
    nan = interval("float64", empty=True, nan=True)
    assert iv.max(nan, double(1.0)) == nan
    assert iv.min(nan, double(1.0)) == double(1.0)


def test_trap_29_bounds_say_nothing_of_nulls() -> None:
    x = interval("int8", 1, 3, null=True)
    assert iv.logical_or(iv.is_null(x), iv.gt(x, byte(5))).may_be_true
    assert iv.is_null_rev(BoolInterval(True), x) == interval("int8", empty=True, null=True)


def test_trap_30_a_value_that_errs_is_no_contradiction_elsewhere() -> None:
    x = interval("int8", -2, 2, null=True)
    # coalesce looks at the second only where the first is NULL
    first, second = iv.coalesce_rev(byte(9), x, byte(0, 20))
    assert first == interval("int8", empty=True, null=True)
    assert second == byte(9)
    both = iv.coalesce_rev(byte(1), x, byte(5, 20))
    assert both == (byte(1), byte(5, 20))
    # a truth value that errs, after one that decides, changes nothing
    assert iv.logical_or(BoolInterval(True), BoolInterval()) == BoolInterval(True)
    assert iv.logical_and(BoolInterval(), BoolInterval(False)) == BoolInterval()


# Decimals, casts, units


def test_trap_31_decimal_products_are_rounded_half_up() -> None:
    a = interval("decimal(38,10)", Decimal("0.0000001234"), Decimal("0.0000001234"))
    b = interval("decimal(38,10)", Decimal("0.1"), Decimal("0.1"))
    got = iv.mul(a, b)
    assert str(got.domain) == "decimal(38,6)"
    assert got.inf == got.sup == 0
    back = iv.mul_rev(b, got, interval("decimal(38,10)", 0, 1))
    assert a.inf in back
    assert back.sup == Decimal("0.0000049999")  # half a unit, 0.0000005, is rounded away from zero
    thirds = iv.div(interval("decimal(2,1)", 1, 1), interval("decimal(1,0)", 3, 3))
    assert thirds.inf == Decimal("0.333333")


WIDE = ["decimal(38, 10)", "decimal(38, 38)", "decimal(38, 0)", "decimal(20, 18)", "decimal(5, 5)", "decimal(3, 1)"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["mul", "div", "rem", "pmod"])
def test_wide_decimals_keep_both_arguments_of_a_result(name: str) -> None:
    """Windows at the ends, at powers of ten and beside 0: a result far below a unit of its scale, or of no digit."""
    rng, results = random.Random(name), 0

    def window(d: iv.Domain) -> range:
        low, high = d.limits
        at = rng.choice([low, high - 4, 0, 1, -3, 10 ** rng.randint(0, 37), -(10 ** rng.randint(0, 37))])
        at = max(low, min(high - 4, at))
        return range(at, at + rng.randint(1, 5))

    forward = getattr(iv, name)
    first, second = (iv.mul_rev, None) if name == "mul" else (getattr(iv, f"{name}_rev{i}") for i in (1, 2))
    for _ in range(1500):
        s, u = (iv.domain(rng.choice(WIDE)) for _ in range(2))
        a, b = window(s), window(u)
        point = iv.DomainInterval(s, (m := rng.choice(a)), m), iv.DomainInterval(u, (n := rng.choice(b)), n)
        x, y = iv.DomainInterval(s, a[0], a[-1]), iv.DomainInterval(u, b[0], b[-1])
        try:
            c = forward(*point)
        except iv.IntervalError as e:
            assert "needs more than 38 digits" in str(e)  # noqa: PT017
            continue
        if c.is_void:
            continue
        results += 1
        assert iv.subset(c, forward(x, y)), (x, y, c)
        assert iv.subset(point[0], first(y, c, x)), (x, y, c)
        assert second is None or iv.subset(point[1], second(x, c, y)), (x, y, c)
    assert results > 500


def test_trap_32_casts_cut_toward_zero() -> None:
    zero = iv.cast_rev(interval("int32", 0, 0), interval("float64"))
    assert zero == interval("float64", -1, 1, closed="neither")
    assert -0.5 in zero
    assert iv.cast(double(-2.5, 2.9999999999999996), "int") == interval("int32", -2, 2)
    d = iv.cast_rev(day(1969, 12, 31), interval("timestamp[us]"))
    assert (d.lo, d.hi) == (-86_400_000_000, -1)
    assert iv.cast(interval("timestamp[us]", -500_000, -500_000), "bigint") == interval("int64", -1, -1)


def test_trap_35_units_meet_without_overflow_and_by_flooring() -> None:
    seconds = interval("timestamp[s]", 2**62, 2**62)
    assert iv.cast(seconds, "timestamp[ns]").is_void  # no nanosecond count reaches so far: an error, no wrap
    some = interval("timestamp[s]", 0, 2**62)
    assert iv.cast(some, "timestamp[ns]").hi == (2**63 - 1) // 10**9 * 10**9
    before = interval("timestamp[ns]", -1, -1)
    assert iv.cast(before, "timestamp[us]").lo == -1
    assert iv.cast_rev(interval("timestamp[us]", -1, -1), interval("timestamp[ns]")).pair == (-1000, -1)


def test_trap_36_months_have_no_inverse() -> None:
    month = interval("months", 1, 1)
    back = iv.add_rev(month, day(2024, 2, 29), interval("date"))
    assert (back.inf, back.sup) == (dt.date(2024, 1, 29), dt.date(2024, 1, 31))
    back = iv.add_rev(month, day(2023, 2, 28), interval("date"))
    assert (back.inf, back.sup) == (dt.date(2023, 1, 28), dt.date(2023, 1, 31))
    assert iv.sub_rev1(month, day(2024, 2, 29), interval("date")).inf == dt.date(2024, 3, 29)
    assert iv.add_rev(month, day(2023, 3, 31), interval("date")).is_void  # from no day of February
    assert iv.sub(iv.add(day(2024, 1, 31), month), month) == day(2024, 1, 29)
    with pytest.raises(iv.IntervalError, match="cannot be compared"):
        iv.lt(month, interval("int32", 30, 30))


def test_trap_36_a_later_instant_may_come_out_earlier() -> None:
    late, early = dt.datetime(2023, 1, 30, 23), dt.datetime(2023, 1, 31, 1)
    got = iv.add(interval("timestamp[s]", late, early), interval("months", 1, 1))
    # Jan 31 from midnight on starts Feb 28 again, and Jan 30 goes up to its last second
    assert (got.inf, got.sup) == (dt.datetime(2023, 2, 28), dt.datetime(2023, 2, 28, 23, 59, 59))
    from_evening = interval("timestamp[s]", dt.datetime(2023, 2, 28, 22), None)
    back = iv.add_rev(interval("months", 1, 1), from_evening, interval("timestamp[s]"))
    assert back.inf == dt.datetime(2023, 1, 28, 22)


def test_weak_only_a_hull_over_a_gap_is_split() -> None:
    assert iv.ne_rev_to_pair(byte(3), byte(0, 9)) == (byte(0, 2), byte(4, 9))
    assert iv.abs_rev_to_pair(byte(5, 7), interval("int8")) == (byte(-7, -5), byte(5, 7))
    assert iv.sqr_rev_to_pair(byte(9, 16), interval("int8")) == (byte(-4, -3), byte(3, 4))
    assert iv.mul_rev_to_pair(byte(-2, 2), byte(10), interval("int8")) == (byte(-10, -5), byte(5, 10))
    assert iv.abs_rev_to_pair(Interval(2, 3)) == (Interval(-3, -2), Interval(2, 3))
