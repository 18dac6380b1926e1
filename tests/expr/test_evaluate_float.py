"""Rounding and casts of floats and decimals against exact arithmetic."""

from __future__ import annotations

import math
import random
import struct
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evaluating import ERROR, answers, col, same

from ivjoin.expr import types as ty
from ivjoin.expr.nodes import make

WIDE = Context(prec=1200)
X = col("x", pa.float64())


def doubles(seed: int) -> list[float]:
    """Random bit patterns, money, halves and their neighbours, whole numbers about 2**53."""
    rng = random.Random(seed)
    out = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(300)]
    for _ in range(600):
        tie = (rng.randint(-(10**6), 10**6) * 2 + 1) / 2 / 10 ** rng.randint(0, 6)
        out += [tie, math.nextafter(tie, math.inf), math.nextafter(tie, -math.inf), round(rng.uniform(-1000, 1000), 3)]
    out += [2.0**53 + d for d in range(-4, 5)] + [2.0**52 + d / 2 for d in range(-4, 5)]
    return [*out, math.inf, -math.inf, math.nan, 0.0, 5e-324, 1.7976931348623157e308]


def by_text(x: float, digits: int, even: bool) -> float:
    if not math.isfinite(x):
        return x
    grain = Decimal(1).scaleb(-digits, WIDE)
    return float(Decimal(repr(x)).quantize(grain, ROUND_HALF_EVEN if even else ROUND_HALF_UP, WIDE))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("digits", [0, 1, 2, 3, 6, 15, 22, 23, 300, -1, -3, -20, -400])
@pytest.mark.parametrize("op", ["round", "bround"])
def test_doubles_round_as_their_text(op: str, digits: int) -> None:
    values = doubles(digits)
    got = answers(make(op, (X,), (digits,), ty.FLOAT64), {"x": pa.array(values)})
    assert same(got, [by_text(v, digits, op == "bround") for v in values])


@pytest.mark.parametrize("digits", [0, 2])
def test_float32_rounds_as_the_double_it_is(digits: int) -> None:
    with np.errstate(over="ignore"):
        values = np.array(doubles(1)).astype(np.float32)
    node = make("round", (col("x", pa.float32()),), (digits,), ty.FLOAT32)
    want = [float(np.float32(by_text(float(v), digits, False))) for v in values]
    assert same(answers(node, {"x": pa.array(values)}), want)


INTS = [ty.INT8, ty.INT16, ty.INT32, ty.INT64, ty.UINT8, ty.UINT16, ty.UINT32, ty.UINT64]


@pytest.mark.parametrize("t", INTS, ids=str)
def test_casts_to_integers_cut(t: ty.Type) -> None:
    low, high = t.limits
    ends = [float(low), float(high), float(low) - 1, float(high) + 1, float(low) - 0.5, float(high) + 0.5]
    ends += [math.nextafter(v, s) for v in ends for s in (math.inf, -math.inf)]
    values = [*ends, *doubles(9), 0.9, -0.9, -0.0]

    def want(x: float) -> Any:
        if not math.isfinite(x):
            return ERROR
        if float(high) == x and t == ty.INT64:  # Java's comparison of a long with a double lets 2**63 pass
            return high
        return int(x) if low <= int(x) <= high else ERROR

    got = answers(make("cast", (X,), (t, "UTC"), t), {"x": pa.array(values)})
    assert got == [want(x) for x in values]
    whole = answers(make("floor", (X,), (), ty.INT64), {"x": pa.array(values)})
    low, high = ty.INT64.limits
    assert whole == [0 if x != x else math.floor(x) if math.isfinite(x) and low <= math.floor(x) <= high else ERROR
        for x in values]


@pytest.mark.parametrize("t", [ty.decimal(5, 2), ty.decimal(18, 6), ty.decimal(38, 10), ty.decimal(38, 38)], ids=str)
def test_casts_to_decimals_go_through_the_text(t: ty.Type) -> None:
    values = doubles(4)

    def want(x: float) -> Any:
        if not math.isfinite(x):
            return None
        n = int(Decimal(repr(x)).scaleb(t.scale, WIDE).quantize(Decimal(1), ROUND_HALF_UP, WIDE))
        return n if abs(n) < 10**t.precision else ERROR

    assert answers(make("cast", (X,), (t, "UTC"), t), {"x": pa.array(values)}) == [want(x) for x in values]


