"""Two sides in order, read in step along their axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

__all__ = ["Ordered", "Sweep"]

# Batches with the ordinals of the axis, which never fall, from one batch to the next neither.
Ordered = Iterator[tuple[pa.RecordBatch, np.ndarray]]


@dataclass
class Sweep:
    """A piece of the side that leads, then what of the other is not beyond it, and a row.

    By that row it is known how far the other side has come, lest rows of the leader wait in front of a gap. Rows of the
    side that follows are dropped as they come, but for the window, so that only the leader's are searched through: it
    is the side of which the band compares the fewest expressions.
    """

    leader: int
    sides: tuple[Ordered, Ordered]

    def turns(self, most: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """(side, rows of it, none more than ``most``); (side, None) once at its end."""
        lead, follow = _Side(self.sides[self.leader]), _Side(self.sides[1 - self.leader])
        other = 1 - self.leader
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
    """What was read of a side, and not given yet."""

    def __init__(self, batches: Ordered) -> None:
        self._batches = batches
        self._held: tuple[pa.RecordBatch, np.ndarray] | None = None
        self._at = 0
        self.ended = False
        self.reached = -(2**63)  # of the last row that was given

    def piece(self, most: int, limit: int | None = None) -> pa.RecordBatch | None:
        """The next rows: up to the first one beyond a limit, that one too. None at the end."""
        while self._held is None or self._at >= self._held[0].num_rows:
            self._held, self._at = next(self._batches, None), 0
            if self._held is None:
                self.ended = True
                return None
        batch, values = self._held
        rows = min(most, batch.num_rows - self._at)
        if limit is not None:
            rows = min(rows, int(np.searchsorted(values[self._at :], limit, side="right")) + 1)
        piece = batch.slice(self._at, rows)
        self._at += rows
        self.reached = int(values[self._at - 1])
        return piece
