"""Reverse functions of sine, cosine and tangent (IEEE 1788-2015, clauses 9.5 and 10.5.4).

The preimage of `c` is one or two branches that repeat with the period. The period in which `x` begins is counted
exactly, for arguments of any size. The highest member is the lowest of the mirrored problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ivjoin.interval.machine.rounding import INF
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval, make
from ivjoin.interval.reals.pointwise import (
    Enclosure,
    above,
    acos_at,
    asin_at,
    asin_enclosed,
    atan_at,
    atan_enclosed,
    below,
    half_turns_at,
    quarter_turns,
)
from ivjoin.interval.reals.relations import disjoint
from ivjoin.interval.reals.trigonometric import cos, sin, tan

__all__ = ["cos_rev", "sin_rev", "tan_rev"]

Angle = Callable[[float, int], Enclosure]


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a branch: ``sign * angle(value) + quarters * pi/2``, and the same a number of periods further."""

    angle: Angle  # for rounding by itself
    summand: Angle  # for adding quarter turns to
    value: float
    sign: int
    quarters: int

    def enclose(self, turn: int, p: int) -> Enclosure:
        """Return the end moved by `turn` quarter turns."""
        quarters = self.quarters + turn
        if quarters == 0:
            return self._signed(self.angle, p)
        lo, hi, e = self._signed(self.summand, p)
        more, most, base = half_turns_at(quarters, p + quarters.bit_length())
        low = min(e, base)
        return (lo << (e - low)) + (more << (base - low)), (hi << (e - low)) + (most << (base - low)), low

    def _signed(self, angle: Angle, p: int) -> Enclosure:
        if self.value in (-INF, INF):  # the tangent's limits
            return half_turns_at(self.sign if self.value > 0.0 else -self.sign, p)
        lo, hi, e = angle(self.value, p)
        return (lo, hi, e) if self.sign > 0 else (-hi, -lo, e)

    def mirrored(self) -> _End:
        return _End(self.angle, self.summand, self.value, -self.sign, -self.quarters)


@dataclass(frozen=True, slots=True)
class _Branch:
    """A preimage between two ends, repeated every `period` quarter turns."""

    lower: _End
    upper: _End
    period: int

    def mirrored(self) -> _Branch:
        return _Branch(self.upper.mirrored(), self.lower.mirrored(), self.period)

    def first_from(self, a: float) -> float:
        """Return the lowest member that is not below `a`, rounded down but not below `a`."""
        # No branch ends after its period does, so it is enough to start one period before `a`.
        turn = quarter_turns(a) // self.period * self.period - self.period
        while above(self.upper.enclose, turn) < a:
            turn += self.period
        bound = below(self.lower.enclose, turn)
        return bound if bound > a else a


def _contract(branches: list[_Branch], forward: Callable[[Interval], Interval], c: Interval, x: Interval) -> Interval:
    if x.inf > x.sup:
        return EMPTY
    lo, hi = -INF, INF
    # Towards an infinite end there is always another period.
    if x.inf != -INF:
        lo = min(branch.first_from(x.inf) for branch in branches)
    if x.sup != INF:
        hi = -min(branch.mirrored().first_from(-x.sup) for branch in branches)
    if lo == hi and disjoint(forward(make(lo, hi)), c):
        # Members next to a lone point of x were rounded onto it, but the point itself is no member.
        return EMPTY
    return make(lo, hi) if lo <= hi else EMPTY


def sin_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of `x` whose sine is in `c`."""
    lo, hi = max(c.inf, -1.0), min(c.sup, 1.0)
    if lo > hi:
        return EMPTY
    if lo == -1.0 and hi == 1.0:
        return x
    rising = _Branch(_End(asin_at, asin_enclosed, lo, 1, 0), _End(asin_at, asin_enclosed, hi, 1, 0), 4)
    falling = _Branch(_End(asin_at, asin_enclosed, hi, -1, 2), _End(asin_at, asin_enclosed, lo, -1, 2), 4)
    return _contract([rising, falling], sin, c, x)


def cos_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of `x` whose cosine is in `c`."""
    lo, hi = max(c.inf, -1.0), min(c.sup, 1.0)
    if lo > hi:
        return EMPTY
    if lo == -1.0 and hi == 1.0:
        return x
    falling = _Branch(_End(acos_at, acos_at, hi, 1, 0), _End(acos_at, acos_at, lo, 1, 0), 4)
    return _contract([falling, falling.mirrored()], cos, c, x)


def tan_rev(c: Interval, x: Interval = ENTIRE) -> Interval:
    """Return the hull of the members of `x` whose tangent is in `c`."""
    if c.inf > c.sup:
        return EMPTY
    if c == ENTIRE:
        return x
    lower, upper = (_End(atan_at, atan_enclosed, value, 1, 0) for value in (c.inf, c.sup))
    return _contract([_Branch(lower, upper, 2)], tan, c, x)
