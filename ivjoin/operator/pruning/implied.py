"""Derive bounds of a side's columns from the conjuncts that read only that side.

Under ``r.w < 10``, no row with a greater ``w`` matches, so bounds of ``w`` need not be declared. Under ``r.a <= r.b``
and an order of ``a``, no later row with a ``b`` behind the frontier can match, so ``b`` needs no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy

from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node, columns_of, sides_of, walk
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier
from ivjoin.plan.derived.certain import domain_of, ordinals_of, there
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES

__all__ = ["SOMEWHERE", "Implied", "Interval", "both", "some_edge"]

Interval = tuple[int, int, bool]
# Positions of an order, in ordinals past zero, at which to test whether a column becomes bounded. At 0, squares bound
# nothing. Under ``r.ts > '2024-01-01'``, earlier positions bound nothing.
SOMEWHERE = (1, 1 << 12, 1 << 40, 1 << 63)


class Implied:
    """The intervals that columns of one side can have in rows that satisfy the side's own conjuncts.

    ``terms`` are (expression of this side, whether its least value prunes, whether its greatest value prunes) for each
    band. ``residual`` are the expressions that the residual reads.
    """

    def __init__(
        self, plan: JoinPlan, p: int, terms: Sequence[tuple[Node, bool, bool]], residual: Set[Node]
    ) -> None:
        side = plan.sides[p]
        self._plan, self._p, self._terms, self._residual = plan, p, terms, residual
        self._bounds = {n: (low, high, True) for n, (low, high) in side.bounds.items()}
        self._told: dict[Node, Interval] = {}
        self._falling = {n: o.descending for n, _, o in side.orders}
        columns = self._begin()
        # Under on_late="join", a row may be outside the declared bounds.
        kept = self._bounds if plan.spec.on_late != "join" else {}
        self.always = self.found = self._contracted(kept, columns) if columns else {}
        self.wanted = self._tied(columns)

    def _begin(self) -> list[Node]:
        """Collect the conjuncts that are TRUE for a match.

        Return their columns that bands or the residual also read.
        """
        plan, p = self._plan, self._p
        # Use the conjuncts as written. A derived conjunct may be false for rows that are evaluated pair by pair.
        written = conjuncts_of(plan.condition) if plan.sides[p].filters else []
        own = [f for f in written if sides_of(f) == {SIDES[p]}]
        never_null = plan.sides[0].present | plan.sides[1].present
        bounds = plan.sides[p].bounds if plan.spec.on_late != "join" else {}
        self._conjuncts = (*own, *there(conjuncts_of(plan.condition), never_null, bounds, self._falling))
        self._inside = frozenset(walk(*self._conjuncts))
        used = {*self._residual, *walk(*(theirs for theirs, _, _ in self._terms))}
        return [n for n in columns_of(*self._conjuncts) if n in used and has_ordinal(n.type)]

    def _tied(self, columns: Sequence[Node]) -> tuple[Node, ...]:
        """Return the columns that some position of an ordered expression bounds more tightly than ``always``."""
        loose = [n for n in columns if n not in self._falling]
        if not loose or self._inside.isdisjoint(self._falling):
            return ()
        found: set[Node] = set()
        for after in SOMEWHERE:
            edges = {n: some_edge(n, falling, after) for n, falling in self._falling.items()}
            told = self._contracted({**self._bounds, **edges}, [n for n in loose if n not in found])
            told = {n: span for n, span in told.items() if span != self.always.get(n)}
            found |= {n for n in told if n in self._residual or any(_says(n, told[n], t) for t in self._terms)}
        return tuple(n for n in loose if n in found)

    def learn(self, promised: Mapping[Node, tuple[int, int]], terms: Sequence[tuple[Node, bool, bool]]) -> None:
        """Add expressions with promises and their promised intervals, and all terms of bands and keys."""
        fresh = [n for n in promised if n not in self._falling and (n.op != "column" or n in self._inside)]
        if fresh:
            self._falling = self._falling | {n: promised[n][0] <= ordinal_range(n.type)[0] for n in fresh}
            self._terms = terms
            self.wanted, self._told = self._tied(self._begin()), {}

    def own(self) -> Implied:
        return copy(self)

    def keep(self, nodes: Set[Node]) -> None:
        self.always = self.found = {n: span for n, span in self.always.items() if n in nodes}

    def look(self, frontier: Frontier) -> None:
        known = {n: span for n, span in frontier.matching.items() if n in self._inside}
        if known != self._told:
            # Intersect with the earlier result, which is still valid. Near the end of a type, an inverse may find less.
            self._told, self.found = known, both(self.found, self._contracted(known, self.wanted))

    def _contracted(self, known: Mapping[Node, Interval], wanted: Sequence[Node]) -> dict[Node, Interval]:
        """Return the intervals of the columns ``wanted`` in rows for which every conjunct is TRUE."""
        from ivjoin.propagation import Dom, Outcome, contract_nodes

        present = self._plan.sides[self._p].present
        given = {c: Dom.of(c.type, null=False) for c in columns_of(*self._conjuncts) if c in present}
        given |= {n: domain_of(n, span) for n, span in known.items()}
        outcome, doms = contract_nodes(self._conjuncts, given, wanted)
        if outcome is Outcome.INFEASIBLE:
            return dict.fromkeys(wanted, (1, 0, False))
        found = {}
        for n, dom in doms.items():
            low, high = ordinals_of(dom, n)
            least, most = ordinal_range(n.type)
            if low > least or high < most:
                found[n] = low, high, dom.may_null
        return found


def some_edge(node: Node, falling: bool, after: int) -> Interval:
    """Return the interval of an ordered expression whose order has reached ``after`` ordinals past zero."""
    least, most = ordinal_range(node.type)
    some = max(ordinal_of(0, node.type), least + 1)  # least + 1 for unsigned types, whose least value 0 bounds nothing
    after = min(after, (most - some) // 4 * 3)
    return (least, max(some - after, least), True) if falling else (some + after, most, True)


def _says(node: Node, span: Interval, term: tuple[Node, bool, bool]) -> bool:
    """Return whether an interval of a column prunes by a band."""
    theirs, by_least, by_most = term
    if theirs is not node:
        return node in walk(theirs)
    least, most = ordinal_range(node.type)
    return (by_least and span[0] > least) or (by_most and span[1] < most)


def both(a: Mapping[Node, Interval], b: Mapping[Node, Interval]) -> dict[Node, Interval]:
    """Return the intersection of two maps of intervals."""
    out = dict(a)
    for n, (low, high, null) in b.items():
        least, most, also = out.get(n, (low, high, null))
        out[n] = max(low, least), min(high, most), null and also
    return out
