"""One side's stored rows: the ring of row records, its payload columns, and the schedules of what dies.

Counts and edges live in the side's ``SIDE`` record, which the kernels read and write; this class is the way to them
from Python, and does what is rare: making room, compacting, changing the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.shj import registers as at
from ivjoin.shj.arrow import byte_width
from ivjoin.shj.kernels import index_kernels
from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.registers import RING, SIDE, STORED, Register
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.backing import in_memory
from ivjoin.shj.store.columns import BoolColumn, OrdinalColumn, WordColumn, columns_of
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable
from ivjoin.shj.store.ring_room import keep_apart, more, next_cap, note_order, recap, renumber, sort
from ivjoin.shj.store.rings import Column
from ivjoin.shj.store.runs import SortedRuns
from ivjoin.shj.store.schedules import Schedules
from ivjoin.shj.store.sizes import extend, fitting, is_wide, row_records
from ivjoin.shj.store.sums import with_number
from ivjoin.shj.store.varying import BytesColumn, KeyTextColumn

__all__ = ["SideStore"]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
_NO_IDS = np.empty(0, dtype=np.int64)
_FIRST_AXIS = index_kernels.FIRST_AXIS
_MOST_PATIENCE = 2**60
_WORDS, _ENTRY, _RING = map(at.words_in, (SIDE, STORED, RING))
(_ROWS, _N_AXES, _EXPIRY, _BY_PYTHON, _SORTED, _STORED, _N_STORED, _TEXTS, _N_TEXTS, _RINGS, _HAS_NULLS,
 _KEY_PIECES, _EXTENTS) = map(
    at.words_of(SIDE).__getitem__,
    ("rows", "n_axes", "expiry", "by_python", "sorted", "stored", "n_stored", "texts", "n_texts", "rings", "has_nulls",
     "n_key_pieces", "extents"),
)


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
    sums : list of (int, float), optional
        Further axes, of which nothing is stored: one of those and a number, added; see ``ivjoin.plan.sums``.
    ordered : bool
        Keep each key's rows sorted by the first axis; pays when rows arrive nearly in that order.
    same : dict of int to int or None
        Payload columns that are an axis (its index) or the key (None; ``keys`` is an ``IntKeys``), value for value,
        and need not be stored twice.
    in_key : dict of int to int
        Payload columns that are one of the key's ``pieces`` (its place; ``keys`` are ``ByteKeys``), byte for byte.
    stored : list of int, optional
        Which columns of the input these are; 0, 1, ... if not given.
    sides : SIDE[2], optional
        The operator's records, one a side.
    widths : list of int or None, optional
        The types' ``byte_width``, where they are known.
    account : Account, optional
    """

    lo = Register(SIDE, "lo")
    hi = Register(SIDE, "hi")
    live = Register(SIDE, "live")
    cap = Register(SIDE, "cap")
    ordered = Register(SIDE, "ordered")
    owes = Register(SIDE, "owes")
    peak = Register(SIDE, "peak_span")  # rows in the ring at most since the last look at its size
    _trimmed = Register(SIDE, "trimmed")
    _fitted = Register(SIDE, "fitted")  # rows that had come when the ring was last made to fit
    _rows_in = Register(SIDE, "rows_in")
    _steps = Register(SIDE, "steps")
    _linked = Register(SIDE, "linked")
    _refused = Register(SIDE, "refused")
    _probed = Register(SIDE, "probed")
    _patience = Register(SIDE, "patience")

    def __init__(
        self, side: int, keys: KeyTable, types: Sequence[pa.DataType], n_axes: int, *, ordered: bool,
        same: Mapping[int, int | None] | None = None, in_key: Mapping[int, int] | None = None, pieces: int = 0,
        stored: Sequence[int] | None = None,
        sides: np.ndarray | None = None, widths: Sequence[int | None] | None = None, account: Account | None = None,
        sums: Sequence[tuple[int, float]] = (),
    ) -> None:
        self.side = side
        self.offset = 3 * side  # where this side's head, tail and finger stand in a slot
        self.keys = keys
        self.account = account or Account()
        if sides is None:
            sides = at.blank(SIDE, 2)
            keys._operator[0]["sides"] = address(sides)
        self._sides = sides
        self._registers = at.as_words(sides)[side * _WORDS : (side + 1) * _WORDS]
        self.n_axes, self.sums = n_axes, sums
        self.ordered = int(ordered)
        self.cap = 64
        self.rows, self.links = row_records(64, n_axes)
        self._registers[_KEY_PIECES] = pieces
        self.stored = list(range(len(types)) if stored is None else stored)
        widths = [byte_width(t) for t in types] if widths is None else widths
        self.columns, self._texts = columns_of(
            types, widths, self.stored, same or {}, in_key or {}, WeakMethod(self._ordinals_at),
            WeakMethod(self._pieces_at) if in_key else None,
        )
        self._widths = [width or 0 for width in widths]
        # STORED and RING records, as words; written through their views.
        self._table = np.zeros(_ENTRY * len(types), dtype=np.int64)
        self._rings = np.zeros((max(self.stored, default=0) + 1, _RING), dtype=np.int64)
        self._table_words, self._ring_words = self._table.data, self._rings.reshape(-1).data
        self.schedules = Schedules(side, n_axes, self.account)
        self._tally = np.zeros(3, dtype=np.int64)
        # Between which values the rows that are or were here lie, axis by axis; where the kernels need it.
        self.extents = np.zeros((n_axes, 2), dtype=np.int64)
        self._registers[_EXTENTS] = address(self.extents)
        self.runs: SortedRuns | None = None
        self.disordered = False
        self._led_by: tuple[int, int | None] = (0, None)
        self._patience = index_kernels.SOME_REFUSED
        # Changes of capacity; and after how many of them bytes were counted, with what must be asked each time. Another
        # thread may count during a change: what it finds is of the time before, and forgotten.
        self._changes = 0
        self._counted: tuple[int, int, list[Column]] | None = None
        by_kernel = WordColumn, OrdinalColumn, KeyTextColumn
        self.by_python = [i for i, c in enumerate(self.columns) if not isinstance(c, by_kernel)]
        self.texts = [c for c in self.columns if isinstance(c, (BytesColumn, BoolColumn))]
        self.compiled_text = False  # kernels keep the text
        self.others = [i for i in self.by_python if self.columns[i] not in self.texts]  # that no kernel can keep
        self.point()

    def point(self) -> None:
        """Tell the side's record where everything is, after memory has moved."""
        r, table, rings = self._registers.data, self._table_words, self._ring_words
        rows = address(self.rows)
        r[_ROWS], r[_N_AXES] = rows, self.n_axes
        r[_EXPIRY] = self.schedules.address
        alone = self.compiled_text and not self.others
        r[_BY_PYTHON] = 0 if not self.by_python else at.TEXT_ALONE if alone else at.ARRAYS
        r[_SORTED] = self.runs is not None
        n = 0
        nulls = False
        for column, c, width in zip(self.stored, self.columns, self._widths, strict=True):
            ring = None if c.valid is None else c.valid.ring
            valid = 0 if ring is None else address(ring)
            k = _RING * column
            if isinstance(c, WordColumn):
                ring_at = address(c._ring)
                rings[k], rings[k + 1], rings[k + 2] = ring_at, width, valid
                table[n], table[n + 1], table[n + 2], table[n + 3] = column, ring_at, width, valid
                n += _ENTRY
            elif isinstance(c, OrdinalColumn):
                if c.source is not None:
                    first = rows + 8 * (_FIRST_AXIS + c.source)
                    stride = self.rows.strides[0]
                    rings[k], rings[k + 1], rings[k + 2] = first, -stride if c.doubles else stride, valid
                else:
                    assert isinstance(self.keys, IntKeys)
                    rings[k], rings[k + 1], rings[k + 2] = self.keys.keys_at, 0, valid
                table[n], table[n + 1], table[n + 2], table[n + 3] = column, c.doubles, 0, valid
                n += _ENTRY
            elif isinstance(c, KeyTextColumn):
                rings[k], rings[k + 1], rings[k + 2] = 0, -1 - c.piece, 0
            elif isinstance(c, (BytesColumn, BoolColumn)):
                c.point()
                rings[k], rings[k + 1], rings[k + 2] = address(c.record), 0, valid
            else:
                continue
            nulls |= valid != 0
        r[_STORED], r[_N_STORED] = address(self._table), n // _ENTRY
        r[_TEXTS], r[_N_TEXTS] = address(self._texts), len(self._texts)
        r[_RINGS], r[_HAS_NULLS] = address(self._rings), nulls

    # -- rows in -------------------------------------------------------------------------------------------------

    def insert(
        self, key_ids: np.ndarray, axes: np.ndarray, arrays: Sequence[pa.Array],
        absent: Mapping[int, np.ndarray] | None, matched: np.ndarray | None = None,
    ) -> None:
        """Store rows: their key ids, axes : int64[a, n] and payload. ``absent`` names rows an axis must not kill."""
        n = len(key_ids)
        if n == 0:
            return
        axes = axes[: self.n_axes]  # those that are stored
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
            if array.null_count:
                self._changes += 1  # a ring of validity may have come
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
            flag = np.int32(1 << (8 + min(self.stored_axis(axis), 22)))
            self.links[places[np.flatnonzero(unknown)], index_kernels.FLAGS] |= flag
        self.point()
        self.reschedule()

    def append_by_python(self, arrays: Mapping[int, pa.Array]) -> None:
        """The kernel's next rows in the columns that it does not keep itself, by place among the stored columns."""
        for i, array in arrays.items():
            self.columns[i].append(array, self.hi)
            if array.null_count:
                self._changes += 1

    def moved(self) -> None:
        """Take in that memory has moved, or that there is more of it."""
        self._changes += 1
        self.point()

    # -- schedules of death --------------------------------------------------------------------------------------

    def schedule(self, axis: int, falling: bool) -> None:
        """Watch for rows that a bound on an axis takes out, if that is not done yet, and if there is room for it."""
        axis = self.stored_axis(axis)
        if not self.schedules.is_used(axis, int(falling)):
            values = self._arrived if self.live else None
            self.schedules.start(axis, int(falling), self.keys.operator_address, values)
            if values is not None:
                self._changes += 1

    def reschedule(self) -> None:
        """Every schedule anew, after rows were renumbered or came otherwise than by a push."""
        if self.hi == self.lo:
            self.schedules.empty(self.lo)
        else:
            self._reschedule(self.schedules.used())

    def _reschedule(self, which: Iterable[tuple[int, int]]) -> None:
        for axis, falling in which:
            self.schedules.anew(axis, falling, self.keys.operator_address, self._arrived(axis))
            self._changes += 1

    def _arrived(self, axis: int) -> np.ndarray:
        """An axis's values of all rows, in the order of arrival."""
        return self.axis_values(axis, self.live_ids())

    # -- rows out ------------------------------------------------------------------------------------------------

    def settle(self, look: bool = False, n: int = 0) -> None:
        """Give back the room of rows that are gone. Ids may change: none may be held across this call.

        ``look`` asks whether the ring itself is too large for what it held since the last look: rings that come and
        go with each batch would cost more than they save.
        """
        peak = max(self.peak, self.hi - self.lo + n)
        shrink = look and is_wide(self.cap, peak, self._rows_in - self._fitted)
        if look:
            self.peak = self.hi - self.lo
            self._give_back(n)
        self._reschedule(self.schedules.laden(self.live))
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
            if shrink:
                self._fitted = self._rows_in
                renumber(self, _NO_IDS, peak + peak // 32)
            return
        if self.live != self.hi - self.lo:
            self._pass_dead()
        self._trim()
        span = self.hi - self.lo
        if span > 2 * self.live + 1024:
            renumber(self, self.live_ids(), self.live + self.live // 2)
        elif shrink:
            self._fitted = self._rows_in
            recap(self, fitting(peak + peak // 32))

    def _give_back(self, n: int) -> None:
        """Let go of validity that says of every row here that its value is there, and of room in heaps."""
        kept = [c.valid for c in self.columns if c.valid is not None and c.valid.ring is not None]
        places = self.places(np.arange(self.lo, self.hi)) if kept else _NO_IDS
        forgotten = [valid.forget(places) for valid in kept]
        if self.schedules.fit(n) or any(forgotten):
            self._changes += 1
            self.point()

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

    def ids_at(self, places: np.ndarray) -> np.ndarray:
        """Ids of rows that are stored or have just left, by their places."""
        turn = self.lo - self.lo % self.cap
        ids = places + turn
        ids[ids < self.lo] += self.cap
        return ids

    def mark_places(self, places: np.ndarray) -> None:
        self.links[places, index_kernels.FLAGS] |= index_kernels.MATCHED

    def gather(self, column: int, ids: np.ndarray) -> pa.Array:
        return self.columns[column].gather(ids, self.places(ids))

    def gather_all(self, ids: np.ndarray) -> list[pa.Array]:
        """Every stored column of some rows."""
        places = self.places(ids)
        return [c.gather(ids, places) for c in self.columns]

    def gather_places(self, column: int, places: np.ndarray) -> pa.Array:
        c = self.columns[column]
        # Only what is kept as Arrow's own arrays, or lies in files, is found by ids.
        return c.gather(self.ids_at(places) if c.varies and c not in self.texts else _NO_IDS, places)

    def axis_values(self, axis: int, ids: np.ndarray) -> np.ndarray:
        values = self._ordinals_at(self.stored_axis(axis), self.places(ids))
        return values if axis < self.n_axes else with_number(values, self.sums[axis - self.n_axes][1])

    def stored_axis(self, axis: int) -> int:
        """The axis itself, or what it is a sum of."""
        return axis if axis < self.n_axes else self.sums[axis - self.n_axes][0]

    def _ordinals_at(self, axis: int | None, places: np.ndarray) -> np.ndarray:
        """An axis's values at some places, or for None the keys'."""
        # numpy copies a whole array that has gaps before it takes anything of it.
        if axis is None:
            assert isinstance(self.keys, IntKeys)
            return self.keys.keys_of(self._key_ids_at(places))
        return self.rows.reshape(-1).take(places * self.rows.shape[1] + (_FIRST_AXIS + axis))

    def _key_ids_at(self, places: np.ndarray) -> np.ndarray:
        return self.links.reshape(-1).take(places * self.links.shape[1] + index_kernels.KEY)

    def _pieces_at(self, piece: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A piece of the keys of the rows at some places; as ``ByteKeys.piece_of``."""
        assert isinstance(self.keys, ByteKeys)
        key_ids = self._key_ids_at(places).astype(np.int64)
        return self.keys.piece_of(key_ids, piece, int(self._registers[_KEY_PIECES]))

    @property
    def nbytes(self) -> int:
        """Memory held: rings as allocated, arenas and runs as they are now."""
        counted, changes, runs = self._counted, self._changes, self.runs
        if counted is None or counted[0] != changes:
            arrays = self._table, self._rings, self._texts, self._tally, self.extents
            tables = self.schedules.nbytes + sum(x.nbytes for x in arrays)
            rings = in_memory(self.rows) + sum(c.nbytes for c in self.columns if not c.varies) + tables
            counted = self._counted = changes, rings, [c for c in self.columns if c.varies]
        total = counted[1] if runs is None else counted[1] + runs.nbytes
        for column in counted[2]:
            total += column.nbytes
        return total

    @property
    def lies_in_files(self) -> bool:
        """Whether some of its arrays do."""
        return not in_memory(self.rows) or any(c.lies_in_files for c in self.columns)

    # -- inside --------------------------------------------------------------------------------------------------

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

    def _link(self, key_ids: np.ndarray, axes: np.ndarray, first: int) -> None:
        """Put rows into the index: their key's list, kept in order while that is cheap, or sorted runs."""
        self._tally[0] = 0
        born = index_kernels.insert(
            key_ids, axes, first % self.cap, 1 if self.ordered else 0, self.rows, self.links, self.keys.slots,
            self.offset, self._tally, address(self.rows),
        )
        self.keys.live += int(born)
        if self.runs is not None:
            self.runs.add(key_ids, axes[self.runs.axis], first, self.rows, self.links, min(self.lo, first))
        elif self.ordered:
            self.walked(int(self._tally[0]), len(key_ids))

    def walked(self, steps: int, linked: int = 0) -> None:
        """Count steps spent on disorder; a store that costs too many turns to sorted runs at its next insert."""
        self._steps += steps
        self._linked += linked
        if self._steps > index_kernels.WORTH_WALKING * self._linked + index_kernels.SOME_STEPS:
            self.disordered = True

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
        self._patience = min(4 * self._patience, _MOST_PATIENCE)
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
        """Turn to sorted runs now, if that is decided and they fit; rows may have other ids after it."""
        if self.disordered and self.account.fits(40 * self.live + 40_960):
            sort(self)

    def make_room(self, n: int) -> None:
        """A larger ring, or the same one without its dead rows."""
        if self.live * 2 < self.hi - self.lo and self.live + n <= self.cap:
            renumber(self, self.live_ids(), self.cap)
            return
        self.account.want(lambda: more(self, next_cap(self, n)))  # what is asked may take rows away
        if self.hi - self.lo + n > self.cap:
            recap(self, next_cap(self, n))

    def key_ids(self, ids: np.ndarray) -> np.ndarray:
        """The key ids of rows : int64[n]."""
        return self.links[self.places(ids), index_kernels.KEY].astype(np.int64)

    def flags(self, ids: np.ndarray) -> np.ndarray:
        """int32[n]: LIVE, MATCHED, and which axes have no value, of rows."""
        return self._flags(self.places(ids))

    def move_rows(self, rows: np.ndarray) -> None:
        """Let the records lie elsewhere, as they are."""
        self.rows, self.links = rows, rows.view(np.int32)
        self.moved()
