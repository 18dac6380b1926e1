"""Store columns of text: in an arena, or as a piece of the key."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj import arrow
from ivjoin.shj.arrow import Bytes
from ivjoin.shj.kernels.output import byte_kernels
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.registers import BYTES, TEXT, Register, blank
from ivjoin.shj.store.disk.backing import resized, slide
from ivjoin.shj.store.disk.pages import paged
from ivjoin.shj.store.values.rings import RingColumn, put

__all__ = ["BytesColumn", "KeyTextColumn", "PiecesAt", "text_array", "text_bytes", "too_much_text"]

PiecesAt = WeakMethod[Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]]
_NARROW = 2**32  # bytes of an arena that uint32 offsets can address
_MORE = 8  # an arena has 1 / _MORE of slack, and is compacted when 1 / _MORE of it is dead
_ROOM = list(TEXT.names or ()).index("room")


class KeyTextColumn:
    """Text that is not stored here, because the key table has it as a ``piece`` of the key (``ByteKeys.piece_of``)."""

    varies = False
    lies_in_files = False  # the key table accounts for its own arrays
    valid = None  # a row without a key is not stored, so a stored row has no NULL here
    nbytes = row_bytes = 0

    def __init__(self, t: pa.DataType, piece: int, spans: PiecesAt) -> None:
        self.type = t
        self.piece = piece
        self._spans = spans

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        spans = self._spans()
        assert spans is not None, "a column without its store"
        return text_array(self.type, Bytes.gather(*spans(self.piece, places)), None)

    def append(self, array: pa.Array, first: int) -> None:
        pass

    def grow(self, cap: int, lo: int, hi: int) -> None:
        pass

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        pass

    def trim(self, lo: int) -> None:
        pass


class BytesColumn(RingColumn):
    """Strings and binaries: a ring of starts, and an arena whose dead front is dropped occasionally.

    A start counts the bytes of all rows ever stored, so trimming rewrites no start. Starts are stored modulo 2**32 as
    long as the arena is smaller than 4 GiB. A row ends where the next one begins. Kernels append through ``record`` :
    TEXT[1].
    """

    varies = True
    _top = Register(TEXT, "top")  # where the next row starts
    _base = Register(TEXT, "base")  # the start that corresponds to the first byte of the arena
    _next = Register(TEXT, "next")  # id of the next row

    def __init__(self, t: pa.DataType, cap: int, record: np.ndarray | None = None) -> None:
        super().__init__(t)
        self.record = blank(TEXT, 1) if record is None else record
        self._registers = self.record.view(np.int64)
        self.record["kind"], self.record["offset_width"] = BYTES, arrow.offset_width(t)
        self._ring = np.zeros(cap, dtype=np.uint32)
        self._arena = np.empty(256, dtype=np.uint8)
        self.point()

    def take_record(self, record: np.ndarray) -> None:
        self.record, self._registers = record, record.view(np.int64)

    def point(self) -> None:
        """Write the addresses of the arrays to the record after memory has moved."""
        r, ring = self.record[0], self.valid.ring
        room = len(self._arena)
        # With one byte less, the kernel calls Python before uint32 starts overflow.
        r["room"] = min(room, _NARROW - 1) if self._ring.dtype == np.uint32 else room
        r["start_width"] = self._ring.itemsize
        r["starts"], r["arena"] = address(self._ring), address(self._arena)
        r["valid"] = 0 if ring is None else address(ring)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._arena.nbytes

    @property
    def used(self) -> int:
        """Bytes of the arena in use, including dead bytes that are not trimmed yet."""
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
        put(self._ring, first, (piece.offsets[:-1] + (self._top - low)).astype(self._ring.dtype))
        self._top += high - low
        self._next = first + n
        self.valid.put(first, arrow.validity(array), n, len(self._ring))

    def clear(self) -> None:
        super().clear()
        self._base = self._top = self._next = 0
        self.record["wanted"] = 0
        self.point()

    def more_room(self, need: int) -> int:
        more = need + need // _MORE - len(self._arena) if need > len(self._arena) else 0
        return more + (self._ring.nbytes if need >= _NARROW and self._ring.dtype == np.uint32 else 0)

    def make_room(self, need: int) -> None:
        """Reserve capacity for ``need`` bytes in the arena, including the bytes in use."""
        if need >= _NARROW and self._ring.dtype == np.uint32:
            self._ring = self._offsets(self._ring).astype(np.uint64) + np.uint64(self._base)
        if need > len(self._arena):
            self._arena = resized(self._arena, need + need // _MORE, self.used)
        if need > self._registers.item(_ROOM):
            self.point()

    def _offsets(self, starts: np.ndarray) -> np.ndarray:
        return (starts - self._ring.dtype.type(self._base % _modulus(self._ring))).astype(np.int64)

    def _spans(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where rows begin in the arena, and their lengths : int64[n] each."""
        starts = self._ring
        after = places + 1
        after[after == len(starts)] = 0
        ends = starts.take(after)
        ends[after == self._next % len(starts)] = self._top % _modulus(starts)
        begins = starts.take(places)
        return self._offsets(begins), (ends - begins).astype(np.int64)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return text_array(self.type, Bytes.gather(*self._spans(places), self._arena), self.valid.at(places))

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        starts, sizes = self._spans(places)
        n, offsets = len(places), np.zeros(len(places) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        self._base, self._top, self._next = 0, int(offsets[-1]), n
        self._ring = paged((cap,), np.uint32 if self._top < _NARROW else np.uint64)
        self._ring[:n] = offsets[:-1]
        # Ids rise, and so do their offsets. The bytes are therefore compacted in place, without a copy of the arena.
        at = address(self._arena)
        byte_kernels.gather_bytes(starts, sizes, at, at)
        self._arena = resized(self._arena, min(max(256, self._top), len(self._arena)), self._top)
        self.valid.select(places, cap)

    def trim(self, lo: int) -> None:
        used = self._top - self._base
        at = lo % len(self._ring)
        dead = int(self._offsets(self._ring[at : at + 1])[0]) if lo < self._next else used
        if dead * _MORE >= used and dead > 2048:
            live = self._arena[dead:used]
            room = len(live) + len(live) // _MORE + 256
            arena = paged((room,), np.uint8) if room * 2 <= len(self._arena) else self._arena
            slide(arena, 0, live)
            self._arena = arena
            self._base += dead
            self.point()


def text_array(t: pa.DataType, text: Bytes, valid: np.ndarray | None) -> pa.Array:
    """Return strings or binaries as an array. If they exceed what the offsets can address, raise CapacityError."""
    offsets, n = text.offsets, len(text.offsets) - 1
    if arrow.offset_width(t) == 4:
        if offsets[-1] > 2**31 - 1:
            raise too_much_text(int(offsets[-1]), t)
        offsets = offsets.astype(np.int32)
    return arrow.over_buffers(t, n, valid, pa.py_buffer(offsets), pa.py_buffer(text.buffer))


def too_much_text(size: int, t: pa.DataType) -> CapacityError:
    return CapacityError(
        f"an output batch would have {size:,} bytes of {t} in one column; expected at most 2,147,483,647. Use a "
        "smaller batch_size or a large_ type"
    )


def _modulus(starts: np.ndarray) -> int:
    return 1 << (8 * starts.itemsize)


def text_bytes(array: pa.Array) -> int:
    piece = Bytes.of(array)
    return int(piece.offsets[-1] - piece.offsets[0])
