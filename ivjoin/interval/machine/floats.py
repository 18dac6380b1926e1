"""Intervals of floating-point numbers as the machine computes with them: rounded to nearest, infinities included.

An interval is two doubles ``lo <= hi``. NaN is not a member. The functions ``*_nan`` return whether an operation can
produce a NaN. -0.0 and 0.0 are one number, as in Spark's order.

Rounding to nearest is monotone, so the rounded results of the corners are exact bounds. Backward, the rounded operation
is inverted: a result in [c, d] comes from reals between the midpoints below c and above d, inverted with outward
rounding (C. Michel, "Exact projection functions for floating point number constraints", 2002). A last step moves the
bound inward while the operation itself refutes it.

The format is a parameter: binary64, binary32, or binary16 for exhaustive tests. An operation on doubles, rounded once
more to a format of at most 25 digits, is the operation of that format.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from math import inf, nextafter

from ivjoin.interval.machine.pairs import EMPTY, Pair, abs_, abs_rev, by_sign, hull, meet, neg
from ivjoin.interval.machine.rounding import add_down, div_down, div_up, mul_down, mul_up, sqrt_down, sqrt_up

__all__ = [
    "BINARY16", "BINARY32", "BINARY64", "EMPTY", "Format", "abs_", "abs_rev", "add", "add_nan", "add_rev", "div",
    "div_nan", "div_rev_dividend", "div_rev_divisor", "hull", "meet", "mul", "mul_nan", "mul_rev", "neg", "sqr",
    "sqr_rev",
]  # fmt: skip

ENTIRE: Pair = (-inf, inf)


class Format:
    """A binary format of IEEE 754 with 16, 32 or 64 bits; ``tiny`` is the smallest positive (subnormal) number."""

    __slots__ = ("_code", "_float", "_int", "bits", "half_top", "max", "tiny")

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._float, self._int = {16: ("<e", "<h"), 32: ("<f", "<i"), 64: ("<d", "<q")}[bits]
        digits, top = {16: (11, 16), 32: (24, 128), 64: (53, 1024)}[bits]
        self.max = math.ldexp(2.0 - math.ldexp(2.0, -digits), top - 1)
        self.tiny = math.ldexp(1.0, 3 - top - digits)
        # Real numbers from max + half_top on are rounded to infinity.
        self.half_top = math.ldexp(1.0, top - 1 - digits)

    def near(self, x: float) -> float:
        """Return ``x`` rounded to nearest, ties to even."""
        if self.bits == 64 or x - x != 0.0:
            return x
        try:
            y: float = struct.unpack(self._float, struct.pack(self._float, x))[0]
            return y
        except OverflowError:
            return inf if x > 0 else -inf

    def up(self, x: float) -> float:
        """Return the next number above a double, of the format or not; inf stays."""
        if self.bits == 64:
            return nextafter(x, inf)
        y = self.near(x)
        if y > x or y == inf:
            return y
        if y == -inf:
            return -self.max
        if y == 0.0:
            return self.tiny
        n: int = struct.unpack(self._int, struct.pack(self._float, y))[0]
        # Read as an int, the magnitude counts up, whatever the sign.
        n += 1 if y > 0 else -1
        y = struct.unpack(self._float, struct.pack(self._int, n))[0]
        return y

    def down(self, x: float) -> float:
        """Return the next number below a double, of the format or not; -inf stays."""
        return -self.up(-x)

    def floor(self, x: float) -> float:
        """Return the largest number not above a double."""
        if self.bits == 64:
            return x
        y = self.near(x)
        return y if y <= x else self.down(y)

    def ceil(self, x: float) -> float:
        """Return the smallest number not below a double."""
        return -self.floor(-x)

    def cell_low(self, c: float) -> float:
        """Return a double at or below every real number that is rounded to ``c`` or above."""
        if c == -inf:
            return c
        if c == inf:
            # Beyond the greatest binary64 number, a double cannot be the tie.
            return self.max if self.bits == 64 else self.max + self.half_top
        p = self.down(c)
        return add_down(c, -self.half_top if p == -inf else (p - c) / 2 if c - p > 5e-324 else -5e-324)

    def cell_high(self, d: float) -> float:
        """Return a double at or above every real number that is rounded to ``d`` or below."""
        return -self.cell_low(-d)


BINARY16, BINARY32, BINARY64 = Format(16), Format(32), Format(64)


def _outward(f: Format, lo: float, hi: float) -> Pair:
    return (f.floor(lo), f.ceil(hi)) if lo <= hi else EMPTY


def _inward(f: Format, test: Callable[[float], bool], x: float, up: bool) -> float:
    """Move a bound inward by a few numbers at most, while the operation itself refutes them."""
    for _ in range(3):
        if test(x):
            break
        y = f.up(x) if up else f.down(x)
        if y == x:
            break
        x = y
    return x


# Sums


def add(f: Format, a: Pair, b: Pair) -> Pair:
    """Return ``a + b``; (-inf) + inf gives no number."""
    lo, hi = a[0] + b[0], a[1] + b[1]
    if lo == lo and hi == hi:
        return f.near(lo), f.near(hi)
    # One argument is only an infinity. With the opposite infinity it gives NaN, with any other number itself.
    if a[0] == a[1] and b[0] == b[1]:
        return EMPTY
    return (f.near(lo) if lo == lo else inf), (f.near(hi) if hi == hi else -inf)


def add_nan(a: Pair, b: Pair) -> bool:
    """Return whether a sum can be NaN although no argument is NaN."""
    return (a[0] == -inf and b[1] == inf) or (a[1] == inf and b[0] == -inf)


def add_rev(f: Format, z: Pair, b: Pair, x: Pair) -> Pair:
    lo, hi = _addend_from(f, z[0], b[1]), -_addend_from(f, -z[1], -b[0])
    return meet((lo, hi), x)


def _addend_from(f: Format, c: float, b: float) -> float:
    """Return a number such that no smaller one and ``b``, or anything below, add up to ``c``."""
    if c == -inf or b == inf:
        return -inf
    if b == -inf:
        return inf
    if c == inf:
        low = add_down(add_down(f.max, -b), f.half_top)
    else:
        p = f.down(c)
        half = f.half_top if p == -inf else (c - p) / 2 or c - p
        low = add_down(add_down(c, -b), -half)
    return _inward(f, lambda x: f.near(x + b) >= c, f.floor(low), True)


# Products


def _times(f: Format, a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else f.near(a * b)


def _only_infinite(a: Pair) -> bool:
    return bool(a[0] == a[1] and a[0] - a[0] != 0)


def _signs_with(x: float, b: Pair) -> Pair:
    """Return an infinity times the signs of the members of ``b``, 0 left out."""
    signs = [s for s, there in ((1.0, b[1] > 0), (-1.0, b[0] < 0)) if there]
    return (min(x * s for s in signs), max(x * s for s in signs)) if signs else EMPTY


def mul(f: Format, a: Pair, b: Pair) -> Pair:
    """Return ``a * b``; 0 times inf gives no number."""
    if _only_infinite(a):
        return _signs_with(a[0], b)
    if _only_infinite(b):
        return _signs_with(b[0], a)
    p, q, r, s = _times(f, a[0], b[0]), _times(f, a[0], b[1]), _times(f, a[1], b[0]), _times(f, a[1], b[1])
    return min(p, q, r, s), max(p, q, r, s)


def mul_nan(a: Pair, b: Pair) -> bool:
    return (a[0] <= 0 <= a[1] and (b[0] == -inf or b[1] == inf)) or (
        b[0] <= 0 <= b[1] and (a[0] == -inf or a[1] == inf)
    )


def sqr(f: Format, a: Pair) -> Pair:
    """Return ``a * a`` of one and the same value."""
    lo, hi = abs_(a)
    return f.near(lo * lo), f.near(hi * hi)


def sqr_rev(f: Format, z: Pair, x: Pair) -> Pair:
    """Return the members of ``x`` whose rounded square is in ``z``."""
    if z[1] < 0:
        return EMPTY
    p = f.cell_low(z[0]) if z[0] > 0 else 0.0
    q = f.cell_high(z[1])
    lo = _inward(f, lambda v: f.near(v * v) >= z[0], f.floor(sqrt_down(p)) if p > 0 else 0.0, True)
    hi = _inward(f, lambda v: f.near(v * v) <= z[1], f.ceil(sqrt_up(q)), False)
    return abs_rev((lo, hi), x) if lo <= hi else EMPTY


def _over_positive(p: float, q: float, bl: float, bh: float) -> Pair:
    """Return the bounds of the real quotients of [p, q] by the positive members of [bl, bh]."""
    lo = -inf if p == -inf else (0.0 if bh == inf else div_down(p, bh)) if p >= 0 else _fall(p, bl)
    hi = inf if q == inf else (0.0 if bh == inf else div_up(q, bh)) if q <= 0 else -_fall(-q, bl)
    return lo, hi


def _fall(p: float, b: float) -> float:
    """Return ``p / b`` rounded down, for p < 0 and b >= 0; from above where b is 0."""
    return -inf if b == 0.0 else 0.0 if b == inf else div_down(p, b)


def mul_rev(f: Format, z: Pair, b: Pair, x: Pair) -> Pair:
    p, q = f.cell_low(z[0]), f.cell_high(z[1])
    if p <= 0 <= q and b[0] <= 0 <= b[1]:
        return x
    return by_sign(b, 0.0, lambda bl, bh: _outward(f, *_over_positive(p, q, bl, bh)), x=x)


# Quotients


def div(f: Format, a: Pair, b: Pair) -> Pair:
    """Return ``a / b`` over the members of ``b`` other than 0; inf / inf gives NaN, which is not a member."""
    if _only_infinite(a):
        return _signs_with(a[0], meet(b, (-f.max, f.max)))
    if _only_infinite(b):
        return 0.0, 0.0
    return by_sign(b, f.tiny, lambda bl, bh: (-_greatest(f, -a[0], bl, bh), _greatest(f, a[1], bl, bh)))


def _greatest(f: Format, x: float, bl: float, bh: float) -> float:
    """Return the greatest rounded quotient of numbers up to x by positive ones."""
    b = bl if x > 0 else bh
    if x - x != 0.0:  # infinite
        # A smaller dividend over an infinite divisor gives -0.0.
        return x if b != inf else 0.0
    return f.near(x / b)


def div_nan(a: Pair, b: Pair) -> bool:
    return (a[0] == -inf or a[1] == inf) and (b[0] == -inf or b[1] == inf)


def _product_bounds(p: float, q: float, bl: float, bh: float) -> Pair:
    """Return the bounds of the real products of [p, q] with [bl, bh], which is positive; 0 times inf counts as 0."""
    lo = mul_down(p, bl) if p >= 0 else mul_down(p, bh)
    hi = mul_up(q, bl) if q <= 0 else mul_up(q, bh)
    return lo, hi


def div_rev_dividend(f: Format, z: Pair, b: Pair, x: Pair) -> Pair:
    p, q = f.cell_low(z[0]), f.cell_high(z[1])
    return by_sign(b, f.tiny, lambda bl, bh: _outward(f, *_product_bounds(p, q, bl, bh)), x=x)


def div_rev_divisor(f: Format, z: Pair, a: Pair, x: Pair) -> Pair:
    """Return the members of ``x``, the divisor, with ``a / x`` in ``z``, without 0."""
    if _only_infinite(a):
        # An infinity divided by a finite number is one, with a sign.
        positive = meet(x, (f.tiny, f.max)) if z[0] <= a[0] <= z[1] else EMPTY
        return hull(positive, meet(x, (-f.max, -f.tiny))) if z[0] <= -a[0] <= z[1] else positive
    x = meet(x, (f.tiny, inf)) if x[0] >= 0 else meet(x, (-inf, -f.tiny)) if x[1] <= 0 else x
    p, q = f.cell_low(z[0]), f.cell_high(z[1])
    if (p <= 0 <= q and a[0] <= 0 <= a[1]) or a[0] == -inf or a[1] == inf or p == q == 0.0:
        return x
    # b = a / z for a result of either sign; a result of 0 (or less than half of tiny) may come from any large divisor.
    return by_sign((p, q), 0.0, lambda zl, zh: _outward(f, *_over_positive(a[0], a[1], zl, zh)), x=x)
