"""Linear forms: bound and solve a sum as one equation, so that an expression that occurs twice counts once.

At every point without an error, a node equals ``sum of coefficient * atom + constant`` with integer coefficients,
whatever its width. This is true for ints, and for decimals and times while no digit is cut. The domain of the form is
intersected with the domain from the operators. An atom is a node that is not linear. ``x - k * (x div k)`` is
recognised as ``x % k``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

from ivjoin.expr.nodes import Node, make
from ivjoin.functions.records.linear import Sum, plus
from ivjoin.functions.rules.domain import NULL
from ivjoin.functions.rules.state import Backward, Forward, Infeasible, State
from ivjoin.functions.table import linear_of
from ivjoin.interval.machine import truth
from ivjoin.propagation.decided import Opening

__all__ = [
    "Equation", "Forms", "Sum", "equation", "forms", "remainders",
]  # fmt: skip

T, F, N = truth.TRUE, truth.FALSE, truth.NULL


def forms(nodes: Sequence[Node], at: Sequence[tuple[int, ...]]) -> list[Sum | None]:
    """Return the form of each node in topological order; None for a node that is not a whole number."""
    out: list[Sum | None] = []
    for i, n in enumerate(nodes):
        out.append(_form(i, n, [out[j] for j in at[i]]) if n.type.is_discrete else None)
    return out


def _form(i: int, n: Node, args: list[Sum | None]) -> Sum | None:
    """Return the form of a node from the forms of its arguments; an atom if the node is not linear in them."""
    if n.op == "literal":
        return None if n.params[0] is None else Sum({}, n.params[0], False)
    found = _opened(n, args)
    return Sum({i: 1}, 0, False) if found is None else found


def _opened(n: Node, args: list[Sum | None]) -> Sum | None:
    if not args or any(a is None for a in args):
        return None
    rule = linear_of(n)
    return None if rule is None or rule.total is None else rule.total(n, args)  # type: ignore[arg-type]


def remainders(nodes: Sequence[Node], known: Sequence[Sum | None]) -> dict[int, tuple[int, int, Node]]:
    """Return for each atom ``x div k`` with a constant k: the atom x, k, and the node ``x % k``."""
    out = {}
    for i, n in enumerate(nodes):
        if n.op == "intdiv" and n.type.kind == n.args[0].type.kind == "int" and n.args[1].op == "literal":
            x, k = known[nodes.index(n.args[0])], n.args[1].params[0]
            if k and x is not None and not x.constant and list(x.terms.values()) == [1]:
                out[i] = next(iter(x.terms)), k, make("mod", n.args, (), n.args[0].type)
    return out


def _with_remainders(d: Sum, found: dict[int, tuple[int, int, int]]) -> Sum:
    """Return ``c * x - c * k * (x div k)`` as ``c * (x % k)``."""
    terms, repeats = dict(d.terms), d.repeats
    for q, (x, k, r) in found.items():
        if q in terms and terms[q] == -k * terms.get(x, 0):
            del terms[q]
            terms[r] = terms.get(r, 0) + terms.pop(x)
            repeats = True
    return Sum(terms, d.constant, repeats)


def _without_quotients(d: Sum, found: dict[int, tuple[int, int, int]]) -> Sum | None:
    """Return a multiple of a form in which ``(x - x % k) / k`` replaces ``x div k``; None if the form has no x."""
    terms, constant = dict(d.terms), d.constant
    done = False
    for q, (x, k, r) in found.items():
        c = terms.get(q)
        if c is None or x not in terms:
            continue
        del terms[q]
        terms = {y: v * abs(k) for y, v in terms.items()}
        constant *= abs(k)
        c = c if k > 0 else -c
        terms[x] += c
        terms[r] = terms.get(r, 0) - c
        terms = {y: v for y, v in terms.items() if v}
        done = True
    return Sum(terms, constant, True) if done else None


def _joined(first: Equation | None, second: Equation | None) -> Equation | None:
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


class Equation(NamedTuple):
    """The rule of one linear form, in addition to the rule of the node's operator."""

    atoms: tuple[int, ...]
    forward: Forward  # None if it narrows nothing
    backward: Backward


class Forms(NamedTuple):
    """The linear forms of a graph: the sum of each node, or None.

    ``remainders`` has, for atoms ``x div k``, the place of x, k itself, and the place of ``x % k``. ``openings`` are
    atoms that are linear under a condition on the domains.
    """

    sums: list[Sum | None]
    remainders: dict[int, tuple[int, int, int]]
    openings: dict[int, Opening]


