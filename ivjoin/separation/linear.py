"""Linear forms of discrete expressions over exact rationals, and the boxes in which no machine integer overflows.

The *value* of a node is its physical value. For a decimal, it is the integer divided by ``10**scale``. A form states

    value(node) = sum(coefficient * value(atom)) + c    for some c in [lo, hi]

unless the node raises an error or is null. A machine operation either raises an error or gives the mathematical result.
An inequality between forms therefore *follows* from the condition. The converse holds in the boxes of
:func:`guard_box`, because no node raises an error there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from ivjoin.expr import ops
from ivjoin.expr.form import Form, Number, plain, scale_of, size
from ivjoin.expr.nodes import LEFT, Node, is_met, make
from ivjoin.expr.types import TICKS_PER_SECOND, Type
from ivjoin.functions.records.linear import cast_factor
from ivjoin.functions.table import linear_of

__all__ = ["BOTH_SIDES", "LEFT_SIDE", "RIGHT_SIDE", "Box", "Form", "Forms", "Limit", "Number", "Opened", "Power",
           "guard_box", "in_months", "reach", "scale_of", "size", "span"]  # fmt: skip

Box = dict[Node, tuple[Number, Number]]

LEFT_SIDE, RIGHT_SIDE, BOTH_SIDES = 1, 2, 3

Power = tuple[Fraction, Form, int]  # (c, a, n) is c * a**n


class Forms:
    """The cached forms and sides of the nodes of one condition.

    ``present`` are expressions that are not NULL if the condition is TRUE.
    """

    def __init__(self, present: Set[Node] = frozenset()) -> None:
        self._present = present
        self._forms: dict[Node, Form | None] = {}
        self._sides: dict[Node, int] = {}

    def may_null(self, node: Node) -> bool:
        """Return whether a node may be NULL if the condition is TRUE."""
        while node.op == ops.CAST and node not in self._present:
            node = node.args[0]
        return node not in self._present and (node.op != "literal" or node.params[0] is None)

    def sides(self, node: Node) -> int:
        """Return the sides that the node reads, as a sum of LEFT_SIDE and RIGHT_SIDE."""
        if node not in self._sides:
            self._learn(node)
        return self._sides[node]

    def form(self, node: Node) -> Form | None:
        """Return the form of a node, or None if the node is not discrete or contains a null literal."""
        if node not in self._sides:
            self._learn(node)
        return self._forms[node]

    def _learn(self, root: Node) -> None:
        stack = [root]
        while stack:
            n = stack[-1]
            unknown = [a for a in n.args if a not in self._sides]
            if unknown:
                stack += unknown
                continue
            stack.pop()
            if n.op == "column":
                self._sides[n] = LEFT_SIDE if n.params[0] == LEFT else RIGHT_SIDE
            else:
                mask = 0
                for a in n.args:
                    mask |= self._sides[a]
                self._sides[n] = mask
            self._forms[n] = self._form_of(n) if n.type.is_discrete else None

    def _form_of(self, n: Node) -> Form | None:
        if n.op == "literal":
            value = n.params[0]
            if value is None:
                return None
            constant: Number = value if n.type.kind != "decimal" else plain(Fraction(value, 10**n.type.scale))
            return Form({}, constant, constant)
        one_sided = self._sides[n] != BOTH_SIDES
        if one_sided and n.op == ops.CAST and n.type.unit != n.args[0].type.unit:
            # Times are compared in the finer unit, so a cast between units is an atom.
            return Form({n: 1}, 0, 0)
        opened = self._open(n)
        # A rounded expression of one side becomes an atom, because an atom is exact and a widened form is not.
        if opened is None or (opened.lo != opened.hi and one_sided):
            return Form({n: 1}, 0, 0)
        return opened

    def _open(self, n: Node) -> Form | None:
        rule = linear_of(n)
        if rule is None or rule.form is None:
            return None
        forms = []
        for a in n.args:
            f = self._forms[a]
            if f is None:
                return None
            forms.append(f)
        form = rule.form(n, forms)
        return form if form is None else in_months(form)

    def limits(self, roots: Iterable[Node], covered: frozenset[Node] | set[Node]) -> list[Limit]:
        """Return limits of atoms. Within the limits, no node between ``roots`` and the atoms raises an error.

        Covered nodes need no limits: each of them is evaluated for every row, so its error is noticed anyway.
        """
        out: list[Limit] = []
        stack = list(roots)
        seen: set[Node] = set()
        while stack:
            n = stack.pop()
            if n in seen or n in covered:
                continue
            seen.add(n)
            form = self.form(n)
            if form is None:
                stack.extend(n.args)
                continue
            if n in form.terms or n.op == "literal":
                continue
            lo, hi = span(n.type)
            if is_met(n):
                lo, hi = lo + 1, hi - 1
            out.append(Limit(form.terms, form.lo, lo, hi))
            stack.extend(n.args)
        return out


class Opened(Forms):
    """Forms that are opened down to the expressions in ``stops``.

    They also open casts to a finer unit, which overflow for values outside the range of that unit.
    """

    def __init__(self, stops: Collection[Node]) -> None:
        super().__init__()
        self._stops = stops

    def _form_of(self, n: Node) -> Form | None:
        if n in self._stops:
            return Form({n: 1}, 0, 0)
        if n.op == ops.CAST and cast_factor(n) is not None:
            return self._open(n)
        return super()._form_of(n)


def in_months(form: Form) -> Form:
    """Replace ``12 * year(x) + month(x)`` by the month number of x. It rises with x, and the month does not."""
    fields = [(n, c) for n, c in form.terms.items() if n.op == ops.EXTRACT and n.params[0] in ("year", "month")]
    if len(fields) < 2:
        return form
    for year, c in fields:
        if year.params[0] == "year":
            rest = year.params[1:]
            month = make(ops.EXTRACT, year.args, ("month", *rest), year.type)
            if form.terms.get(month, 0) * 12 == c:
                whole = make(ops.EXTRACT, year.args, ("month_number", *rest), year.type)
                terms = {n: k for n, k in form.terms.items() if n not in (year, month)}
                form = Form({**terms, whole: c // 12}, form.lo, form.hi, form.lost)
    return form


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit ``lo <= sum(terms) + constant <= hi``. Within it, a node raises no error."""

    terms: Mapping[Node, Number]
    constant: Number
    lo: Number
    hi: Number


