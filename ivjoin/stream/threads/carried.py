"""The right rows that slices of an as-of join leave to later slices: the last row of each key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.intake import Intake
from ivjoin.operator.lookup.key_ids import key_table, sweep_keys
from ivjoin.operator.lookup.reading import Arrived, read
from ivjoin.operator.lookup.search import search_of
from ivjoin.plan.cutting import Cut, shifted
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.picking.pick import picking_of
from ivjoin.shj.plain import rows_at
from ivjoin.stream.tables.table_rows import in_one_batch
from ivjoin.stream.threads.pieces import I64_MAX, rises

__all__ = ["Carried"]


class Carried:
    """The last right row of each key before the next slice; ``batch`` is None before the first one."""

    def __init__(self, plan: JoinPlan, cut: Cut) -> None:
        self._plan, self._cut = plan.own(), cut
        search_of(self._plan)  # adds the axis that picks
        place = self._plan.axis(1, picking_of(self._plan).place)
        assert place is not None
        self._place = place
        self._keys = key_table(self._plan)
        self._intake = Intake(self._plan, (Frontier([], {}), Frontier([], {})))
        self.batch: pa.RecordBatch | None = None

    @property
    def rows(self) -> int:
        return 0 if self.batch is None else self.batch.num_rows

    @property
    def nbytes(self) -> int:
        return 0 if self.batch is None else int(self.batch.nbytes)

    def after(self, right: Sequence[pa.RecordBatch], end: int) -> bool:
        """Add the right rows of a slice that ends at a value, and forget what no later left row can take.

        Return False, and change nothing, if the whole condition has to decide the pairs of some row.

        Raises
        ------
        EvaluationError
            If the key or the picked value of a row has an error.
        """
        batches = [*([] if self.batch is None else [self.batch]), *right]
        found = [self._read(batch) for batch in batches]
        if any(f.found.wild or f.found.key_erred or f.found.beyond or f.found.at_end for f in found):
            return False
        kids = [np.where(f.usable, f.every.kids, -1) if f.usable is not None else f.every.kids for f in found]
        values = [f.every.axes[self._place] for f in found]
        best = self._last(np.concatenate(kids), np.concatenate(values), end) if batches else np.empty(0, np.int64)
        starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        ends = np.searchsorted(best, starts)
        parts = [
            rows_at(batch, best[ends[i] : ends[i + 1]] - starts[i])
            for i, batch in enumerate(batches) if ends[i] < ends[i + 1]
        ]  # fmt: skip
        self.batch = in_one_batch(parts) if parts else None
        sweep_keys(self._keys, self.rows, lambda: [np.concatenate(kids)[best]])
        return True

    def _read(self, batch: pa.RecordBatch) -> Arrived:
        n = batch.num_rows
        layout = row_layouts(self._plan)[1]
        return read(self._plan, 1, [], np.arange(n), layout, self._intake, self._keys, batch.columns, named=True)

    def _last(self, kids: np.ndarray, values: np.ndarray, end: int) -> np.ndarray:
        """Return the rows to carry, as they lie : int64[k]; of equal values the last row is carried."""
        order = np.arange(len(kids)) if rises(values) else np.argsort(values, kind="stable")
        last = np.full(int(kids.max(initial=-1)) + 2, -1, dtype=np.int64)  # the last entry is for rows without a key
        last[kids[order]] = order  # the last of several assignments counts
        best = last[:-1]
        best = np.sort(best[best >= 0])
        if self._cut.until is not None:
            best = best[shifted(values[best], self._cut.until) >= min(end, I64_MAX)]
        return best
