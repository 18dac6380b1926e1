"""Prepare two tables in memory for a lookup: evaluate their rows and sort them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.key_ids import KeyIds, key_table
from ivjoin.operator.lookup.reading import Arrived, read
from ivjoin.operator.lookup.search import search_of
from ivjoin.operator.lookup.tables.ordered import Sorted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.dictionaries import combined
from ivjoin.shj.plain import plain_rows
from ivjoin.shj.store.keys import KeyTable
from ivjoin.stream.sort.dealing import ends_of, order_of, values_at
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.tables.table_rows import TableRows, any_late

__all__ = ["OUT_ROWS", "TableSides"]

OUT_ROWS = 1 << 16  # left rows that are emitted at once
_MOST_RIGHT_ROWS = 2**31 - 2  # places have 32 bits
_UNNUMBERED = np.zeros(1, dtype=np.int64)  # represents the numbers of many rows without memory


@dataclass(frozen=True, slots=True)
class TableSides:
    """Both tables of a lookup. No other operator uses the plan."""

    plan: JoinPlan
    left: TableRows
    batches: tuple[list[pa.RecordBatch], list[pa.RecordBatch]]  # the left side has at least one batch, the right one
    read: tuple[Arrived, Arrived]  # the rows of both sides, without columns and numbers
    keys: KeyTable
    threads: int

    @property
    def right(self) -> pa.RecordBatch:
        return self.batches[1][0]

    @classmethod
    def of(cls, plan: JoinPlan, sources: tuple[Source, Source], threads: int) -> TableSides | None:
        """Return the sides with all axes of the lookup, or None if rows must be pushed.

        Rows must be pushed if the whole condition decides the pairs of some row, or a row is late.
        """
        if plan.raises or not all(source.in_memory for source in sources):
            return None
        tables = [source.table() for source in sources]
        for table, side in zip(tables, plan.sides, strict=True):
            if any(table.column(i).null_count for i, f in enumerate(side.schema) if not f.nullable):
                return None  # the operator reports which column it is
        rows = TableRows(plain_rows(tables[0])), TableRows(combined(plain_rows(tables[1])))
        left, right = (list(r.batches()) or [r.part(0, 0)] for r in rows)
        if not rows[0].is_cut(OUT_ROWS) or len(right) > 1 or rows[1].rows > _MOST_RIGHT_ROWS:
            return None
        if any_late(plan, rows, (frozenset(), frozenset())):
            return None
        search_of(plan)  # this adds axes
        keys, found = key_table(plan), list[Arrived]()
        beyond = at_end = False
        for s, batches in ((1, right), (0, left)):
            parts = [read(plan, s, [], np.broadcast_to(_UNNUMBERED, b.num_rows), keys, b.columns) for b in batches]
            for e in (part.found for part in parts):
                beyond, at_end = beyond or e.beyond, at_end or e.at_end
                if e.wild or e.key_erred or (beyond and at_end):
                    return None
            found.append(parts[0] if len(parts) == 1 else Arrived.of(parts))
        return cls(plan, rows[0], (left, right), (found[1], found[0]), keys, threads)

    def ids(self) -> tuple[KeyIds, tuple[np.ndarray, np.ndarray]]:
        """Return ids of both sides' keys, and the keys."""
        return KeyIds.of(self.read[0].kids, self.read[1].kids, self.keys, partial(ends_of, threads=self.threads))

    def in_order(
        self, s: int, kids: np.ndarray, axis: int | None, lines: set[int], order: np.ndarray | None = None
    ) -> Sorted:
        """Return the rows that can match, in the order of an axis or the given order. Equal rows stay in table order.

        ``lines`` are other axes whose values are needed.
        """
        found: dict[int, np.ndarray] = {}
        axes, usable = self.read[s].every.axes, self.read[s].usable
        if axis is not None and order is None:
            order, found[axis] = order_of(axes[axis], usable, self.threads)
        elif order is None and usable is not None:
            order = np.flatnonzero(usable)
        for line in lines - found.keys():
            found[line] = values_at(axes[line], order, self.threads)
        return Sorted(kids, order, found)