def span(t: Type) -> tuple[Number, Number]:
    """Return the least and greatest value of a discrete type."""
    lo, hi = t.limits
    if t.kind == "decimal":
        return plain(Fraction(lo, 10**t.scale)), plain(Fraction(hi, 10**t.scale))
    return lo, hi


def reach(atom: Node) -> tuple[Number, Number]:
    """Return the least and greatest value of an atom. The range of its operator may be narrower than its type."""
    lo, hi = span(atom.type)
    if atom.op == ops.EXTRACT:
        return _field_reach(atom)
    if atom.op in (ops.UNIX_SECONDS, ops.UNIX_MILLIS, ops.UNIX_MICROS):
        unit = TICKS_PER_SECOND[atom.args[0].type.unit]
        target = {ops.UNIX_SECONDS: 1, ops.UNIX_MILLIS: 1_000, ops.UNIX_MICROS: 1_000_000}[atom.op]
        if target < unit:
            return lo * target // unit, hi * target // unit
    if atom.op == ops.CAST and atom.type.kind == "date" and atom.args[0].type.kind == "timestamp":
        day = 86_400 * TICKS_PER_SECOND[atom.args[0].type.unit]
        # Local dates may differ from UTC dates by a day.
        return max(lo, -(1 << 63) // day - 1), min(hi, (1 << 63) // day + 1)
    if atom.op == ops.CAST and atom.args[0].type.is_discrete and atom.args[0].type.kind == atom.type.kind != "decimal":
        k = Fraction(TICKS_PER_SECOND.get(atom.type.unit, 1), TICKS_PER_SECOND.get(atom.args[0].type.unit, 1))
        inner = span(atom.args[0].type)
        return max(lo, ceil(inner[0] * k)), min(hi, floor(inner[1] * k))
    return lo, hi


_FIELDS_PER_YEAR = {"year": 1, "yearofweek": 1, "month_number": 12}


def _field_reach(atom: Node) -> tuple[Number, Number]:
    t = atom.args[0].type
    lo, hi = t.limits
    days = 1 if t.kind == "date" else 86_400 * TICKS_PER_SECOND[t.unit]
    per_year = _FIELDS_PER_YEAR.get(atom.params[0])
    if per_year is None:
        return 0, 366
    least, most = ((1970 + x // days // 365 + extra) * per_year for x, extra in ((lo, -2), (hi, 3)))
    low, high = span(atom.type)
    return max(low, least), min(high, most)


def guard_box(limits: Iterable[Limit]) -> Box | None:
    """Return a box of atom values in which every limit is true. None if it would exclude usual values.

    The box is narrower than the range of an atom only if the atom can exceed a limit. If several atoms share a limit,
    its range is divided equally between them. An atom that needs less leaves the rest to the others.
    """
    box: Box = {}
    for limit in limits:
        ends = {n: reach(n) for n in limit.terms}
        top = [(n, c, c * ends[n][1 if c > 0 else 0]) for n, c in limit.terms.items()]
        bottom = [(n, -c, -c * ends[n][0 if c > 0 else 1]) for n, c in limit.terms.items()]
        for margin, parts in ((limit.hi - limit.constant, top), (limit.constant - limit.lo, bottom)):
            if margin < 0:
                return None
            for n, c, share in _shares(margin, parts):
                lo, hi = box.get(n, ends[n])
                box[n] = (lo, min(hi, share / Fraction(c))) if c > 0 else (max(lo, share / Fraction(c)), hi)
    return box if all(_is_roomy(n, lo, hi) for n, (lo, hi) in box.items()) else None


def _shares(margin: Number, parts: list[tuple[Node, Number, Number]]) -> list[tuple[Node, Number, Number]]:
    if sum(full for _, _, full in parts) <= margin:
        return []
    parts = sorted(parts, key=lambda p: p[2])
    for i, (_, _, full) in enumerate(parts):
        share = Fraction(margin) / (len(parts) - i)
        if full > share:
            return [(n, c, share) for n, c, _ in parts[i:]]
        margin -= full
    return []


# Values beyond these are rare (for times: after the year 2040). Rows outside a guard take the slow path, so a narrower
# guard is not used. A relaxed band with the conjunct in the residual is faster than such a guard.
_ROOMY_INT = {8: 1 << 8, 16: 1 << 16, 32: 1 << 26, 64: 1 << 48}
_ROOMY_TICKS = {"s": 1 << 36, "ms": 1 << 44, "us": 1 << 54, "ns": 1 << 61}


def _is_roomy(atom: Node, lo: Number, hi: Number) -> bool:
    t = atom.type
    least, most = reach(atom)
    if t.kind == "decimal":
        wanted: Number = Fraction(most) / 1000
    elif t.kind in ("timestamp", "duration"):
        wanted = _ROOMY_TICKS[t.unit]
    elif t.kind == "time":
        wanted = most
    else:
        wanted = _ROOMY_INT[t.bits or 32]
    return hi >= min(wanted, most) and lo <= max(-wanted, least)
