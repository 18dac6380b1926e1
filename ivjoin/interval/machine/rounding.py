"""Directed rounding of the basic operations on doubles, obtained from round-to-nearest.

``x_down`` is the largest double not above the exact result, ``x_up`` the smallest not below it. An error-free transform
gives the sign of the rounding error, and a result on the wrong side moves to its neighbour. If the transform could
overflow or lose subnormal bits, the operation is repeated in integers.

Sources: Knuth's TwoSum and Dekker's TwoProd with Veltkamp's splitting (Muller et al., *Handbook of Floating-Point
Arithmetic*, 2nd ed., sections 4.3, 4.4; 4.4.2 for the ranges in which TwoProd is exact).

Operands are endpoints: no operand is NaN, ``inf - inf`` does not arise, and ``0 * inf`` counts as 0.
"""

from __future__ import annotations

import math
from math import frexp, isqrt, ldexp, nextafter

from ivjoin.errors import IvjoinError

__all__ = [
    "MAX",
    "FloatModeError",
    "add_down",
    "add_up",
    "check_float_mode",
    "div_down",
    "div_up",
    "fma_down",
    "fma_up",
    "mul_down",
    "mul_up",
    "ratio",
    "scaled",
    "significand",
    "sqrt_down",
    "sqrt_up",
]

INF = math.inf
MAX = 1.7976931348623157e308

# TwoProd is exact when the product stays above 2**-960 (its error term is then representable) and the operands
# below 2**990 (the splitting does not overflow).
_PRODUCT_FLOOR = 2.0**-960
_FACTOR_CEILING = 2.0**990
_SPLITTER = 134217729.0  # 2**27 + 1


class FloatModeError(IvjoinError):
    """The processor does not round to nearest, or flushes subnormal numbers to zero."""


def check_float_mode() -> None:
    """Raise FloatModeError unless doubles round to nearest and subnormal numbers survive.

    A library built with fast-math flags can change either for the whole process, and every bound would then be wrong.
    """
    # The operands are parsed from strings, because the compiler folds arithmetic on literals into the bytecode.
    one, third, tenth = float("1"), float("3"), float("1e-16")
    nearest = (
        one + tenth == one
        and -one - tenth == -one
        and one + float("1.2e-16") == nextafter(one, INF)
        and one / third == float.fromhex("0x1.5555555555555p-2")
        and float("5") / -third == float.fromhex("-0x1.aaaaaaaaaaaabp+0")
    )
    if not nearest:
        raise FloatModeError(
            "floating-point arithmetic does not round to nearest, so interval bounds would be wrong; expected "
            f"1/3 = 0x1.5555555555555p-2, got {(one / third).hex()}. A native library has probably left another "
            "rounding mode set: restore it with fesetround(FE_TONEAREST) before importing ivjoin.interval"
        )
    smallest_normal = float.fromhex("0x1p-1022")
    half = smallest_normal / float("2")
    # Compared through hex(), since a processor that reads subnormals as zero would also compare them as zero.
    if half.hex() != "0x0.8000000000000p-1022" or (half + half).hex() != "0x1.0000000000000p-1022":
        raise FloatModeError(
            "floating-point arithmetic flushes subnormal numbers to zero, so interval bounds would be wrong; expected "
            f"0x1p-1022 / 2 = 0x0.8p-1022, got {half.hex()}. A library built with -ffast-math has probably set "
            "FTZ/DAZ: import it after ivjoin, or use a build without that flag"
        )


check_float_mode()


def significand(x: float) -> tuple[int, int]:
    """Give integers ``(m, e)`` with ``x == m * 2**e`` exactly, for a finite `x`."""
    fraction, exponent = frexp(x)
    return int(fraction * 9007199254740992.0), exponent - 53


def scaled(n: int, e: int, up: bool) -> float:
    """Round ``n * 2**e`` to a double, upward or downward. The value may be outside the range of doubles."""
    if n < 0:
        return -scaled(-n, e, not up)
    drop = max(n.bit_length() - 53, -1074 - e)
    if drop > 0:
        kept = n >> drop
        if up and kept << drop != n:
            kept += 1
        n, e = kept, e + drop
    try:
        return ldexp(float(n), e)
    except OverflowError:
        return INF if up else MAX


def ratio(numerator: int, denominator: int, up: bool) -> float:
    """Round the quotient of two integers to a double, upward or downward; `denominator` is positive."""
    shift = max(0, 64 + denominator.bit_length() - numerator.bit_length())
    quotient, rest = divmod(numerator << shift, denominator)
    # A sticky last bit makes the rounding direction right without the remaining digits.
    return scaled(quotient << 1 | (rest != 0), -shift - 1, up)


