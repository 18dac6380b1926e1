"""Solve a polynomial for each of its atoms x in turn, from the bounds of the whole.

- If the polynomial is ``B * x + C``, then x lies in ``(target - C) / B``.
- If x is squared with a constant factor A, the square is completed: ``(2 * A * x + B) ** 2 = 4 * A * target + (B * B -
  4 * A * C)``. Equal terms in the last summand cancel, so ``a * a - 2 * a * b + b * b`` is a square.
- If x occurs in only one power, x is bounded by a root.

The result is always intersected with the domain that the operators give.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, floor, inf, isqrt, nextafter, sqrt
from typing import Any

from ivjoin.expr.polynomial import Polynomial, divided, plus, times
from ivjoin.functions.rules.state import Infeasible, State
from ivjoin.interval.machine import floats
from ivjoin.interval.machine.integers import mul_rev, root_down
from ivjoin.interval.machine.pairs import hull, meet
from ivjoin.propagation.polynomial import SLOP, atoms_of, power, range_of, ready

__all__ = ["Solver"]

Pair = tuple[Any, Any]
_MAX = 1.7976931348623157e308
# The target is rounded too, so the inverse of the rounded product gives the factors.
_float_mul_rev = partial(floats.mul_rev, floats.BINARY64)


class Solver:
    """Solve a polynomial for each of its atoms."""

    def __init__(self, p: Polynomial, whole: bool, discrete: frozenset[int] = frozenset()) -> None:
        self.whole = whole
        self.discrete = discrete
        self.sum = ready(p, whole)
        self.atoms = atoms_of(p)
        # `_solve_sum` handles a sum of whole numbers in which every atom occurs once.
        self.factors = [(m[0], c) for m, c in p.items() if m] if whole and all(len(m) < 2 for m in p) else []
        # The equation is also solved for an atom that occurs only once, because the other atoms bound it.
        self.ways = [] if self.factors else [(x, w) for x in self.atoms for w in _ways(p, x, whole)]

    def solve(self, s: State, least: Any, most: Any) -> None:
        """Narrow the atoms so that ``least <= polynomial <= most``, or raise Infeasible. An infinity is an open end."""
        found = range_of(self.sum, s.D, self.whole)
        if found is None:
            return
        low, high = found
        least, most = max(least, low), min(most, high)
        if least > most:
            raise Infeasible
        if least == low and most == high:
            return
        self._solve_sum(s, least, most, low, high)
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

    def _solve_sum(self, s: State, least: int, most: int, low: int, high: int) -> None:
        """Narrow the atoms of a sum whose bounds are ``low`` and ``high``."""
        for x, c in self.factors:
            lo, hi, _ = s.D[x]
            if c > 0:
                s.cut(x, -((high - c * hi - least) // c), (most - low + c * lo) // c, ~0)
            else:
                s.cut(x, -((low - c * hi - most) // c), (least - high + c * lo) // c, ~0)
            nlo, nhi, _ = s.D[x]
            if nlo > nhi:
                return
            low += c * (nlo - lo if c > 0 else nhi - hi)
            high += c * (nhi - hi if c > 0 else nlo - lo)


Way = Callable[[list[Any], Pair, Any], Pair | None]


def _ways(p: Polynomial, x: int, whole: bool) -> list[Way]:
    """Return functions that solve the polynomial for one of its atoms."""
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
    # An end that overflowed to infinity stands for some number beyond the greatest double.
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
    """Intersect two intervals with a domain, and return the hull of the results."""
    return hull(meet(first, d[:2]), meet(second, d[:2]))


def _cut_root(v: Any, k: int, whole: bool, up: bool) -> Any:
    """Return the least x with ``x ** k >= v`` (``up``), or the greatest x with ``x ** k <= v``, rounded outward."""
    if whole:
        return -root_down(-v, k) if up else root_down(v, k)
    y = abs(v) ** (1 / k)
    y = nextafter(y + y * SLOP * 8, inf) if (v >= 0) != up else max(0.0, nextafter(y - y * SLOP * 8, -inf))
    return y if v >= 0 else -y
