"""Remainders of machine floats: ``fmod``, which is exact, and ``pmod``, which adds and rounds in between.

For one divisor, numbers are counted in units of the format's smallest number, as exact ints. For several divisors, only
signs and magnitudes are used.
"""

from __future__ import annotations

from collections.abc import Callable
from math import fmod, inf

from ivjoin.interval.machine import floats as m
from ivjoin.interval.machine import integers as machine
from ivjoin.interval.machine.floats import Format
from ivjoin.interval.machine.pairs import EMPTY, Pair, hull, is_empty, meet, neg
from ivjoin.interval.machine.rounding import add_down, ratio

__all__ = [
    "dividends", "divisors", "positive_dividends", "positive_remainder_nan", "positive_remainders", "remainder_nan",
    "remainders",
]  # fmt: skip


def remainder_nan(a: Pair, b: Pair) -> bool:
    return bool((a[0] == -inf or a[1] == inf) and (b[0] != 0 or b[1] != 0))


def positive_remainder_nan(f: Format, a: Pair, b: Pair) -> bool:
    if remainder_nan(a, b):
        return True
    # A negative remainder plus its divisor is an infinity, which has no remainder: one of them is, or both overflow.
    largest = max(-a[0], 0.0) if b[0] >= 0 else min(max(-a[0], 0.0), -b[0])
    return bool(a[0] < 0 and (b[1] == inf or b[0] == -inf or (b[0] < 0 and f.near(-b[0] + largest) == inf)))


def remainders(f: Format, a: Pair, b: Pair) -> Pair:
    k = m.abs_(b)  # the sign of a remainder is the dividend's
    if k[1] == 0:
        return EMPTY
    few = _by_value(f, a, b, fmod)
    if few is not None:
        return few
    k = max(k[0], f.tiny), k[1]
    positive, negative = meet(a, (0.0, f.max)), meet(a, (-f.max, -f.tiny))
    out = EMPTY if is_empty(positive) else _magnitudes(f, positive, k)
    return out if is_empty(negative) else hull(neg(_magnitudes(f, neg(negative), k)), out)


# Up to this many numbers of either argument are tried one by one.
_FEW = 12


def _values(f: Format, a: Pair) -> list[float]:
    """Return the numbers of an interval if they are few, else an empty result."""
    out, v = [], a[0]
    for _ in range(_FEW):
        out.append(v)
        if v == a[1]:
            return out
        v = f.up(v)
    return []


def _by_value(f: Format, a: Pair, b: Pair, op: Callable[[float, float], float]) -> Pair | None:
    """Return the hull of an operation over few numbers; None for more."""
    first = _values(f, a)
    second = _values(f, b) if first else []
    if not second:
        return None
    found = [op(x, y) for x in first for y in second if y != 0 and x - x == 0]
    numbers = [r for r in found if r == r]
    return (min(numbers) + 0.0, max(numbers) + 0.0) if numbers else EMPTY


def _positive(f: Format, x: float, y: float) -> float:
    r = fmod(x, y)
    if r >= 0:
        return r
    r = f.near(r + y)
    return fmod(r, y) if r - r == 0 else inf - inf


def _magnitudes(f: Format, a: Pair, k: Pair) -> Pair:
    """Return ``fmod`` of numbers that are not negative by positive ones."""
    if k[0] == inf:
        return a
    if _quotient_of(a[0], k[1]) == _quotient_of(a[1], k[0]):
        # The dividend minus a multiple of the divisor: exact, and monotone in both.
        return fmod(a[0], k[1]), fmod(a[1], k[0])
    return 0.0, min(a[1], f.down(k[1]))


def _quotient_of(a: float, b: float) -> int:
    if b == inf:
        return 0
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    return p * s // (q * r)


def dividends(f: Format, z: Pair, b: Pair, x: Pair) -> Pair:
    """Return the members of ``x`` with ``fmod(x, b)`` in ``z``."""
    k = m.abs_(b)
    out = machine.roughly_signed(z, k[0], meet(x, (-f.max, f.max)))
    if k[0] != k[1] or k[0] == inf or is_empty(out):
        return out
    # One divisor: in units of the smallest number all values are ints, and so are the dividends with this remainder.
    n, ends = _units(f, k[0]), (_units(f, max(z[0], -k[0])), _units(f, min(z[1], k[0])))
    lo, hi = machine.mod_rev_dividend(ends, (n, n), (_units(f, out[0]), _units(f, out[1])))
    return meet((_from_units(f, lo, True), _from_units(f, hi, False)), out) if lo <= hi else EMPTY


def _units(f: Format, x: float) -> int:
    """Return a finite number as a multiple of the smallest one."""
    (p, q), (r, s) = x.as_integer_ratio(), f.tiny.as_integer_ratio()
    return p * s // (q * r)


