"""Rules of exact arithmetic: ints, times, and decimals on their unscaled integers.

A value outside the range of the type is an error, which satisfies no condition. Results are therefore clipped to the
range, and inverses use unbounded integers.
"""

from __future__ import annotations

from ivjoin.functions.rules.rule import (
    Maker,
    Place,
    Rule,
    binary,
    of_binary,
    stepwise,
    strict_binary,
    strict_unary,
    unary,
)
from ivjoin.functions.rules.state import Case, Cases, State
from ivjoin.interval.machine import integers as m
from ivjoin.interval.machine.decimals import half_even, half_up
from ivjoin.interval.typed import operators

__all__ = ["abs_", "arithmetic", "intdiv", "remainder", "round_"]


def arithmetic(name: str) -> Maker:
    """Return the rule of add, sub, mul or div. None if the operator of typed intervals has another scale."""

    def make(p: Place) -> Rule | None:
        made = operators.outer(name, *(a.type for a in p.node.args))
        if made.domain.scale != p.node.type.scale:
            return None
        return of_binary(p, made) if p.at[0] != p.at[1] else _of_one(p, name) or of_binary(p, made)

    return make


def _of_one(p: Place, name: str) -> Rule | None:
    """Return the rule of an operator whose two arguments are the same node. None if the result is rounded."""
    scale, alone, limits = p.node.args[0].type.scale, Place(p.node, p.i, p.at[:1]), p.node.type.limits
    if name == "mul" and p.node.type.scale == 2 * scale:
        return unary("sqr")(alone)
    if name in ("add", "sub") and p.node.type.scale == scale:
        k = 2 if name == "add" else 0
        return strict_unary(alone, lambda x: (k * x[0], k * x[1]), lambda z, x: m.mul_rev(z, (k, k), x), limits)
    return None


def intdiv(p: Place) -> Rule | None:
    s, u = (a.type for a in p.node.args)
    if s.kind == u.kind and s.scale == u.scale:
        limits = p.node.type.limits
        return strict_binary(p, m.div, m.div_rev_dividend, m.div_rev_divisor, limits, divides=True)
    return None


def remainder(name: str) -> Maker:
    """Return the rule of rem or pmod of ints, or of decimals of one scale."""
    made = binary(name)
    return lambda p: made(p)._replace(finer=_by_value(p.i)) if _same_scale(p) else None


_MOST_VALUES = 16


def _by_value(i: int) -> Cases:
    """Return a case for each value of a remainder if there are few values. Each value allows one class of dividends."""

    def cases(s: State) -> list[Case] | None:
        lo, hi, flags = s.D[i]
        if flags or not 0 < hi - lo < _MOST_VALUES:
            return None
        return [lambda s, v=v: s.cut(i, v, v, 0) for v in range(lo, hi + 1)]  # type: ignore[misc]

    return cases


def _same_scale(p: Place) -> bool:
    return len({(t.kind, t.scale) for t in (p.node.type, *(a.type for a in p.node.args))}) == 1


def abs_(p: Place) -> Rule:
    (a,) = p.at

    def cases(s: State) -> list[Case] | None:
        lo, hi, flags = s.D[a]
        if flags or not lo < 0 < hi:
            return None
        return [lambda s: s.cut(a, lo, -1, 0), lambda s: s.cut(a, 0, hi, 0)]

    return unary("abs")(p)._replace(finer=cases)


def round_(p: Place) -> Rule | None:
    """Return the rule of round or bround of ints or decimals to a number of digits."""
    (t,), u, digits = (a.type for a in p.node.args), p.node.type, p.node.params[0]
    if t.kind != u.kind:
        return None
    nearest = half_even if p.node.op == "bround" else half_up
    unit, lift = 10 ** min(max(t.scale - digits, 0), 80), 10 ** min(u.scale - min(digits, t.scale), 80)

    def rounded(x: int) -> int:
        return nearest(x, unit) * lift

    return stepwise(p, rounded, rounded, lambda z: z * unit // lift)
