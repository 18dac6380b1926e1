"""Equations for polynomials in which an expression occurs twice. They bound the polynomial, and then each of its atoms.

The result is always intersected with the domain that the operators give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, inf, nextafter
from typing import Any, NamedTuple

from ivjoin.expr import ops
from ivjoin.expr.nodes import NEGATED, Node
from ivjoin.expr.polynomial import Polynomial
from ivjoin.functions.rules.domain import NAN, NULL, met
from ivjoin.functions.rules.rule import Rule
from ivjoin.functions.rules.state import Backward, Forward, Infeasible, State
from ivjoin.interval import truth
from ivjoin.propagation.polynomial import Normal, difference, error_of, range_of
from ivjoin.propagation.solver import Solver

__all__ = ["Equation", "both", "comparison", "joined", "polynomial_equation", "value"]

T, F, N = truth.TRUE, truth.FALSE, truth.NULL
_NOWHERE: frozenset[int] = frozenset()


class Equation(NamedTuple):
    """The rule of one polynomial, in addition to the rule of the node's operator."""

    atoms: tuple[int, ...]
    forward: Forward  # None if it narrows nothing
    backward: Backward


def joined(first: Equation | None, second: Equation | None) -> Equation | None:
    """Combine two equations of one node."""
    if first is None or second is None:
        return first if second is None else second
    a, b = first, second

    def forward(D: list[Any]) -> Any:
        x, y = a.forward(D), b.forward(D)
        return y if x is None else x if y is None else x & y

    def backward(s: State) -> None:
        a.backward(s)
        b.backward(s)

    return Equation(tuple(dict.fromkeys((*a.atoms, *b.atoms))), forward, backward)


def both(rule: Rule, e: Equation) -> Rule:
    """Return a rule that runs the operator's rule and then the equation."""
    forward, backward = rule.forward, rule.backward
    if forward is None or backward is None:
        return rule

    def up(D: list[Any]) -> Any:
        new, also = forward(D), e.forward(D)
        return new if also is None else met(new, also)

    def down(s: State) -> None:
        backward(s)
        e.backward(s)

    return rule._replace(forward=up, backward=down)


def polynomial_equation(
    i: int, n: Node, at: tuple[int, ...], normal: Sequence[Normal | None], used: bool, discrete: frozenset[int]
) -> Equation | None:
    """Return the equation of a comparison or a number, or None if the operators alone find the same bounds.

    ``used`` is true if the node is an argument of a node that is not a polynomial. ``discrete`` are the indexes of
    whole numbers. ``linear`` creates the equations of linear forms of whole numbers.
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
        d, whole = difference(a, b), types[0].is_discrete
        if not _pays(d, whole):
            return None
        if whole:
            return comparison(i, n.op, d.terms)
        steps = tuple(dict.fromkeys((*a.steps, *b.steps)))

        def error(D: Sequence[Any]) -> float:
            if (D[at[0]][2] | D[at[1]][2]) & NAN:
                return inf
            return error_of(at[0], steps, D) + error_of(at[1], steps, D)

        return _rounded(i, n.op, Solver(d.terms, False, discrete), error)
    own = normal[i]
    if own is None or not used or (i,) in own.terms or not _pays(own, n.type.is_discrete):
        return None
    return value(i, own, n.type.is_discrete, discrete)


def _pays(d: Normal, whole: bool) -> bool:
    return d.repeats and bool(d.terms) and not (whole and all(len(m) < 2 for m in d.terms))


def comparison(i: int, op: str, p: Polynomial) -> Equation:
    """Return the equation of ``p op 0`` over whole numbers."""
    g = gcd(*(c for m, c in p.items() if m)) or 1
    more = p.get((), 0) % g  # p is g times the solved polynomial plus this
    solver = Solver({m: c // g for m, c in p.items() if c // g}, True)

    def ends(op: str) -> tuple[Any, Any]:
        low, high = ops.difference(op, 1)
        return -inf if low is None else -((more - low) // g), inf if high is None else (high - more) // g

    wanted = {o: ends(o) for o in NEGATED}
    equal = op == ops.NE
    first, last = wanted[ops.EQ if equal else op]

    def forward(D: list[Any]) -> int | None:
        found = range_of(solver.sum, D, True)
        if found is None:
            return None
        low, high = found
        true, false = low <= last and first <= high and first <= last, low < first or last < high
        if equal:
            true, false = false, true
        return N | (T if true else 0) | (F if false else 0)

    def backward(s: State) -> None:
        mask = s.D[i]
        if mask not in (T, F):
            return
        true = op if mask == T else NEGATED[op]
        if true != ops.NE:
            solver.solve(s, *wanted[true])
        elif (found := forward(s.D)) is not None and not found & mask:
            raise Infeasible

    return Equation(solver.atoms, forward, backward)


def _rounded(i: int, op: str, solver: Solver, error: Callable[[Sequence[Any]], float]) -> Equation:
    """Return the equation of a comparison of floats with 0. ``error`` bounds the distance from the polynomial."""

    def backward(s: State) -> None:
        mask = s.D[i]
        if mask not in (T, F):
            return
        true = op if mask == T else NEGATED[op]
        if true == ops.NE:
            return
        e = error(s.D)
        if e < inf:
            low, high = ops.difference(true, 0)
            solver.solve(s, -inf if low is None else low - e, inf if high is None else high + e)

    return Equation(solver.atoms, _silent, backward)


def value(i: int, own: Normal, whole: bool = True, discrete: frozenset[int] = _NOWHERE) -> Equation:
    """Return the equation of a number."""
    solver = Solver(own.terms, whole, discrete)

    def forward(D: list[Any]) -> Any:
        found = range_of(solver.sum, D, True)
        return None if found is None else (*found, NULL)

    def backward(s: State) -> None:
        lo, hi, flags = s.D[i]
        if lo > hi or flags & NAN or (flags & NULL and any(s.D[x][2] & NULL for x in solver.atoms)):
            return
        if not whole:
            e = error_of(i, own.steps, s.D)
            if e == inf:
                return
            lo, hi = nextafter(lo - e, -inf), nextafter(hi + e, inf)
        solver.solve(s, lo, hi)

    return Equation(solver.atoms, forward if whole else _silent, backward)


def _silent(D: list[Any]) -> None:
    return None