def _from_units(f: Format, n: int, up: bool) -> float:
    r, s = f.tiny.as_integer_ratio()
    x = ratio(n * r, s, up)
    return f.ceil(x) if up else f.floor(x)


def divisors(f: Format, z: Pair, a: Pair, x: Pair) -> Pair:
    """Return the members of ``x`` with ``fmod(a, x)`` in ``z``, by magnitude."""
    if (z[0] > 0 and a[1] <= 0) or (z[1] < 0 and a[0] >= 0):
        return EMPTY
    least = z[0] if z[0] > 0 else -z[1] if z[1] < 0 else 0.0
    least, most = f.up(least), inf
    if is_empty(meet(a, z)) and least > 0:
        # The dividend is not its own remainder, so it contains the divisor at least once in addition to the remainder.
        most = f.ceil(-add_down(-m.abs_(a)[1], z[0] if z[0] > 0 else -z[1] if z[1] < 0 else 0.0))
    return hull(meet(x, (least, most)), meet(x, (-most, -least)))


# pmod: a negative remainder and the divisor are added, which rounds, and the remainder of the sum is taken


def positive_remainders(f: Format, a: Pair, b: Pair) -> Pair:
    """Return ``pmod(a, b)``: tight bounds for one divisor, signs and magnitudes for several."""
    k = b[0]
    few = _by_value(f, a, b, lambda x, y: _positive(f, x, y))
    if few is not None:
        return few
    if b[0] != b[1] or k == 0 or abs(k) == inf:
        return _roughly_positive(f, a, b) if b[0] != 0 or b[1] != 0 else EMPTY
    out = remainders(f, meet(a, (0.0, inf)), b) if a[1] >= 0 else EMPTY
    if a[0] >= 0:
        return out
    low, high = remainders(f, meet(a, (-inf, -f.tiny)), b)
    if low > high:
        return out
    if high == 0:  # such a remainder does not change
        out, high = hull(out, (0.0, 0.0)), -f.tiny
    if low <= high:
        out = hull(out, _shifted(f, (low, high), k))
    return out


def _shifted(f: Format, rest: Pair, k: float) -> Pair:
    """Return the results for negative remainders by a divisor."""
    low, high = f.near(rest[0] + k), f.near(rest[1] + k)
    if k > 0:
        if low == k:
            return 0.0, 0.0
        return (low, high) if high < k else (0.0, f.down(k))
    if low == -inf or low == 2 * k:  # the sum rounds to twice the divisor, which has the remainder 0; or it overflows
        return k, 0.0
    return low - k, high - k


def positive_dividends(f: Format, z: Pair, b: Pair, x: Pair) -> Pair:
    """Return the members of ``x`` with ``pmod(x, b)`` in ``z``."""
    k = b[0]
    x = meet(x, (-f.max, f.max))
    if b[0] != b[1] or k == 0 or abs(k) == inf or (k < 0 and f.near(2 * k) == -inf):
        # A negative result needs a negative dividend and a negative divisor. The magnitude of the dividend does not
        # follow, because the sum of remainder and divisor is rounded.
        if z[1] < 0:
            return meet(x, (-inf, -f.tiny)) if b[0] < 0 else EMPTY
        return x
    out = EMPTY
    positive, negative = meet(x, (0.0, inf)), meet(x, (-inf, -f.tiny))
    if not is_empty(positive) and z[1] >= 0:
        out = dividends(f, meet(z, (0.0, inf)), b, positive)
    if is_empty(negative):
        return out
    every = (-abs(k), 0.0)
    if k > 0:
        rest = m.add_rev(f, z, b, every)
        wraps = m.add_rev(f, (k, k), b, every)
    else:
        rest = m.add_rev(f, (f.floor(add_down(z[0], k)), f.ceil(-add_down(-z[1], -k))), b, every)
        wraps = m.add_rev(f, (2 * k, 2 * k), b, every)
    if z[0] <= 0 <= z[1]:
        rest = hull(hull(rest, wraps), (0.0, 0.0))
    return hull(out, dividends(f, rest, b, negative)) if rest[0] <= rest[1] else out


def _roughly_positive(f: Format, a: Pair, b: Pair) -> Pair:
    """Return the remainder, plus the divisor where it is negative, as the machine rounds that sum."""
    r = remainders(f, a, b)
    if r[0] > r[1] or r[0] >= 0:
        return r
    bound = max(-b[0], b[1])
    bound = f.down(bound) if bound != inf else inf
    return (0.0 if b[0] >= 0 else -bound), (bound if b[1] > 0 else max(r[1], 0.0))
