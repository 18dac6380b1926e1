"""Compute intervals of one side's axes from the other side's future rows. Rows outside them can be evicted.

During a push, ``bounds_of`` in ``shj/kernels/push/expiry_kernels.py`` moves the bounds of plain bands. This module
computes the first bounds, bounds that need propagation, and bounds whose ends are beyond int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ivjoin.expr.nodes import Node, columns_of, walk
from ivjoin.expr.ordinal import has_ordinal, ordinal_of
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.pruning.implied import SOMEWHERE, Implied, both, some_edge
from ivjoin.operator.pruning.progress import behind, compared_orders
from ivjoin.operator.pruning.residual import Residual
from ivjoin.plan.derived.certain import domain_of, ordinals_of
from ivjoin.plan.derived.residual_checks import bands_say_all
from ivjoin.plan.derived.unclipped import Unclipped
from ivjoin.plan.join_plan import JoinPlan, seen_from
from ivjoin.plan.planner import watched
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["Bounder"]

# The bounds of an axis that retain only the rows without a value there.
NO_VALUE = I64_MAX, I64_MIN
# The residual is contracted after this number of rows. A contraction takes hundreds of microseconds. Moving a band's
# bound takes one.
_CONTRACT_EVERY = 256
# A contraction takes longer for a larger graph. The interval grows by _CONTRACT_EVERY for each _NODES_PER_TURN nodes.
_NODES_PER_TURN = 200


class Bounder:
    """Closed intervals of ordinals for each axis of each side's store, updated from the other side's frontier.

    ``bounds(s)`` is a list with (low, high) for each axis, or None if no future row can match any stored row. An axis
    has ``low > high`` if no future row can match a row that has a value there.
    """

    def __init__(self, plan: JoinPlan, frontiers: tuple[Frontier, Frontier]) -> None:
        self._plan, self._frontiers = plan, frontiers
        self._bounds: list[list[tuple[int, int]] | None] = [[], []]
        self._contracted: list[dict[Node, tuple[int, int]] | None] = [{}, {}]
        self._since, self._unlooked = [0, 0], [0, 0]  # rows since the last contraction, and since the last look
        self._seen = [-1, -1]  # versions of the frontiers from which the bounds were computed
        once = plan.derived.once
        self.terms = list(once(Bounder._terms_of, lambda: (self._terms_of(0), self._terms_of(1))))
        self._residual = Residual(plan)
        self._compare = compared_orders(plan)
        self._every = _CONTRACT_EVERY * (1 + len(self._residual.inside) // _NODES_PER_TURN)
        self._reaches: dict[Node, tuple[int, int]] = {}
        self._deps: dict[Node, list[Node]] = {}
        self._unclipped: dict[Node, Unclipped] = {}
        self._told: list[dict[Node, tuple[int, int, bool]]] = [{}, {}]  # the intervals used by the last contraction
        self._implied: list[Implied] = []
        implied, self._by_filters = once(Bounder._filtered, self._first_implied)
        self._implied = [i.own() for i in implied]
        self._said: dict[tuple[int, frozenset[Node]], bool] = {}
        for s in (0, 1):
            self._recompute(s, True)

    def _first_implied(self) -> tuple[list[Implied], tuple[bool, bool]]:
        ends = [_ends(t[:4] for t in self.terms[1 - p]) for p in (0, 1)]
        self._implied = [Implied(self._plan, p, ends[p], self._residual.inside) for p in (0, 1)]
        return self._implied, self._filtered()

    def _filtered(self) -> tuple[bool, bool]:
        """Return for each side whether the sides' own conjuncts change its bounds from the residual.

        If they do not, as under ``l.x <> r.x AND l.x < 25``, the kernels need not request bounds. Unused intervals are
        then deleted.
        """
        told = [i.always for i in self._implied]
        here = self._residual.inside & {n for always in told for n in always}
        found = [bool(here) and any(map(partial(self._differs, s), SOMEWHERE)) for s in (0, 1)]
        for p, implied in enumerate(self._implied):
            within = {n for t in self.terms[1 - p] if t[1].op != "column" for n in walk(t[1])}
            implied.keep(within | (here if any(found) else set()))
        return found[0], found[1]

    def _differs(self, s: int, after: int) -> bool:
        side = self._plan.sides[1 - s]
        axes = [n for _, n in self._residual.axes(s)]
        orders = {n: some_edge(n, o.descending, after)[:2] for n, _, o in side.orders}
        if not axes or not orders:
            return False
        frontier = Frontier([], {**side.bounds, **orders}, side.present, side.numbers)
        without, filtered = (self._propagate(s, frontier, axes, f) for f in (False, True))
        if without is None or filtered is None:
            return without != filtered
        # Every stored row is within these intervals.
        here = {n: self._implied[s].always.get(n, (I64_MIN, I64_MAX)) for n in axes}
        return any(
            n in filtered and (max(low, here[n][0]), min(high, here[n][1])) != filtered[n]
            for n, (low, high) in without.items()
        )

    def _terms_of(self, s: int) -> list[tuple[int, Node, int | None, int | None, int, int]]:
        """Return (axis of side s, the other side's expression, low, high, least, most) for each band and key.

        The meaning is low <= axis - expression <= high. The ordinals of the expression's type are ``least`` to
        ``most``.
        """
        out = []
        for mine, theirs, lo, hi in (seen_from(s, t) for t in self._plan.terms):
            axis = self._plan.axis(s, mine)
            if axis is not None:
                out.append((axis, theirs, lo, hi, *ordinal_range(theirs.type)))
        return out

    def known(self, p: int) -> Mapping[Node, tuple[int, int, bool]]:
        """Return the known intervals of expressions in later rows of side p that can match."""
        found = self._implied[p].found
        return both(self._frontiers[p].matching, found) if found else self._frontiers[p].matching

    def propagates(self, s: int) -> bool:
        """Return whether propagating the residual bounds side s."""
        inside = self._residual.axes(s)
        if not inside or self._bands_say_all(s):
            return False
        if self._news(s) or any(n in self._residual.inside for n in self._implied[1 - s].wanted):
            return True
        return self._says_something(s, [n for _, n in inside])

    def _news(self, s: int) -> dict[Node, tuple[int, int, bool]]:
        return {n: v for n, v in self.known(1 - s).items() if n in self._residual.inside}

    def _says_something(self, s: int, axes: list[Node]) -> bool:
        """Return whether the residual alone bounds an axis, for any future rows."""

        def found() -> bool:
            spans = self._propagate(s, Frontier([], {}, self._frontiers[1 - s].never_null), axes)
            ends = [(spans[n], self.reach(n)) for n in axes if n in spans] if spans is not None else []
            return spans is None or any(v[0] > least or v[1] < most for v, (least, most) in ends)

        return self._plan.derived.once((Bounder._says_something, s, *axes), found)

    def _bands_say_all(self, s: int) -> bool:
        if self._by_filters[s]:
            return False
        known = frozenset((*self._frontiers[1 - s].intervals, *self._implied[1 - s].wanted))
        found = self._said.get((s, known))
        if found is None:
            plan = self._plan
            bounded = {n for f in self._frontiers for n in f.bounds}
            found = self._said[s, known] = bands_say_all(plan.separation, plan.terms, known, bounded)
        return found

    def refit(self, s: int) -> None:
        """Update the terms after the axes of side s have changed."""
        self.terms[s] = self._terms_of(s)
        self._recompute(s, True)

    def look_every(self, s: int) -> int:
        """Return the number of rows between two evaluations of the other side's own conjuncts, or 0 for none."""
        return self._every if self._implied[1 - s].wanted else 0

    def bounds(self, s: int) -> list[tuple[int, int]] | None:
        return self._bounds[s]

    def move(self, p: int, force: bool, rows: int) -> bool:
        """Update the bounds of the other side, which stores ``rows`` rows. Return whether they may have moved."""
        frontier = self._frontiers[p]
        frontier.refresh()
        moved = frontier.version != self._seen[p] or force  # other code may have refreshed the frontier before
        self._seen[p] = frontier.version
        if moved:
            self._since[1 - p] += max(rows, 1)
            self._unlooked[1 - p] += max(rows, 1)
            self._recompute(1 - p, force)
        return moved

    def missing_axes(self) -> Iterator[tuple[int, Node]]:
        """Yield the expressions that could prune after new promises, but have no axis yet."""
        for p in (0, 1):
            self._implied[p].learn(self._frontiers[p].promised, _ends(seen_from(1 - p, t) for t in self._plan.terms))
        for s in (0, 1):
            known = {*self._frontiers[1 - s].intervals, *self._implied[1 - s].wanted}
            for t in self._plan.terms:
                mine, theirs, *_ = seen_from(s, t)
                if self._plan.axis(s, mine) is None and known & set(walk(theirs)):
                    yield s, mine
            if self._plan.separation.residual and known and not self._bands_say_all(s):
                for node in watched(self._plan.separation, s):
                    if self._plan.axis(s, node) is None:
                        yield s, node
        for s in (0, 1):
            self.terms[s] = self._terms_of(s)
            self._recompute(s, True)

    def future(self, s: int, node: Node) -> tuple[int, int]:
        """Return the ordinals that an expression can have in a later row of side s, or NO_VALUE if no row follows."""
        frontier = self._frontiers[s]
        if frontier.ended:
            return NO_VALUE
        if not frontier.intervals or not has_ordinal(node.type):
            return I64_MIN, I64_MAX
        found = frontier.intervals.get(node) or self._span(frontier, node)
        if found is None:
            return I64_MIN, I64_MAX
        least, most = ordinal_range(node.type)
        return (I64_MIN if found[0] <= least else found[0]), (I64_MAX if found[1] >= most else found[1])

    def lagging(self, rows_left: int, rows_right: int) -> int:
        """Return the side to read next."""
        return behind(self._compare, self._frontiers[0].matching, self._frontiers[1].matching, rows_left, rows_right)

    def _recompute(self, s: int, force: bool) -> None:
        frontier = self._frontiers[1 - s]
        if frontier.ended or self._plan.never:
            self._bounds[s] = None
            return
        axes = self._plan.sides[s].axes
        out = [(I64_MIN, I64_MAX)] * len(axes)
        if not frontier.intervals:
            self._bounds[s] = out
            return
        dead = False
        implied = self._implied[1 - s]
        if implied.wanted and (force or self._unlooked[s] >= self._every):
            self._unlooked[s] = 0
            implied.look(frontier)
        intervals = self.known(1 - s)
        for axis, theirs, lo, hi, least, most in self.terms[s]:
            span = intervals.get(theirs) or self._span(frontier, theirs)
            if span is None:
                continue
            low, high = span[0], span[1]
            if low > high:
                dead = True
                break
            a, b = out[axis]
            if lo is not None and low > least and low + lo > a:
                a = low + lo
            if hi is not None and high < most and high + hi < b:
                b = high + hi
            out[axis] = (a, b)
        if not dead and self._residual.inside and not self._bands_say_all(s):
            dead = self._contract(s, frontier, out, force)
        if dead:
            self._bounds[s] = None
            return
        for axis, (a, b) in enumerate(out):
            if a == I64_MIN and b == I64_MAX:
                continue
            least, most = self.reach(axes[axis])
            a, b = (I64_MIN if a <= least else a), (I64_MAX if b >= most else b)
            if a > most or b < least:
                # Not None, because a row whose axis has an error, or is NULL in the residual, may still match.
                a, b = NO_VALUE
            out[axis] = (a if a > I64_MIN else I64_MIN, b if b < I64_MAX else I64_MAX)
        self._bounds[s] = out

    def reach(self, node: Node) -> tuple[int, int]:
        """Return the ordinals that an expression can have in any row."""
        found = self._reaches.get(node)
        if found is None:
            found = ordinal_range(node.type)
            if node.op != "column":
                from ivjoin.propagation import forward

                low, high = ordinals_of(forward(node, {}), node)
                found = (low, high) if low <= high else found
            self._reaches[node] = found
        return found

    def _span(self, frontier: Frontier, node: Node) -> tuple[int, int] | None:
        """Return the ordinals of an expression without an order in a future row, or None if they are unknown."""
        deps = self._deps.get(node)
        intervals = self.known(int(frontier is self._frontiers[1]))
        if deps is None or len(frontier.promised) or len(intervals) != len(frontier.matching):
            inside = set(walk(node))
            found = [n for n in intervals if n in inside]
            if found != deps:
                deps = self._deps[node] = found
                self._unclipped.pop(node, None)
        if not deps:
            return None
        from ivjoin.propagation import Dom, forward

        known = {c: Dom.of(c.type, null=False) for c in columns_of(node) if c in frontier.never_null}
        known |= {n: domain_of(n, intervals[n]) for n in deps}
        if node not in self._unclipped:
            self._unclipped[node] = Unclipped(node, deps)
        wide = self._unclipped[node].range(lambda n: forward(n, known))
        if wide is None:
            return ordinals_of(forward(node, known), node)
        # The written condition may have a value where this form of it overflows, so it must not be clipped.
        zero = ordinal_of(0, node.type)
        return wide[0] + zero, wide[1] + zero

    def _contract(self, s: int, frontier: Frontier, out: list[tuple[int, int]], force: bool) -> bool:
        """Tighten the bounds by propagating TRUE through the residual. Return whether no pair can match any more."""
        inside = self._residual.axes(s)
        if not inside:
            return False
        news = self._news(s)
        if not force and (self._since[s] < self._every or news == self._told[s]):
            known = self._contracted[s]
        else:
            self._since[s] = 0
            self._told[s] = news
            known = self._contracted[s] = self._propagate(s, frontier, [n for _, n in inside])
        if known is None:
            return True
        for a, n in inside:
            if n in known:
                low, high = known[n]
                out[a] = (max(out[a][0], low), min(out[a][1], high))
        return False

    def _propagate(
        self, s: int, frontier: Frontier, want: list[Node], filtered: bool = True
    ) -> dict[Node, tuple[int, int]] | None:
        always = [i.always if filtered else {} for i in self._implied]
        theirs = self.known(1 - s) if frontier is self._frontiers[1 - s] else both(frontier.matching, always[1 - s])
        return self._residual.propagate(s, want, frontier.never_null, theirs, always[s])


def _ends(compared: Iterable[tuple[Any, Node, int | None, int | None]]) -> list[tuple[Node, bool, bool]]:
    """Return the other side's expressions, and whether their least and greatest values prune."""
    return [(theirs, lo is not None, hi is not None) for _, theirs, lo, hi in compared]
