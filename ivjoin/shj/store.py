"""One side's stored rows: the ring of row records, its payload columns, and what dies when bounds move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.shj import index_kernels
from ivjoin.shj.columns import Column, ImageColumn, column_for
from ivjoin.shj.deaths import Deaths
from ivjoin.shj.keys import IntKeys, KeyTable
from ivjoin.shj.runs import SortedRuns

__all__ = ["SideStore"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NO_IDS = np.empty(0, dtype=np.int64)
_FIRST_AXIS = index_kernels.FIRST_AXIS
# Rows that a ring may have room for, beyond twice what it needs, without being asked whether it does.
_SPARE = 1024
_LARGE = 1 << 14
_MOST_ROWS = 2**31 - 1024  # places are int32


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
    same : dict of int to int or None
        Payload columns that are an axis (its index) or the key (None; ``keys`` is an ``IntKeys``), value for value,
        and need not be stored twice.
    """

    def __init__(
        self, side: int, keys: KeyTable, types: Sequence[pa.DataType], n_axes: int, *, ordered: bool, report: bool,
        same: Mapping[int, int | None] | None = None,
    ) -> None:
        self.side = side
        self.offset = 3 * side  # where this side's head, tail and finger stand in a slot
        self.keys = keys
        self.n_axes = n_axes
        self.ordered = ordered
        self.report = report
        self.cap = 64
        self.lo = self.hi = self.live = self._trimmed = 0
        self.rows, self.links = _records(self.cap, n_axes)
        same = same or {}
        self.columns: list[Column] = [
            ImageColumn(t, same[i], WeakMethod(self._image_at), self.cap) if i in same else column_for(t, self.cap)
            for i, t in enumerate(types)
        ]
        self.deaths: dict[tuple[int, bool], Deaths] = {}
        self._tally = np.zeros(3, dtype=np.int64)
        self.runs: SortedRuns | None = None
        self.disordered = False
        self._led_by: tuple[int, int | None] = (0, None)
        self._steps = self._linked = 0
        self._refused = self._probed = 0
        self._patience = index_kernels.SOME_REFUSED
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
        self.turn()
        if self.hi - self.lo + n > self.cap:
            self._make_room(n)
        first = self.hi
        empty = self.live == 0
        for axis, unknown in (absent or {}).items():
            # A schedule that began later could not tell these rows from others of the same image.
            for falling in (False, True):
                if (axis, falling) not in self.deaths and unknown.any():
                    self._schedule(axis, falling)
        for d in self.deaths.values():
            away = None if absent is None else absent.get(d.axis)
            was_in_order = d.in_order
            if not d.arrive(axes[d.axis], first, away, empty):
                self._unordered = True
            if was_in_order and not d.in_order and self.live:
                ids = self.live_ids()
                d.begin(self.axis_values(d.axis, ids), ids)
        self._link(kids, axes, first)
        for column, array in zip(self.columns, arrays, strict=True):
            column.append(array, first)
            if array.null_count:
                self._ring_bytes = None  # a ring of validity may have come
        self.hi = first + n
        self.live += n
        self.peak = max(self.peak, self.hi - self.lo)
        if matched is not None and matched.any():
            self.mark(first + np.flatnonzero(matched))

    def add_axis(self, ids: np.ndarray, values: np.ndarray, absent: np.ndarray | None) -> None:
        """One more axis value a row: ``values`` for the live rows ``ids``; ``absent`` marks rows it must not kill."""
        rows, self.links = _records(self.cap, self.n_axes + 1)
        rows[:, :-1] = self.rows
        rows[self.places(ids), -1] = values
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
                    ids = ids[ids >= self.lo]
                    ids = ids[(self._flags(self.places(ids)) & index_kernels.LIVE) != 0]
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
            died = index_kernels.unlink(self.places(ids), self.links, self.keys.slots, self.offset)
            self.keys.live -= int(died)
            self.live -= len(ids)

    def settle(self, look: bool = False) -> None:
        """Give back the room of rows that are gone. Ids may change: none may be held across this call.

        ``look`` asks whether the ring itself is too large for what it held since the last look: rings that come and
        go with each batch would cost more than they save.
        """
        peak = self.peak
        shrink = look and self.cap > 2 * max(peak, self.hi - self.lo) + _SPARE
        if look:
            self.peak = self.hi - self.lo
            self._forget_nulls()
        if self.live == self.hi - self.lo and not shrink:
            if self.lo != self._trimmed:
                self._trim()
            return
        if self.runs is not None:
            self.runs.shed(self.live, self.rows, self.links, self.lo)
        if self.live == 0:
            if self.hi > self.lo:
                self.lo = self.hi
                self._trim()
                for d in self.deaths.values():
                    d.clear()
            if shrink:
                self._renumber(_NO_IDS, peak + peak // 8)
            return
        if self.live != self.hi - self.lo:
            self._pass_dead()
        self._trim()
        span = self.hi - self.lo
        if span > 2 * self.live + 1024:
            self._renumber(self.live_ids(), self.live + self.live // 2)
        elif shrink:
            self._recap(_round_up(max(peak + peak // 8, span)))

    def _forget_nulls(self) -> None:
        """Let go of validity that says of every row here that its value is there."""
        kept = [c.valid for c in self.columns if c.valid is not None and c.valid.ring is not None]
        places = self.places(np.arange(self.lo, self.hi)) if kept else _NO_IDS
        forgotten = [valid.forget(places) for valid in kept]
        if any(forgotten):
            self._ring_bytes = None

    # -- reading -------------------------------------------------------------------------------------------------

    def _flags(self, places: np.ndarray) -> np.ndarray:
        """int32[n]: LIVE and MATCHED of the rows at some places."""
        return self.links.reshape(-1).take(places * self.links.shape[1] + index_kernels.FLAGS)

    def places(self, ids: np.ndarray) -> np.ndarray:
        """``ids % cap`` of rows that are stored or have just left, without a division each."""
        places = ids - (self.lo - self.lo % self.cap)
        places[places >= self.cap] -= self.cap
        places[places < 0] += self.cap
        return places

    def live_ids(self) -> np.ndarray:
        ids = np.arange(self.lo, self.hi, dtype=np.int64)
        return ids[(self._flags(self.places(ids)) & index_kernels.LIVE) != 0]

    def matched(self, ids: np.ndarray) -> np.ndarray:
        """bool[n]: which of the rows have matched."""
        return (self._flags(self.places(ids)) & index_kernels.MATCHED) != 0

    def mark(self, ids: np.ndarray) -> None:
        self.links[self.places(ids), index_kernels.FLAGS] |= index_kernels.MATCHED

    def gather(self, column: int, ids: np.ndarray) -> pa.Array:
        return self.columns[column].gather(ids, self.places(ids))

    def axis_values(self, axis: int, ids: np.ndarray) -> np.ndarray:
        return self._image_at(axis, self.places(ids))

    def _image_at(self, axis: int | None, places: np.ndarray) -> np.ndarray:
        """An axis's values at some places, or for None the keys'."""
        # numpy copies a whole array that has gaps before it takes anything of it.
        if axis is None:
            assert isinstance(self.keys, IntKeys)
            kids = self.links.reshape(-1).take(places * self.links.shape[1] + index_kernels.KEY)
            return self.keys.key_of.take(kids)
        return self.rows.reshape(-1).take(places * self.rows.shape[1] + (_FIRST_AXIS + axis))

    @property
    def nbytes(self) -> int:
        """Memory held: rings as allocated, arenas and runs as they are now."""
        if self._ring_bytes is None:
            rings = [c.nbytes for c in self.columns if not c.varies]
            self._ring_bytes = self.rows.nbytes + self._tally.nbytes + sum(rings)
            self._varying = [c for c in self.columns if c.varies]
        if not self._varying and self.runs is None and not self._unordered:
            return self._ring_bytes
        total = self._ring_bytes if self.runs is None else self._ring_bytes + self.runs.nbytes
        for column in self._varying:
            total += column.nbytes
        for d in self.deaths.values():
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
            self.lo, self.hi, _FIRST_AXIS + axis, low, high, self.rows, self.links, self.keys.slots, self.offset,
            dead, self._tally,
        )
        self.lo = int(self._tally[0])
        self.keys.live -= int(self._tally[1])
        self.live -= int(self._tally[2])
        return dead[:count]

    def _pass_dead(self) -> None:
        """Move lo over the dead rows in front."""
        step = 64
        while self.lo < self.hi:
            ids = np.arange(self.lo, min(self.lo + step, self.hi))
            alive = (self._flags(self.places(ids)) & index_kernels.LIVE) != 0
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
            kids, axes, first % self.cap, 1 if self.ordered else 0, self.rows, self.links, self.keys.slots,
            self.offset, self._tally,
        )
        self.keys.live += int(born)
        if self.runs is not None:
            self.runs.add(kids, axes[self.runs.axis], first, self.rows, self.links, min(self.lo, first))
        elif self.ordered:
            self.walked(int(self._tally[0]), len(kids))

    def walked(self, steps: int, linked: int = 0) -> None:
        """Count steps spent on disorder; a store that costs too many turns to sorted runs at its next insert."""
        self._steps += steps
        self._linked += linked
        if self._steps > index_kernels.WORTH_WALKING * self._linked + index_kernels.SOME_STEPS:
            self.disordered = True

    def refused(self, rows: int, probes: int, pushes: int = 1) -> None:
        """Count rows that lay in probe rows' windows of the first axis, but were refused by a band on another one."""
        self._refused += rows
        self._probed += probes + index_kernels.PUSH * pushes

    @property
    def crowded(self) -> bool:
        """Whether the first axis lets so many rows through that another one may be the better index."""
        return (
            self.runs is None and not self.disordered
            and self._refused > index_kernels.WORTH_REFUSING * self._probed + self._patience
        )

    def search_by(self, axis: int, second: int | None) -> None:
        """Turn to runs sorted by an axis at the next insert; 0: keep the lists, and do not ask again too soon.

        ``second``: as of :class:`SortedRuns`.
        """
        self._refused = self._probed = 0
        self._patience *= 4
        if axis:
            self.lead(axis, second)

    def lead(self, axis: int, second: int | None) -> None:
        """Turn to runs sorted by an axis at the next insert."""
        self._led_by = axis, second
        self.disordered = True

    def led(self) -> tuple[int, int | None] | None:
        """The axes by which rows are or will be found in sorted runs; None for lists."""
        if self.runs is not None:
            return self.runs.axis, self.runs.second
        return self._led_by if self.disordered else None

    def turn(self) -> None:
        """Turn to sorted runs now, if that is decided; rows may have other ids after it."""
        if self.disordered:
            self._sort()

    def _sort(self) -> None:
        """Leave the ordered lists for sorted runs."""
        self.disordered = self.ordered = False
        self.runs = SortedRuns(*self._led_by)
        ids = self.live_ids()
        if len(ids):
            if len(ids) < self.hi - self.lo:
                self._renumber(ids, self.cap)
                return
            kids = self.links[self.places(ids), index_kernels.KEY].astype(np.int64)
            values = self.axis_values(self.runs.axis, ids)
            self.runs.add(kids, values, self.lo, self.rows, self.links, self.lo)

    def _make_room(self, n: int) -> None:
        """A larger ring, or the same one without its dead rows."""
        if self.live * 2 < self.hi - self.lo and self.live + n <= self.cap:
            self._renumber(self.live_ids(), self.cap)
            return
        need = self.hi - self.lo + n
        if need > _MOST_ROWS:
            raise OverflowError(
                f"{need:,} rows of one side at once, expected {_MOST_ROWS:,} at most: narrow the window, or divide them"
            )
        # By a quarter at a time, later by an eighth: a row is carried over some times while a window fills, and little
        # room stands empty then.
        more = self.cap // (4 if self.cap < _LARGE else 8)
        self._recap(min(_round_up(max(need, self.cap + more)), _MOST_ROWS))

    def _recap(self, cap: int) -> None:
        """A ring of another capacity, with the same rows under the same ids."""
        rows, links = _records(cap, self.n_axes)
        index_kernels.move(
            self.lo, self.hi, self.rows, self.links, rows, links, self.keys.slots, self.keys.n_ids, self.offset
        )
        for column in self.columns:
            column.grow(cap, self.lo, self.hi)
        self.rows, self.links, self.cap = rows, links, cap
        self._ring_bytes = None

    def _renumber(self, ids: np.ndarray, room: int) -> None:
        """Keep only these rows, as ids 0, 1, ..., in a ring of at least ``room``; relinks every list."""
        n = len(ids)
        cap = _round_up(max(room, n))
        places = self.places(ids)
        kids = self.links[places, index_kernels.KEY].astype(np.int64)
        axes = np.ascontiguousarray(self.rows[places, _FIRST_AXIS:].T)
        kept_flags = self._flags(places)
        self.keys.live -= int(index_kernels.unlink(places, self.links, self.keys.slots, self.offset))
        for column in self.columns:
            column.select(ids, places, cap)
        self.rows, self.links = _records(cap, self.n_axes)
        self.cap, self.lo, self.hi, self.live, self._trimmed = cap, 0, n, n, 0
        self._ring_bytes = None
        if self.runs is not None:
            self.runs.clear()
        self._link(kids, axes, 0)
        self.links[:n, index_kernels.FLAGS] = kept_flags
        fresh = np.arange(n, dtype=np.int64)
        for d in self.deaths.values():
            d.renumber(ids, fresh)


def _round_up(n: int) -> int:
    return max(64, -(-n // 16) * 16)


def _records(cap: int, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Empty row records as words, and the same memory as links."""
    rows = np.empty((cap, _FIRST_AXIS + n_axes), dtype=np.int64)
    links = rows.view(np.int32)
    links[:, index_kernels.FLAGS] = 0
    return rows, links
