"""Rules of floating-point arithmetic, which include rounding."""

from __future__ import annotations

from math import inf

from ivjoin.functions.rules.domain import NAN
from ivjoin.functions.rules.rule import Maker, Pair, Place, Rule, binary, strict_unary, unary
from ivjoin.interval.machine import floats as m

__all__ = ["ENTIRE", "mul", "neighbour", "round_", "sub"]

ENTIRE: Pair = (-inf, inf)


def sub(p: Place) -> Rule:
    if p.at[0] == p.at[1]:
        return strict_unary(
            Place(p.node, p.i, p.at[:1]), lambda x: (0.0, 0.0), lambda z, x: x, ENTIRE,
            lambda x: NAN if x[0] == -inf or x[1] == inf else 0,
        )  # fmt: skip
    return binary("sub")(p)


def mul(p: Place) -> Rule:
    if p.at[0] == p.at[1]:
        return unary("sqr")(Place(p.node, p.i, p.at[:1]))
    return binary("mul")(p)


def neighbour(up: bool) -> Maker:
    def make(p: Place) -> Rule:
        f = p.node.type.format
        step, back = (f.up, f.down) if up else (f.down, f.up)

        # The next number after infinity is infinity, so two arguments can give an infinite result.
        def source(z: Pair, x: Pair) -> Pair:
            return (-inf if z[0] == -inf else back(z[0])), (inf if z[1] == inf else back(z[1]))

        return strict_unary(p, lambda x: (step(x[0]), step(x[1])), source, ENTIRE)

    return make


def round_(p: Place) -> Rule | None:
    f, digits = p.node.type.format, p.node.params[0]
    if digits < -300 or digits > 300:
        return None
    half = 0.5 * 10.0**-digits

    # The error is half a unit, plus a margin for the rounding of this sum and of the decimal text.
    def low(x: float) -> float:
        return x if x - x != 0 else f.floor(x - half - abs(x) * 2.0**-20 * (f.bits == 32) - abs(x) * 2.0**-50)

    def high(x: float) -> float:
        return -low(-x)

    return strict_unary(p, lambda x: (low(x[0]), high(x[1])), lambda z, x: _unrounded(z, half, f), ENTIRE)


def _unrounded(z: Pair, half: float, f: m.Format) -> Pair:
    slack = 2.0**-20 if f.bits == 32 else 2.0**-49
    least, most = min(z[0], f.max), max(z[1], -f.max)  # the greatest number may round to an infinity
    lo = least - half - (abs(least) + half) * slack
    hi = most + half + (abs(most) + half) * slack
    return (f.floor(lo) if lo > -f.max else -inf), (f.ceil(hi) if hi < f.max else inf)
