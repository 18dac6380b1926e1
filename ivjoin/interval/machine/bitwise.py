"""The exact bounds of ``x & y``, ``x | y`` and ``x ^ y`` over two intervals of whole numbers.

The algorithm is from Warren, Hacker's Delight, section 4-3. Each sign is treated separately, in two's complement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["and_", "or_", "xor"]

Pair = tuple[int, int]
Ends = Callable[[int, int, int, int], int]


def _least_or(a: int, b: int, c: int, d: int) -> int:
    odd = a ^ c
    while odd:
        m = 1 << (odd.bit_length() - 1)
        odd ^= m
        if c & m:
            up = (a | m) & -m
            if up <= b:
                return up | c
        else:
            up = (c | m) & -m
            if up <= d:
                return a | up
    return a | c


def _greatest_or(a: int, b: int, c: int, d: int) -> int:
    both = b & d
    while both:
        m = 1 << (both.bit_length() - 1)
        both ^= m
        down = (b - m) | (m - 1)
        if down >= a:
            return down | d
        down = (d - m) | (m - 1)
        if down >= c:
            return b | down
    return b | d


def _least_xor(a: int, b: int, c: int, d: int) -> int:
    odd = a ^ c
    while odd:
        m = 1 << (odd.bit_length() - 1)
        if c & m:
            up = (a | m) & -m
            if up <= b:
                a = up
        else:
            up = (c | m) & -m
            if up <= d:
                c = up
        odd = (a ^ c) & (m - 1)
    return a ^ c


def _greatest_xor(a: int, b: int, c: int, d: int) -> int:
    both = b & d
    while both:
        m = 1 << (both.bit_length() - 1)
        down = (b - m) | (m - 1)
        if down >= a:
            b = down
        else:
            down = (d - m) | (m - 1)
            if down >= c:
                d = down
        both = b & d & (m - 1)
    return b ^ d


def _signs(x: Pair, size: int) -> Iterator[tuple[bool, Pair]]:
    """Return the numbers below zero, in two's complement, and the others."""
    if x[0] < 0:
        yield True, (x[0] + size, min(x[1], -1) + size)
    if x[1] >= 0:
        yield False, (max(x[0], 0), x[1])


def _hull(x: Pair, y: Pair, least: Ends, greatest: Ends, negative: Callable[[bool, bool], bool]) -> Pair:
    size = 2 << max((e if e >= 0 else ~e).bit_length() for e in (*x, *y))
    found = []
    for below, a in _signs(x, size):
        for also, b in _signs(y, size):
            off = size if negative(below, also) else 0
            found.append((least(*a, *b) - off, greatest(*a, *b) - off))
    return min(low for low, _ in found), max(high for _, high in found)


def or_(x: Pair, y: Pair) -> Pair:
    return _hull(x, y, _least_or, _greatest_or, bool.__or__)


def and_(x: Pair, y: Pair) -> Pair:
    low, high = or_((~x[1], ~x[0]), (~y[1], ~y[0]))
    return ~high, ~low


def xor(x: Pair, y: Pair) -> Pair:
    return _hull(x, y, _least_xor, _greatest_xor, bool.__xor__)
