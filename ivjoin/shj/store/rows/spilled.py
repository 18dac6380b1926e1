"""Payload in files: records of fixed-width columns, and logs of the bytes of text, both in the order of arrival.

Rows are found by their ids, so only the starts of text stay in memory. The records that an output batch needs are read
once for all of its columns. Rows that no output needs are never read. The disk space of evicted rows is reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from weakref import ref

import numpy as np
import pyarrow as pa

from ivjoin.shj import arrow
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.store.disk.backing import Files, fresh, in_memory
from ivjoin.shj.store.disk.logs import Log
from ivjoin.shj.store.disk.pages import paged
from ivjoin.shj.store.values.rings import put, regrown
from ivjoin.shj.store.values.varying import BytesColumn, text_array

__all__ = ["FixedInFile", "Records", "TextInFile"]

_AT_ONCE = 1 << 20  # bytes of records or text that are copied at once
_NARROW = 2**32


class Records:
    """The records of some columns of a side.

    Parameters
    ----------
    files : Files
    types : list of pa.DataType
        Types of the columns. For text, which lies elsewhere, a record stores the validity alone.
    first : int
        Id of the first row.
    """

    def __init__(self, files: Files, types: Sequence[pa.DataType], first: int) -> None:
        self._files = files
        self._widths = [1 if pa.types.is_boolean(t) else arrow.byte_width(t) or 0 for t in types]
        self._bits = sum(self._widths)
        self._at = [0] * len(types)
        at = 0
        for i in sorted(range(len(types)), key=lambda i: -self._widths[i] % 8):  # keeps words aligned
            self._at[i] = at
            at += self._widths[i]
        self.row_size = -(-(self._bits + -(-len(types) // 8)) // 8) * 8
        self._log, self._first = Log(files), first
        self._nulls = [False] * len(types)  # whether the column has had a null
        self._staged: dict[int, pa.Array] = {}
        self._read: tuple[ref[np.ndarray], np.ndarray] | None = None
        self._scratch = np.empty(0, dtype=np.uint8)

    def reserve(self, n: int) -> None:
        """Reserve disk space for n more rows; raises MemoryLimitError if there is not enough."""
        self._log.reserve(n * self.row_size)

    def append(self, i: int, array: pa.Array) -> None:
        """Stage the values of a column. Once all columns are staged, write the rows."""
        self._staged[i] = array
        if len(self._staged) == len(self._widths):
            step = max(1, _AT_ONCE // self.row_size)
            n = len(array)
            for start in range(0, n, step):
                self._write([self._staged[k].slice(start, step) for k in range(len(self._widths))])
            self._staged = {}

    def _write(self, arrays: list[pa.Array]) -> None:
        n = len(arrays[0])
        records = np.empty((n, self.row_size), dtype=np.uint8)
        records[:, self._bits :] = 255
        for i, (array, width) in enumerate(zip(arrays, self._widths, strict=True)):
            if pa.types.is_boolean(array.type):
                bits = np.frombuffer(array.buffers()[1], dtype=np.uint8)
                values = np.unpackbits(bits, count=array.offset + n, bitorder="little")[array.offset :]
                self.field(records, i)[:] = values
            elif width:
                self.field(records, i)[:] = arrow.fixed_view(array, width)
            if array.null_count:
                self._nulls[i] = True
                valid = arrow.validity(array)
                assert valid is not None
                records[~valid, self._bits + i // 8] &= 255 ^ (1 << i % 8)
        self._log.append(records.reshape(-1))

    def field(self, records: np.ndarray, i: int) -> np.ndarray:
        """Return the values of a column in records, as a view."""
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

    def read_for_kernels(self, ids: np.ndarray) -> int:
        """Read the records of rows one after another into a reused buffer, and return its address."""
        n, size = len(ids), self.row_size
        if len(self._scratch) < n * size:
            self._scratch = paged((n * size,), np.dtype(np.uint8))
        self._log.read(
            (ids - self._first) * size, np.full(n, size, np.int64), np.arange(n, dtype=np.int64) * size, self._scratch
        )
        return address(self._scratch)

    def ring_of(self, i: int, records: int) -> tuple[int, int, int, int]:
        """Return the RING entries of a column whose records were read to an address."""
        valid = records + self._bits + i // 8 if self._nulls[i] else 0
        return records + self._at[i], self.row_size, valid, 1 << i % 8

    def values(self, i: int, ids: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return a column's values as raw words."""
        return np.ascontiguousarray(self.field(self.rows(ids, places), i))

    def valid(self, i: int, ids: np.ndarray, places: np.ndarray) -> np.ndarray | None:
        """Return where a column's values are valid : bool[n]; None if all are."""
        return self.valid_of(self.rows(ids, places), i) if self._nulls[i] else None

    def valid_of(self, records: np.ndarray, i: int) -> np.ndarray | None:
        """Return in which records a column's value is valid : bool[n]; None if all are."""
        if not self._nulls[i]:
            return None
        valid = (records[:, self._bits + i // 8] >> (i % 8) & 1).astype(bool)
        return None if valid.all() else valid

    @staticmethod
    def array(t: pa.DataType, values: np.ndarray, valid: np.ndarray | None) -> pa.Array:
        """Return raw words, or bytes for bools, as an array."""
        if not pa.types.is_boolean(t):
            return arrow.fixed_array(values, valid, t)
        nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
        validity = None if valid is None else arrow.bitmap(valid)
        return pa.Array.from_buffers(t, len(values), [validity, arrow.bitmap(values)], nulls)

    def forget(self) -> None:
        """Free the records that were read last."""
        self._read = None
        self._scratch = np.empty(0, dtype=np.uint8)

    def select(self, ids: np.ndarray) -> None:
        """Keep these rows, as ids 0, 1, ..."""
        self.forget()
        log = Log(self._files)
        step = max(1, _AT_ONCE // self.row_size)
        log.reserve(len(ids) * self.row_size)
        for start in range(0, len(ids), step):
            some = ids[start : start + step]
            log.append(self.rows(some, some).reshape(-1))
        self._log, self._first = log, 0
        self.forget()

    def trim(self, lo: int) -> None:
        self._log.trim((lo - self._first) * self.row_size)


class FixedInFile:
    """A column of fixed width, or of bools, whose values are in records.

    Parameters
    ----------
    t : pa.DataType
    records : Records
    i : int
        The column's position in the records.
    """

    varies = True
    valid = None  # validity is in the records
    nbytes = row_bytes = 0
    lies_in_files = True

    def __init__(self, t: pa.DataType, records: Records, i: int) -> None:
        self.type = t
        self.records = records
        self._i = i

    @property
    def leads(self) -> bool:
        """Whether it is the first column of its records, which does the work that all of them share."""
        return self._i == 0

    def disk(self, rows: int) -> int:
        """Return the bytes that ``rows`` stored rows take when they are written again."""
        return rows * self.records.row_size if self.leads else 0

    def append(self, array: pa.Array, first: int) -> None:
        self.records.append(self._i, array)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        pass

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        values = self.records.values(self._i, ids, places)
        valid = self.records.valid(self._i, ids, places)
        return self.records.array(self.type, values, valid)

    def ring(self, records: int) -> tuple[int, int, int, int]:
        """Return its RING entries once its records were read to an address."""
        return self.records.ring_of(self._i, records)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        if self.leads:
            self.records.select(ids)

    def trim(self, lo: int) -> None:
        if self.leads:
            self.records.trim(lo)


class TextInFile:
    """Strings or binaries in a log. Their starts stay in memory, as in ``BytesColumn``.

    Parameters
    ----------
    column : BytesColumn
        The column in memory, which it replaces.
    records : Records
    i : int
        The column's position in the records.
    files : Files
    lo : int
        Id of the first row.
    """

    varies = True
    valid = None
    lies_in_files = True

    def __init__(self, column: BytesColumn, records: Records, i: int, files: Files, lo: int) -> None:
        self.type = column.type
        self.records = records
        self._i, self._files = i, files
        self._starts, self._next, top = column._starts, column._next, column._top
        dead = int(column._offsets(self._starts[lo % len(self._starts)][None])[0]) if lo < self._next else column.used
        self._log = Log(files, column._base + dead)
        self._log.reserve(column.used - dead)
        for start in range(dead, column.used, _AT_ONCE):
            self._log.append(column._arena[start : min(start + _AT_ONCE, column.used)])
        assert self._log.top == top, "text that was written elsewhere than it is looked for"

    @property
    def leads(self) -> bool:
        return self._i == 0

    @property
    def nbytes(self) -> int:
        return in_memory(self._starts)

    @property
    def row_bytes(self) -> int:
        return self._starts.itemsize if in_memory(self._starts) else 0

    def reserve(self, size: int) -> None:
        """Reserve disk space for ``size`` more bytes; raises MemoryLimitError if there is not enough."""
        self._log.reserve(size)

    def disk(self, rows: int) -> int:
        """Return an upper bound of the bytes that ``rows`` stored rows take when they are written again."""
        return self._log.top - self._log.low + (rows * self.records.row_size if self.leads else 0)

    def more_memory(self, size: int) -> int:
        """Return the bytes of memory that ``size`` more bytes of text take."""
        return self._starts.nbytes if self._must_widen(size) else 0

    def _must_widen(self, size: int) -> bool:
        return self._log.top + size - self._log.low >= _NARROW and self._starts.dtype == np.uint32

    def append(self, array: pa.Array, first: int) -> None:
        piece = Bytes.of(array)
        low, high = int(piece.offsets[0]), int(piece.offsets[-1])
        if self._must_widen(high - low):
            self._starts = self._positions(self._starts).astype(np.uint64)
        starts = piece.offsets[:-1] + (self._log.top - low)
        put(self._starts, first, starts.astype(self._starts.dtype))
        self._log.append(piece.buffer[low:high])
        self._next = first + len(array)
        self.records.append(self._i, array)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._starts = regrown(self._starts, cap, lo, hi)

    def _positions(self, starts: np.ndarray) -> np.ndarray:
        """Return the positions of these starts in the log : int64[n]."""
        modulus = 1 << 8 * starts.itemsize
        return (starts - starts.dtype.type(self._log.low % modulus)).astype(np.int64) + self._log.low

    def _spans(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where rows begin in the log, and their lengths : int64[n] each."""
        starts = self._starts
        after = places + 1
        after[after == len(starts)] = 0
        begins, ends = self._positions(starts.take(places)), self._positions(starts.take(after))
        ends[after == self._next % len(starts)] = self._log.top
        return begins, ends - begins

    def _text(self, places: np.ndarray) -> Bytes:
        begins, sizes = self._spans(places)
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        out = np.empty(int(offsets[-1]), dtype=np.uint8)
        self._log.read(begins, sizes, offsets[:-1], out)
        return Bytes(offsets, out)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return text_array(self.type, self._text(places), self.records.valid(self._i, ids, places))

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        self.records.forget()
        _, sizes = self._spans(places)
        log = Log(self._files)
        log.reserve(int(sizes.sum()))
        for some in _pieces(sizes):
            log.append(self._text(places[some]).buffer)
        starts = np.cumsum(sizes) - sizes
        self._starts = fresh(self._starts, cap, np.uint32 if log.top < _NARROW else np.uint64)
        self._starts[: len(ids)] = starts
        self._log, self._next = log, len(ids)
        if self.leads:
            self.records.select(ids)

    def trim(self, lo: int) -> None:
        at = lo % len(self._starts)
        low = int(self._positions(self._starts[at : at + 1])[0]) if lo < self._next else self._log.top
        self._log.trim(low)
        if self.leads:
            self.records.trim(lo)


def _pieces(sizes: np.ndarray) -> list[slice]:
    """Cut rows of these sizes into slices of about 1 MiB."""
    if not len(sizes):
        return []
    which = (np.cumsum(sizes) + 64 * np.arange(len(sizes))) // _AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(sizes)]
    return [slice(a, b) for a, b in pairwise(cuts)]
