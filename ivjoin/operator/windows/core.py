"""What an operator is made of where it gives aggregates of each left row's partners, and not the pairs.

Left rows wait until no right row that is yet to come can match them. Then their partners are looked up among the right
rows, which lie sorted: where the condition is keys and bands along that order they are a range, of which the aggregates
are taken as a whole; where it says more, the pairs of the range are asked about, some at a time, and reduced at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node
from ivjoin.operator.waiting_core import WaitingCore
from ivjoin.operator.windows.answer import Answers
from ivjoin.operator.windows.held import LeftRows, RightRows
from ivjoin.operator.windows.rows import Arrived, Keys, Rows, joined, read
from ivjoin.operator.windows.run import Term
from ivjoin.plan.planner import JoinPlan
from ivjoin.separation.separate import conjuncts_of
from ivjoin.shj.plain import rows_at

__all__ = ["WindowCore"]


class WindowCore(WaitingCore):
    """The state of an operator that aggregates; with the calls of ``Core`` and of ``steps``."""

    def __init__(self, plan: JoinPlan, late_within: bool = True, errors_first: bool = False) -> None:
        super().__init__(plan, late_within, errors_first)
        plan = self.plan
        self.keys = Keys()
        self.seq = [0, 0]
        self.terms = [
            Term(plan.sides[0].axes.index(t.left), plan.sides[1].axes.index(t.right), t.lo, t.hi)
            for t in plan.kernel_terms
        ]
        self.order = plan.spec.first_by or ((plan.kernel_terms[0].right, False) if plan.kernel_terms else None)
        self._axis = self._sorted_by()
        self.left, self.right = LeftRows(), RightRows(self._axis)
        self._answers = Answers(self)

    def _sorted_by(self) -> int | None:
        """The right axis that bands bound from the most ends; that of the order, if it is among them."""
        ends: dict[int, int] = {}
        for t in self.terms:
            ends[t.right] = ends.get(t.right, 0) + 2 * ((t.low is not None) + (t.high is not None))
        for axis in ends:
            if self.order is not None and self.plan.sides[1].axes[axis] is self.order[0]:
                ends[axis] += 1
        return max(ends, key=lambda a: ends[a]) if ends else None

    @property
    def axis(self) -> int | None:
        """By which right rows are sorted."""
        return self._axis

    # -- a push ------------------------------------------------------------------------------------------------------

    def take(self, p: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch in; what it decides comes out as the iterator is read."""
        n = batch.num_rows
        words = len(self.plan.sides[p].axes) + (3 if p == 0 else 6 + 3 * len(self.plan.spec.aggregates))
        if self.account.limit is not None:
            self.account.want(batch.nbytes + 8 * words * n + self.keys.each * self._most_keys(p, batch))
        kept, late = self.intake.screen(p, batch)
        arrived = self._read(p, kept)
        self.came(p, n, late)
        self.went(p, kept.num_rows - len(arrived.rows))
        (self.left if p == 0 else self.right).add(arrived.rows)
        self.seq[p] += kept.num_rows
        return self._rest(p, kept, arrived.usable)

    def _most_keys(self, p: int, batch: pa.RecordBatch) -> int:
        """How many keys a batch has, at most."""
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
        arrived = read(self.plan, p, stored, seq, self.layouts[p], self.keys, batch.columns)
        if arrived.key_erred:
            self.rekey()
            arrived = read(self.plan, p, stored, seq, self.layouts[p], self.keys, batch.columns)
        self.full_predicate = self.full_predicate or arrived.wild
        return arrived

    def _rest(self, p: int, batch: pa.RecordBatch, usable: np.ndarray | None) -> Iterator[pa.RecordBatch]:
        if p == 0 and usable is not None and self.how.keep[0]:
            alone = rows_at(batch, np.flatnonzero(~usable))
            yield from self._answers.without(alone)
        yield from self._moved(p, False)

    def _moved(self, p: int, force: bool) -> Iterator[pa.RecordBatch]:
        """A side has come further: give out what is decided, let go of what nothing can match."""
        self.bounder.move(p, force, len(self.right) if p == 0 else len(self.left))
        for rows in self.left.decided(self.bounder.bounds(0)):
            self.went(0, len(rows))
            yield from self._answers.of(rows)
        self.went(1, self.right.prune(self.bounder.bounds(1), self.left, self.terms, force))
        if len(self.keys) > 1024 and len(self.keys) > 2 * (len(self.left) + len(self.right)):
            self.keys.sweep([rows.kids for rows in (*self.left.chunks, *self.right.each())])

    def settle(self, p: int) -> Iterator[pa.RecordBatch]:
        """Side p's frontier has moved by a promise, or what was seen elsewhere."""
        return self._moved(p, True)

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Sides have ended."""
        for p in sides:
            yield from self._moved(p, True)
        self.count_state()

    # -- counts ------------------------------------------------------------------------------------------------------

    def rows_held(self) -> tuple[int, int]:
        """Rows of each side that are held."""
        return len(self.left), len(self.right)

    def bytes_held(self) -> int:
        """Bytes that are held, about."""
        return sum(self.bytes_of_sides()) + self.keys.nbytes

    def bytes_of_sides(self) -> tuple[int, int]:
        return self.left.nbytes, self.right.nbytes

    def let_go(self) -> None:
        """Hold nothing."""
        self.metrics = self.counts()
        self.left, self.right, self.keys = LeftRows(), RightRows(self._axis), Keys()
        self.count_state()

    # -- what is known of the sides ----------------------------------------------------------------------------------

    def rekey(self) -> None:
        """A computed key has erred for some row: from now on look up by plain columns, decide the rest by pair."""
        plan = self.plan
        plain = [a.op == b.op == "column" for a, b in zip(plan.sides[0].keys, plan.sides[1].keys, strict=True)]
        self.rekeyed = self.full_predicate = True
        plan.null_safe = list(compress(plan.null_safe, plain))
        for side in plan.sides:
            side.keys = list(compress(side.keys, plain))
        plan.kept = {}
        self.read_again()

    def read_again(self) -> None:
        """Evaluate what is held anew, for other keys or axes."""
        self.keys = Keys()
        chunks, self.left = self.left.chunks, LeftRows()
        for rows in chunks:
            self.left.add(self._reread(0, rows))
        self.right.replace(lambda rows: self._reread(1, rows))

    def _reread(self, s: int, rows: Rows) -> Rows:
        return read(self.plan, s, rows.columns, rows.seq, self.layouts[s], self.keys).rows

    def saved_rows(self, s: int) -> tuple[list[pa.Array], np.ndarray]:
        """The rows that are held of a side, as they came: the stored columns, and bool[n] of nothing."""
        parts = self.left.chunks if s == 0 else list(self.right.each())
        if not parts:
            return [pa.nulls(0, t) for t in self.layouts[s].stored], np.zeros(0, dtype=bool)
        rows = joined(parts)
        rows = rows.take(np.argsort(rows.seq, kind="stable"))
        return rows.columns, np.zeros(len(rows), dtype=bool)

    def adopt_rows(self, s: int, arrays: Sequence[pa.Array], marked: np.ndarray) -> None:
        """Hold rows of a snapshot."""
        n = len(marked)
        if n:
            seq = np.arange(self.seq[s], self.seq[s] + n, dtype=np.int64)
            rows = read(self.plan, s, arrays, seq, self.layouts[s], self.keys).rows
            (self.left if s == 0 else self.right).add(rows)
            self.seq[s] += n

    def led(self, s: int) -> None:
        """Rows of a side are always found in the same way."""

    def refresh_bounds(self) -> None:
        """Compute axes and bounds anew after the frontiers were set from outside."""
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, 1)

    def decides(self) -> list[Node]:
        """Conjuncts that are asked of each pair."""
        condition = self.plan.condition
        if self.full_predicate and condition is not None:
            return list(conjuncts_of(condition))
        return list(self.plan.separation.residual)
