"""Stored columns as record batches in order of arrival; the first batches may lie in files.

A file is mapped, so rows are gathered from it as from memory. A new file is merged with those before it that are no
larger. So there are few files, and a row is written about log2(number of files) times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.shj.arrow import bitmap, taken, whole_numbers
from ivjoin.shj.dictionaries import has_dictionaries, one_array, rows_of
from ivjoin.shj.nested import has_unions
from ivjoin.shj.store.disk.backing import Files, kept_pool, moving
from ivjoin.shj.store.disk.filed import AT_ONCE, filed

__all__ = ["Chunks", "alone", "empty_rows", "joined"]

_SMALL = 4096  # rows of a batch up to which it is merged with the one before
_MOST = 1 << 30  # bytes of batches that are merged; an array of text holds 2 GiB
_PIECE = AT_ONCE // 4  # bytes of a batch in a file


class Chunks:
    """Rows as a list of record batches.

    Attributes
    ----------
    schema : pa.Schema
    limited : bool
        Whether memory is limited, so that each batch owns its memory and can free it.
    batches : list of pa.RecordBatch
    rows : int
    nbytes : int
        Bytes in memory.
    """

    def __init__(self, schema: pa.Schema, limited: bool = False) -> None:
        self.schema, self.limited = schema, limited
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.nbytes = 0
        self._filed: list[tuple[int, int]] = []  # of each file: batches, and bytes
        self._files: Files | None = None

    def anew(self) -> Chunks:
        """Return an empty one for the same columns."""
        return Chunks(self.schema, self.limited)

    @property
    def _n_filed(self) -> int:
        return sum(n for n, _ in self._filed)

    @property
    def filed_rows(self) -> int:
        """The number of rows in files; they are the first ones."""
        return sum(b.num_rows for b in self.batches[: self._n_filed])

    def add(self, batch: pa.RecordBatch) -> None:
        batch = alone(batch) if self.limited else batch
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.nbytes += batch.nbytes
        # Small batches are merged, so each row is copied up to log2(_SMALL) times.
        while len(self.batches) > self._n_filed + 1:
            a, b = self.batches[-2].num_rows, self.batches[-1].num_rows
            if a > 2 * b or a + b > _SMALL or self.batches[-2].nbytes + self.batches[-1].nbytes > _MOST:
                break
            self.batches[-2:] = [joined(self.batches[-2:], self._pool)]

    @property
    def _pool(self) -> pa.MemoryPool | None:
        return kept_pool() if self.limited else None

    def column(self, i: int, at: np.ndarray, none: np.ndarray | None = None) -> pa.Array:
        """Return a column of the rows at ``at``; null where ``none`` is True."""
        index = whole_numbers(at) if none is None else _with_nulls(at, none)
        if not self.batches:
            return pa.nulls(len(at), self.schema.field(i).type)
        parts = [b.column(i) for b in self.batches]
        if len(parts) == 1:
            return taken(parts[0], index)
        firsts = np.cumsum([0, *map(len, parts[:-1])]).tolist()
        read = self._files.ease if self._files is not None else None
        if none is None:
            return rows_of(parts, firsts, at, read)
        found = np.flatnonzero(~none)
        if not len(found):
            return pa.nulls(len(at), parts[0].type)
        places = np.zeros(len(at), dtype=np.int64)
        places[found] = np.arange(len(found))
        return taken(rows_of(parts, firsts, at[found], read), _with_nulls(places, none))

    def keep(self, at: np.ndarray) -> None:
        """Keep only the rows at ``at``, which rise. Rows in files are rewritten only if some are dropped."""
        if len(at) == self.rows:
            return
        batches, self.rows = self.batches, len(at)
        if not self.limited:  # one batch, because gathering from one is faster than from many
            self.batches = list(_together(_those(batches, at)))
            self.nbytes = sum(b.nbytes for b in self.batches)
            return
        files, start, i = self._filed, 0, 0
        self.batches, self._filed, self.nbytes = [], [], 0
        for n, size in files:
            mine = batches[i : i + n]
            rows = sum(b.num_rows for b in mine)
            low, high = np.searchsorted(at, (start, start + rows))
            if high - low == rows:
                self.batches += mine
                self._filed.append((n, size))
            elif high > low:
                self._put(mine, at[low:high] - start)
            i, start = i + n, start + rows
        rest, few = batches[i:][::-1], list[pa.RecordBatch]()
        del batches
        low, n = int(np.searchsorted(at, start)), 0
        while rest:  # each batch is freed before the next is read
            batch = rest.pop()
            high = int(np.searchsorted(at, start + batch.num_rows))
            if few and n + high - low > _SMALL:
                self.batches.append(joined(few, kept_pool()))
                few, n = [], 0
            few += _those([batch], at[low:high] - start, kept_pool())
            n += high - low
            start, low = start + batch.num_rows, high
        self.batches += [joined(few, kept_pool())] if few else []
        self.nbytes = sum(b.nbytes for b in self.batches[self._n_filed :])

    def _put(self, batches: list[pa.RecordBatch], at: np.ndarray) -> None:
        """Write the rows at ``at`` of some batches to a new file."""
        assert self._files is not None
        with moving():
            there = filed(lambda: _in_pieces(_those(batches, at, kept_pool())), self._files)
        self.batches += there
        self._filed.append((len(there), sum(b.nbytes for b in there)))

    def spill(self, files: Files) -> bool:
        """Move all rows to files; return whether any were in memory.

        Raises
        ------
        MemoryLimitError
            If the disk is full. Nothing has changed then.
        """
        size, there = self.nbytes, list(self._filed)
        if not size:
            return False
        start = self._n_filed
        while there and there[-1][1] <= size:
            n, more = there.pop()
            start, size = start - n, size + more
        kept = self.batches[start:]
        if any(map(has_dictionaries, self.schema.types)):  # a file has one dictionary for all rows
            kept = [joined(kept)]
        self._files = files
        written = filed(lambda: _in_pieces(iter(kept)), files)
        self.batches[start:] = written
        self._filed = [*there, (len(written), size)]
        self.nbytes = 0
        return True


def _those(
    batches: Sequence[pa.RecordBatch], at: np.ndarray, pool: pa.MemoryPool | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at ``at``, which rise, of some batches."""
    start = 0
    for batch in batches:
        low, high = np.searchsorted(at, (start, start + batch.num_rows))
        if high > low:
            whole = high - low == batch.num_rows
            yield batch if whole else taken(batch, whole_numbers(at[low:high] - start), pool)
        start += batch.num_rows


