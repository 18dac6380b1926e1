"""Join a slice of rows that have arrived, with one compiled call or with a separate operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.operator.match.whole import Part, Whole
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.cutting import Cut
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.spec import SIDES
from ivjoin.shj.plain import no_rows, rows_at
from ivjoin.stream.sources.gathering import table_of
from ivjoin.stream.sources.inputs import open_input
from ivjoin.stream.tables.looked_up import looked_up
from ivjoin.stream.tables.table_rows import in_one_batch
from ivjoin.stream.threads.pieces import Piece, follow

__all__ = ["Joiners", "Pieces", "SliceTask"]

Pieces = tuple[list[Piece], list[Piece]]


@dataclass(slots=True, eq=False)
class SliceTask:
    """Rows of both sides that are joined at once, as pieces.

    The own side's rows from ``end`` on, and the other side's rows below ``start``, are copies. ``carried`` are
    additional rows of the other side, from earlier slices.
    """

    cut: Cut
    pieces: Pieces
    start: int
    end: int
    carried: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(piece.rows for side in self.pieces for piece in side)

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for side in self.pieces for piece in side)

    def split(self, end: int) -> tuple[SliceTask, SliceTask]:
        """Return two slices that can be joined separately: below ``end``, and from ``end`` on."""
        cut = self.cut
        mine: Pieces = ([], [])
        kept: Pieces = ([], [])
        reach = end
        if cut.both:
            tops = [piece.top(self.start, end) for piece in self.pieces[1 - cut.own]]
            reach = max([end, *(top + 1 for top in tops)])
        for p in (0, 1):
            for piece in self.pieces[p]:
                now = piece.starting_below(reach if p == cut.own else end)
                rest = piece.starting_from(end) if p == cut.own else piece.ending_from(end)
                if now is not None:
                    mine[p].append(now)
                if rest is not None:
                    kept[p].append(rest)
        return SliceTask(cut, mine, self.start, end), SliceTask(cut, kept, end, self.end)

    def batches(self, p: int) -> list[pa.RecordBatch]:
        """Return the rows of a side."""
        return [*(self.carried if p != self.cut.own else ()), *(piece.batch for piece in self.pieces[p])]

    def part(self, p: int, schema: pa.Schema) -> Part:
        """Return one side's rows in the order of the axis. Some columns may be plain.

        A CapacityError is raised if one batch cannot contain the text of these rows.
        """
        pieces = self.pieces[p]
        if not pieces:
            return Part(no_rows(schema), 0, 0)
        batch = in_one_batch([piece.batch for piece in pieces])
        if not follow(pieces):
            low, high = (np.concatenate([ends(piece) for piece in pieces]) for ends in (Piece.lows, Piece.highs))
            batch = rows_at(batch, np.lexsort((high, low)))
        start = 0 if p == self.cut.own else sum(piece.below(self.start) for piece in pieces)
        return Part(batch, start, sum(piece.below(self.end) for piece in pieces))


class _WholeJoin:
    """Join each slice with one compiled call."""

    def __init__(self, plan: JoinPlan, own: int, pairs: int | None) -> None:
        self.whole = Whole(plan, own, pairs)

    @property
    def nbytes(self) -> int:
        return self.whole.nbytes

    def __call__(self, task: SliceTask) -> Iterator[pa.RecordBatch]:
        schemas = [side.schema for side in self.whole.plan.sides]
        return self.whole.join(task.part(0, schemas[0]), task.part(1, schemas[1]))


class _LookupJoin:
    """Join slices whose left rows each get one answer: as tables, or with an operator for each slice."""

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan_of(plan.spec.with_orders((), (), plan.spec.on_late))  # the slices follow the orders
        self.nbytes = 0

    def __call__(self, task: SliceTask) -> Iterator[pa.RecordBatch]:
        left, right = (
            open_input(table_of(task.batches(p), side.schema), SIDES[p])
            for p, side in enumerate(self._plan.sides)
        )
        found = looked_up(self._plan, (left, right), 1)
        return self._pushed(task) if found is None else found.output()

    def _pushed(self, task: SliceTask) -> Iterator[pa.RecordBatch]:
        op = SymmetricHashJoin.from_plan(self._plan)
        for p in (1, 0):
            for batch in task.batches(p):
                yield from op.push(SIDES[p], batch)
                self.nbytes = op.metrics.state_bytes
            yield from op.finish(SIDES[p])
        self.nbytes = 0


class Joiners:
    """Create an object that joins slices for each thread, and record the memory that all of them use.

    Late rows are found before they reach this class, so they are joined under ``plan``.
    """

    def __init__(self, plan: JoinPlan, cut: Cut, pairs: int | None) -> None:
        self._plan, self._own, self._pairs = plan, cut.own, pairs
        self._made: list[_WholeJoin | _LookupJoin] = []

    def __call__(self) -> _WholeJoin | _LookupJoin:
        made: _WholeJoin | _LookupJoin
        if self._plan.looks_up:
            made = _LookupJoin(self._plan)
        else:
            made = _WholeJoin(self._plan, self._own, self._pairs)
        self._made.append(made)
        return made

    @property
    def nbytes(self) -> int:
        """Bytes of scratch memory."""
        return sum(made.nbytes for made in list(self._made))

    def clear(self) -> None:
        """Release these objects."""
        self._made.clear()
