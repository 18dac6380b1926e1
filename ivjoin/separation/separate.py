"""Split a join condition by side: keys, band terms, one-sided filters, and the residual that decides each pair.

:func:`separate` guarantees for every pair of rows:

1. If the condition is TRUE, every key, band term and filter is true, unless its nodes raise an error. (A rewrite may
   only widen. A null in a band term or a plain key means that the condition is not TRUE.)
2. Suppose that no node of a key, band term or filter raises an error for the two rows, and that the guards are true for
   both rows. If all keys, band terms, filters and residual conjuncts are true, the condition is TRUE, and no conjunct
   outside the residual raises an error.

For a row outside a guard, or with an error in a node, guarantee 1 still holds, and the original condition decides its
pairs. ``overflows`` describes further pairs to test, because the bands of a conjunct could hide its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ivjoin.expr import build, ops
from ivjoin.expr.conjuncts import conjuncts_of, flattened, is_literal
from ivjoin.expr.nodes import COMPARISONS, FLIPPED, Node, columns_of, make, walk
from ivjoin.expr.ordinal import has_ordinal
from ivjoin.expr.terms import BandTerm, Guard, JoinKey
from ivjoin.expr.types import BOOL, FLOAT64
from ivjoin.separation.branches import Branch, alternatives_of, compared_by_branch, either, hull, present_in
from ivjoin.separation.checks import Check, checks_of
from ivjoin.separation.discrete import linear_bands
from ivjoin.separation.isolate import Isolator, never_nan
from ivjoin.separation.linear import BOTH_SIDES, LEFT_SIDE, RIGHT_SIDE, Forms
from ivjoin.separation.mixed import consequences
from ivjoin.separation.onesided import SidePool, cast_to
from ivjoin.separation.overflow import Overflow, constant_errs, overflows
from ivjoin.separation.parts import Found, cut, fitted, guard_of, merged
from ivjoin.separation.placing import place

__all__ = ["Separation", "separate"]

_CHOICES = (ops.CASE, ops.COALESCE)
Inferring = Callable[[Node], Iterable[Node]]


@dataclass(frozen=True, slots=True)
class Separation:
    """The parts of a condition.

    Each filter reads one input. The conjuncts of ``residual`` decide candidate pairs, in source order. The conjuncts of
    ``constant`` read no column. ``checks`` decide parts of the residual, and all of its conjuncts in ``decided``.
    ``numbers`` are float nodes that are not NaN if the condition is TRUE.
    """

    keys: tuple[JoinKey, ...] = ()
    bands: tuple[BandTerm, ...] = ()
    left_filter: tuple[Node, ...] = ()
    right_filter: tuple[Node, ...] = ()
    residual: tuple[Node, ...] = ()
    constant: tuple[Node, ...] = ()
    guards: tuple[Guard, ...] = ()
    overflows: tuple[Overflow, ...] = ()
    condition: Node | None = None
    checks: tuple[Check, ...] = ()
    decided: frozenset[Node] = frozenset()
    numbers: frozenset[Node] = frozenset()


def separate(
    condition: Node | None, present: frozenset[Node] = frozenset(), numbers: frozenset[Node] = frozenset(),
    implied: tuple[Node, ...] = (), infer: Inferring | None = None,
) -> Separation:
    """Split a condition (None is TRUE) into keys, band terms, one-sided filters and a residual.

    - If the condition is TRUE, the ``present`` expressions are not NULL and the ``numbers`` are not NaN.
    - ``implied`` conditions are true for every pair that the caller needs. They give band terms, but decide no pair.
    - ``infer`` returns comparisons that follow from a comparison without a band.
    """
    if condition is None and not implied:
        return Separation()
    return _Separator(condition, present, numbers, implied, infer).run()


class _Separator:
    def __init__(
        self, condition: Node | None, present: frozenset[Node], numbers: frozenset[Node], implied: tuple[Node, ...],
        infer: Inferring | None,
    ) -> None:
        self.condition, self.implied, self._inferring = condition, implied, infer
        self.forms = Forms(present)
        self.pool = SidePool(self.forms)
        self.conjuncts = conjuncts_of(condition)
        self.present = present | present_in(self.conjuncts)
        self.known = self._known(self.conjuncts, numbers)
        for c in (*self.conjuncts, *implied):
            self.pool.add(c)

    def run(self) -> Separation:
        one_sided: dict[int, list[Node]] = {0: [], LEFT_SIDE: [], RIGHT_SIDE: []}
        residual: list[Node] = []
        total = Found()
        relaxed: list[tuple[Node, list[BandTerm]]] = []
        for c in self.conjuncts:
            sides = self.forms.sides(c)
            if sides != BOTH_SIDES:
                one_sided[sides].append(c)
                continue
            found = Found() if constant_errs(self.forms, c) else fitted(self.analyse(c))
            total.take(found)
            if not found.exact:
                residual.append(c)
                relaxed += [(c, found.bands)] if found.bands else []
        for c in self.implied:
            if self.forms.sides(c) == BOTH_SIDES:
                found = fitted(self.analyse(c))
                total.bands += [replace(t, exact=True) for t in found.bands]  # it decides no pair
                cut(total.box, found.box)
        cut(total.box, total.exact_box)
        total.bands += _month_bands(total.keys)
        asked = checks_of(self.forms, residual, self.meant)
        cut(total.box, asked.box)
        relaxed = [(c, bands) for c, bands in relaxed if c not in asked.decided]
        beyond = self._beyond(relaxed, total, [c for cs in one_sided.values() for c in cs])
        for f in total.filters:
            here = one_sided[self.forms.sides(f)]
            if f not in here:
                here.append(f)
        return Separation(
            keys=tuple(dict.fromkeys(total.keys)),
            bands=tuple(merged(total.bands)),
            left_filter=tuple(one_sided[LEFT_SIDE]),
            right_filter=tuple(one_sided[RIGHT_SIDE]),
            residual=tuple(residual),
            constant=tuple(c for c in one_sided[0] if not is_literal(c, True)),
            guards=tuple(guard_of(n, lo, hi) for n, (lo, hi) in total.box.items()),
            overflows=tuple(beyond),
            condition=self.condition,
            checks=asked.checks,
            decided=asked.decided,
            numbers=self.known,
        )

    def _beyond(
        self, relaxed: list[tuple[Node, list[BandTerm]]], total: Found, filters: list[Node]
    ) -> list[Overflow]:
        """Return the pairs for which residual conjuncts overflow outside their own bands. Add guards to ``total``."""
        nodes = [n for t in total.bands for n in (t.left, t.right)] + [n for k in total.keys for n in (k.left, k.right)]
        kept = set(walk(*nodes, *filters))
        out = []
        for c, bands in relaxed:
            lines, box = overflows(self.forms, self.pool, c, bands, kept)
            cut(total.box, box)
            own = set(map(id, bands))
            rest = tuple(merged(t for t in total.bands if id(t) not in own)) if lines else ()
            out += [Overflow(t, rest) for t in lines]
        return out

    def _known(self, conjuncts: list[Node], before: frozenset[Node]) -> frozenset[Node]:
        """Return the float nodes that are not NaN if all conjuncts are TRUE."""
        comparisons = [c for c in conjuncts if c.op in COMPARISONS and c.args[0].type.kind == "float"]
        known = before.union(*(c.args[0].args for c in conjuncts if c.op == ops.NOT and c.args[0].op == ops.IS_NAN))
        while comparisons:
            new = known.union(*(never_nan(c.op, c.args[0], c.args[1], known) for c in comparisons))
            if new == known:
                break
            known = new
        return known

    def analyse(self, c: Node) -> Found:
        """Return the parts of a conjunct that reads both sides."""
        if c.op in COMPARISONS:
            return self.comparison(c)
        if c.op == ops.IN:
            return self.membership(c)
        alternatives = alternatives_of(self.forms, c)
        return Found() if alternatives is None else self.disjunction(c, alternatives)

    def comparison(self, c: Node) -> Found:
        """Return the parts of a comparison that reads both sides."""
        op, (a, b) = c.op, c.args
        if op == ops.NE:
            return Found()
        sides = self.forms.sides(a), self.forms.sides(b)
        if sides == (RIGHT_SIDE, LEFT_SIDE):
            a, b, op, sides = b, a, FLIPPED[op], (LEFT_SIDE, RIGHT_SIDE)
        written = sides == (LEFT_SIDE, RIGHT_SIDE)
        if op == ops.EQ_NULL_SAFE:
            if not written:
                return Found()
            if self.forms.may_null(a) and self.forms.may_null(b):
                return Found(exact=True, keys=[JoinKey(a, b, True)])
            op = ops.EQ  # a null never equals a value here
        keyed = written and op == ops.EQ
        found = Found()
        if a.type.is_discrete:
            found = linear_bands(self.forms, self.pool, c, op, a, b, keyed)
        elif a.type.kind == "float" and not written:
            found = self._floats(c, op, a, b)
        if written and not found.bands:
            found = self._as_written(c, op, a, b)
        if not written and not found.bands and not found.filters and (a.op in _CHOICES or b.op in _CHOICES):
            found = self._by_branch(op, a, b)
        if not written and not found.bands:
            self._infer(c, found)
        if keyed:
            found.exact = True
            found.keys = [JoinKey(a, b, False)]
        return found

    def _infer(self, c: Node, found: Found) -> None:
        """Add the bands of comparisons that follow from the intervals inside a comparison."""
        if self._inferring is None:
            return
        inferring, known = self._inferring, self.known
        follows = list(inferring(c))
        self._inferring, self.known = None, self._known(follows, known)  # inferred comparisons infer nothing more
        for x in follows:
            part = self.comparison(x)
            found.bands += [replace(t, exact=False, source=c) for t in part.bands]
            cut(found.box, part.box)
        found.bands = merged(found.bands)
        self._inferring, self.known = inferring, known

    def meant(self, c: Node) -> Found:
        """Return the bands of a comparison. They are exact if they are equivalent to it."""
        if constant_errs(self.forms, c) or c.op == ops.EQ_NULL_SAFE:
            return Found()
        op, (a, b) = c.op, c.args
        sides = self.forms.sides(a), self.forms.sides(b)
        if sides == (RIGHT_SIDE, LEFT_SIDE):
            a, b, op, sides = b, a, FLIPPED[op], (LEFT_SIDE, RIGHT_SIDE)
        found = linear_bands(self.forms, self.pool, c, op, a, b, False) if a.type.is_discrete else Found()
        if sides == (LEFT_SIDE, RIGHT_SIDE) and not found.bands:
            found = self._as_written(c, op, a, b)
        return found

    def _as_written(self, c: Node, op: str, a: Node, b: Node) -> Found:
        """Return the band of ``a op b``, where ``a`` reads the left side and ``b`` the right side."""
        exact = has_ordinal(a.type)
        if not exact:
            if a.type.kind != "decimal":
                return Found()
            # Rounding to the nearest double preserves the order, but neighbours may become equal.
            a, b = cast_to(a, FLOAT64), cast_to(b, FLOAT64)
        lo, hi = ops.difference(op, int(exact))
        return Found(exact=exact, bands=[BandTerm(a, b, lo, hi, exact, c)])

    def _floats(self, c: Node, op: str, a: Node, b: Node) -> Found:
        """Return relaxed bands from two-sided float expressions."""
        isolator = Isolator(self.forms, self.known)
        isolator.compare(op, a, b)
        found = Found()
        for band in isolator.bands:
            if self.forms.sides(band.smaller) == LEFT_SIDE:
                found.bands.append(BandTerm(band.smaller, band.greater, None, 0, False, c))
            else:
                found.bands.append(BandTerm(band.greater, band.smaller, 0, None, False, c))
        for q in isolator.inequalities:
            for follows in consequences(self.forms, q):
                place(self.forms, self.pool, found, follows, c)
        if isolator.bands:
            # A row with a NaN never matches here. A filter drops it, because no bound would evict it.
            for n in columns_of(c):
                if n in self.known:
                    found.filters.append(build.not_(build.is_nan(n)))
        return found

    def membership(self, c: Node) -> Found:
        """Return the parts of ``x IN (...)``: bounds by the least and the greatest literal."""
        (x,) = c.args
        values = [v for v in c.params if v is not None]
        if not values or not (x.type.is_discrete or x.type.kind == "float") or any(v != v for v in values):
            return Found()
        least, most = (make("literal", (), (v,), x.type) for v in (min(values), max(values)))
        if least is most:
            return self.comparison(make(ops.EQ, (x, least), (), BOOL))
        found = Found()
        for op, end in ((ops.GE, least), (ops.LE, most)):
            if x.type.kind == "float":
                self.known = self.known | {*never_nan(ops.LE, x, most, self.known)}
            found.take(self.comparison(make(op, (x, end), (), BOOL)))
        found.bands = [replace(t, exact=False, source=c) for t in found.bands]
        found.exact_box = {}
        return found

    def _by_branch(self, op: str, a: Node, b: Node) -> Found:
        """Return the parts of a comparison with a CASE or a COALESCE, which chooses one of several comparisons."""
        if op == ops.EQ_NULL_SAFE:
            return Found()
        choice, other, op = (a, b, op) if a.op in _CHOICES else (b, a, FLIPPED[op])
        tests = compared_by_branch(self.forms, op, choice, other)
        return Found() if tests is None else self.disjunction(make(op, (choice, other), (), BOOL), tests)

    def disjunction(self, c: Node, alternatives: list[Node]) -> Found:
        """Return the parts that all alternatives imply: the hull of their bands, and their common keys."""
        out = Found()
        branches: list[Branch] = []
        keys: list[JoinKey] | None = None
        one_sided: dict[int, list[Node]] = {LEFT_SIDE: [], RIGHT_SIDE: []}
        known = self.known
        for branch in alternatives:
            if branch.op == "literal" and branch.params[0] is not True:
                continue
            conjuncts = flattened(ops.AND, branch)
            if any(x.op == ops.IS_NULL and x.args[0] in self.present for x in conjuncts):
                continue
            self.known = self._known(conjuncts, known)
            part = Found()
            for x in conjuncts:
                self.pool.add(x)
                if self.forms.sides(x) == BOTH_SIDES:
                    part.take(self.analyse(x))
            cut(out.box, part.box)
            own = dict.fromkeys([*conjuncts, *part.filters])
            here = {s: [x for x in own if self.forms.sides(x) == s] for s in one_sided}
            branches.append(Branch(part.bands, here[LEFT_SIDE], here[RIGHT_SIDE]))
            keys = part.keys if keys is None else [k for k in keys if k in part.keys]
            for side, parts in here.items():
                if parts:
                    one_sided[side].append(build.and_(*parts))
        self.known = known
        if branches:
            out.keys = keys or []
            out.bands = hull(branches, c, self.present)
        for filters in one_sided.values():
            if filters and len(filters) == len(branches):
                out.filters += either(filters)
        return out


def _month_bands(keys: list[JoinKey]) -> list[BandTerm]:
    """Add the equality of month numbers if the years and the months are equal."""
    pairs = [(k.left, k.right) for k in keys if k.left.op == k.right.op == ops.EXTRACT and not k.null_safe]
    out = []
    for a, b in pairs:
        months = [make(ops.EXTRACT, n.args, ("month", *n.params[1:]), n.type) for n in (a, b)]
        if a.params[0] == b.params[0] == "year" and (months[0], months[1]) in pairs:
            x, y = (make(ops.EXTRACT, n.args, ("month_number", *n.params[1:]), n.type) for n in (a, b))
            out.append(BandTerm(x, y, 0, 0, False, make(ops.EQ, (a, b), (), BOOL)))
    return out
