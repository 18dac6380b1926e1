"""Derive linear inequalities from inequalities with two-sided atoms: abs, greatest, least and products.

Each step replaces an atom by a bound, and its result follows from its input. An atom with a positive factor is replaced
by a lower bound, and an atom with a negative factor by an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from ivjoin.expr import ops
from ivjoin.expr.form import root_bound
from ivjoin.expr.nodes import Node
from ivjoin.separation.linear import BOTH_SIDES, Form, Forms, Number, Power

__all__ = ["Inequality", "consequences", "proportion"]

_MOST = 16


@dataclass(frozen=True, slots=True)
class Inequality:
    """The inequality ``form <= 0``, which holds unless an atom in ``nullable`` is NULL."""

    form: Form
    nullable: frozenset[Node] = frozenset()


@dataclass(frozen=True, slots=True)
class _Choice:
    """A bound that may replace an atom unless an atom in ``nullable`` is NULL. A constant bound has no terms."""

    form: Form
    nullable: frozenset[Node] = frozenset()


def consequences(forms: Forms, q: Inequality, depth: int = 3) -> list[Inequality]:
    """Return inequalities without two-sided atoms that follow from ``q``; empty if none are found."""
    mixed = [n for n in q.form.terms if forms.sides(n) == BOTH_SIDES]
    if not mixed:
        # If a nullable atom cancels out, the result would also hold for rows where it is NULL.
        return [q] if q.nullable <= q.form.terms.keys() else []
    if depth == 0 or len(mixed) > 4:
        return []
    if any(z.op == ops.MUL and proportion(forms, z) is None for z in mixed):
        return _multiplied_out(forms, q, depth)
    options = {z: _choices(forms, z, q.form.terms[z] > 0) for z in mixed}
    out: list[Inequality] = []
    for z in mixed:
        others = [m for m in mixed if m is not z]
        # Constant bounds of the other atoms give the simplest sums: |x| + |y| <= c becomes |x| <= c and |y| <= c.
        rest = [[c for c in options[m] if not c.form.terms] or options[m] for m in others]
        for picks in product(*rest):
            base = q.form
            nullable = q.nullable
            for m, pick in zip(others, picks):
                base = _put(base, m, pick.form)
                nullable |= pick.nullable
            out += _with_square(forms, Inequality(base, nullable), z, depth)
            for pick in options[z]:
                if pick.form.terms:
                    new = Inequality(_put(base, z, pick.form), nullable | pick.nullable)
                    out += consequences(forms, new, depth - 1)
            if len(out) > _MOST:
                return out[:_MOST]
    if all(any(not c.form.terms for c in options[z]) for z in mixed) and len(q.form.terms) > len(mixed):
        base = q.form
        for z in mixed:
            base = _put(base, z, next(c.form for c in options[z] if not c.form.terms))
        out += consequences(forms, Inequality(base, q.nullable), 0)
    return _distinct(out)


def _distinct(items: list[Inequality]) -> list[Inequality]:
    seen = set()
    out = []
    for q in items:
        key = (frozenset(q.form.terms.items()), q.form.lo, q.nullable)
        if key not in seen:
            seen.add(key)
            out.append(q)
    return out


def _put(form: Form, atom: Node, stand_in: Form) -> Form:
    k = form.terms[atom]
    rest = Form({n: c for n, c in form.terms.items() if n is not atom}, form.lo, form.hi, True)
    return rest.plus(stand_in, k)


def _constant(lo: Number, hi: Number) -> _Choice:
    return _Choice(Form({}, lo, hi))


def _choices(forms: Forms, z: Node, below: bool) -> list[_Choice]:
    """Return lower bounds of ``z`` if ``below``, else upper bounds. They hold if ``z`` is not NULL."""
    if z.op == ops.ABS and below:
        m = forms.form(z.args[0])
        return [] if m is None else [_Choice(m), _Choice(m.scaled(-1)), _constant(0, 0)]
    if (z.op == ops.GREATEST and below) or (z.op == ops.LEAST and not below):
        out = []
        # These functions skip a null argument, so a bound of the result does not bound it. An argument that may raise
        # an error is not used: a bound of another argument could drop the row and hide the error.
        there = all(a.op in ("column", "literal") for a in z.args)
        for a in z.args:
            f = forms.form(a)
            if f is not None and not f.lost:
                out.append(_Choice(f, frozenset(n for n in f.terms if not there or forms.may_null(n))))
        return out
    if z.op == ops.MUL:
        square = proportion(forms, z)
        if square is not None and (square[1] > 0) == below:
            return [_constant(0, 0)]
    if z.op in (ops.MOD, ops.PMOD) and z.args[1].op == "literal" and z.type.kind == "int" and z.args[1].params[0]:
        n = abs(z.args[1].params[0])
        return [_constant(0 if z.op == ops.PMOD and z.args[1].params[0] > 0 else 1 - n, n - 1)]
    return []


def proportion(forms: Forms, z: Node) -> tuple[Form, Number] | None:
    """Return (a, k) such that the product ``z`` is ``k * a**2``. None if its factors are not proportional."""
    a, b = (forms.form(x) for x in z.args)
    if a is None or b is None or not a.terms or a.lo != a.hi or b.lo != b.hi or a.terms.keys() != b.terms.keys():
        return None
    first = next(iter(a.terms))
    k = Fraction(b.terms[first]) / a.terms[first]
    if any(b.terms[n] != k * c for n, c in a.terms.items()) or b.lo != k * a.lo:
        return None
    if z.type.kind == "decimal" and z.type.scale < sum(x.type.scale for x in z.args):
        return None
    return a, k


def _with_square(forms: Forms, q: Inequality, z: Node, depth: int) -> list[Inequality]:
    """Return the inequalities for ``a`` that follow from ``q``, which is ``c * a**2 + rest <= 0``."""
    square = proportion(forms, z) if z.op == ops.MUL else None
    if square is None:
        return []
    a, k = square
    return _with_power(forms, q, (Fraction(k * q.form.terms[z]), a, 2), _put(q.form, z, Form({}, 0, 0)), depth)


def _multiplied_out(forms: Forms, q: Inequality, depth: int) -> list[Inequality]:
    from ivjoin.separation.powers import powers, split_by_side

    separated = split_by_side(forms, q.form)
    if separated is not None:
        return consequences(forms, Inequality(separated, q.nullable), 0)
    found = powers(forms, q.form)
    return [] if found is None else _with_power(forms, q, *found, depth)


def _with_power(forms: Forms, q: Inequality, power: Power, rest: Form, depth: int) -> list[Inequality]:
    """Return the inequalities for ``a`` that follow from ``c * a**n + rest <= 0``."""
    c, a, n = power
    if n % 2 and c < 0:
        a, c = a.scaled(-1), -c
    if c <= 0:
        return []
    ends = [a, a.scaled(-1)] if n % 2 == 0 else [a]
    if rest.terms:
        if n != 2:
            return []
        # a**2 >= 2 |a| - 1: the tangents of the square at 1 and -1.
        parts = [rest.plus(e, 2 * c).plus(Form({}, -c, -c)) for e in ends]
    else:
        whole = all(x.type.kind == "int" and k == int(k) for x, k in a.terms.items()) and a.lo == int(a.lo)
        root = root_bound(Fraction(-rest.lo) / c, n, whole)
        if root is None:
            return []
        parts = [e.plus(Form({}, root, root), -1) for e in ends]
    return [i for p in parts for i in consequences(forms, Inequality(p, q.nullable), depth - 1)]
