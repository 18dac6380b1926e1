"""Invert rising functions by bisection over ints, and doubles by their place in the order of all doubles."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ivjoin.interval.machine.pairs import EMPTY, Pair

__all__ = ["first_true", "float_preimage", "last_true", "ordinal_of", "preimage", "value_of"]

_SIGN = 1 << 63


def ordinal_of(x: float) -> int:
    """Return the place of a double in the order of all: 0 for zero of either sign, 1 for the smallest positive one."""
    (n,) = struct.unpack("<q", struct.pack("<d", x))
    return int(n) if n >= 0 else -int(n + _SIGN)


def value_of(n: int) -> float:
    """Return the double at a place."""
    (x,) = struct.unpack("<d", struct.pack("<q", n if n >= 0 else -n - _SIGN))
    return float(x)


def first_true(test: Callable[[int], bool], lo: int, hi: int, near: int | None = None) -> int:
    """Return the least int of [lo, hi] for which a rising test holds, else ``hi + 1``. ``near`` is a guess."""
    if lo > hi or test(lo):
        return lo
    # From here on, test(bad) is False; the answer lies in (bad, good], where good = hi + 1 stands for "none".
    bad, good = lo, hi + 1
    step = 1
    if near is None or not lo < near <= hi:
        near = lo + 1
    if near < good and test(near):
        good = near
        while good - step > bad:
            if not test(good - step):
                bad = good - step
                break
            good, step = good - step, step * 8
    else:
        bad = min(near, hi)
        while bad + step < good:
            if test(bad + step):
                good = bad + step
                break
            bad, step = bad + step, step * 8
    while good - bad > 1:
        middle = (bad + good) >> 1
        if test(middle):
            good = middle
        else:
            bad = middle
    return good


def last_true(test: Callable[[int], bool], lo: int, hi: int, near: int | None = None) -> int:
    """Return the greatest int of [lo, hi] for which a falling test holds, else ``lo - 1``."""
    return -first_true(lambda n: test(-n), -hi, -lo, None if near is None else -near)


def preimage(
    low: Callable[[int], Any], high: Callable[[int], Any], z: Pair, x: Pair,
    near: Callable[[Any], int | None] | None = None,
) -> Pair:  # fmt: skip
    """Return the ints of ``x`` at which a rising function, enclosed by ``low`` and ``high``, may be in ``z``.

    ``near`` guesses where the function has a value.
    """
    lo = first_true(lambda n: high(n) >= z[0], x[0], x[1], near(z[0]) if near else None)
    if lo > x[1]:
        return EMPTY
    return lo, last_true(lambda n: low(n) <= z[1], lo, x[1], near(z[1]) if near else None)


def float_preimage(
    low: Callable[[float], Any], high: Callable[[float], Any], z: Pair, x: Pair,
    near: Callable[[Any], Any] | None = None,
) -> Pair:  # fmt: skip
    """Return the same of doubles."""

    def guess(c: Any) -> int | None:
        try:
            return None if near is None else ordinal_of(float(near(c)))
        except (ArithmeticError, ValueError, TypeError):  # an even root of a negative number is complex
            return None

    ends = ordinal_of(x[0]), ordinal_of(x[1])
    lo, hi = preimage(lambda n: low(value_of(n)), lambda n: high(value_of(n)), z, ends, guess)
    return (value_of(lo), value_of(hi)) if lo <= hi else EMPTY
