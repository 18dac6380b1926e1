"""Rules of floating-point arithmetic, as rounded by the machine."""

from __future__ import annotations

from math import ceil, floor, inf

from ivjoin.expr.types import Type
from ivjoin.functions.rules.domain import NAN
from ivjoin.functions.rules.rule import Maker, Pair, Place, Rule, strict_binary, strict_unary
from ivjoin.interval.machine import float_remainders as r
from ivjoin.interval.machine import floats as m
from ivjoin.interval.machine.float_operators import above, at_least, at_most, below

__all__ = [
    "ENTIRE", "abs_", "add", "ceil_", "div", "floor_", "format_of", "mod", "mul", "neg", "neighbour", "pmod",
    "round_", "sign", "sub",
]  # fmt: skip

ENTIRE: Pair = (-inf, inf)


def format_of(t: Type) -> m.Format:
    return t.format


def add(p: Place) -> Rule:
    f = format_of(p.node.type)
    return strict_binary(
        p, lambda a, b: m.add(f, a, b), lambda z, b, a: m.add_rev(f, z, b, a), lambda z, a, b: m.add_rev(f, z, a, b),
        ENTIRE, m.add_nan,
    )  # fmt: skip


def sub(p: Place) -> Rule:
    f = format_of(p.node.type)
    if p.at[0] == p.at[1]:
        return strict_unary(
            Place(p.node, p.i, p.at[:1]), lambda x: (0.0, 0.0), lambda z, x: x, ENTIRE,
            lambda x: NAN if x[0] == -inf or x[1] == inf else 0,
        )  # fmt: skip
    # a - b is a + (-b), rounding included.
    return strict_binary(
        p, lambda a, b: m.add(f, a, m.neg(b)), lambda z, b, a: m.add_rev(f, z, m.neg(b), a),
        lambda z, a, b: m.neg(m.add_rev(f, z, a, m.neg(b))), ENTIRE, lambda a, b: m.add_nan(a, m.neg(b)),
    )  # fmt: skip


def mul(p: Place) -> Rule:
    f = format_of(p.node.type)
    a, b = p.at
    if a == b:
        return strict_unary(
            Place(p.node, p.i, (a,)), lambda x: m.sqr(f, x), lambda z, x: m.sqr_rev(f, z, x), ENTIRE
        )
    return strict_binary(
        p, lambda a, b: m.mul(f, a, b), lambda z, b, a: m.mul_rev(f, z, b, a), lambda z, a, b: m.mul_rev(f, z, a, b),
        ENTIRE, m.mul_nan,
    )  # fmt: skip


def div(p: Place) -> Rule:
    f = format_of(p.node.type)
    return strict_binary(
        p, lambda a, b: m.div(f, a, b), lambda z, b, a: m.div_rev_dividend(f, z, b, a),
        lambda z, a, b: m.div_rev_divisor(f, z, a, b), ENTIRE, m.div_nan, True,
    )  # fmt: skip


def mod(p: Place) -> Rule:
    f = format_of(p.node.type)
    return strict_binary(
        p, lambda a, b: r.remainders(f, a, b), lambda z, b, a: r.dividends(f, z, b, a),
        lambda z, a, b: r.divisors(f, z, a, b), ENTIRE, r.remainder_nan, True,
    )  # fmt: skip


def pmod(p: Place) -> Rule:
    f = format_of(p.node.type)
    return strict_binary(
        p, lambda a, b: r.positive_remainders(f, a, b), lambda z, b, a: r.positive_dividends(f, z, b, a), None, ENTIRE,
        lambda a, b: r.positive_remainder_nan(f, a, b), True,
    )  # fmt: skip


def neg(p: Place) -> Rule:
    return strict_unary(p, m.neg, lambda z, x: m.neg(z), ENTIRE)


def abs_(p: Place) -> Rule:
    return strict_unary(p, m.abs_, m.abs_rev, ENTIRE)


def _sign_of(x: float) -> float:
    return (x > 0) - (x < 0) + 0.0


def sign(p: Place) -> Rule:
    f = format_of(p.node.type)

    def back(z: Pair, x: Pair) -> Pair:
        lo = f.tiny if z[0] > 0 else 0.0 if z[0] > -1 else x[0]
        hi = -f.tiny if z[1] < 0 else 0.0 if z[1] < 1 else x[1]
        return lo, hi

    return strict_unary(p, lambda x: (_sign_of(x[0]), _sign_of(x[1])), back, (-1.0, 1.0))


def _floor_of(x: float) -> int:
    return floor(x) if x - x == 0 else (1 << 1100 if x > 0 else -(1 << 1100))


def _ceil_of(x: float) -> int:
    return ceil(x) if x - x == 0 else (1 << 1100 if x > 0 else -(1 << 1100))


def floor_(p: Place) -> Rule:
    f = format_of(p.node.args[0].type)
    lo, hi = p.node.type.limits
    return strict_unary(
        p, lambda x: (_floor_of(x[0]), _floor_of(x[1])), lambda z, x: (at_least(f, z[0]), below(f, z[1] + 1)),
        (lo, hi), nan_gives=0,
    )  # fmt: skip


def ceil_(p: Place) -> Rule:
    f = format_of(p.node.args[0].type)
    return strict_unary(
        p, lambda x: (_ceil_of(x[0]), _ceil_of(x[1])), lambda z, x: (above(f, z[0] - 1), at_most(f, z[1])),
        p.node.type.limits, nan_gives=0,
    )  # fmt: skip


def neighbour(up: bool) -> Maker:
    def make(p: Place) -> Rule:
        f = format_of(p.node.type)
        step, back = (f.up, f.down) if up else (f.down, f.up)

        # Infinity has no next number, so an infinite result may come from two numbers.
        def source(z: Pair, x: Pair) -> Pair:
            return (-inf if z[0] == -inf else back(z[0])), (inf if z[1] == inf else back(z[1]))

        return strict_unary(p, lambda x: (step(x[0]), step(x[1])), source, ENTIRE)

    return make


def round_(p: Place) -> Rule | None:
    f, digits = format_of(p.node.type), p.node.params[0]
    if digits < -300 or digits > 300:
        return None
    half = 0.5 * 10.0**-digits

    # Half a unit, and more for the rounding of this sum and of the decimal text.
    def low(x: float) -> float:
        return x if x - x != 0 else f.floor(x - half - abs(x) * 2.0**-20 * (f.bits == 32) - abs(x) * 2.0**-50)

    def high(x: float) -> float:
        return -low(-x)

    return strict_unary(p, lambda x: (low(x[0]), high(x[1])), lambda z, x: _unrounded(z, half, f), ENTIRE)


def _unrounded(z: Pair, half: float, f: m.Format) -> Pair:
    slack = 2.0**-20 if f.bits == 32 else 2.0**-49
    least, most = min(z[0], f.max), max(z[1], -f.max)  # a value that rounds to an infinity may be the greatest number
    lo = least - half - (abs(least) + half) * slack
    hi = most + half + (abs(most) + half) * slack
    return (f.floor(lo) if lo > -f.max else -inf), (f.ceil(hi) if hi < f.max else inf)
