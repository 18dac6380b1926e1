"""One side's stored rows: the ring of row records, its payload columns, and what dies when bounds move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.shj import index_kernels
from ivjoin.shj.columns import Column, column_for
from ivjoin.shj.deaths import Deaths
from ivjoin.shj.keys import KeyTable
from ivjoin.shj.runs import SortedRuns

__all__ = ["SideStore"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NO_IDS = np.empty(0, dtype=np.int64)
_FIRST_AXIS = 3
# Steps of walking a row, on average, that are still cheaper than the runs' binary searches.
_WORTH_WALKING = 128
# Rows that a ring may have room for without being asked whether it needs them.
_SMALL = 256


class SideStore:
    """Rows of one input that may still match.

    Parameters
    ----------
    side : int
        0 for left, 1 for right.
    keys : KeyTable
        Shared with the other side.
    types : list of pa.DataType
        Types of the stored payload columns.
    n_axes : int
        Axis values a row; the first one orders the rows of a key when ``ordered``.
    ordered : bool
        Keep each key's rows sorted by the first axis; pays when rows arrive nearly in that order.
    report : bool
        Whether the caller asks for the ids of rows that die.
    """

    def __init__(
        self, side: int, keys: KeyTable, types: Sequence[pa.DataType], n_axes: int, *, ordered: bool, report: bool
    ) -> None:
        self.side = side
        self.offset = 3 * side  # where this side's head, tail and finger stand in a slot
        self.keys = keys
        self.n_axes = n_axes
        self.ordered = ordered
        self.report = report
        self.cap = 64
        self.lo = self.hi = self.live = self._trimmed = 0
        self.rows = np.empty((self.cap, _FIRST_AXIS + n_axes), dtype=np.int64)
        self.flags = np.zeros(self.cap, dtype=np.uint8)
        self.columns: list[Column] = [column_for(t, self.cap) for t in types]
        self.deaths: dict[tuple[int, bool], Deaths] = {}
        self._tally = np.zeros(3, dtype=np.int64)
        self.runs: SortedRuns | None = None
        self.disordered = False
        self._steps = self._linked = 0
        self.peak = 0  # rows in the ring at most since the last look at its size
        self._unordered = False  # some schedule of deaths has runs
        self._ring_bytes: int | None = None  # unknown since the last change of capacity
        self._varying: list[Column] = []

    # -- rows in -------------------------------------------------------------------------------------------------

    def insert(
        self, kids: np.ndarray, axes: np.ndarray, arrays: Sequence[pa.Array],
        absent: dict[int, np.ndarray] | None, matched: np.ndarray | None = None,
    ) -> None:
        """Store rows: their key ids, axes : int64[a, n] and payload. ``absent`` names rows an axis must not kill."""
        n = len(kids)
        if n == 0:
            return
        if self.disordered:
            self._sort()
        if self.hi - self.lo + n > self.cap:
            self._make_room(n)
        first = self.hi
        empty = self.live == 0
        for d in self.deaths.values():
            away = None if absent is None else absent.get(d.axis)
            was_in_order = d.in_order
            if not d.arrive(axes[d.axis], first, away, empty):
                self._unordered = True
            if was_in_order and not d.in_order and self.live:
                ids = self.live_ids()
                d.begin(self.rows[ids & (self.cap - 1), _FIRST_AXIS + d.axis], ids)
        self._link(kids, axes, first)
        for column, array in zip(self.columns, arrays, strict=True):
            column.append(array, first)
            if array.null_count:
                self._ring_bytes = None  # a ring of validity may have come
        self.hi = first + n
        self.live += n
        self.peak = max(self.peak, self.hi - self.lo)
        if matched is not None and matched.any():
            self.flags[(first + np.flatnonzero(matched)) & (self.cap - 1)] |= index_kernels.MATCHED

    def add_axis(self, ids: np.ndarray, values: np.ndarray, absent: np.ndarray | None) -> None:
        """One more axis value a row: ``values`` for the live rows ``ids``; ``absent`` marks rows it must not kill."""
        rows = np.empty((self.cap, self.rows.shape[1] + 1), dtype=np.int64)
        rows[:, :-1] = self.rows
        rows[ids & (self.cap - 1), -1] = values
        self.rows = rows
        self._ring_bytes = None
        axis = self.n_axes
        self.n_axes += 1
        if absent is not None and absent.any():
            for falling in (False, True):
                d = self._schedule(axis, falling)
                d.clear()
                d.in_order = False
                self._unordered = True
                d.begin(values[~absent], ids[~absent])

    # -- rows out ------------------------------------------------------------------------------------------------

    def prune(self, axis: int, low: int, high: int) -> np.ndarray:
        """Take out the rows whose axis value lies outside [low, high]; their ids, oldest first, if ``report``."""
        dead = []
        for falling, bound in ((False, low), (True, high)):
            if bound == (I64_MAX if falling else I64_MIN):
                continue
            d = self.deaths.get((axis, falling))
            if d is None:
                d = self._schedule(axis, falling)
            turned = ~bound if falling else bound
            if turned <= d.bound:
                continue
            d.bound = turned
            if not self.live:
                continue
            if d.in_order:
                ids = self._prune_prefix(axis, low, high)
            else:
                ids = d.due(turned)
                if len(ids):
                    ids = ids[(ids >= self.lo) & ((self.flags[ids & (self.cap - 1)] & index_kernels.LIVE) != 0)]
                    self.remove(ids)
            if len(ids):
                dead.append(ids)
        if not dead:
            return _NO_IDS
        return dead[0] if len(dead) == 1 else np.concatenate(dead)

    def clear(self) -> np.ndarray:
        """Take out every row; their ids if ``report``."""
        ids = self.live_ids() if self.live else _NO_IDS
        self.remove(ids)
        return ids if self.report else _NO_IDS

    def remove(self, ids: np.ndarray) -> None:
        """Take rows out of the index; their payload stays readable until :meth:`settle`."""
        if len(ids):
            died = index_kernels.unlink(ids, self.rows, self.flags, self.keys.slots, self.offset)
            self.keys.live -= int(died)
            self.live -= len(ids)

    def settle(self, look: bool = False) -> None:
        """Give back the room of rows that are gone. Ids may change: none may be held across this call.

        ``look`` asks whether the ring itself is too large for what it held since the last look: rings that come and
        go with each batch would cost more than they save.
        """
        shrink = look and self.cap > _SMALL and self.cap >= 8 * self.peak
        if look:
            self.peak = self.hi - self.lo
        if self.live == self.hi - self.lo and not shrink:
            if self.lo != self._trimmed:
                self._trim()
            return
        if self.runs is not None:
            self.runs.shed(self.live, self.flags, self.lo)
        if self.live == 0:
            if self.hi > self.lo:
                self.lo = self.hi
                self._trim()
                for d in self.deaths.values():
                    d.clear()
            if shrink:
                self._renumber(_NO_IDS)
            return
        if self.live != self.hi - self.lo:
            self._pass_dead()
        self._trim()
        span = self.hi - self.lo
        if span > 2 * self.live + 1024 or shrink:
            self._renumber(self.live_ids())

    # -- reading -------------------------------------------------------------------------------------------------

    def live_ids(self) -> np.ndarray:
        ids = np.arange(self.lo, self.hi, dtype=np.int64)
        return ids[(self.flags[ids & (self.cap - 1)] & index_kernels.LIVE) != 0]

    def matched(self, ids: np.ndarray) -> np.ndarray:
        """bool[n]: which of the rows have matched."""
        return (self.flags[ids & (self.cap - 1)] & index_kernels.MATCHED) != 0

    def mark(self, ids: np.ndarray) -> None:
        self.flags[ids & (self.cap - 1)] |= index_kernels.MATCHED

    def gather(self, column: int, ids: np.ndarray) -> pa.Array:
        return self.columns[column].gather(ids, ids & (self.cap - 1))

    def axis_values(self, axis: int, ids: np.ndarray) -> np.ndarray:
        return self.rows[ids & (self.cap - 1), _FIRST_AXIS + axis]

    @property
    def nbytes(self) -> int:
        """Memory held: rings as allocated, arenas and runs as they are now."""
        if self._ring_bytes is None:
            rings = [c.nbytes for c in self.columns if not c.varies]
            self._ring_bytes = self.rows.nbytes + self.flags.nbytes + sum(rings)
            self._varying = [c for c in self.columns if c.varies]
        if not self._varying and self.runs is None and not self._unordered:
            return self._ring_bytes
        total = self._ring_bytes if self.runs is None else self._ring_bytes + self.runs.nbytes
        for column in self._varying:
            total += column.nbytes
        for d in self.deaths.values():
            if not d.in_order:
                total += d.nbytes
        return total

    # -- inside --------------------------------------------------------------------------------------------------

    def _schedule(self, axis: int, falling: bool) -> Deaths:
        """A new schedule, with the rows that are here already."""
        d = Deaths(axis, falling)
        self.deaths[axis, falling] = d
        if self.live:
            ids = self.live_ids()
            values = self.axis_values(axis, ids)
            turned = d.turned(values)
            if len(ids) == self.hi - self.lo and bool((turned[1:] >= turned[:-1]).all()):
                d._last = int(turned[-1])
            else:
                d.in_order = False
                self._unordered = True
                d.begin(values, ids)
        return d

    def _prune_prefix(self, axis: int, low: int, high: int) -> np.ndarray:
        dead = np.empty(self.hi - self.lo, dtype=np.int64) if self.report else _NO_IDS
        count = index_kernels.prune_prefix(
            self.lo, self.hi, _FIRST_AXIS + axis, low, high, self.rows, self.flags, self.keys.slots, self.offset,
            dead, self._tally,
        )
        self.lo = int(self._tally[0])
        self.keys.live -= int(self._tally[1])
        self.live -= int(self._tally[2])
        return dead[:count]

    def _pass_dead(self) -> None:
        """Move lo over the dead rows in front."""
        mask = self.cap - 1
        step = 64
        while self.lo < self.hi:
            ids = np.arange(self.lo, min(self.lo + step, self.hi))
            alive = (self.flags[ids & mask] & index_kernels.LIVE) != 0
            if alive.any():
                self.lo += int(alive.argmax())
                break
            self.lo += len(ids)
            step *= 4

    def _trim(self) -> None:
        for column in self.columns:
            if column.varies:
                column.trim(self.lo)
        self._trimmed = self.lo

    def _link(self, kids: np.ndarray, axes: np.ndarray, first: int) -> None:
        """Put rows into the index: their key's list, kept in order while that is cheap, or sorted runs."""
        self._tally[0] = 0
        born = index_kernels.insert(
            kids, axes, first, 1 if self.ordered else 0, self.rows, self.flags, self.keys.slots,
            self.offset, self._tally,
        )
        self.keys.live += int(born)
        if self.runs is not None:
            self.runs.add(kids, axes[0], first, self.flags, min(self.lo, first))
        elif self.ordered:
            self.walked(int(self._tally[0]), len(kids))

    def walked(self, steps: int, linked: int = 0) -> None:
        """Count steps spent on disorder; a store that costs too many turns to sorted runs at its next insert."""
        self._steps += steps
        self._linked += linked
        if self._steps > _WORTH_WALKING * self._linked + 500_000:
            self.disordered = True

    def _sort(self) -> None:
        """Leave the ordered lists for sorted runs."""
        self.disordered = self.ordered = False
        self.runs = SortedRuns()
        ids = self.live_ids()
        if len(ids):
            if len(ids) < self.hi - self.lo:
                self._renumber(ids, self.cap)
                return
            places = ids & (self.cap - 1)
            kids, values = self.rows[places, 2], self.rows[places, _FIRST_AXIS]
            self.runs.add(kids, values, self.lo, self.flags, self.lo)

    def _make_room(self, n: int) -> None:
        """A larger ring, or the same one without its dead rows."""
        if self.live * 2 < self.hi - self.lo and self.live + n <= self.cap:
            self._renumber(self.live_ids(), self.cap)
            return
        cap = 1 << (self.hi - self.lo + n - 1).bit_length()
        ids = np.arange(self.lo, self.hi)
        old, new = ids & (self.cap - 1), ids & (cap - 1)
        rows = np.empty((cap, self.rows.shape[1]), dtype=np.int64)
        rows[new] = self.rows[old]
        flags = np.zeros(cap, dtype=np.uint8)
        flags[new] = self.flags[old]
        for column in self.columns:
            column.grow(cap, self.lo, self.hi)
        self.rows, self.flags, self.cap = rows, flags, cap
        self._ring_bytes = None

    def _renumber(self, ids: np.ndarray, cap: int = 0) -> None:
        """Keep only these rows, as ids 0, 1, ...; relinks every list."""
        n = len(ids)
        cap = cap or max(64, 1 << max(2 * n - 1, 0).bit_length())
        places = ids & (self.cap - 1)
        kids = np.ascontiguousarray(self.rows[places, 2])
        axes = np.ascontiguousarray(self.rows[places, _FIRST_AXIS:].T)
        kept_flags = self.flags[places]
        self.keys.live -= int(index_kernels.unlink(ids, self.rows, self.flags, self.keys.slots, self.offset))
        for column in self.columns:
            column.select(ids, places, cap)
        self.rows = np.empty((cap, self.rows.shape[1]), dtype=np.int64)
        self.flags = np.zeros(cap, dtype=np.uint8)
        self.cap, self.lo, self.hi, self.live, self._trimmed = cap, 0, n, n, 0
        self._ring_bytes = None
        if self.runs is not None:
            self.runs.clear()
        self._link(kids, axes, 0)
        self.flags[:n] = kept_flags
        fresh = np.arange(n, dtype=np.int64)
        for d in self.deaths.values():
            d.renumber(ids, fresh)
