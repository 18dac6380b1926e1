"""The public interface of typed intervals: construction, bounds, sets, relations, casts, mistakes."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ivjoin import interval as iv
from ivjoin.interval import EMPTY, ENTIRE, DomainInterval, Interval, IntervalError, interval

INF = math.inf
NOON = dt.datetime(2024, 2, 29, 12)

MADE: list[Any] = [
    (interval("int8"), -128, 127), (interval("uint64"), 0, 2**64 - 1), (interval("int64", 5), 5, 2**63 - 1),
    (interval("tinyint", -500, 500), -128, 127), (interval("int8", 0.5, 7.5), 1, 7),
    (interval("int8", -INF, 7), -128, 7),
    (interval("decimal(4, 1)", Decimal("1.05"), 2), Decimal("1.1"), Decimal("2.0")),
    (interval("decimal(2,1)"), Decimal("-9.9"), Decimal("9.9")),
    (interval("decimal(3,1)", Fraction(1, 3), 1e9), Decimal("0.4"), Decimal("99.9")),
    (interval("float32", 0.1, 0.2), float(np.float32(0.1)), 0.19999998807907104),
    (interval("float64", 10**400, None), INF, INF),
    (interval("float16", 2**53 + 1, None, nan=False), INF, INF),
    (interval("date", dt.date(2024, 2, 29), NOON), dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
    (interval("date", NOON, 19_783), dt.date(2024, 3, 1), dt.date(2024, 3, 1)),
    (
        interval("timestamp[s]", NOON, dt.datetime(2024, 2, 29, 14, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        NOON,
        dt.datetime(2024, 2, 29, 13),
    ),
    (interval("timestamp[ns]", 1, 1999), dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 2)),
    (interval("timestamp[us]", dt.date(2024, 1, 1), None), dt.datetime(2024, 1, 1), None),
    (
        interval("duration[ms]", dt.timedelta(microseconds=-1500), 7),
        dt.timedelta(milliseconds=-1),
        dt.timedelta(milliseconds=7),
    ),
    (interval("time[us]", dt.time(1, 2), None), dt.time(1, 2), dt.time.max),
    (interval("months", -1, 14), -1, 14),
]


@pytest.mark.parametrize("x, inf, sup", MADE, ids=lambda v: repr(v)[:50])
def test_bounds_in_and_out(x: DomainInterval, inf: Any, sup: Any) -> None:
    assert (x.inf, x.sup) == (inf, sup) == (iv.inf(x), iv.sup(x))
    assert pickle.loads(pickle.dumps(x)) == x
    assert hash(pickle.loads(pickle.dumps(x))) == hash(x)
    assert iv.subset(x, iv.entire(x.domain))


def test_open_ends_become_the_next_value() -> None:
    assert interval("int8", 3, 7, closed="left") == interval("int8", 3, 6)
    assert interval("int8", 3, 7, closed="right") == interval("int8", 4, 7)
    assert interval("int8", 3, 4, closed="neither").is_void
    assert interval("int8", 2.5, 7.5, closed="neither") == interval("int8", 3, 7)
    assert interval("int8", 126, 1000, closed="neither") == interval("int8", 127, 127)
    assert interval("float64", 0, 1, closed="neither").pair == (5e-324, math.nextafter(1.0, 0.0))
    assert interval("float64", -INF, INF, closed="neither").pair == (-1.7976931348623157e308, 1.7976931348623157e308)
    assert interval("float64", INF, INF, closed="neither").is_void
    assert interval("float64", -INF, -INF, closed="left").is_void
    day = dt.date(2024, 2, 28)
    assert interval("date", day, None, closed="right").inf == dt.date(2024, 2, 29)


def test_null_and_nan() -> None:
    assert interval("float64").nan
    assert interval("float64", 1).nan
    assert not interval("float64", 1, 2).nan
    assert interval("float64", 1, 2, nan=True).nan
    x = interval("int8", empty=True, null=True)
    assert x.is_void
    assert not iv.is_empty(x)
    assert (iv.inf(x), iv.sup(x)) == (INF, -INF)
    assert repr(x) == "interval('int8', empty=True, null=True)"
    assert None in x
    assert iv.contains(interval("float32"), math.nan)


@pytest.mark.parametrize(
    "text", ["int8", "uint16", "float16", "decimal(4,2)", "date", "timestamp[ns]", "duration[s]", "months", "time[ms]"]
)
def test_names_of_domains(text: str) -> None:
    assert str(iv.domain(text)) == text
    assert iv.domain(iv.domain(text)) is iv.domain(text)


WRONG: list[Any] = [
    (lambda: interval("int65", 1, 2), "2 to 64 bits"),
    (lambda: interval("text", 1, 2), "unknown domain 'text'; expected"),
    (lambda: interval("decimal(39,2)"), "38 digits"),
    (lambda: interval("decimal(3,4)"), "38 digits"),
    (lambda: interval("timestamp[us, Europe/Rome]"), "has the zone 'europe/rome'"),
    (lambda: interval("int8", 5, 3), r"did you mean\s+interval\('int8', 3, 5\)"),
    (lambda: interval("int8", 5, math.nan), "a bound of int8 is NaN"),
    (lambda: interval("int8", 5, 6, closed="both ends"), "expected 'both', 'left', 'right' or 'neither'"),
    (lambda: interval("int8", 5, 6, nan=True), "has no NaN"),
    (lambda: interval("int8", 1, 2) + 200, "200 is not a value of int8"),
    (lambda: iv.add(interval("int8", 1, 2), interval("int16", 1, 2)), "cast one to the other's domain first"),
    (lambda: iv.intersection(interval("int8"), interval("uint8")), "Cast one interval"),
    (lambda: iv.add(interval("date"), interval("date")), "add is not defined for date and date"),
    (lambda: iv.cast(interval("date"), "int8"), "no cast from date to int8"),
    (lambda: iv.mag(interval("date")), "has no zero"),
    (lambda: iv.pown(interval("int8", 1, 2), -1), "the exponent is -1"),
    (lambda: iv.sqr(interval("decimal(30,10)")), "more than 38 digits"),
    (lambda: iv.neg_rev(interval("int16", 1, 2), interval("int8")), "has the domain int16, expected int8"),
]


@pytest.mark.parametrize("call, text", WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_mistakes(call: Any, text: str) -> None:
    with pytest.raises(IntervalError, match=text):
        call()


def test_wrong_types() -> None:
    for call in (
        lambda: interval("int8", "3", 5), lambda: interval("date", 1.5, None),
        lambda: interval("duration[s]", NOON, None), lambda: iv.add(interval("float64", 1, 2), Interval(1, 2)),
        lambda: iv.rem(Interval(1, 2), Interval(1, 2)), lambda: interval("int8", True, 5),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(AttributeError, match="immutable"):
        interval("int8").lo = 3


def test_operators_and_plain_values() -> None:
    x = interval("int8", 3, 5)
    assert x + 1 == 1 + x == interval("int8", 4, 6)
    assert 10 - x == interval("int8", 5, 7)
    assert x * -2 == interval("int8", -10, -6)
    assert -x == abs(-x) * -1
    assert +x == x
    d = interval("date", dt.date(2024, 1, 31), dt.date(2024, 1, 31))
    assert (d + 1).inf == dt.date(2024, 2, 1)
    assert (d - d) == interval("int32", 0, 0)
    t = interval("timestamp[us]", NOON, NOON)
    assert (t + dt.timedelta(hours=1)).inf == NOON.replace(hour=13)
    assert (t - t) == interval("duration[us]", 0, 0)
    assert (interval("duration[s]", 2, 3) * 4) == interval("duration[s]", 8, 12)
    assert (interval("months", 2, 3) + d).sup == dt.date(2024, 4, 30)


def test_operators_on_intervals_of_reals() -> None:
    a, b = Interval(1, 2), Interval(-3, 4)
    assert type(iv.add(a, b)) is Interval
    assert iv.mul_rev(a, b) == iv.mul_rev(a, b, ENTIRE)
    assert iv.pown_rev(Interval(4, 9), 2, Interval(0, 10)) == Interval(2, 3)
    assert iv.abs_rev(a) == Interval(-2, 2)
    assert iv.contains(a, 1.5)
    assert iv.is_member(1.5, a)
    assert iv.add.__doc__ == "Return the sums of a member of each."
    assert iv.sub_rev2.__name__ == "sub_rev2"


def test_sets_and_relations() -> None:
    a, b = interval("int8", 1, 5), interval("int8", 4, 9, null=True)
    assert iv.intersection(a, b) == interval("int8", 4, 5)
    assert iv.convex_hull(a, b) == interval("int8", 1, 9, null=True)
    assert iv.subset(interval("int8", 2, 3), a)
    assert not iv.subset(interval("int8", 2, 3, null=True), a)
    assert iv.interior(interval("int8", -128, 4), interval("int8", -128, 5))
    assert not iv.interior(a, a)
    assert iv.disjoint(a, interval("int8", 6, 7))
    assert not iv.disjoint(interval("int8", 1, 2, null=True), interval("int8", 3, 4, null=True))
    assert iv.less(a, b)
    assert iv.strict_less(a, b)
    assert not iv.precedes(a, b)
    assert iv.precedes(a, interval("int8", 5, 6))
    assert iv.strict_precedes(a, interval("int8", 6, 6))
    assert iv.overlap(a, b) == "overlaps"
    assert iv.overlap(a, interval("int8", empty=True)) == "secondEmpty"
    assert iv.equal(a, interval("int8", 1, 5))
    assert iv.is_singleton(interval("int8", 3, 3))
    assert iv.is_singleton(interval("int8", empty=True, null=True))
    assert not iv.is_singleton(interval("int8", 3, 3, null=True))
    assert iv.is_entire(interval("int8"))
    assert iv.is_common_interval(a)
    assert not iv.is_common_interval(interval("float32"))
    assert iv.contains(a, 3)
    assert not iv.contains(a, 3.5)
    assert iv.is_member(5, a)


def test_numbers_of_an_interval() -> None:
    x = interval("int8", -7, 4)
    assert (iv.mid(x), iv.wid(x), iv.mag(x), iv.mig(x)) == (-2, 11, 7, 0)
    d = interval("decimal(3,1)", Decimal("1.5"), 2)
    assert (iv.mid(d), iv.wid(d), iv.mag(d), iv.mig(d)) == (Decimal("1.7"), Decimal("0.5"), 2, Decimal("1.5"))
    assert iv.mid(interval("date", dt.date(2024, 1, 1), dt.date(2024, 1, 4))) == dt.date(2024, 1, 2)
    assert iv.wid(interval("timestamp[s]", NOON, NOON + dt.timedelta(minutes=1))) == 60
    f = interval("float32", -1, 3)
    assert (iv.mid(f), iv.wid(f), iv.mag(f)) == (1.0, 4.0, 3.0)
    assert iv.mid(interval("float64")) == 0.0
    assert iv.mid(interval("float64", 0, INF)) == 1.7976931348623157e308
    assert math.isnan(iv.mid(interval("int8", empty=True)))


# Casts to floats, against numpy and exact rationals


@pytest.mark.slow
def test_longs_to_floats_are_rounded_once() -> None:
    rng = random.Random(5)
    for _ in range(1500):
        n = rng.choice([rng.randrange(-(2**63), 2**63), (1 << rng.randrange(63)) + rng.randrange(-3, 4)])
        n = max(-(2**63), min(2**63 - 1, n))
        for name, kind in (("float32", np.float32), ("float64", np.float64)):
            want = float(kind(np.int64(n)))
            assert iv.cast(interval("int64", n, n), name).pair == (want, want), n
            back = iv.cast_rev(interval(name, want, want), interval("int64"))
            assert n in back
            for outside in (back.lo - 1, back.hi + 1):
                if -(2**63) <= outside < 2**63:
                    assert float(kind(np.int64(outside))) != want


def test_float_next_to_a_tie_is_rounded_once() -> None:
    n = (1 << 60) + (1 << 36) + 1  # as a double the tie of two float32 numbers; one above it
    want = float((1 << 60) + (1 << 37))
    assert iv.cast(interval("int64", n, n), "float32").inf == float(np.float32(np.int64(n))) == want


CASTS: list[Any] = [
    ("float64", 0.99999999, "float32", 1.0), ("float64", 1e300, "float32", INF), ("float32", 0.5, "float64", 0.5),
    ("float64", 2.0**63, "int64", 2**63 - 1), ("float64", -3.7, "int64", -3),
    ("float64", 0.125, "decimal(3,2)", Decimal("0.13")),
    ("decimal(4,2)", Decimal("-2.55"), "decimal(3,1)", Decimal("-2.6")),
    ("decimal(4,2)", Decimal("2.99"), "int8", 2),
    ("decimal(4,2)", Decimal("0.10"), "float64", 0.1),
    ("int32", 7, "decimal(5,2)", 7),
    ("int64", 90, "timestamp[s]", dt.datetime(1970, 1, 1, 0, 1, 30)),
    ("timestamp[us]", dt.datetime(1969, 12, 31, 23, 59, 59, 500000), "bigint", -1),
    ("timestamp[ms]", NOON, "date", NOON.date()),
    ("timestamp[ms]", dt.datetime(1970, 1, 1, 0, 0, 1, 500000), "float64", 1.5),
    ("date", NOON.date(), "timestamp[us]", NOON.replace(hour=0)),
    ("timestamp[us]", dt.datetime(1970, 1, 1, 0, 0, 1, 250000), "decimal(4,1)", Decimal("1.3")),
    ("duration[us]", dt.timedelta(microseconds=-1), "duration[ms]", dt.timedelta(milliseconds=-1)),
    ("float64", 1.5, "timestamp[ms]", dt.datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ("time[s]", dt.time(1), "time[us]", dt.time(1)),
    ("decimal(5,3)", Decimal("1.5"), "timestamp[s]", dt.datetime(1970, 1, 1, 0, 0, 1)),
]


@pytest.mark.parametrize("source, value, target, want", CASTS)
def test_casts_and_back(source: str, value: Any, target: str, want: Any) -> None:
    x = interval(source, value, value)
    got = iv.cast(x, target)
    assert (got.inf, got.sup) == (want, want)
    back = iv.cast_rev(got, interval(source))
    assert value in back
    assert iv.cast(back, target) == got
    for lo, hi in ((back.domain.limits[0], back.lo), (back.hi, back.domain.limits[1])):
        if lo < hi:  # past the preimage nothing comes to the same
            below = hi == back.lo
            end = hi if below else lo
            if back.domain.is_float:
                beyond = back.domain.format.down(end) if below else back.domain.format.up(end)
            else:
                beyond = end - 1 if below else end + 1
            assert iv.intersection(iv.cast(DomainInterval(back.domain, beyond, beyond), target), got).is_void


def test_casts_of_nan() -> None:
    x = interval("float64", 1, 2, nan=True)
    assert iv.cast(x, "float32").nan
    assert not iv.cast(x, "int64").null  # under ANSI an error
    assert iv.cast(x, "decimal(3,1)").null
    assert iv.cast_rev(interval("decimal(3,1)", empty=True, null=True), x).nan
    assert not iv.cast_rev(interval("decimal(3,1)", 1, 2), x).nan


# The reverse functions of reals that the standard does not name


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_reverses_of_reals_hold_their_points(seed: int) -> None:
    rng = random.Random(seed)

    def draw() -> Fraction:
        return Fraction(rng.choice([rng.randint(-9, 9), rng.randint(-99, 99)]), rng.choice([1, 2, 4, 3]))

    def around(v: Fraction) -> Interval:
        return Interval(v - rng.choice([0, 0, abs(draw())]), v + rng.choice([0, 0, abs(draw())]))

    one = {"neg": lambda a: -a, "floor": math.floor, "ceil": math.ceil, "sign": lambda a: (a > 0) - (a < 0)}
    for _ in range(300):
        a, b = draw(), draw()
        results = {"add": a + b, "sub": a - b, "min": min(a, b), "max": max(a, b)} | ({"div": a / b} if b else {})
        for op, r in results.items():
            c, first, second = around(Fraction(r)), around(a), around(b)
            backs = (f"{op}_rev", f"{op}_rev") if op in ("add", "min", "max") else (f"{op}_rev1", f"{op}_rev2")
            assert a in getattr(iv, backs[0])(second, c, first), (op, a, b)
            assert b in getattr(iv, backs[1])(first, c, second), (op, a, b)
        for name, f in one.items():
            assert a in getattr(iv, f"{name}_rev")(around(Fraction(f(a))), around(a)), (name, a)


def test_reverses_of_reals_are_tight() -> None:
    assert iv.add_rev(Interval(1, 2), Interval(5, 6)) == Interval(3, 5)
    assert iv.sub_rev1(Interval(1, 2), Interval(5, 6)) == Interval(6, 8)
    assert iv.sub_rev2(Interval(1, 2), Interval(5, 6)) == Interval(-5, -3)
    assert iv.div_rev1(Interval(2, 4), Interval(1, 3)) == Interval(2, 12)
    assert iv.div_rev1(Interval(0, 0), Interval(1, 3)) == EMPTY
    assert iv.div_rev2(Interval(2, 4), Interval(1, 2)) == Interval(1, 4)
    assert iv.div_rev2(Interval(0, 0), Interval(1, 2)) == EMPTY
    assert iv.min_rev(Interval(5, 9), Interval(1, 2)) == Interval(1, 2)
    assert iv.min_rev(Interval(2, 9), Interval(1, 2)) == Interval(1, INF)
    assert iv.min_rev(Interval(-3, 0), Interval(1, 2)) == EMPTY
    assert iv.max_rev(Interval(-9, 0), Interval(1, 2)) == Interval(1, 2)
    assert iv.floor_rev(Interval(2.5, 4)) == Interval(3, 5)
    assert iv.ceil_rev(Interval(2.5, 4)) == Interval(2, 4)
    assert iv.floor_rev(Interval(2.25, 2.75)) == EMPTY
    assert iv.sign_rev(Interval(-1, -1)) == Interval(-INF, 0)
    assert iv.sign_rev(Interval(0, 0)) == Interval(0, 0)
    assert iv.sign_rev(Interval(1, 1), Interval(-3, 0)) == EMPTY
    assert iv.neg_rev(Interval(1, 2)) == Interval(-2, -1)
    assert iv.div_rev2_to_pair(Interval(1, 1), Interval(-2, 4)) == (Interval(-INF, -0.5), Interval(0.25, INF))
    assert iv.pown_rev_to_pair(Interval(16, 81), 4) == (Interval(-3, -2), Interval(2, 3))
    assert iv.sqr_rev_to_pair(Interval(0, 4)) == (Interval(-2, 2), EMPTY)
    assert iv.mul_rev_to_pair(Interval(-2, 2), Interval(10, 10)) == (Interval(-INF, -5), Interval(5, INF))
