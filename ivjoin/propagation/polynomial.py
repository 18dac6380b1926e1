"""Express each node of a graph as a polynomial of other nodes, with a bound on its rounding error.

A whole number equals its polynomial unless an operation overflows, which is an error. The rounding error of a float is
bounded step by step, from the magnitudes of the operands. If a magnitude is unbounded, the error is too. Coefficients
are ints for whole numbers, and fractions for floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf, isfinite
from typing import Any, NamedTuple

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node
from ivjoin.expr.polynomial import Polynomial, plus, scaled, times
from ivjoin.functions.rules.domain import NAN
from ivjoin.functions.table import linear_of

__all__ = [
    "SLOP", "Normal", "Step", "Terms", "atoms_of", "difference", "error_of", "normal_forms", "power", "range_of",
    "ready", "uses_of",
]  # fmt: skip

_MOST_TERMS = 12
_MOST_FACTORS = 3
# Rounding to nearest has an error of at most half a unit in the last place. A whole unit is allowed here, to cover
# rounding in the computation of the bound. For subnormal numbers, the error is absolute.
_UNIT = {32: (2.0**-23, 2.0**-148), 64: (2.0**-52, 5e-324)}
# The relative error of a sum of doubles, as a fraction of the sum of the magnitudes.
SLOP = 2.0**-50


class Step(NamedTuple):
    """One rounded operation: its node, kind and arguments, and its error in units of the last place."""

    place: int
    kind: str  # add, mul or scale
    args: tuple[int, ...]
    factor: float
    unit: tuple[float, float]


class Normal(NamedTuple):
    """A node as a polynomial.

    ``steps`` are the rounded operations between the atoms and the node, arguments first. A whole number has no steps.
    ``uses`` counts how often the expression reads each atom. A square reads its root once.
    """

    terms: Polynomial
    steps: tuple[Step, ...]
    uses: dict[int, int]

    @property
    def repeats(self) -> bool:
        """Return whether the expression reads an atom twice."""
        return any(k > 1 for k in self.uses.values())


def difference(a: Normal, b: Normal) -> Normal:
    """Return ``a - b`` without rounding."""
    return Normal(plus(a.terms, b.terms, -1), (), uses_of((a, b)))


def atoms_of(p: Polynomial) -> tuple[int, ...]:
    return tuple(dict.fromkeys(x for m in p for x in m))


def uses_of(args: Iterable[Normal]) -> dict[int, int]:
    """Return how often several expressions read each atom in total."""
    out: dict[int, int] = {}
    for a in args:
        for x, k in a.uses.items():
            out[x] = out.get(x, 0) + k
    return out


def normal_forms(
    nodes: Sequence[Node], at: Sequence[tuple[int, ...]], degree: int = _MOST_FACTORS
) -> list[Normal | None]:
    """Return the polynomial of each node, or None for nodes that are not numbers. Nodes are in topological order.

    ``degree`` is the maximum number of factors in a term. With degree 1, the results are the linear forms of whole
    numbers, with any number of terms.
    """
    out: list[Normal | None] = []
    for i, n in enumerate(nodes):
        if not (n.type.is_discrete or (n.type.kind == "float" and degree > 1)):
            out.append(None)
        elif n.op == "literal":
            out.append(_of_literal(n))
        else:
            args = [out[j] for j in at[i]]
            found = None if not args or any(a is None for a in args) else _of(n, i, at[i], args)  # type: ignore[arg-type]
            if found is not None and not _is_small(found.terms, degree):
                found = None
            out.append(Normal({(i,): 1}, (), {i: 1}) if found is None else found)
    return out


def _of_literal(n: Node) -> Normal | None:
    v = n.params[0]
    if v is None:
        return None
    if n.type.kind == "float":
        if not isfinite(v):
            return None
        v = Fraction(v)
    return Normal({(): v} if v else {}, (), {})


def _is_small(p: Polynomial, degree: int) -> bool:
    return (degree == 1 or len(p) <= _MOST_TERMS) and all(len(m) <= degree for m in p)


def _of(n: Node, i: int, at: tuple[int, ...], args: list[Normal]) -> Normal | None:
    # The operator's own rule handles x * x as a square, so x is read once.
    uses = uses_of(args[:1] if len(set(at)) == 1 else args)
    if n.type.kind == "float":
        made = _of_float(n, i, at, args)
        if made is None:
            return None
        steps = dict.fromkeys(s for a in args for s in a.steps)
        return Normal(made[0], (*steps, made[1]), uses)
    rule = linear_of(n)
    found = None if rule is None or rule.total is None else rule.total(n, [a.terms for a in args])
    return None if found is None else Normal(found, (), uses)


def _of_float(n: Node, i: int, at: tuple[int, ...], args: list[Normal]) -> tuple[Polynomial, Step] | None:
    """Return the terms and the rounded operation of a float node."""
    op, a, unit = n.op, args[0].terms, _UNIT[32 if n.type.bits == 32 else 64]
    if op == ops.NEG:
        return scaled(a, -1), Step(i, "scale", at, 1.0, (0.0, 0.0))
    if op in (ops.ADD, ops.SUB):
        return plus(a, args[1].terms, 1 if op == ops.ADD else -1), Step(i, ops.ADD, at, 1.0, unit)
    if op == ops.MUL:
        return times(a, args[1].terms), Step(i, ops.MUL, at, 1.0, unit)
    if op == ops.DIV and set(args[1].terms) == {()}:
        c = 1 / Fraction(args[1].terms[()])
        if abs(c) > 10**300:
            return None
        return scaled(a, c), Step(i, "scale", at[:1], abs(float(c)) * 1.0000001, unit)
    if op == ops.POW and args[1].terms == {(): 2}:
        # Not every math library rounds a power correctly, so allow a larger error.
        return times(a, a), Step(i, ops.MUL, (at[0], at[0]), 1.0, (unit[0] * 16, unit[1] * 16))
    if op == ops.CAST and n.args[0].type.kind in ("int", "decimal", "float"):
        scale = 10 ** n.args[0].type.scale if n.args[0].type.kind == "decimal" else 1
        return scaled(a, Fraction(1, scale)), Step(i, "scale", at, 1.0000001 / scale, (unit[0] * 4, unit[1] * 4))
    return None


def error_of(root: int, steps: Sequence[Step], D: Sequence[Any]) -> float:
    """Return the greatest distance of a node's computed value from its polynomial, or inf if it is not bounded."""
    errors: dict[int, float] = {}
    for s in steps:
        lo, hi, flags = D[s.place]
        if flags & NAN or lo > hi:
            return inf
        size = max(-lo, hi)
        kind, args = s.kind, s.args
        e = errors.get(args[0], 0.0)
        if kind == ops.ADD:
            e += errors.get(args[1], 0.0)
        elif kind == "scale":
            e *= s.factor
        elif kind == ops.MUL:
            f = errors.get(args[1], 0.0)
            x, y = D[args[0]], D[args[1]]
            e = max(-x[0], x[1]) * f + max(-y[0], y[1]) * e + e * f
        e += size * s.unit[0] + s.unit[1]
        if not e < inf:  # also if e is NaN, from inf * 0
            return inf
        errors[s.place] = e * 1.000001
    return errors.get(root, 0.0)


