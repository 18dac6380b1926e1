"""Search a run for values in a range, by the least and greatest values of blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ivjoin.shj.kernels.lookup import range_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN

__all__ = ["ValueBlocks"]

_SEARCH = 256  # values that a sweep may read in vain for each row; a search in the blocks takes as long
_A_PAIR = 20  # the same for each pair that a search finds


@dataclass(frozen=True, slots=True)
class ValueBlocks:
    """Blocks of values in several levels, as ``range_kernels`` reads them.

    - ``least``, ``most`` : int64[n] are the values. For a value that is in every range, they are the ends of int64.
    - ``upper`` : int64[2, m] are the least and greatest value of each block.
    - ``starts`` : int64[levels] is where each level begins.
    """

    least: np.ndarray
    most: np.ndarray
    upper: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, absent: np.ndarray | None = None) -> ValueBlocks:
        """Build the blocks of int64[n] values. A value that is ``absent`` : bool[n] is in every range."""
        least = values if absent is None else np.where(absent, I64_MIN, values)
        most = values if absent is None else np.where(absent, I64_MAX, values)
        levels, below, size = [np.empty((2, 0), dtype=np.int64)], (least, most), 1 << range_kernels.BITS
        while len(below[0]) > size:
            edges = np.arange(0, len(below[0]), size)
            below = np.minimum.reduceat(below[0], edges), np.maximum.reduceat(below[1], edges)
            levels.append(np.stack(below))
        upper = np.concatenate(levels, axis=1)
        sizes = [level.shape[1] for level in levels[1:]]
        starts = np.cumsum([0, *sizes], dtype=np.int64)[: len(sizes)]
        return cls(np.ascontiguousarray(least), np.ascontiguousarray(most), upper, starts)

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks, without the values."""
        return self.upper.nbytes + self.starts.nbytes

    def pairs(
        self, first: np.ndarray, last: np.ndarray, low: np.ndarray, high: np.ndarray, most: int
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Find rows i and places k with ``first[i] <= k < last[i]`` and a value in ``[low[i], high[i]]``.

        Return ordered rows and places : int64[p], and the number of finished rows. All rows are finished, unless there
        are more than ``most`` pairs. Then at least the first row is finished. The pairs of an unfinished row are
        omitted.
        """
        state = np.array([0, -1], dtype=np.int64)
        rows, at = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        bounds = [np.ascontiguousarray(a) for a in (first, last, low, high)]
        count = range_kernels.pairs_within(
            *bounds, self.least, self.most, self.upper, self.starts, state, rows, at
        )
        done = int(state[0])
        if done == 0 and len(first):
            return self.pairs(first[:1], last[:1], low[:1], high[:1], 2 * most)
        if done < len(first):
            count = int(np.searchsorted(rows[:count], done))
        return rows[:count], at[:count], done

    def found(
        self, first: np.ndarray, last: np.ndarray, low: np.ndarray, high: np.ndarray, most: int
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the result of :meth:`pairs`, with a sweep where that is faster."""
        return self.swept(first, last, low, high, most) or self.pairs(first, last, low, high, most)

    def swept(
        self, first: np.ndarray, last: np.ndarray, low: np.ndarray, high: np.ndarray, most: int
    ) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Return the result of :meth:`pairs` with one pass over the values of each range as ``low`` rises.

        Return None if ``low`` falls, or ``high`` excludes a value. If the pass would read many values in vain, it
        begins only after a search has found many pairs.
        """
        filled = np.flatnonzero(last > first)
        if not len(filled) or bool((high != I64_MAX).any()):
            return None
        n, every = len(first), len(filled) == len(first)
        bounds = [np.ascontiguousarray(a if every else a.take(filled)) for a in (first, last, low)]
        begin, end, least = bounds
        same = begin[1:] == begin[:-1]
        if bool((same & (least[1:] < least[:-1])).any()):
            return None
        begins = np.flatnonzero(np.concatenate(([True], ~same)))
        looks = int((np.maximum.reduceat(end, begins) - end[begins]).sum() + (np.maximum.accumulate(end) - end).sum())
        if looks > _SEARCH * len(filled):
            found = self.pairs(first, last, low, high, min(most, looks // _A_PAIR))
            if found[2] == n or looks // _A_PAIR >= most:
                return found
        active, state = np.empty(len(self.most), dtype=np.int64), np.zeros(1, dtype=np.int64)
        while True:
            rows, at = np.empty(most + 1, dtype=np.int64), np.empty(most + 1, dtype=np.int64)
            count = range_kernels.pairs_swept(
                *bounds, self.least, self.most, self.upper, self.starts, active, state, rows, at
            )
            done = int(state[0])
            if done:
                rows = rows[:count] if every else filled.take(rows[:count])
                return rows, at[:count], n if done == len(filled) else int(filled[done])
            most *= 2
