"""Look up left rows in whole tables: the right rows form one run, and no more rows arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ivjoin.expr.nodes import Node, columns_of
from ivjoin.operator.lookup.best import BestAnswers, BestMatches
from ivjoin.operator.lookup.key_ids import KeyIds
from ivjoin.operator.lookup.picks.picked import answers_of
from ivjoin.operator.lookup.reading import Arrived
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.run import Run, Term, by_arrival, sorted_rows
from ivjoin.operator.lookup.search import search_of
from ivjoin.operator.lookup.tables.ordered import Sorted, rises
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.shj.dictionaries import one_array
from ivjoin.shj.store.keys import KeyTable

__all__ = ["OneRun"]


class OneRun:
    """Left rows sorted by key and band, and right rows as one run.

    No other operator uses the plan. ``sides`` are evaluated rows without columns, in the order of the tables
    ``batches``. Here, the ``seq`` of a row is its place in the table.
    """

    def __init__(
        self, plan: JoinPlan, sides: tuple[Arrived, Arrived], batches: Sequence[Sequence[pa.RecordBatch]],
        keys: KeyTable,
    ) -> None:
        self.plan, self.how, self.layouts = plan, plan.how, row_layouts(plan)
        self.terms, self.order, self.axis = search_of(plan)
        mine, theirs = (_numbered(side) for side in sides)
        _, (left_kids, right_kids) = KeyIds.of((mine.kids, None), (theirs.kids, None), keys)
        run = self._sorted(1, theirs, right_kids, self.axis, batches[1])
        self.runs = [Run(run, self.axis)] if len(run) else []
        self._rows = self._sorted(0, mine, left_kids, _line(self.terms, self.axis), batches[0])
        lies = len(self._rows) == sum(b.num_rows for b in batches[0]) and rises(self._rows.seq)
        self.left = Sorted(mine.kids, None, {}, None if lies else self._rows.seq)
        self.answers = answers_of(self)

    def _sorted(
        self, s: int, rows: Rows, kids: np.ndarray, axis: int | None, batches: Sequence[pa.RecordBatch]
    ) -> Rows:
        """Return rows sorted by key and axis, with their columns."""
        rows = Rows(self._columns(s, batches), rows.seq, kids, rows.axes, rows.absent, rows.seq)
        return sorted_rows(by_arrival(rows), axis)

    def _columns(self, s: int, batches: Sequence[pa.RecordBatch]) -> list[pa.Array]:
        """Return the stored columns of a side. Left columns that no evaluation reads are replaced by NULLs."""
        columns = []
        read = self._decisive() if s == 0 else None
        for i in self.plan.sides[s].stored:
            name = self.plan.sides[s].schema.names[i]
            if read is not None and name not in read:
                columns.append(pa.nulls(sum(b.num_rows for b in batches)))
            else:
                columns.append(one_array([b.column(i) for b in batches]) if len(batches) > 1 else batches[0].column(i))
        return columns

    def _decisive(self) -> set[str]:
        pick = self.plan.spec.pick
        nodes = [*self.decides(), *(() if pick is None else pick.by)]
        return {c.params[1] for c in columns_of(*nodes) if c.params[0] == "left"}

    def decides(self) -> list[Node]:
        return list(self.plan.separation.residual)

    def look(self, part: slice) -> Iterator[BestMatches]:
        assert isinstance(self.answers, BestAnswers)
        yield from self.answers.look(self._rows.slice(part.start, part.stop), self.runs)

    def pieces(self, part: slice) -> Iterator[tuple[np.ndarray, list[pa.Array]]]:
        """Yield the number of matches of each left row of a part, and its aggregates, in pieces."""
        for rows, pairs in self.answers.blocks(self._rows.slice(part.start, part.stop), self.runs):
            yield self.answers.reduced(rows, self.runs, pairs)


def _numbered(side: Arrived) -> Rows:
    places = np.arange(len(side.every)) if side.usable is None else np.flatnonzero(side.usable)
    return replace(side.rows, seq=places)


def _line(terms: Sequence[Term], axis: int | None) -> int | None:
    """Return the left axis that sorts left rows.

    A sweep needs the axis of a lower end on another right axis to rise.
    """
    other = (t.left for t in terms if t.right != axis and t.low is None)
    return next(other, next((t.left for t in terms if t.right == axis), None))