def equation(i: int, n: Node, at: tuple[int, ...], known: Forms, used: bool) -> Equation | None:
    """Return the equation of a node; None if the operators alone find the same bounds.

    ``used``: the node is an argument of a node that is not linear.
    """
    d: Sum | None
    if n.op in ("lt", "le", "gt", "ge", "eq", "ne"):
        a, b = known.sums[at[0]], known.sums[at[1]]
        if a is None or b is None or n.args[0].type.scale != n.args[1].type.scale:
            return None
        d = plus(a, b, -1)
    else:
        d = known.sums[i]
        if d is None or not used or i in d.terms:
            return None
    places = _reachable(d, known)
    if not places or not _would_repeat(d, places, known):
        return _closed_both(i, n.op, d, known)
    return _opening(i, n.op, d, places, known)


def _closed_both(i: int, op: str, d: Sum, known: Forms) -> Equation | None:
    """Return the equation of a form, and in a comparison also of the form without quotients."""
    plain = _closed(i, op, _with_remainders(d, known.remainders))
    if op not in ("lt", "le", "gt", "ge", "eq", "ne"):
        return plain
    other = _without_quotients(_with_remainders(d, known.remainders), known.remainders)
    return plain if other is None else _joined(plain, _closed(i, op, other))


def _closed(i: int, op: str, d: Sum) -> Equation | None:
    """Return the equation of a form, if it finds more than the operators."""
    if op not in ("lt", "le", "gt", "ge", "eq", "ne"):
        return _value(i, d) if d.repeats else None
    g = gcd(*d.terms.values()) if d.terms else 0
    uneven = op in ("eq", "ne") and len(d.terms) > 1 and any(abs(c) != 1 for c in d.terms.values())
    if not d.repeats and (len(d.terms) < 2 or (g <= 1 and not uneven)):
        return None
    return _comparison(i, op, d)


def _reachable(d: Sum, known: Forms) -> list[int]:
    """Return the atoms that can be replaced, inner ones after outer ones."""
    out: list[int] = []
    stack = [x for x in d.terms if x in known.openings]
    while stack:
        x = stack.pop()
        if x in out:
            continue
        out.append(x)
        for y, _ in known.openings[x].options:
            s = known.sums[y]
            if s is None:
                return []
            stack.extend(z for z in s.terms if z in known.openings)
    return out


def _would_repeat(d: Sum, places: list[int], known: Forms) -> bool:
    """Return whether an atom may occur twice after atoms are replaced."""
    count: dict[int, int] = dict.fromkeys(d.terms, 1)
    for x in places:
        inside = {z for y, _ in known.openings[x].options for z in known.sums[y].terms}  # type: ignore[union-attr]
        for z in inside:
            count[z] = count.get(z, 0) + 1
    return any(c > 1 for c in count.values())


def _opening(i: int, op: str, d: Sum, places: list[int], known: Forms) -> Equation:
    """Return an equation that replaces atoms as the domains decide them."""
    made: dict[tuple[int | None, ...], Equation | None] = {}
    choosers = [known.openings[x].choose for x in places]
    atoms = dict.fromkeys(d.terms)
    for x in places:
        for y, _ in known.openings[x].options:
            atoms.update(dict.fromkeys(known.sums[y].terms))  # type: ignore[union-attr]

    def current(D: list[Any]) -> Equation | None:
        key = tuple(choose(D) for choose in choosers)
        if key in made:
            return made[key]
        s = d
        while True:
            chosen = next((x for x, k in zip(places, key) if k is not None and x in s.terms), None)
            if chosen is None:
                break
            y, factor = known.openings[chosen].options[key[places.index(chosen)]]  # type: ignore[index]
            inner = known.sums[y]
            assert inner is not None
            c = s.terms[chosen]
            rest = Sum({z: v for z, v in s.terms.items() if z != chosen}, s.constant, s.repeats)
            s = plus(rest, inner, c * factor)
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


def _range(D: list[Any], terms: tuple[tuple[int, int], ...]) -> tuple[int, int, int] | None:
    """Return the bounds of the sum and the flags of its atoms; None if an atom has no value."""
    low = high = flags = 0
    for x, c in terms:
        lo, hi, f = D[x]
        if lo > hi:
            return None
        flags |= f
        if c > 0:
            low += c * lo
            high += c * hi
        else:
            low += c * hi
            high += c * lo
    return low, high, flags


