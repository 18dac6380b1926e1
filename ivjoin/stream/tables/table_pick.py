"""Find one right row for each left row of two tables, slice by slice, with any number of threads.

The output is always in the order of the left table. The first step finds the match of every left row. The second step
builds output batches. Both steps work in slices, whose starts depend only on the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.operator.lookup.aggregates.source import keys_of
from ivjoin.operator.lookup.key_ids import KeyIds
from ivjoin.operator.lookup.search import search_of
from ivjoin.operator.lookup.tables.ordered import Sorted
from ivjoin.operator.lookup.tables.passes import LookupSlice, Pass, PassPlaces, is_far, nearer, passes_of, slices_of
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.stream.sort.dealing import rise
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.paired_pick import BestOfTables, best_of_tables, pairs_pay
from ivjoin.stream.tables.table_lookup import MatchedTables, parts_of
from ivjoin.stream.tables.table_rows import TableRows
from ivjoin.stream.tables.table_sides import OUT_ROWS, TableSides
from ivjoin.stream.workers import each

__all__ = ["TablePick", "table_pick"]

_SLICE_ROWS = 1 << 18  # rows of both sides
_NOTHING = Sorted(np.empty(0, dtype=np.int64), None, {})


class TablePick(MatchedTables):
    """The join of two tables that picks one right row for each left row."""

    def __init__(
        self, plan: JoinPlan, left: TableRows, right: pa.RecordBatch, sides: tuple[Sorted, Sorted], ids: KeyIds,
        passes: list[Pass], threads: int,
    ) -> None:
        super().__init__(plan, left, right, threads)
        self._sides, self._ids, self._passes = sides, ids, passes

    def close(self) -> None:
        super().close()
        self._sides = _NOTHING, _NOTHING

    def serves(self, plan: JoinPlan, passes: list[Pass]) -> bool:
        """Return whether another plan can use the sorted sides: their order and the values that its passes compare."""
        mine, theirs = self.plan.spec, plan.spec
        if mine.schemas != theirs.schemas or mine.on != theirs.on or self._passes[0].main[0][0] != passes[0].main[0][0]:
            return False
        if any(a.axes != b.axes for a, b in zip(self.plan.sides, plan.sides, strict=True)) or theirs.pick is None:
            return False
        bounds = [b for p in passes for b in (*p.lows, *p.highs)]
        known = all(a in self._sides[0].lines and b in self._sides[1].lines for a, b, _ in bounds)
        return known and picking_of(plan).plain and picking_of(self.plan).plain and theirs.pick.near is None

    # -- matches -----------------------------------------------------------------------------------------------------

    def _found(self) -> np.ndarray:
        """Return the right row of each left row, or -1 : int32[left rows]."""
        left, right = self._sides
        kind = picking_of(self.plan).place
        place = self.plan.axis(1, kind)
        assert place is not None
        found = [self._looked(way, left, right, place) for way in self._passes]
        if len(found) == 1 and left.order is None and right.order is None:
            return found[0]
        out = found[0] if left.order is None else np.full(self._left.rows, -1, dtype=np.int32)
        values = left.lines[self._passes[0].main[0][0]]

        def settle(part: slice) -> None:
            places = found[0][part]
            if len(found) == 2:
                places = nearer(values[part], right.lines[place], places, found[1][part], kind.type)
            if right.order is not None and len(right):
                places = np.where(places < 0, -1, right.order.take(places, mode="clip"))
            out[part if left.order is None else left.order[part]] = places

        each(parts_of(len(left), OUT_ROWS), lambda: settle, self._threads)
        return out

    def _looked(self, way: Pass, left: Sorted, right: Sorted, place: int) -> np.ndarray:
        none = np.full(len(left), -1, dtype=np.int32)
        found = PassPlaces(way, left, right, self._ids, place, self._threads == 1, none)
        if len(left) and len(right):
            slices = slices_of(way, left, right, _SLICE_ROWS, place)

            def looks() -> Callable[[LookupSlice], None]:
                at = found.table()
                return lambda part: found.look(part, at)

            each(found.turns(slices), looks, self._threads)
            found.carry(slices)
        return found.places


def table_pick(
    plan: JoinPlan, sources: tuple[Source, Source], threads: int, like: TablePick | None = None
) -> TablePick | BestOfTables | None:
    """Return the join of two tables that picks one right row for each left row, or None if rows must be pushed.

    ``like`` is another join of the tables. If both compare the same expressions, its sorted sides are reused.
    """
    shared, plan = plan, plan.own()
    axis = search_of(plan)[2]  # this adds axes
    passes, picking, pick = passes_of(plan), picking_of(plan), plan.spec.pick
    along = pick is not None and axis is not None and axis == plan.axis(1, pick.by[0])
    if passes is None or plan.separation.residual:
        return best_of_tables(shared, sources, threads) if pairs_pay(shared, sources, along) else None
    if like is not None and like.serves(plan, passes):
        return TablePick(plan, like._left, like._right, like._sides, like._ids, passes, threads)
    sides = TableSides.of(plan, sources, threads)
    if sides is None:
        return None
    first = passes[0].main[0][0]
    if picking.near is not None and is_far(sides.read[0].every.axes[first], picking.place.type.kind):
        return None
    ids, (left_kids, right_kids) = sides.ids()
    bounds = [b for p in passes for b in (*p.lows, *p.highs)]
    order = None if picking.plain else _order(sides)
    place = plan.axis(1, picking.place)
    assert place is not None
    right = sides.in_order(1, right_kids, place, {b for _, b, _ in bounds} | {place}, order)
    checked = right.lines.keys() - ({place} if order is None else set())
    if not all(rise(right.lines[line], threads) for line in checked):
        return BestOfTables(sides) if pairs_pay(shared, sources, along) else None
    left = sides.in_order(0, left_kids, first, {a for a, _, _ in bounds})
    return TablePick(plan, sides.left, sides.right, (left, right), ids, passes, threads)


def _order(sides: TableSides) -> np.ndarray:
    """Return the order of right rows by all expressions that rank them. Equal rows stay in the order of the table."""
    pick, right, usable = sides.plan.spec.pick, sides.right, sides.read[1].usable
    assert pick is not None
    last = pick.which == "last"
    vectors = evaluate(pick.by, lambda _, name: right.column(name), right.num_rows)
    keys = [~key if last else key for key in keys_of(vectors, pick.by, last)]
    if usable is None:
        return np.lexsort(keys[::-1])
    rows = np.flatnonzero(usable)
    return rows.take(np.lexsort([key.take(rows) for key in keys[::-1]]))
