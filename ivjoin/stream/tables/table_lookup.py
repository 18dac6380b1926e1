"""Look up one answer for each left row of two tables, in slices, with any number of threads.

The output is always in the order of the left table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.metrics import JoinMetrics
from ivjoin.operator.match.output import in_parts
from ivjoin.outer.batches import BatchBuilder, BatchRows, pieces_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.shj.plain import no_rows
from ivjoin.stream.known_bounds import known_bounds
from ivjoin.stream.tables.table_rows import TableRows
from ivjoin.stream.tables.table_sides import OUT_ROWS
from ivjoin.stream.workers import joined

__all__ = ["MatchedTables", "TableLookup", "parts_of"]


class TableLookup:
    """A running join of two tables. ``right`` has all right rows."""

    def __init__(self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, threads: int) -> None:
        self.plan, self._left, self._right, self._threads = plan, left, right, threads
        self._metrics = JoinMetrics(left_rows_in=left.rows, right_rows_in=right.num_rows)

    @property
    def schema(self) -> pa.Schema:
        return self.plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far. The state is the rows of both tables, until the output is read to its end."""
        return self._metrics

    def output(self) -> Iterator[pa.RecordBatch]:
        """Yield the output in the order of the left rows, in batches of at most ``batch_size`` rows."""
        m = self._metrics
        m.state_rows = m.peak_state_rows = m.left_rows_in + m.right_rows_in
        tasks, work = self._tasks()
        for _, batch in joined(tasks, lambda: work, self._threads):
            for piece in pieces_of(batch, self.plan.spec.batch_size):
                m.rows_out += piece.num_rows
                yield piece
        m.left_rows_retired, m.right_rows_retired = m.left_rows_in, m.right_rows_in
        m.state_rows = m.state_bytes = 0

    def _tasks(self) -> tuple[Sequence[Any], Callable[[Any], Iterator[pa.RecordBatch]]]:
        """Return parts of the output, and a function that yields the batches of one part."""
        raise NotImplementedError

    def output_bounds(self) -> dict[str, tuple[Any, Any]]:
        """Return bounds of output rows, like ``SymmetricHashJoin.output_bounds``."""
        return known_bounds(self.plan, not self._metrics.state_rows and bool(self._metrics.left_rows_retired))

    def close(self) -> None:
        left, right = (side.schema for side in self.plan.sides)
        self._left, self._right = TableRows(pa.Table.from_batches([], left)), no_rows(right)


def parts_of(rows: int, size: int) -> list[slice]:
    """Cut rows into ranges of ``size`` rows."""
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


class MatchedTables(TableLookup):
    """A join of two tables that gives each left row one right row."""

    def __init__(self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, threads: int) -> None:
        super().__init__(plan, left, right, threads)
        self._builder = BatchBuilder(plan.schema, plan.fields, plan.spec.batch_size, plan.spec.timezone)
        self._widths = [layout.widths for layout in row_layouts(plan)]

    def _found(self) -> np.ndarray:
        """Return the right row of each left row, or -1 : int32[left rows]."""
        raise NotImplementedError

    def _tasks(self) -> tuple[Sequence[slice], Callable[[slice], Iterator[pa.RecordBatch]]]:
        found = self._found()
        self._metrics.state_bytes = self._metrics.peak_state_bytes = found.nbytes
        return parts_of(len(found), OUT_ROWS), lambda part: self._batches(part, found[part])

    def _batches(self, part: slice, found: np.ndarray) -> Iterator[pa.RecordBatch]:
        def built(cut: slice) -> pa.RecordBatch | None:
            return self._batch(part.start + cut.start, part.start + cut.stop, found[cut])

        yield from (b for b in in_parts(built, 0, len(found)) if b is not None)

    def _batch(self, start: int, stop: int, found: np.ndarray) -> pa.RecordBatch | None:
        batch = self._left.part(start, stop)
        index = None
        if not self.plan.how.keep[0]:
            there = np.flatnonzero(found >= 0)
            if not len(there):
                return None
            if len(there) < len(found):
                index, found = there, found[there]
        return self._emitted(batch, index, found)

    def _emitted(self, batch: pa.RecordBatch, index: np.ndarray | None, found: np.ndarray) -> pa.RecordBatch:
        """Return left rows of a batch (all for None) with their right rows. -1 is a row of NULLs."""
        left, right = self._widths
        return self._builder.batch(BatchRows(batch, index, left), BatchRows(self._right, found, right))