def _solve(s: State, terms: tuple[tuple[int, int], ...], least: Any, most: Any) -> None:
    """Narrow the atoms to ``least <= sum <= most``; None is unbounded."""
    D = s.D
    found = _range(D, terms)
    if found is None:
        return
    low, high, _ = found
    if (least is not None and high < least) or (most is not None and low > most):
        raise Infeasible
    if (least is None or least <= low) and (most is None or high <= most):
        return
    for x, c in terms:
        lo, hi, _ = D[x]
        if c > 0:
            # c * x <= most - (low of the others), and >= least - (high of the others)
            top = hi if most is None else (most - low + c * lo) // c
            bottom = lo if least is None else -((high - c * hi - least) // c)
        else:
            top = hi if least is None else (high - c * lo - least) // -c
            bottom = lo if most is None else -((most - low + c * hi) // -c)
        if top < hi or bottom > lo:
            s.cut(x, bottom, top, ~0)
            nlo, nhi, _ = D[x]
            if nlo > nhi:
                return
            if c > 0:
                low += c * (nlo - lo)
                high += c * (nhi - hi)
            else:
                low += c * (nhi - hi)
                high += c * (nlo - lo)


def _congruent(s: State, terms: tuple[tuple[int, int], ...], total: int) -> None:
    """Narrow the atoms of ``sum = total`` to the residues that divisibility allows."""
    for k, (x, c) in enumerate(terms):
        g = 0
        for j, (_, other) in enumerate(terms):
            if j != k:
                g = gcd(g, other)
        if g <= 1:
            continue
        h = gcd(c, g)
        if total % h:
            raise Infeasible
        modulus = g // h
        if modulus == 1:
            continue
        residue = total // h * pow(c // h, -1, modulus) % modulus
        lo, hi, _ = s.D[x]
        if lo > hi:
            continue
        lo += (residue - lo) % modulus
        hi -= (hi - residue) % modulus
        if lo > hi:
            raise Infeasible
        s.cut(x, lo, hi, ~0)


def _comparison(i: int, op: str, d: Sum) -> Equation:
    g = gcd(*d.terms.values()) if d.terms else 1
    terms = tuple((x, c // g) for x, c in d.terms.items())
    # g * sum + constant compares with 0 like the sum with these: sum <= most is "<= 0", sum >= least is ">= 0".
    most, least = -d.constant // g, -(d.constant // g)
    whole = most == least
    bounds: dict[tuple[str, int], tuple[int | None, int | None]] = {
        ("le", T): (None, most), ("le", F): (most + 1, None), ("ge", T): (least, None), ("ge", F): (None, least - 1),
        ("lt", T): (None, least - 1), ("lt", F): (least, None), ("gt", T): (most + 1, None), ("gt", F): (None, most),
        ("eq", T): (least, most), ("ne", F): (least, most),
    }  # fmt: skip

    def forward(D: list[Any]) -> int | None:
        found = _range(D, terms)
        if found is None:
            return None
        low, high, _ = found
        if op in ("eq", "ne"):
            equal = whole and low <= least <= high
            differ = not (low == high == least and whole)
            true, false = (equal, differ) if op == "eq" else (differ, equal)
        elif op in ("le", "gt"):
            true, false = low <= most, high > most
            if op == "gt":
                true, false = false, true
        else:
            true, false = low < least, high >= least
            if op == "ge":
                true, false = false, true
        return N | (T if true else 0) | (F if false else 0)

    def backward(s: State) -> None:
        mask = s.D[i]
        wanted = bounds.get((op, mask))
        if wanted is None:
            found = _range(s.D, terms) if (op, mask) in (("ne", T), ("eq", F)) else None
            if found is not None and whole and found[0] == found[1] == least:
                raise Infeasible
            return
        if wanted[0] is not None and wanted[1] is not None:
            if not whole:
                raise Infeasible
            _solve(s, terms, *wanted)
            _congruent(s, terms, least)
        else:
            _solve(s, terms, *wanted)

    return Equation(tuple(d.terms), forward, backward)


def _value(i: int, d: Sum) -> Equation:
    terms, constant = tuple(d.terms.items()), d.constant

    def forward(D: list[Any]) -> Any:
        found = _range(D, terms)
        return None if found is None else (found[0] + constant, found[1] + constant, NULL)

    def backward(s: State) -> None:
        lo, hi, flags = s.D[i]
        if flags & NULL and any(s.D[x][2] & NULL for x, _ in terms):
            return
        if lo <= hi:
            _solve(s, terms, lo - constant, hi - constant)

    return Equation(tuple(d.terms), forward, backward)


