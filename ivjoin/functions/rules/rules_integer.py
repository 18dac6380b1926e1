"""Rules of exact arithmetic: ints, times, and decimals on their unscaled integers.

A value outside of the type's range is an error, which satisfies no condition. Results are therefore clipped to the
range, and inverted as unbounded integers.
"""

from __future__ import annotations

from typing import Any

from ivjoin.functions.rules.rule import (
    Maker,
    Pair,
    Place,
    Rule,
    binary,
    of_binary,
    of_unary,
    strict_binary,
    strict_unary,
    unary,
)
from ivjoin.functions.rules.state import Case, Cases, State
from ivjoin.interval.machine import decimals as d
from ivjoin.interval.machine import integers as m
from ivjoin.interval.machine.casts import scaled
from ivjoin.interval.typed import operators

__all__ = [
    "abs_", "add", "decimal_div", "decimal_mul", "decimal_sum", "intdiv", "linear", "mul", "remainder", "round_", "sub",
]  # fmt: skip


def linear(p: Place, sign: int) -> Rule:
    """Return ``a + b`` or ``a - b``, written out because most conditions consist of these."""
    i, (a, b) = p.i, p.at
    least, most = p.node.type.limits
    if a == b:
        k = 1 + sign
        twice = (lambda x: (k * x[0], k * x[1]), lambda z, x: m.mul_rev(z, (k, k), x))
        return strict_unary(Place(p.node, i, (a,)), *twice, (least, most))

    def up(D: list[Any]) -> Any:
        alo, ahi, af = D[a]
        blo, bhi, bf = D[b]
        if alo > ahi or blo > bhi:
            return 1, 0, af | bf
        if sign > 0:
            lo, hi = alo + blo, ahi + bhi
        else:
            lo, hi = alo - bhi, ahi - blo
        if lo < least:
            lo = least
        if hi > most:
            hi = most
        return (lo, hi, af | bf) if lo <= hi else (1, 0, af | bf)

    def down(s: State) -> None:
        D = s.D
        zlo, zhi, zf = D[i]
        alo, ahi, af = D[a]
        blo, bhi, bf = D[b]
        if not zf & bf:
            if zlo > zhi or blo > bhi:
                s.cut(a, 1, 0, zf)
            elif sign > 0:
                s.cut(a, zlo - bhi, zhi - blo, zf)
            else:
                s.cut(a, zlo + blo, zhi + bhi, zf)
            alo, ahi, _ = D[a]
        if not zf & af:
            if zlo > zhi or alo > ahi:
                s.cut(b, 1, 0, zf)
            elif sign > 0:
                s.cut(b, zlo - ahi, zhi - alo, zf)
            else:
                s.cut(b, alo - zhi, ahi - zlo, zf)

    return Rule(up, down)


def add(p: Place) -> Rule | None:
    return linear(p, 1) if _alike(p) else None


def sub(p: Place) -> Rule | None:
    return linear(p, -1) if _alike(p) else None


def _alike(p: Place) -> bool:
    """Return whether the sum of the unscaled values is what the evaluator computes."""
    node = p.node
    kinds = {a.type.kind for a in node.args}
    if kinds <= {"int", "months"}:
        return node.type.kind in kinds
    return len({a.type.unit for a in node.args}) == 1 and node.type.kind in ("timestamp", "duration")


def mul(p: Place) -> Rule | None:
    return exact_product(p) if p.node.type.kind in ("int", "duration", "months") else None


def exact_product(p: Place) -> Rule:
    limits = p.node.type.limits
    a, b = p.at
    if a == b:
        return strict_unary(Place(p.node, p.i, (a,)), m.sqr, m.sqr_rev, limits)
    return strict_binary(p, m.mul, m.mul_rev, m.mul_rev, limits)


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
    """Return a remainder's values one by one if they are few; each one allows one class of dividends."""

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


# Decimals: real results are rounded HALF_UP, as in ``ivjoin.interval.machine.decimals``.


def _decimal(p: Place, name: str) -> Rule | None:
    made = operators.outer(name, *(a.type for a in p.node.args))
    if made.domain.scale != p.node.type.scale:
        return None
    return exact_product(p) if made.forward is m.mul else of_binary(p, made)


def decimal_sum(name: str) -> Maker:
    def make(p: Place) -> Rule | None:
        if len({t.scale for t in (p.node.type, *(a.type for a in p.node.args))}) == 1:
            return linear(p, 1 if name == "add" else -1)
        return _decimal(p, name)

    return make


def decimal_mul(p: Place) -> Rule | None:
    return _decimal(p, "mul")


def decimal_div(p: Place) -> Rule | None:
    return _decimal(p, "div")


def round_(p: Place) -> Rule | None:
    (t,), u, digits = (a.type for a in p.node.args), p.node.type, p.node.params[0]
    have = t.scale
    if t.kind != u.kind or p.node.op not in ("round", "bround"):
        return None
    limits = u.limits
    if digits >= have:
        lift = 10 ** (u.scale - have) if u.scale >= have else 0
        if not lift:
            return None
        return of_unary(p, scaled(u, lift))
    unit = 10 ** min(have - digits, 80)
    lift = 10 ** min(u.scale - digits, 80) if u.scale >= digits else 1
    if p.node.op == "round":
        def up(x: Pair) -> Pair:
            lo, hi = d.rounded(x, unit)
            return lo * lift, hi * lift

        return strict_unary(p, up, lambda z, x: d.unrounded(_whole(z, lift), unit), limits)

    # HALF_EVEN: ties go either way, so a tie belongs to both neighbours.
    def up_even(x: Pair) -> Pair:
        lo, hi = -((unit - 2 * x[0]) // (2 * unit)), (2 * x[1] + unit) // (2 * unit)
        return lo * lift, hi * lift

    def back_even(z: Pair, x: Pair) -> Pair:
        lo, hi = _whole(z, lift)
        return lo * unit - unit // 2, hi * unit + unit // 2

    return strict_unary(p, up_even, back_even, limits)


def _whole(z: Pair, unit: int) -> Pair:
    """Return the quotients of the members of z that are multiples of the unit."""
    return -(-z[0] // unit), z[1] // unit
