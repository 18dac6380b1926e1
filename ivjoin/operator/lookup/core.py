"""The core of an operator that emits, for each left row, aggregates of its matches instead of pairs.

Left rows wait until no future right row can match them. Then their matches are looked up among the sorted right rows.
If the condition consists of keys and bands along the sort order, the matches are a range, which is aggregated as a
whole. Otherwise the pairs of the range are evaluated in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.aggregates.previous import older_than, previous_bounds, without_older
from ivjoin.operator.lookup.answer import Answers
from ivjoin.operator.lookup.best import BestAnswers
from ivjoin.operator.lookup.key_ids import key_table, sweep_keys
from ivjoin.operator.lookup.limits import LookupLimits
from ivjoin.operator.lookup.reading import Arrived, read
from ivjoin.operator.lookup.rows import Rows, joined
from ivjoin.operator.lookup.run import Run
from ivjoin.operator.lookup.state import LookupState
from ivjoin.operator.lookup.stored import AxisBounds, LeftRows, RightRows, WaitingKeys, dead_rows, split
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.plain import rows_at
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.disk.process_memory import give_back

__all__ = ["LookupCore"]

_ROW_WORDS = 6  # of each row, next to its axes
_REDUCED = 3  # words of a right row, for each aggregate
_WORDS = 10  # of each row, while aggregates are computed
_SPARE = 12 << 20  # bytes that these may take in addition to the limit
_SOME = 16  # if 1 in so many rows is new, rows are evicted before a batch is refused or columns are spilled


class LookupCore(LookupState):
    """The engine of an operator that aggregates."""

    _least, _share = 0, 8  # rows are evicted after so many have come, and one in so many of the stored right rows

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        super().__init__(plan, late_within, errors_first)
        self._answers = self._make_answers()
        self._untaken()
        self._new: Rows | None = None  # left rows that have just arrived
        self._row_bytes = [0, 0]  # the most bytes of a row of each side on average over a batch
        self._since, self._stale = 0, False  # rows since the last eviction, and whether a frontier has moved since

    def limit(self, budget: Budget) -> None:
        self.limits = LookupLimits(self, budget)

    def _make_answers(self) -> Answers:
        return Answers(self) if self.plan.spec.aggregates else BestAnswers(self)

    def _untaken(self) -> None:
        """Collect evicted right rows if they are emitted where no left row has taken them."""
        self.right.evicted = [] if self.how.keep[1] else None

    @property
    def _best(self) -> BestAnswers:
        assert isinstance(self._answers, BestAnswers)
        return self._answers

    def take(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.account.limit is not None:
            self._shorten_output(p, batch)
            self._want(p, batch)
        before = self.frontiers[p].mark()
        try:
            kept, late = self.intake.screen(p, batch)
            arrived = self._read(p, kept)
        except BaseException:
            self.frontiers[p].reset(before)
            raise
        self.came(p, batch.num_rows, late)
        rows = arrived.rows
        self.went(p, kept.num_rows - len(rows))
        self._store(p, rows)
        self.seq[p] += kept.num_rows
        return self._rest(p, kept, arrived.usable)

    def _shorten_output(self, p: int, batch: pa.RecordBatch) -> None:
        """Make output batches small compared with the limit."""
        if self.limits is not None and batch.num_rows:
            self._row_bytes[p] = max(self._row_bytes[p], -(-batch.nbytes // batch.num_rows))
            self._answers.limit_output(self.limits.budget.output_rows(sum(self._row_bytes)))

    def _want(self, p: int, batch: pa.RecordBatch) -> None:
        """Request the memory of a batch, and of results that the stored rows still need."""
        n, spec = batch.num_rows, self.plan.spec
        words = len(self.plan.sides[p].axes) + _ROW_WORDS + (_REDUCED * len(spec.aggregates) if p == 1 else 0)
        size = batch.nbytes + 8 * words * n + self._later()
        self.account.want(lambda: size + (0 if self.plan.int_keys else self.keys.more(n, batch.nbytes)))

    def _later(self) -> int:
        """Return the bytes of results still to be computed, and of the arrays that compute them of the longest run."""
        longest = max(map(len, self.right.runs), default=0)
        unread = 8 * _REDUCED * len(self.plan.spec.aggregates) * self.right.unread
        return unread + max(0, _WORDS * 8 * longest - _SPARE)

    def _store(self, p: int, rows: Rows) -> None:
        self._stale = True
        if p == 0:
            self._new = rows
        else:
            self._since += len(rows)
            self.right.add(rows)

    def _read(self, p: int, batch: pa.RecordBatch) -> Arrived:
        seq = np.arange(self.seq[p], self.seq[p] + batch.num_rows, dtype=np.int64)
        stored = [batch.column(i) for i in self.plan.sides[p].stored]
        arrived = read(self.plan, p, stored, seq, self.layouts[p], self.intake, self.keys, batch.columns)
        if arrived.found.key_erred:
            self.rekey()
            arrived = read(self.plan, p, stored, seq, self.layouts[p], self.intake, self.keys, batch.columns)
        self.full_predicate = self.full_predicate or arrived.found.wild
        return arrived

    def _rest(self, p: int, batch: pa.RecordBatch, usable: np.ndarray | None) -> Iterator[pa.RecordBatch]:
        if usable is not None and self.how.keep[p]:
            alone = rows_at(batch, np.flatnonzero(~usable))
            yield from self._answers.without(alone, p)
        yield from self._moved(p, False)

    def _moved(self, p: int, force: bool) -> Iterator[pa.RecordBatch]:
        """Emit what a side's frontier decides, and evict rows that nothing can match."""
        self.bounder.move(p, force, len(self.right) if p == 0 else len(self.left))
        self._stale = self._stale or force
        new, self._new = self._new, None
        if new is not None:
            self.left.add((yield from self._answered(new)))
        elif p == 1:
            chunks = []
            for rows in self.left.chunks:
                chunks.append((yield from self._answered(rows)))
            self.left.keep(chunks)
        self._evict(force)
        if self.right.evicted:
            gone, self.right.evicted = self.right.evicted, []
            for part in gone:
                yield from self._best.untaken(part)
            taken = self._best.taken
            assert taken is not None
            taken.forget(min((int(r.seq.min()) for r in self.right.each()), default=self.seq[1]))
        sweep_keys(self.keys, sum(self.rows_held()), lambda: [r.kids for r in (*self.left.chunks, *self.right.each())])
        files = self.account.files
        if files is not None:
            self.left.keep([rows.compacted(files) for rows in self.left.chunks])
            self.right.compact(files)

    def _answered(self, rows: Rows) -> Generator[pa.RecordBatch, None, Rows]:
        """Emit what is decided of left rows, and return the others. The runs it read are free again before a merge."""
        rest, found = self._decided(rows)
        yield from self._eased(self._out(found))
        return rest

    def _eased(self, out: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output, and release the pages of files that each batch has read."""
        for batch in out:
            if self.account.files is not None:
                self.account.files.ease()
            yield batch

    def _decided(self, rows: Rows) -> tuple[Rows, Any]:
        """Return the rows that are not decided, and the others as :meth:`_out` takes them."""
        bounds: AxisBounds = self.bounder.bounds(0)
        if self._previous:
            bounds = None if self.ended[1] else previous_bounds(bounds, self.terms, len(self.plan.sides[0].axes))
        return split(rows, rows.outside(bounds))

    def _out(self, found: Any) -> Iterator[pa.RecordBatch]:
        if len(found):
            self.went(0, len(found))
            yield from self._answers.of(found, self.right.sorted())

    def _evict(self, force: bool) -> None:
        """Evict the right rows that no left row can match, if enough rows have arrived."""
        held, bounds = len(self.right), self.bounder.bounds(1)
        if bounds is None and not len(self.left):
            self.right.clear()
        elif not held or not self._stale or (not force and self._since < max(self._least, held // self._share)):
            return
        elif not self._may_be_dead(bounds):
            return
        else:
            self._stale, self._since = False, 0
            waiting = None if self._previous else self._waiting()
            merges = self._merges()
            if merges:
                self.right.merge()
                if self.limits is not None:
                    give_back()  # the arrays of the sort
            self.right.evict(self._dead(bounds, waiting), force or merges)
        self.went(1, held - len(self.right))

    def _may_be_dead(self, bounds: AxisBounds) -> bool:
        """Return whether some right row may be dead. If not, rows that have just arrived need not become a run."""
        if bounds is None:
            return self.ended[0] or not self._previous
        return self._merges() or any(low != I64_MIN or high != I64_MAX for low, high in bounds)

    def _merges(self) -> bool:
        """Return whether all runs are merged first."""
        return False

    def _dead(self, bounds: AxisBounds, waiting: WaitingKeys | None) -> Callable[[Run], np.ndarray]:
        """Return what marks the rows of a run that no left row can match : bool[n]."""
        if self._previous:
            assert self.axis is not None
            return partial(without_older, axis=self.axis, low=older_than(bounds, self.left, self.terms, self.axis))
        return lambda run: dead_rows(run.rows, bounds, waiting, self.terms)

    def _waiting(self) -> WaitingKeys | None:
        return self.left.by_key({t.left for t in self.terms})

    def settle(self, p: int) -> Iterator[pa.RecordBatch]:
        return self._moved(p, True)

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for p in sides:
            yield from self._moved(p, True)
        self.count_state()

    def make_room(self, force: bool) -> None:
        if force or self._since > len(self.right) // _SOME:
            self._stale = True
            self._evict(True)

    def let_go(self) -> None:
        self.metrics = self.counts()
        self.left, self.right, self.keys = LeftRows(), RightRows(self.axis), key_table(self.plan)
        self._untaken()
        self.count_state()

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        parts = self.left.chunks if s == 0 else list(self.right.each())
        if not parts:
            return [pa.nulls(0, t) for t in self.layouts[s].stored], np.zeros(0, dtype=bool)
        rows = joined(parts)
        rows = rows.take(np.argsort(rows.seq, kind="stable"))
        if s == 1 and self.how.keep[1] and (taken := self._best.taken) is not None:
            return rows.columns, taken.of(rows.seq)
        return rows.columns, np.zeros(len(rows), dtype=bool)

    def adopt_rows(self, s: int, arrays: Sequence[pa.Array], marked: np.ndarray) -> None:
        n = len(marked)
        if n:
            seq = np.arange(self.seq[s], self.seq[s] + n, dtype=np.int64)
            rows = self._stored_rows(s, arrays, seq)
            (self.left if s == 0 else self.right).add(rows)
            if s == 1 and self.how.keep[1] and (taken := self._best.taken) is not None:
                taken.add(seq[np.asarray(marked, dtype=bool)])
            self.seq[s] += n
