"""Which stored rows die when a bound moves: one schedule per axis and direction.

A row dies by an axis when its value leaves the interval that future rows of the other side can reach. While rows
arrive in the order in which they die, the oldest dies first and the schedule is empty: the store walks its own prefix.
Otherwise each inserted batch becomes a run sorted by time of death, and a heap of runs finds the dead in
O(dead x log runs): a bound that passes nothing costs one comparison.
"""

from __future__ import annotations

import heapq

import numpy as np

__all__ = ["Deaths"]

_MAX = 2**63 - 1


class Deaths:
    """The rows of one side in the order in which a rising (or falling) bound on one axis kills them.

    Values are turned over (``~v``) for a falling bound, so that inside, a bound always rises and kills what is below.
    """

    __slots__ = ("_heap", "_last", "_runs", "_serial", "axis", "bound", "falling", "in_order")

    def __init__(self, axis: int, falling: bool) -> None:
        self.axis = axis
        self.falling = falling
        self.bound = -(2**63)
        self.in_order = True
        self._last = -(2**63)
        self._runs: dict[int, tuple[np.ndarray, np.ndarray, int]] = {}
        self._heap: list[tuple[int, int]] = []
        self._serial = 0

    @property
    def nbytes(self) -> int:
        return sum(v.nbytes + i.nbytes for v, i, _ in self._runs.values())

    def turned(self, values: np.ndarray) -> np.ndarray:
        return ~values if self.falling else values

    def arrive(self, values: np.ndarray, first: int, absent: np.ndarray | None, empty: bool) -> bool:
        """Take in rows first, first+1, ...; False when they break the order of death, so that runs must begin.

        ``absent`` marks rows that this axis can never kill.
        """
        n = len(values)
        if n == 0:
            return True
        if empty and not self.in_order:
            self.clear()
        v = self.turned(values)
        if self.in_order:
            if absent is None and (empty or v[0] >= self._last) and (n == 1 or bool((v[1:] >= v[:-1]).all())):
                self._last = int(v[-1])
                return True
            self.in_order = False
            self._run(v, np.arange(first, first + n), absent)
            return False
        self._run(v, np.arange(first, first + n), absent)
        return True

    def begin(self, values: np.ndarray, ids: np.ndarray) -> None:
        """The rows that were stored before the order broke."""
        self._run(self.turned(values), ids, None)

    def due(self, bound: int) -> np.ndarray:
        """Ids of the rows that a bound kills (turned already): those with a value below it."""
        found = []
        heap = self._heap
        while heap and heap[0][0] < bound:
            _, serial = heap[0]
            values, ids, at = self._runs[serial]
            stop = int(np.searchsorted(values, bound, side="left"))
            found.append(ids[at:stop])
            if stop == len(values):
                heapq.heappop(heap)
                del self._runs[serial]
            else:
                self._runs[serial] = (values, ids, stop)
                heapq.heapreplace(heap, (int(values[stop]), serial))
        if not found:
            return np.empty(0, dtype=np.int64)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def clear(self) -> None:
        self.in_order = True
        self._last = -(2**63)
        self._runs.clear()
        self._heap.clear()

    def _run(self, values: np.ndarray, ids: np.ndarray, absent: np.ndarray | None) -> None:
        if absent is not None:
            keep = ~absent
            values, ids = values[keep], ids[keep]
        if len(values) == 0:
            return
        if len(values) > 1 and not bool((values[1:] >= values[:-1]).all()):
            order = np.argsort(values, kind="stable")
            values, ids = values[order], ids[order]
        else:
            values = values.copy()
        self._serial += 1
        self._runs[self._serial] = (values, ids, 0)
        heapq.heappush(self._heap, (int(values[0]), self._serial))

    def renumber(self, old: np.ndarray, new: np.ndarray) -> None:
        """Rows ``old`` (ascending) are now ``new``; all others are gone. What remains becomes one run."""
        if self.in_order:
            return
        pieces = [(values[at:], ids[at:]) for values, ids, at in self._runs.values()]
        self._runs.clear()
        self._heap.clear()
        if not pieces or not len(old):
            if not len(old):
                self.clear()
            return
        values = np.concatenate([v for v, _ in pieces])
        ids = np.concatenate([i for _, i in pieces])
        at = np.minimum(np.searchsorted(old, ids), len(old) - 1)
        held = old[at] == ids
        self._run(values[held], new[at[held]], None)
