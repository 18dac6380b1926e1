"""Rules of floating-point arithmetic, as rounded by the machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from ivjoin.functions.rules.domain import NAN
from ivjoin.functions.rules.rule import Maker, Pair, Place, Rule, strict_binary, strict_unary
from ivjoin.interval.machine import float_remainders as r
from ivjoin.interval.machine import floats as m

__all__ = [
    "ENTIRE", "add", "div", "mod", "mul", "neighbour", "pmod", "round_", "sub",
]  # fmt: skip

ENTIRE: Pair = (-inf, inf)


def _rounded(
    forward: Callable[..., Pair], back_a: Callable[..., Pair], back_b: Callable[..., Pair],
    makes_nan: Callable[[Pair, Pair], bool], divides: bool = False,
) -> Callable[[Place], Rule]:
    """Return the rule of an operator of two floats from functions that take the format first."""

    def make(p: Place) -> Rule:
        f = p.node.type.format
        each = partial(forward, f), partial(back_a, f), partial(back_b, f)
        return strict_binary(p, *each, ENTIRE, makes_nan, divides)

    return make


add = _rounded(m.add, m.add_rev, m.add_rev, m.add_nan)
div = _rounded(m.div, m.div_rev_dividend, m.div_rev_divisor, m.div_nan, True)
mod = _rounded(r.remainders, r.dividends, r.divisors, r.remainder_nan, True)
_product = _rounded(m.mul, m.mul_rev, m.mul_rev, m.mul_nan)


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
    return _product(p)


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
