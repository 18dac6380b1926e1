"""Store rows of one side in files with their index. Find rows by a hash of their key, and read those that may match.

A row takes nine bytes of memory: a word with its key's hash and its number, and a byte of flags. The words are in
sorted runs, which are merged so that few remain (a log-structured merge, O'Neil, Cheng, Gawlick and O'Neil, 1996). Axes
and payload form one record in a log, in the order of arrival. For each block of rows, the least and greatest value of
every axis stay in memory, so a block behind the frontier is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.shj import arrow
from ivjoin.shj.kernels.push import hash_run_kernels
from ivjoin.shj.registers import I64_MAX
from ivjoin.shj.store.disk.backing import Files, fresh, in_memory
from ivjoin.shj.store.rows.spilled_payload import Records

__all__ = ["SpilledRows", "ReadRows", "can_spill_rows"]

LIVE, MATCHED = hash_run_kernels.LIVE, 2
_CACHED = 2  # number of blocks whose axes are cached
_MOST_MERGED = 1 << 19  # a run with more entries is not merged with a younger run
_CANDIDATES = 1 << 16  # greatest number of candidate rows that one search returns
_LOW = 0xFFFFFFFF
_DROPPED = 31  # low bits of a 63-bit hash that runs do not store
_TO_LOOK_THROUGH = 8  # average number of entries that share their first bits


def can_spill_rows(t: pa.DataType) -> bool:
    return pa.types.is_boolean(t) or bool(arrow.byte_width(t)) or arrow.offset_width(t) is not None


class ReadRows:
    """Rows whose records have been read. ``numbers`` : int64[n]."""

    __slots__ = ("_records", "_rows", "numbers")

    def __init__(self, rows: SpilledRows, numbers: np.ndarray, records: np.ndarray) -> None:
        self._rows, self.numbers, self._records = rows, numbers, records

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, index: np.ndarray | slice) -> ReadRows:
        return ReadRows(self._rows, self.numbers[index], self._records[index])

    def axis(self, a: int) -> np.ndarray:
        return self._rows.axis(a, self._records)

    def column(self, i: int) -> pa.Array:
        """Return a stored column by its position among the stored columns."""
        return self._rows.records.column(self._rows.n_axes + i, self._records)


class _Run:
    """Sorted entries, and a table of where each value of their first bits begins."""

    __slots__ = ("bits", "entries", "table")

    def __init__(self, entries: np.ndarray) -> None:
        self.entries = entries
        self.bits = max((len(entries) // _TO_LOOK_THROUGH).bit_length() - 1, 0)
        edges = np.arange(1 << self.bits, dtype=np.uint64) << np.uint64(64 - self.bits if self.bits else 0)
        self.table = np.append(np.searchsorted(entries.view(np.uint64), edges), len(entries))

    def __len__(self) -> int:
        return len(self.entries)


class SpilledRows:
    """Rows of one side in files, with ``block`` rows per block. :func:`can_spill_rows` must be True for all columns."""

    def __init__(self, files: Files, types: Sequence[pa.DataType], n_axes: int, block: int) -> None:
        self.n_axes, self._size = n_axes, block
        self.records = Records(files, [*[pa.int64()] * n_axes, *types], 0)
        self._runs: list[_Run] = []
        self._new: list[np.ndarray] = []  # entries that are in no run yet
        self._run_bytes = 0, 0  # bytes of runs in memory; bytes of their tables and of new entries
        self.live = self.low = self.top = 0
        self._base = 0  # row number of the first flag
        self._flags = np.empty(0, dtype=np.uint8)
        self._first = 0  # number of the first block
        self._least, self._most = np.empty((n_axes, 0), np.int64), np.empty((n_axes, 0), np.int64)
        self._counts = np.empty(0, np.int64)  # live rows of each block
        self._absent: dict[int, dict[int, np.ndarray]] = {}  # block: axis: bool[self._size], the rows without a value
        self._cache = np.empty((_CACHED, n_axes, block), dtype=np.int64)
        self._cached = [-1] * _CACHED  # the numbers of the cached blocks

    @property
    def nbytes(self) -> int:
        blocks = self._least.nbytes + self._most.nbytes + self._counts.nbytes
        return blocks + self._cache.nbytes + self._flags.nbytes + self._run_bytes[0] + self._run_bytes[1]

    def runs_in_memory(self) -> int:
        return self._run_bytes[0]

    def _count_runs(self) -> None:
        there = sum(in_memory(run.entries) for run in self._runs)
        beside = sum(run.table.nbytes for run in self._runs) + sum(new.nbytes for new in self._new)
        self._run_bytes = there, beside

    def move_runs(self, moved: Callable[[np.ndarray], np.ndarray]) -> None:
        for run in self._runs:
            if in_memory(run.entries):
                run.entries = moved(run.entries)
        self._count_runs()

    def append(
        self, hashes: np.ndarray, axes: np.ndarray, arrays: Sequence[pa.Array], matched: np.ndarray,
        absent: dict[int, np.ndarray],
    ) -> None:
        """Store rows. If the disk is full, change nothing and raise MemoryLimitError.

        - ``hashes`` : int64[n] are 63-bit hashes of their keys.
        - ``axes`` : int64[a, n] are their axis values, and ``matched`` : bool[n] their flags.
        - ``absent`` has for an axis the rows that a bound on this axis must not evict : bool[n].
        """
        n = len(hashes)
        self.records.reserve(n)
        for i, array in enumerate(arrays):
            self.records.reserve_text(self.n_axes + i, array)
        if n:
            self.records.write([*map(pa.array, axes), *arrays])
        self._flag(matched)
        self._block(n, axes, absent)
        self.top += n
        self.live += n
        self._index(hashes)

    def _flag(self, matched: np.ndarray) -> None:
        n, held = len(matched), self.top - self._base
        if held + n > len(self._flags):
            gone = self.low - self._base
            longer = np.empty((held - gone + n) * 9 // 8, dtype=np.uint8)
            longer[: held - gone] = self._flags[gone:held]
            self._flags, self._base, held = longer, self.low, held - gone
        self._flags[held : held + n] = np.where(matched, LIVE | MATCHED, LIVE)

    def _block(self, n: int, axes: np.ndarray, absent: dict[int, np.ndarray]) -> None:
        at = 0
        while at < n:
            number = self.top + at
            block, inside = divmod(number, self._size)
            size = min(self._size - inside, n - at)
            b = block - self._first
            if b == len(self._counts):
                self._counts = np.append(self._counts, 0)
                edge = np.full((self.n_axes, 1), I64_MAX)
                self._least = np.append(self._least, edge, axis=1)
                self._most = np.append(self._most, ~edge, axis=1)
            self._counts[b] += size
            piece = axes[:, at : at + size]
            for a in range(self.n_axes):
                values = piece[a]
                if a in absent and (gone := absent[a][at : at + size]).any():
                    mask = self._absent.setdefault(block, {}).setdefault(a, np.zeros(self._size, dtype=bool))
                    mask[inside : inside + size] = gone
                    values = values[~gone]
                if len(values):
                    self._least[a, b] = min(self._least[a, b], values.min())
                    self._most[a, b] = max(self._most[a, b], values.max())
            at += size

    def _index(self, hashes: np.ndarray) -> None:
        numbers = np.arange(self.top - len(hashes), self.top) & _LOW
        self._new.append(hashes >> _DROPPED << 32 | numbers)
        self._count_runs()

    def index(self) -> None:
        """Add the rows stored since the last call to the index."""
        if not self._new:
            return
        entries = np.concatenate(self._new)
        self._new = []
        entries.view(np.uint64).sort()
        runs = self._runs
        runs.append(_Run(_beside(runs[0].entries, entries) if runs else entries))
        while len(runs) > 1 and len(runs[-2]) <= min(4 * len(runs[-1]), _MOST_MERGED):
            both = self._merged(runs[-2].entries, runs[-1].entries)
            runs[-2:] = [_Run(both)] if len(both) else []
        self._count_runs()

    def _merged(self, older: np.ndarray, younger: np.ndarray) -> np.ndarray:
        out = np.empty(len(older) + len(younger), dtype=np.int64)
        n = hash_run_kernels.merge(older, younger, out, self.low, self._base, self.top, self._flags)
        return _beside(older, out[:n])

    def find(self, hashes: np.ndarray) -> Iterator[tuple[np.ndarray, ReadRows]]:
        """Yield the rows with these hashes in pieces: positions in ``hashes`` : int64[n], and the rows."""
        self.index()
        asked = hashes >> _DROPPED & _LOW
        order = np.argsort(asked)  # neighbours in a run are read together
        asked = asked[order]
        most = max(1024, min(_CANDIDATES, (4 << 20) // self.records.row_size))
        which, numbers = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        n = 0
        for run in list(self._runs):
            at = np.array([0, -1])
            while at[0] < len(asked):
                n += hash_run_kernels.search(
                    run.entries, run.table, run.bits, asked, at, which[n:], numbers[n:], self.low, self._base, self.top,
                    self._flags,
                )
                if n == most:
                    yield self._read(order, which, numbers)
                    n = 0
        if n:
            yield self._read(order, which[:n], numbers[:n])

    def _read(self, order: np.ndarray, which: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, ReadRows]:
        """Read candidate rows of all runs in one pass over the log, and release its pages afterwards."""
        by_place = np.argsort(numbers)
        return order[which[by_place]], self.take(numbers[by_place])

    def take(self, numbers: np.ndarray) -> ReadRows:
        records = self.records.rows(numbers, numbers)
        self.records.forget()
        return ReadRows(self, numbers, records)

    def axis(self, a: int, records: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.records.field(records, a)).view(np.int64)

    def matched(self, numbers: np.ndarray) -> np.ndarray:
        return self._flags[numbers - self._base] & MATCHED != 0

    def mark(self, numbers: np.ndarray) -> None:
        self._flags[numbers - self._base] |= MATCHED

    def all(self) -> Iterator[ReadRows]:
        """Yield all live rows, a block at a time, in the order of arrival."""
        for b in range(len(self._counts)):
            numbers = self._live_in(b)
            if len(numbers):
                yield self.take(numbers)

    def outside(self, bounds: Sequence[tuple[int, int]] | None) -> Iterator[np.ndarray]:
        """Yield the numbers of live rows outside the bounds (low, high) of the axes, block by block.

        None yields all rows.

        The caller must pass each piece to :meth:`drop` before it requests the next piece.
        """
        first = self._first
        if bounds is None:
            for block in range(first, first + len(self._counts)):
                yield self._live_in(block - self._first)
            return
        ends = np.array(bounds, dtype=np.int64).reshape(-1, 2)
        if not len(ends):
            return
        low, high = ends[:, :1], ends[:, 1:]
        cut = ((self._least < low) | (self._most > high)).any(axis=0) & (self._counts > 0)
        gone = np.asarray(((self._most < low) | (self._least > high)).any(axis=0))
        for b in np.flatnonzero(cut).tolist():
            block = first + b
            at = block - self._first
            if gone[b] and block not in self._absent:
                yield self._live_in(at)
                continue
            numbers = self._live_in(at)
            axes = self._axes_of(block)[:, numbers - block * self._size]
            dead = np.asarray((axes < low) | (axes > high))
            for a, mask in self._absent.get(block, {}).items():
                dead[a] &= ~mask[numbers % self._size]
            self._least[:, at : at + 1] = np.maximum(self._least[:, at : at + 1], low)
            self._most[:, at : at + 1] = np.minimum(self._most[:, at : at + 1], high)
            yield numbers[np.asarray(dead.any(axis=0))]

    def drop(self, numbers: np.ndarray) -> None:
        if not len(numbers):
            return
        self._flags[numbers - self._base] &= 255 - LIVE
        self.live -= len(numbers)
        blocks, counts = np.unique(numbers // self._size - self._first, return_counts=True)
        self._counts[blocks] -= counts
        last = self.top // self._size - self._first  # the block that is not full
        n = 0
        while n < min(last, len(self._counts)) and self._counts[n] == 0:
            n += 1
        if n:
            self._pass(n)

    def _pass(self, n: int) -> None:
        for block in range(self._first, self._first + n):
            self._absent.pop(block, None)
        self._counts = self._counts[n:].copy()
        self._least, self._most = self._least[:, n:].copy(), self._most[:, n:].copy()
        self._first += n
        self.low = self._first * self._size
        self.records.trim(self.low)
        size = sum(len(run) for run in self._runs)
        if size > 2 * self.live + 4096:
            none = np.empty(0, dtype=np.int64)
            kept = [self._merged(run.entries, none) for run in self._runs]
            self._runs = [_Run(entries) for entries in kept if len(entries)]
            self._count_runs()

    def _live_in(self, b: int) -> np.ndarray:
        start = (self._first + b) * self._size
        here = np.arange(start, min(start + self._size, self.top))
        return here[self._flags[start - self._base : start - self._base + len(here)] & LIVE != 0]

    def _axes_of(self, block: int) -> np.ndarray:
        at, start = block % _CACHED, block * self._size
        if self._cached[at] != block:
            numbers = np.arange(start, min(start + self._size, self.top))
            taken = self.take(numbers)
            for a in range(self.n_axes):
                self._cache[at, a, : len(numbers)] = taken.axis(a)
            self._cached[at] = block if len(numbers) == self._size else -1
        return self._cache[at]


def _beside(other: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Copy a run to the place of ``other``, in memory or in a file, if there is space."""
    if in_memory(other):
        return run
    with suppress(MemoryLimitError):
        there = fresh(other, len(run))
        there[:] = run
        return there
    return run
