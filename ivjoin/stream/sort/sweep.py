"""Read two sorted sides together along their axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.operator.lookup.tables.ordered import count_to
from ivjoin.shj.registers import I64_MIN

__all__ = ["Ordered", "Sweep"]

# Batches with the ordinals of the axis. These never fall, within a batch or from one batch to the next.
Ordered = Iterator[tuple[pa.RecordBatch, np.ndarray]]


@dataclass
class Sweep:
    """Read a piece of the leading side, then the rows of the other side that are not beyond it, and one more row.

    The extra row shows how far the other side has advanced, so that rows of the leader do not wait before a gap. Rows
    of the following side are evicted as they arrive, except for the window. The leader has fewer expressions in the
    bands. ``by`` is added to the ordinals of each side.

    Without a sweep, both sides are read by their frontiers, and points are compared with waiting intervals. Then
    200,000 points and as many intervals take 25 times as long.
    """

    leader: int
    sides: tuple[Ordered, Ordered]
    by: tuple[int, int]

    def turns(self, most: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Yield (side, at most ``most`` of its rows), and (side, None) once at its end."""
        other = 1 - self.leader
        lead, follow = (_Side(self.sides[s], self.by[s]) for s in (self.leader, other))
        while (piece := lead.piece(most)) is not None:
            yield self.leader, piece
            if follow.ended:
                continue
            while follow.reached <= lead.reached:
                piece = follow.piece(most, lead.reached)
                yield other, piece
                if piece is None:
                    break
        yield self.leader, None
        while not follow.ended:
            yield other, follow.piece(most)


class _Side:
    """Rows of a side that were read and not yet returned."""

    def __init__(self, batches: Ordered, by: int) -> None:
        self._batches, self._by = batches, by
        self._batch: tuple[pa.RecordBatch, np.ndarray] | None = None
        self._at = 0
        self.ended = False
        self.reached = I64_MIN + by  # the ordinal of the last returned row

    def piece(self, most: int, limit: int | None = None) -> pa.RecordBatch | None:
        """Return the next rows, up to and including the first row beyond ``limit``, or None at the end."""
        while self._batch is None or self._at >= self._batch[0].num_rows:
            self._batch, self._at = next(self._batches, None), 0
            if self._batch is None:
                self.ended = True
                return None
        batch, values = self._batch
        rows = min(most, batch.num_rows - self._at)
        if limit is not None:
            rows = min(rows, count_to(values[self._at :], limit - self._by, True) + 1)
        piece = batch.slice(self._at, rows)
        self._at += rows
        self.reached = int(values[self._at - 1]) + self._by
        return piece
