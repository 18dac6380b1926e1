"""Splits a join condition by side: keys, band terms, one-sided filters, and the residual that decides each pair.

What :func:`separate` promises, for every pair of rows:

1. If the condition is TRUE, then every key, band term and filter holds, wherever its nodes evaluate without error.
   (A rewrite may only widen. A null in a band term or a plain key means that the condition is not TRUE.)
2. If no node of a key, band term or filter errs at the two rows, the guards hold for both, and all keys, band terms,
   filters and residual conjuncts hold, then the condition is TRUE, and no conjunct outside the residual raises.

A row outside a guard, or one whose nodes err, keeps promise 1; for its pairs the original condition decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from ivjoin.expr.linear import (
    BOTH_SIDES,
    LEFT_SIDE,
    RIGHT_SIDE,
    Box,
    Form,
    Forms,
    Limit,
    Number,
    guard_box,
    scale_of,
    span,
)
from ivjoin.expr.nodes import COMPARISONS, Node, columns_of, make, walk
from ivjoin.expr.onesided import SidePool, cast_to, literal
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.types import BOOL, FLOAT64, Type

__all__ = ["BandTerm", "Guard", "JoinKey", "Separation", "conjuncts_of", "separate"]


@dataclass(frozen=True, slots=True)
class JoinKey:
    """``left = right``, of one type; with ``null_safe`` nulls are equal to each other."""

    left: Node
    right: Node
    null_safe: bool


@dataclass(frozen=True, slots=True)
class BandTerm:
    """``lo <= ordinal(left) - ordinal(right) <= hi`` over unbounded integers; None is no bound.

    ``exact`` says that the band, where the guards hold, implies ``source``; otherwise ``source`` is in the residual.
    """

    left: Node
    right: Node
    lo: int | None
    hi: int | None
    exact: bool
    source: Node


@dataclass(frozen=True, slots=True)
class Guard:
    """A one-sided node whose physical value must lie in [lo, hi] for the rewrite to be exact; null is inside."""

    node: Node
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Separation:
    """A condition in parts.

    ``left_filter`` and ``right_filter`` read one input, ``residual`` is evaluated on candidate pairs in source order,
    ``constant`` reads no column.
    """

    keys: tuple[JoinKey, ...] = ()
    bands: tuple[BandTerm, ...] = ()
    left_filter: tuple[Node, ...] = ()
    right_filter: tuple[Node, ...] = ()
    residual: tuple[Node, ...] = ()
    constant: tuple[Node, ...] = ()
    guards: tuple[Guard, ...] = ()
    condition: Node | None = None


def separate(condition: Node | None) -> Separation:
    """Split a condition into what each side decides alone, what a pair of ordered columns decides, and the rest.

    Parameters
    ----------
    condition : Node or None
        A boolean expression over both inputs; None is TRUE.

    Returns
    -------
    Separation
    """
    if condition is None:
        return Separation()
    return _Separator(condition).run()


_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "eq_null_safe": "eq_null_safe", "ne": "ne"}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def _is_literal(n: Node, value: object) -> bool:
    return n.op == "literal" and n.params[0] is value


def _negation(n: Node) -> Node:
    """NOT n with the negation at the leaves; the same in three values and in what it raises."""
    if n.op == "not":
        return n.args[0]
    if n.op in _NEGATED:
        # Spark's order is total (NaN is greatest and equal to itself), so this holds for floats too.
        return make(_NEGATED[n.op], n.args, (), BOOL)
    if n.op in ("and", "or"):
        return make("or" if n.op == "and" else "and", tuple(_negation(a) for a in n.args), (), BOOL)
    if n.op == "literal" and n.type == BOOL and n.params[0] is not None:
        return literal(not n.params[0], BOOL)
    return make("not", (n,), (), BOOL)


def _simpler(n: Node) -> Node:
    """``n`` in a form that is TRUE for the same pairs and raises for the same pairs."""
    while True:
        if n.op == "not":
            new = _negation(n.args[0])
        elif n.op == "coalesce" and len(n.args) == 2 and _is_literal(n.args[1], False):
            new = n.args[0]
        elif n.op in ("eq", "eq_null_safe") and _is_literal(n.args[1], True):
            new = n.args[0]
        elif n.op in ("eq", "eq_null_safe") and _is_literal(n.args[0], True):
            new = n.args[1]
        elif n.op == "eq" and _is_literal(n.args[1], False):
            new = _negation(n.args[0])
        elif n.op == "eq" and _is_literal(n.args[0], False):
            new = _negation(n.args[1])
        else:
            return n
        if new is n:
            return n
        n = new


def _flattened(op: str, root: Node) -> list[Node]:
    out: list[Node] = []
    stack = [root]
    while stack:
        n = _simpler(stack.pop())
        if n.op == op:
            stack.extend(reversed(n.args))
        elif n not in out:
            out.append(n)
    return out


def conjuncts_of(condition: Node | None) -> list[Node]:
    """The conjuncts of a condition in source order, with NOT pushed down to the leaves."""
    return [] if condition is None else _flattened("and", condition)


@dataclass(slots=True)
class _Found:
    """What one conjunct (or a branch of an OR) gives: its parts, and what a guard has to ensure for them."""

    exact: bool = False
    keys: list[JoinKey] = field(default_factory=list)
    bands: list[BandTerm] = field(default_factory=list)
    filters: list[Node] = field(default_factory=list)
    #: Where the built nodes of the bands do not err.
    box: Box = field(default_factory=dict)
    #: Where the conjunct itself does not err either, which matters only if the bands replace it.
    exact_box: Box = field(default_factory=dict)

    def take(self, other: _Found) -> None:
        self.keys += other.keys
        self.bands += other.bands
        self.filters += other.filters
        cut(self.box, other.box)
        cut(self.exact_box, other.exact_box)


@dataclass(frozen=True, slots=True)
class _Consequence:
    """``form <= 0`` (``< 0`` if strict); a null in the sides of ``nullable`` says nothing."""

    form: Form
    strict: bool
    nullable: int = 0


class _Separator:
    def __init__(self, condition: Node) -> None:
        self.condition = condition
        self.forms = Forms()
        self.pool = SidePool(self.forms)
        self.conjuncts = conjuncts_of(condition)
        for c in self.conjuncts:
            self.pool.add(c)

    def run(self) -> Separation:
        one_sided: dict[int, list[Node]] = {0: [], LEFT_SIDE: [], RIGHT_SIDE: []}
        residual: list[Node] = []
        total = _Found()
        for c in self.conjuncts:
            sides = self.forms.sides(c)
            if sides != BOTH_SIDES:
                one_sided[sides].append(c)
                continue
            found = self.analyse(c)
            total.take(found)
            if not found.exact:
                residual.append(c)
        cut(total.box, total.exact_box)
        for f in total.filters:
            here = one_sided[self.forms.sides(f)]
            if f not in here:
                here.append(f)
        return Separation(
            keys=tuple(dict.fromkeys(total.keys)),
            bands=_merged(total.bands),
            left_filter=tuple(one_sided[LEFT_SIDE]),
            right_filter=tuple(one_sided[RIGHT_SIDE]),
            residual=tuple(residual),
            constant=tuple(c for c in one_sided[0] if not _is_literal(c, True)),
            guards=tuple(_guard(n, lo, hi) for n, (lo, hi) in total.box.items()),
            condition=self.condition,
        )

    def analyse(self, c: Node) -> _Found:
        """What follows from a conjunct that reads both sides."""
        if c.op in COMPARISONS:
            return self.comparison(c)
        if c.op == "or":
            return self.disjunction(c)
        if c.op == "in":
            return self.membership(c)
        return _Found()

    # Comparisons

    def comparison(self, c: Node) -> _Found:
        op, (a, b) = c.op, c.args
        if op == "ne":
            return _Found()
        sides = self.forms.sides(a), self.forms.sides(b)
        if sides == (RIGHT_SIDE, LEFT_SIDE):
            a, b, op, sides = b, a, _FLIPPED[op], (LEFT_SIDE, RIGHT_SIDE)
        written = sides == (LEFT_SIDE, RIGHT_SIDE)
        if op == "eq_null_safe":
            return _Found(exact=True, keys=[JoinKey(a, b, True)]) if written else _Found()
        found = _Found()
        if written and op == "eq":
            found.exact = True
            found.keys.append(JoinKey(a, b, False))
        if a.type.is_discrete:
            linear = self.linear(c, op, a, b, keyed=bool(found.keys))
            if linear is not None and linear.bands:
                linear.exact |= found.exact
                linear.keys = found.keys or linear.keys
                return linear
        if written:
            self._as_written(found, c, op, a, b)
        return found

    def _as_written(self, found: _Found, c: Node, op: str, a: Node, b: Node) -> None:
        exact = True
        if not has_ordinal(a.type):
            if a.type.kind != "decimal":
                return
            # Rounding to the nearest double keeps the order, but joins neighbours.
            a, b, exact = cast_to(a, FLOAT64), cast_to(b, FLOAT64), False
        strict = int(exact)
        lo = {"ge": 0, "gt": strict, "eq": 0}.get(op)
        hi = {"le": 0, "lt": -strict, "eq": 0}.get(op)
        found.bands.append(BandTerm(a, b, lo, hi, exact, c))
        found.exact |= exact

    def linear(self, c: Node, op: str, a: Node, b: Node, keyed: bool) -> _Found | None:
        """Bands from the difference of two linear forms; None where there are no such forms."""
        fa, fb = self.forms.form(a), self.forms.form(b)
        if fa is None or fb is None:
            return None
        d = fa.plus(fb, -1)
        if any(self.forms.sides(n) == 0 for n in d.terms):
            return None
        found = _Found()
        signs = (1,) if op in ("le", "lt") else (-1,) if op in ("ge", "gt") else (1, -1)
        results = [
            self._add_band(found, q, c)
            for k in signs
            for q in consequences(self.forms, _Consequence(d.scaled(k), op in ("lt", "gt")))
        ]
        if not found.bands or not all(results):
            return found
        found.bands = list(_merged(found.bands))
        covered = set(walk(*(n for t in found.bands for n in (t.left, t.right))))
        if d.exact and not any(self.forms.sides(n) == BOTH_SIDES for n in d.terms):
            if keyed:
                return self._made_exact(found, [])
            if op == "eq":
                self._add_key(found)
            return self._made_exact(found, self.forms.limits((a, b), covered))
        inner = self._abs_argument(op, a, b)
        if inner is not None:
            m, other, t = inner
            form = self.forms.form(m)
            assert form is not None
            top = span(t)[1]
            limits = self.forms.limits((m, other), covered)
            return self._made_exact(found, [*limits, Limit(form.terms, form.lo, -top, top)])
        return found

    def _made_exact(self, found: _Found, limits: list[Limit]) -> _Found:
        box = guard_box(limits)
        if box is not None:
            cut(found.exact_box, box)
            found.exact = True
            found.bands = [replace(t, exact=True) for t in found.bands]
        return found

    def _abs_argument(self, op: str, a: Node, b: Node) -> tuple[Node, Node, Type] | None:
        """(m, other, type of the abs) where the comparison is ``abs(m) <= other`` and nothing but linear else."""
        if op in ("ge", "gt"):
            a, b, op = b, a, _FLIPPED[op]
        if op not in ("le", "lt"):
            return None
        while a.op == "cast" and a.args[0].type.is_discrete and _contains(a.type, a.args[0].type):
            a = a.args[0]
        if a.op != "abs":
            return None
        for n in (a.args[0], b):
            form = self.forms.form(n)
            if form is None or not form.exact or any(self.forms.sides(x) == BOTH_SIDES for x in form.terms):
                return None
        return a.args[0], b, a.type

    def _add_key(self, found: _Found) -> None:
        """An equality that only becomes one-sided by moving terms is still a key."""
        (t,) = found.bands
        if t.lo == t.hi == 0:
            found.keys.append(JoinKey(t.left, t.right, False))

    def _add_band(self, found: _Found, q: _Consequence, c: Node) -> bool:
        """Turn ``q`` into a relaxed band of ``found`` (or a filter, if it reads one side); False where that fails."""
        terms = q.form.terms
        if not terms:
            return False
        denominators = lcm(*(Fraction(k).denominator for k in terms.values()))
        f = Fraction(denominators, gcd(*(int(k * denominators) for k in terms.values())))
        left = {n: int(k * f) for n, k in terms.items() if self.forms.sides(n) == LEFT_SIDE}
        right = {n: int(-k * f) for n, k in terms.items() if self.forms.sides(n) == RIGHT_SIDE}
        if not left or not right:
            return self._add_filter(found, q, left, right, f)
        left_minus, right_minus = ({n: -k for n, k in side.items()} for side in (left, right))
        up = self.pool.rank(left, right), _leading(left)
        down = self.pool.rank(left_minus, right_minus), _leading(left_minus)
        flip = down > up
        if flip:
            left, right = left_minus, right_minus
        nodes = self.pool.pair(left, right)
        if nodes is None:
            return False
        a, ca, b, cb = nodes
        limits = self.forms.limits([n for n in (a, b) if not self.pool.knows(n)], self.pool.known)
        box = guard_box(limits)
        if box is None:
            return False
        cut(found.box, box)
        scale = scale_of(a.type)
        lo = hi = None
        if flip:
            bound = (ca - cb + f * q.form.lo) * scale
            lo = floor(bound) + 1 if q.strict else ceil(bound)
        else:
            bound = (ca - cb - f * q.form.lo) * scale
            hi = ceil(bound) - 1 if q.strict else floor(bound)
        if q.nullable:
            # The null side becomes the end of its type at which the band holds whatever the other side is.
            low, high = a.type.physical_range()
            ends = (high, low) if flip else (low, high)
            a, b = (
                make("coalesce", (n, literal(end, n.type)), (), n.type) if self.forms.sides(n) & q.nullable else n
                for n, end in zip((a, b), ends)
            )
            lo, hi = (None if lo is None else min(lo, 0)), (None if hi is None else max(hi, 0))
        found.bands.append(BandTerm(a, b, lo, hi, False, c))
        return True

    def _add_filter(
        self, found: _Found, q: _Consequence, left: dict[Node, int], right: dict[Node, int], f: Fraction
    ) -> bool:
        side, sign = (left, 1) if left else (right, -1)
        if q.nullable or len(side) != 1:
            return False
        ((n, k),) = side.items()
        bound = Fraction(-f * q.form.lo) / (k * sign) * scale_of(n.type)
        low, high = n.type.physical_range()
        if k * sign > 0:
            end, op = (ceil(bound) - 1 if q.strict else floor(bound)), "le"
        else:
            end, op = (floor(bound) + 1 if q.strict else ceil(bound)), "ge"
        if low <= end <= high:
            found.filters.append(make(op, (n, literal(end, n.type)), (), BOOL))
        return True

    # Choices

    def membership(self, c: Node) -> _Found:
        """``x IN (...)``: between the least and the greatest literal."""
        x, *items = c.args
        if any(i.op != "literal" for i in items) or not x.type.is_discrete:
            return _Found()
        values = sorted((i for i in items if i.params[0] is not None), key=lambda i: i.params[0])
        if not values:
            return _Found()
        if len(values) == 1:
            return self.comparison(make("eq", (x, values[0]), (), BOOL))
        found = _Found()
        for op, end in (("ge", values[0]), ("le", values[-1])):
            part = self.comparison(make(op, (x, end), (), BOOL))
            found.take(part)
        found.bands = [replace(t, exact=False, source=c) for t in found.bands]
        found.exact_box = {}
        return found

    def disjunction(self, c: Node) -> _Found:
        """The hull of what the branches have in common."""
        hull: dict[tuple[Node, Node], tuple[int | None, int | None]] | None = None
        keys: list[JoinKey] | None = None
        out = _Found()
        for branch in _flattened("or", c):
            if branch.op == "literal" and branch.params[0] is not True:
                continue
            part = _Found()
            for x in _flattened("and", branch):
                if self.forms.sides(x) == BOTH_SIDES:
                    part.take(self.analyse(x))
            bands = {(t.left, t.right): (t.lo, t.hi) for t in _merged(part.bands)}
            cut(out.box, part.box)
            if hull is None or keys is None:
                hull, keys = bands, part.keys
                continue
            keys = [k for k in keys if k in part.keys]
            hull = {p: _hull(hull[p], bands[p]) for p in hull if p in bands}
        out.keys = keys or []
        out.bands = list(_merged(BandTerm(a, b, lo, hi, False, c) for (a, b), (lo, hi) in (hull or {}).items()))
        return out


def cut(box: Box, other: Box) -> None:
    """Make ``box`` the intersection of both; a node in one alone is unbounded in the other."""
    for n, (lo, hi) in other.items():
        old = box.get(n, (lo, hi))
        box[n] = (max(lo, old[0]), min(hi, old[1]))


def consequences(forms: Forms, q: _Consequence) -> list[_Consequence]:
    """Inequalities without mixed atoms that follow from ``q``."""
    if any(forms.sides(n) == BOTH_SIDES for n in q.form.terms):
        return []
    return [q]


def _contains(outer: Type, inner: Type) -> bool:
    if outer.kind not in ("int", "decimal") or inner.kind not in ("int", "decimal") or outer.scale < inner.scale:
        return False
    (a, b), (c, d) = span(outer), span(inner)
    return a <= c and d <= b


def _leading(terms: dict[Node, int]) -> bool:
    """Whether the first atom, in an order that does not depend on the conjunct, has a positive factor."""
    if len(terms) == 1:
        return next(iter(terms.values())) > 0
    first = min(terms, key=lambda n: ([c.params for c in columns_of(n)], n.op, repr(n.params)))
    return terms[first] > 0


def _hull(a: tuple[int | None, int | None], b: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    lo = None if a[0] is None or b[0] is None else min(a[0], b[0])
    hi = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return lo, hi


def _merged(bands: Iterable[BandTerm]) -> tuple[BandTerm, ...]:
    """One term for each pair of nodes: the intersection, exact if all of it is."""
    out: dict[tuple[Node, Node], BandTerm] = {}
    for t in bands:
        old = out.get((t.left, t.right))
        if old is not None:
            lo = t.lo if old.lo is None else old.lo if t.lo is None else max(old.lo, t.lo)
            hi = t.hi if old.hi is None else old.hi if t.hi is None else min(old.hi, t.hi)
            both = old.source if t.source is old.source else make("and", (old.source, t.source), (), BOOL)
            t = BandTerm(t.left, t.right, lo, hi, old.exact and t.exact, both)
        out[t.left, t.right] = t
    return tuple(t for t in out.values() if t.lo is not None or t.hi is not None)


def _guard(n: Node, lo: Number, hi: Number) -> Guard:
    scale = scale_of(n.type)
    return Guard(n, ceil(lo * scale), floor(hi * scale))
