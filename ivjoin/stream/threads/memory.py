"""Divide the memory limit of a sliced join among waiting rows, running slices and their output."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.memory.budget import Budget

__all__ = ["Memory", "threads_within", "to_the_end"]

_LEAST = 4 << 20  # bytes of a limit for each thread
_LEAST_ROWS = 16_384  # rows of both sides in a slice; with fewer rows, fewer threads run
_OUTPUT, _MOST_OUTPUT = 8, 16 << 20  # waiting output gets 1 / _OUTPUT of the limit, at most _MOST_OUTPUT
_VIEWED, _HELD = 8, 2  # waiting rows get 1 / _VIEWED of the limit as views of a caller's table, and 1 / _HELD in memory
_PIECES, _ARRAYS = 16, 16  # a push takes 1 / _PIECES of the bytes that may wait; bytes of a row's range
_SCRATCH = 192  # bytes of a row of a slice while it is joined, including its candidates
_PAIR = 16  # bytes of a candidate pair
_AHEAD = 2  # slices for each thread that are running, or whose output waits


def threads_within(budget: Budget | None, threads: int) -> int:
    """Return how many threads can share a limit, so that each has at least 4 MiB."""
    return threads if budget is None else max(1, min(threads, budget.limit // _LEAST))


def to_the_end(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the output of operators that only this join pushes to. A refused push ends the join.

    The MemoryLimitError then adds that the join has stopped.
    """
    try:
        yield from batches
    except MemoryLimitError as e:
        raise MemoryLimitError(e.reason, ". The join has stopped: join again") from e


class Memory:
    """The parts of a divided limit, for at most ``threads`` threads. ``views`` of a caller's table do not count."""

    def __init__(self, budget: Budget, threads: int, views: bool) -> None:
        self.budget = budget
        output = min(budget.limit // _OUTPUT, _MOST_OUTPUT)
        self.gathered = budget.limit // (_VIEWED if views else _HELD)  # bytes of rows that wait for a slice or thread
        scratch = budget.limit - output - self.gathered
        while threads > 1 and scratch // threads < _SCRATCH * _LEAST_ROWS:
            threads -= 1
        self.threads = threads  # with two or more, slices have at least 16,384 rows
        self.output = output // (_AHEAD * threads)  # bytes of each slice's output that may wait for the reader
        self.rows = max(1, scratch // threads // _SCRATCH)  # greatest number of rows of both sides in a slice
        self.pairs = max(1 << 10, min(1 << 16, self.output // 64, scratch // threads // (4 * _PAIR)))  # at a time

    def most_rows(self, batch: pa.RecordBatch) -> int:
        """Return how many rows of a batch to process at once: a small part of the memory for waiting rows."""
        n = batch.num_rows
        return n and max(1, self.gathered * n // (_PIECES * (batch.nbytes + _ARRAYS * n)))
