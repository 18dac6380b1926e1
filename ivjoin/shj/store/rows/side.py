"""Change a store's rows: insert, grow, compact, and switch the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.shj.kernels.push import index_kernels
from ivjoin.shj.registers import I64_MAX, I64_MIN
from ivjoin.shj.store.rows.ring_room import keep_apart, more, next_cap, note_order, recap, renumber, sort
from ivjoin.shj.store.rows.stored_rows import StoredRows
from ivjoin.shj.store.sizes import extend, fitting, is_wide
from ivjoin.shj.store.values.columns import OrdinalColumn

__all__ = ["SideStore"]

_NO_IDS = np.empty(0, dtype=np.int64)
_MOST_PATIENCE = 2**60


class SideStore(StoredRows):
    """Rows of one input that may still match, in rings indexed by row id. See :class:`StoredRows`."""

    def insert(
        self, key_ids: np.ndarray, axes: np.ndarray, arrays: Sequence[pa.Array],
        absent: Mapping[int, np.ndarray] | None, matched: np.ndarray | None = None,
    ) -> None:
        """Store rows, given by key ids, axes : int64[a, n] and payload.

        ``absent`` has for an axis the rows without a value there : bool[n].
        """
        n = len(key_ids)
        if n == 0:
            return
        axes = axes[: self.n_axes]  # sums are not stored
        self.turn()
        if self.hi - self.lo + n > self.cap:
            self.make_room(n)
        for i, (column, array) in enumerate(zip(self.columns, arrays, strict=True)):
            if isinstance(column, OrdinalColumn) and not column.tells(array):
                keep_apart(self, i)
        first = self.hi
        self._link(key_ids, axes, first)
        for column, array in zip(self.columns, arrays, strict=True):
            column.append(array, first)
        if n and self.n_axes:
            empty = self.live == 0
            r = self._sides[self.side]
            note_order(self, axes[0])
            r["least"] = min(int(axes[0].min()), I64_MAX if empty else int(r["least"]))
            r["most"] = max(int(axes[0].max()), I64_MIN if empty else int(r["most"]))
            extend(self.extents, axes, empty)
        self.hi = first + n
        self.live += n
        self.peak = max(self.peak, self.hi - self.lo)
        places = self.places(np.arange(first, first + n))
        if matched is not None:
            self.links[places[np.flatnonzero(matched)], index_kernels.FLAGS] |= index_kernels.MATCHED
        for axis, unknown in (absent or {}).items():
            bit = index_kernels.FIRST_ABSENCE + min(self.stored_axis(axis), index_kernels.MOST_AXES)
            self.links[places[np.flatnonzero(unknown)], index_kernels.FLAGS] |= np.int32(1 << bit)
        self.point()
        self.reschedule()

    def append_by_python(self, arrays: Mapping[int, pa.Array]) -> None:
        """Store the kernel's next rows in the columns that kernels do not store.

        ``arrays`` are given by column position.
        """
        for i, array in arrays.items():
            self.columns[i].append(array, self.hi)

    def make_room(self, n: int) -> None:
        """Grow the ring, or compact it if half of its rows are dead."""
        if self.live * 2 < self.hi - self.lo and self.live + n <= self.cap:
            renumber(self, self.live_ids(), self.cap)
            return
        self.account.want(lambda: more(self, next_cap(self, n)))  # `on_full` may remove rows
        if self.hi - self.lo + n > self.cap:
            recap(self, next_cap(self, n))

    def shrink(self, look: bool = False, n: int = 0) -> None:
        """Free the memory of evicted rows. Ids may change, so the caller must not use earlier ids afterwards.

        With ``look``, also shrink the ring if it is too large for the greatest number of rows since the last look, plus
        ``n``. A ring that shrinks and grows with each batch would cost more than it saves.
        """
        peak = max(self.peak, self.hi - self.lo + n)
        narrower = look and is_wide(self.cap, peak, self._rows_in - self._fitted)
        if look:
            self.peak = self.hi - self.lo
            self._give_back(n)
        self._reschedule(self.schedules.laden(self.live))
        if self.live == self.hi - self.lo and not narrower:
            if self.lo != self._trimmed:
                self._trim()
            return
        if self.runs is not None:
            self.runs.shed(self.live, self.rows, self.links, self.lo)
        if self.live == 0:
            if self.hi > self.lo:
                self.lo = self.hi
                self._trim()
            if narrower:
                self._fitted = self._rows_in
                renumber(self, _NO_IDS, peak + peak // 32)
            return
        if self.live != self.hi - self.lo:
            self._pass_dead()
        self._trim()
        span = self.hi - self.lo
        if span > 2 * self.live + 1024:
            renumber(self, self.live_ids(), self.live + self.live // 2)
        elif narrower:
            self._fitted = self._rows_in
            recap(self, fitting(peak + peak // 32))

    def _give_back(self, n: int) -> None:
        """Free validity rings in which every row is valid, and excess capacity of heaps."""
        kept = [c.valid for c in self.columns if c.valid is not None and c.valid.ring is not None]
        places = self.places(np.arange(self.lo, self.hi)) if kept else _NO_IDS
        forgotten = [valid.forget(places) for valid in kept]
        if self.schedules.fit(n) or any(forgotten):
            self.point()

    def _pass_dead(self) -> None:
        """Move ``lo`` over the dead rows in front."""
        step = 64
        while self.lo < self.hi:
            ids = np.arange(self.lo, min(self.lo + step, self.hi))
            alive = (self._flags(self.places(ids)) & index_kernels.LIVE) != 0
            if alive.any():
                self.lo += int(alive.argmax())
                break
            self.lo += len(ids)
            step *= 4

    @property
    def crowded(self) -> bool:
        """Whether another axis may be a better index, because the first axis admits many rows."""
        return (
            self.runs is None and not self.disordered
            and self._refused > index_kernels.WORTH_REFUSING * self._probed + self._patience
        )

    def search_by(self, axis: int, second: int | None) -> None:
        """Switch to runs sorted by an axis at the next insert. 0 retains the lists and delays the next check."""
        self._refused = self._probed = 0
        self._patience = min(4 * self._patience, _MOST_PATIENCE)
        if axis:
            self.lead(axis, second)

    def lead(self, axis: int, second: int | None) -> None:
        self._led_by = axis, second
        self.disordered = True

    def led(self) -> tuple[int, int | None] | None:
        """Return the axes that sort the present or pending runs, or None for lists."""
        if self.runs is not None:
            return self.runs.axis, self.runs.second
        return self._led_by if self.disordered else None

    def turn(self) -> None:
        """Switch to sorted runs now, if that is pending and they fit the memory limit. Ids of rows may change."""
        if self.disordered and self.account.fits(40 * self.live + 40_960):
            sort(self)
