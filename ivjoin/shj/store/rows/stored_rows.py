"""Store one side's rows: the ring of row records, the payload columns, the index and the expiry schedules.

Counts and edges are in the side's ``SIDE`` record, which the kernels read and write. This class gives Python access to
them. :class:`ivjoin.shj.store.rows.side.SideStore` adds the methods that change the capacity or the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.shj import registers as at
from ivjoin.shj.arrow import byte_width, with_number
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.kernels.push import index_kernels
from ivjoin.shj.registers import RING, SIDE, STORED, Register
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.disk.backing import in_memory
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable
from ivjoin.shj.store.rows.runs import SortedRuns
from ivjoin.shj.store.rows.schedules import Schedules
from ivjoin.shj.store.sizes import row_records
from ivjoin.shj.store.values.columns import BoolColumn, OrdinalColumn, WordColumn, columns_of
from ivjoin.shj.store.values.texts import BytesColumn, KeyTextColumn

__all__ = ["StoredRows"]

_NO_IDS = np.empty(0, dtype=np.int64)
_FIRST_AXIS = index_kernels.FIRST_AXIS
_WORDS, _ENTRY, _RING = map(at.words_in, (SIDE, STORED, RING))
(_ROWS, _N_AXES, _EXPIRY, _BY_PYTHON, _SORTED, _STORED, _N_STORED, _TEXTS, _N_TEXTS, _RINGS, _HAS_NULLS,
 _KEY_PIECES, _EXTENTS) = map(
    at.words_of(SIDE).__getitem__,
    ("rows", "n_axes", "expiry", "by_python", "sorted", "stored", "n_stored", "texts", "n_texts", "rings", "has_nulls",
     "n_key_pieces", "extents"),
)


class StoredRows:
    """Rows of one input that may still match.

    Parameters
    ----------
    types : list of pa.DataType
        Types of the stored payload columns. Their positions in the input are ``stored``, their byte widths ``widths``.
    n_axes, sums : int, list of (int, float)
        Stored axes, and additional ones: a stored axis plus a number. If ``ordered``, the first axis sorts a key's
        rows.
    same : dict of int to int or None
        Payload columns that equal an axis (its index) or the key (None). They are not stored again.
    in_key : dict of int to int
        Payload columns whose bytes equal one of the key's ``pieces`` (its position).
    """

    lo = Register(SIDE, "lo")
    hi = Register(SIDE, "hi")
    live = Register(SIDE, "live")
    cap = Register(SIDE, "cap")
    ordered = Register(SIDE, "ordered")
    owes = Register(SIDE, "owes")
    peak = Register(SIDE, "peak_span")  # greatest number of rows in the ring since its size was last checked
    _trimmed = Register(SIDE, "trimmed")
    _fitted = Register(SIDE, "fitted")  # value of `rows_in` when the size of the ring was last fitted
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
        self.offset = 3 * side  # position of this side's head, tail and finger in a slot
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
        # Least and greatest value of each axis for the kernels, over all rows since the store was last empty.
        self.extents = np.zeros((n_axes, 2), dtype=np.int64)
        self._registers[_EXTENTS] = address(self.extents)
        self.runs: SortedRuns | None = None
        self.disordered = False
        self._led_by: tuple[int, int | None] = (0, None)
        self._patience = index_kernels.SOME_REFUSED
        self.sort_columns()
        self.point()

    def sort_columns(self) -> None:
        """Record which columns kernels do not store, after columns have changed."""
        by_kernel = WordColumn, OrdinalColumn, KeyTextColumn
        self.by_python = [i for i, c in enumerate(self.columns) if not isinstance(c, by_kernel)]
        self.texts = [c for c in self.columns if isinstance(c, (BytesColumn, BoolColumn))]
        self.others = [i for i in self.by_python if self.columns[i] not in self.texts]  # kernels cannot store these
        if len(self._texts) != len(self.texts):  # some columns have moved to files
            self._texts = at.blank(at.TEXT, len(self.texts))
            for k, c in enumerate(self.texts):
                self._texts[k : k + 1] = c.record
                c.take_record(self._texts[k : k + 1])

    def point(self) -> None:
        """Write the addresses of the arrays to the side's record after memory has moved."""
        r, table, rings = self._registers.data, self._table_words, self._ring_words
        rows = address(self.rows)
        r[_ROWS], r[_N_AXES] = rows, self.n_axes
        r[_EXPIRY] = self.schedules.address
        r[_BY_PYTHON] = 0 if not self.by_python else at.ARRAYS if self.others else at.TEXT_ALONE
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

    def move_rows(self, rows: np.ndarray) -> None:
        self.rows, self.links = rows, rows.view(np.int32)
        self.point()

    def _link(self, key_ids: np.ndarray, axes: np.ndarray, first: int) -> None:
        """Add rows to the index: to their key's list, sorted as long as this is cheap, or to sorted runs."""
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
        """Count steps spent on disorder. A store with too many steps switches to sorted runs at its next insert."""
        self._steps += steps
        self._linked += linked
        if self._steps > index_kernels.WORTH_WALKING * self._linked + index_kernels.SOME_STEPS:
            self.disordered = True

    def schedule(self, axis: int, falling: bool) -> None:
        """Start the schedule of an axis and direction, unless it exists or does not fit the memory limit."""
        axis = self.stored_axis(axis)
        if not self.schedules.is_used(axis, int(falling)):
            values = self._arrived if self.live else None
            self.schedules.start(axis, int(falling), self.keys.operator_address, values)

    def reschedule(self) -> None:
        """Rebuild every schedule, after rows were renumbered or were stored by other code than a push."""
        if self.hi == self.lo:
            self.schedules.empty(self.lo)
        else:
            self._reschedule(self.schedules.used())

    def _reschedule(self, which: Iterable[tuple[int, int]]) -> None:
        for axis, falling in which:
            self.schedules.anew(axis, falling, self.keys.operator_address, self._arrived(axis))

    def _arrived(self, axis: int) -> np.ndarray:
        return self.axis_values(axis, self.live_ids())

    def _trim(self) -> None:
        for column in self.columns:
            if column.varies:
                column.trim(self.lo)
        self._trimmed = self.lo

    def places(self, ids: np.ndarray) -> np.ndarray:
        """Return ``ids % cap`` of rows that are stored or have just been removed, without a division per row."""
        places = ids - (self.lo - self.lo % self.cap)
        places[places >= self.cap] -= self.cap
        places[places < 0] += self.cap
        return places

    def ids_at(self, places: np.ndarray) -> np.ndarray:
        """Return the ids of rows that are stored or have just been removed, by their places."""
        turn = self.lo - self.lo % self.cap
        ids = places + turn
        ids[ids < self.lo] += self.cap
        return ids

    def live_ids(self) -> np.ndarray:
        ids = np.arange(self.lo, self.hi, dtype=np.int64)
        return ids[(self._flags(self.places(ids)) & index_kernels.LIVE) != 0]

    def flags(self, ids: np.ndarray) -> np.ndarray:
        """Return the flags of rows : int32[n]: LIVE, MATCHED, and the axes without a value."""
        return self._flags(self.places(ids))

    def _flags(self, places: np.ndarray) -> np.ndarray:
        return self.links.reshape(-1).take(places * self.links.shape[1] + index_kernels.FLAGS)

    def matched(self, ids: np.ndarray) -> np.ndarray:
        return (self._flags(self.places(ids)) & index_kernels.MATCHED) != 0

    def mark_places(self, places: np.ndarray) -> None:
        self.links[places, index_kernels.FLAGS] |= index_kernels.MATCHED

    def key_ids(self, ids: np.ndarray) -> np.ndarray:
        return self.links[self.places(ids), index_kernels.KEY].astype(np.int64)

    def _key_ids_at(self, places: np.ndarray) -> np.ndarray:
        return self.links.reshape(-1).take(places * self.links.shape[1] + index_kernels.KEY)

    def gather(self, column: int, ids: np.ndarray) -> pa.Array:
        return self.columns[column].gather(ids, self.places(ids))

    def gather_all(self, ids: np.ndarray) -> list[pa.Array]:
        places = self.places(ids)
        return [c.gather(ids, places) for c in self.columns]

    def gather_places(self, column: int, places: np.ndarray) -> pa.Array:
        c = self.columns[column]
        # Only Arrow arrays and columns in files are read by id.
        return c.gather(self.ids_at(places) if c.varies and c not in self.texts else _NO_IDS, places)

    def axis_values(self, axis: int, ids: np.ndarray) -> np.ndarray:
        values = self._ordinals_at(self.stored_axis(axis), self.places(ids))
        return values if axis < self.n_axes else with_number(values, self.sums[axis - self.n_axes][1])

    def stored_axis(self, axis: int) -> int:
        return axis if axis < self.n_axes else self.sums[axis - self.n_axes][0]

    def _ordinals_at(self, axis: int | None, places: np.ndarray) -> np.ndarray:
        """Return an axis's values at places, or the keys for None."""
        # `take` on an array that is not contiguous would copy all of it first.
        if axis is None:
            assert isinstance(self.keys, IntKeys)
            return self.keys.keys_of(self._key_ids_at(places))
        return self.rows.reshape(-1).take(places * self.rows.shape[1] + (_FIRST_AXIS + axis))

    def _pieces_at(self, piece: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        assert isinstance(self.keys, ByteKeys)
        key_ids = self._key_ids_at(places).astype(np.int64)
        return self.keys.piece_of(key_ids, piece, int(self._registers[_KEY_PIECES]))

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use: rings with their capacity, arenas and runs with their current size."""
        tables = self._table, self._rings, self._texts, self._tally, self.extents
        total = in_memory(self.rows) + self.schedules.nbytes + sum(x.nbytes for x in tables)
        return total + sum(c.nbytes for c in self.columns) + (0 if self.runs is None else self.runs.nbytes)

    @property
    def lies_in_files(self) -> bool:
        return not in_memory(self.rows) or any(c.lies_in_files for c in self.columns)
