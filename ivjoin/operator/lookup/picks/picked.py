"""Build output of joins that take one right row for each left row: the last, first or nearest match."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ivjoin.expr.nodes import Node
from ivjoin.expr.ordinal import NAN_ORDINAL
from ivjoin.operator.lookup.aggregates.reduce import LeastTree, Ranges, spread
from ivjoin.operator.lookup.answer import Answers, LookupPlan
from ivjoin.operator.lookup.best import BestAnswers
from ivjoin.operator.lookup.pairs import Matches, true_pairs
from ivjoin.operator.lookup.picks.distance import distance_keys
from ivjoin.operator.lookup.picks.trim import middle_of
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Pairs, Run, RunRanges, reach
from ivjoin.plan.picking.pick import Picking, picking_of

__all__ = ["PickedAnswers", "answers_of"]

_PAIRS = 1 << 17  # pairs that are evaluated at once
_FIRST_TRIES, _MOST_TRIES = 4, 1 << 14  # candidates of a left row that are evaluated at once


class PickedAnswers(BestAnswers):
    """Choose one of the stored right rows that match each left row."""

    def __init__(self, engine: LookupPlan) -> None:
        super().__init__(engine)
        self.learn()

    def learn(self) -> None:
        """Find the compared axes again after the plan's axes have changed."""
        plan, pick = self._engine.plan, self._pick
        self._picking: Picking = picking_of(plan)
        self.place = plan.axis(1, self._picking.place)
        self._own = plan.axis(1, pick.by[0])
        near = self._picking.near
        self._far = self._picking.place.type.kind == "float"
        self.near = None if near is None else plan.axis(0, near)

    def _checks(self) -> list[Node]:
        return [] if self._own is not None and self._engine.axis == self._own else self._engine.decides()

    def chosen(self, found: Matches) -> np.ndarray:
        here = found.here
        simple = self.near is None and len(self._pick.by) == 1 and found.runs == 1
        if not simple or self._own is None or self._own != self._engine.axis:
            return super().chosen(found)
        # The pairs of a run are sorted by left row and place. So they are sorted by ranking value, then by arrival.
        edges = here[1:] != here[:-1]
        last = self._pick.which == "last"
        return np.flatnonzero(np.concatenate((edges, [True]) if last else ([True], edges)))

    def _keys(self, found: Matches) -> list[np.ndarray]:
        if self.near is None:
            if len(self._pick.by) == 1 and self._own is not None:
                values = found.axis(1, self._own)
                return [~values if self._pick.which == "last" else values]
            return super()._keys(found)
        assert self.place is not None
        step = self._picking.step
        finer = (found.axis(1, self._own), step) if step and self._own is not None else None
        to = found.axis(1, self.place)
        return [
            *distance_keys(found.axis(0, self.near), to, self._picking.place.type, finer), to,
            *super()._keys(found),
        ]

    def _pairs(self, run: Run, rows: Rows, most: int) -> tuple[Pairs, int]:
        terms, nodes = self._engine.terms, self._engine.decides()
        along = self._own is not None and run.axis == self._own
        found = run.find(rows, terms)
        if not nodes and not found.rest:
            by_rank = self._ranked if self.near is None else None  # distances depend on the left row
            return run.pairs(rows, found, most, self._trim if along else by_rank)
        if not along:
            return run.pairs(rows, found, most)
        if found.rest:  # few rows may match, and none of them near an end of the range
            (here, there), done = run.pairs(rows, found, most)
            if done == len(rows):
                return self._true(run, rows, (here, there)), done
        r = found.ranges
        parts = []
        if self.near is None:
            parts.append(self._first_true(run, rows, found, r, self._pick.which == "last"))
        else:
            assert self.place is not None
            middle = middle_of(run, rows, self.near, self.place, r)
            far = np.zeros(len(rows), dtype=bool)
            if self._far:  # all numbers are equally far from an infinity
                far = rows.axes[self.near] >= NAN_ORDINAL - 1
            parts.append(self._first_true(run, rows, found, Ranges(np.where(far, middle, r.lo), middle), True))
            parts.append(self._first_true(run, rows, found, Ranges(r.lo, np.where(far, middle, r.lo)), False))
            parts.append(self._first_true(run, rows, found, Ranges(middle, r.hi), False))
        here, there = (np.concatenate(some) for some in zip(*parts, strict=True))
        order = np.argsort(here, kind="stable")
        return (here[order], there[order]), len(rows)

    def ranks(self, run: Run) -> np.ndarray:
        """Return int64[n] that rise from the worst row of a run to the best one, by the ranking expressions."""
        return ~self._source(run.rows, run.kept).ranks(self._pick.by, self._pick.which == "last")

    def _ranked(self, run: Run, _: Rows, r: Ranges) -> Ranges:
        """Return a range with the best row of each range, which has the greatest rank."""
        def made() -> LeastTree:
            return LeastTree.of(~self.ranks(run))

        best = self._source(run.rows, run.kept).once("best of a pick", made).places(r)
        lo = np.where(best >= 0, best, r.lo)
        return Ranges(lo, lo + (best >= 0))

    def _first_true(self, run: Run, rows: Rows, found: RunRanges, r: Ranges, last: bool) -> Pairs:
        """Try the pairs at the start of each range (``last``: at the end) until the condition is TRUE for one of them.
        """
        ties = len(self._pick.by) > 1 and len(run) > 0
        start, stop = run.same() if ties else (None, None)
        lo, hi = r.lo.copy(), r.hi.copy()
        live, tries, before = np.flatnonzero(hi > lo), _FIRST_TRIES, len(rows)
        heres, theres = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]

        def add(here: np.ndarray, there: np.ndarray) -> np.ndarray:
            here, there = self._true(run, rows, run.within(rows, found.rest, here, there))
            if not ties and len(here):  # keep one pair for each left row
                edge = np.concatenate((here[1:] != here[:-1], [True])) if last else np.concatenate(
                    ([True], here[1:] != here[:-1])
                )
                here, there = here[edge], there[edge]
            heres.append(here)
            theres.append(there)
            return here

        while len(live):
            if found.rest and len(live) > before:  # few matches are near this end of the ranges: find all of them
                for here, there in self._searched(run, rows, found, live, lo, hi):
                    add(here, there)
                break
            step, left, before = max(1, _PAIRS // tries), [], len(live) * 7 // 8
            for at in range(0, len(live), step):
                some = live[at : at + step]
                a, b = lo[some], hi[some]
                if last:
                    a = np.maximum(a, b - tries)
                    a = a if start is None else np.maximum(lo[some], start[a])
                    hi[some] = a
                else:
                    b = np.minimum(b, a + tries)
                    b = b if stop is None else np.minimum(hi[some], stop[b - 1])
                    lo[some] = b
                got = np.zeros(len(rows), dtype=bool)
                got[add(np.repeat(some, b - a), spread(a, b - a))] = True
                left.append(some[~got[some] & (lo[some] < hi[some])])
            live, tries = np.concatenate(left), min(4 * tries, _MOST_TRIES)
        return np.concatenate(heres), np.concatenate(theres)

    def _searched(
        self, run: Run, rows: Rows, found: RunRanges, live: np.ndarray, lo: np.ndarray, hi: np.ndarray
    ) -> Iterator[Pairs]:
        """Yield the pairs of some rows that satisfy the first term that the run's order does not decide."""
        term = found.rest[0]
        low, high = reach(rows, term)
        while len(live):
            here, there, done = run.blocks(term.right).found(lo[live], hi[live], low[live], high[live], _PAIRS)
            yield live[here], there
            live = live[done:]

    def _true(self, run: Run, rows: Rows, pairs: Pairs) -> Pairs:
        return true_pairs(self._engine.decides(), self._engine.layouts, rows, run.rows, *pairs)


def answers_of(engine: LookupPlan) -> Answers:
    """Return the object that answers the left rows of a plan."""
    if engine.plan.spec.aggregates:
        return Answers(engine)
    return PickedAnswers(engine) if engine.plan.spec.picks_one else BestAnswers(engine)
