"""Stored payload columns of one side: rings over raw words, rings over bytes, and whole Arrow arrays for the rest.

A stored row has an absolute id; ids of one side run without gaps. Every column offers::

    append(array)           rows with the next ids
    grow(cap, lo, hi)       a ring of a new capacity, not below the rows held
    gather(ids, places)     the values of those rows, as an array of the column's type
    select(ids, places, cap)  only these rows are kept, renumbered from 0
    trim(lo)                rows below lo are gone

``places`` is ``ids % cap``, computed once for all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj import arrow
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels.memory import address_of as address
from ivjoin.shj.registers import BITS, BYTES, TEXT, Register, blank

__all__ = [
    "BytesColumn", "Column", "ImageColumn", "SegmentColumn", "WordColumn", "buffer_bytes", "column_for", "text_bytes",
    "too_much_text",
]

_NARROW = 2**32  # bytes of an arena that uint32 can tell apart
_ROOM = list(TEXT.names or ()).index("room")


class Column(Protocol):
    """What a stored column offers; see the module's head."""

    type: pa.DataType
    varies: bool  # memory changes with what is stored, not with the capacity alone

    @property
    def valid(self) -> Validity | None: ...  # None: not kept apart from the values

    @property
    def nbytes(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...  # of its rings, a row
    def append(self, array: pa.Array, first: int) -> None: ...
    def grow(self, cap: int, lo: int, hi: int) -> None: ...
    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array: ...
    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None: ...
    def trim(self, lo: int) -> None: ...


def column_for(t: pa.DataType, cap: int, record: np.ndarray | None = None, width: int | None = -1) -> Column:
    """The store that fits an Arrow type.

    ``record`` : TEXT[1], for one that is kept there. ``width``: the type's ``byte_width``, if that is known.
    """
    width = arrow.byte_width(t) if width == -1 else width
    if width is not None:
        return WordColumn(t, cap, width)
    if arrow.offset_width(t) is not None:
        return BytesColumn(t, cap, record)
    if pa.types.is_boolean(t):
        return BoolColumn(t, cap, record)
    return SegmentColumn(t)


def _put(ring: np.ndarray, first: int, values: np.ndarray) -> None:
    """Write values at ids first, first+1, ... of a ring, in at most two pieces."""
    at = first % len(ring)
    room = len(ring) - at
    n = len(values)
    if n <= room:
        ring[at : at + n] = values
    else:
        ring[at:] = values[:room]
        ring[: n - room] = values[room:]


def _regrown(ring: np.ndarray, cap: int, lo: int, hi: int) -> np.ndarray:
    fresh = np.empty((cap, *ring.shape[1:]), dtype=ring.dtype)
    at = lo % len(ring)
    piece = ring[at : at + hi - lo]
    _put(fresh, lo, piece)
    _put(fresh, lo + len(piece), ring[: hi - lo - len(piece)])
    return fresh


class Validity:
    """A ring of validity bytes that exists only once a null has been seen."""

    __slots__ = ("ring",)

    def __init__(self) -> None:
        self.ring: np.ndarray | None = None

    def put(self, first: int, valid: np.ndarray | None, n: int, cap: int) -> None:
        if self.ring is None:
            if valid is None:
                return
            self.ring = np.ones(cap, dtype=bool)
        _put(self.ring, first, np.ones(n, dtype=bool) if valid is None else valid)

    def begin(self, cap: int) -> None:
        """Have a ring from now on, which says of every row so far that its value is there."""
        if self.ring is None:
            self.ring = np.ones(cap, dtype=bool)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        if self.ring is not None:
            self.ring = _regrown(self.ring, cap, lo, hi)

    def at(self, places: np.ndarray) -> np.ndarray | None:
        if self.ring is None:
            return None
        valid = self.ring[places]
        return None if valid.all() else valid

    def forget(self, places: np.ndarray) -> bool:
        """Let go of the ring if it says of all rows, those at ``places``, that their value is there."""
        if self.ring is None or not self.ring[places].all():
            return False
        self.ring = None
        return True

    def select(self, places: np.ndarray, cap: int) -> None:
        if self.ring is not None:
            valid = self.ring[places]
            self.ring = None
            if not valid.all():
                self.ring = np.ones(cap, dtype=bool)
                self.ring[: len(valid)] = valid

    @property
    def nbytes(self) -> int:
        return 0 if self.ring is None else self.ring.nbytes

    @property
    def row_bytes(self) -> int:
        return 0 if self.ring is None else 1


class WordColumn:
    """A ring of fixed-width raw words."""

    varies = False

    def __init__(self, t: pa.DataType, cap: int, width: int) -> None:
        self.type = t
        self._width = width
        dtype, shape = arrow.words_of(width)
        self._ring = np.empty((cap, *shape), dtype=dtype)
        self.valid = Validity()

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes + self.valid.nbytes

    @property
    def row_bytes(self) -> int:
        return self._ring.strides[0] + self.valid.row_bytes

    @property
    def has_nulls(self) -> bool:
        return self.valid.ring is not None

    def append(self, array: pa.Array, first: int) -> None:
        _put(self._ring, first, arrow.fixed_view(array, self._width))
        if array.null_count or self.valid.ring is not None:
            self.valid.put(first, arrow.validity(array), len(array), len(self._ring))

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._ring = _regrown(self._ring, cap, lo, hi)
        self.valid.grow(cap, lo, hi)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return arrow.fixed_array(self._ring.take(places, axis=0), self.valid.at(places), self.type)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        fresh = np.empty((cap, *self._ring.shape[1:]), dtype=self._ring.dtype)
        fresh[: len(places)] = self._ring[places]
        self._ring = fresh
        self.valid.select(places, cap)

    def trim(self, lo: int) -> None:
        pass


class ImageColumn:
    """A column whose values the store holds elsewhere, as an axis or as the key: only its nulls are kept here.

    Parameters
    ----------
    t : pa.DataType
        A type with :func:`ivjoin.shj.arrow.is_own_image`.
    source : int or None
        The axis, None for the key.
    values : weakref.WeakMethod
        Of the store, which holds this column: with a strong one the two would keep each other's memory until a search
        for circles finds them. Gives the values of a source at some places : int64[n].
    cap, width : int
    """

    varies = False

    def __init__(
        self, t: pa.DataType, source: int | None,
        values: WeakMethod[Callable[[int | None, np.ndarray], np.ndarray]], cap: int, width: int,
    ) -> None:
        self.type = t
        self.source = source
        self._values = values
        self._word = arrow.words_of(width)[0]
        self._cap = cap
        self.valid = Validity()

    @property
    def nbytes(self) -> int:
        return self.valid.nbytes

    @property
    def row_bytes(self) -> int:
        return self.valid.row_bytes

    @property
    def has_nulls(self) -> bool:
        return self.valid.ring is not None

    def append(self, array: pa.Array, first: int) -> None:
        if array.null_count or self.valid.ring is not None:
            self.valid.put(first, arrow.validity(array), len(array), self._cap)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._cap = cap
        self.valid.grow(cap, lo, hi)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        values = self._values()
        assert values is not None, "a column without its store"
        words = values(self.source, places).astype(self._word, copy=False)
        return arrow.fixed_array(words, self.valid.at(places), self.type)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        self._cap = cap
        self.valid.select(places, cap)

    def trim(self, lo: int) -> None:
        pass


class BoolColumn:
    """A ring of bools, a byte each.

    Parameters
    ----------
    t : pa.DataType
    cap : int
    record : TEXT[1], optional
        Where kernels find it.
    """

    varies = False

    def __init__(self, t: pa.DataType, cap: int, record: np.ndarray | None = None) -> None:
        self.type = t
        self.record = blank(TEXT, 1) if record is None else record
        self.record["kind"] = BITS
        self._ring = np.zeros(cap, dtype=bool)
        self.valid = Validity()

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes + self.valid.nbytes

    @property
    def row_bytes(self) -> int:
        return self._ring.strides[0] + self.valid.row_bytes

    def point(self) -> None:
        """Tell the record where everything is, after memory has moved."""
        ring = self.valid.ring
        self.record["starts"], self.record["valid"] = address(self._ring), 0 if ring is None else address(ring)

    def append(self, array: pa.Array, first: int) -> None:
        n = len(array)
        buf = array.buffers()[1]
        if n:
            bits = np.frombuffer(buf, dtype=np.uint8)
            values = np.unpackbits(bits, count=array.offset + n, bitorder="little")[array.offset :]
            _put(self._ring, first, values.view(bool))
        self.valid.put(first, arrow.validity(array), n, len(self._ring))

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._ring = _regrown(self._ring, cap, lo, hi)
        self.valid.grow(cap, lo, hi)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        valid = self.valid.at(places)
        nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
        validity = None if valid is None else arrow.bitmap(valid)
        return pa.Array.from_buffers(self.type, len(places), [validity, arrow.bitmap(self._ring[places])], nulls)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        fresh = np.zeros(cap, dtype=bool)
        fresh[: len(places)] = self._ring[places]
        self._ring = fresh
        self.valid.select(places, cap)

    def trim(self, lo: int) -> None:
        pass


class BytesColumn:
    """Strings and binaries: a ring of starts, and an arena that drops its dead front now and then.

    Starts count the bytes of all rows ever stored, so no trim rewrites them; modulo 2**32 they still tell apart what
    is in an arena of less than 4 GiB, so they take half of what a full count would. A row ends where the next one
    begins.

    Parameters
    ----------
    t : pa.DataType
    cap : int
    record : TEXT[1], optional
        Where kernels find it, and append to it.
    """

    varies = True
    _top = Register(TEXT, "top")  # where the next row starts
    _base = Register(TEXT, "base")  # the start that lies at the beginning of the arena
    _next = Register(TEXT, "next")  # id of the next row

    def __init__(self, t: pa.DataType, cap: int, record: np.ndarray | None = None) -> None:
        self.type = t
        self.record = blank(TEXT, 1) if record is None else record
        self._registers = self.record.view(np.int64)
        width = arrow.offset_width(t)
        self._wide = width == 8
        self.record["kind"], self.record["offset_width"] = BYTES, width
        self._starts = np.zeros(cap, dtype=np.uint32)
        self._arena = np.empty(256, dtype=np.uint8)
        self.valid = Validity()
        self.point()

    def point(self) -> None:
        """Tell the record where everything is, after memory has moved."""
        r, ring = self.record[0], self.valid.ring
        room = len(self._arena)
        # A kernel that fills uint32 to their end must ask first.
        r["room"] = min(room, _NARROW - 1) if self._starts.dtype == np.uint32 else room
        r["start_width"] = self._starts.itemsize
        r["starts"], r["arena"] = address(self._starts), address(self._arena)
        r["valid"] = 0 if ring is None else address(ring)

    @property
    def nbytes(self) -> int:
        return self._starts.nbytes + self._arena.nbytes + self.valid.nbytes

    @property
    def row_bytes(self) -> int:
        return self._starts.itemsize + self.valid.row_bytes

    @property
    def used(self) -> int:
        """Bytes of the arena that are in use, or dead but not given back."""
        return self._top - self._base

    @property
    def room(self) -> int:
        return len(self._arena)

    def append(self, array: pa.Array, first: int) -> None:
        piece = Bytes.of(array)
        n = len(array)
        low, high = int(piece.offsets[0]), int(piece.offsets[-1])
        used = self._top - self._base
        need = used + high - low
        self.make_room(need)
        self._arena[used:need] = piece.buffer[low:high]
        _put(self._starts, first, (piece.offsets[:-1] + (self._top - low)).astype(self._starts.dtype))
        self._top += high - low
        self._next = first + n
        self.valid.put(first, arrow.validity(array), n, len(self._starts))

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._starts = _regrown(self._starts, cap, lo, hi)
        self.valid.grow(cap, lo, hi)

    def more_room(self, need: int) -> int:
        """Bytes that ``make_room`` takes."""
        more = need + need // 4 - len(self._arena) if need > len(self._arena) else 0
        return more + (self._starts.nbytes if need >= _NARROW and self._starts.dtype == np.uint32 else 0)

    def make_room(self, need: int) -> None:
        """Room for so many bytes in the arena, those that are in it included."""
        if need >= _NARROW and self._starts.dtype == np.uint32:
            self._starts = self._offsets(self._starts).astype(np.uint64) + np.uint64(self._base)
        if need > len(self._arena):
            used = self._top - self._base
            arena = np.empty(need + need // 4, dtype=np.uint8)
            arena[:used] = self._arena[:used]
            self._arena = arena
        if need > self._registers.item(_ROOM):
            self.point()

    def _offsets(self, starts: np.ndarray) -> np.ndarray:
        """Where in the arena these starts are : int64[n]."""
        return (starts - self._starts.dtype.type(self._base % _modulus(self._starts))).astype(np.int64)

    def _spans(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where in the arena rows begin, and their bytes : int64[n] each."""
        starts = self._starts
        after = places + 1
        after[after == len(starts)] = 0
        ends = starts.take(after)
        ends[after == self._next % len(starts)] = self._top % _modulus(starts)
        begins = starts.take(places)
        return self._offsets(begins), (ends - begins).astype(np.int64)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        out = Bytes.gather(*self._spans(places), self._arena)
        offsets = out.offsets
        if not self._wide:
            if offsets[-1] > 2**31 - 1:
                raise too_much_text(int(offsets[-1]), self.type)
            offsets = offsets.astype(np.int32)
        valid = self.valid.at(places)
        nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
        validity = None if valid is None else arrow.bitmap(valid)
        return pa.Array.from_buffers(
            self.type, len(places), [validity, pa.py_buffer(offsets), pa.py_buffer(out.buffer)], nulls
        )

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        out = Bytes.gather(*self._spans(places), self._arena)
        n = len(places)
        self._base, self._top, self._next = 0, int(out.offsets[-1]), n
        self._starts = np.zeros(cap, dtype=np.uint32 if self._top < _NARROW else np.uint64)
        self._starts[:n] = out.offsets[:-1]
        self._arena = out.buffer if len(out.buffer) else np.empty(256, dtype=np.uint8)
        self.valid.select(places, cap)

    def trim(self, lo: int) -> None:
        used = self._top - self._base
        at = lo % len(self._starts)
        dead = int(self._offsets(self._starts[at : at + 1])[0]) if lo < self._next else used
        if dead * 4 >= used and dead > 2048:
            live = self._arena[dead:used]
            room = len(live) + len(live) // 4 + 256
            arena = np.empty(room, dtype=np.uint8) if room * 2 <= len(self._arena) else self._arena
            arena[: len(live)] = live.copy() if arena is self._arena else live
            self._arena = arena
            self._base += dead
            self.point()


def too_much_text(size: int, t: pa.DataType) -> CapacityError:
    """What an output column whose offsets cannot say where its bytes end is answered with."""
    return CapacityError(
        f"an output batch would hold {size:,} bytes of {t} in one column, expected 2,147,483,647 at most; use a "
        "smaller batch_size or a large_ type"
    )


def _modulus(starts: np.ndarray) -> int:
    return 1 << (8 * starts.itemsize)


class SegmentColumn:
    """Any other type: the Arrow arrays themselves, merged so that there are few of them."""

    varies = True

    def __init__(self, t: pa.DataType) -> None:
        self.type = t
        self.valid: Validity | None = None
        self._parts: list[pa.Array] = []
        self._firsts: list[int] = []
        self._next = 0

    @property
    def nbytes(self) -> int:
        # Parts may be slices of one array, whose buffers count once.
        return _held(pa.chunked_array(self._parts, self.type)) if self._parts else 0

    @property
    def row_bytes(self) -> int:
        return 0

    def append(self, array: pa.Array, first: int) -> None:
        self._parts.append(array)
        self._firsts.append(first)
        self._next = first + len(array)
        # Equal-sized neighbours merge, so n appended rows are copied O(log n) times and few parts remain.
        while len(self._parts) > 1 and len(self._parts[-2]) <= 2 * len(self._parts[-1]):
            tail = self._parts.pop()
            self._firsts.pop()
            self._parts[-1] = pa.concat_arrays([self._parts[-1], tail])

    def grow(self, cap: int, lo: int, hi: int) -> None:
        pass

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        if not len(ids) or not self._parts:
            return pa.nulls(0, self.type) if not len(ids) else pa.nulls(len(ids), self.type)
        if len(self._parts) == 1:
            return self._parts[0].take(arrow.whole_numbers(ids - self._firsts[0]))
        which = np.searchsorted(np.asarray(self._firsts), ids, side="right") - 1
        order = np.argsort(which, kind="stable")
        pieces = []
        for part in np.unique(which):
            pieces.append(self._parts[part].take(arrow.whole_numbers(ids[which == part] - self._firsts[part])))
        back = np.empty(len(ids), dtype=np.int64)
        back[order] = np.arange(len(ids))
        return pa.concat_arrays(pieces).take(arrow.whole_numbers(back))

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        kept = self.gather(ids, places)
        self._parts, self._firsts = ([kept], [0]) if len(kept) else ([], [])
        self._next = len(kept)

    def trim(self, lo: int) -> None:
        while self._parts and self._firsts[0] + len(self._parts[0]) <= lo:
            del self._parts[0], self._firsts[0]
        if self._parts:
            dead = lo - self._firsts[0]
            if dead > 1024 and dead * 2 > len(self._parts[0]):
                keep = np.arange(dead, len(self._parts[0]))
                self._parts[0] = self._parts[0].take(arrow.whole_numbers(keep))
                self._firsts[0] = lo


def text_bytes(array: pa.Array) -> int:
    """Bytes of an array's strings."""
    piece = Bytes.of(array)
    return int(piece.offsets[-1] - piece.offsets[0])


def buffer_bytes(array: pa.Array) -> int:
    """Bytes of an array's buffers."""
    return _held(pa.chunked_array([array]))


def _held(array: pa.ChunkedArray) -> int:
    try:
        return int(array.get_total_buffer_size())
    except (pa.ArrowNotImplementedError, AttributeError):
        return int(array.nbytes)
