"""Find pairs for which a residual conjunct overflows although its own bands exclude them.

A band does not describe pairs for which the evaluation raises an error. Over unsigned integers, ``l.a - r.a <= 2``
overflows for all pairs with ``l.a < r.a``. Over int64, ``l.a = r.a OR l.a - r.a > 5`` overflows for some pairs far
below its band. Such pairs are on half-lines beyond the band, and the join searches them too.

Where no such half-line exists, a guard is used if it allows the usual values. A one-sided expression that is always
computed is a guard itself. Products are not handled: ``(l.a - r.a) * (l.a - r.a) < 9`` is decided by its root, and the
square of a far pair is not computed.
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
    """Pairs that may overflow: within ``term``, a half-line, and ``rest``, the bands of the other conjuncts."""

    term: BandTerm
    rest: tuple[BandTerm, ...]


def constant_errs(forms: Forms, c: Node) -> bool:
    """Return whether a constant part of ``c`` raises an error, so that ``c`` is never TRUE."""
    from ivjoin.conditions.evaluate import constant

    return any(constant(n)[0] for n in walk(c) if n.op != "literal" and forms.sides(n) == 0)


def overflows(
    forms: Forms, pool: SidePool, c: Node, bands: Collection[BandTerm], kept: Collection[Node]
) -> tuple[list[BandTerm], Box]:
    """Return half-lines over the nodes of ``bands`` on which ``c`` may overflow, and a box without other overflows.

    ``kept`` are nodes that are evaluated for each row, so that their own errors occur.
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
    """Return a box of columns without overflows; None if it would exclude their usual values."""
    if all(atom.op == "column" for atom in limit.terms):
        return guard_box([limit])
    if limit.hi < _WIDE:  # seconds since 1970 in 32 bits would be outside
        return None
    each = [*_alternatives(forms, beyond)]
    if any(form is None or any(atom.op != "column" for atom in form.terms) for form in each):
        return None
    return guard_box(Limit(form.terms, form.hi, _NEVER, -1) for form in each if form is not None)


def _bare(n: Node) -> Node:
    """Return the node of a band without its replacement for rows that match anyway; their pairs are evaluated."""
    if n.op == ops.COALESCE and len(n.args) == 2 and n.args[1].op == "literal":
        return n.args[0]
    if n.op == ops.CASE and len(n.args) == 3 and n.args[1].op == "literal" and n.args[1].params[0] in n.type.limits:
        return n.args[2]
    return n


def _always_computed(c: Node) -> set[Node]:
    """Return the nodes without which ``c`` has no value."""
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
    """Return the limit under which ``n`` does not overflow, and a form that is not negative if it does."""
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
    """Return half-lines with all pairs for which the form is not negative; None for more than one node a side."""
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
    """Return forms without two-sided nodes, one of them equal to the form; None for an unknown one."""
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
    """Return nodes, one of them equal to ``n``, or for ``abs`` to its negation."""
    if n.op in (ops.GREATEST, ops.LEAST, ops.COALESCE, ops.ABS):
        return n.args
    return (*n.args[1::2], n.args[-1]) if n.op == ops.CASE else ()
