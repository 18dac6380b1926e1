"""The interval type: construction, membership, equality, operators, copies."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ivjoin import interval as iv
from ivjoin.errors import IvjoinError
from ivjoin.interval import EMPTY, ENTIRE, Interval

INF = math.inf


@pytest.mark.parametrize(("inf", "sup", "message"), [
    pytest.param(2.0, 1.0, r"Interval\(2.0, 1.0\).*did you mean Interval\(1.0, 2.0\)", id="reversed"),
    pytest.param(math.nan, 1.0, r"Interval\(nan, 1.0\).*NaN", id="nan-inf"),
    pytest.param(1.0, math.nan, r"Interval\(1.0, nan\).*NaN", id="nan-sup"),
    pytest.param(INF, INF, r"Interval\(inf, inf\).*only real numbers", id="inf-is-plus-infinity"),
    pytest.param(-INF, -INF, r"Interval\(-inf, -inf\).*only real numbers", id="sup-is-minus-infinity"),
    pytest.param(INF, -INF, r"EMPTY", id="reversed-infinities"),
    pytest.param(2**53 + 1, 2**53, r"did you mean", id="ints-that-round-into-order"),
    pytest.param(2**53 + 1, 2.0**53, r"did you mean", id="int-and-float-that-round-into-order"),
    pytest.param(Fraction(1, 3), Decimal("0.333"), r"did you mean", id="fraction-and-decimal"),
    pytest.param(10**400, 1, r"did you mean", id="int-beyond-the-doubles"),
    pytest.param(Decimal("NaN"), 1, r"NaN", id="decimal-nan"),
])  # fmt: skip
def test_endpoints_that_make_no_interval(inf, sup, message):
    with pytest.raises(IvjoinError, match=message) as caught:
        Interval(inf, sup)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("endpoint", ["1", None, 1j, b"1"])
def test_endpoints_of_another_type(endpoint):
    with pytest.raises(TypeError, match=type(endpoint).__name__):
        Interval(endpoint, 2.0)


exact_numbers = (
    st.integers()
    | st.integers(min_value=-(2**1100), max_value=2**1100)
    | st.fractions()
    | st.decimals(allow_nan=False, allow_infinity=False)
)


@given(exact_numbers)
@example(Fraction(2**200 + 1, 2**200))
@example(-Fraction(2**200 + 1, 2**200))
@example(2**200 + 1)
@example(Fraction(1, 2**1080))
def test_a_number_is_rounded_outward_and_no_further(number):
    interval = Interval(number, number)
    assert number in interval
    assert interval.inf == interval.sup or math.nextafter(interval.inf, INF) == interval.sup
    # Of two neighbours, neither may be the number itself.
    assert (interval.inf == interval.sup) == (number in (interval.inf, interval.sup))


def test_integers_beyond_the_doubles():
    assert Interval(2**53 + 1, 2**53 + 1) == Interval(2.0**53, 2.0**53 + 2)
    assert Interval(10**400, 10**400) == Interval(sys.float_info.max, INF)
    assert Interval(-(10**400), 0) == Interval(-INF, 0.0)


def test_signed_zeros_are_one_endpoint():
    plain, signed = Interval(0.0, 0.0), Interval(-0.0, -0.0)
    assert plain == signed
    assert hash(plain) == hash(signed)
    assert repr(plain) == repr(signed) == "Interval(0.0, 0.0)"
    # The standard's numeric functions return -0 below and +0 above.
    assert math.copysign(1.0, iv.inf(plain)) == -1.0
    assert math.copysign(1.0, iv.sup(signed)) == 1.0


def test_the_empty_set_and_the_line():
    assert (EMPTY.inf, EMPTY.sup) == (INF, -INF)
    assert (ENTIRE.inf, ENTIRE.sup) == (-INF, INF)
    assert Interval(-INF, INF) == ENTIRE
    assert EMPTY != ENTIRE
    assert repr(EMPTY) == "EMPTY"


@pytest.mark.parametrize("name", ["inf", "sup", "mid"])
def test_an_interval_does_not_change(name):
    interval = Interval(1, 2)
    with pytest.raises(AttributeError, match="immutable"):
        setattr(interval, name, 3.0)
    with pytest.raises(AttributeError, match="immutable"):
        del interval.inf
    assert interval == Interval(1, 2)
    assert not hasattr(interval, "__dict__")


@pytest.mark.parametrize("interval", [Interval(1, 2), Interval(-INF, 0), EMPTY, ENTIRE], ids=repr)
def test_copies(interval):
    for twin in (copy.copy(interval), copy.deepcopy(interval), pickle.loads(pickle.dumps(interval))):
        assert twin == interval
        assert hash(twin) == hash(interval)


@pytest.mark.parametrize(("interval", "number", "expected"), [
    (Interval(1, 2), 1, True), (Interval(1, 2), 2.0, True), (Interval(1, 2), math.nextafter(2.0, 3.0), False),
    (Interval(1, 2), Fraction(4, 3), True), (Interval(0.1, 0.1), Fraction(1, 10), False),
    (Interval(0.1, 0.2), Decimal("0.1"), False),  # the double 0.1 is above one tenth
    (Interval(0.1, 0.1), np.float32(0.1), False),  # numpy would compare in float32, and find them equal
    (Interval(0.1, 0.1), np.float64(0.1), True), (Interval(0, 2.0**53), 2**53 + 1, False),
    (Interval(0, 10), np.int64(10), True), (ENTIRE, 10**400, True), (ENTIRE, INF, False), (ENTIRE, -INF, False),
    (ENTIRE, math.nan, False), (ENTIRE, Decimal("Infinity"), False), (ENTIRE, Decimal("NaN"), False), (EMPTY, 0, False),
    (EMPTY, INF, False),
])  # fmt: skip
def test_membership(interval, number, expected):
    assert (number in interval) is expected
    assert iv.contains(interval, number) is expected
    assert iv.is_member(number, interval) is expected


def test_membership_of_other_objects_than_numbers():
    with pytest.raises(TypeError, match="str"):
        iv.contains(ENTIRE, "1")


def test_operators():
    x, y = Interval(1, 2), Interval(-3, 4)
    assert x + y == iv.add(x, y)
    assert x - y == iv.sub(x, y)
    assert x * y == iv.mul(x, y)
    assert y / x == iv.div(y, x)
    assert -y == iv.neg(y) == Interval(-4, 3)
    assert +y is y
    assert abs(y) == iv.abs(y) == Interval(0, 4)


@pytest.mark.parametrize("two", [2, 2.0, Fraction(2), Decimal(2), np.float64(2), np.int32(2)], ids=lambda v: repr(v))
def test_operators_with_a_number_on_either_side(two):
    x = Interval(1, 4)
    assert x + two == two + x == Interval(3, 6)
    assert x - two == Interval(-1, 2)
    assert two - x == Interval(-2, 1)
    assert x * two == two * x == Interval(2, 8)
    assert x / two == Interval(0.5, 2)
    assert two / x == Interval(0.5, 2)


def test_a_number_in_an_operation_keeps_its_value():
    assert Fraction(1, 3) in Interval(0, 0) + Fraction(1, 3)
    assert 2**53 + 1 in Interval(0, 0) + (2**53 + 1)


def test_operators_with_other_objects_than_numbers():
    for attempt in (lambda: Interval(1, 2) + "1", lambda: None * Interval(1, 2), lambda: [] - Interval(1, 2)):
        with pytest.raises(TypeError):
            attempt()
    assert Interval(1, 1) != 1
    assert Interval(1, 1) != "Interval(1.0, 1.0)"


def test_nothing_heavy_is_imported():
    heavy = ("numpy", "mpmath", "sympy", "pyarrow", "numba")
    code = f"import sys, ivjoin.interval; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_exists():
    assert sorted(name for name in iv.__all__ if not hasattr(iv, name)) == []
