"""A limit of memory for a join in slices: how it is divided among rows that wait, operators at work, and their output.

Where it may spill, rows that wait for their slice lie in files, as Arrow's arrays in segments that are mapped: a piece
of them is a batch like any other, and what was read of it is let go of once it was pushed.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from weakref import WeakSet

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.budget import Budget
from ivjoin.operator.sharing import Pool
from ivjoin.shj.store.backing import Files

__all__ = ["Memory", "Segment", "threads_within", "to_the_end"]

_LEAST = 4 << 20  # bytes of a limit for each thread
_OUTPUT, _MOST_OUTPUT = 8, 16 << 20  # of the limit, one in so many bytes is for output that waits, and no more
_VIEWED, _SPILLED, _HELD = 8, 4, 2  # one in so many is for rows that wait: as views, in files, and in memory
_PIECES, _ARRAYS = 16, 16  # of what may wait, one in so many bytes is taken at once; bytes of a row's range
_SEGMENT = 8 << 20  # bytes of a file
_ALIGNED = 64


def threads_within(budget: Budget | None, threads: int) -> int:
    """How many threads share a limit, so that each has enough to work with."""
    return threads if budget is None else max(1, min(threads, budget.limit // _LEAST))


def to_the_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The output of operators that nobody else pushes to: what they refuse ends the join.

    Raises
    ------
    MemoryLimitError
    """
    try:
        yield from batches
    except MemoryLimitError as e:
        raise MemoryLimitError(e.reason, ". The join has stopped: join again") from e


class Segment:
    """A file without a name, mapped as a whole."""

    def __init__(self, files: Files, size: int) -> None:
        fd = files.unnamed(size)
        try:
            self._map = mmap.mmap(fd, size)
        except BaseException:
            os.close(fd)
            raise
        self._files, self._fd, self.top, self.nbytes = files, fd, 0, size

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def write(self, data: pa.Buffer) -> pa.Buffer:
        """Bytes at the end, for which there must be room."""
        start, left = self.top, memoryview(data)
        while left:
            done = self._files.write(self._fd, left, self.top)
            self.top, left = self.top + done, left[done:]
        self.top = -(-self.top // _ALIGNED) * _ALIGNED
        return pa.py_buffer(self._map)[start : start + data.size]

    def let_go(self) -> None:
        """What was read of it is no memory of the process."""
        self._map.madvise(mmap.MADV_DONTNEED)


class Memory:
    """How a limit is divided.

    Parameters
    ----------
    budget : Budget
    threads : int
    views : bool
        Whether rows that wait are views of what a caller has in memory.

    Attributes
    ----------
    gathered : int
        Bytes that rows may take that wait for their slice, or in slices for their turn.
    output : int
        Bytes of output that may wait to be taken.
    part : Budget
        Of each operator at work.
    """

    def __init__(self, budget: Budget, threads: int, views: bool) -> None:
        self.budget = budget
        self.spills = budget.when_full == "spill"
        self.output = min(budget.limit // _OUTPUT, _MOST_OUTPUT)
        self.gathered = budget.limit // (_VIEWED if views else _SPILLED if self.spills else _HELD)
        folder = budget.folder if self.spills else ""
        self.pool = Pool(budget.limit - self.output - self.gathered, threads, folder)
        self.part = replace(budget, limit=self.pool.part, pool=self.pool)
        self._files = Files(folder) if self.spills else None
        self._segments: WeakSet[Segment] = WeakSet()
        self._last: Segment | None = None

    def in_file(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Segment]:
        """The same rows, in a file.

        Raises
        ------
        MemoryLimitError
            If the disk has no room.
        """
        assert self._files is not None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        last = self._last
        if last is None or last.top + data.size > last.nbytes:
            last = self._last = Segment(self._files, max(_SEGMENT, data.size))
            self._segments.add(last)
        with pa.ipc.open_stream(last.write(data)) as reader:
            return reader.read_next_batch(), last

    @property
    def rows_at_once(self) -> int:
        """Rows that are a small part of what an operator may hold."""
        return max(1024, self.part.limit // 4096)

    def most_rows(self, batch: pa.RecordBatch) -> int:
        """Rows of a batch that are taken at once, so that they are a small part of what may wait."""
        n = batch.num_rows
        return n and max(1, self.gathered * n // (_PIECES * (batch.nbytes + _ARRAYS * n)))

    def clear(self) -> None:
        """Let go of what is written to."""
        self._last = None

    @property
    def file_bytes(self) -> int:
        """Bytes of all files."""
        own = 0 if self.pool.files is None else self.pool.files.nbytes
        return own + sum(segment.nbytes for segment in list(self._segments))
