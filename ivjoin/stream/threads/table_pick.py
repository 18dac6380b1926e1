"""A join of two tables that gives each left row one right row, found slice by slice, by any number of threads.

The output is in the order of the left table. All matches are found first; then the output batches are built.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.best import Found, LookupSlice, Pass, is_far, nearer, passes_of, slices_of
from ivjoin.operator.lookup.key_ids import KeyIds, key_table
from ivjoin.operator.lookup.sides import LookupSide, SideReader, Sorted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.picking.pick import picking_of
from ivjoin.stream.sort.dealing import order_of, rises, values_at
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.threads.paired_pick import PairedPick, paired_pick
from ivjoin.stream.threads.table_lookup import OUT_ROWS, MatchedTables, opened, parts_of
from ivjoin.stream.threads.table_rows import TableRows
from ivjoin.stream.workers import each

__all__ = ["TablePick", "table_pick"]

_SLICE_ROWS = 1 << 17  # of both sides


class TablePick(MatchedTables):
    """The join of two tables that picks one right row for each left row; ``sides`` has the rows, the right sorted."""

    def __init__(
        self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, sides: tuple[LookupSide, Sorted],
        ids: KeyIds, passes: list[Pass], threads: int,
    ) -> None:
        super().__init__(plan, left, right, threads)
        self._sides, self._ids, self._passes = sides, ids, passes

    def close(self) -> None:
        super().close()
        none = LookupSide(np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int64), None)
        self._sides = none, Sorted(none.kids, None, {})

    # -- matches -----------------------------------------------------------------------------------------------------

    def _found(self) -> np.ndarray:
        """Return the right row of each left row, or -1 : int32[left rows]."""
        side, right = self._sides
        mine = self._passes[0].main[0][0]
        order, values = order_of(side.vals[mine], side.usable, self._threads)
        left = Sorted(side.kids, order, {mine: values})
        for line in {line for p in self._passes for line, _, _ in (*p.lows, *p.highs)} - {mine}:
            left.lines[line] = values_at(side.vals[line], order, self._threads)
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

        each(parts_of(len(left), OUT_ROWS), lambda: settle, self._threads)
        return out

    def _looked(self, way: Pass, left: Sorted, right: Sorted) -> np.ndarray:
        found = Found(way, left, right, self._ids, self._threads == 1, np.full(len(left), -1, dtype=np.int32))
        if len(left) and len(right):
            slices = slices_of(way, left, right, _SLICE_ROWS)

            def looks() -> Callable[[LookupSlice], None]:
                at = found.table()
                return lambda part: found.look(part, at)

            each(found.turns(slices), looks, self._threads)
            found.carry(slices)
        return found.places


def table_pick(plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> TablePick | PairedPick | None:
    """Return the join of two tables that picks one right row for each left row; None if their rows must be pushed."""
    picking = picking_of(plan)
    passes = passes_of(picking)
    if passes is None or plan.separation.residual:
        return paired_pick(plan, sources, threads)
    plan = plan.own()
    tables = opened(plan, sources)
    if tables is None:
        return None
    rows, batches = tables
    keys = key_table(plan)
    reader = SideReader(plan, picking)
    read: list[LookupSide | None] = [None, None]
    for s in (1, 0):
        index = row_layouts(plan)[s].index
        read[s] = LookupSide.of([reader.read(s, batch, index, keys) for batch in batches[s]])
    left, offered = read
    if left is None or offered is None or reader.ends_decide:
        return None
    if picking.near >= 0 and is_far(left.vals[picking.near], picking.lines[1][0].type.kind):
        return None
    ids, (left.kids, offered.kids) = KeyIds.of((left.kids, offered.kids), (left.usable, offered.usable), keys)
    lines = {line for p in passes for _, line, _ in (*p.lows, *p.highs)}
    ordered = _in_order(offered, picking.n_sort, lines, threads)
    if not all(rises(values, threads) for values in ordered.lines.values()):
        every = np.arange(len(offered)) if ordered.order is None else ordered.order
        return paired_pick(plan, sources, threads, every)
    return TablePick(plan, rows, batches[1][0], (left, ordered), ids, passes, threads)


def _in_order(side: LookupSide, n_sort: int, lines: set[int], threads: int) -> Sorted:
    """Return the right rows in the order of the lines that compare them; rows alike come as they lie."""
    if n_sort == 1:
        order, values = order_of(side.vals[0], side.usable, threads)
    else:
        rows = np.arange(len(side)) if side.usable is None else np.flatnonzero(side.usable)
        order = rows.take(np.lexsort(side.vals[n_sort - 1 :: -1].take(rows, axis=1)))
        values = side.vals[0].take(order)
    found = {0: values}
    for line in lines - {0}:
        found[line] = values_at(side.vals[line], order, threads)
    return Sorted(side.kids, order, found)
