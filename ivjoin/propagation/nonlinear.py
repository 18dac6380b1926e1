"""Equations of polynomials: products, squares and sums of floats in which an expression occurs twice.

A polynomial is solved for each of its atoms x in turn:

- If x has no power, ``B * x + C`` lies in the target, and x in the quotient.
- If x is squared with a constant factor, the square is completed: ``(2 * A * x + B) ** 2 = 4 * A * target + (B * B - 4
  * A * C)``. The last term is cancelled as a polynomial, so ``a * a - 2 * a * b + b * b`` is a square.
- A single power has a root.

The result is intersected with the domain from the operators; it never replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, floor, inf, isqrt, nextafter, sqrt
from typing import Any

from ivjoin.expr import ops
from ivjoin.expr.nodes import NEGATED, Node
from ivjoin.expr.polynomial import Polynomial, divided, plus, times
from ivjoin.functions.rules.domain import NAN, NULL
from ivjoin.functions.rules.state import Infeasible, State
from ivjoin.interval import truth
from ivjoin.interval.machine import floats
from ivjoin.interval.machine.integers import mul_rev, root_down
from ivjoin.interval.machine.pairs import hull, meet
from ivjoin.propagation.polynomial import SLOP, Normal, error_of, power, range_of, ready, uses_of
from ivjoin.propagation.sums import Equation

__all__ = ["polynomial_equation"]

T, F = truth.TRUE, truth.FALSE
Pair = tuple[Any, Any]
Target = tuple[Any, Any]
_MAX = 1.7976931348623157e308
# A target is itself rounded, so its factors are those of the rounded product.
_float_mul_rev = partial(floats.mul_rev, floats.BINARY64)


def polynomial_equation(
    i: int, n: Node, at: tuple[int, ...], normal: Sequence[Normal | None], used: bool, discrete: frozenset[int]
) -> Equation | None:
    """Return the equation of a comparison or a number; None if the operators alone find the same bounds.

    ``used``: the node is an argument of a node outside polynomials. ``discrete`` are the places of whole numbers.
    """
    try:
        return _equation(i, n, at, normal, used, discrete)
    except OverflowError:  # a coefficient that a double cannot represent
        return None


def _equation(
    i: int, n: Node, at: tuple[int, ...], normal: Sequence[Normal | None], used: bool, discrete: frozenset[int]
) -> Equation | None:
    if n.op in NEGATED:
        a, b = normal[at[0]], normal[at[1]]
        types = [x.type for x in n.args]
        if a is None or b is None or types[0].kind != types[1].kind or types[0].scale != types[1].scale:
            return None
        p, whole = plus(a.terms, b.terms, -1), types[0].is_discrete
        if not _pays(p, uses_of((a, b)), whole):
            return None
        if whole:
            return _comparison(i, n.op, at, p, None, discrete)
        steps = tuple(dict.fromkeys((*a.steps, *b.steps)))

        def error(D: Sequence[Any]) -> float:
            if (D[at[0]][2] | D[at[1]][2]) & NAN:
                return inf
            return error_of(at[0], steps, D) + error_of(at[1], steps, D)

        return _comparison(i, n.op, at, p, error, discrete)
    own = normal[i]
    if own is None or not used or (i,) in own.terms or not _pays(own.terms, own.uses, n.type.is_discrete):
        return None
    return _value(i, own, n.type.is_discrete, discrete)


def _pays(p: Polynomial, uses: Mapping[int, int], whole: bool) -> bool:
    """Return whether the expression reads an atom twice. ``linear`` handles linear forms of whole numbers."""
    return any(k > 1 for k in uses.values()) and bool(p) and not (whole and all(len(m) < 2 for m in p))


def _comparison(
    i: int, op: str, at: tuple[int, ...], p: Polynomial, error: Callable[[Sequence[Any]], float] | None,
    discrete: frozenset[int],
) -> Equation:
    solver = _Solver(p, error is None, discrete)
    step = 1 if error is None else 0

    def backward(s: State) -> None:
        mask = s.D[i]
        if mask not in (T, F):
            return
        true = op if mask == T else NEGATED[op]
        if true == ops.NE:
            return
        e: Any = 0
        if error is not None:
            e = error(s.D)
            if e == inf:
                return
        low, high = ops.difference(true, step)
        solver.solve(s, (None if low is None else low - e, None if high is None else high + e))

    return Equation(solver.atoms, _silent, backward)


def _value(i: int, own: Normal, whole: bool, discrete: frozenset[int]) -> Equation:
    solver = _Solver(own.terms, whole, discrete)

    def backward(s: State) -> None:
        lo, hi, flags = s.D[i]
        if lo > hi or flags & NAN or (flags & NULL and any(s.D[x][2] & NULL for x in solver.atoms)):
            return
        e: Any = 0
        if not whole:
            e = error_of(i, own.steps, s.D)
            if e == inf:
                return
            lo, hi = nextafter(lo - e, -inf), nextafter(hi + e, inf)
        solver.solve(s, (lo, hi))

    return Equation(solver.atoms, _silent, backward)


def _silent(D: list[Any]) -> None:
    return None


class _Solver:
    """Solve a polynomial for each of its atoms."""

    def __init__(self, p: Polynomial, whole: bool, discrete: frozenset[int]) -> None:
        self.whole = whole
        self.discrete = discrete
        self.sum = ready(p, whole)
        self.atoms = tuple(dict.fromkeys(x for m in p for x in m))
        # An atom that occurs once, alone in its term, is solved as well: it depends on the others.
        self.ways = [(x, w) for x in self.atoms for w in _ways(p, x, whole)]

    def solve(self, s: State, target: Target) -> None:
        """Narrow the atoms to ``least <= polynomial <= most``, or raise Infeasible; None is unbounded."""
        found = range_of(self.sum, s.D, self.whole)
        if found is None:
            return
        low, high = found
        least, most = target
        if (least is not None and high < least) or (most is not None and low > most):
            raise Infeasible
        least, most = low if least is None else max(least, low), high if most is None else min(most, high)
        if least == low and most == high:
            return
        for x, way in self.ways:
            d = s.D[x]
            if d[0] > d[1]:
                return
            got = way(s.D, (least, most), d)
            if got is None:
                continue
            lo, hi = max(got[0], d[0]), min(got[1], d[1])
            if not self.whole and x in self.discrete and lo <= hi:
                lo, hi = ceil(lo), floor(hi)
            s.cut(x, lo, hi, ~0)


Way = Callable[[list[Any], Pair, Any], Pair | None]


def _ways(p: Polynomial, x: int, whole: bool) -> list[Way]:
    """Return how the polynomial can be solved for one of its atoms."""
    by: dict[int, Polynomial] = {}
    for m, c in p.items():
        k = m.count(x)
        by.setdefault(k, {})[tuple(y for y in m if y != x)] = c
    rest = by.pop(0, {})
    if set(by) == {1}:
        return [_quotient(by[1], rest, whole)]
    if set(by) <= {1, 2} and set(by[2]) == {()}:
        return [_square(by[2][()], by.get(1, {}), rest, whole)]
    if len(by) == 1:
        ((k, factor),) = by.items()
        return [_root(k, factor, rest, whole)]
    return []


def _quotient(factor: Polynomial, rest: Polynomial, whole: bool) -> Way:
    """Solve ``factor * x + rest``."""
    shift, left = divided(rest, factor, whole) if rest else ({}, {})
    f, r, k = (ready(q, whole) for q in (factor, left, shift))

    def way(D: list[Any], target: Pair, d: Any) -> Pair | None:
        b, c, m = range_of(f, D, whole), range_of(r, D, whole), range_of(k, D, whole)
        if b is None or c is None or m is None:
            return None
        z = target[0] - c[1], target[1] - c[0]
        y = (mul_rev if whole else _float_mul_rev)(z, b, (d[0] + m[0], d[1] + m[1]))
        return _moved(y, m, whole)

    return way


def _moved(y: Pair, m: Pair, whole: bool) -> Pair:
    """Return ``y - m``, rounded outward."""
    if y[0] > y[1]:
        return y
    lo, hi = y[0] - m[1], y[1] - m[0]
    return (lo, hi) if whole else _outward(lo, hi)


def _outward(lo: float, hi: float) -> Pair:
    # Beyond the greatest double are numbers that a double cannot represent.
    lo, hi = min(lo, _MAX), max(hi, -_MAX)
    low = lo if lo == -inf else nextafter(lo - abs(lo) * SLOP, -inf)
    return low, hi if hi == inf else nextafter(hi + abs(hi) * SLOP, inf)


def _square(a: Any, b: Polynomial, rest: Polynomial, whole: bool) -> Way:
    """Solve ``a * x * x + b * x + rest``: ``(2 * a * x + b) ** 2 = 4 * a * target + b * b - 4 * a * rest``."""
    d = plus(times(b, b), rest, -4 * a)
    shift, more = ready(b, whole), ready(d, whole)
    four: Any = 4 * a if whole else float(4 * a)
    two: Any = 2 * a if whole else float(2 * a)

    def way(D: list[Any], target: Pair, x: Any) -> Pair | None:
        m, e = range_of(shift, D, whole), range_of(more, D, whole)
        if m is None or e is None:
            return None
        lo, hi = four * target[0], four * target[1]
        if four < 0:
            lo, hi = hi, lo
        low, high = lo + e[0], hi + e[1]
        if not whole:
            size = max(abs(lo), abs(hi)) + max(abs(e[0]), abs(e[1]))
            low, high = low - size * SLOP, high + size * SLOP
        if high < 0:
            return 1, 0
        if whole:
            near = 0 if low <= 0 else isqrt(low - 1) + 1
            far = isqrt(high)
        else:
            near, far = _outward(sqrt(max(low, 0.0)), sqrt(high))
            near = max(near, 0.0)
        parts = (
            (mul_rev if whole else _float_mul_rev)(_moved(u, m, whole), (two, two), (x[0], x[1]))
            for u in ((near, far), (-far, -near))
        )
        return _hull_within(x, *parts)

    return way


def _root(k: int, factor: Polynomial, rest: Polynomial, whole: bool) -> Way:
    """Solve ``factor * x ** k + rest``."""
    f, r = ready(factor, whole), ready(rest, whole)

    def way(D: list[Any], target: Pair, d: Any) -> Pair | None:
        b, c = range_of(f, D, whole), range_of(r, D, whole)
        if b is None or c is None:
            return None
        x = power(d[0], d[1], k)
        z = target[0] - c[1], target[1] - c[0]
        y = (mul_rev if whole else _float_mul_rev)(z, b, x)
        lo, hi = max(y[0], x[0]), min(y[1], x[1])
        if lo > hi:
            return 1, 0
        if k % 2:
            return _cut_root(lo, k, whole, up=True), _cut_root(hi, k, whole, up=False)
        far = _cut_root(hi, k, whole, up=False)
        near = _cut_root(max(lo, 0), k, whole, up=True)
        return _hull_within(d, (near, far), (-far, -near))

    return way


def _hull_within(d: Any, first: Pair, second: Pair) -> Pair:
    """Return the hull of the parts of two intervals within a domain."""
    return hull(meet(first, d[:2]), meet(second, d[:2]))


def _cut_root(v: Any, k: int, whole: bool, up: bool) -> Any:
    """Return the least integer with a k-th power >= v (up), or the greatest with one <= v; rounded outward."""
    if whole:
        return -root_down(-v, k) if up else root_down(v, k)
    y = abs(v) ** (1 / k)
    y = nextafter(y + y * SLOP * 8, inf) if (v >= 0) != up else max(0.0, nextafter(y - y * SLOP * 8, -inf))
    return y if v >= 0 else -y
