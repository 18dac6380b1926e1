"""A join of two tables that gives each left row one right row, found slice by slice, by any number of threads.

The output is in the order of the left table, whatever the order of the rows. A left row's match is found first, for all
rows; then output batches are gathered. Both are done in slices, and where these begin follows from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ivjoin.metrics import JoinMetrics
from ivjoin.operator.lookup.best import Found, LookupSlice, Pass, Sorted, is_far, nearer, passes_of, slices_of
from ivjoin.operator.lookup.sides import KeyIds, LookupSide, SideReader, key_table
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.operator.whole import BatchRows
from ivjoin.outer.emit import Emitter
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.pick import picking_of
from ivjoin.plan.spec import SIDES
from ivjoin.shj.arrow import bitmap, fixed_array, fixed_view, taken
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import no_rows, plain_rows
from ivjoin.stream.inputs import Source
from ivjoin.stream.ordered import sorted_order
from ivjoin.stream.table_rows import TableRows, any_late, rises
from ivjoin.stream.workers import joined

__all__ = ["TablePick", "table_pick"]

_SLICE_ROWS = 1 << 17  # of both sides
_OUT_ROWS = 1 << 16  # of the left side that are gathered at once
_MOST_RIGHT_ROWS = 2**31 - 2  # places have 32 bits
_Task = TypeVar("_Task")


class TablePick:
    """The join of two tables whose rows can be looked up in slices.

    Parameters
    ----------
    plan : JoinPlan
    left : TableRows
    right : pa.RecordBatch
        All right rows.
    sides : (LookupSide, Sorted)
        The left rows, and the right ones in order.
    ids : KeyIds
    passes : list of Pass
    threads : int
    """

    def __init__(
        self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, sides: tuple[LookupSide, Sorted],
        ids: KeyIds, passes: list[Pass], threads: int,
    ) -> None:
        self.plan, self._left, self._right, self._sides, self._ids = plan, left, right, sides, ids
        self._passes, self._threads = passes, threads
        self._emitter = Emitter(plan.schema, plan.fields, plan.spec.batch_size, plan.spec.timezone)
        self._widths = row_layouts(plan)[1].widths
        self._metrics = JoinMetrics(left_rows_in=left.rows, right_rows_in=right.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the output."""
        return self.plan.schema

    @property
    def metrics(self) -> JoinMetrics:
        """Counts so far. The state is the rows of both tables until the output is read to its end."""
        return self._metrics

    def output(self) -> Iterator[pa.RecordBatch]:
        """The output in the order of the left rows, each batch of as many rows as the caller allows."""
        m = self._metrics
        m.state_rows = m.peak_state_rows = m.left_rows_in + m.right_rows_in
        found = self._found()
        m.state_bytes = m.peak_state_bytes = found.nbytes
        parts = [slice(at, min(at + _OUT_ROWS, len(found))) for at in range(0, len(found), _OUT_ROWS)]
        most = self.plan.spec.batch_size
        for _, batch in joined(parts, lambda: lambda part: self._batches(part, found[part]), self._threads):
            for start in range(0, batch.num_rows, most):
                piece = batch.slice(start, most) if batch.num_rows > most else batch
                m.rows_out += piece.num_rows
                yield piece
        m.left_rows_retired, m.right_rows_retired = m.left_rows_in, m.right_rows_in
        m.state_rows = m.state_bytes = 0

    def output_bounds(self) -> dict[str, tuple[Any, Any]]:
        """What output rows can hold, as ``SymmetricHashJoin.output_bounds`` says."""
        op = SymmetricHashJoin.from_plan(self.plan)
        if not self._metrics.state_rows and self._metrics.left_rows_retired:
            for side in SIDES:
                list(op.finish(side))
        return op.output_bounds()

    def close(self) -> None:
        """Release the tables."""
        left, right = (side.schema for side in self.plan.sides)
        self._left, self._right = TableRows(left.empty_table()), no_rows(right)
        none = LookupSide(np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int64), None)
        self._sides = none, Sorted(none, None, {})

    # -- matches -----------------------------------------------------------------------------------------------------

    def _found(self) -> np.ndarray:
        """Return the right row of each left row, or -1 : int32[left rows]."""
        side, right = self._sides
        mine = self._passes[0].main[0][0]
        order, values = _order_of(side.vals[mine], side.usable, self._threads)
        left = Sorted(side, order, {mine: values})
        for line in {line for p in self._passes for line, _, _ in (*p.lows, *p.highs)} - {mine}:
            left.lines[line] = side.vals[line] if order is None else side.vals[line].take(order)
        found = [self._looked(way, left, right) for way in self._passes]
        if len(found) == 1 and order is None and right.order is None:
            return found[0]
        out = found[0] if order is None else np.full(len(side), -1, dtype=np.int32)
        near = picking_of(self.plan).lines[1][0].type

        def settle(part: slice) -> None:
            places = found[0][part]
            if len(found) == 2:
                places = nearer(values[part], right.lines[0], places, found[1][part], near)
            if right.order is not None and len(right):
                places = np.where(places < 0, -1, right.order.take(places, mode="clip"))
            out[part if order is None else order[part]] = places

        parts = [slice(at, at + _OUT_ROWS) for at in range(0, len(left), _OUT_ROWS)]
        _each(parts, lambda: settle, self._threads)
        return out

    def _looked(self, way: Pass, left: Sorted, right: Sorted) -> np.ndarray:
        found = Found(way, left, right, self._ids, self._threads == 1, np.full(len(left), -1, dtype=np.int32))
        if len(left) and len(right):
            slices = slices_of(way, left, right, _SLICE_ROWS)

            def looks() -> Callable[[LookupSlice], None]:
                at = found.table()
                return lambda part: found.look(part, at)

            _each(found.turns(slices), looks, self._threads)
            found.carry(slices)
        return found.places

    # -- output ------------------------------------------------------------------------------------------------------

    def _batches(self, part: slice, found: np.ndarray) -> Iterator[pa.RecordBatch]:
        batch = self._left.part(part.start, part.stop)
        rows: _Every | BatchRows = _Every(batch)
        if not self.plan.how.keep[0]:
            there = np.flatnonzero(found >= 0)
            if not len(there):
                return
            if len(there) < len(found):
                rows, found = BatchRows(batch, there, row_layouts(self.plan)[0].widths), found[there]
        yield self._emitter.batch(rows, _Matches(self._right, found, self._widths))


