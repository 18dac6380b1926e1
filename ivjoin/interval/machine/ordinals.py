"""Doubles counted in their order, so that a rising function of doubles is inverted by bisection over ints."""

from __future__ import annotations

import struct

__all__ = ["ordinal_of", "value_of"]

_SIGN = 1 << 63


def ordinal_of(x: float) -> int:
    """Return the place of a double in the order of all: 0 for zero of either sign, 1 for the smallest positive one."""
    (n,) = struct.unpack("<q", struct.pack("<d", x))
    return int(n) if n >= 0 else -int(n + _SIGN)


def value_of(n: int) -> float:
    """Return the double at a place."""
    (x,) = struct.unpack("<d", struct.pack("<q", n if n >= 0 else -n - _SIGN))
    return float(x)
