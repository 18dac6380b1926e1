"""A second index for stores without any order: sorted runs, merged so that there are few (a log-structured merge).

The linked lists of ``kernels`` cost what a row is out of order by. Where that is much, a store turns to these: a batch
is sorted by (key, first axis) and becomes a run; runs of like size merge. A row is copied O(log n) times in its life,
and a probe costs a binary search a run, whatever the order of arrival on either side.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj import run_kernels

__all__ = ["SortedRuns"]


class SortedRuns:
    """Rows of one store as (key id, value, row id), in runs laid end to end; the youngest and smallest run is last."""

    def __init__(self) -> None:
        self.keys = np.empty(1024, dtype=np.int64)
        self.values = np.empty(1024, dtype=np.int64)
        self.ids = np.empty(1024, dtype=np.int64)
        self.ends = np.zeros(64, dtype=np.int64)
        self.count = 0

    @property
    def size(self) -> int:
        return int(self.ends[self.count - 1]) if self.count else 0

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes + self.ids.nbytes

    def add(self, keys: np.ndarray, values: np.ndarray, first: int, links: np.ndarray, lo: int) -> None:
        """Take in rows first, first+1, ...; ``links`` and ``lo`` tell which older rows are gone."""
        n, at = len(keys), self.size
        if at + n > len(self.keys):
            self._grow(at + n)
        order = np.lexsort((values, keys))
        self.keys[at : at + n] = keys[order]
        self.values[at : at + n] = values[order]
        self.ids[at : at + n] = order + first
        self.ends[self.count] = at + n
        self.count += 1
        while self.count > 1 and self._length(self.count - 2) <= 2 * self._length(self.count - 1):
            self._merge_last(links, lo)

    def shed(self, live: int, links: np.ndarray, lo: int) -> None:
        """Drop dead rows once they are the greater part."""
        if self.size > 2 * live + 4096:
            while self.count > 1:
                self._merge_last(links, lo)
            if self.count:
                # merging with an empty run leaves the dead of the only run out
                self.ends[1] = self.ends[0]
                self.count = 2
                self._merge_last(links, lo)
            if self.size * 8 < len(self.keys) and len(self.keys) > 4096:
                self._resize(max(1024, 2 * self.size))

    def clear(self) -> None:
        self.count = 0

    def _length(self, run: int) -> int:
        return int(self.ends[run]) - (int(self.ends[run - 1]) if run else 0)

    def _merge_last(self, links: np.ndarray, lo: int) -> None:
        a = int(self.ends[self.count - 3]) if self.count > 2 else 0
        b, c = int(self.ends[self.count - 2]), int(self.ends[self.count - 1])
        buffers = np.empty((3, b - a), dtype=np.int64)
        end = run_kernels.merge_runs(self.keys, self.values, self.ids, a, b, c, links, lo, *buffers)
        self.count -= 1
        self.ends[self.count - 1] = end

    def _grow(self, need: int) -> None:
        self._resize(need + need // 4)

    def _resize(self, cap: int) -> None:
        n = self.size
        for name in ("keys", "values", "ids"):
            fresh = np.empty(cap, dtype=np.int64)
            fresh[:n] = getattr(self, name)[:n]
            setattr(self, name, fresh)
