"""Sort rows outside memory: write sorted runs to an unnamed file, and merge them.

Rows are collected until they fill the reserved memory. They are then sorted and written in pieces. The merge reads the
pieces of all runs in order. The file is unlinked when it is created, so the system deletes it when the process ends.

Source: D. E. Knuth, The Art of Computer Programming 3, 5.4, external sorting.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.expr.nodes import Node
from ivjoin.outer.batches import pieces_of
from ivjoin.shj.store.disk.process_memory import give_back
from ivjoin.stream.sort.ordered import Ordinals, gathered, of_table
from ivjoin.stream.sort.sweep import Ordered

__all__ = ["Outside", "capacity_for", "sorted_outside"]

_LEAST_ROOM = 8 << 20  # least bytes of a run, for any limit
_SHARE = 4  # one run may take 1 / _SHARE of a limit
_PIECE = 64 << 10  # bytes of a piece
_MERGED = 2 << 20  # bytes of rows that are merged at once
_LEAST_ROWS = 64  # least rows of a piece and of a run, for any width
_PER_ROW = 48  # bytes that sorting by indices needs for each row


def capacity_for(limit: int) -> int:
    """Return the bytes of rows that may be in memory while they are sorted."""
    return max(_LEAST_ROOM, limit // _SHARE)


def fits(table: pa.Table, in_memory: bool, capacity: int) -> bool:
    """Return whether a table may be sorted in memory. A table that is already in memory needs only its indices."""
    return _PER_ROW * table.num_rows + (0 if in_memory else int(table.nbytes)) <= capacity


Loaded = tuple[list[pa.RecordBatch], np.ndarray]  # rows of a run, and their ordinals


@dataclass(frozen=True, slots=True)
class _Piece:
    """The position of some rows of a run in the file: their ordinals, then an IPC stream of ``size`` bytes."""

    at: int
    size: int
    rows: int


@dataclass
class Outside:
    """Sorted runs in a file of ``nbytes``.

    - ``capacity``: bytes of rows that may be in memory together.
    - ``errs``: whether the expression has an error for some row.
    """

    folder: str
    capacity: int
    errs: bool = False
    nbytes: int = 0
    _runs: list[list[_Piece]] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115
                dir=self.folder or None, prefix="ivjoin-", buffering=0
            )
        except OSError as e:
            raise self._full(0, e) from e

    def add(self, table: pa.Table, node: Node, descending: bool) -> None:
        """Sort rows by an expression, and write them as one run. If this fails, raise a MemoryLimitError."""
        rows = Ordinals.of(table, node, descending)
        self.errs |= rows.errs
        each = max(1, int(table.nbytes) // max(1, table.num_rows)) + 8
        most = max(_LEAST_ROWS, _PIECE // each)
        index = np.arange(table.num_rows) if rows.index is None else rows.index
        at, run = 0, []
        for batch in gathered(table, index, most):
            run.append(self._write(batch, rows.values[at : at + batch.num_rows]))
            at += batch.num_rows
        self._runs.append(run)

    def _write(self, batch: pa.RecordBatch, values: np.ndarray) -> _Piece:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        rows = sink.getvalue()
        piece = _Piece(self.nbytes, rows.size, batch.num_rows)
        try:
            self._file.seek(piece.at)
            for part in (memoryview(values.tobytes()), memoryview(rows)):
                while part:
                    done = self._file.write(part)
                    self.nbytes += done
                    part = part[done:]
        except OSError as e:
            raise self._full(self.nbytes, e) from e
        return piece

    def _more(self, loaded: Loaded, run: list[_Piece], rows: int) -> Loaded:
        """Add the next pieces of a run, up to ``rows`` rows. ``run`` has the unread pieces in reverse."""
        batches, values = list(loaded[0]), [loaded[1]]
        rows -= len(loaded[1])
        while run and rows > 0:
            batch, found = self._read(run.pop())
            batches.append(batch)
            values.append(found)
            rows -= len(found)
        return batches, np.concatenate(values)

    def _read(self, piece: _Piece) -> tuple[pa.RecordBatch, np.ndarray]:
        data = bytearray(8 * piece.rows + piece.size)
        view = memoryview(data)
        self._file.seek(piece.at)
        while view:
            got = self._file.readinto(view)
            if not got:
                raise MemoryLimitError(f"the file of sorted runs in {self.folder!r} ends too early; it was cut short")
            view = view[got:]
        values = np.frombuffer(data, np.int64, piece.rows)
        with pa.ipc.open_stream(pa.py_buffer(data)[8 * piece.rows :]) as reader:
            return reader.read_next_batch(), values

    def rows(self) -> Ordered:
        """Yield all rows in order. The order of equal rows is unspecified."""
        waiting = [list(reversed(run)) for run in self._runs if run]
        total = sum(piece.rows for run in waiting for piece in run)
        most = min(self.capacity // 2, _MERGED) * total // max(1, self.nbytes)
        rows = max(1, most // max(1, len(waiting)))  # rows of each run in memory
        loaded: list[Loaded] = [([], np.empty(0, dtype=np.int64)) for _ in waiting]
        while waiting:
            loaded = [
                self._more(h, run, rows) if len(h[1]) < rows else h for h, run in zip(loaded, waiting, strict=True)
            ]
            # up to this value, each run is in memory or at its end
            ends = [int(values[-1]) for (_, values), run in zip(loaded, waiting, strict=True) if run]
            end = min(ends, default=None)
            parts: list[Loaded] = []
            for i, (batches, values) in enumerate(loaded):
                n = len(values) if end is None else int(np.searchsorted(values, end, side="right"))
                first, rest = _cut(batches, n)
                parts.append((first, values[:n]))
                loaded[i] = rest, values[n:]
            yield from _merged(parts)
            left = [i for i, run in enumerate(waiting) if run or len(loaded[i][1])]
            loaded, waiting = [loaded[i] for i in left], [waiting[i] for i in left]

    def _full(self, size: int, e: OSError) -> MemoryLimitError:
        return MemoryLimitError(
            f"cannot sort outside memory: a file in {self.folder or tempfile.gettempdir()!r} takes no more than "
            f"{size:,} bytes ({e.strerror or e}). Free space there; name another folder by when_full='spill' and "
            "Spill(dir=...); or raise memory_limit"
        )


def _cut(batches: list[pa.RecordBatch], n: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the first n rows, and the others."""
    first: list[pa.RecordBatch] = []
    for i, batch in enumerate(batches):
        if n < batch.num_rows:
            return [*first, batch.slice(0, n)] if n else first, [batch.slice(n), *batches[i + 1 :]]
        first.append(batch)
        n -= batch.num_rows
    return first, []


def _merged(parts: list[Loaded]) -> Ordered:
    values = np.concatenate([v for _, v in parts])
    order = np.argsort(values, kind="stable")
    table = pa.Table.from_batches([b for batches, _ in parts for b in batches])
    return of_table(table, Ordinals(values[order], False, False, order))


def sorted_outside(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, node: Node, descending: bool, capacity: int, folder: str
) -> Outside:
    """Sort rows by an expression, with at most ``capacity`` bytes of them in memory.

    A MemoryLimitError is raised if the folder cannot store the runs.
    """
    out = Outside(folder, capacity)
    loaded: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        each = max(1, batch.nbytes // max(1, batch.num_rows)) + _PER_ROW
        most = max(_LEAST_ROWS, capacity // each)  # rows of a piece of a batch that is larger than a run
        for piece in pieces_of(batch, most):
            if loaded and size + each * piece.num_rows > capacity:
                out.add(pa.Table.from_batches(loaded, schema), node, descending)
                loaded, size = [], 0
                give_back()  # memory that Arrow retains would be used on top of the limit
            loaded.append(piece)
            size += each * piece.num_rows
    if loaded:
        out.add(pa.Table.from_batches(loaded, schema), node, descending)
    del loaded
    give_back()
    return out
