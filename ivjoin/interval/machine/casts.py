"""Casts between any two domains, forward and backward, as in Spark under ANSI.

- To a float: rounded to nearest. To a decimal: HALF_UP.
- To an int: truncated toward zero; an error beyond the limits.
- From a timestamp to a date, a number or a coarser unit: rounded down.

Casts of numbers are monotone, so the ends give the ends. A preimage without a closed form (a wide long to a double) is
found by bisection with the cast itself.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import inf
from typing import Any

from ivjoin.interval.errors import IntervalError
from ivjoin.interval.machine.bisection import float_preimage, preimage
from ivjoin.interval.machine.decimals import half_up, rounded, unrounded
from ivjoin.interval.machine.domains import nearest
from ivjoin.interval.machine.float_operators import above, below, cut
from ivjoin.interval.machine.floats import Format
from ivjoin.interval.machine.operation import NULL, Unary, within
from ivjoin.interval.machine.pairs import EMPTY, Pair, meet
from ivjoin.interval.machine.types import DAY, Type

__all__ = ["conversion", "floored", "scaled", "truncated"]

_SHORTEST_LIMIT = 1e39


@cache
def conversion(source: Type, target: Type) -> Unary:
    """Return the cast from one domain to another; raise IntervalError if it does not exist."""
    if source == target:
        return Unary(target, lambda x: x, meet)
    make = _CASTS.get((source.kind, target.kind))
    if make is None:
        raise IntervalError(f"no cast from {source} to {target}")
    return make(source, target)


def _rising(
    target: Type, convert: Callable[[Any], Any], back: Callable[[Pair, Pair], Pair], nan: str = "nan"
) -> Unary:
    def inverse(z: Pair, x: Pair) -> Pair:
        return meet(back(z, x), x)

    return Unary(target, within(lambda x: (convert(x[0]), convert(x[1])), inverse, target.limits), inverse, nan)


# Multiplied or divided by a constant


def scaled(target: Type, k: int) -> Unary:
    """Return the product with a positive constant."""
    limits = target.limits

    # Only members whose k-fold is in the domain count; the others overflow.
    def forward(x: Pair) -> Pair:
        x = meet(x, (-(-limits[0] // k), limits[1] // k))
        return (x[0] * k, x[1] * k) if x[0] <= x[1] else EMPTY

    return Unary(target, forward, lambda z, x: meet((-(-z[0] // k), z[1] // k), x))


def floored(target: Type, k: int) -> Unary:
    """Return the quotient by a positive constant, rounded down."""
    return _rising(target, lambda n: n // k, lambda z, x: (z[0] * k, z[1] * k + k - 1))


def truncated(target: Type, k: int) -> Unary:
    """Return the quotient by a positive constant, cut toward zero."""

    def convert(n: int) -> int:
        return n // k if n >= 0 else -(-n // k)

    def back(z: Pair, x: Pair) -> Pair:
        return (z[0] * k if z[0] > 0 else (z[0] - 1) * k + 1), (z[1] * k if z[1] < 0 else (z[1] + 1) * k - 1)

    return _rising(target, convert, back)


def _half_up(target: Type, unit: int) -> Unary:
    return _rising(target, lambda n: rounded((n, n), unit)[0], lambda z, x: unrounded(z, unit))


def _per(t: Type) -> Fraction:
    """Return the physical units of a number's one, or of a second."""
    return Fraction(1, DAY) if t.kind == "date" else Fraction(t.ticks if t.unit else 10**t.scale)


def _exact(s: Type, t: Type) -> Unary:
    """Return a cast between ints, decimals and times: multiplied by a constant, or divided by one and rounded."""
    k = _per(t) / _per(s)
    if k.denominator == 1:
        return scaled(t, k.numerator)
    rounds = _half_up if t.kind == "decimal" else truncated if s.kind == "decimal" else floored
    return rounds(t, k.denominator)


# Floats


def _nearest(f: Format, n: int, unit: int) -> float:
    """Return ``n / unit`` rounded once to nearest, ties to even."""
    x: float
    try:
        x = n / unit  # the quotient of two ints is rounded correctly
    except OverflowError:
        return inf if n > 0 else -inf
    y = f.near(x)
    if f.bits == 64 or x - x != 0:
        return y
    # Rounded twice: if the double is a tie of the format, the dropped digits decide.
    (p, q), (r, s) = x.as_integer_ratio(), (n, unit)
    if p * s == q * r:
        return y
    low, high = (f.floor(x), f.up(f.floor(x))) if f.floor(x) <= x else (f.down(x), x)
    if abs(high) == inf or abs(low) == inf or x - low != high - x:
        return y
    return high if r * q > p * s else low


