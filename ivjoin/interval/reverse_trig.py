"""Reverse functions of sine, cosine and tangent (IEEE 1788-2015, clauses 9.5 and 10.5.4).

The preimage of `c` is one or two branches repeated with the period. The lowest member of `x` in it is found by counting
the period in which `x` begins, exactly and for arguments of any size, and looking at the branches from there on; the
highest member is the lowest of the mirrored problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ivjoin.interval.interval import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.pointwise import (
    Enclosure,
    above,
    acos_at,
    asin_at,
    atan_at,
    below,
    half_turns_at,
    quarter_turns,
)
from ivjoin.interval.rounding import INF

__all__ = ["cos_rev", "sin_rev", "tan_rev"]

Angle = Callable[[float, int], Enclosure]


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a branch in every period: ``sign * angle(value) + (quarters + period * k) * pi/2``."""

    angle: Angle
    value: float
    sign: int
    quarters: int

    def enclose(self, turn: int, p: int) -> Enclosure:
        """The end moved by `turn` quarter turns."""
        quarters = self.quarters + turn
        lo, hi, e = self._arc(p)
        if quarters == 0:
            return lo, hi, e
        more, most, base = half_turns_at(quarters, p + quarters.bit_length())
        # Both to `base`: the angle's last bits below it are rounded outward.
        if e >= base:
            return (lo << (e - base)) + more, (hi << (e - base)) + most, base
        return (lo >> (base - e)) + more, -(-hi >> (base - e)) + most, base

    def _arc(self, p: int) -> Enclosure:
        if self.value in (-INF, INF):  # the tangent's limits
            lo, hi, e = half_turns_at(self.sign if self.value > 0.0 else -self.sign, p)
            return lo, hi, e
        lo, hi, e = self.angle(self.value, p)
        return (lo, hi, e) if self.sign > 0 else (-hi, -lo, e)

    def mirrored(self) -> _End:
        return _End(self.angle, self.value, -self.sign, -self.quarters)


@dataclass(frozen=True, slots=True)
class _Branch:
    """A preimage between two ends, repeated every `period` quarter turns."""

    lower: _End
    upper: _End
    period: int

    def mirrored(self) -> _Branch:
        return _Branch(self.upper.mirrored(), self.lower.mirrored(), self.period)

    def first_from(self, a: float) -> float:
        """The lowest member that is not below `a`, rounded down but not below `a`."""
        # A branch reaches at most 6 quarter turns from the start of its period, so two periods back is early enough.
        turn = quarter_turns(a, 8)[0] // self.period * self.period - 2 * self.period
        while above(self.upper.enclose, turn) < a:
            turn += self.period
        bound = below(self.lower.enclose, turn)
        return bound if bound > a else a


def _contract(branches: list[_Branch], x: Interval) -> Interval:
    if x.inf > x.sup:
        return EMPTY
    lo, hi = -INF, INF
    # Towards an infinite end there is always another period.
    if x.inf != -INF:
        lo = min(branch.first_from(x.inf) for branch in branches)
    if x.sup != INF:
        hi = -min(branch.mirrored().first_from(-x.sup) for branch in branches)
    return make(lo, hi) if lo <= hi else EMPTY


def sin_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """The hull of the members of `x` whose sine is in `c`."""
    lo, hi = max(c.inf, -1.0), min(c.sup, 1.0)
    if lo > hi:
        return EMPTY
    if lo == -1.0 and hi == 1.0:
        return x
    rising = _Branch(_End(asin_at, lo, 1, 0), _End(asin_at, hi, 1, 0), 4)
    falling = _Branch(_End(asin_at, hi, -1, 2), _End(asin_at, lo, -1, 2), 4)
    return _contract([rising, falling], x)


def cos_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """The hull of the members of `x` whose cosine is in `c`."""
    lo, hi = max(c.inf, -1.0), min(c.sup, 1.0)
    if lo > hi:
        return EMPTY
    if lo == -1.0 and hi == 1.0:
        return x
    falling = _Branch(_End(acos_at, hi, 1, 0), _End(acos_at, lo, 1, 0), 4)
    return _contract([falling, falling.mirrored()], x)


def tan_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """The hull of the members of `x` whose tangent is in `c`."""
    if c.inf > c.sup:
        return EMPTY
    if c == ENTIRE:
        return x
    return _contract([_Branch(_End(atan_at, c.inf, 1, 0), _End(atan_at, c.sup, 1, 0), 2)], x)