class Terms(NamedTuple):
    """A polynomial in the form for evaluation: each term is (coefficient, factors with their powers)."""

    terms: tuple[tuple[Any, tuple[tuple[int, int], ...]], ...]


def ready(p: Polynomial, whole: bool) -> Terms:
    terms = []
    for m, c in p.items():
        powers = tuple((x, m.count(x)) for x in dict.fromkeys(m))
        terms.append((c if whole else float(c), powers))
    return Terms(tuple(terms))


def range_of(p: Terms, D: list[Any], whole: bool) -> tuple[Any, Any] | None:
    """Return the bounds of a polynomial, or None if an atom has no value or no bound."""
    low: Any = 0
    high: Any = 0
    size: Any = 0
    for c, powers in p.terms:
        a: Any = c
        b: Any = c
        for x, k in powers:
            lo, hi, _ = D[x]
            if lo > hi:
                return None
            if k > 1:
                lo, hi = power(lo, hi, k)
            if a == b:
                a, b = (a * lo, a * hi) if a >= 0 else (a * hi, a * lo)
            elif a >= 0:
                a, b = (a if lo >= 0 else b) * lo, (b if hi >= 0 else a) * hi
            else:
                corners = (a * lo, a * hi, b * lo, b * hi)
                a, b = min(corners), max(corners)
        low += a
        high += b
        if not whole:
            size += max(-a, b)
    if whole:
        return low, high
    if not size < inf or low != low or high != high:
        return None
    slop = size * SLOP * (len(p.terms) + 1) + 5e-324
    return low - slop, high + slop


def power(lo: Any, hi: Any, k: int) -> tuple[Any, Any]:
    a, b = lo * lo, hi * hi
    if k == 3:
        a, b = a * lo, b * hi
    if k % 2 or lo >= 0:
        return a, b
    return (b, a) if hi <= 0 else (0, max(a, b))