class _Every:
    """All rows of a batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return self._batch.num_rows

    def column(self, index: int) -> pa.Array:
        return self._batch.column(index)


class _Matches:
    """Rows of a batch by number : int32[n]; -1 is a row of nulls."""

    def __init__(self, batch: pa.RecordBatch, rows: np.ndarray, widths: Sequence[int | None]) -> None:
        there = rows >= 0
        self._batch, self._rows, self._widths = batch, rows, widths
        self._there = None if there.all() else there
        self._places: pa.Array | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, index: int) -> pa.Array:
        array, width = self._batch.column(index), self._widths[index]
        if width is not None and not array.null_count and len(array):
            values = fixed_view(array, width).take(self._rows, axis=0, mode="clip")
            return fixed_array(values, self._there, array.type)
        if self._places is None:
            valid = None if self._there is None else bitmap(self._there)
            self._places = pa.Array.from_buffers(pa.int32(), len(self), [valid, pa.py_buffer(self._rows)])
        return taken(array, self._places)


def _order_of(values: np.ndarray, usable: np.ndarray | None, threads: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the order of usable rows by their values, None for all rows as they lie, and the values in it."""
    if usable is None:
        return (None, values) if rises(values) else sorted_order(values, threads)
    rows = np.flatnonzero(usable)
    values = values.take(rows)
    if rises(values):
        return rows, values
    order, values = sorted_order(values, threads)
    return rows.take(order), values


def _each(tasks: Sequence[_Task], make: Callable[[], Callable[[_Task], None]], threads: int) -> None:
    """Do all tasks by a number of threads; each makes its own function, which takes tasks in their order.

    Raises
    ------
    BaseException
        The error of the first task that has one.
    """

    def worker() -> Callable[[_Task], Iterator[pa.RecordBatch]]:
        work = make()

        def run(task: _Task) -> Iterator[pa.RecordBatch]:
            work(task)
            return iter(())

        return run

    for _ in joined(tasks, worker, threads):
        raise AssertionError("a task without output has some")


def table_pick(plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> TablePick | None:
    """The join of two tables that picks one right row for each left row; None if their rows must be pushed."""
    picking = picking_of(plan)
    passes = passes_of(picking)
    if passes is None or plan.separation.residual or not all(s.in_memory for s in sources):
        return None
    plan = plan.own()
    tables = [source.table() for source in sources]
    for table, side in zip(tables, plan.sides, strict=True):
        if any(table.column(i).null_count for i, f in enumerate(side.schema) if not f.nullable):
            return None  # the operator says which one
    rows = TableRows(plain_rows(tables[0])), TableRows(combined(plain_rows(tables[1])))
    right = rows[1].batches()
    if not rows[0].is_cut(_OUT_ROWS) or len(right) > 1 or rows[1].rows > _MOST_RIGHT_ROWS:
        return None
    if any_late(plan, rows, (frozenset(), frozenset())):
        return None
    keys = key_table(plan)
    reader = SideReader(plan, picking)
    read: list[LookupSide | None] = [None, None]
    for s in (1, 0):
        batches = rows[s].batches() or [no_rows(tables[s].schema)]
        read[s] = LookupSide.of([reader.read(s, b, row_layouts(plan)[s].index, keys) for b in batches])
    left, offered = read
    if left is None or offered is None or reader.ends_decide:
        return None
    if picking.near >= 0 and is_far(left.vals[picking.near], picking.lines[1][0].type.kind):
        return None
    ids = KeyIds.of((left, offered), keys)
    lines = {line for p in passes for _, line, _ in (*p.lows, *p.highs)}
    ordered = _in_order(offered, picking.n_sort, lines, threads)
    if not all(rises(values) for values in ordered.lines.values()):
        return None
    batch = right[0] if right else no_rows(plan.sides[1].schema)
    return TablePick(plan, rows[0], batch, (left, ordered), ids, passes, threads)


def _in_order(side: LookupSide, n_sort: int, lines: set[int], threads: int) -> Sorted:
    """Return the right rows in the order of the lines that compare them; rows alike come as they lie."""
    if n_sort == 1:
        order, values = _order_of(side.vals[0], side.usable, threads)
    else:
        rows = np.arange(len(side)) if side.usable is None else np.flatnonzero(side.usable)
        order = rows.take(np.lexsort(side.vals[n_sort - 1 :: -1].take(rows, axis=1)))
        values = side.vals[0].take(order)
    found = {0: values}
    for line in lines - {0}:
        found[line] = side.vals[line] if order is None else side.vals[line].take(order)
    return Sorted(side, order, found)
