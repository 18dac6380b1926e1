"""The core of an operator that gives each left row one right row: the last, the first, or the nearest match.

A left row is looked up once no later right row can match it, or once its best match may be final by the frontier of
the value that picks. Until then it waits. A right row is evicted once no left row can match it, or once another row of
its key is better for every left row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.best import BestMatches
from ivjoin.operator.lookup.core import LookupCore
from ivjoin.operator.lookup.picks.early import Early
from ivjoin.operator.lookup.picks.picked import PickedAnswers
from ivjoin.operator.lookup.picks.thinning import Thinning
from ivjoin.operator.lookup.reading import Arrived
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Run
from ivjoin.operator.lookup.stored import AxisBounds, WaitingKeys
from ivjoin.plan.join_plan import JoinPlan

__all__ = ["PickedCore"]

_TWICE = 24 << 20  # bytes that may be used twice for a moment, in addition to the limit
_Found = list[tuple[BestMatches, np.ndarray]]


class PickedCore(LookupCore):
    _least, _share = 64, 4

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        super().__init__(plan, late_within, errors_first)
        self._beyond = self._at_end = False
        self._learned()
        self.count_state()

    def _make_answers(self) -> PickedAnswers:
        return PickedAnswers(self)

    @property
    def _picked(self) -> PickedAnswers:
        assert isinstance(self._answers, PickedAnswers)
        return self._answers

    def _learned(self) -> None:
        """Find the compared axes again, after the plan's axes have changed."""
        self._picked.learn()
        self._early = Early(self.plan, self.bounder)
        self._thinning = Thinning(self.plan, self.bounder, self._picked.ranks)
        for rows in self.right.each():
            self._early.came(rows)

    def _later(self) -> int:
        """Return the bytes of rows that exist twice, with their order, while runs are merged."""
        return max(0, 8 * len(self.right) * (len(self.plan.sides[1].axes) + 12) - _TWICE)

    def _read(self, p: int, batch: pa.RecordBatch) -> Arrived:
        arrived = super()._read(p, batch)
        found = arrived.found
        self._beyond, self._at_end = self._beyond or found.beyond, self._at_end or found.at_end
        self.full_predicate = self.full_predicate or (self._beyond and self._at_end)
        return arrived

    def _store(self, p: int, rows: Rows) -> None:
        super()._store(p, rows)
        if p == 1:
            self._early.came(rows)
        else:
            self._since += len(rows)

    def _is_idle(self, rows: Rows) -> bool:
        """Return whether the extreme values of a piece show that no row can be decided."""
        bounds = self.bounder.bounds(0)
        if bounds is None or rows.absent or not len(rows):
            return False
        ends = [rows.ends(a) for a in range(len(rows.axes))]
        if any(least < low or most > high for (least, most), (low, high) in zip(ends, bounds, strict=True)):
            return False
        ripe = self._early.ripe([np.array(e, dtype=np.int64) for e in ends], 2)
        return ripe is None or not bool(ripe.any())

    def _decided(self, rows: Rows) -> tuple[Rows, _Found]:
        if self._is_idle(rows):
            return rows, []
        dead = rows.outside(self.bounder.bounds(0))
        ripe = None if bool(dead.all()) else self._early.ripe(rows.axes, len(rows))
        look = dead if ripe is None else dead | ripe
        if not bool(look.any()):
            return rows, []
        every = bool(look.all())
        some = rows if every else rows.take(np.flatnonzero(look))
        dead = dead if every else dead[look]
        place, start, found = self._picked.place, 0, []
        for looked in self._picked.look(some, self.right.sorted()):
            done = dead[start : start + len(looked.rows)]
            start += len(done)
            known = np.flatnonzero(~done & (looked.best >= 0))
            if len(known) and place is not None:
                part = looked.rows.take(known)
                settled = self._early.settled(part, looked.found.axis(1, place).take(looked.best.take(known)))
                done[known[settled]] = True
            if done.any():
                found.append((looked, done))
        look[look] = dead  # `done` is a part of `dead`
        if not bool(look.any()):
            return rows, []
        return rows.take(np.flatnonzero(~look)), found

    def _out(self, found: _Found) -> Iterator[pa.RecordBatch]:
        self._giving = [looked.rows for looked, _ in found]
        for looked, done in found:
            self.went(0, int(np.count_nonzero(done)))
            yield from self._picked.emitted(looked, done)
        self._giving = []

    def _merges(self) -> bool:
        return self._thinning.possible()

    def _dead(self, bounds: AxisBounds, waiting: WaitingKeys | None) -> Callable[[Run], np.ndarray]:
        dead = super()._dead(bounds, waiting)
        if not self._thinning.possible():
            return dead
        return lambda run: dead(run) | self._thinning.useless(run, waiting, self.full_predicate)

    def _waiting(self) -> WaitingKeys | None:
        return self.left.by_key({t.left for t in self.terms} | self._thinning.reads)

    def rebuild(self) -> None:
        super().rebuild()
        self._learned()
        if self.limits is not None:
            self.limits.fit()

    def refresh_bounds(self) -> None:
        super().refresh_bounds()
        self._learned()
