"""The core of an operator that emits, for each left row, aggregates of its matches instead of pairs.

Left rows wait until no future right row can match them. Then their matches are looked up among the sorted right rows.
If the condition consists of keys and bands along the sort order, the matches are a range, which is aggregated as a
whole. Otherwise the pairs of the range are evaluated in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.expr import build
from ivjoin.expr.nodes import Node
from ivjoin.expr.types import from_arrow
from ivjoin.operator.lookup.key_ids import key_table, sweep_keys
from ivjoin.operator.lookup.waiting_core import WaitingCore
from ivjoin.operator.windows.answer import Answers
from ivjoin.operator.windows.best import BestAnswers
from ivjoin.operator.windows.held import Bounds, LeftRows, RightRows
from ivjoin.operator.windows.previous import previous_bounds
from ivjoin.operator.windows.reading import Arrived, read
from ivjoin.operator.windows.rows import Rows, joined
from ivjoin.operator.windows.search import search_of
from ivjoin.plan.derivations import Derived
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj.plain import rows_at

__all__ = ["WindowCore"]


class WindowCore(WaitingCore):
    """The state of an operator that aggregates, with the calls of ``Core`` and of ``steps``."""

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        super().__init__(plan, late_within, errors_first)
        plan = self.plan
        self.keys = key_table(plan)
        self.seq = [0, 0]
        self.terms, self.order, self._axis = search_of(plan, plan.spec.picks_one)
        for s in (0, 1):
            self.bounder.refit(s)
        self.left, self.right = LeftRows(), RightRows(self._axis)
        self._answers = self._make_answers()
        self._untaken()
        self._previous = plan.spec.include_previous
        self._giving: list[Rows] = []  # left rows that are being emitted

    def _make_answers(self) -> Answers:
        return Answers(self) if self.plan.spec.aggregates else BestAnswers(self)

    def _untaken(self) -> None:
        """Collect evicted right rows if they are emitted where no left row has taken them."""
        self.right.evicted = [] if self.how.keep[1] else None

    @property
    def _best(self) -> BestAnswers:
        assert isinstance(self._answers, BestAnswers)
        return self._answers

    @property
    def axis(self) -> int | None:
        """The axis that sorts the right rows."""
        return self._axis

    @property
    def n_ids(self) -> int:
        """An upper bound of the ids of keys."""
        return self.keys.n_ids

    # -- a push ------------------------------------------------------------------------------------------------------

    def take(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch. The returned iterator emits what the batch decides."""
        if self.account.limit is not None:
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

    def _want(self, p: int, batch: pa.RecordBatch) -> None:
        """Request memory for a batch."""
        words = len(self.plan.sides[p].axes) + (3 if p == 0 else 6 + 3 * len(self.plan.spec.aggregates))
        keys = 0 if self.plan.int_keys else self.keys.more(self._most_keys(p, batch), batch.nbytes)
        self.account.want(batch.nbytes + 8 * words * batch.num_rows + keys)

    def _store(self, p: int, rows: Rows) -> None:
        (self.left if p == 0 else self.right).add(rows)

    def _most_keys(self, p: int, batch: pa.RecordBatch) -> int:
        """Return an upper bound of the number of keys in a batch."""
        import pyarrow.compute as pc

        most = 1 if self.plan.sides[p].keys else 0
        for node in self.plan.sides[p].keys:
            if node.op != "column":
                return batch.num_rows
            try:
                most *= pc.count_distinct(batch.column(self.layouts[p].index[node.params[1]]), mode="all").as_py()
            except pa.ArrowNotImplementedError:
                return batch.num_rows
        return min(most, batch.num_rows)

    def _read(self, p: int, batch: pa.RecordBatch) -> Arrived:
        seq = np.arange(self.seq[p], self.seq[p] + batch.num_rows, dtype=np.int64)
        stored = [batch.column(i) for i in self.plan.sides[p].stored]
        named = self.plan.spec.picks_one
        arrived = read(self.plan, p, stored, seq, self.layouts[p], self.intake, self.keys, batch.columns, named)
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
        bounds: Bounds = self.bounder.bounds(0)
        if self._previous:
            bounds = None if self.ended[1] else previous_bounds(bounds, self.terms, len(self.plan.sides[0].axes))
        for rows in self.left.decided(bounds):
            self.went(0, len(rows))
            yield from self._answers.of(rows, self.right.sorted())
        bounds = self.bounder.bounds(1)
        if not self._previous:
            self.went(1, self.right.prune(bounds, self.left, self.terms, force))
        elif bounds is not None or self.ended[0]:
            self.went(1, self.right.prune_older(bounds, self.left, self.terms, force))
        if self.right.evicted:
            gone, self.right.evicted = self.right.evicted, []
            for part in gone:
                yield from self._best.untaken(part)
            taken = self._best.taken
            assert taken is not None
            taken.forget(min((int(r.seq.min()) for r in self.right.each()), default=self.seq[1]))
        self._sweep_keys()

    def _sweep_keys(self) -> None:
        sweep_keys(self.keys, sum(self.rows_held()), lambda: [r.kids for r in (*self.left.chunks, *self.right.each())])

    def settle(self, p: int) -> Iterator[pa.RecordBatch]:
        """Emit and evict rows after side p's frontier has moved by a promise or by rows of another operator."""
        return self._moved(p, True)

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """End sides."""
        for p in sides:
            yield from self._moved(p, True)
        self.count_state()

    # -- counts ------------------------------------------------------------------------------------------------------

    def rows_held(self) -> tuple[int, int]:
        """Return the number of stored rows of each side."""
        return len(self.left), len(self.right)

    def bytes_held(self) -> int:
        """Return the approximate bytes of the state."""
        return sum(self.bytes_of_sides()) + self.keys.nbytes

    def bytes_of_sides(self) -> tuple[int, int]:
        return self.left.nbytes, self.right.nbytes

    def let_go(self) -> None:
        """Release all rows."""
        self.metrics = self.counts()
        self.left, self.right, self.keys = LeftRows(), RightRows(self._axis), key_table(self.plan)
        self._untaken()
        self.count_state()

    # -- what is known of the sides ----------------------------------------------------------------------------------

    def rekey(self) -> None:
        """After a computed key failed for some row: look up by plain columns only; pairs decide the rest."""
        if self._previous:
            raise EvaluationError(
                "a computed key has an error for a row, and include_previous=True needs all keys; use try_cast or "
                "try_add in the key, or filter the row first"
            )
        plan = self.plan
        plain = [a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)]
        self.rekeyed = self.full_predicate = True
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
        plan.derived = Derived()
        self.read_again()

    def read_again(self) -> None:
        """Evaluate the stored rows again for other keys or axes."""
        self.keys = key_table(self.plan)
        self.right.keys = self.keys if self.right.keys is not None else None
        chunks, self.left = self.left.chunks, LeftRows()
        for rows in chunks:
            self.left.add(self._reread(0, rows))
        self.right.replace(lambda rows: self._reread(1, rows))

    def _reread(self, s: int, rows: Rows) -> Rows:
        return self._stored_rows(s, rows.columns, rows.seq)

    def _stored_rows(self, s: int, columns: Sequence[pa.Array], seq: np.ndarray) -> Rows:
        picks = self.plan.spec.picks_one
        return read(self.plan, s, columns, seq, self.layouts[s], self.intake, self.keys, None, picks).rows

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        """Return the stored rows of a side in order of arrival: the columns, and which are taken : bool[n]."""
        parts = self.left.chunks if s == 0 else list(self.right.each())
        if not parts:
            return [pa.nulls(0, t) for t in self.layouts[s].stored], np.zeros(0, dtype=bool)
        rows = joined(parts)
        rows = rows.take(np.argsort(rows.seq, kind="stable"))
        if s == 1 and self.how.keep[1] and (taken := self._best.taken) is not None:
            return rows.columns, taken.of(rows.seq)
        return rows.columns, np.zeros(len(rows), dtype=bool)

    def adopt_rows(self, s: int, arrays: Sequence[pa.Array], marked: np.ndarray) -> None:
        """Store rows of a snapshot."""
        n = len(marked)
        if n:
            seq = np.arange(self.seq[s], self.seq[s] + n, dtype=np.int64)
            rows = self._stored_rows(s, arrays, seq)
            (self.left if s == 0 else self.right).add(rows)
            if s == 1 and self.how.keep[1] and (taken := self._best.taken) is not None:
                taken.add(seq[np.asarray(marked, dtype=bool)])
            self.seq[s] += n

    def column(self, s: int, index: int) -> Node:
        """Return the node of a column of side s."""
        field = self.plan.sides[s].schema.field(index)
        return build.column(SIDES[s], field.name, from_arrow(field.type))

    def rows_at_hand(self, s: int) -> Iterator[tuple[Callable[[int], pa.Array | None], int]]:
        """Yield the rows of side s that later output may have: (function from place to column or None, rows)."""
        places = self.layouts[s].places
        for rows in (*self.left.chunks, *self._giving) if s == 0 else self.right.each():
            yield (lambda i, r=rows: None if places[i] < 0 else r.column(places[i])), len(rows)  # type: ignore[misc]

    def led(self, s: int) -> None:
        """Return None: the index of a side never changes."""

    def refresh_bounds(self) -> None:
        """Compute axes and bounds again after the frontiers were set from outside."""
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, 1)

    def decides(self) -> list[Node]:
        """Return the conjuncts to evaluate for each pair."""
        condition = self.plan.condition
        if self.full_predicate and condition is not None:
            return list(conjuncts_of(condition))
        return list(self.plan.separation.residual)
