"""Large arrays in memory that the system maps for each array alone.

Freed memory of malloc and Arrow may stay allocated, and growing an array may copy it; both depend on the other
allocations of the process. Memory that is mapped for one array returns to the system with the array, and grows without
a copy. The memory that an operator counts is therefore the memory that it uses.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LEAST", "Pages", "lengthened", "let_go", "paged"]

LEAST = 1 << 20  # bytes of an array
_HUGE = 4 << 20  # bytes from which on huge pages are requested, as NumPy does
_MAY_MOVE = 1  # MREMAP_MAYMOVE of <sys/mman.h>
_NOWHERE = ctypes.c_void_p(-1).value


class _System(NamedTuple):
    """mmap(2), mremap(2), madvise(2) and munmap(2)."""

    map: Any
    remap: Any
    advise: Any
    unmap: Any


@cache
def _system() -> _System | None:
    """Return the system calls, or None where mremap is missing or differs from Linux's."""
    if sys.platform != "linux":
        return None
    size, address, number, offset = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int, ctypes.c_long
    try:
        c = ctypes.CDLL(None, use_errno=True)
        calls = _System(c.mmap, c.mremap, c.madvise, c.munmap)
    except (AttributeError, OSError, TypeError):
        return None
    calls.map.argtypes, calls.map.restype = [address, size, number, number, number, offset], address
    calls.remap.argtypes, calls.remap.restype = [address, size, size, number], address
    calls.advise.argtypes, calls.unmap.argtypes = [address, size, number], [address, size]
    return calls


class Pages:
    """Mapped memory with NumPy's array interface.

    Parameters
    ----------
    calls : _System
    at, size : int
        Its address and its bytes. It is unmapped when this object is deleted.
    """

    def __init__(self, calls: _System, at: int, size: int) -> None:
        self._calls, self._at, self._size, self._used = calls, at, size, 0
        self._advise()

    def _advise(self) -> None:
        if self._size >= _HUGE and (huge := getattr(mmap, "MADV_HUGEPAGE", None)) is not None:
            self._calls.advise(self._at, self._size, huge)

    def __del__(self) -> None:
        self._calls.unmap(self._at, self._size)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "|u1", "shape": (self._used,), "data": (self._at, False)}

    def resize(self, size: int) -> bool:
        """Change the size, which may move the memory. Return whether the system did so."""
        at = self._calls.remap(self._at, self._size, size, _MAY_MOVE)
        if at is None or at == _NOWHERE:
            return False
        self._at, self._size = at, size
        self._advise()
        return True

    def let_go(self, start: int, stop: int) -> None:
        """Release the whole pages within a range of bytes. They read as zeros and use no memory until they are written.
        """
        start, stop = _whole(start), stop // mmap.PAGESIZE * mmap.PAGESIZE
        if start < stop:
            self._calls.advise(self._at + start, stop - start, mmap.MADV_DONTNEED)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return its beginning as an array."""
        self._used = _bytes(shape, dtype)
        return np.asarray(self).view(dtype).reshape(shape)


def paged(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Return an array of zeros in pages of its own, or one of ``np.empty`` if it is small or the system lacks mremap.
    """
    dtype = np.dtype(dtype)
    size, calls = _bytes(shape, dtype), None
    if size >= LEAST and (calls := _system()) is not None:
        size = _whole(size)
        readable = mmap.PROT_READ | mmap.PROT_WRITE
        at = calls.map(None, size, readable, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if at is not None and at != _NOWHERE:
            return Pages(calls, at, size).array(shape, dtype)
    return np.empty(shape, dtype)  # raises MemoryError if there is none


def lengthened(array: np.ndarray, n: int) -> np.ndarray | None:
    """Return the same rows, not copied, with capacity for ``n`` rows; None if the array has no pages of its own.

    The caller must not use ``array`` or any view of it afterwards.
    """
    pages = _pages_of(array)
    shape = (n, *array.shape[1:])
    size = _bytes(shape, array.dtype)
    if pages is None or size < LEAST or not pages.resize(_whole(size)):
        return None
    return pages.array(shape, array.dtype)


def let_go(array: np.ndarray, start: int, stop: int) -> None:
    """Release the pages of rows start to stop, which are not read again, if the array has pages of its own."""
    pages = _pages_of(array)
    if pages is not None:
        pages.let_go(start * array.strides[0], stop * array.strides[0])


def _pages_of(array: np.ndarray) -> Pages | None:
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, Pages) else None


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _whole(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
