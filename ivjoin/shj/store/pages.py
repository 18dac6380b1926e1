"""Large arrays in memory that the system maps for each of them alone.

What malloc and Arrow keep of arrays that are gone, and whether a longer one is a copy, depends on what else the process
has asked them for, and on time. Memory that is mapped for one array is the system's again as soon as the array is gone,
and grows without being copied, so what an operator holds is what it counts.
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
_HUGE = 4 << 20  # bytes from which on pages may be large, as of NumPy's own arrays
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
    """None where the system cannot move pages as Linux does; elsewhere mremap is missing or takes other arguments."""
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
    """Memory that is mapped, in NumPy's array interface.

    Parameters
    ----------
    calls : _System
    at, size : int
        Where it begins, and its bytes; it is unmapped with this.
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
        """Other pages of the same beginning, which may lie elsewhere then; whether the system has given them."""
        at = self._calls.remap(self._at, self._size, size, _MAY_MOVE)
        if at is None or at == _NOWHERE:
            return False
        self._at, self._size = at, size
        self._advise()
        return True

    def let_go(self, start: int, stop: int) -> None:
        """Whole pages among these bytes are of zeros, and no memory, until they are written."""
        start, stop = _whole(start), stop // mmap.PAGESIZE * mmap.PAGESIZE
        if start < stop:
            self._calls.advise(self._at + start, stop - start, mmap.MADV_DONTNEED)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Its beginning as an array."""
        self._used = _bytes(shape, dtype)
        return np.asarray(self).view(dtype).reshape(shape)


def paged(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """An array in pages of its own, of zeros; an empty one of NumPy's where it is small, or the system has no such."""
    dtype = np.dtype(dtype)
    size, calls = _bytes(shape, dtype), None
    if size >= LEAST and (calls := _system()) is not None:
        size = _whole(size)
        readable = mmap.PROT_READ | mmap.PROT_WRITE
        at = calls.map(None, size, readable, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if at is not None and at != _NOWHERE:
            return Pages(calls, at, size).array(shape, dtype)
    return np.empty(shape, dtype)  # or the error that there is no memory


def lengthened(array: np.ndarray, n: int) -> np.ndarray | None:
    """The same rows and room for n in all, not copied; None where an array has no pages of its own.

    The array that is given, and every view of it, is not to be used any more.
    """
    pages = _pages_of(array)
    shape = (n, *array.shape[1:])
    size = _bytes(shape, array.dtype)
    if pages is None or size < LEAST or not pages.resize(_whole(size)):
        return None
    return pages.array(shape, array.dtype)


def let_go(array: np.ndarray, start: int, stop: int) -> None:
    """Rows start to stop of an array are read no more: where it has pages of its own, they are the system's again."""
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