def _in_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches that are neither large nor small."""
    few: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if few and (size + batch.nbytes > _PIECE or any(map(has_dictionaries, batch.schema.types))):
            yield joined(few, kept_pool())
            few, size = [], 0
        if batch.nbytes > _PIECE:
            step = max(1, batch.num_rows * _PIECE // batch.nbytes)
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)
        else:
            few.append(batch)
            size += batch.nbytes
    if few:
        yield joined(few, kept_pool())


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in as few batches as fit an array of text."""
    few: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if few and size + batch.nbytes > _MOST:
            yield joined(few)
            few, size = [], 0
        few.append(batch)
        size += batch.nbytes
    if few:
        yield joined(few)


def alone(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy rows to memory of their own that can be freed; dictionaries and unions are not copied."""
    arrays = [
        c if has_dictionaries(c.type) or has_unions(c.type) else pa.concat_arrays([c], memory_pool=kept_pool())
        for c in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema) if arrays else batch


def joined(batches: Sequence[pa.RecordBatch], pool: pa.MemoryPool | None = None) -> pa.RecordBatch:
    """Concatenate batches."""
    if len(batches) == 1:
        return batches[0]
    schema = batches[0].schema
    arrays = [one_array([b.column(i) for b in batches], pool) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else empty_rows(sum(b.num_rows for b in batches))


def empty_rows(n: int) -> pa.RecordBatch:
    """Return n rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * n, pa.struct([])))


def _with_nulls(at: np.ndarray, none: np.ndarray) -> pa.Array:
    valid = ~none
    data = pa.py_buffer(np.ascontiguousarray(np.where(valid, at, 0)))
    return pa.Array.from_buffers(pa.int64(), len(at), [bitmap(valid), data])
