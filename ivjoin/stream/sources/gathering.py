"""Turn the batches of an input into the pieces that a join pushes: cut long batches, and concatenate short ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ivjoin.shj.plain import in_few_batches

__all__ = ["Pieces", "table_of"]

# If the whole input is in memory, smaller pieces are concatenated. Waiting for more of them costs nothing, and a push
# of few rows costs as much as a push of many.
_GATHERED_ROWS = 2048


class Pieces:
    """The batches of one input, read at most one ahead. ``whole``: the whole input is in memory."""

    def __init__(self, batches: Iterator[pa.RecordBatch], most: int, whole: bool = False) -> None:
        self._batches = batches
        self._coalesce = _GATHERED_ROWS if whole else 0
        self._most = most
        self._batch: pa.RecordBatch | None = None
        self._gathered: list[pa.RecordBatch] = []  # the next batches in reverse order
        self._at = 0
        self.rows = 0

    def next(self) -> pa.RecordBatch | None:
        """Return the next piece, or None at the end."""
        while self._batch is None or self._at >= self._batch.num_rows:
            self._batch, self._at = self._read(), 0
            if self._batch is None:
                return None
        piece = self._batch.slice(self._at, self._most) if self._batch.num_rows > self._most else self._batch
        self._at += piece.num_rows
        self.rows += piece.num_rows
        return piece

    def _read(self) -> pa.RecordBatch | None:
        if self._gathered:
            return self._gathered.pop()
        batch = next(self._batches, None)
        if batch is None or batch.num_rows >= self._coalesce:
            return batch
        parts, rows = [batch], batch.num_rows
        while rows < self._coalesce:
            more = next(self._batches, None)
            if more is None:
                break
            parts.append(more)
            rows += more.num_rows
        if len(parts) == 1:
            return batch
        self._gathered = in_few_batches(parts)[::-1]
        return self._gathered.pop() if self._gathered else batch


def table_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the rows of batches as a table. The schemas of the batches may exclude NULLs that this schema allows."""
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches], schema)
