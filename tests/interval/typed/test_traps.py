"""Ways in which intervals of wide decimals, times and values that err go wrong, on the public functions.

The other traps of the list are tested on `contract` and on joins (``tests/propagation/test_traps_contract.py``).
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

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


def test_trap_30_an_error_is_not_a_contradiction_elsewhere() -> None:
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
    """Windows at the ends, at powers of ten and next to 0: a result far below a unit of its scale or of no digit."""
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


def test_trap_35_units_compare_without_overflow_and_by_flooring() -> None:
    seconds = interval("timestamp[s]", 2**62, 2**62)
    assert iv.cast(seconds, "timestamp[ns]").is_void  # no nanosecond count reaches so far: an error, no wrap
    some = interval("timestamp[s]", 0, 2**62)
    assert iv.cast(some, "timestamp[ns]").hi == (2**63 - 1) // 10**9 * 10**9
    before = interval("timestamp[ns]", -1, -1)
    assert iv.cast(before, "timestamp[us]").lo == -1
    assert iv.cast_rev(interval("timestamp[us]", -1, -1), interval("timestamp[ns]")).pair == (-1000, -1)


def test_trap_36_a_later_instant_may_become_earlier() -> None:
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
