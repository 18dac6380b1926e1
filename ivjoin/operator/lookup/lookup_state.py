"""Store the state of an operator that looks up left rows: rows, counts, bytes and frontiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from ivjoin.errors import EvaluationError
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.engine import Engine, RowsAtHand
from ivjoin.operator.lookup.key_ids import key_table
from ivjoin.operator.lookup.reading import read
from ivjoin.operator.lookup.rows import Rows
from ivjoin.operator.lookup.search import search_of
from ivjoin.operator.lookup.stored import LeftRows, RightRows, spill
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.store.disk.backing import Files

__all__ = ["LookupState"]


class LookupState(Engine):
    """The plan, the frontiers, the rows and the counts of a lookup."""

    def __init__(self, plan: JoinPlan, late_within: bool = True) -> None:
        super().__init__(plan, late_within)
        plan = self.plan
        self.full_predicate = plan.raises
        self.limits = None
        self.keys = key_table(plan)
        self.seq = [0, 0]
        self.terms, self.order, self.axis = search_of(plan, plan.spec.picks_one)
        for s in (0, 1):
            self.bounder.refit(s)
        self.left, self.right = LeftRows(), RightRows(self.axis)
        self._previous = plan.spec.include_previous
        self._giving: list[Rows] = []  # left rows that are being emitted

    @property
    def rows_held(self) -> int:
        return len(self.left) + sum(map(len, self.right.not_emitted()))

    def bytes_held(self) -> int:
        return sum(self.bytes_of_sides()) + self.keys.nbytes

    def bytes_of_sides(self) -> tuple[int, int]:
        """Return the bytes of each side, without the keys that both sides share."""
        return self.left.nbytes, self.right.nbytes

    def came(self, p: int, rows: int, late: int) -> None:
        """Count ``rows`` pushed rows of side p, including ``late`` late rows."""
        m = self.metrics
        m.late_rows += late
        if p == 0:
            m.left_rows_in, m.left_late_rows = m.left_rows_in + rows, m.left_late_rows + late
        else:
            m.right_rows_in, m.right_late_rows = m.right_rows_in + rows, m.right_late_rows + late

    def went(self, p: int, rows: int) -> None:
        """Count rows of side p that are final and no longer stored."""
        if p == 0:
            self.metrics.left_rows_retired += rows
        else:
            self.metrics.right_rows_retired += rows

    def counts(self) -> JoinMetrics:
        m = replace(self.metrics)
        m.left_lateness, m.right_lateness = self.intake.lateness
        m.state_rows = self.rows_held
        m.peak_state_rows = max(m.peak_state_rows, m.state_rows)
        m.state_bytes = self.bytes_held() + sum(rows.nbytes for rows in self.right.evicted or ())
        if self.account.files is not None:
            m.spilled_rows = sum(len(rows) for rows in (*self.left.chunks, *self.right.each()) if rows.lies_in_files)
            m.spilled_bytes = self.account.files.nbytes
        return m

    def spill(self, files: Files, most: int) -> None:
        """Spill columns until at most ``most`` bytes are in memory, or all are spilled.

        A full disk raises MemoryLimitError.
        """
        first, second = self.bytes_of_sides()
        ways: list[Callable[[], object]] = [partial(spill, self.left.chunks, files), partial(self.right.spill, files)]
        for way in ways if first > second else ways[::-1]:
            if self.bytes_held() > most:
                way()

    def make_room(self, force: bool) -> None:
        """Drop rows that cannot match. Without ``force``, do so only if they are likely to be many."""
        raise NotImplementedError

    def is_refused(self, error: BaseException) -> bool:
        return self.account.refused

    def rekey(self) -> None:
        if self._previous:
            raise EvaluationError(
                "a computed key has an error for a row, and include_previous=True needs all keys; use try_cast or "
                "try_add in the key, or filter the row first"
            )
        super().rekey()

    def rebuild(self) -> None:
        self.keys = key_table(self.plan)
        self.left.keep([self._stored_rows(0, rows.columns, rows.seq) for rows in self.left.chunks])
        self.right.replace(lambda rows: self._stored_rows(1, rows.columns, rows.seq))

    def _stored_rows(self, s: int, columns: Sequence[pa.Array], seq: np.ndarray) -> Rows:
        return read(self.plan, s, columns, seq, self.keys).rows

    def rows_at_hand(self, s: int, taking: bool) -> RowsAtHand:
        places = self.layouts[s].places
        for rows in (*self.left.chunks, *self._giving) if s == 0 else self.right.each():
            yield (lambda i, r=rows: None if places[i] < 0 else r.column(places[i])), len(rows)  # type: ignore[misc]

    def refresh_bounds(self) -> None:
        self.learn()
        for p in (0, 1):
            self.bounder.move(p, True, 1)
