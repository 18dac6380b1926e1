"""Find pairs for which a residual conjunct overflows although its own bands exclude them.

A band does not include pairs for which the condition raises an error. For example, over unsigned integers,
``l.a - r.a <= 2`` overflows for all pairs with ``l.a < r.a``. Over int64, ``l.a = r.a OR l.a - r.a > 5`` overflows for
some pairs far below its band. Such pairs are on half-lines beyond the band, and the join searches the half-lines too.

If such a half-line does not exist, a guard is used, provided that it allows the usual values. A one-sided expression
that is always computed needs no guard. Products are not handled: ``(l.a - r.a) * (l.a - r.a) < 9`` is decided by its
root, and the square of a far pair is not computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.terms import BandTerm
from ivjoin.functions.table import is_lazy
from ivjoin.separation.linear import BOTH_SIDES, Box, Form, Forms, Limit, Number, guard_box, reach, scale_of, span
from ivjoin.separation.mixed import Inequality
from ivjoin.separation.onesided import SidePool
from ivjoin.separation.parts import Found, cut
from ivjoin.separation.placing import place

__all__ = ["Overflow", "constant_errs", "overflows"]

_NEVER = -(1 << 300)  # below every sum of columns
_WIDE = 1 << 62


@dataclass(frozen=True, slots=True)
class Overflow:
    """Pairs that may overflow. They satisfy the half-line ``term`` and ``rest``, the bands of the other conjuncts."""

    term: BandTerm
    rest: tuple[BandTerm, ...]


def constant_errs(forms: Forms, c: Node) -> bool:
    """Return whether a constant part of ``c`` raises an error. If so, ``c`` is never TRUE."""
    from ivjoin.conditions.evaluate import constant

    return any(constant(n)[0] for n in walk(c) if n.op != "literal" and forms.sides(n) == 0)


def overflows(
    forms: Forms, pool: SidePool, c: Node, bands: Collection[BandTerm], kept: Collection[Node]
) -> tuple[list[BandTerm], Box]:
    """Return the half-lines on which ``c`` may overflow, and a box in which it does not overflow elsewhere.

    The half-lines are over the nodes of ``bands``. The nodes in ``kept`` are evaluated for each row, so they need no
    half-line.
    """
    pairs = {(_bare(t.left), _bare(t.right)): (t.left, t.right) for t in bands}
    lines: dict[tuple[Node, Node, bool], BandTerm] = {}
    box: Box = {}
    always = _always_computed(c)
    for n in walk(c):
        if not n.type.is_discrete or not forms.sides(n) or n in kept:
            continue
        for limit, beyond in _limits(forms, n):
            if forms.sides(n) == BOTH_SIDES:
                found = _lines(forms, pool, c, beyond)
                if found is not None and all((t.left, t.right) in pairs for t in found):
                    for t in found:
                        left, right = pairs[t.left, t.right]
                        name = left, right, t.lo is None
                        t = replace(t, left=left, right=right)
                        old = lines.get(name)
                        lines[name] = t if old is None or _is_wider(t, old) else old
                    continue
            roomy = _roomy_box(forms, limit, beyond)
            if roomy is not None:
                cut(box, roomy)
            elif forms.sides(n) != BOTH_SIDES and n in always:
                cut(box, {n: span(n.type)})
    return list(lines.values()), box


def _roomy_box(forms: Forms, limit: Limit, beyond: Form) -> Box | None:
    """Return a box of columns without overflows. None if it would exclude usual values."""
    if all(atom.op == "column" for atom in limit.terms):
        return guard_box([limit])
    if limit.hi < _WIDE:  # seconds since 1970 in 32 bits would be outside
        return None
    each = [*_alternatives(forms, beyond)]
    if any(form is None or any(atom.op != "column" for atom in form.terms) for form in each):
        return None
    return guard_box(Limit(form.terms, form.hi, _NEVER, -1) for form in each if form is not None)


def _bare(n: Node) -> Node:
    """Return the node of a band without the end of the type that :func:`branches.hull` substitutes in some rows.

    The condition is evaluated for the pairs of those rows in any case.
    """
    if n.op == ops.COALESCE and len(n.args) == 2 and n.args[1].op == "literal":
        return n.args[0]
    if n.op == ops.CASE and len(n.args) == 3 and n.args[1].op == "literal" and n.args[1].params[0] in n.type.limits:
        return n.args[2]
    return n


def _always_computed(c: Node) -> set[Node]:
    """Return the nodes that every evaluation of ``c`` computes."""
    found: set[Node] = set()
    stack = [c]
    while stack:
        n = stack.pop()
        if n not in found:
            found.add(n)
            stack += n.args[:1] if is_lazy(n) else n.args
    return found


def _is_wider(t: BandTerm, old: BandTerm) -> bool:
    return (t.hi or 0) > (old.hi or 0) if t.lo is None else (t.lo or 0) < (old.lo or 0)


def _limits(forms: Forms, n: Node) -> Iterator[tuple[Limit, Form]]:
    """Return (limit, form) pairs. Within the limit, ``n`` does not overflow. If it does, one form is not negative."""
    lo, hi = span(n.type)
    step = Fraction(1) / scale_of(n.type)
    form = forms.form(n.args[0] if n.op == ops.ABS else n) if n.args else None
    if form is None or n in form.terms:
        return
    if n.op == ops.ABS:
        # Only the least value cannot be negated.
        ends, lo = [form.scaled(-1).plus(_constant(lo))], lo + step
    else:
        ends = [form.plus(_constant(-hi - step)), form.scaled(-1).plus(_constant(lo - step))]
    for end in ends:
        if end.hi + sum(max(c * x for x in reach(atom)) for atom, c in end.terms.items()) >= 0:
            yield Limit(form.terms, form.lo, lo, hi), end


def _constant(x: Number) -> Form:
    return Form({}, x, x)


def _lines(forms: Forms, pool: SidePool, c: Node, beyond: Form) -> list[BandTerm] | None:
    """Return half-lines that contain all pairs for which the form is not negative.

    None if they need more than one node of a side.
    """
    out = []
    for form in _alternatives(forms, beyond):
        if form is None:
            return None
        if not form.terms and form.hi < 0:
            continue
        found = Found()
        place(forms, pool, found, Inequality(form.scaled(-1)), c)
        if len(found.bands) != 1:
            return None
        out += found.bands
    return out


def _alternatives(forms: Forms, form: Form, most: int = 8) -> Iterator[Form | None]:
    """Return forms without two-sided nodes. One of them always equals ``form``. None stands for an unknown form."""
    mixed = next((n for n in form.terms if forms.sides(n) == BOTH_SIDES), None)
    if mixed is None:
        yield form
        return
    values = _values(mixed)
    rest = Form({n: k for n, k in form.terms.items() if n is not mixed}, form.lo, form.hi, True)
    if not values or len(values) > most:
        yield None
        return
    for n in values:
        value = forms.form(n)
        if value is None:
            yield None
            return
        for sign in (1, -1) if mixed.op == ops.ABS else (1,):
            yield from _alternatives(forms, rest.plus(value, sign * form.terms[mixed]), most // len(values))


def _values(n: Node) -> tuple[Node, ...]:
    """Return nodes. One of them always equals ``n``, or for ``abs`` perhaps its negation."""
    if n.op in (ops.GREATEST, ops.LEAST, ops.COALESCE, ops.ABS):
        return n.args
    return (*n.args[1::2], n.args[-1]) if n.op == ops.CASE else ()
