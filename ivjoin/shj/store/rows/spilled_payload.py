"""Store payload in files: one record for each row with its fixed-width values, and logs of the bytes of text.

Rows are found by their ids, so no part of the payload stays in memory. An output batch reads its records once for all
of its columns. The disk space of evicted rows is reused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.shj import arrow
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.disk.logs import Log
from ivjoin.shj.store.rows.stored_rows import StoredRows
from ivjoin.shj.store.values.columns import BoolColumn, WordColumn
from ivjoin.shj.store.values.rings import Column
from ivjoin.shj.store.values.texts import BytesColumn, text_array, text_bytes

__all__ = ["InFile", "Records", "can_spill", "spill_columns"]

_AT_ONCE = 1 << 20  # bytes of records or text that are copied at once
_TEXT = 16  # bytes of a text's start in its log and of its length
_LEAST_MARKED = 1024  # rows between two marks


class Records:
    """The records of some columns of a side, from row id ``first`` on. ``reserve`` raises MemoryLimitError."""

    def __init__(self, files: Files, types: Sequence[pa.DataType], first: int) -> None:
        self._files, self.types = files, list(types)
        self._texts = {i: Log(files) for i, t in enumerate(types) if arrow.offset_width(t) is not None}
        self._widths = [
            1 if pa.types.is_boolean(t) else _TEXT if i in self._texts else arrow.byte_width(t) or 0
            for i, t in enumerate(types)
        ]
        self._bits = sum(self._widths)
        self._at = [0] * len(types)
        at = 0
        for i in sorted(range(len(types)), key=lambda i: -self._widths[i] % 8):  # this order aligns words
            self._at[i] = at
            at += self._widths[i]
        self.row_size = -(-(self._bits + -(-len(types) // 8)) // 8) * 8
        self._log, self._first = Log(files), first
        self._nulls = [False] * len(types)  # whether each column has had a NULL
        self._staged: dict[int, pa.Array] = {}
        self._read: tuple[ref[np.ndarray], np.ndarray] | None = None
        self._marks: deque[tuple[int, list[int]]] = deque()  # the numbers of some rows, and where their texts begin

    @property
    def nbytes(self) -> int:
        return sum(log.top - log.low for log in (self._log, *self._texts.values()))

    def reserve(self, n: int) -> None:
        self._log.reserve(n * self.row_size)

    def reserve_text(self, i: int, array: pa.Array) -> None:
        """Reserve disk space for more values of a text column."""
        if i in self._texts:
            self._texts[i].reserve(text_bytes(array))

    def append(self, i: int, array: pa.Array) -> None:
        """Store the values of a column temporarily. When all columns are present, write the rows."""
        self._staged[i] = array
        if len(self._staged) == len(self.types):
            arrays, self._staged = self._staged, {}
            self.write([arrays[k] for k in range(len(self.types))])

    def write(self, arrays: Sequence[pa.Array]) -> None:
        step = max(1, _AT_ONCE // self.row_size)
        if self._texts:
            step = min(step, 4 * _LEAST_MARKED)
        for start in range(0, len(arrays[0]), step):
            self._write([array.slice(start, step) for array in arrays])

    def _write(self, arrays: list[pa.Array]) -> None:
        n = len(arrays[0])
        row = self._log.top // self.row_size
        if self._texts and (not self._marks or row >= self._marks[-1][0] + _LEAST_MARKED):
            self._marks.append((row, [log.top for log in self._texts.values()]))
        records = np.empty((n, self.row_size), dtype=np.uint8)
        records[:, self._bits :] = 255
        for i, (array, width) in enumerate(zip(arrays, self._widths, strict=True)):
            field = self.field(records, i)
            if i in self._texts:
                piece, log = Bytes.of(array), self._texts[i]
                low, high = int(piece.offsets[0]), int(piece.offsets[-1])
                field[:, 0], field[:, 1] = piece.offsets[:-1] + (log.top - low), np.diff(piece.offsets)
                log.append(piece.buffer[low:high])
            elif pa.types.is_boolean(array.type):
                field[:] = arrow.truths(array)
            elif width:
                field[:] = arrow.fixed_view(array, width)
            if array.null_count:
                self._nulls[i] = True
                valid = arrow.validity(array)
                assert valid is not None
                records[~valid, self._bits + i // 8] &= 255 ^ (1 << i % 8)
        self._log.append(records.reshape(-1))

    def field(self, records: np.ndarray, i: int) -> np.ndarray:
        """Return a column in records as a view of raw words. For text, these are starts and lengths : uint64[n, 2]."""
        width, n = self._widths[i], len(records)
        word, shape = arrow.words_of(width)
        size = np.dtype(word).itemsize
        if not n:
            return np.empty((0, *shape), word)
        return np.ndarray(
            (n, *shape), word, records.data, self._at[i], (self.row_size, size) if shape else (self.row_size,)
        )

    def rows(self, ids: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the records of rows : uint8[n, row_size]. The last result is cached for the same ``places`` object."""
        if self._read is None or self._read[0]() is not places:
            self._read = None
            n, size = len(ids), self.row_size
            out = np.empty((n, size), dtype=np.uint8)
            begins = (ids - self._first) * size
            outs = np.arange(n, dtype=np.int64) * size
            self._log.read(begins, np.full(n, size, np.int64), outs, out.reshape(-1))
            self._read = ref(places), out
        return self._read[1]

    def column(self, i: int, records: np.ndarray) -> pa.Array:
        t, valid = self.types[i], self._valid_of(records, i)
        values = np.ascontiguousarray(self.field(records, i))
        if i in self._texts:
            begins, sizes = np.ascontiguousarray(values.T).view(np.int64)
            offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
            np.cumsum(sizes, out=offsets[1:])
            out = np.empty(int(offsets[-1]), dtype=np.uint8)
            self._texts[i].read(begins, sizes, offsets[:-1], out)
            return text_array(t, Bytes(offsets, out), valid)
        if not pa.types.is_boolean(t):
            return arrow.fixed_array(values, valid, t)
        return arrow.over_buffers(t, len(values), valid, arrow.bitmap(values))

    def _valid_of(self, records: np.ndarray, i: int) -> np.ndarray | None:
        if not self._nulls[i]:
            return None
        valid = (records[:, self._bits + i // 8] >> (i % 8) & 1).astype(bool)
        return None if valid.all() else valid

    def forget(self) -> None:
        self._read = None

    def select(self, ids: np.ndarray) -> None:
        """Retain only these rows, renumbered from 0."""
        new = Records(self._files, self.types, 0)
        new.reserve(len(ids))
        for some in self._pieces(ids):
            records = self.rows(some, some)
            new.write([self.column(i, records) for i in range(len(self.types))])
        self._log, self._texts, self._marks, self._first = new._log, new._texts, new._marks, 0
        self.forget()

    def _pieces(self, ids: np.ndarray) -> Iterator[np.ndarray]:
        """Cut rows into pieces whose text and records have about 1 MiB on average."""
        rows = max(1, self._log.top - self._log.low) // self.row_size
        step = max(1, _AT_ONCE * max(1, rows) // max(1, self.nbytes))
        return (ids[start : start + step] for start in range(0, len(ids), step))

    def trim(self, lo: int) -> None:
        """Forget rows below ``lo``. Their texts stay back to a mark, at most about 5,000 rows earlier."""
        row = lo - self._first
        self._log.trim(row * self.row_size)
        while len(self._marks) > 1 and self._marks[1][0] <= row:
            self._marks.popleft()
        for k, log in enumerate(self._texts.values()):
            log.trim(self._marks[0][1][k] if row * self.row_size < self._log.top else log.top)


class InFile:
    """A stored column whose values are column ``i`` of records."""

    varies = True
    valid = None  # validity is in the records
    nbytes = row_bytes = 0
    lies_in_files = True

    def __init__(self, records: Records, i: int) -> None:
        self.type, self.records, self._i = records.types[i], records, i

    @property
    def leads(self) -> bool:
        """Whether this is the first column of its records, which does the work that all columns share."""
        return self._i == 0

    def disk(self) -> int:
        """Return an upper bound of the bytes that the stored rows need when they are written again."""
        return self.records.nbytes if self.leads else 0

    def reserve(self, array: pa.Array) -> None:
        if self.leads:
            self.records.reserve(len(array))
        self.records.reserve_text(self._i, array)

    def append(self, array: pa.Array, first: int) -> None:
        self.records.append(self._i, array)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        pass

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return self.records.column(self._i, self.records.rows(ids, places))

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        if self.leads:
            self.records.select(ids)

    def trim(self, lo: int) -> None:
        if self.leads:
            self.records.trim(lo)


def can_spill(c: Column) -> bool:
    return isinstance(c, (WordColumn, BoolColumn, BytesColumn))


def spill_columns(store: StoredRows, which: Sequence[int], files: Files) -> None:
    """Move some columns of a store to files. ``which`` are their positions.

    If the disk is full, change nothing and raise MemoryLimitError.
    """
    columns: list[Column] = [store.columns[c] for c in which]
    records = Records(files, [c.type for c in columns], store.lo)
    records.reserve(store.hi - store.lo)
    size = records.row_size + sum(c.used // max(1, store.hi - store.lo) for c in columns if isinstance(c, BytesColumn))
    step = max(16, _AT_ONCE // max(size, 64))
    for start in range(store.lo, store.hi, step):
        ids = np.arange(start, min(start + step, store.hi), dtype=np.int64)
        places = store.places(ids)
        records.write([c.gather(ids, places) for c in columns])
    for i, k in enumerate(which):
        store.columns[k] = InFile(records, i)
        store._rings[store.stored[k]] = 0
    store.sort_columns()
    store.point()
