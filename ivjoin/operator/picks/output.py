"""Output rows of a join that picks: left rows and their matches, column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.operator.picks.offered import Offered
from ivjoin.operator.picks.waiting import Waiting

__all__ = ["LeftRows", "RightPart", "RightRows"]


class LeftRows:
    """Some left rows to emit; ``rows`` rise."""

    def __init__(self, waiting: Waiting, rows: np.ndarray, places: list[int]) -> None:
        self._waiting, self._places, self._n = waiting, places, len(rows)
        together = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        self._rows = slice(int(rows[0]), int(rows[-1]) + 1) if together else rows

    def __len__(self) -> int:
        return self._n

    def column(self, index: int) -> pa.Array:
        return self._waiting.column(self._places[index], self._rows)


class RightRows:
    """The matches of left rows; nulls for unmatched rows."""

    def __init__(self, offered: Offered, best: np.ndarray, places: list[int]) -> None:
        self._offered, self._best, self._places = offered, best, places
        none = best < 0
        self._none = none if none.any() else None
        self._gathered: dict[int, pa.Array] = {}

    def __len__(self) -> int:
        return len(self._best)

    def column(self, index: int) -> pa.Array:
        return self._offered.payload.column(self._places[index], self._best, self._none)

    def part(self, cut: slice, together: bool = True) -> RightRows | RightPart:
        """Return a part.

        If the stored columns lie in several batches, all matches are gathered at the first part, unless they do not fit
        one array (``together=False``).
        """
        if len(self) == cut.stop - cut.start:
            return self
        payload = self._offered.payload
        if together and len(payload.batches) > 1 and not payload.filed_rows:
            return RightPart(self, cut)
        return RightRows(self._offered, self._best[cut], self._places)

    def whole(self, index: int) -> pa.Array:
        """Return a column of all matches, gathered once."""
        if index not in self._gathered:
            self._gathered[index] = self.column(index)
        return self._gathered[index]


class RightPart:
    """A range of the rows of a :class:`RightRows`."""

    def __init__(self, of: RightRows, cut: slice) -> None:
        self._of, self._start, self._rows = of, cut.start, cut.stop - cut.start

    def __len__(self) -> int:
        return self._rows

    def column(self, index: int) -> pa.Array:
        return self._of.whole(index).slice(self._start, self._rows)
