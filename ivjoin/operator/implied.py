"""What a side's own conjuncts say of its rows that can match: as bounds do, and tied to its orders.

Under ``r.w < 10`` no row with a greater ``w`` matches, though nobody declared bounds of it. Under ``r.a <= r.b`` and an
order of ``a``, no later row with a ``b`` behind the frontier can match, though nobody declared an order of ``b``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy

from ivjoin.expr.nodes import Node, columns_of, sides_of, walk
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.frontier.order import Frontier, ordinal_range
from ivjoin.plan.certain import domain_of, ordinals_of, there
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.separation.normal import conjuncts_of

__all__ = ["SOMEWHERE", "Implied", "both", "some_edge"]

Interval = tuple[int, int, bool]
# Where orders may have come, in ordinals past zero, to see what would follow: at 0 itself nothing does of squares, and
# under ``r.ts > '2024-01-01'`` nothing before that.
SOMEWHERE = (1, 1 << 12, 1 << 40, 1 << 63)


class Implied:
    """Intervals of columns in the rows of one side that its own conjuncts do not refuse.

    Parameters
    ----------
    plan : JoinPlan
    p : int
        The side.
    terms : sequence of (Node, bool, bool)
        What bands compare of it, and whether they say something by its least and by its greatest value.
    residual : set of Node
        What the residual reads.

    Attributes
    ----------
    wanted : tuple of Node
        The columns of which more is known once rows have come.
    always : dict of Node to (int, int, bool)
        Least and greatest ordinal, and whether the value may be NULL, of columns that are read: of every row.
    found : dict of Node to (int, int, bool)
        The same of later rows, by when it was last looked at.
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
        # Under "join" a row may lie outside its side's bounds.
        kept = self._bounds if plan.spec.on_late != "join" else {}
        self.always = self.found = self._contracted(kept, columns) if columns else {}
        self.wanted = self._tied(columns)

    def _begin(self) -> list[Node]:
        """Settle what is known to be TRUE of a row that matches; returns the columns of it that are read elsewhere."""
        plan, p = self._plan, self._p
        # As they were written: what was made of others may hold for no row that is decided pair by pair.
        written = conjuncts_of(plan.condition) if plan.sides[p].filters else []
        own = [f for f in written if sides_of(f) == {SIDES[p]}]
        never_null = plan.sides[0].present | plan.sides[1].present
        bounds = plan.sides[p].bounds if plan.spec.on_late != "join" else {}
        self._conjuncts = (*own, *there(conjuncts_of(plan.condition), never_null, bounds, self._falling))
        self._inside = frozenset(walk(*self._conjuncts))
        used = {*self._residual, *walk(*(theirs for theirs, _, _ in self._terms))}
        return [n for n in columns_of(*self._conjuncts) if n in used and has_ordinal(n.type)]

    def _tied(self, columns: Sequence[Node]) -> tuple[Node, ...]:
        """Of some columns those of which ordered expressions, somewhere, say more than is always known."""
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
        """Take in of which expressions something was promised, and what; and all that bands and keys compare."""
        fresh = [n for n in promised if n not in self._falling and (n.op != "column" or n in self._inside)]
        if fresh:
            self._falling = self._falling | {n: promised[n][0] <= ordinal_range(n.type)[0] for n in fresh}
            self._terms = terms
            self.wanted, self._told = self._tied(self._begin()), {}

    def own(self) -> Implied:
        """One for another operator of the same plan."""
        return copy(self)

    def keep(self, nodes: Set[Node]) -> None:
        """Say of these columns alone what holds of every row."""
        self.always = self.found = {n: span for n, span in self.always.items() if n in nodes}

    def look(self, frontier: Frontier) -> None:
        """Take in how far the side has come."""
        known = {n: span for n, span in frontier.matching.items() if n in self._inside}
        if known != self._told:
            # What was found before holds as well, where an inverse says less further on, as it may at a type's end.
            self._told, self.found = known, both(self.found, self._contracted(known, self.wanted))

    def _contracted(self, known: Mapping[Node, Interval], wanted: Sequence[Node]) -> dict[Node, Interval]:
        """What is left of some columns where every conjunct is TRUE."""
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
    """What an order would say of an ordered expression that has come somewhere, so many ordinals past zero."""
    least, most = ordinal_range(node.type)
    some = max(ordinal_of(0, node.type), least + 1)  # of unsigned numbers, 0 tells nothing
    after = min(after, (most - some) // 4 * 3)
    return (least, max(some - after, least), True) if falling else (some + after, most, True)


def _says(node: Node, span: Interval, term: tuple[Node, bool, bool]) -> bool:
    """Whether a column's interval says something by a band."""
    theirs, by_least, by_most = term
    if theirs is not node:
        return node in walk(theirs)
    least, most = ordinal_range(node.type)
    return (by_least and span[0] > least) or (by_most and span[1] < most)


def both(a: Mapping[Node, Interval], b: Mapping[Node, Interval]) -> dict[Node, Interval]:
    """What two sources know of expressions, where both hold."""
    out = dict(a)
    for n, (low, high, null) in b.items():
        least, most, also = out.get(n, (low, high, null))
        out[n] = max(low, least), min(high, most), null and also
    return out
