"""Give each left row one answer: aggregates of its matches, or the best of them.

A left row waits until no future right row can match it. Then its matches are looked up among the sorted right rows. If
the condition has only keys and bands along the sort order, the matches are a range, which is aggregated as a whole.
Otherwise the pairs of the range are evaluated in pieces.

A pick of the last, the first or the nearest match adds two rules. A left row is looked up once the frontier of the
ranking value shows that its best match may be final. A right row is evicted once another row of its key is better for
every left row.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.aggregates.previous import older_than, previous_bounds, without_older
from ivjoin.operator.lookup.best import BestAnswers
from ivjoin.operator.lookup.key_ids import key_table, sweep_keys
from ivjoin.operator.lookup.lookup_limits import LookupLimits
from ivjoin.operator.lookup.lookup_state import LookupState
from ivjoin.operator.lookup.picks.early import Early, Ripe
from ivjoin.operator.lookup.picks.picked import PickedAnswers, answers_of
from ivjoin.operator.lookup.picks.thinning import Thinning
from ivjoin.operator.lookup.reading import Arrived, read
from ivjoin.operator.lookup.rows import Rows, joined
from ivjoin.operator.lookup.run import Run
from ivjoin.operator.lookup.stored import AxisBounds, LeftRows, RightRows, dead_rows, split
from ivjoin.operator.memory.budget import Budget
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.plain import rows_at
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.disk.process_memory import give_back

__all__ = ["LookupEngine"]

_ROW_WORDS = 6  # words of each row, without its axes
_REDUCED = 3  # words of a right row for each aggregate
_WORDS = 10  # words of each row while aggregates are computed
_SPARE = 12 << 20  # bytes of these words that may exceed the limit
_TWICE = 24 << 20  # the same for rows that are briefly stored twice
_SOME = 16  # evict rows before refusing a batch or spilling columns, if 1 / _SOME of the rows is new


class LookupEngine(LookupState):
    """The engine of an operator that gives each left row one answer."""

    def __init__(self, plan: JoinPlan, late_within: bool = True) -> None:
        super().__init__(plan, late_within)
        self._answers = answers_of(self)
        self._untaken()
        self._new: Rows | None = None  # left rows that have just arrived
        self._row_bytes = [0, 0]  # for each side, the greatest average size of a row in a batch
        self._since, self._stale = 0, False  # rows since the last eviction; whether a frontier has moved since
        self._beyond = self._at_end = False  # see `Evaluated`
        self._early: Early | None = None  # only for a pick of one row
        self._thinning: Thinning | None = None
        self._learned()

    def limit(self, budget: Budget) -> None:
        self.limits = LookupLimits(self, budget)

    def _learned(self) -> None:
        """Find the compared axes of a pick again, after the plan's axes have changed."""
        if isinstance(self._answers, PickedAnswers):
            self._answers.learn()
            self._early = Early(self.plan, self.bounder, self._answers)
            self._thinning = Thinning(self.plan, self.bounder, self._answers.ranks)
            for rows in self.right.each():
                self._early.came(rows)

    def rebuild(self) -> None:
        super().rebuild()
        self._learned()
        if self.limits is not None:
            self.limits.fit()

    def refresh_bounds(self) -> None:
        super().refresh_bounds()
        self._learned()

    def _untaken(self) -> None:
        """Collect evicted right rows if unmatched right rows are emitted."""
        self.right.evicted = [] if self.how.keep[1] else None

    @property
    def _best(self) -> BestAnswers:
        assert isinstance(self._answers, BestAnswers)
        return self._answers

    def push(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
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
        """Request the memory for a batch, and for results that the stored rows still need."""
        n, spec = batch.num_rows, self.plan.spec
        words = len(self.plan.sides[p].axes) + _ROW_WORDS + (_REDUCED * len(spec.aggregates) if p == 1 else 0)
        size = batch.nbytes + 8 * words * n + self._later()
        self.account.want(lambda: size + (0 if self.plan.int_keys else self.keys.more(n, batch.nbytes)))

    def _later(self) -> int:
        """Return the bytes of pending results, and of the arrays that compute the results of the longest run.

        For a pick, return the bytes of rows and their order that are briefly stored twice while runs are merged.
        """
        if self._thinning is not None:
            return max(0, 8 * len(self.right) * (len(self.plan.sides[1].axes) + 12) - _TWICE)
        longest = max(map(len, self.right.runs), default=0)
        unread = 8 * _REDUCED * len(self.plan.spec.aggregates) * self.right.unread
        return unread + max(0, _WORDS * 8 * longest - _SPARE)

    def _store(self, p: int, rows: Rows) -> None:
        self._stale = True
        if p == 0:
            self._new = rows
        else:
            self.right.add(rows)
            if self._early is not None:
                self._early.came(rows)
        if p == 1 or self._early is not None:
            self._since += len(rows)

    def _read(self, p: int, batch: pa.RecordBatch) -> Arrived:
        seq = np.arange(self.seq[p], self.seq[p] + batch.num_rows, dtype=np.int64)
        stored = [batch.column(i) for i in self.plan.sides[p].stored]
        arrived = read(self.plan, p, stored, seq, self.keys, batch.columns)
        if arrived.found.key_erred:
            self.rekey()
            arrived = read(self.plan, p, stored, seq, self.keys, batch.columns)
        found = arrived.found
        self._beyond, self._at_end = self._beyond or found.beyond, self._at_end or found.at_end
        self.full_predicate = self.full_predicate or found.wild or (self._beyond and self._at_end)
        return arrived

    def _rest(self, p: int, batch: pa.RecordBatch, usable: np.ndarray | None) -> Iterator[pa.RecordBatch]:
        if usable is not None and self.how.keep[p]:
            alone = rows_at(batch, np.flatnonzero(~usable))
            yield from self._answers.without(alone, p)
        yield from self._emit_and_evict(p, False)

    def _emit_and_evict(self, p: int, force: bool) -> Iterator[pa.RecordBatch]:
        """Emit the rows that a side's new frontier makes final, and evict rows that cannot match."""
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
                self.went(1, len(part))
            taken = self._best.taken
            assert taken is not None
            taken.forget(min((int(r.seq.min()) for r in self.right.each()), default=self.seq[1]))
        sweep_keys(self.keys, self.rows_held, lambda: [r.kids for r in (*self.left.chunks, *self.right.each())])
        files = self.account.files
        if files is not None:
            self.left.keep([rows.compacted(files) for rows in self.left.chunks])
            self.right.compact(files)

    def _answered(self, rows: Rows) -> Generator[pa.RecordBatch, None, Rows]:
        """Emit the final left rows, and return the others. The generator releases the runs before the next merge."""
        rest, found = self._final(rows)
        yield from self._eased(self._out(found))
        return rest

    def _eased(self, out: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output, and release the file pages that each batch has read."""
        for batch in out:
            if self.account.files is not None:
                self.account.files.ease()
            yield batch

    def _final(self, rows: Rows) -> tuple[Rows, Rows | list[Ripe]]:
        """Return the rows that are not final, and the others. For a pick, the others have their matches."""
        if self._early is not None:
            return self._early.split(rows, self.right)
        bounds: AxisBounds = self.bounder.bounds(0)
        if self._previous:
            bounds = None if self.ended[1] else previous_bounds(bounds, self.terms, len(self.plan.sides[0].axes))
        return split(rows, rows.outside(bounds))

    def _out(self, found: Rows | list[Ripe]) -> Iterator[pa.RecordBatch]:
        if isinstance(found, Rows):
            if len(found):
                self.went(0, len(found))
                yield from self._answers.of(found, self.right.sorted())
            return
        self._giving = [looked.rows for looked, _ in found]
        for looked, done in found:
            self.went(0, int(np.count_nonzero(done)))
            yield from self._best.emitted(looked, done)
        self._giving = []

    def _evict(self, force: bool) -> None:
        """Evict the right rows that no left row can match, if enough rows have arrived."""
        held, bounds = len(self.right), self.bounder.bounds(1)
        enough = held // 8 if self._thinning is None else max(64, held // 4)
        if bounds is None and not len(self.left):
            self.right.clear()
        elif not held or not self._stale or (not force and self._since < enough):
            return
        elif not self._may_be_dead(bounds):
            return
        else:
            self._stale, self._since = False, 0
            merges = self._merges()
            if merges:
                self.right.merge()
                if self.limits is not None:
                    give_back()  # return the memory of the sort to the system
            self._evict_dead(bounds, force or merges)
        if self.right.evicted is None:
            self.went(1, held - len(self.right))

    def _may_be_dead(self, bounds: AxisBounds) -> bool:
        """Return whether a right row may be dead. If not, new rows need not become a run."""
        if bounds is None:
            return self.ended[0] or not self._previous
        return self._merges() or any(low != I64_MIN or high != I64_MAX for low, high in bounds)

    def _merges(self) -> bool:
        """Return whether all runs are merged first, so that better and worse rows of a key are in one run."""
        return self._thinning is not None and self._thinning.possible()

    def _evict_dead(self, bounds: AxisBounds, force: bool) -> None:
        """Evict the right rows that no left row can match, or that are worse than another row."""
        if self._previous:
            axis = self.axis
            assert axis is not None
            low = older_than(bounds, self.left, self.terms, axis)
            self.right.evict(lambda run: without_older(run, axis, low), force)
            return
        thinning = self._thinning if self._merges() else None
        reads = set() if self._thinning is None else self._thinning.reads
        waiting = self.left.by_key({t.left for t in self.terms} | reads)

        def dead(run: Run) -> np.ndarray:
            gone = dead_rows(run.rows, bounds, waiting, self.terms)
            return gone if thinning is None else gone | thinning.useless(run, waiting, self.full_predicate)

        self.right.evict(dead, force)

    def frontier_moved(self, p: int) -> Iterator[pa.RecordBatch]:
        return self._emit_and_evict(p, True)

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for p in sides:
            yield from self._emit_and_evict(p, True)
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
        parts = self.left.chunks if s == 0 else list(self.right.not_emitted())
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
