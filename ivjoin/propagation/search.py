"""Tighten the bounds that propagation finds, by refuting parts of a box within a fixed budget.

For each end of a column, a heap orders boxes by their distance from that end. The search splits the nearest box,
propagates its halves, and drops refuted ones. If the nearest box contains a point at which the condition is TRUE, the
bound is exact. When the budget is spent, the nearest remaining box gives the bound.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from ivjoin.expr.nodes import Node
from ivjoin.functions.rules.domain import Dom
from ivjoin.functions.rules.state import Infeasible, State
from ivjoin.interval import truth
from ivjoin.propagation.dag import Outcome, Propagator

__all__ = ["narrowed"]

_ROUNDS = 20
_DEPTH = 2


def narrowed(
    p: Propagator, known: dict[Node, Dom], want: tuple[Node, ...], effort: int
) -> tuple[Outcome, dict[Node, Dom]]:
    """Return the domains of the columns ``want`` where all conjuncts are TRUE, with at most ``effort`` propagations."""
    try:
        s = p.run(known, _ROUNDS, _DEPTH)
        if effort > 0:
            _Search(p, s, want, effort).run()
    except Infeasible:
        return Outcome.INFEASIBLE, {n: Dom.empty(n.type) for n in want}
    doms = {n: Dom(n.type, s.D[p.index[n]]) for n in want}
    same = all(doms[n] == known[n] for n in want)
    return Outcome.UNCHANGED if same else Outcome.CONTRACTED, doms


class _Search:
    """The columns that can be split, the points found, and the remaining budget."""

    def __init__(self, p: Propagator, s: State, want: tuple[Node, ...], effort: int) -> None:
        self.p = p
        self.s = s
        used = [n for n in want if p.structure.parents[p.index[n]]]
        self.splittable = all(n.type.is_discrete or n.type.kind in ("float", "bool") for n in used)
        self.columns = [p.index[n] for n in used if n.type.is_discrete or n.type.kind == "float"]
        self.truths = [p.index[n] for n in used if n.type.kind == "bool"]
        self.discrete = {j: p.nodes[j].type.is_discrete for j in self.columns}
        self.points: list[dict[int, Any]] = []
        self.effort = effort

    def run(self) -> None:
        """Tighten each end of each column."""
        left = 2 * len(self.columns)
        for j in self.columns:
            for up in (False, True):
                self._move(j, up, self.effort // left if left else 0)
                left -= 1

    def _move(self, j: int, up: bool, budget: int) -> None:
        lo, hi, flags = self.s.D[j]
        if lo > hi:
            return
        before = self.effort
        self.effort = min(budget, before)
        spent_from = self.effort
        found = self._nearest(j, up)
        self.effort = before - (spent_from - self.effort)
        if found is None:
            # No number remains, but NULL and NaN may.
            self.s.cut(j, 1, 0, flags)
        elif up:
            self.s.cut(j, lo, found, flags)
        else:
            self.s.cut(j, found, hi, flags)
        if self.s.narrowed:
            self.p.fixpoint(self.s, _ROUNDS)

    def _nearest(self, j: int, up: bool) -> Any:
        """Return the outermost value of column j that cannot be refuted. None if all values are refuted."""
        sign = -1 if up else 1

        def key(s: State) -> Any:
            d = s.D[j]
            return -d[1] if up else d[0]

        best = None
        for point in self.points:
            v = sign * point[j]
            best = v if best is None or v < best else best
        count = 0  # breaks ties, because states cannot be compared
        heap: list[tuple[Any, int, State]] = []
        first = self._probe(self.s, j, None, None)
        if first is not None:
            heap.append((key(first), 0, first))
        while heap:
            near, _, s = heap[0]
            if best is not None and near >= best:
                return sign * best
            if self.effort <= 0:
                return sign * near
            heappop(heap)
            if self._is_hit(s, j, up):
                return sign * near
            halves = self._halves(s, j, up)
            if halves is None:
                return sign * near
            for half in halves:
                if half is not None:
                    count += 1
                    heappush(heap, (key(half), count, half))
        return None if best is None else sign * best

    def _probe(self, s: State, k: int, lo: Any, hi: Any, flags: bool = False) -> State | None:
        """Cut column k to [lo, hi], and return the propagated state. None if it is infeasible.

        None for ``lo`` or ``hi`` leaves that end unchanged. NULL and NaN are cut too unless ``flags``.
        """
        t = s.copy()
        d = t.D[k]
        self.effort -= 1
        try:
            t.cut(k, d[0] if lo is None else lo, d[1] if hi is None else hi, d[2] if flags else 0)
            self.p.fixpoint(t, _ROUNDS)
        except Infeasible:
            return None
        return t

    def _halves(self, s: State, j: int, up: bool) -> list[State | None] | None:
        """Split a box at its widest column, and return the parts. None if the box is too small to split."""
        D = s.D
        best, split = 0.0, None
        for k in self.columns:
            lo, hi, _ = D[k]
            if lo < hi:
                if self.discrete[k]:
                    size = float(hi - lo)
                else:
                    if hi - lo <= 1e-12 * (abs(lo) + abs(hi)):
                        continue
                    size = hi - lo
                # Prefer the column of the search, because a thin slice of it narrows the others more.
                if k == j:
                    size *= 4
                if size > best:
                    best, split = size, k
        if split is None:
            for k in self.truths:
                if D[k] == truth.KNOWN:
                    return [self._truth(s, k, truth.FALSE), self._truth(s, k, truth.TRUE)]
            return None
        lo, hi, _ = D[split]
        if self.discrete[split]:
            middle = (lo + hi) >> 1
            if split == j and hi - lo > 8:
                # Split near the searched end instead of at the centre.
                middle = hi - 1 - (hi - lo) // 4 if up else lo + (hi - lo) // 4
            return [self._probe(s, split, None, middle), self._probe(s, split, middle + 1, None, True)]
        middle = lo / 2 + hi / 2
        if lo == -float("inf") or hi == float("inf"):
            middle = 0.0 if lo < 0 < hi else max(1.0, 2 * lo) if hi == float("inf") else min(-1.0, 2 * hi)
        return [self._probe(s, split, None, middle), self._probe(s, split, middle, None, True)]

    def _truth(self, s: State, k: int, mask: int) -> State | None:
        t = s.copy()
        self.effort -= 1
        try:
            t.cut_mask(k, mask)
            self.p.fixpoint(t, _ROUNDS)
        except Infeasible:
            return None
        return t

    def _is_hit(self, s: State, j: int, up: bool) -> bool:
        """Return whether a point with the outermost value of column j satisfies the condition.

        The other columns are tried at their ends and centres.
        """
        if not self.splittable:
            return False
        D = s.D
        mine = D[j][1] if up else D[j][0]
        tried: list[dict[int, Any]] = []
        for end in (0, 1, 2):
            point = {}
            for k in self.columns:
                lo, hi, _ = D[k]
                if lo > hi:
                    return False
                middle = (lo + hi) >> 1 if self.discrete[k] else lo / 2 + hi / 2
                if middle != middle:  # the range is all doubles
                    middle = 0.0
                point[k] = mine if k == j else (lo, hi, middle)[end]
            if point in tried:
                continue
            tried.append(point)
            self.effort -= 1
            if self._holds(point, D):
                self.points.append(point)
                return True
        return False

    def _holds(self, point: dict[int, Any], D: list[Any]) -> bool:
        known = {self.p.nodes[k]: Dom(self.p.nodes[k].type, (v, v, 0)) for k, v in point.items()}
        for k in self.truths:
            if D[k] not in (truth.TRUE, truth.FALSE):
                return False
            known[self.p.nodes[k]] = Dom(self.p.nodes[k].type, D[k])
        up = self.p.upward(known)
        return all(up[r] == truth.TRUE for r in self.p.roots)
