"""Provide the common parts of stored columns: rings of values and of validity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivjoin.shj.store.disk.backing import fresh, in_memory
from ivjoin.shj.store.disk.pages import lengthened, let_go, paged

__all__ = ["Column", "FixedColumn", "RingColumn", "Validity", "put", "regrown", "selected", "spans"]

_AT_ONCE = 4 << 20  # bytes that are stored twice while a ring is copied


class Column(Protocol):
    """The interface of a stored column. The module ``columns`` describes the methods."""

    type: pa.DataType
    varies: bool  # whether memory depends on the stored values, in addition to the capacity

    @property
    def valid(self) -> Validity | None: ...  # None: validity is stored with the values
    @property
    def nbytes(self) -> int: ...
    @property
    def lies_in_files(self) -> bool: ...
    @property
    def row_bytes(self) -> int: ...  # bytes of its rings per row
    def append(self, array: pa.Array, first: int) -> None: ...
    def grow(self, cap: int, lo: int, hi: int) -> None: ...
    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array: ...
    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None: ...
    def trim(self, lo: int) -> None: ...


def put(ring: np.ndarray, first: int, values: np.ndarray) -> None:
    """Write values to a ring at the ids from ``first`` on, in at most two pieces."""
    at = first % len(ring)
    room = len(ring) - at
    n = len(values)
    if n <= room:
        ring[at : at + n] = values
    else:
        ring[at:] = values[:room]
        ring[: n - room] = values[room:]


def regrown(ring: np.ndarray, cap: int, lo: int, hi: int) -> np.ndarray:
    """Return a ring of another capacity with rows lo to hi. The caller must not use ``ring`` afterwards."""
    if hi <= min(cap, len(ring)):  # all rows stay at their places
        whole = lengthened(ring, cap)
        if whole is not None:
            return whole
    grown = fresh(ring, (cap, *ring.shape[1:]))
    for start, stop in spans(ring, lo, hi):
        at = start % len(ring)
        put(grown, start, ring[at : at + stop - start])
        let_go(ring, at, at + stop - start)
    return grown


def selected(ring: np.ndarray, places: np.ndarray, cap: int) -> np.ndarray:
    """Return a ring that begins with the rows at ``places``. The caller must not use ``ring`` afterwards.

    ``places`` rise, except for one fall where the ring wraps around. Memory is released behind the copy.
    """
    made = paged((cap, *ring.shape[1:]), ring.dtype)
    step = max(1, _AT_ONCE // ring.strides[0])
    wrap = int(np.argmax(places[1:] < places[:-1])) + 1 if len(places) and places[-1] < places[0] else len(places)
    for first, last in ((0, wrap), (wrap, len(places))):
        released = int(places[first]) if first < last else 0
        for start in range(first, last, step):
            some = places[start : min(start + step, last)]
            made[start : start + len(some)] = ring[some]
            passed = int(some[-1]) + 1
            let_go(ring, released, passed)
            released = passed
    return made


def spans(ring: np.ndarray, lo: int, hi: int) -> Iterator[tuple[int, int]]:
    """Cut ids lo to hi into small pieces that are each contiguous in a ring."""
    step = max(1, _AT_ONCE // ring.strides[0])
    while lo < hi:
        end = min(lo + step, hi, lo - lo % len(ring) + len(ring))
        yield lo, end
        lo = end


class Validity:
    """A ring of validity bytes, which exists only after the first NULL."""

    __slots__ = ("ring",)

    def __init__(self) -> None:
        self.ring: np.ndarray | None = None

    def put(self, first: int, valid: np.ndarray | None, n: int, cap: int) -> None:
        if self.ring is None:
            if valid is None:
                return
            self.ring = np.ones(cap, dtype=bool)
        put(self.ring, first, np.ones(n, dtype=bool) if valid is None else valid)

    def begin(self, cap: int) -> None:
        if self.ring is None:
            self.ring = np.ones(cap, dtype=bool)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        if self.ring is not None:
            self.ring = regrown(self.ring, cap, lo, hi)

    def at(self, places: np.ndarray) -> np.ndarray | None:
        if self.ring is None:
            return None
        valid = self.ring[places]
        return None if valid.all() else valid

    def forget(self, places: np.ndarray) -> bool:
        """Free the ring if all rows at ``places`` are valid. Return whether it was freed."""
        if self.ring is None or not self.ring[places].all():
            return False
        self.ring = None
        return True

    def select(self, places: np.ndarray, cap: int) -> None:
        if self.ring is not None:
            valid, old = self.ring[places], self.ring
            self.ring = None
            if not valid.all():
                self.ring = fresh(old, cap)
                self.ring[len(valid) :] = True
                self.ring[: len(valid)] = valid

    @property
    def nbytes(self) -> int:
        ring = self.ring  # read it once, because another thread may free it
        return 0 if ring is None else in_memory(ring)

    @property
    def row_bytes(self) -> int:
        return 1 if self.ring is not None and in_memory(self.ring) else 0


class FixedColumn:
    """A column whose memory depends only on the capacity, with a ring of validity."""

    varies = False
    lies_in_files = False

    def __init__(self, t: pa.DataType, valid: Validity | None = None) -> None:
        self.type = t
        self.valid = valid or Validity()

    @property
    def nbytes(self) -> int:
        return self.valid.nbytes

    @property
    def row_bytes(self) -> int:
        return self.valid.row_bytes

    def clear(self) -> None:
        """Reset the column to its initial state, with the same memory."""
        self.valid.ring = None

    def trim(self, lo: int) -> None:
        pass


class RingColumn(FixedColumn):
    _ring: np.ndarray

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes + self.valid.nbytes

    @property
    def row_bytes(self) -> int:
        return self._ring.strides[0] + self.valid.row_bytes

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._ring = regrown(self._ring, cap, lo, hi)
        self.valid.grow(cap, lo, hi)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        self._ring = selected(self._ring, places, cap)
        self.valid.select(places, cap)
