"""Find the bands of comparisons between whole numbers, decimals and times, from the difference of two linear forms."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ivjoin.expr import ops
from ivjoin.expr.nodes import FLIPPED, Node, is_met, walk
from ivjoin.expr.terms import JoinKey
from ivjoin.expr.types import Type
from ivjoin.separation.linear import BOTH_SIDES, Form, Forms, Limit, guard_box, in_months, scale_of, span
from ivjoin.separation.mixed import Inequality, consequences, proportion
from ivjoin.separation.onesided import SidePool
from ivjoin.separation.parts import Found, cut, merged
from ivjoin.separation.placing import place

__all__ = ["linear_bands"]


def linear_bands(forms: Forms, pool: SidePool, c: Node, op: str, a: Node, b: Node, keyed: bool) -> Found:
    """Return the bands of the comparison ``a op b``."""
    found = Found()
    fa, fb = _compared_form(forms, op, a), _compared_form(forms, op, b)
    if fa is None or fb is None:
        return found
    d = in_months(fa.plus(fb, -1))
    if any(forms.sides(n) == 0 for n in d.terms):
        return found
    signs = (1,) if op in (ops.LE, ops.LT) else (-1,) if op in (ops.GE, ops.GT) else (1, -1)
    # Both sides are multiples of the type's least step, so a smaller value is smaller by at least one step.
    gap = Fraction(op in (ops.LT, ops.GT)) / scale_of(a.type)
    step = Form({}, gap, gap)
    results = [
        place(forms, pool, found, q, c)
        for k in signs
        for q in consequences(forms, Inequality(d.scaled(k).plus(step)))
    ]
    found.bands = merged(found.bands)
    if not found.bands or not all(results):
        return found
    covered = set(walk(*(n for t in found.bands for n in (t.left, t.right))))
    if d.exact and not any(forms.sides(n) == BOTH_SIDES for n in d.terms):
        if keyed:
            return _made_exact(found, [])
        if op == ops.EQ and found.bands[0].lo == found.bands[0].hi == 0:
            # If moving terms separates the sides of an equality, it is also a key.
            found.keys.append(JoinKey(found.bands[0].left, found.bands[0].right, False))
        return _made_exact(found, forms.limits((a, b), covered))
    inner = _abs_argument(forms, op, a, b)
    if inner is not None:
        m, other, t = inner
        form = forms.form(m)
        assert form is not None
        top = span(t)[1]
        return _made_exact(found, [*forms.limits((m, other), covered), Limit(form.terms, form.lo, -top, top)])
    if _is_square(forms, op, a, b):
        return _made_exact(found, forms.limits([*a.args, *b.args], covered))
    return found


def _is_square(forms: Forms, op: str, a: Node, b: Node) -> bool:
    """Return whether a constant is an upper bound of a square of whole numbers. A bound of the root is equivalent."""
    if a.op == "literal":
        a, b, op = b, a, FLIPPED[op]
    if b.op != "literal" or a.op != ops.MUL or a.type.kind != "int":
        return False
    square = proportion(forms, a)
    if square is None or op not in ((ops.LE, ops.LT) if square[1] > 0 else (ops.GE, ops.GT)):
        return False
    form = square[0]
    whole = all(n.type.kind == "int" and k == int(k) for n, k in form.terms.items()) and form.lo == int(form.lo)
    return whole and form.exact and not any(forms.sides(n) == BOTH_SIDES for n in form.terms)


def _compared_form(forms: Forms, op: str, n: Node) -> Form | None:
    # A node with `is_met` changes values at or beyond the ends of its unit's range. Its form is therefore not valid
    # under < and >, and the node itself is an atom.
    return Form({n: 1}, 0, 0) if is_met(n) and op in (ops.LT, ops.GT) else forms.form(n)


def _abs_argument(forms: Forms, op: str, a: Node, b: Node) -> tuple[Node, Node, Type] | None:
    """Return (m, other, type of the abs) if the comparison is ``abs(m) <= other`` and otherwise linear."""
    if op in (ops.GE, ops.GT):
        a, b, op = b, a, FLIPPED[op]
    if op not in (ops.LE, ops.LT):
        return None
    while a.op == ops.CAST and a.args[0].type.is_discrete and _contains(a.type, a.args[0].type):
        a = a.args[0]
    if a.op != ops.ABS:
        return None
    for n in (a.args[0], b):
        form = forms.form(n)
        if form is None or not form.exact or any(forms.sides(x) == BOTH_SIDES for x in form.terms):
            return None
    return a.args[0], b, a.type


def _made_exact(found: Found, limits: list[Limit]) -> Found:
    box = guard_box(limits)
    if box is not None:
        cut(found.exact_box, box)
        found.exact = True
        found.bands = [replace(t, exact=True) for t in found.bands]
    return found


def _contains(outer: Type, inner: Type) -> bool:
    if outer.kind not in ("int", "decimal") or inner.kind not in ("int", "decimal") or outer.scale < inner.scale:
        return False
    (a, b), (c, d) = span(outer), span(inner)
    return a <= c and d <= b
