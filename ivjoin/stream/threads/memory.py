"""A limit of memory for a join in slices: how it is divided among rows that wait, slices at work, and their output."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.memory.budget import Budget

__all__ = ["Memory", "threads_within", "to_the_end"]

_LEAST = 4 << 20  # bytes of a limit for each thread
_LEAST_ROWS = 16_384  # of both sides in a slice, or fewer threads are at work
_OUTPUT, _MOST_OUTPUT = 8, 16 << 20  # of the limit, one in so many bytes is for output that waits, and no more
_VIEWED, _HELD = 8, 2  # one in so many is for rows that wait: as views of a caller's table, and in memory
_PIECES, _ARRAYS = 16, 16  # of what may wait, one in so many bytes is taken at once; bytes of a row's range
_SCRATCH = 192  # bytes that a row of a slice takes while it is joined, its candidates included
_PAIR = 16  # bytes of a candidate pair
_AHEAD = 2  # slices whose output waits or that are joined, for each thread


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


class Memory:
    """How a limit is divided.

    Parameters
    ----------
    budget : Budget
    threads : int
        That are allowed.
    views : bool
        Whether rows that wait are views of what a caller has in memory.

    Attributes
    ----------
    threads : int
        So many that the slices of each have at least 16,384 rows, if that can be.
    gathered : int
        Bytes that rows may take that wait for their slice, or in slices for their turn.
    output : int
        Bytes of output of each slice that may wait to be taken.
    rows : int
        Rows of both sides that a slice may have.
    pairs : int
        Candidate pairs that a slice looks at at once.
    """

    def __init__(self, budget: Budget, threads: int, views: bool) -> None:
        self.budget = budget
        output = min(budget.limit // _OUTPUT, _MOST_OUTPUT)
        self.gathered = budget.limit // (_VIEWED if views else _HELD)
        scratch = budget.limit - output - self.gathered
        while threads > 1 and scratch // threads < _SCRATCH * _LEAST_ROWS:
            threads -= 1
        self.threads = threads
        self.output = output // (_AHEAD * threads)
        self.rows = max(1, scratch // threads // _SCRATCH)
        self.pairs = max(1 << 10, min(1 << 18, self.output // 64, scratch // threads // (4 * _PAIR)))

    def most_rows(self, batch: pa.RecordBatch) -> int:
        """Rows of a batch that are taken at once, so that they are a small part of what may wait."""
        n = batch.num_rows
        return n and max(1, self.gathered * n // (_PIECES * (batch.nbytes + _ARRAYS * n)))
