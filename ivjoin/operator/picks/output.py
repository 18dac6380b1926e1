"""What is put out: left rows and their partners, column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.operator.picks.offered import Offered
from ivjoin.shj.arrow import taken, whole_numbers

__all__ = ["LeftRows", "RightRows", "empty_rows"]


class LeftRows:
    """Some left rows, for output; they rise."""

    def __init__(self, batch: pa.RecordBatch, rows: np.ndarray, places: list[int]) -> None:
        self._batch, self._rows, self._places = batch, rows, places
        together = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        self._index = None if together else whole_numbers(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, index: int) -> pa.Array:
        column = self._batch.column(self._places[index])
        return column.slice(self._rows[0], len(self._rows)) if self._index is None else taken(column, self._index)


class RightRows:
    """The partners of left rows, null where there is none."""

    def __init__(self, offered: Offered, best: np.ndarray, places: list[int]) -> None:
        self._offered, self._best, self._places = offered, best, places
        none = best < 0
        self._none = none if none.any() else None

    def __len__(self) -> int:
        return len(self._best)

    def column(self, index: int) -> pa.Array:
        return self._offered.payload.column(self._places[index], self._best, self._none)


def empty_rows(n: int) -> pa.RecordBatch:
    """Rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))
