"""Index a store by sorted runs if its lists are slow. Runs are merged so that few remain (a log-structured merge).

To insert a row, the lists of ``index_kernels`` walk one step for every row that the new row must pass. A probe walks
every row in the first axis's window. If that costs too much, a store switches to sorted runs: each batch is sorted by
(key, axis), and runs of similar size are merged. A row is copied O(log n) times, and a probe costs one binary search
per run.
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.push import run_kernels
from ivjoin.shj.kernels.push.index_kernels import FIRST_AXIS
from ivjoin.shj.store.disk.backing import fresh, in_memory, moving

__all__ = ["SortedRuns"]

_ARRAYS = ("keys", "values", "ids", "tops")


class SortedRuns:
    """Rows of one store as (key id, value, row id), in consecutive runs. The youngest and smallest run is last.

    The values of ``axis`` sort the runs. ``tops`` is the running maximum of ``second`` over a key's rows in a run.
    """

    def __init__(self, axis: int = 0, second: int | None = None) -> None:
        self.axis = axis
        self.second = second
        self.keys = np.empty(1024, dtype=np.int64)
        self.values = np.empty(1024, dtype=np.int64)
        self.ids = np.empty(1024, dtype=np.int64)
        self.tops = np.empty(0 if second is None else 1024, dtype=np.int64)
        self.ends = np.zeros(64, dtype=np.int64)
        self.count = 0

    @property
    def size(self) -> int:
        return int(self.ends[self.count - 1]) if self.count else 0

    @property
    def nbytes(self) -> int:
        return sum(in_memory(getattr(self, name)) for name in _ARRAYS) + self.ends.nbytes

    def add(
        self, keys: np.ndarray, values: np.ndarray, first: int, rows: np.ndarray, links: np.ndarray, lo: int
    ) -> None:
        """Store the rows with ids from ``first`` on, with their values of ``axis``.

        ``rows`` has the values of ``second``.
        """
        n, at = len(keys), self.size
        if at + n > len(self.keys):
            self.make_room(n)
        order = np.lexsort((values, keys))
        self.keys[at : at + n] = keys[order]
        self.values[at : at + n] = values[order]
        self.ids[at : at + n] = order + first
        self.ends[self.count] = at + n
        self.count += 1
        with moving():
            while self.count > 1 and self._length(self.count - 2) <= 2 * self._length(self.count - 1):
                self._merge_last(links, lo)
        self._top(rows, lo)

    def make_room(self, n: int) -> None:
        self._resize((self.size + n) * 5 // 4)

    def more_room(self, n: int) -> int:
        need = self.size + n
        if need <= len(self.keys):
            return 0
        words = sum(in_memory(getattr(self, name)) // 8 // len(self.keys) for name in _ARRAYS)
        return (need * 5 // 4 - len(self.keys)) * 8 * words

    def shed(self, live: int, rows: np.ndarray, links: np.ndarray, lo: int) -> None:
        """Drop dead rows once they are more than half of all rows."""
        if self.size > 2 * live + 4096:
            try:
                while self.count > 1:
                    self._merge_last(links, lo)
                if self.count:
                    # merging with an empty run drops the dead rows of the only run
                    self.ends[1] = self.ends[0]
                    self.count = 2
                    self._merge_last(links, lo)
            finally:  # a full disk may interrupt the merge
                self._top(rows, lo)
            if self.size * 4 < len(self.keys) and len(self.keys) > 4096:
                self._resize(max(1024, self.size + self.size // 2))

    def clear(self) -> None:
        self.count = 0

    def _length(self, run: int) -> int:
        return int(self.ends[run]) - (int(self.ends[run - 1]) if run else 0)

    def _merge_last(self, links: np.ndarray, lo: int) -> None:
        a = int(self.ends[self.count - 3]) if self.count > 2 else 0
        b, c = int(self.ends[self.count - 2]), int(self.ends[self.count - 1])
        buffers = fresh(self.keys, (3, b - a))
        end = run_kernels.merge_runs(self.keys, self.values, self.ids, a, b, c, links, lo, *buffers)
        self.count -= 1
        self.ends[self.count - 1] = end

    def _top(self, rows: np.ndarray, lo: int) -> None:
        """Compute the tops of the last run, in which all rows are live."""
        if self.second is not None and self.count:
            b = int(self.ends[self.count - 1])
            a = b - self._length(self.count - 1)
            run_kernels.top_run(self.keys, self.ids, self.tops, a, b, rows, lo, FIRST_AXIS + self.second)

    def _resize(self, cap: int) -> None:
        n, larger = self.size, {}
        for name in _ARRAYS:
            old = getattr(self, name)
            if len(old):
                larger[name] = fresh(old, cap)  # a full disk may interrupt this, so replace all arrays at the end
                larger[name][:n] = old[:n]
        for name, array in larger.items():
            setattr(self, name, array)
