"""What a side's own conjuncts tie to its orders: other columns of the later rows that can match.

Under ``r.a <= r.b`` and an order of ``a``, no later row with a ``b`` behind the frontier can match, though nobody
declared an order of ``b``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy

from ivjoin.expr.nodes import Node, columns_of, sides_of, walk
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.frontier.order import Frontier, ordinal_range
from ivjoin.plan.certain import domain_of, ordinals_of
from ivjoin.plan.planner import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.separation.normal import conjuncts_of

__all__ = ["Implied", "both"]

Interval = tuple[int, int, bool]


class Implied:
    """Intervals of columns in the later rows of one side that its own conjuncts do not refuse.

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
        The columns of which something is known once rows have come.
    found : dict of Node to (int, int, bool)
        Least and greatest ordinal, and whether the value may be NULL, by when it was last looked at.
    """

    def __init__(
        self, plan: JoinPlan, p: int, terms: Sequence[tuple[Node, bool, bool]], residual: Set[Node]
    ) -> None:
        side = plan.sides[p]
        # As they were written: what was made of others may hold for no row that is decided pair by pair.
        written = conjuncts_of(plan.condition) if side.filters else []
        self._conjuncts = tuple(f for f in written if sides_of(f) == {SIDES[p]} and len(columns_of(f)) > 1)
        self._inside = frozenset(walk(*self._conjuncts))
        self._present = side.present
        self.found: dict[Node, Interval] = {}
        self._told: dict[Node, Interval] = {}
        used = {*residual, *walk(*(theirs for theirs, _, _ in terms))}
        ordered = {n for n, _, _ in side.orders}
        columns = [n for n in columns_of(*self._conjuncts) if n not in ordered and has_ordinal(n.type)]
        self.wanted = tuple(n for n in columns if n in used)
        if self.wanted:
            known = {n: (low, high, True) for n, (low, high) in side.bounds.items() if n in self._inside}
            for n, _, order in side.orders:
                if n in self._inside:
                    least, most = ordinal_range(n.type)
                    some = max(ordinal_of(0, n.type), least + 1)  # of unsigned numbers, 0 tells nothing
                    known[n] = (least, some, True) if order.descending else (some, most, True)
            told = self._contracted(known) if known else {}
            self.wanted = tuple(n for n in told if n in residual or any(_says(n, told[n], t) for t in terms))

    def own(self) -> Implied:
        """One for another operator of the same plan."""
        return copy(self)

    def look(self, frontier: Frontier) -> None:
        """Take in how far the side has come."""
        known = {n: span for n, span in frontier.matching.items() if n in self._inside}
        if known != self._told:
            self._told, self.found = known, self._contracted(known)

    def _contracted(self, known: Mapping[Node, Interval]) -> dict[Node, Interval]:
        """What is left of the wanted columns where every conjunct is TRUE."""
        from ivjoin.propagation import Dom, Outcome, contract_nodes

        given = {c: Dom.of(c.type, null=False) for c in columns_of(*self._conjuncts) if c in self._present}
        given |= {n: domain_of(n, span) for n, span in known.items()}
        outcome, doms = contract_nodes(self._conjuncts, given, self.wanted)
        if outcome is Outcome.INFEASIBLE:
            return dict.fromkeys(self.wanted, (1, 0, False))
        found = {}
        for n, dom in doms.items():
            low, high = ordinals_of(dom, n)
            least, most = ordinal_range(n.type)
            if low > least or high < most:
                found[n] = low, high, dom.may_null
        return found


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
