"""Arithmetic and its reverse against exact rational arithmetic: all values are in, and no bound can move inward."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from weights import examples

from ivjoin import interval as iv
from ivjoin.interval import EMPTY, ENTIRE, Interval
from ivjoin.interval.machine import rounding

INF = math.inf
MAX = 1.7976931348623157e308
EDGES = [0.0, 5e-324, 1e-323, 2.2250738585072014e-308, 2.225073858507201e-308, 0.1, 1.0, 1.0000000000000002, 1.5, 3.0]
EDGES += [
    2.0**53 + 2, 1.3 * 2.0**-899, 1.7 * 2.0**-961, 2.0**-485, 2.0**-480, 2.0**500, 2.0**990, 2.0**1000, MAX / 2,
    MAX * (1 - 2**-53), MAX,
]
EDGES += [-edge for edge in EDGES]

doubles = st.sampled_from(EDGES) | st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e3, 1e3)
fractions_of_one = st.fractions(min_value=0, max_value=1, max_denominator=10**6)


@st.composite
def bounded(draw):
    return Interval(*sorted((draw(doubles), draw(doubles))))


@st.composite
def intervals(draw):
    a, b = sorted((draw(doubles), draw(doubles)))
    a, b = draw(st.sampled_from([(a, b), (a, b), (a, a), (-INF, b), (a, INF), (-INF, INF)]))
    return Interval(a, b)


@st.composite
def members(draw, intervals):
    """An interval and a rational number in it."""
    x = draw(intervals)
    a = Fraction(x.inf) if x.inf > -INF else None
    b = Fraction(x.sup) if x.sup < INF else None
    part = draw(fractions_of_one)
    far = Fraction(draw(doubles))
    if a is None and b is None:
        return x, far
    if a is None or b is None:
        return x, (b - abs(far) if a is None else a + abs(far))
    return x, a + (b - a) * part


def is_rounded_down(bound: float, value: Fraction) -> bool:
    """Whether `bound` is the largest double (or -inf) not above `value`."""
    above = math.nextafter(bound, INF)
    return (bound == -INF or Fraction(bound) <= value) and (above == INF or Fraction(above) > value)


def is_rounded_up(bound: float, value: Fraction) -> bool:
    return is_rounded_down(-bound, -value)


def assert_tightest(got: Interval, values: list[Fraction]) -> None:
    low, high = min(values), max(values)
    assert is_rounded_down(got.inf, low), (got, float(low))
    assert is_rounded_up(got.sup, high), (got, float(high))


def corners(*operands: Interval) -> list[tuple[Fraction, ...]]:
    return list(product(*({Fraction(x.inf), Fraction(x.sup)} for x in operands)))


@given(bounded(), bounded())
@example(Interval(MAX, MAX), Interval(MAX, MAX))
@example(Interval(MAX, MAX), Interval(2.0**970, 2.0**970))
@example(Interval(MAX, MAX), Interval(-5e-324, 5e-324))
def test_add_and_sub(x, y):
    assert_tightest(iv.add(x, y), [a + b for a, b in corners(x, y)])
    assert_tightest(iv.sub(x, y), [a - b for a, b in corners(x, y)])


@given(bounded(), bounded())
@example(Interval(2.0**-500, 2.0**-500), Interval(1 + 2**-52, 1 + 2**-52))
@example(Interval(1.3 * 2.0**-500, 1.3 * 2.0**-500), Interval(-1.7 * 2.0**-520, 1.7 * 2.0**-540))
@example(Interval(-1.3 * 2.0**996, 1.3 * 2.0**1010), Interval(1.9 * 2.0**-1000, 1.7 * 2.0**-40))
@example(Interval(2.0**1000, 2.0**1000), Interval(2.0**-1074, 2.0**-1074))
def test_mul(x, y):
    assert_tightest(iv.mul(x, y), [a * b for a, b in corners(x, y)])


@given(bounded(), bounded())
@example(Interval(1.0, 1.0), Interval(5e-324, 5e-324))
@example(Interval(5e-324, 5e-324), Interval(3.0, MAX))
@example(Interval(1.3 * 2.0**-200, 1.3 * 2.0**-200), Interval(1.7 * 2.0**860, 1.7 * 2.0**874))
@example(Interval(1.3 * 2.0**-890, 1.3 * 2.0**-890), Interval(1.7 * 2.0**-1060, 1.7 * 2.0**900))
@example(Interval(-1.3 * 2.0**-899, 1.3), Interval(-1.7, -1.7 * 2.0**-1030))
def test_div(x, y):
    assume(not y.inf <= 0.0 <= y.sup)
    assert_tightest(iv.div(x, y), [a / b for a, b in corners(x, y)])
    assert iv.recip(y) == iv.div(Interval(1, 1), y)


def near(*exponents: int) -> st.SearchStrategy[float]:
    """Doubles with all bits of the significand in use, around a power of two."""
    exponent = st.sampled_from(exponents).flatmap(lambda e: st.integers(e - 4, e + 4))
    significand = st.integers(2**52, 2**53 - 1)
    return st.builds(lambda m, e, sign: sign * math.ldexp(m, e - 52), significand, exponent, st.sampled_from([1, -1]))


# Around the ranges where an operation goes over to integers, and where its result leaves the doubles.
hard = near(0, 30, 100, 500, 980, 990, 1000, 1015, -10, -30, -70, -480, -500, -530, -900, -960, -980, -1010)


@examples(2)
@given(hard, hard, hard)
@example(3.0, -(2.0**1000), 1.0)
@example(1.3 * 2.0**-890, -1.7 * 2.0**-1060, 1.0)
def test_rounded_operations_on_either_side_of_their_limits(a, b, c):
    exact_a, exact_b, exact_c = Fraction(a), Fraction(b), Fraction(c)
    expected = [
        (rounding.add_down, rounding.add_up, (a, b), exact_a + exact_b),
        (rounding.mul_down, rounding.mul_up, (a, b), exact_a * exact_b),
        (rounding.div_down, rounding.div_up, (a, b), exact_a / exact_b),
        (rounding.fma_down, rounding.fma_up, (a, b, c), exact_a * exact_b + exact_c),
    ]
    for down, up, operands, value in expected:
        assert is_rounded_down(down(*operands), value), (down.__name__, operands)
        assert is_rounded_up(up(*operands), value), (up.__name__, operands)


@given(bounded())
def test_sqr(x):
    values = [a * a for (a,) in corners(x)] + [Fraction(0)] * (0 in x)
    assert_tightest(iv.sqr(x), values)
    assert iv.pown(x, 2) == iv.sqr(x)


@given(doubles)
def test_sqrt(number):
    number = abs(number)
    got = iv.sqrt(Interval(number, number))
    assert Fraction(got.inf) ** 2 <= number <= Fraction(got.sup) ** 2
    assert got.inf == got.sup or math.nextafter(got.inf, INF) == got.sup
    # One double is enough only if it is the root.
    assert (got.inf == got.sup) == (Fraction(got.inf) ** 2 == number)


@given(bounded(), bounded(), bounded())
@example(Interval(MAX, MAX), Interval(2, 2), Interval(-MAX, -MAX))
@example(Interval(5e-324, 5e-324), Interval(0.5, 0.5), Interval(1, 1))
def test_fma(x, y, z):
    assert_tightest(iv.fma(x, y, z), [a * b + c for a, b, c in corners(x, y, z)])


@given(bounded(), st.integers(-12, 12))
def test_pown(x, n):
    assume(n >= 0 or not x.inf <= 0.0 <= x.sup)
    values = [a**n for (a,) in corners(x)] + [Fraction(0)] * (0 in x and n > 0)
    assert_tightest(iv.pown(x, n), values)


@given(bounded())
def test_rounding_functions(x):
    def ties_to_away(value: Fraction) -> int:
        return math.floor(value + Fraction(1, 2)) if value >= 0 else math.ceil(value - Fraction(1, 2))

    exact = {
        iv.floor: math.floor, iv.ceil: math.ceil, iv.trunc: math.trunc, iv.round_ties_to_even: round,
        iv.round_ties_to_away: ties_to_away, iv.sign: lambda value: (value > 0) - (value < 0),
    }
    for function, rule in exact.items():
        got = function(x)
        assert (got.inf, got.sup) == (rule(Fraction(x.inf)), rule(Fraction(x.sup))), function.__name__


@pytest.mark.slow
@given(members(intervals()), members(intervals()), members(intervals()))
def test_exact_values_lie_in_the_results(x_and_a, y_and_b, z_and_c):
    (x, a), (y, b), (z, c) = x_and_a, y_and_b, z_and_c
    assert a in x
    assert b in y
    assert a + b in iv.add(x, y)
    assert a - b in iv.sub(x, y)
    assert a * b in iv.mul(x, y)
    assert a * b + c in iv.fma(x, y, z)
    assert a * a in iv.sqr(x)
    assert a**3 in iv.pown(x, 3)
    assert abs(a) in iv.abs(x)
    assert min(a, b) in iv.min(x, y)
    assert max(a, b) in iv.max(x, y)
    assert math.floor(a) in iv.floor(x)
    assert round(a) in iv.round_ties_to_even(x)
    assert a in iv.convex_hull(x, y)
    assert (a in iv.intersection(x, y)) == (a in y)
    if b:
        assert a / b in iv.div(x, y)
        assert 1 / b in iv.recip(y)
        assert b**-3 in iv.pown(y, -3)
        assert b**-4 in iv.pown(y, -4)


@given(members(intervals()), members(intervals()), members(intervals()))
def test_reverse_functions_keep_every_witness(x_and_a, y_and_b, z_and_c):
    (x, a), (y, b), (z, _) = x_and_a, y_and_b, z_and_c
    # a is in x by the draw; an image that is made to hold f(a) must leave a in x.
    around = Interval(a * a, a * a)
    assert a in iv.sqr_rev(around, x)
    assert a in iv.pown_rev(around, 2, x)
    assert a in iv.abs_rev(Interval(abs(a), abs(a)), x)
    assert a in iv.pown_rev(Interval(a**3, a**3), 3, x)
    if a:
        assert a in iv.pown_rev(Interval(1 / a**3, 1 / a**3), -3, x)
        assert a in iv.pown_rev(Interval(1 / a**4, 1 / a**4), -4, x)
    goal = iv.convex_hull(Interval(a * b, a * b), z)
    assert a in iv.mul_rev(y, goal, x)
    first, second = iv.mul_rev_to_pair(y, goal, x)
    assert a in first or a in second
    assert iv.subset(iv.mul_rev(y, goal, x), x)


@given(intervals(), intervals(), intervals())
def test_mul_rev_keeps_to_its_pair(b, c, x):
    first, second = iv.mul_rev_to_pair(b, c)
    assert iv.convex_hull(first, second) == iv.mul_rev(b, c)
    if second != EMPTY:
        # Two pieces come of a divisor with 0 inside and a dividend without it, and leave a gap around 0 or touch there.
        assert first.inf == -INF
        assert second.sup == INF
        assert first.sup <= 0.0 <= second.inf
        assert b.inf < 0.0 < b.sup
        assert 0 not in c
        edge = Fraction(c.inf if c.inf > 0.0 else c.sup)
        below, above = (b.inf, b.sup) if edge > 0 else (b.sup, b.inf)
        assert is_rounded_up(first.sup, 0 if math.isinf(below) else edge / Fraction(below))
        assert is_rounded_down(second.inf, 0 if math.isinf(above) else edge / Fraction(above))
    narrowed = iv.mul_rev_to_pair(b, c, x)
    assert set(narrowed) == {iv.intersection(first, x), iv.intersection(second, x)}
    assert narrowed[0] != EMPTY or narrowed[1] == EMPTY
    if 0 not in b:
        assert iv.mul_rev(b, c) == iv.div(c, b)


@given(bounded(), bounded())
def test_cancel_minus(x, y):
    widths = [Fraction(z.sup) - Fraction(z.inf) for z in (x, y)]
    got = iv.cancel_minus(x, y)
    if widths[0] < widths[1]:
        assert got == ENTIRE
    else:
        assert is_rounded_down(got.inf, Fraction(x.inf) - Fraction(y.inf))
        assert is_rounded_up(got.sup, Fraction(x.sup) - Fraction(y.sup))
        assert iv.subset(x, iv.add(y, got))
    assert iv.cancel_plus(x, y) == iv.cancel_minus(x, -y)


@given(bounded())
def test_numbers_of_an_interval(x):
    a, b = Fraction(x.inf), Fraction(x.sup)
    middle = (a + b) / 2
    # Round to nearest, ties to even, as Python converts fractions.
    assert iv.mid(x) == middle.numerator / middle.denominator
    centre = Fraction(iv.mid(x))
    assert is_rounded_up(iv.rad(x), max(centre - a, b - centre))
    assert is_rounded_up(iv.wid(x), b - a)
    assert iv.mid_rad(x) == (iv.mid(x), iv.rad(x))
    assert iv.mag(x) == max(abs(a), abs(b))
    assert iv.mig(x) == (0 if a <= 0 <= b else min(abs(a), abs(b)))
