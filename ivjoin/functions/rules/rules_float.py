"""Rules of floating-point arithmetic, as rounded by the machine."""

from __future__ import annotations

from math import inf

from ivjoin.functions.rules.domain import NAN
from ivjoin.functions.rules.rule import Maker, Pair, Place, Rule, strict_binary, strict_unary
from ivjoin.interval.machine import float_remainders as r
from ivjoin.interval.machine import floats as m

__all__ = [
    "ENTIRE", "add", "div", "mod", "mul", "neighbour", "pmod", "round_", "sub",
]  # fmt: skip

ENTIRE: Pair = (-inf, inf)


def add(p: Place) -> Rule:
    f = p.node.type.format
    return strict_binary(
        p, lambda a, b: m.add(f, a, b), lambda z, b, a: m.add_rev(f, z, b, a), lambda z, a, b: m.add_rev(f, z, a, b),
        ENTIRE, m.add_nan,
    )  # fmt: skip


def sub(p: Place) -> Rule:
    f = p.node.type.format
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
    f = p.node.type.format
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
    f = p.node.type.format
    return strict_binary(
        p, lambda a, b: m.div(f, a, b), lambda z, b, a: m.div_rev_dividend(f, z, b, a),
        lambda z, a, b: m.div_rev_divisor(f, z, a, b), ENTIRE, m.div_nan, True,
    )  # fmt: skip


def mod(p: Place) -> Rule:
    f = p.node.type.format
    return strict_binary(
        p, lambda a, b: r.remainders(f, a, b), lambda z, b, a: r.dividends(f, z, b, a),
        lambda z, a, b: r.divisors(f, z, a, b), ENTIRE, r.remainder_nan, True,
    )  # fmt: skip


def pmod(p: Place) -> Rule:
    f = p.node.type.format
    return strict_binary(
        p, lambda a, b: r.positive_remainders(f, a, b), lambda z, b, a: r.positive_dividends(f, z, b, a), None, ENTIRE,
        lambda a, b: r.positive_remainder_nan(f, a, b), True,
    )  # fmt: skip


def neighbour(up: bool) -> Maker:
    def make(p: Place) -> Rule:
        f = p.node.type.format
        step, back = (f.up, f.down) if up else (f.down, f.up)

        # Infinity has no next number, so an infinite result may come from two numbers.
        def source(z: Pair, x: Pair) -> Pair:
            return (-inf if z[0] == -inf else back(z[0])), (inf if z[1] == inf else back(z[1]))

        return strict_unary(p, lambda x: (step(x[0]), step(x[1])), source, ENTIRE)

    return make


def round_(p: Place) -> Rule | None:
    f, digits = p.node.type.format, p.node.params[0]
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
