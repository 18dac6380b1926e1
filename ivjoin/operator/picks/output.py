"""What is put out: left rows and their partners, column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.operator.picks.offered import Offered
from ivjoin.operator.picks.waiting import Waiting

__all__ = ["LeftRows", "RightPart", "RightRows"]


class LeftRows:
    """Some left rows, for output; they rise."""

    def __init__(self, waiting: Waiting, rows: np.ndarray, places: list[int]) -> None:
        self._waiting, self._places, self._n = waiting, places, len(rows)
        together = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        self._rows = slice(int(rows[0]), int(rows[-1]) + 1) if together else rows

    def __len__(self) -> int:
        return self._n

    def column(self, index: int) -> pa.Array:
        return self._waiting.column(self._places[index], self._rows)


class RightRows:
    """The partners of left rows, null where there is none."""

    def __init__(self, offered: Offered, best: np.ndarray, places: list[int]) -> None:
        self._offered, self._best, self._places = offered, best, places
        none = best < 0
        self._none = none if none.any() else None
        self._gathered: dict[int, pa.Array] = {}

    def __len__(self) -> int:
        return len(self._best)

    def column(self, index: int) -> pa.Array:
        return self._offered.payload.column(self._places[index], self._best, self._none)

    def part(self, cut: slice) -> RightRows | RightPart:
        """Some of them. Of a payload in pieces, which Arrow puts together for each look, all are gathered at once."""
        if len(self) == cut.stop - cut.start:
            return self
        payload = self._offered.payload
        if len(payload.batches) > 1 and not payload.filed_rows:
            return RightPart(self, cut)
        return RightRows(self._offered, self._best[cut], self._places)

    def whole(self, index: int) -> pa.Array:
        """A column, kept."""
        if index not in self._gathered:
            self._gathered[index] = self.column(index)
        return self._gathered[index]


class RightPart:
    """Some rows next to each other."""

    def __init__(self, of: RightRows, cut: slice) -> None:
        self._of, self._start, self._rows = of, cut.start, cut.stop - cut.start

    def __len__(self) -> int:
        return self._rows

    def column(self, index: int) -> pa.Array:
        return self._of.whole(index).slice(self._start, self._rows)
