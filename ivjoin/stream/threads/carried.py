"""Pass right rows of an as-of join to later slices: the last row of each key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.key_ids import KeyIds, key_table, sweep_keys
from ivjoin.operator.lookup.reading import Arrived, read
from ivjoin.operator.lookup.search import search_of
from ivjoin.operator.lookup.tables.ordered import rises
from ivjoin.plan.cutting import Cut, shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.picking.pick import picking_of
from ivjoin.shj.plain import rows_at
from ivjoin.shj.registers import I64_MAX
from ivjoin.stream.tables.table_rows import in_one_batch

__all__ = ["Carried"]

_NONE = np.empty(0, dtype=np.int64)


class Carried:
    """The last right row of each key before the next slice, in ``batch``."""

    def __init__(self, plan: JoinPlan, cut: Cut) -> None:
        self._plan, self._cut = plan.own(), cut
        search_of(self._plan)  # this adds the axis of the ranking value
        place = self._plan.axis(1, picking_of(self._plan).place)
        assert place is not None
        self._place = place
        self._keys = key_table(self._plan)
        self.batch: pa.RecordBatch | None = None

    @property
    def rows(self) -> int:
        return 0 if self.batch is None else self.batch.num_rows

    @property
    def nbytes(self) -> int:
        return 0 if self.batch is None else int(self.batch.nbytes)

    def after(self, right: Sequence[pa.RecordBatch], end: int) -> bool:
        """Add the right rows of a slice that ends at ``end``, and drop rows that no later left row can take.

        Return False, and change nothing, if the whole condition must decide the pairs of some row.

        Raises
        ------
        EvaluationError
            If the key or the ranking value of a row has an error.
        """
        batches = [*([] if self.batch is None else [self.batch]), *right]
        found = [self._read(batch) for batch in batches]
        if any(f.found.wild or f.found.key_erred or f.found.beyond or f.found.at_end for f in found):
            return False
        if not found:
            return True
        every = Arrived.of(found)
        ids, (_, kids) = KeyIds.of((_NONE, None), every.kids, self._keys)
        best = self._last(kids - ids.least, every.usable, every.every.axes[self._place], ids.n_ids, end)
        starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        ends = np.searchsorted(best, starts)
        parts = [
            rows_at(batch, best[ends[i] : ends[i + 1]] - starts[i])
            for i, batch in enumerate(batches) if ends[i] < ends[i + 1]
        ]  # fmt: skip
        self.batch = in_one_batch(parts) if parts else None
        sweep_keys(self._keys, self.rows, list)  # each slice finds the ids again
        return True

    def _read(self, batch: pa.RecordBatch) -> Arrived:
        return read(self._plan, 1, [], np.arange(batch.num_rows), self._keys, batch.columns)

    def _last(
        self, kids: np.ndarray, usable: np.ndarray | None, values: np.ndarray, n_ids: int, end: int
    ) -> np.ndarray:
        """Return the rows to pass on, in table order : int64[k]. Of equal values, the last row is passed on."""
        rows = None if usable is None else np.flatnonzero(usable)
        if not rises(values):
            order = np.argsort(values, kind="stable")
            rows = order if usable is None else order[usable[order]]
        last = np.full(n_ids, -1, dtype=np.int64)
        # If an index is assigned several times, the last assignment is effective.
        if rows is None:
            last[kids] = np.arange(len(kids))
        else:
            last[kids[rows]] = rows
        best = np.sort(last[last >= 0])
        if self._cut.until is not None:
            best = best[shifted(values[best], self._cut.until) >= min(end, I64_MAX)]
        return best