def _to_float(s: Type, t: Type) -> Unary:
    unit = s.ticks if s.kind == "timestamp" else 10**s.scale
    f = t.format
    if s.kind == "timestamp":
        # The ticks as a double first, and then divided.
        def convert(n: int) -> float:
            return f.near(float(n) / float(unit))
    else:
        def convert(n: int) -> float:
            return _nearest(f, n, unit)

    def near(z: float) -> int | None:
        return int(z * unit) if abs(z) < 1e300 else None

    return _rising(t, convert, lambda z, x: preimage(convert, convert, z, x, near))


def _by_bisection(s: Type, t: Type, convert: Callable[[float], Any], guess: Callable[[Any], float]) -> Unary:
    """Return a rising function of doubles, inverted by bisection."""

    def back(z: Pair, x: Pair) -> Pair:
        lo, hi = float_preimage(convert, convert, z, x, guess)
        return meet((s.format.ceil(lo), s.format.floor(hi)), x)

    return _rising(t, convert, back, "error")


def _float_to_float(s: Type, t: Type) -> Unary:
    f, g = s.format, t.format
    if t.bits >= s.bits:
        return Unary(t, lambda x: x, lambda z, x: meet((f.ceil(z[0]), f.floor(z[1])), x))
    return _by_bisection(s, t, g.near, lambda z: z)._replace(nan="nan")


def _float_to_int(s: Type, t: Type) -> Unary:
    f, most = s.format, t.limits[1]
    # As in Java, 2**63 itself becomes the greatest int64.
    saturates = t == Type("int", 64)

    def convert(x: float) -> int:
        n = cut(int, x)
        return most if saturates and n == most + 1 else n

    def back(z: Pair, x: Pair) -> Pair:
        low = nearest(z[0], f, True) if z[0] > 0 else above(f, z[0] - 1)
        high = nearest(z[1], f, False) if z[1] < 0 else below(f, z[1] + 1)
        return low, (nearest(most + 1, f, False) if saturates and z[1] == most else high)

    return _rising(t, convert, back, nan="error")


def _float_to_decimal(s: Type, t: Type) -> Unary:
    top = 10**t.precision

    def convert(x: float) -> int:
        if x - x != 0 or abs(x) >= _SHORTEST_LIMIT:
            return top if x > 0 else -top
        # By its shortest decimal text, as Java and Python print a double.
        sign, digits, exponent = Decimal(repr(x)).as_tuple()
        assert isinstance(exponent, int)
        n, shift = int("".join(map(str, digits))), exponent + t.scale
        n = n * 10**shift if shift >= 0 else 0 if shift < -400 else half_up(n, 10**-shift)
        return -n if sign else n

    made = _by_bisection(s, t, convert, lambda z: z / 10**t.scale)
    # Infinities and NaN become NULL; a number with too many digits is an error.
    return made._replace(nan="null", makes=lambda x: NULL if x[0] == -inf or x[1] == inf else 0)


def _float_to_timestamp(s: Type, t: Type) -> Unary:
    per, most = float(t.ticks), t.limits[1]

    def convert(x: float) -> int:
        n = cut(int, x * per)
        return most if n == most + 1 else n

    return _by_bisection(s, t, convert, lambda z: z / per)


_CASTS: dict[tuple[str, str], Callable[[Type, Type], Unary]] = {
    ("int", "int"): _exact, ("int", "float"): _to_float, ("int", "decimal"): _exact, ("int", "timestamp"): _exact,
    ("float", "int"): _float_to_int, ("float", "float"): _float_to_float, ("float", "decimal"): _float_to_decimal,
    ("float", "timestamp"): _float_to_timestamp, ("decimal", "int"): _exact, ("decimal", "float"): _to_float,
    ("decimal", "decimal"): _exact, ("decimal", "timestamp"): _exact, ("timestamp", "timestamp"): _exact,
    ("timestamp", "date"): _exact, ("timestamp", "int"): _exact, ("timestamp", "float"): _to_float,
    ("timestamp", "decimal"): _exact, ("date", "timestamp"): _exact, ("duration", "duration"): _exact,
    ("time", "time"): _exact,
}  # fmt: skip
