"""Bound and solve a sum as one linear equation, so that repeated expressions cancel.

Unless it raises an error, a node equals ``sum of coefficient * atom + constant`` with integer coefficients. This is
true for ints of any width, and for decimals and times if no digit is dropped. An atom is a node that is not linear. The
domain of the form is intersected with the domain that the operators give. ``x - k * (x div k)`` is recognised as
``x % k``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

from ivjoin.expr import ops
from ivjoin.expr.nodes import NEGATED, Node, make
from ivjoin.expr.polynomial import Polynomial, plus, scaled
from ivjoin.functions.rules.state import State
from ivjoin.propagation.decided import Opening
from ivjoin.propagation.equations import Equation, comparison, joined, value
from ivjoin.propagation.polynomial import Normal, atoms_of, difference, uses_of

__all__ = ["Forms", "arguments", "equation", "remainders"]


def arguments(nodes: Sequence[Node]) -> list[tuple[int, ...]]:
    """Return the indexes of the arguments of each node."""
    index = {n: i for i, n in enumerate(nodes)}
    return [tuple(index[a] for a in n.args) for n in nodes]


def remainders(nodes: Sequence[Node], known: Sequence[Normal | None]) -> dict[int, tuple[int, int, Node]]:
    """Return (x, k, node of ``x % k``) for each atom ``x div k`` with a constant k."""
    out = {}
    for i, n in enumerate(nodes):
        if n.op == ops.INTDIV and n.type.kind == n.args[0].type.kind == "int" and n.args[1].op == "literal":
            x, k = known[nodes.index(n.args[0])], n.args[1].params[0]
            if k and x is not None and list(x.terms.values()) == [1] and () not in x.terms:
                out[i] = atoms_of(x.terms)[0], k, make(ops.MOD, n.args, (), n.args[0].type)
    return out


def _with_remainders(d: Normal, found: dict[int, tuple[int, int, int]]) -> Normal:
    """Return ``c * x - c * k * (x div k)`` as ``c * (x % k)``."""
    for q, (x, k, r) in found.items():
        c = d.terms.get((x,), 0)
        if d.terms.get((q,)) == -k * c:
            d = Normal(plus(d.terms, {(x,): -c, (q,): k * c, (r,): c}), (), d.uses | {x: 2})
    return d


def _without_quotients(d: Normal, found: dict[int, tuple[int, int, int]]) -> Normal | None:
    """Replace ``x div k`` by ``(x - x % k) / k`` in a form, and return a multiple with integer coefficients.

    None if the form does not contain such an x.
    """
    out = None
    for q, (x, k, r) in found.items():
        c = d.terms.get((q,), 0)
        if c and (x,) in d.terms:
            more: Polynomial = {(q,): -c * abs(k), (x,): c if k > 0 else -c, (r,): -c if k > 0 else c}
            out = d = Normal(plus(scaled(d.terms, abs(k)), more), (), d.uses | {x: 2})
    return out


class Forms(NamedTuple):
    """The linear forms of a graph: the sum of each node, or None.

    ``remainders`` contains (index of x, k, index of ``x % k``) for each atom ``x div k``. ``openings`` are atoms that
    some domains make linear.
    """

    sums: list[Normal | None]
    remainders: dict[int, tuple[int, int, int]]
    openings: dict[int, Opening]


def equation(i: int, n: Node, at: tuple[int, ...], known: Forms, used: bool) -> Equation | None:
    """Return the equation of a node, or None if the operators alone find the same bounds.

    ``used`` is true if the node is an argument of a node that is not linear.
    """
    d: Normal | None
    if n.op in NEGATED:
        a, b = known.sums[at[0]], known.sums[at[1]]
        if a is None or b is None or n.args[0].type.scale != n.args[1].type.scale:
            return None
        d = difference(a, b)
    else:
        d = known.sums[i]
        if d is None or not used or (i,) in d.terms:
            return None
    places = _reachable(d, known)
    if not places or not _would_repeat(d, places, known):
        return _closed_both(i, n.op, d, known)
    return _opening(i, n.op, d, places, known)


def _closed_both(i: int, op: str, d: Normal, known: Forms) -> Equation | None:
    """Return the equation of a form. For a comparison, also use the form without quotients."""
    plain = _closed(i, op, _with_remainders(d, known.remainders))
    if op not in NEGATED:
        return plain
    other = _without_quotients(_with_remainders(d, known.remainders), known.remainders)
    return plain if other is None else joined(plain, _closed(i, op, other))


def _closed(i: int, op: str, d: Normal) -> Equation | None:
    """Return the equation of a form, or None if the operators alone find the same bounds."""
    if op not in NEGATED:
        return value(i, d) if d.repeats else None
    factors = [c for m, c in d.terms.items() if m]
    if not d.repeats and (len(factors) < 2 or gcd(*factors) <= 1):
        return None
    return comparison(i, op, d.terms)


def _reachable(d: Normal, known: Forms) -> list[int]:
    """Return the atoms that can be replaced. Outer atoms come before inner ones."""
    out: list[int] = []
    stack = [x for x in atoms_of(d.terms) if x in known.openings]
    while stack:
        x = stack.pop()
        if x in out:
            continue
        out.append(x)
        for y, _ in known.openings[x].options:
            s = known.sums[y]
            if s is None:
                return []
            stack.extend(z for z in atoms_of(s.terms) if z in known.openings)
    return out


def _would_repeat(d: Normal, places: list[int], known: Forms) -> bool:
    """Return whether an atom may occur twice after the replacement of atoms."""
    count: dict[int, int] = dict.fromkeys(atoms_of(d.terms), 1)
    for x in places:
        inside = {z for y, _ in known.openings[x].options for z in atoms_of(known.sums[y].terms)}  # type: ignore[union-attr]
        for z in inside:
            count[z] = count.get(z, 0) + 1
    return any(c > 1 for c in count.values())


def _opening(i: int, op: str, d: Normal, places: list[int], known: Forms) -> Equation:
    """Return an equation that replaces the atoms that the domains decide. The form of each combination is cached."""
    made: dict[tuple[int | None, ...], Equation | None] = {}
    choosers = [known.openings[x].choose for x in places]
    atoms = dict.fromkeys(atoms_of(d.terms))
    for x in places:
        for y, _ in known.openings[x].options:
            atoms.update(dict.fromkeys(atoms_of(known.sums[y].terms)))  # type: ignore[union-attr]

    def current(D: list[Any]) -> Equation | None:
        key = tuple(choose(D) for choose in choosers)
        if key in made:
            return made[key]
        s = d
        while True:
            chosen = next((x for x, k in zip(places, key) if k is not None and (x,) in s.terms), None)
            if chosen is None:
                break
            y, factor = known.openings[chosen].options[key[places.index(chosen)]]  # type: ignore[index]
            inner = known.sums[y]
            assert inner is not None
            c = s.terms[chosen,]
            s = Normal(plus(plus(s.terms, {(chosen,): -c}), inner.terms, c * factor), (), uses_of((s, inner)))
        made[key] = _closed_both(i, op, s, known)
        return made[key]

    def forward(D: list[Any]) -> Any:
        e = current(D)
        return None if e is None else e.forward(D)

    def backward(s: State) -> None:
        e = current(s.D)
        if e is not None:
            e.backward(s)

    return Equation(tuple(atoms), forward, backward)
