"""Elementary functions and their reverse against mpmath at a precision where its own errors do not count."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from weights import examples

from ivjoin import interval as iv
from ivjoin.interval import EMPTY, ENTIRE, Interval
from ivjoin.interval.reals import point_powers as powers
from ivjoin.interval.reals import pointwise

INF = math.inf
MAX = 1.7976931348623157e308
BITS = 2400  # 1024 for the size of an argument, as much again for the nearness of its image to 0 or 1

wide = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
modest = st.floats(-800.0, 800.0)
unit = st.floats(-1.0, 1.0)
near_one = st.integers(1, 2**30).map(lambda n: 1.0 + n * 2.0**-52) | st.integers(1, 2**30).map(lambda n: 1 - n * 2**-53)
# Where the first terms of a series decide, and where they cease to.
small = st.builds(lambda m, e: math.ldexp(m, e), st.integers(2**52, 2**53 - 1), st.integers(-115, -72))
small = small | small.map(lambda x: -x)
near_zeros = st.integers(-(10**9), 10**9).map(lambda n: n * math.pi / 2)

FUNCTIONS = {
    "exp": (mpmath.exp, modest | wide | small),
    "exp2": (lambda x: mpmath.power(2, x), st.floats(-1100.0, 1100.0) | small),
    "exp10": (lambda x: mpmath.power(10, x), st.floats(-340.0, 340.0) | small),
    "log": (mpmath.log, positive | near_one),
    "log2": (lambda x: mpmath.log(x) / mpmath.log(2), positive | near_one),
    "log10": (lambda x: mpmath.log(x) / mpmath.log(10), positive | near_one),
    "sin": (mpmath.sin, wide | modest | near_zeros | small),
    "cos": (mpmath.cos, wide | modest | near_zeros | small),
    "tan": (mpmath.tan, wide | modest | near_zeros | small),
    "asin": (mpmath.asin, unit | small), "acos": (mpmath.acos, unit | small),
    "atan": (mpmath.atan, wide | modest | small), "sinh": (mpmath.sinh, modest | small),
    "cosh": (mpmath.cosh, modest | small),
    "tanh": (mpmath.tanh, modest | st.floats(-25.0, 25.0) | small),
    "asinh": (mpmath.asinh, wide | modest | small),
    "acosh": (mpmath.acosh, st.floats(1.0, MAX) | near_one.filter(lambda x: x >= 1.0)),
    "atanh": (mpmath.atanh, unit.filter(lambda x: abs(x) < 1.0) | near_one.filter(lambda x: x < 1.0) | small),
}


def rational(value: mpmath.mpf) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    magnitude = Fraction(int(mantissa)) * Fraction(2) ** exponent
    return -magnitude if sign else magnitude


def true_value(function, *arguments: float) -> Fraction:
    with mpmath.workprec(BITS):
        return rational(+function(*map(mpmath.mpf, arguments)))


def assert_tightest_point(got: Interval, value: Fraction) -> None:
    """At most two doubles, neighbours, around `value`; one if `value` is a double (mpmath may miss it by a hair)."""
    slack = abs(value) / 2 ** (BITS - 200)
    for bound, exact in ((got.inf, value), (-got.sup, -value)):
        assert bound == -INF or Fraction(bound) <= exact + slack, (got, float(value))
        above = math.nextafter(bound, INF)
        assert above == INF or Fraction(above) > exact - slack, (got, float(value))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_points(name):
    reference, arguments = FUNCTIONS[name]

    @examples(0.5)
    @given(arguments)
    def check(x):
        got = getattr(iv, name)(Interval(x, x))
        if abs(x) > 800.0 and name == "exp":
            assert got == (Interval(MAX, INF) if x > 0 else Interval(0.0, 5e-324))
        else:
            assert_tightest_point(got, true_value(reference, x))

    check()


@examples()
@given(positive | near_one, st.floats(-60.0, 60.0) | st.integers(-40, 40).map(lambda n: n / 8))
@example(2.25, 1.5)
@example(81.0, 0.25)
@example(81.0, -0.25)
@example(2.0**-600, 1.75)
@example(4.0, -537.0)
@example(1.0000000000000002, 1e18)
def test_pow_at_points(x, y):
    got = iv.pow(Interval(x, x), Interval(y, y))
    if abs(y * math.log2(x)) > 1200.0:
        assert got == (Interval(MAX, INF) if (x > 1.0) == (y > 0.0) else Interval(0.0, 5e-324))
    else:
        assert_tightest_point(got, true_value(mpmath.power, x, y))


@examples(0.5)
@given(st.floats(1e-3, 1e3), st.integers(-3000, 3000))
@example(1.0000000000000002, 10**16)
@example(2.0, -(10**30))
def test_pown_with_large_exponents(x, n):
    got = iv.pown(Interval(x, x), n)
    if abs(n * math.log2(x)) > 1200.0:
        assert got == (Interval(MAX, INF) if (x > 1.0) == (n > 0) else Interval(0.0, 5e-324))
    else:
        assert_tightest_point(got, true_value(lambda base: mpmath.power(base, n), x))


@examples(0.5)
@given(positive, st.integers(-40, 40).filter(lambda n: n != 0))
@example(27.0, 3)
@example(2.0**-1074, -2)
@example(2.0**1020, 340)
def test_roots_at_points(c, n):
    got = iv.pown_rev(Interval(c, c), n, Interval(0.0, INF))
    assert_tightest_point(got, true_value(lambda x: mpmath.exp(mpmath.log(x) / n), c))


@examples(0.5)
@given(positive | st.floats(1e-5, 1e5), (wide | st.floats(-1e5, 1e5)).filter(bool))
@example(5e-324, MAX)
@example(3e-300, 1.0)
@example(3e-300, -1.0)
def test_atan2_at_points(y, x):
    got = iv.atan2(Interval(y, y), Interval(x, x))
    if 0.0 < y / x < 2.0**-40:
        # The angle differs from y/x by less than the reference resolves; y/x itself is exact.
        quotient = Fraction(y) / Fraction(x)
        assert got.inf < quotient <= got.sup
        assert math.nextafter(got.inf, INF) == got.sup
        assert math.nextafter(got.sup, 0.0) < quotient
    else:
        assert_tightest_point(got, true_value(mpmath.atan2, y, x))
    assert iv.atan2(Interval(-y, -y), Interval(x, x)) == -got


# Enclosures that are no representatives, at precisions so low that a wrong error bound shows.
ENCLOSURES = {
    name: (getattr(pointwise, f"{name}_at"), reference, arguments.filter(lambda x: abs(x) > 1e-8))
    for name, (reference, arguments) in FUNCTIONS.items()
    if name not in ("cosh", "tanh")
} | {
    "cosh": (pointwise.cosh_at, mpmath.cosh, modest.filter(lambda x: abs(x) > 1e-8)),
    "tanh": (pointwise.tanh_at, mpmath.tanh, st.floats(1e-3, 20.0)),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ENCLOSURES)
def test_the_error_bounds_of_enclosures(name):
    enclose, reference, arguments = ENCLOSURES[name]

    @examples(0.5)
    @given(arguments, st.integers(70, 140))
    def check(x, p):
        lo, hi, e = enclose(x, p)
        if lo == hi:  # exact, or beyond the doubles
            return
        value = true_value(reference, x) / Fraction(2) ** e
        assert lo < value < hi
        assert (hi - lo) * 2**40 < abs(value) * 2**p  # and the bound is of some use

    check()


@examples(0.5)
@given(st.integers(1, 2**20).map(lambda n: 1.0 + n * 2.0**-52), st.floats(2.0**28, 2.0**40), st.integers(70, 140))
def test_the_error_bound_of_powers_with_large_exponents(x, y, p):
    lo, hi, e = powers.pow_at(x, y, p)
    assert lo < true_value(mpmath.power, x, y) / Fraction(2) ** e < hi


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("sin", 1e22, -0.8522008497671888), ("cos", 1e22, 0.5232147853951389), ("tan", 1e22, -1.6287782256068988),
    ("sin", 6381956970095103.0 * 2.0**797, 1.0),  # the double nearest to a multiple of pi/2 (Muller, 11.3.2)
    ("cos", 6381956970095103.0 * 2.0**797, -4.687165924254627e-19),
])  # fmt: skip
def test_known_values_of_huge_arguments(name, x, expected):
    got = getattr(iv, name)(Interval(x, x))
    assert got.inf <= expected <= got.sup
    assert math.nextafter(got.inf, INF) == got.sup


spread = st.tuples(st.floats(-1e6, 1e6), st.floats(0.0, 8.0), st.floats(0.0, 1.0))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_waves_over_intervals(name):
    reference = getattr(mpmath, name)

    @examples(0.5)
    @given(spread)
    def check(drawn):
        start, width, part = drawn
        x = Interval(start, start + width)
        got = getattr(iv, name)(x)
        inner = x.inf + (x.sup - x.inf) * part
        if inner in x:
            assert true_value(reference, inner) in got
        # An end that is not an extreme of the function is the image of an end of x.
        images = [getattr(iv, name)(Interval(end, end)) for end in (x.inf, x.sup)]
        if name == "tan":
            assert got == ENTIRE or got == Interval(images[0].inf, images[1].sup)
            # A pole is inside if and only if the number of half turns changes.
            with mpmath.workprec(200):
                turns = [mpmath.floor(mpmath.mpf(end) / mpmath.pi + 0.5) for end in (x.inf, x.sup)]
            assert (got == ENTIRE) == (turns[0] != turns[1])
        else:
            assert got.inf == min(image.inf for image in images) or got.inf == -1.0
            assert got.sup == max(image.sup for image in images) or got.sup == 1.0
            with mpmath.workprec(200):
                shift = mpmath.mpf(1) / 4 if name == "sin" else 0
                crests = [mpmath.floor(mpmath.mpf(end) / (2 * mpmath.pi) - shift) for end in (x.inf, x.sup)]
                troughs = [mpmath.floor(mpmath.mpf(end) / (2 * mpmath.pi) - shift - 0.5) for end in (x.inf, x.sup)]
            assert got.sup == (1.0 if crests[0] != crests[1] else max(image.sup for image in images))
            assert got.inf == (-1.0 if troughs[0] != troughs[1] else min(image.inf for image in images))

    check()


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"sin", "cos", "tan", "exp10", "log2", "log10", "atanh"}))
def test_values_between_the_ends(name):
    reference = FUNCTIONS[name][0]
    arguments = unit if name in ("asin", "acos") else st.floats(1.0, 50.0) if name == "acosh" else st.floats(0.0, 50.0)
    if name in ("sinh", "cosh", "tanh", "atan", "asinh", "exp", "exp2"):
        arguments = st.floats(-50.0, 50.0)

    @examples(0.25)
    @given(arguments, arguments, st.floats(0.0, 1.0))
    def check(a, b, part):
        x = Interval(min(a, b), max(a, b))
        inner = x.inf + (x.sup - x.inf) * part
        if inner in x and not (name == "log" and inner == 0.0):
            assert true_value(reference, inner) in getattr(iv, name)(x)

    check()


@examples(0.5)
@given(st.floats(0.0, 20.0), st.floats(0.0, 20.0), st.floats(-9.0, 9.0), st.floats(-9.0, 9.0), unit, unit)
def test_pow_over_boxes(a, b, c, d, part, other):
    x, y = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    base = x.inf + (x.sup - x.inf) * abs(part)
    exponent = y.inf + (y.sup - y.inf) * abs(other)
    if base > 0.0 and base in x and exponent in y and abs(exponent * math.log2(base)) < 900.0:
        assert true_value(mpmath.power, base, exponent) in iv.pow(x, y)


@pytest.mark.parametrize(("x", "y", "expected"), [
    (Interval(1, 1), ENTIRE, Interval(1, 1)), (Interval(0, 1), Interval(0, INF), Interval(0, 1)),
    (Interval(1, 2), Interval(-INF, 0), Interval(0, 1)), (Interval(0, 0), Interval(0, 0), EMPTY),
    (Interval(0, 0), Interval(-1, 1), Interval(0, 0)), (Interval(-3, 0), Interval(2, 2), Interval(0, 0)),
    (Interval(-3, -1), Interval(2, 2), EMPTY), (Interval(-3, 2), Interval(0, 0), Interval(1, 1)),
    (Interval(-3, 4), Interval(0.5, 0.5), Interval(0, 2)),
    (Interval(4, 4), Interval(-0.5, -0.5), Interval(0.5, 0.5)),
    (Interval(0, INF), Interval(-1, -1), Interval(0, INF)),
    (ENTIRE, ENTIRE, Interval(0, INF)),
    (EMPTY, ENTIRE, EMPTY),
])  # fmt: skip
def test_pow_at_edges(x, y, expected):
    assert iv.pow(x, y) == expected


# Reverse functions ----------------------------------------------------------------------------------------------------

windows = st.tuples(st.floats(-1e3, 1e3) | wide, st.floats(0.0, 20.0), st.floats(0.0, 1.0))
REVERSE = {"sin": iv.sin_rev, "cos": iv.cos_rev, "tan": iv.tan_rev, "cosh": iv.cosh_rev}


@pytest.mark.parametrize("name", REVERSE)
def test_reverse_functions_keep_a_witness(name):
    @examples()
    @given(windows, st.floats(0.0, 1.0))
    def check(window, width):
        start, length, part = window
        x = Interval(start, start + length)
        witness = x.inf + (x.sup - x.inf) * part
        if witness not in x:
            return
        image = getattr(iv, name)(Interval(witness, witness))
        assert witness in REVERSE[name](image, x)
        assert witness in REVERSE[name](image)
        assert witness in REVERSE[name](iv.convex_hull(image, image + width), x)
        assert iv.subset(REVERSE[name](image, x), x)

    check()


@pytest.mark.parametrize("name", REVERSE)
def test_reverse_functions_end_at_the_image(name):
    """An end that was moved inward maps to an end of `c`: no removable value remains."""
    function = getattr(iv, name)

    @examples(0.5)
    @given(st.floats(-300.0, 300.0), st.floats(0.0, 9.0), st.floats(-3.0, 3.0), st.floats(0.0, 2.0))
    def check(start, length, low, width):
        x, c = Interval(start, start + length), Interval(low, low + width)
        got = REVERSE[name](c, x)
        if got == EMPTY:
            # No point of x is certainly in c. (An image may touch c by its rounding: cos(1e-61) lies below 1.)
            for k in range(13):
                inner = x.inf + (x.sup - x.inf) * k / 12
                assert inner not in x or not iv.subset(function(Interval(inner, inner)), c)
            return
        for moved, neighbour in ((got.inf, math.nextafter(got.inf, INF)), (got.sup, math.nextafter(got.sup, -INF))):
            if moved not in (x.inf, x.sup):
                step = Interval(min(moved, neighbour), max(moved, neighbour))
                image = function(step)
                edges = (c.inf, c.sup) if name != "tan" else (c.inf, c.sup, INF)
                assert any(edge in image for edge in edges) or image == ENTIRE, (got, moved, image)

    check()


@pytest.mark.parametrize(("reverse", "c", "x", "expected"), [
    (iv.sin_rev, Interval(0, 0), Interval(-1, 1), Interval(0, 0)),
    (iv.sin_rev, Interval(1e-300, 0.5), Interval(0, 1), Interval(1e-300, 0.5235987755982989)),
    (iv.sin_rev, Interval(0.5, 0.5), Interval(-INF, INF), ENTIRE),
    (iv.sin_rev, Interval(-2, 2), Interval(1, 2), Interval(1, 2)),
    (iv.sin_rev, Interval(-2, 2), EMPTY, EMPTY),
    (iv.sin_rev, Interval(1, 5), Interval(0, INF), Interval(1.5707963267948966, INF)),
    (iv.sin_rev, Interval(-5, -1), Interval(-INF, 0), Interval(-INF, -1.5707963267948966)),
    (iv.cos_rev, Interval(1, 1), Interval(-1, 1), Interval(0, 0)),
    (iv.cos_rev, Interval(1, 1), Interval(0.5, 6), EMPTY),
    (iv.cos_rev, Interval(-1, -1), Interval(0, 4), Interval(3.141592653589793, 3.1415926535897936)),
    (iv.tan_rev, Interval(0, INF), Interval(-1, 1), Interval(0, 1)),
    (iv.tan_rev, Interval(-INF, 0), Interval(0.5, 3), Interval(1.5707963267948966, 3)),
    (iv.tan_rev, ENTIRE, Interval(1, 2), Interval(1, 2)),
    (iv.cosh_rev, Interval(-5, 0.5), ENTIRE, EMPTY),
    (iv.cosh_rev, Interval(-5, 1), ENTIRE, Interval(0, 0)),
    (iv.cosh_rev, Interval(1, INF), Interval(-3, INF), Interval(-3, INF)),
])  # fmt: skip
def test_reverse_functions_at_edges(reverse, c, x, expected):
    assert reverse(c, x) == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_reverse_functions_near_the_multiples_of_half_pi(name):
    function = getattr(iv, name)
    for k in range(1, 4097, 19):
        for beside in (-1e-3, -1e-5, -1e-7, 1e-4):
            start = k * math.pi / 2 + beside
            image = function(Interval(start, start))
            assert REVERSE[name](image, Interval(start, start + 1.0)).inf == start
            assert REVERSE[name](image, Interval(start - 1.0, start)).sup == start


def test_reverse_functions_on_huge_intervals():
    x = Interval(1e300, math.nextafter(1e300, INF))  # many periods between two doubles
    assert iv.sin_rev(Interval(0.5, 0.5), x) == x
    assert iv.tan_rev(Interval(1e9, 1e9), x) == x
    point = Interval(1e300, 1e300)
    assert iv.sin_rev(iv.sin(point), point) == point
    assert iv.sin_rev(Interval(0.0, 1.0), point) == EMPTY  # sin(1e300) is about -0.818
