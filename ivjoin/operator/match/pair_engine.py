"""Emit pairs: the engine of an operator without a lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.operator.engine import RowsAtHand
from ivjoin.operator.match import steps
from ivjoin.operator.match.pair_state import PairState
from ivjoin.operator.memory.budget import Budget
from ivjoin.operator.memory.lost_matches import Recall
from ivjoin.operator.memory.pair_limits import PairLimits

__all__ = ["PairEngine"]

_AT_ONCE = 1 << 16  # rows that are read together


class PairEngine(PairState):
    """Emit each pair as soon as both rows have arrived. ``steps`` moves rows through the state."""

    limits: PairLimits | None

    def push(self, p: int, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch] | None:
        limits = self.limits
        if limits is None:
            return steps.push(self, p, batch)
        most = limits.most_rows(p, batch)
        if batch.num_rows > most:
            return limits.take_pieces(p, batch, most)
        limits.make_ready(p, batch.num_rows)
        out = steps.push(self, p, batch)
        limits.took(p, batch)
        limits.stepped()
        return out

    def count_as_matched(self, matched: bool) -> None:
        self.state.set(emitted=int(matched))

    def frontier_moved(self, p: int) -> Iterator[pa.RecordBatch]:
        return steps.frontier_moved(self, p)

    def end(self, sides: Sequence[int]) -> Iterator[pa.RecordBatch]:
        return steps.end(self, sides)

    def limit(self, budget: Budget) -> None:
        self.limits = PairLimits(self, budget)
        self.stay_linked()

    def rows_at_once(self, p: int, batch: pa.RecordBatch) -> int:
        return batch.num_rows if self.limits is None else self.limits.most_rows(p, batch)

    def bytes_held(self) -> int:
        held = super().bytes_held()
        return held if self.limits is None else held + self.limits.nbytes

    @property
    def _recall(self) -> Recall | None:
        return None if self.limits is None else self.limits.recall

    def look(self) -> None:
        if self._recall is not None:
            self._recall.look()

    def rows_at_hand(self, s: int, taking: bool) -> RowsAtHand:
        store, places = self.stores[s], self.places[s]

        def stored(some: np.ndarray) -> Callable[[int], pa.Array | None]:
            return lambda i: None if places[i] < 0 else store.gather(places[i], some)

        ids = np.arange(store.lo, store.hi) if taking else store.live_ids()
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            yield stored(some), len(some)
        for taken, _ in () if self.in_files is None else self.in_files.pieces(s):
            yield (lambda i, taken=taken: None if places[i] < 0 else taken.column(places[i])), len(taken)  # type: ignore[misc]
        batch = None if self.batch is None else self.batch()
        if taking and batch is not None and self.state.get("side") == s:
            yield batch.column, batch.num_rows

    def saved_layout(self, s: int) -> tuple[int | None, int | None] | None:
        return self.stores[s].led()

    def lay_out(self, s: int, axis: int | None, second: int | None) -> None:
        store = self.stores[s]
        if all(a is None or 0 <= a < store.n_axes for a in (axis, second)):
            store.lead(axis or 0, second)

    def saved_sample(self) -> dict[str, Any] | None:
        return None if self._recall is None else self._recall.save()

    def load_sample(self, saved: Any) -> None:
        if self._recall is not None:
            self._recall.load(saved)
