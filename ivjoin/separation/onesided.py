"""Find or build the one-sided node that computes a linear sum."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ivjoin.expr import ops
from ivjoin.expr.nodes import Node, make, walk
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import DATE, INT32, INT64, Type, decimal, duration
from ivjoin.separation.linear import BOTH_SIDES, Forms, Number, size, span

__all__ = ["SidePool", "cast_to", "literal"]

Terms = Mapping[Node, Number]


def literal(value: object, t: Type) -> Node:
    return make("literal", (), (value,), t)


def cast_to(node: Node, t: Type) -> Node:
    return node if node.type == t else make(ops.CAST, (node,), (t, "UTC"), t)


class SidePool:
    """The one-sided discrete nodes of a condition, by the linear sum that they compute.

    A node of the condition is preferred to a new one. The bounds of a declared order are then also bounds of the band
    term.
    """

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        # For each sum, type and presence of a constant: the first such node, its position in the condition, and its
        # constant. Each conjunct searches these lists, so only the first node is stored.
        self._by_sum: dict[frozenset[tuple[Node, Number]], dict[tuple[Type, bool], tuple[int, Node, Number]]] = {}
        #: Every discrete node of the condition.
        self.known: set[Node] = set()

    def add(self, root: Node) -> None:
        for n in walk(root):
            if n in self.known or not n.type.is_discrete:
                continue
            self.known.add(n)
            form = self._forms.form(n)
            if form is None or not form.terms or not form.exact or self._forms.sides(n) in (0, BOTH_SIDES):
                continue
            if has_ordinal(n.type) and not any(x.params[:1] == ("month_number",) for x in form.terms):
                first = self._by_sum.setdefault(frozenset(form.terms.items()), {})
                first.setdefault((n.type, form.lo != 0), (len(self.known), n, form.lo))

    def knows(self, node: Node) -> bool:
        return node in self.known

    def pair(self, left: Terms, right: Terms) -> tuple[Node, Number, Node, Number] | None:
        """Return nodes of one type that compute ``left`` and ``right``, each followed by its added constant."""
        found = self._found_pair(left, right)
        if found is not None and found[1] == found[3] == 0:
            return found
        # Other conjuncts cannot share a node with an added constant. They can share a new node of a wider type.
        made = [self._made(terms) for terms in (left, right)]
        if made[0] is not None and made[1] is not None:
            a, b = _meet(made[0], made[1])
            if a is not None and b is not None:
                return a, 0, b, 0
        return found

    def rank(self, left: Terms, right: Terms) -> int:
        """Return how many of the two sums occur in the condition."""
        return sum(frozenset(t.items()) in self._by_sum for t in (left, right))

    def _found_pair(self, left: Terms, right: Terms) -> tuple[Node, Number, Node, Number] | None:
        lefts = self._by_sum.get(frozenset(left.items()), {})
        rights = self._by_sum.get(frozenset(right.items()), {})
        best = None
        for (t, _), (i, a, ca) in lefts.items():
            for moved in (False, True):
                if (t, moved) in rights:
                    j, b, cb = rights[t, moved]
                    cost = ((ca != 0) + (cb != 0), i + j)
                    if best is None or cost < best[0]:
                        best = (cost, (a, ca, b, cb))
        return None if best is None else best[1]

    def _made(self, terms: Terms) -> Node | None:
        plain = [x for (_, moved), x in self._by_sum.get(frozenset(terms.items()), {}).items() if not moved]
        if plain:
            return min(plain, key=lambda x: x[0])[1]
        kinds = {n.type.kind for n in terms}
        if kinds == {"int"}:
            return _int_sum(terms)
        if kinds <= {"int", "decimal"}:
            return _decimal_sum(terms)
        if kinds <= {"timestamp", "duration", "int"} and kinds & {"timestamp", "duration"}:
            return _time_sum(terms)
        if kinds <= {"date", "int"}:
            return _date_sum(terms)
        return None


def _meet(a: Node, b: Node) -> tuple[Node | None, Node | None]:
    """Cast both nodes to one wider type that has an ordinal. (None, None) if it does not exist."""
    s, t = a.type, b.type
    if s == t:
        return (a, b) if has_ordinal(s) else (None, None)
    target: Type | None = None
    if s.kind == t.kind == "int":
        if s.signed == t.signed:
            target = max(s, t, key=lambda x: x.bits)
        else:
            bits = max(x.bits if x.signed else 2 * x.bits for x in (s, t))
            target = Type("int", bits) if bits <= 64 else None
    elif {s.kind, t.kind} <= {"int", "decimal"}:
        scale = max(s.scale, t.scale)
        digits = max(_digits(*span(x)) for x in (s, t))
        target = decimal(digits + scale, scale) if digits + scale <= 18 else None
    elif s.kind == t.kind == "timestamp" and s.unit == t.unit and s.tz and t.tz:
        target = s
    if target is None:
        return None, None
    return cast_to(a, target), cast_to(b, target)


def _digits(lo: Number, hi: Number) -> int:
    return len(str(int(max(-lo, hi))))


def _whole(terms: Terms) -> bool:
    return all(Fraction(c).denominator == 1 for c in terms.values())


def _chain(parts: list[tuple[Node, int]], t: Type) -> Node:
    """Return the sum of ``parts`` in type ``t``. Positive parts come first, so that a leading minus is rare."""
    parts = sorted(parts, key=lambda p: p[1] < 0)
    out: Node | None = None
    for node, c in parts:
        piece = node if abs(c) == 1 else make(ops.MUL, (literal(abs(c), t), node), (), t)
        if out is None:
            out = piece if c > 0 else make(ops.NEG, (piece,), (), t)
        else:
            out = make(ops.ADD if c > 0 else ops.SUB, (out, piece), (), t)
    assert out is not None
    return out


def _int_sum(terms: Terms) -> Node | None:
    if not _whole(terms) or any(n.type.bits == 64 and not n.type.signed for n in terms):
        return None
    if any(size(c) >= 1 << 62 for c in terms.values()):
        return None
    return _chain([(cast_to(n, INT64), int(c)) for n, c in terms.items()], INT64)


def _decimal_sum(terms: Terms) -> Node | None:
    if not _whole(terms):
        return None
    scale = max(n.type.scale for n in terms)
    most = sum(size(c) * max(-span(n.type)[0], span(n.type)[1]) for n, c in terms.items())
    precision = _digits(0, most) + scale
    if precision > 18:
        return None
    t = decimal(precision, scale)
    parts: list[tuple[Node, int]] = []
    for n, c in terms.items():
        # A product would double the scale, so repeated addition replaces a small factor.
        if size(c) > 4:
            return None
        parts += [(cast_to(n, t), 1 if c > 0 else -1)] * abs(int(c))
    return _chain(parts, t)


def _time_sum(terms: Terms) -> Node | None:
    """Return a node for a timestamp plus durations (or numbers of ticks), or for a difference of timestamps."""
    units = {n.type.unit for n in terms if n.type.kind != "int"}
    if len(units) > 1 or not _whole(terms):
        return None
    width = duration(units.pop())
    points = sorted(((n, c) for n, c in terms.items() if n.type.kind == "timestamp"), key=lambda p: -p[1])
    spans = []
    for n, c in terms.items():
        if n.type.kind == "int":
            if (n.type.bits == 64 and not n.type.signed) or size(c) >= 1 << 62:
                return None
            n = make(ops.MUL, (literal(abs(int(c)), width), cast_to(n, INT64)), (), width)
        elif size(c) != 1:
            return None
        if n.type.kind == "duration":
            spans.append((n, c))
    spans.sort(key=lambda p: -p[1])
    if [c for _, c in points] == [1]:
        out, t = points[0][0], points[0][0].type
    elif [c for _, c in points] == [1, -1]:
        (a, _), (b, _) = points
        out, t = make(ops.SUB, (a, b), ("UTC",), width), width
    elif not points and spans[0][1] > 0:
        (out, _), *spans = spans
        t = width
    else:
        return None
    for n, c in spans:
        out = make(ops.ADD if c > 0 else ops.SUB, (out, n), ("UTC",), t)
    return out


def _date_sum(terms: Terms) -> Node | None:
    dates = sorted(((n, c) for n, c in terms.items() if n.type.kind == "date"), key=lambda p: -p[1])
    counts = [(n, c) for n, c in terms.items() if n.type.kind == "int"]
    if [c for _, c in dates] == [1, -1] and not counts:
        return make(ops.DATE_DIFF, (dates[0][0], dates[1][0]), (), INT32)
    if [c for _, c in dates] == [1] and len(counts) == 1:
        (n, c), t = counts[0], counts[0][0].type
        if size(c) == 1 and t.bits <= 32 and (t.signed or t.bits < 32):
            days = cast_to(n, INT32)
            days = days if c > 0 else make(ops.NEG, (days,), (), INT32)
            return make(ops.ADD_DAYS, (dates[0][0], days), (), DATE)
    return None