def _fma_exactly(a: float, b: float, c: float, up: bool) -> float:
    product = 0.0 if a == 0.0 or b == 0.0 else a * b
    if math.isinf(a) or math.isinf(b) or math.isinf(c):
        return c if math.isinf(c) else (product if product != 0.0 else c)
    (ma, ea), (mb, eb), (mc, ec) = significand(a), significand(b), significand(c)
    n, e = ma * mb, ea + eb
    if n == 0:
        return c
    if mc:
        low = min(e, ec)
        n, e = (n << (e - low)) + (mc << (ec - low)), low
    return scaled(n, e, up)


def add_down(a: float, b: float) -> float:
    s = a + b
    t = s - a
    e = (a - (s - t)) + (b - t)
    if -INF < e < INF:
        return s if e >= 0.0 else nextafter(s, -INF)
    return _fma_exactly(1.0, a, b, False)


def add_up(a: float, b: float) -> float:
    return -add_down(-a, -b) + 0.0  # not -0.0


def _product_error_split(a: float, b: float, p: float) -> float:
    """Return the exact ``a * b - p`` for the rounded product `p`, by Veltkamp and Dekker."""
    t = _SPLITTER * a
    ah = t - (t - a)
    al = a - ah
    t = _SPLITTER * b
    bh = t - (t - b)
    bl = b - bh
    return al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def _product_error_fma(a: float, b: float, p: float) -> float:
    """Return the exact ``a * b - p`` for the rounded product `p`, by a fused multiply-add."""
    return math.fma(a, b, -p)  # type: ignore[attr-defined, no-any-return, unused-ignore]


# math.fma came with Python 3.13.
_product_error = _product_error_fma if hasattr(math, "fma") else _product_error_split


def mul_down(a: float, b: float) -> float:
    """Return ``a * b`` rounded down; 0 times infinity is 0."""
    p = a * b
    if (
        -_FACTOR_CEILING < a < _FACTOR_CEILING
        and -_FACTOR_CEILING < b < _FACTOR_CEILING
        and (_PRODUCT_FLOOR < p < INF or -INF < p < -_PRODUCT_FLOOR)
    ):
        return p if _product_error(a, b, p) >= 0.0 else nextafter(p, -INF)
    return _fma_exactly(a, b, 0.0, False)


def mul_up(a: float, b: float) -> float:
    """Return ``a * b`` rounded up; 0 times infinity is 0."""
    return -mul_down(-a, b) + 0.0


def _div(a: float, b: float, up: bool) -> float:
    if a == 0.0:
        return 0.0
    q = a / b
    if (
        2.0**-900 < (a if a > 0.0 else -a) < _FACTOR_CEILING  # so q * b, which is close to a, is above the floor
        and -_FACTOR_CEILING < b < _FACTOR_CEILING
        and -_FACTOR_CEILING < q < _FACTOR_CEILING
    ):
        p = q * b
        # p is between a / 2 and 2 a, so a - p is exact (Sterbenz), and rest has the sign of the remainder a - q * b.
        rest = (a - p) - _product_error(q, b, p)
        if rest == 0.0:
            return q
        above = (rest > 0.0) == (b > 0.0)  # the exact quotient is above q
        if above is up:
            return nextafter(q, INF if up else -INF)
        return q
    if math.isinf(a) or math.isinf(b):
        return q
    (ma, ea), (mb, eb) = significand(a), significand(b)
    if mb < 0:
        ma, mb = -ma, -mb
    e = ea - eb
    return ratio(ma << e, mb, up) if e >= 0 else ratio(ma, mb << -e, up)


def div_down(a: float, b: float) -> float:
    """Return ``a / b`` rounded down, for `b` other than 0 and not both infinite."""
    return _div(a, b, False)


def div_up(a: float, b: float) -> float:
    """Return ``a / b`` rounded up, for `b` other than 0 and not both infinite."""
    return _div(a, b, True)


def _sqrt(x: float, up: bool) -> float:
    if x == 0.0 or x == INF:
        return x
    m, e = significand(x)
    if e & 1:
        m, e = m << 1, e - 1
    # The integer root has 58 bits or more, five more than a double holds.
    m, e = m << 64, e - 64
    root = isqrt(m)
    return scaled(root << 1 | (root * root != m), e // 2 - 1, up)


def sqrt_down(x: float) -> float:
    """Return the square root of ``x >= 0`` rounded down."""
    return _sqrt(x, False)


def sqrt_up(x: float) -> float:
    """Return the square root of ``x >= 0`` rounded up."""
    return _sqrt(x, True)


def fma_down(a: float, b: float, c: float) -> float:
    """Return ``a * b + c`` rounded down once; 0 times infinity is 0."""
    return _fma_exactly(a, b, c, False)


def fma_up(a: float, b: float, c: float) -> float:
    """Return ``a * b + c`` rounded up once; 0 times infinity is 0."""
    return _fma_exactly(a, b, c, True)