def decimals(t: pa.Decimal128Type, seed: int) -> tuple[pa.Array, list[int]]:
    rng = random.Random(seed)
    top = 10**t.precision - 1
    unscaled = [rng.randint(-top, top) // 10 ** rng.randint(0, t.precision) for _ in range(500)] + [top, -top, 0]
    unscaled += [v * 10**t.scale for v in (2**24 + 1, 2**53 + 1, 33554435) if v * 10**t.scale <= top]
    # Just past the middle of two floats, by less than a double can tell.
    unscaled += [v for v in ((2**24 + 1) * 10**t.scale + 1, (2**24 + 1) * 10**t.scale - 1,
        (2**24 + 3) * 10**t.scale + 1) if v <= top]
    return pa.array([Decimal(v).scaleb(-t.scale, WIDE) for v in unscaled], t), unscaled


def nearest_float32(x: Fraction) -> float:
    """By exact comparison with the neighbours of a first guess."""
    guess = np.float32(x.numerator / x.denominator)
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    even = {float(v): int(v.view(np.int32)) & 1 for v in near}
    return min((abs(Fraction(float(v)) - x), even[float(v)], float(v)) for v in near)[2]


@pytest.mark.parametrize("t", [pa.decimal128(9, 2), pa.decimal128(18, 0), pa.decimal128(18, 9),
    pa.decimal128(38, 18)], ids=str)
def test_decimals_become_the_nearest_float(t: pa.Decimal128Type) -> None:
    array, unscaled = decimals(t, t.scale)
    exact = [Fraction(v, 10**t.scale) for v in unscaled]
    x = col("x", t)
    got = answers(make("cast", (x,), (ty.FLOAT64, "UTC"), ty.FLOAT64), {"x": array})
    assert got == [v.numerator / v.denominator for v in exact]
    got = answers(make("cast", (x,), (ty.FLOAT32, "UTC"), ty.FLOAT32), {"x": array})
    assert got == [nearest_float32(v) for v in exact]


@pytest.mark.parametrize("t", [pa.int64(), pa.uint64()], ids=str)
def test_integers_become_the_nearest_float(t: pa.DataType) -> None:
    rng = random.Random(8)
    top = 2**63 - 1
    values = [rng.randint(0, top) >> rng.randint(0, 62) for _ in range(500)] + [top, 2**53 + 1, 2**24 + 1,
        2**60 + 2**36 + 1]
    x = col("x", t)
    got = answers(make("cast", (x,), (ty.FLOAT64, "UTC"), ty.FLOAT64), {"x": pa.array(values, t)})
    assert got == [float(v) for v in values]
    got = answers(make("cast", (x,), (ty.FLOAT32, "UTC"), ty.FLOAT32), {"x": pa.array(values, t)})
    assert got == [nearest_float32(Fraction(v)) for v in values]


def test_division_by_zero_of_either_sign_errs() -> None:
    x = pa.array([1.0, -1.0, 0.0, math.nan, None, 2.0])
    y = pa.array([0.0, -0.0, 0.0, 0.0, 0.0, 4.0])
    for op in ("div", "mod", "pmod"):
        got = answers(make(op, (X, col("y", y.type)), (), ty.FLOAT64), {"x": x, "y": y})
        assert got[:5] == [ERROR] * 4 + [None] and got[5] == (0.5 if op == "div" else 2.0)
        zero = make("literal", (), (-0.0,), ty.FLOAT64)
        assert answers(make(op, (X, zero), (), ty.FLOAT64), {"x": x}) == [ERROR] * 4 + [None, ERROR]


def test_logarithms_of_what_is_not_positive_are_null() -> None:
    x = pa.array([0.0, -0.0, -1.0, math.nan, 1.0, None])
    for op in ("ln", "log10", "log2"):
        got = answers(make(op, (X,), (), ty.FLOAT64), {"x": x})
        assert same(got, [None, None, None, math.nan, 0.0, None])
    assert same(answers(make("log1p", (X,), (), ty.FLOAT64), {"x": x}),
        [0.0, -0.0, None, math.nan, math.log1p(1), None])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="this machine has no longer floats than doubles")
def test_cube_roots_of_cubes_are_whole() -> None:
    """Some libraries of doubles, by the processor, find 3.0000000000000004 for 27."""
    whole = [*range(-1000, 1001), 2**17, -(2**17)]
    assert answers(make("cbrt", (X,), (), ty.FLOAT64), {"x": pa.array([float(v**3) for v in whole])}) == whole
    rng = random.Random(1)
    given = [math.ldexp(rng.uniform(-1, 1), rng.randint(-300, 300)) for _ in range(2000)]
    for x, root in zip(given, answers(make("cbrt", (X,), (), ty.FLOAT64), {"x": pa.array(given)}), strict=True):
        exact, step = Fraction(x), Fraction(math.ulp(root)) * Fraction(1002, 1000)  # rounded twice, to 64 bits first
        assert (Fraction(root) - step / 2) ** 3 <= exact <= (Fraction(root) + step / 2) ** 3
    assert same(
        answers(make("cbrt", (X,), (), ty.FLOAT64), {"x": pa.array([math.inf, -math.inf, math.nan, -0.0, None])}),
        [math.inf, -math.inf, math.nan, -0.0, None],
    )
