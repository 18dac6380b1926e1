"""Invert rising functions by bisection over ints, and doubles by their place in the order of all doubles."""

from __future__ import annotations

import struct
from collections.abc import Callable

__all__ = ["first_true", "last_true", "ordinal_of", "value_of"]

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
